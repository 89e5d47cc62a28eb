"""Checks of an experiment that uses an EKS cluster which exists."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from specdec.catalog.addons import ADDONS
from specdec.errors import Mistake
from specdec.experiment.registry import check

if TYPE_CHECKING:
    from specdec.experiment.fields import Cluster, Placement

_OF_THE_CLUSTER = ("cluster_security_group_id", "kubectl_role_arn", "cluster_has_neuron")
_OF_A_NEW_ONE = ("public_access_cidrs", "admin_principal_arns", "viewer_principal_arns")
"""Settings of ``cluster`` that are the owners' to make in a cluster that exists."""


@check
def _existing_cluster(
    regions: tuple[str, ...], placement: dict[str, Placement], cluster: Cluster
) -> Iterator[Mistake]:
    places = {region: placement[region] for region in dict.fromkeys(regions) if region in placement}
    for region, place in places.items():
        if place.cluster_name is None:
            yield from _without(region, place)
        else:
            yield from _with(region, place)
    if places and all(place.cluster_name is not None for place in places.values()):
        for name in _OF_A_NEW_ONE:
            if getattr(cluster, name):
                yield Mistake(
                    f"cluster.{name}",
                    list(getattr(cluster, name)),
                    "has no effect in a cluster that exists",
                    "Remove it; who gets in is for the cluster's owners to say",
                )


def _without(region: str, place: Placement) -> Iterator[Mistake]:
    for name in _OF_THE_CLUSTER:
        if getattr(place, name):
            yield Mistake(
                f"placement.{region}.{name}",
                getattr(place, name),
                "is about a cluster that exists, and none is named",
                f"Add placement.{region}.cluster_name, or remove it",
            )


def _with(region: str, place: Placement) -> Iterator[Mistake]:
    for name, what in (("vpc_id", "the cluster's VPC"), ("cluster_security_group_id", "the group EKS made")):
        if getattr(place, name) is None:
            yield Mistake(
                f"placement.{region}.{name}",
                None,
                "is missing beside cluster_name",
                f"Name {what}: aws eks describe-cluster --name {place.cluster_name} --region {region}",
            )
    unknown = sorted(set(place.cluster_addons) - set(ADDONS))
    if unknown:
        yield Mistake(
            f"placement.{region}.cluster_addons",
            unknown,
            "are no add-ons of the stack",
            f"Use {', '.join(sorted(ADDONS))}; others are left alone anyway",
        )
