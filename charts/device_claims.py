"""How a service gets its neighbouring Neuron devices.

With Dynamic Resource Allocation each pod makes a claim from a template; with the device plugin it asks for an
extended resource. The 1.27 schema behind cdk8s-plus-27 has neither ``exactly`` nor
``resourceClaimTemplateName``, so both are plain data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cdk8s

from charts.names import NAMESPACE, short_hash

if TYPE_CHECKING:
    from constructs import Construct

    from specdec.experiment.fields import Experiment

DRIVER = "neuron.aws.com"
REQUEST = "neurons"


def claim_spec(experiment: Experiment, devices: int) -> dict[str, Any]:
    """``spec`` of a claim for ``devices`` neighbouring devices at the experiment's logical core size.

    Source: Neuron docs, deploy/eks/dra.rst (2026-06-05). A whole node needs no constraint, a single device
    has no neighbours.
    """
    attributes = {
        "topology": f"{DRIVER}/topology{devices}_id",
        "devicegroup": f"resource.aws.com/devicegroup{devices}_id",
    }
    neighbours = experiment.serving.neighbours
    instance = experiment.instance
    constrained = neighbours != "none" and instance.has_neighbours(devices)
    return {
        "devices": {
            "requests": [
                {
                    "name": REQUEST,
                    "exactly": {
                        "deviceClassName": DRIVER,
                        "allocationMode": "ExactCount",
                        "count": devices,
                        "selectors": [
                            {
                                "cel": {
                                    "expression": (
                                        f"device.attributes['{DRIVER}'].instanceType == '{instance.type}'"
                                    )
                                }
                            }
                        ],
                    },
                }
            ],
            **(
                {"constraints": [{"requests": [REQUEST], "matchAttribute": attributes[neighbours]}]}
                if constrained
                else {}
            ),
            "config": [
                {
                    "requests": [REQUEST],
                    "opaque": {
                        "driver": DRIVER,
                        "parameters": {
                            "apiVersion": f"{DRIVER}/v1",
                            "kind": "NeuronConfig",
                            "logicalNeuronCore": experiment.serving.logical_core_size,
                        },
                    },
                }
            ],
        }
    }


def claim_template(experiment: Experiment, devices: int) -> str:
    """Name of the template: its spec cannot be changed, so another spec is another name."""
    return f"neuron-{devices}-{short_hash(claim_spec(experiment, devices))}"


def pod_devices(experiment: Experiment, devices: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a pod that uses ``devices`` adds to its spec, and to the resources of the container that uses
    them.
    """
    if experiment.serving.allocation == "dra":
        claim = {"name": REQUEST, "resourceClaimTemplateName": claim_template(experiment, devices)}
        return {"resourceClaims": [claim]}, {"claims": [{"name": REQUEST}]}
    # The chart's own scheduler places the devices of one pod next to each other; the default scheduler does
    # not.
    amount = {"aws.amazon.com/neuron": str(devices)}
    return {"schedulerName": "my-scheduler"}, {"requests": amount, "limits": amount}


class DeviceClaims(cdk8s.Chart):
    """One ``ResourceClaimTemplate`` for each number of devices that a variant asks for."""

    def __init__(self, scope: Construct, id_: str, *, experiment: Experiment) -> None:
        super().__init__(scope, id_, disable_resource_name_hashes=True)
        for devices in sorted({experiment.settings(variant).devices for variant in experiment.variants}):
            template = cdk8s.ApiObject(
                self,
                f"claim-{devices}",
                api_version="resource.k8s.io/v1",
                kind="ResourceClaimTemplate",
                metadata=cdk8s.ApiObjectMetadata(
                    name=claim_template(experiment, devices), namespace=NAMESPACE
                ),
            )
            template.add_json_patch(cdk8s.JsonPatch.add("/spec", {"spec": claim_spec(experiment, devices)}))
