"""Asks the variants of a run for answers beside its measured part: many short ones to one prompt, or one to
each task. Times mean nothing here, so all variants are asked at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from specdec import atomic, interrupts
from specdec.benchmark.client import Client
from specdec.benchmark.fields import Fields
from specdec.benchmark.meeting import ALONE
from specdec.benchmark.plan import Job, Plan, Target
from specdec.benchmark.remedies import remedy
from specdec.errors import BadInputError, Mistake, SpecdecError
from specdec.prompts.sets import Prompt
from specdec.runs.folder import Run
from specdec.runs.record import RequestRecord

GIVE_UP_AFTER = 8
"""Requests to one variant that fail in a row before asking ends."""

SEEDS_APART = 1_000_000
"""Between the seeds of two variants: with the same ones their answers would not be independent."""

SAMPLING = "sampling"
"""Lane of short answers to one prompt, id and test case of the prompt, and name of their file."""

SAMPLING_PROMPT = "Write one short sentence about something that happened today."

SHORT_ANSWERS = 600
"""Short answers of each variant: what ``scripts/prove_sampling.py`` needs to find a verifier that samples at
temperature 0.7 for 1.0 in 90% of trials."""

SHORT_TOKENS = 12
"""Tokens of a short answer: eight words and signs, most of the time."""


def sampling_prompt(text: str = SAMPLING_PROMPT) -> Prompt:
    """The prompt that many short answers are asked for."""
    return Prompt(id=SAMPLING, test_case=SAMPLING, prompt_class="open", text=text)


def plan_of(
    run: Run, prompts: Sequence[Prompt], *, addresses: Mapping[str, str] | None = None, **changes: Any
) -> Plan:
    """A plan that asks the variants of a stored run as it asked them.

    Args:
        run: finished.
        prompts: what to ask now.
        addresses: base URLs by variant, for servers that are reached another way now.
        changes: other fields of the plan.

    Raises:
        BadInputError: an address for a variant that the run does not have, or a variant without an address.
    """
    known = run.manifest.variants
    strange = sorted((addresses or {}).keys() - known.keys())
    if strange:
        remedy_ = f"Use {', '.join(known)}"
        raise BadInputError(
            "command line",
            [Mistake("--target", name, "is no variant of the run", remedy_) for name in strange],
        )
    urls = {name: (addresses or {}).get(name) or facts.get("url", "") for name, facts in known.items()}
    asked = next((record for record in run.records if record.lane == "exact"), None)
    load: dict[str, Any] = run.manifest.environment.get("load") or {}
    ordered = sorted(known, key=lambda name: known[name].get("role") != "baseline")
    fields: dict[str, Any] = {
        "thinking": None if asked is None else asked.thinking,
        "api": load.get("api", "chat"),
        "extra_body": load.get("extra_body") or {},
        "concurrency": 4 if asked is None else asked.concurrency,
        "ignore_eos": False,
    }
    return Plan(
        run=run.manifest.run,
        experiment=run.manifest.experiment,
        configuration={},
        configuration_hash="",
        targets=tuple(
            Target(
                variant=name,
                url=urls[name],
                role=known[name].get("role", "speculative"),
                model=known[name].get("model"),
                window=known[name].get("window"),
                engine=known[name].get("engine"),
            )
            for name in ordered
        ),
        prompts=tuple(prompts),
        **(fields | changes),
    )


def plan_after(run: Run, plan: Plan, prompts: Sequence[Prompt], **changes: Any) -> Plan:
    """A plan that asks the servers of a run just measured for something else, and measures nothing.

    Args:
        run: what was measured.
        plan: of that run.
        prompts: what to ask now.
        changes: other fields of the plan.
    """
    served = run.manifest.variants
    return replace(
        plan,
        targets=tuple(
            replace(target, model=served[target.variant].get("model"), expected=None)
            for target in plan.targets
        ),
        prompts=tuple(prompts),
        ignore_eos=False,
        near_ties=False,
        schedule="alternate",
        arrival="closed",
        rate=None,
        loads=(),
        self_check=0.0,
        seconds=None,
        share=ALONE,
        **changes,
    )


def repeated(plan: Plan) -> tuple[Job, ...]:
    """One job for each prompt and repeat of a plan."""
    return tuple(plan.job(prompt, repeat, 0) for repeat in range(plan.repeats) for prompt in plan.prompts)


def ask(
    plan: Plan,
    jobs: Sequence[Job],
    path: Path,
    *,
    lane: str,
    dropped: Sequence[str] = (),
    on_progress: Callable[[int, int], None] = lambda _done, _total: None,
    most_seconds: float | None = None,
) -> None:
    """Asks every variant every job, and writes each answer to ``path`` when it has come.

    Ctrl-C ends it, and so does the end of its time; what has come is kept.

    Args:
        plan: see ``plan_of``.
        jobs: what to ask.
        path: file of records; what it held is replaced.
        lane: of the records.
        dropped: request fields that a server of the run did not know.
        on_progress: told of how many of how many answers have come.
        most_seconds: after which it ends; None for no limit.

    Raises:
        SpecdecError: a server does not answer.
        EnvironmentFault: the file cannot be written.
    """
    fields = Fields()
    fields.dropped = list(dropped)
    try:
        with path.open("w", encoding="utf-8") as file:
            interrupts.run(_within(most_seconds, _ask(plan, jobs, file, lane, fields, on_progress)))
    except OSError as error:
        raise atomic.unwritable(path, error, remedy="Free some space, or allow writing there") from None


async def _within(seconds: float | None, asking: Coroutine[None, None, None]) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await asking


async def _ask(
    plan: Plan,
    jobs: Sequence[Job],
    file: IO[str],
    lane: str,
    fields: Fields,
    on_progress: Callable[[int, int], None],
) -> None:
    tls = plan.tls()
    clients = [Client(target, plan.timeouts, plan.headers, fields=fields, tls=tls) for target in plan.targets]
    total, done = len(jobs) * len(clients), 0

    def keep(record: RequestRecord) -> None:
        nonlocal done
        file.write(plan.secrets.hide_in_record(replace(record, lane=lane)).to_json() + "\n")
        file.flush()
        done += 1
        on_progress(done, total)

    on_progress(0, total)
    try:
        async with asyncio.TaskGroup() as group:
            for number, client in enumerate(clients):
                own = replace(plan, seed=plan.seed + number * SEEDS_APART)
                group.create_task(_one(client, own, iter(jobs), keep))
    except ExceptionGroup as faults:
        raise faults.exceptions[0] from None
    finally:
        for client in clients:
            client.close()


async def _one(
    client: Client, plan: Plan, jobs: Iterator[Job], keep: Callable[[RequestRecord], None]
) -> None:
    failed = 0

    async def worker() -> None:
        nonlocal failed
        for job in jobs:
            record = await client.ask(job, plan)
            if record.outcome == "cancelled":
                return
            keep(record)
            failed = 0 if record.outcome in ("ok", "early-eos") else failed + 1
            if failed >= GIVE_UP_AFTER:
                raise SpecdecError(
                    f"{record.variant} at {client.target.address}: {failed} requests in a row failed, the"
                    f" last one with {record.outcome}: {record.error}",
                    remedy=remedy(record.outcome, record.error or ""),
                )

    await asyncio.gather(*(worker() for _ in range(plan.concurrency)))
