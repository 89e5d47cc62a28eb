"""Lets the benchmark serve one variant at a time: it may scale the variants' Deployments, and no more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cdk8s
from cdk8s_plus_27 import k8s
from constructs import Construct

from charts.names import BENCHMARK, NAMESPACE, labels
from charts.objects import metadata

if TYPE_CHECKING:
    from specdec.experiment.fields import Experiment

NAME = "benchmark-phases"


class PhaseAccess(cdk8s.Chart):
    """A Role over the ``scale`` of the variants' Deployments by name, bound to the benchmark's account.

    ``get`` and ``patch`` of the subresource change nothing but the number of replicas (Kubernetes API,
    autoscaling/v1 Scale).
    """

    def __init__(self, scope: Construct, id_: str, *, experiment: Experiment) -> None:
        super().__init__(scope, id_, disable_resource_name_hashes=True)
        selector = labels("llmperf", BENCHMARK)
        k8s.KubeRole(
            self,
            "role",
            metadata=metadata(NAME, selector),
            rules=[
                k8s.PolicyRule(
                    api_groups=["apps"],
                    resources=["deployments/scale"],
                    resource_names=[variant.service for variant in experiment.variants],
                    verbs=["get", "patch"],
                )
            ],
        )
        k8s.KubeRoleBinding(
            self,
            "binding",
            metadata=metadata(NAME, selector),
            role_ref=k8s.RoleRef(api_group="rbac.authorization.k8s.io", kind="Role", name=NAME),
            subjects=[k8s.Subject(kind="ServiceAccount", name=BENCHMARK, namespace=NAMESPACE)],
        )
