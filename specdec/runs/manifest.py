"""What a run was, as stored in ``manifest.json``."""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from typing_extensions import TypedDict

from specdec.runs import strict
from specdec.runs.point import Point
from specdec.runs.seam import Seam
from specdec.text import json_of

if TYPE_CHECKING:
    from specdec.experiment.fields import Experiment

MANIFEST = "manifest.json"
"""Name of the file in a run folder. It is written last: a folder without it is not a finished run."""

STARTED = "started.json"
"""A manifest as far as it is known at the start, there until ``manifest.json`` is: what a killed run was."""

SERVER_PRICE = "server_usd_per_hour"
"""Entry of ``environment``: what servers cost an hour, where the user said so: a number for all of them, or
an object of numbers by variant."""

REQUESTS = "requests"
"""Entry of ``environment["load"]``: requests of the whole plan, warm-up included; absent where time or
several clients say how many there are."""

SCHEMA = 1

Status = Literal["complete", "interrupted", "failed"]

_OPEN = {"strict": True, "extra": "allow"}


class MeasuredVariant(TypedDict, total=False):
    """One variant as it was measured: base URL, role, name of the model that was asked for; mode, draft and
    window, None for a baseline or where not known; and, where the server tells, ``owned_by`` of the served
    model, its longest context, and what its template makes of a conversation.
    """

    __pydantic_config__ = _OPEN  # pyright: ignore[reportGeneralTypeIssues]

    url: str
    role: Literal["baseline", "speculative"]
    model: str | None
    mode: str | None
    draft: str | None
    window: int | None
    engine: str | None
    max_model_len: int | None
    template: str | None


@dataclass(frozen=True, kw_only=True)
class RunManifest:
    """The description of a run. It is written last: a folder without it is not a finished run.

    Attributes:
        run: run id, ``YYYYmmddTHHMMSSZ-<6 hex>``.
        status: only ``complete`` may lead to a verdict.
        experiment: experiment name.
        configuration: the resolved experiment as plain data.
        configuration_hash: hash over ``configuration``, 12 hex digits.
        started_utc, ended_utc: ISO 8601 with Z.
        environment: version of specdec, machine, versions, engine, what was emulated: plain data.
        variants: by variant name.
        counts: records by variant and outcome, warm-up left out: ``{"baseline": {"ok": 24}}``.
        server_counters: per variant, differences of the server's speculation counters over the run, since its
            last seam if it has one, or None where not reported.
        records_sha256: of ``records.jsonl``.
        problem: what ended a run that is not ``complete``, for a person to read.
        dropped: request fields that a server did not know, left out for every variant.
        points: what became of each load and variant, where the run had several loads.
        seams: where the run was interrupted and resumed, in order.
    """

    __pydantic_config__ = strict.CONFIG

    run: str
    status: Status
    experiment: str
    configuration: dict[str, Any]
    configuration_hash: str
    started_utc: str
    ended_utc: str
    environment: dict[str, Any]
    variants: dict[str, MeasuredVariant]
    counts: dict[str, dict[str, int]]
    server_counters: dict[str, dict[str, Any] | None]
    records_sha256: str
    problem: str | None = None
    dropped: tuple[str, ...] = ()
    points: tuple[Point, ...] = ()
    seams: tuple[Seam, ...] = ()
    schema: int = SCHEMA

    def to_json(self) -> str:
        """The whole of ``manifest.json``."""
        return json_of(dataclasses.asdict(self), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> RunManifest:
        """Reads ``manifest.json`` back.

        Raises:
            OtherSchemaError: another schema.
            ValueError: not JSON, or a field missing, unknown or of another type.
        """
        return strict.read(cls, text, "manifest", SCHEMA)

    @property
    def version(self) -> str | None:
        """Version of specdec that measured it; None for a run of 0.1.0 or a killed one, which do not say."""
        version = self.environment.get("specdec")
        return version if isinstance(version, str) else None

    @property
    def outcome(self) -> str:
        """How the run ended: ``complete``, or ``interrupted`` or ``failed`` with the reason behind it."""
        return self.status if self.problem is None else f"{self.status}: {self.problem}"

    @functools.cached_property
    def configured(self) -> Experiment | None:
        """The experiment that ``configuration`` is. None where the run had none, as a `bench` without
        ``--experiment``, or where its fields are not those of this version.
        """
        from pydantic import ValidationError

        from specdec.experiment.fields import Experiment

        try:
            return Experiment.model_validate_json(json_of(self.configuration))
        except ValidationError:
            return None
