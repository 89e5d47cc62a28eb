"""What hands out Neuron devices to pods."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

from specdec.catalog.sources import NEURON_CHART, NEURON_CHART_IMAGES, NEURON_CHART_VERSION

Allocation = Literal["dra", "device-plugin"]


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

    Args:
        scope: parent construct.
        construct_id: construct id.
        cluster: where it goes.
        allocation: which of the two.
        chart: where Neuron's chart is pulled from.
        image: where an image of the chart is pulled from.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: eks.ICluster,
        allocation: Allocation,
        chart: str = NEURON_CHART,
        image: Callable[[str], str] = str,
    ) -> None:
        super().__init__(scope, construct_id)
        release = RELEASES[allocation]
        eks.HelmChart(
            self,
            "Chart",
            cluster=cluster,
            repository=chart,
            chart="neuron-helm-chart",
            version=NEURON_CHART_VERSION,
            release="neuron",
            namespace=release.namespace,
            create_namespace=release.namespace != "kube-system",
            values=_with_images(release.values, allocation, image),
        )


def _with_images(
    values: Mapping[str, Any], allocation: Allocation, image: Callable[[str], str]
) -> Mapping[str, Any]:
    """The values with the images that are pulled from elsewhere than the chart says."""
    changed = copy.deepcopy(dict(values))
    for keys, name in NEURON_CHART_IMAGES[allocation].items():
        mirrored = image(name)
        if mirrored == name:
            continue
        place = changed
        for key in keys:
            place = place.setdefault(key, {})
        repository, _, tag = mirrored.rpartition(":")
        place["image"] = {"repository": repository, "tag": tag}
    return changed
