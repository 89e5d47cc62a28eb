"""The driver that offers Neuron devices to the scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

if TYPE_CHECKING:
    from collections.abc import Mapping

CHART = "oci://public.ecr.aws/neuron/neuron-helm-chart"
CHART_VERSION = "1.10.0"
"""Pinned: without a version the CDK's own handler asks for one named "None" and fails in the middle of a deployment."""

DRA_NAMESPACE = "neuron-dra-driver"

VALUES: Mapping[str, Mapping[str, object]] = {
    "draDriver": {"enabled": True},
    # The chart turns these two on or off by itself in other ways from one release to the next; a node can serve devices in one way only.
    "devicePlugin": {"enabled": False},
    "scheduler": {"enabled": False},
    # It writes into a namespace that the chart does not create.
    "npd": {"enabled": False},
}


class NeuronDevices(Construct):
    """Neuron devices by Dynamic Resource Allocation: the driver, its DeviceClass ``neuron.aws.com``, and nothing else of the chart."""

    def __init__(self, scope: Construct, construct_id: str, *, cluster: eks.ICluster) -> None:
        super().__init__(scope, construct_id)
        eks.HelmChart(
            self,
            "Chart",
            cluster=cluster,
            repository=CHART,
            chart="neuron-helm-chart",
            version=CHART_VERSION,
            release="neuron",
            namespace=DRA_NAMESPACE,
            create_namespace=True,
            values=VALUES,
        )
