"""Adds a region to an experiment file as text: comments, order and spelling of everything else stay as they
are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tomlkit

from specdec.errors import BadInputError, Mistake

if TYPE_CHECKING:
    from collections.abc import Sequence

    from specdec.experiment.fields import Experiment


def with_region(
    text: str, *, region: str, zone: str, zones: Sequence[str] = (), reservation_id: str | None = None
) -> str:
    """The experiment file with one region more.

    Args:
        text: the file as it is; it must be a valid experiment.
        region: the region to add; one that is there already gets no second entry.
        zone: zone of its accelerator nodes.
        zones: zones of its network, where the catalogue does not know them.
        reservation_id: reservation or Capacity Block in that zone, where capacity is bought so.
    """
    document = tomlkit.parse(text)
    regions: Any = document["regions"]
    if region not in regions:
        regions.append(region)
    if "placement" not in document:
        document["placement"] = tomlkit.table(is_super_table=True)
    placement: Any = document["placement"]
    if region not in placement:
        place = tomlkit.table()
        place.add("zone", zone)
        if zones:
            place.add("zones", list(zones))
        if reservation_id is not None:
            place.add("reservation_id", reservation_id)
        placement.add(region, place)
    return tomlkit.dumps(document)


def source_of(experiment: Experiment, region: str) -> str:
    """The region that weights and artifacts are copied from: the experiment's first other one.

    Raises:
        BadInputError: there is no other region.
    """
    for name in experiment.regions:
        if name != region:
            return name
    raise BadInputError(
        "experiment",
        [
            Mistake(
                "regions",
                list(experiment.regions),
                f"names no other region to copy to {region} from",
                "Add the region to copy from",
            )
        ],
    )
