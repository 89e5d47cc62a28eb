"""The namespace, who runs in it, and who may talk to whom."""

from __future__ import annotations

import cdk8s
from cdk8s_plus_27 import k8s
from constructs import Construct

from charts.names import BENCHMARK, NAMESPACE, SERVER, STAGER


class Namespace(cdk8s.Chart):
    """Namespace ``specdec``, its service accounts, and a policy that refuses all traffic into pods that no
    other policy allows.

    The service accounts hold no Kubernetes rights and no token; their IAM roles come from Pod Identity
    associations. The baseline pod security level is enforced; ``restricted`` would refuse the Neuron image,
    which runs as root.
    """

    def __init__(self, scope: Construct, id_: str) -> None:
        super().__init__(scope, id_, disable_resource_name_hashes=True)
        k8s.KubeNamespace(
            self,
            "namespace",
            metadata=k8s.ObjectMeta(
                name=NAMESPACE,
                labels={
                    "app.kubernetes.io/part-of": "specdec",
                    "pod-security.kubernetes.io/enforce": "baseline",
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
