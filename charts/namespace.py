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
    """Namespace ``specdec``, its service accounts, and policies against all traffic that no other policy
    allows.

    The service accounts have their IAM roles from Pod Identity associations. One has rights in Kubernetes:
    the benchmark lists the pods of this namespace and reads nodes, to keep with a run what it ran on; where
    one service is up after the other it scales them too (``phase_access``). Pods that break the
    ``restricted`` level are admitted, with warnings and an entry in the audit log.
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
        self._benchmark_reads()
        k8s.KubeNetworkPolicy(
            self,
            "no-ingress",
            metadata=k8s.ObjectMeta(name="no-ingress", namespace=NAMESPACE),
            spec=k8s.NetworkPolicySpec(pod_selector=k8s.LabelSelector(), policy_types=["Ingress"]),
        )
        servers = k8s.NetworkPolicyPeer(pod_selector=_component("server"))
        to_servers = k8s.NetworkPolicyEgressRule(to=[servers], ports=ports(TCP, PORT))
        for component, more in ((STAGER, []), (BENCHMARK, [to_servers, *_kubernetes_api(vpc_cidr)])):
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

    def _benchmark_reads(self) -> None:
        """Nodes belong to no namespace, so reading one is a right in the whole cluster."""
        subject = k8s.Subject(kind="ServiceAccount", name=BENCHMARK, namespace=NAMESPACE)
        pods = k8s.PolicyRule(api_groups=[""], resources=["pods"], verbs=["list"])
        nodes = k8s.PolicyRule(api_groups=[""], resources=["nodes"], verbs=["get"])
        own = k8s.ObjectMeta(name=BENCHMARK, namespace=NAMESPACE)
        everywhere = k8s.ObjectMeta(name=f"{NAMESPACE}-{BENCHMARK}")
        group = "rbac.authorization.k8s.io"
        k8s.KubeRole(self, "reads-pods", metadata=own, rules=[pods])
        k8s.KubeRoleBinding(
            self,
            "may-read-pods",
            metadata=own,
            role_ref=k8s.RoleRef(api_group=group, kind="Role", name=BENCHMARK),
            subjects=[subject],
        )
        k8s.KubeClusterRole(self, "reads-nodes", metadata=everywhere, rules=[nodes])
        k8s.KubeClusterRoleBinding(
            self,
            "may-read-nodes",
            metadata=everywhere,
            role_ref=k8s.RoleRef(api_group=group, kind="ClusterRole", name=f"{NAMESPACE}-{BENCHMARK}"),
            subjects=[subject],
        )


def _kubernetes_api(vpc_cidr: str | None) -> list[k8s.NetworkPolicyEgressRule]:
    """The API endpoint has its addresses in the VPC; where the range is not ours to know, HTTPS is open."""
    if vpc_cidr is None:
        return []
    peer = k8s.NetworkPolicyPeer(ip_block=k8s.IpBlock(cidr=vpc_cidr))
    return [k8s.NetworkPolicyEgressRule(to=[peer], ports=ports(TCP, 443))]


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
