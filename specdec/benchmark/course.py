"""The course of one run: asks, keeps every record as it ends, and writes the manifest last."""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from specdec import atomic
from specdec.benchmark import counters, load, room
from specdec.benchmark.client import Client, utc_now
from specdec.benchmark.ending import ServerGoneError, ended
from specdec.benchmark.fields import Fields
from specdec.benchmark.ledger import Ledger
from specdec.benchmark.machine import this_machine
from specdec.benchmark.meeting import Meeting
from specdec.benchmark.pages import counters_of, gauges_of
from specdec.benchmark.plan import Job, Plan, Target
from specdec.benchmark.points import Points
from specdec.benchmark.remedies import remedy
from specdec.benchmark.resume import earlier, plan_settings, span
from specdec.benchmark.served import all_served, served
from specdec.benchmark.turn import Turn
from specdec.errors import SpecdecError
from specdec.runs.manifest import MANIFEST, REQUESTS, STARTED, RunManifest, Status
from specdec.runs.phases import PHASES
from specdec.runs.record import EXACT, RECORDS, SELF_CHECK, RequestRecord

if TYPE_CHECKING:
    from specdec.runs.folder import Run

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


Switch = Callable[[str], Awaitable[dict[str, Any]]]
"""Has a variant alone be served, by its name, and returns once it answers, with what the manifest is to keep
of the server; raises ``SpecdecError``.
"""


class Course:
    """Carries out one client's part of a plan.

    Args:
        plan, folder, interrupted, on_event, switch: see ``run``.
        meeting: of the clients that share the plan.
    """

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
        self._phases: list[dict[str, Any]] = []
        self._before: list[counters.Counters | None] | None = None
        self._after: list[counters.Counters | None] | None = None
        self._plan = plan
        self._folder = folder
        self._on_event = on_event
        self._clients: dict[int, Client] = {}
        self._total = plan.total
        self._ledger = Ledger(folder / RECORDS, [target.variant for target in plan.targets])
        self._failures = {target.variant: 0 for target in plan.targets}
        self._done = 0
        self._latest_send = 0.0
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
        """Carries it out; what it raises is said at ``run``."""
        plan, tls = self._plan, self._plan.tls()
        if self._sequential:
            await self._have_served(plan.targets[0].variant)
        started = utc_now()
        self._on_event(RunEvent("asking the servers what they serve", 0, self._total))
        asked = plan.targets if self._switch is None else plan.targets[:1]
        targets = [*await all_served(asked, plan, tls), *plan.targets[len(asked) :]]
        if self._earlier is not None:
            self._earlier.require_models_of(targets)
        targets = await self._acquainted(targets, tls)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            begun = self._manifest(targets, "interrupted", None, started)
            atomic.write(self._folder / STARTED, begun.to_json(), remedy=self._remedy())
            with self._ledger:
                status, problem = await ended(self._measured(targets, tls))
            manifest = self._manifest(targets, status, problem, started)
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

    async def _measured(self, targets: list[Target], tls: ssl.SSLContext) -> None:
        self._take_over()
        if self._sequential:
            await self._in_phases(targets, tls)
            return
        await self._turns(load.warmup_block(self._plan))
        self._before = await self._scrape()
        await self._measure()
        self._after = await self._scrape()

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
        return await room.acquainted(plan, clients)

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
                await self._have_served(variant)
                targets[index] = await self._served_again(index, targets[index].template, tls)
            await self._turns(phase.warmup)
            before = await counters_of(self._clients[index])
            for block in phase.blocks:
                await self._turns(block)
            counted = counters.difference(before, await counters_of(self._clients[index]))
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
        (target,) = await room.acquainted(plan, [client])
        if template and target.template and target.template != template:
            raise SpecdecError(
                f"{target.variant} makes another prompt of a conversation than in its phase before",
                remedy="Serve it with one chat template, and start a new run",
            )
        return replace(target, template=target.template or template)

    async def _have_served(self, variant: str) -> None:
        """Has a variant be served for the next phase, and keeps what it then runs on.

        Raises:
            SpecdecError: its server does not come up.
        """
        seen = {} if self._switch is None else await self._switch(variant)
        self._phases.append({"variant": variant, **seen})

    def _take_over(self) -> None:
        """Writes what stands of the interrupted run."""
        if self._earlier is None:
            return
        for record in self._earlier.records:
            self._ledger.write(record)
            self._done += not record.warmup
        self._ledger.flush()
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
            async with self._points.watching(block, turn, client, lambda: gauges_of(client)):
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
        return f"Free some space, or name another folder with --out{kept}"

    def _keep(self, record: RequestRecord) -> None:
        self._ledger.write(record)
        self._ledger.flush()
        if record.lane == EXACT:
            self._points.note(record)
        # What only keeps the load up is no part of the total.
        self._done += not record.warmup or record.block < 0
        again = " against itself" if record.lane == SELF_CHECK else ""
        what = "warm-up" if record.warmup else f"{record.variant}{again} {record.test_case}"
        self._on_event(RunEvent(what, self._done, self._total, record))

    async def _scrape(self) -> list[counters.Counters | None]:
        own = (client for client in self._clients.values() if client.lane == EXACT)
        return list(await asyncio.gather(*map(counters_of, own)))

    def _manifest(
        self, targets: Iterable[Target], status: Status, problem: str | None, started: str
    ) -> RunManifest:
        plan, before, after = self._plan, self._before, self._after
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
            environment={**this_machine(), **self._load_settings(), **plan.environment, **self._served_on()},
            variants={target.variant: target.measured() for target in targets},
            counts=self._ledger.counts,
            server_counters=counted,
            records_sha256=self._ledger.sha256,
            dropped=tuple(self._fields.dropped),
            points=self._points.manifest(interrupted=status != "complete"),
            seams=self._seams,
        )

    def _served_on(self) -> dict[str, Any]:
        return {PHASES: self._phases} if any(len(phase) > 1 for phase in self._phases) else {}

    def _load_settings(self) -> dict[str, Any]:
        settings = plan_settings(self._plan)
        if self._plan.arrival != "closed":
            settings["latest_send_seconds"] = round(self._latest_send, 6)
        if self._plan.seconds is None and not self._plan.share.together:
            settings[REQUESTS] = self._plan.total
        return {"load": settings}
