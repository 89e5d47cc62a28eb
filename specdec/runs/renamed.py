"""A run whose variants get other names, so that it can be compared with a run that names them differently."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from specdec.errors import BadInputError, Mistake
from specdec.runs.folder import Run


def renamed(run: Run, names: Mapping[str, str]) -> Run:
    """The run with other names of variants.

    Args:
        run: as it was measured.
        names: name in the run to the name it is to have.

    Raises:
        BadInputError: the run has no such variant, or two would have one name.
    """
    known = list(run.manifest.variants)
    mistakes = [
        Mistake("--rename", name, f"is not a variant of run {run.manifest.run}", f"Use {', '.join(known)}")
        for name in names
        if name not in known
    ]
    after = [names.get(name, name) for name in known]
    mistakes += [
        Mistake("--rename", name, "would name two variants", "Rename the other too")
        for name in sorted({name for name in after if after.count(name) > 1})
    ]
    if mistakes:
        raise BadInputError("command line", mistakes)

    def of(name: str) -> str:
        return names.get(name, name)

    def keys(values: Mapping[str, Any]) -> dict[str, Any]:
        return {of(name): value for name, value in values.items()}

    manifest = run.manifest
    listed: list[dict[str, Any]] = manifest.configuration.get("variants", [])
    configuration = {
        **manifest.configuration,
        "variants": [own | {"name": of(str(own["name"]))} if "name" in own else own for own in listed],
    }
    return Run(
        run.folder,
        replace(
            manifest,
            configuration=configuration,
            variants=keys(manifest.variants),
            counts=keys(manifest.counts),
            server_counters=keys(manifest.server_counters),
            points=tuple(replace(point, variant=of(point.variant)) for point in manifest.points),
        ),
        tuple(replace(record, variant=of(record.variant)) for record in run.records),
    )
