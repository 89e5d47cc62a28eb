"""What stands of an interrupted run, so that another one measures only what is missing, on the same plan."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from specdec.benchmark.load import SELF_CHECK as SECOND_ARM
from specdec.errors import BadInputError, Mistake
from specdec.runs.record import EXACT, SELF_CHECK
from specdec.runs.seam import Seam
from specdec.text import parse_utc

if TYPE_CHECKING:
    from specdec.benchmark.load import Block
    from specdec.benchmark.plan import Plan, Target
    from specdec.prompts.sets import Prompt
    from specdec.runs.folder import Run
    from specdec.runs.manifest import RunManifest
    from specdec.runs.record import RequestRecord

SUCCEEDED = ("ok", "early-eos")

_SAME = (
    "api",
    "schedule",
    "arrival",
    "seed",
    "self_check",
    "rate",
    "ignore_eos",
    "near_ties",
    "extra_body",
    "test_cases",
)
"""Entries of the manifest's load settings that a plan has to agree with."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """The part of an interrupted run that stands.

    Attributes:
        manifest: of the interrupted run.
        records: its records that stand, in their order: of whole blocks, and warm-up.
        blocks: numbers of these blocks.
        set_aside: measured requests of torn blocks.
    """

    manifest: RunManifest
    records: tuple[RequestRecord, ...]
    blocks: frozenset[int]
    set_aside: int

    def require_models_of(self, targets: Sequence[Target]) -> None:
        """Lets a run go on only on the models that it began with.

        Raises:
            BadInputError: a target serves another one.
        """
        before = self.manifest.variants
        mistakes = [
            Mistake(
                f"target {target.variant}",
                target.model,
                f"is another model than {model}, which was measured before the interruption",
                "Serve the same model, or start a new run",
            )
            for target in targets
            if (model := before.get(target.variant, {}).get("model")) not in (None, target.model)
        ]
        if mistakes:
            raise BadInputError("resume", mistakes)

    def seam(self, blocks: Sequence[Block]) -> Seam:
        """Where the two parts meet."""
        missing = (block.number for block in blocks if block.number not in self.blocks)
        return Seam(
            run=self.manifest.run,
            records=len(self.records),
            block=next(missing, len(blocks)),
            set_aside=self.set_aside,
            ended_utc=self.manifest.ended_utc,
            problem=self.manifest.outcome,
            environment={k: v for k, v in self.manifest.environment.items() if k != "load"},
        )

    def clock_shift(self, now: datetime, clock: float) -> float:
        """Seconds to add to this machine's monotonic clock, so that one clock runs through both parts: as the
        wall clocks tell, and never before the last answer of the earlier part.

        Args:
            now: wall time.
            clock: monotonic clock at the same moment.
        """
        if not self.records:
            return 0.0
        last = max(self.records, key=lambda record: record.sent)
        passed = (now - parse_utc(last.sent_utc)).total_seconds()
        ends = (record.sent + (record.closed or 0.0) for record in self.records)
        return max(last.sent + passed, max(ends)) - clock

    def seconds(self) -> float:
        """What the blocks that stand took, the time between them left out."""
        spans: dict[int, list[RequestRecord]] = defaultdict(list)
        for record in self.records:
            spans[record.block].append(record)
        return sum(span(records) for records in spans.values())


def span(records: Sequence[RequestRecord]) -> float:
    """Seconds from the first request's sending to the last one's end."""
    if not records:
        return 0.0
    return max(r.sent + (r.closed or 0.0) for r in records) - min(r.sent for r in records)


def earlier(plan: Plan, interrupted: Run, blocks: Sequence[Block]) -> Earlier:
    """What stands of an interrupted run.

    A block stands where every variant has all of it: pairs that lie on both sides of an interruption would
    compare two machines. A request stands if it succeeded, or failed and a later one of its variant
    succeeded: what fails last belongs to the interruption.

    Args:
        plan: of the run that goes on.
        interrupted: the interrupted run.
        blocks: of the plan.

    Raises:
        BadInputError: the run is complete, or was of another plan; every difference is in the message.
    """
    manifest = interrupted.manifest
    mistakes = list(_differences(plan, interrupted, blocks))
    if mistakes:
        raise BadInputError(f"run {manifest.run}", mistakes)
    standing = _standing(interrupted.records)
    done: dict[tuple[int, str, str], int] = defaultdict(int)
    for record in standing:
        if not record.warmup:
            done[record.block, record.variant, record.lane] += 1
    begun = max((number for number, *_ in done), default=-1)

    def turns(block: Block) -> list[int]:
        """Requests that stand of each turn."""
        arms = [
            (plan.targets[0].variant, SELF_CHECK)
            if index == SECOND_ARM
            else (plan.targets[index].variant, EXACT)
            for index in block.order
        ]
        return [done[block.number, variant, lane] for variant, lane in arms]

    whole = frozenset(
        block.number
        for block in blocks
        if all(count >= len(block.jobs) for count in turns(block))
        # What is short within a load and not last was cut by the cap on its time.
        or (block.held and block.number < begun and any(turns(block)))
    )
    kept = tuple(record for record in standing if record.block in whole or record.block < 0)
    measured = sum(not record.warmup for record in interrupted.records)
    return Earlier(manifest, kept, whole, measured - sum(not record.warmup for record in kept))


def _standing(records: Sequence[RequestRecord]) -> list[RequestRecord]:
    alive: set[str] = set()
    standing: list[RequestRecord] = []
    for record in reversed(records):
        if record.outcome in SUCCEEDED:
            alive.add(record.variant)
        # What filled up a load is cancelled at the end of its block.
        if (record.outcome != "cancelled" or record.warmup) and record.variant in alive:
            standing.append(record)
    return standing[::-1]


def _differences(plan: Plan, interrupted: Run, blocks: Sequence[Block]) -> Iterator[Mistake]:
    manifest = interrupted.manifest
    if manifest.status == "complete":
        yield Mistake("run", manifest.run, "is complete", "Nothing is missing; start a new one")
        return
    remedy = "Resume on the same plan, or start a new run"
    hashes = manifest.configuration_hash, plan.configuration_hash
    if all(hashes) and hashes[0] != hashes[1]:
        yield Mistake("configuration", hashes[1], f"was {hashes[0]} before the interruption", remedy)
    names, before = [target.variant for target in plan.targets], list(manifest.variants)
    if sorted(names) != sorted(before):
        yield Mistake("targets", ", ".join(names), f"were {', '.join(before)}", remedy)
        return
    settings, now = load_settings_of(manifest), plan_settings(plan)
    for name in _SAME:
        if name in settings and settings[name] != now.get(name):
            yield Mistake(name, now.get(name), f"was {settings[name]} before the interruption", remedy)
    if settings.get("prompts_sha256", now["prompts_sha256"]) != now["prompts_sha256"]:
        yield Mistake("prompts", None, "are not those of before the interruption", remedy)
        return
    jobs = {(block.number, job.prompt.id, job.repeat): job for block in blocks for job in block.jobs}
    for record in interrupted.records:
        job = jobs.get((record.block, record.prompt, record.repeat))
        if record.block < 0 or record.lane != "exact":
            continue
        tokens = None if job is None or not job.fixed_length else job.output_tokens
        if job is None or record.requested_tokens != tokens or record.temperature != job.temperature:
            what = f"{record.prompt}, repeat {record.repeat}, block {record.block}"
            yield Mistake("records", what, "is no request of this plan", remedy)
            return


def load_settings_of(manifest: RunManifest) -> dict[str, Any]:
    """How a run was loaded, by its manifest; empty where it does not say."""
    settings: Any = manifest.environment.get("load")
    return settings if isinstance(settings, dict) else {}  # pyright: ignore[reportUnknownVariableType]


def plan_settings(plan: Plan) -> dict[str, Any]:
    """What the manifest says of a plan's load, secrets and measured lateness left out."""
    settings: dict[str, Any] = {
        "api": plan.api,
        "schedule": plan.schedule,
        "arrival": plan.arrival,
        "warmup": plan.warmup,
        "self_check": plan.self_check,
        "seed": plan.seed,
        "ignore_eos": plan.ignore_eos,
        "near_ties": plan.near_ties,
        "extra_body": plan.secrets.hide_in(plan.extra_body),
        "headers": sorted(plan.headers),
        "certificates": "any" if plan.insecure else "checked",
        "test_cases": list(dict.fromkeys(prompt.test_case for prompt in plan.prompts)),
        "prompts_sha256": prompts_digest(plan.prompts),
    }
    if plan.arrival != "closed":
        settings["rate"] = plan.rate
    if plan.seconds is not None:
        settings["seconds"] = plan.seconds
    if plan.command:
        settings["command"] = plan.command
    return settings


def prompts_digest(prompts: Sequence[Prompt]) -> str:
    """SHA-256 over everything that is sent and how it is named."""
    plain = json.dumps([asdict(prompt) for prompt in prompts], sort_keys=True, allow_nan=False)
    return hashlib.sha256(plain.encode()).hexdigest()
