"""The namespace, who runs in it, and who may talk to whom."""

from __future__ import annotations

from collections.abc import Sequence

import cdk8s
from cdk8s_plus_27 import k8s
from constructs import Construct

from charts.names import BENCHMARK, NAMESPACE, PORT, SERVER, STAGER
from charts.objects import TCP, UDP, ports

POD_IDENTITY = "169.254.170.23/32"
"""Where the Pod Identity agent answers (EKS user guide, "Pod Identity agent")."""

LEVELS = {"strict": "baseline", "capabilities": "privileged", "privileged": "privileged"}
"""Pod security level that lets a server in, by ``serving.security``: ``baseline`` knows neither IPC_LOCK nor
SYS_NICE. ``restricted`` would refuse the Neuron image, which runs as root.
"""


class Namespace(cdk8s.Chart):
    """Namespace ``specdec``, its service accounts, and policies for all traffic that no other policy allows.

    The service accounts hold no Kubernetes rights and no token; their IAM roles come from Pod Identity
    associations. What breaks the ``restricted`` level is let in, and told by warnings and in the audit log.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        security: str,
        vpc_cidr: str | None,
        open_ports: Sequence[int] = (),
    ) -> None:
        super().__init__(scope, id_, disable_resource_name_hashes=True)
        level = "pod-security.kubernetes.io"
        k8s.KubeNamespace(
            self,
            "namespace",
            metadata=k8s.ObjectMeta(
                name=NAMESPACE,
                labels={
                    "app.kubernetes.io/part-of": "specdec",
                    f"{level}/enforce": LEVELS[security],
                    f"{level}/warn": "restricted",
                    f"{level}/audit": "restricted",
                },
            ),
        )
        for account in (SERVER, STAGER, BENCHMARK):
            k8s.KubeServiceAccount(
                self,
                account,
                metadata=k8s.ObjectMeta(name=account, namespace=NAMESPACE),
                automount_service_account_token=False,
            )
        k8s.KubeNetworkPolicy(
            self,
            "no-ingress",
            metadata=k8s.ObjectMeta(name="no-ingress", namespace=NAMESPACE),
            spec=k8s.NetworkPolicySpec(pod_selector=k8s.LabelSelector(), policy_types=["Ingress"]),
        )
        servers = k8s.NetworkPolicyPeer(pod_selector=_component("server"))
        for component, more in (
            (STAGER, []),
            (BENCHMARK, [k8s.NetworkPolicyEgressRule(to=[servers], ports=ports(TCP, PORT))]),
        ):
            k8s.KubeNetworkPolicy(
                self,
                f"{component}-egress",
                metadata=k8s.ObjectMeta(name=f"{component}-egress", namespace=NAMESPACE),
                spec=k8s.NetworkPolicySpec(
                    pod_selector=_component(component),
                    policy_types=["Egress"],
                    egress=[*_outside(vpc_cidr, open_ports), *more],
                ),
            )


def _component(name: str) -> k8s.LabelSelector:
    return k8s.LabelSelector(match_labels={"app.kubernetes.io/component": name})


def _outside(vpc_cidr: str | None, open_ports: Sequence[int]) -> list[k8s.NetworkPolicyEgressRule]:
    """Names, credentials, and HTTPS to what is not in the range: AWS, the model hub, package indexes; and the
    ports of mirrors.
    """
    system = k8s.LabelSelector(match_labels={"kubernetes.io/metadata.name": "kube-system"})
    names = k8s.LabelSelector(match_labels={"k8s-app": "kube-dns"})
    public = k8s.IpBlock(cidr="0.0.0.0/0", except_=[*([vpc_cidr] if vpc_cidr else []), "169.254.0.0/16"])
    return [
        k8s.NetworkPolicyEgressRule(
            to=[k8s.NetworkPolicyPeer(namespace_selector=system, pod_selector=names)],
            ports=[*ports(UDP, 53), *ports(TCP, 53)],
        ),
        k8s.NetworkPolicyEgressRule(
            to=[k8s.NetworkPolicyPeer(ip_block=k8s.IpBlock(cidr=POD_IDENTITY))], ports=ports(TCP, 80)
        ),
        k8s.NetworkPolicyEgressRule(
            to=[k8s.NetworkPolicyPeer(ip_block=public)],
            ports=[port for number in sorted({443, *open_ports}) for port in ports(TCP, number)],
        ),
    ]
