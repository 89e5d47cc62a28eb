"""What hands out Neuron devices to pods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

Allocation = Literal["dra", "device-plugin"]

CHART = "oci://public.ecr.aws/neuron/neuron-helm-chart"
CHART_VERSION = "1.10.0"
"""Pinned, and always given: without a version the CDK's handler asks for one named "None" and fails in the
middle of a deployment.
"""


@dataclass(frozen=True, slots=True)
class Release:
    """How the chart is installed for one kind of allocation.

    Attributes:
        namespace: where it goes; that of the driver is the one it is documented in.
        values: every switch of the chart is set, because two of them are on by default and exclude each other
            on a node.
    """

    namespace: str
    values: Mapping[str, Any]


# The node problem detector stays off: it writes to a namespace that the chart does not make.
RELEASES: Mapping[Allocation, Release] = {
    "dra": Release(
        "neuron-dra-driver",
        {
            "draDriver": {"enabled": True},
            "devicePlugin": {"enabled": False},
            "scheduler": {"enabled": False},
            "npd": {"enabled": False},
        },
    ),
    "device-plugin": Release(
        "kube-system",
        {
            "draDriver": {"enabled": False},
            "devicePlugin": {"enabled": True},
            "scheduler": {"enabled": True},
            "npd": {"enabled": False},
        },
    ),
}


class NeuronDevices(Construct):
    """Neuron devices by Dynamic Resource Allocation, with the DeviceClass ``neuron.aws.com``; or the device
    plugin and its scheduler.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, cluster: eks.ICluster, allocation: Allocation
    ) -> None:
        super().__init__(scope, construct_id)
        release = RELEASES[allocation]
        eks.HelmChart(
            self,
            "Chart",
            cluster=cluster,
            repository=CHART,
            chart="neuron-helm-chart",
            version=CHART_VERSION,
            release="neuron",
            namespace=release.namespace,
            create_namespace=release.namespace != "kube-system",
            values=release.values,
        )
