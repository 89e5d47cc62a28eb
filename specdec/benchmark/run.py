"""One run of the exact lane: asks, keeps every record as it ends, and writes the manifest last."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import os
import platform
import re
import ssl
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar, cast

from specdec import __version__, atomic
from specdec.benchmark import counters, gauges, load, room
from specdec.benchmark.client import Client, utc_now
from specdec.benchmark.fields import Fields
from specdec.benchmark.http1 import QUICK_ACKNOWLEDGEMENTS, Cut, ProtocolError, Refused
from specdec.benchmark.meeting import Meeting, MemberLostError, Unaccompanied, meet
from specdec.benchmark.plan import Job, Plan, Target
from specdec.benchmark.points import Points
from specdec.benchmark.remedies import remedy
from specdec.benchmark.resume import earlier, plan_settings, span
from specdec.benchmark.served import served
from specdec.benchmark.turn import Turn
from specdec.errors import BadInputError, Mistake, SpecdecError
from specdec.runs.manifest import MANIFEST, STARTED, RunManifest, Status
from specdec.runs.record import EXACT, RECORDS, SELF_CHECK, RequestRecord
from specdec.runs.shares import SHARE, merge, share_folder

if TYPE_CHECKING:
    from specdec.runs.folder import Run

_Fault = TypeVar("_Fault", bound=Exception)

GIVE_UP_AFTER = 4
"""Requests to one variant that fail in a row, and at least as many as are in flight, before the run ends: the
server is gone.
"""


@dataclass(frozen=True, slots=True)
class RunEvent:
    """How far a run is.

    Attributes:
        message: what is being done, for a person.
        done, total: requests, warm-up included.
        record: the request that just ended, or None.
    """

    message: str
    done: int
    total: int
    record: RequestRecord | None = None


class ServerGoneError(SpecdecError):
    """One variant's server stopped answering; the run ends."""


Switch = Callable[[str], Awaitable[None]]
"""Has a variant alone be served, by its name, and returns once it answers; raises ``SpecdecError``."""


def run(
    plan: Plan,
    folder: Path,
    *,
    interrupted: Run | None = None,
    on_event: Callable[[RunEvent], None] = lambda _: None,
    switch: Switch | None = None,
) -> RunManifest:
    """Carries out a plan.

    Each record is appended to ``records.jsonl`` and flushed when its request ends; ``manifest.json`` appears
    at the end, at once or not at all. Ctrl-C ends the run early with status ``interrupted``, a server that is
    gone, or does not come up for its phase, with ``failed``; both keep what was measured, and the manifest's
    ``problem`` says what happened. A run that is killed leaves its records and ``started.json``.

    A plan that clients share is begun when all have met. Each writes its share into a folder beside
    ``folder``, named by the id of the run and its index; member 0 takes in the others' and merges them.

    Args:
        plan: what to do.
        folder: the run's own folder, made if needed; without a run in it.
        interrupted: a run of the same plan, whose whole blocks are taken over and not measured again.
        on_event: told of every step, from the thread that called.
        switch: called at the start of each phase of a sequential run; None where all servers are there
            anyway.

    Raises:
        SpecdecError: a server does not answer before the run starts, or serves no model to ask for. Nothing
            was measured.
        BadInputError: the folder holds a run already, or the interrupted run was of another plan or model.
        EnvironmentFault: the folder cannot be written.
    """
    try:
        held = (folder / RECORDS).exists() or (folder / MANIFEST).exists()
    except OSError as error:
        raise atomic.unwritable(
            folder, error, remedy="Choose another folder, or allow writing there"
        ) from None
    if held:
        raise BadInputError(
            "run", [Mistake("folder", str(folder), "already holds a run", "Name a new folder")]
        )
    if plan.schedule == "sequential" and (interrupted is not None or plan.share.together):
        problem = "is sequential: its phases belong together, in one process"
        raise BadInputError("run", [Mistake("schedule", plan.run, problem, "Start a new run, by one client")])
    if plan.share.together:
        if interrupted is not None:
            problem = "is shared by several clients, and cannot go on where it was interrupted"
            raise BadInputError("resume", [Mistake("run", plan.run, problem, "Start a new run")])
        return asyncio.run(_together(plan, folder, on_event))
    return asyncio.run(_Run(plan, folder, interrupted, on_event, Unaccompanied(), switch).execute())


async def _together(plan: Plan, folder: Path, on_event: Callable[[RunEvent], None]) -> RunManifest:
    """This client's share of a run. Member 0 returns the manifest of the whole, merged in ``folder``; the
    others, and whoever is left alone, that of their own share.
    """
    share = plan.share

    async def measure(meeting: Meeting, run: str) -> RunManifest:
        own = share_folder(folder.parent / run, share.index)
        if (own / RECORDS).exists():
            raise BadInputError(
                "run", [Mistake("folder", str(own), "holds a share already", "Name a new folder")]
            )
        named = dataclasses.replace(
            plan,
            run=run,
            environment={**plan.environment, SHARE: {"index": share.index, "of": share.of}},
        )
        manifest = await _Run(named, own, None, on_event, meeting).execute()
        await meeting.deliver(own, (RECORDS, MANIFEST), complete=manifest.status == "complete")
        return merge(own.parent) if share.index == 0 else manifest

    on_event(RunEvent(f"waiting for {share.of} clients to meet at {share.meet}", 0, plan.total))
    met: RunManifest = await meet(share, plan.digest, plan.run, measure)
    return met


class _Run:
    def __init__(
        self,
        plan: Plan,
        folder: Path,
        interrupted: Run | None,
        on_event: Callable[[RunEvent], None],
        meeting: Meeting,
        switch: Switch | None = None,
    ) -> None:
        self._meeting = meeting
        self._switch = switch
        self._sequential = plan.schedule == "sequential"
        self._of_phases: dict[int, list[dict[str, Any] | None]] = defaultdict(list)
        self._plan = plan
        self._folder = folder
        self._on_event = on_event
        self._clients: dict[int, Client] = {}
        self._total = plan.total
        self._counts: dict[str, Counter[str]] = {target.variant: Counter() for target in plan.targets}
        self._failures = {target.variant: 0 for target in plan.targets}
        self._done = 0
        self._latest_send = 0.0
        self._hash = hashlib.sha256()
        self._secrets = plan.secrets
        self._fields = Fields()
        self._blocks = [] if self._sequential else list(load.blocks(plan))
        self._points = Points(plan, self._blocks)
        self._earlier = None if interrupted is None else earlier(plan, interrupted, self._blocks)
        self._seams = () if interrupted is None else interrupted.manifest.seams
        self._clock_shift = 0.0
        if self._earlier is not None:
            self._seams = (*self._seams, self._earlier.seam(self._blocks))
            self._clock_shift = self._earlier.clock_shift(datetime.now(UTC), perf_counter())

    async def execute(self) -> RunManifest:
        plan, tls = self._plan, self._plan.tls()
        if self._sequential and self._switch is not None:
            await self._switch(plan.targets[0].variant)
        started = utc_now()
        self._on_event(RunEvent("asking the servers what they serve", 0, self._total))
        asked = plan.targets if self._switch is None else plan.targets[:1]
        targets = [*await self._served(asked, tls), *plan.targets[len(asked) :]]
        self._require_same_models(targets)
        targets = await self._acquainted(targets, tls)
        status: Status = "complete"
        problem = None
        before = after = None
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            begun = self._manifest(targets, "interrupted", None, started, None, None)
            atomic.write(self._folder / STARTED, begun.to_json(), remedy=self._remedy())
            with (self._folder / RECORDS).open("x", encoding="utf-8") as self._file:
                try:
                    self._take_over()
                    if self._sequential:
                        await self._in_phases(targets, tls)
                    else:
                        await self._turns(load.warmup_block(self._plan))
                        before = await self._scrape()
                        await self._measure()
                        after = await self._scrape()
                except asyncio.CancelledError:
                    status, problem = "interrupted", "Ctrl-C or a request to end (SIGTERM)"
                except MemberLostError as lost:
                    status, problem = "failed", str(lost)
                except SpecdecError as error:
                    status, problem = "failed", ". ".join(filter(None, (str(error), error.remedy)))
                except ExceptionGroup as group:
                    gone = _first_of(group, ServerGoneError) or _first_of(group, MemberLostError)
                    if gone is None:
                        raise _first_of(group, OSError) or group from None
                    status, problem = "failed", str(gone)
            manifest = self._manifest(targets, status, problem, started, before, after)
            atomic.write(self._folder / MANIFEST, manifest.to_json(), remedy=self._remedy())
            (self._folder / STARTED).unlink(missing_ok=True)
        except OSError as error:
            raise atomic.unwritable(
                Path(error.filename or self._folder), error, remedy=self._remedy()
            ) from None
        finally:
            for client in self._clients.values():
                client.close()
        self._on_event(RunEvent(status, self._done, self._total))
        return manifest

    async def _served(self, targets: Sequence[Target], tls: ssl.SSLContext) -> list[Target]:
        """The targets as their servers say that they serve them.

        Raises:
            SpecdecError: of the first that has one. All are waited for, since what a later one raises would
                be printed with its traceback.
        """
        asked = (served(target, self._plan, tls) for target in targets)
        told = await asyncio.gather(*asked, return_exceptions=True)
        for answer in told:
            if isinstance(answer, BaseException):
                raise answer
        return [answer for answer in told if isinstance(answer, Target)]

    async def _acquainted(self, targets: list[Target], tls: ssl.SSLContext) -> list[Target]:
        """The targets with what they make of a conversation; those of later phases are not there yet.

        Raises:
            BadInputError: prompts that a server has no room for.
        """
        plan = self._plan

        def client(target: Target, lane: str = EXACT) -> Client:
            return Client(target, plan.timeouts, plan.headers, fields=self._fields, tls=tls, lane=lane)

        clients = [client(target) for target in targets]
        self._clients = dict(enumerate(clients))
        if plan.self_check:
            self._clients[load.SELF_CHECK] = client(targets[0], SELF_CHECK)
        return await self._told(clients)

    async def _told(self, clients: Sequence[Client]) -> list[Target]:
        """The targets of clients with what they make of a conversation.

        Raises:
            BadInputError: prompts that a server has no room for.
        """
        misfits = [mistake async for mistake in room.misfits(self._plan, clients)]
        if misfits:
            raise BadInputError("prompts", misfits)
        return [
            replace(client.target, template=await room.template(self._plan, client)) for client in clients
        ]

    async def _in_phases(self, targets: list[Target], tls: ssl.SSLContext) -> None:
        """One server at a time, as often as the plan says.

        Raises:
            SpecdecError: a server did not come up.
        """
        plan = self._plan
        for number, phase in enumerate(load.phases(plan)):
            index = phase.variant
            if number:
                variant = plan.targets[index].variant
                self._on_event(RunEvent(f"phase {number + 1}: {variant}", self._done, plan.total))
                if self._switch is not None:
                    await self._switch(variant)
                targets[index] = await self._served_again(index, targets[index].template, tls)
            await self._turns(phase.warmup)
            before = await _counters(self._clients[index])
            for block in phase.blocks:
                await self._turns(block)
            counted = counters.difference(before, await _counters(self._clients[index]))
            self._of_phases[index].append(counted)

    async def _served_again(self, index: int, template: str | None, tls: ssl.SSLContext) -> Target:
        """The target of a phase as its server tells it now.

        Args:
            index: of the target.
            template: that it had in an earlier phase.
            tls: which certificates are trusted.

        Raises:
            SpecdecError: it does not answer, has no room for a prompt, or has another template than before.
        """
        plan = self._plan
        target = await served(plan.targets[index], plan, tls)
        self._clients[index].close()
        client = Client(target, plan.timeouts, plan.headers, fields=self._fields, tls=tls)
        self._clients[index] = client
        (target,) = await self._told([client])
        if template and target.template and target.template != template:
            raise SpecdecError(
                f"{target.variant} makes another prompt of a conversation than in its phase before",
                remedy="Serve it with one chat template, and start a new run",
            )
        return replace(target, template=target.template or template)

    def _require_same_models(self, targets: Sequence[Target]) -> None:
        before = {} if self._earlier is None else self._earlier.manifest.variants
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

    def _take_over(self) -> None:
        """Writes what stands of the interrupted run."""
        if self._earlier is None:
            return
        for record in self._earlier.records:
            self._write(record)
            self._done += not record.warmup
        self._file.flush()
        self._on_event(RunEvent("taking over what stands", self._done, self._total))

    async def _measure(self) -> None:
        kept: dict[tuple[int, str], list[RequestRecord]] = defaultdict(list)
        spent = 0.0
        if self._earlier is not None:
            spent = self._earlier.seconds()
            for record in self._earlier.records:
                if record.lane == EXACT:
                    kept[record.block, record.variant].append(record)
        deadline = perf_counter() + (self._plan.seconds or inf) - spent
        for block in self._blocks:
            goes_on = self._points.goes_on(block)
            if self._earlier is not None and block.number in self._earlier.blocks:
                for target in self._plan.targets:
                    records = kept[block.number, target.variant]
                    self._points.recall(block, target.variant, records, span(records))
                continue
            over = perf_counter() > deadline and all(job.repeat for job in block.jobs)
            match await self._course(block, "end" if over else "go" if goes_on else "skip"):
                case "end":
                    break
                case "go":
                    await self._turns(block)
                case _:
                    pass

    async def _course(self, block: load.Block, own: str) -> str:
        """Whether a block is to be measured: ``go``, ``skip`` it, or ``end`` the run. All clients do as
        member 0 does.
        """
        return await self._meeting.all_at(f"block {block.number}", own)

    async def _turns(self, block: load.Block) -> None:
        if self._plan.schedule == "concurrent":
            async with asyncio.TaskGroup() as group:
                for index in block.order:
                    group.create_task(self._one_variant(self._clients[index], block))
        else:
            for index in block.order:
                await self._one_variant(self._clients[index], block)

    async def _one_variant(self, client: Client, block: load.Block) -> None:
        variant = client.target.variant
        step = f"block {block.number}, {variant}, {client.lane}"
        turn = Turn(
            client,
            block,
            self._ask,
            together=lambda: self._meeting.all_at(f"{step} ended"),
            deadline=self._points.deadline(block, variant),
        )
        await self._meeting.all_at(f"{step} begins")
        if client.lane == SELF_CHECK:
            await turn.run()
        else:
            async with self._points.watching(block, turn, client, lambda: _gauges(client)):
                await turn.run()
        self._latest_send = max(self._latest_send, turn.latest_send)

    async def _ask(self, client: Client, job: Job, plan: Plan) -> RequestRecord:
        """Asks and keeps the record.

        Raises:
            ServerGoneError: so many requests in a row failed that the server must be gone.
        """
        record = self._secrets.hide_in_record(await client.ask(job, plan))
        if self._clock_shift:
            record = replace(record, sent=record.sent + self._clock_shift)
        self._keep(record)
        if record.outcome == "cancelled":
            return record
        variant = record.variant
        self._failures[variant] = 0 if record.outcome in ("ok", "early-eos") else self._failures[variant] + 1
        if self._failures[variant] >= max(GIVE_UP_AFTER, plan.concurrency):
            count = f"{self._failures[variant]} requests in a row failed"
            raise ServerGoneError(
                f"{variant} at {client.target.address}: {count}, the last one with {record.outcome}:"
                f" {record.error}. {remedy(record.outcome, record.error or '')}"
            )
        return record

    def _remedy(self) -> str:
        kept = f"; {self._done} records are in {self._folder / RECORDS}" if self._done else ""
        return f"Free some space or choose another folder{kept}"

    def _keep(self, record: RequestRecord) -> None:
        self._write(record)
        self._file.flush()
        if record.lane == EXACT:
            self._points.note(record)
        # What only keeps the load up is no part of the total.
        self._done += not record.warmup or record.block < 0
        again = " against itself" if record.lane == SELF_CHECK else ""
        what = "warm-up" if record.warmup else f"{record.variant}{again} {record.test_case}"
        self._on_event(RunEvent(what, self._done, self._total, record))

    def _write(self, record: RequestRecord) -> None:
        line = record.to_json() + "\n"
        self._file.write(line)
        self._hash.update(line.encode())
        if not record.warmup and record.lane == EXACT:
            self._counts[record.variant][record.outcome] += 1

    async def _scrape(self) -> list[counters.Counters | None]:
        own = (client for client in self._clients.values() if client.lane == EXACT)
        return list(await asyncio.gather(*map(_counters, own)))

    def _manifest(
        self,
        targets: Iterable[Target],
        status: Status,
        problem: str | None,
        started: str,
        before: list[counters.Counters | None] | None,
        after: list[counters.Counters | None] | None,
    ) -> RunManifest:
        plan = self._plan
        shared = Counter(target.url for target in plan.targets)
        counted: dict[str, dict[str, Any] | None] = {}
        for index, target in enumerate(plan.targets):
            # Two variants at one address share its counters, and no difference tells them apart.
            own = shared[target.url] == 1 and before is not None and after is not None
            counted[target.variant] = (
                counters.difference(before[index], after[index]) if own and before and after else None
            )
            if self._sequential and shared[target.url] == 1:
                counted[target.variant] = counters.summed(self._of_phases[index])
        return RunManifest(
            run=plan.run,
            status=status,
            problem=problem,
            experiment=plan.experiment,
            configuration=self._secrets.hide_in(plan.configuration),
            configuration_hash=plan.configuration_hash,
            started_utc=started,
            ended_utc=utc_now(),
            environment={**_environment(), **self._load_settings(), **plan.environment},
            variants={target.variant: target.measured() for target in targets},
            counts={variant: dict(counts) for variant, counts in self._counts.items()},
            server_counters=counted,
            records_sha256=self._hash.hexdigest(),
            dropped=tuple(self._fields.dropped),
            points=self._points.manifest(interrupted=status != "complete"),
            seams=self._seams,
        )

    def _load_settings(self) -> dict[str, Any]:
        settings = plan_settings(self._plan)
        if self._plan.arrival != "closed":
            settings["latest_send_seconds"] = round(self._latest_send, 6)
        return {"load": settings}


async def _gauges(client: Client) -> gauges.Gauges | None:
    page = await _metrics_page(client)
    return None if page is None else gauges.parse(page)


async def _counters(client: Client) -> counters.Counters | None:
    page = await _metrics_page(client)
    return None if page is None else counters.parse(page)


async def _metrics_page(client: Client) -> str | None:
    try:
        status, body, _ = await client.get(client.endpoint.of_server("/metrics"))
    except (Refused, TimeoutError, Cut, ProtocolError):
        return None
    return body.decode(errors="replace") if status == 200 else None


def _first_of(group: BaseExceptionGroup[Any], kind: type[_Fault]) -> _Fault | None:
    for error in group.exceptions:
        fault = (
            _first_of(cast("BaseExceptionGroup[Any]", error), kind)
            if isinstance(error, BaseExceptionGroup)
            else error
        )
        if isinstance(fault, kind):
            return fault
    return None


def _environment() -> dict[str, Any]:
    model = ""
    try:
        match = re.search(
            r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE
        )
        model = match[1] if match else ""
    except OSError:
        pass
    return {
        "specdec": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "quick_acknowledgements": QUICK_ACKNOWLEDGEMENTS,
        "cpu": model or None,
        "cpus": os.cpu_count(),
        "load_average": [round(value, 2) for value in os.getloadavg()] if hasattr(os, "getloadavg") else None,
    }
