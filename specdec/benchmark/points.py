"""Keeps the account of a run's loads: time spent, what the servers said of it, how late the client was, and
which loads need no more visits.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from math import inf, log, sqrt
from statistics import fmean, quantiles, stdev
from time import perf_counter
from typing import TYPE_CHECKING

from specdec.benchmark.gauges import Gauges, mean_between
from specdec.benchmark.http1 import Reads
from specdec.metrics.tpot import TPOT
from specdec.runs.point import Point, PointEnd

if TYPE_CHECKING:
    from specdec.benchmark.client import Client
    from specdec.benchmark.load import Block
    from specdec.benchmark.plan import Plan
    from specdec.benchmark.turn import Turn
    from specdec.runs.record import RequestRecord

GROWTH = 1.05
"""A variant whose throughput at a load is not above that of every lower load by this factor is saturated."""

SETTLED = 0.01
"""Half-width, as a share, of the interval of a ratio of times per token that needs no more visits: three
standard errors between visits. Whether it is settled depends on how visits differ and not on where the ratio
lies, so that stopping does not favour an answer."""

FEWEST_VISITS = 4
"""Of a load, before their spread can be believed."""

TICK = 0.02
"""Seconds between two looks at how late the event loop wakes up."""

LOOK_SECONDS = 1.0
"""Between two readings of a server's gauges: seldom enough to cost it nothing."""

FEWEST_TICKS = 20


@dataclass(slots=True)
class _Entry:
    planned: int = 0
    sent: int = 0
    seconds: float = 0.0
    tokens: int = 0
    lags: list[float] = field(default_factory=list[float])
    reads: Reads = field(default_factory=Reads)
    latest_send: float = 0.0
    readings: list[Gauges] = field(default_factory=list[Gauges])
    queue: list[float] = field(default_factory=list[float])
    prefill: list[float] = field(default_factory=list[float])
    visits: dict[int, dict[tuple[str, str], list[float]]] = field(
        default_factory=dict[int, dict[tuple[str, str], list[float]]]
    )


class Points:
    """The account of one run. Empty for a run of one load."""

    def __init__(self, plan: Plan, blocks: list[Block]) -> None:
        self._plan = plan
        self._entries = {(load, target.variant): _Entry() for load in plan.loads for target in plan.targets}
        self._stopped: dict[float, PointEnd] = {}
        self._visit: tuple[float, int] | None = None
        for block in blocks:
            for target in plan.targets if block.held else ():
                self._entries[load_of(block.plan), target.variant].planned += len(block.own)

    def goes_on(self, block: Block) -> bool:
        """Whether the block is still to be measured. Called for every block, in order."""
        if not block.held:
            return True
        load = load_of(block.plan)
        if self._visit not in (None, (load, block.visit)):
            self._look_back()
        self._visit = load, block.visit
        return load not in self._stopped

    def deadline(self, block: Block, variant: str) -> float:
        """``perf_counter`` after which the variant gets no more requests at the block's load."""
        if not block.held:
            return inf
        left = self._plan.point_seconds - self._entries[load_of(block.plan), variant].seconds
        return perf_counter() + left

    @asynccontextmanager
    async def watching(
        self, block: Block, turn: Turn, client: Client, look: Callable[[], Awaitable[Gauges | None]]
    ) -> AsyncGenerator[None]:
        """Watches a turn of a client at a load: ``look`` reads the server's gauges."""
        if not block.held:
            yield
            return
        entry = self._entries[load_of(block.plan), client.target.variant]
        before = await look()
        reads = client.reads.copy()
        lag = asyncio.create_task(_lags(entry.lags))
        looking = asyncio.create_task(_readings(look, entry.readings)) if before else None
        started = perf_counter()
        try:
            yield
        finally:
            entry.reads.add(client.reads, since=reads)
            entry.seconds += perf_counter() - started
            entry.sent += turn.sent
            entry.latest_send = max(entry.latest_send, turn.latest_send)
            for task in (lag, looking):
                if task is not None:
                    task.cancel()
            if turn.sent < len(block.own):
                self._stopped.setdefault(load_of(block.plan), "time")
        if before is not None and (after := await look()) is not None:
            for sums, name in ((entry.queue, "queue"), (entry.prefill, "prefill")):
                mean = mean_between(getattr(before, name), getattr(after, name))
                if mean is not None:
                    sums.append(mean)

    def recall(self, block: Block, variant: str, records: Sequence[RequestRecord], seconds: float) -> None:
        """Takes over what a variant's turn brought before an interruption.

        Args:
            block: the block.
            variant: whose turn.
            records: of it, fillers too.
            seconds: that it took.
        """
        if not block.held:
            return
        entry = self._entries[load_of(block.plan), variant]
        sent = sum(not record.warmup for record in records)
        entry.sent += sent
        entry.seconds += seconds
        if sent < len(block.jobs):
            self._stopped.setdefault(load_of(block.plan), "time")
        for record in records:
            self.note(record)

    def note(self, record: RequestRecord) -> None:
        """Counts what a request of a block brought, a filler's too."""
        entry = self._entries.get((record.load, record.variant))
        if entry is not None and record.block >= 0:
            value = None if record.warmup or record.outcome != "ok" else TPOT.of(record)
            if value is not None and self._visit is not None:
                prompt = (record.test_case, record.prompt)
                entry.visits.setdefault(self._visit[1], {}).setdefault(prompt, []).append(log(value))
            counted = record.chunk_tokens[-1] if record.chunk_tokens else record.output_tokens
            entry.tokens += counted or len(record.chunk_times)

    def manifest(self, *, interrupted: bool) -> tuple[Point, ...]:
        """What became of each point, for the run's manifest."""
        closed = self._plan.arrival == "closed"
        return tuple(
            Point(
                variant=variant,
                load=load,
                unit="in flight" if closed else "per second",
                planned=entry.planned,
                sent=entry.sent,
                end=self._end(load, entry, interrupted=interrupted),
                seconds=round(entry.seconds, 3),
                loop_lag_seconds=(
                    round(quantiles(entry.lags, n=100)[-1], 6) if len(entry.lags) >= FEWEST_TICKS else None
                ),
                blurred=entry.reads.blurred_share,
                latest_send_seconds=None if closed else round(entry.latest_send, 6),
                running=_mean([r.running for r in entry.readings]),
                waiting=_mean([r.waiting for r in entry.readings]),
                queue_seconds=_mean(entry.queue),
                prefill_seconds=_mean(entry.prefill),
            )
            for (load, variant), entry in self._entries.items()
        )

    def _end(self, load: float, entry: _Entry, *, interrupted: bool) -> PointEnd:
        if entry.sent >= entry.planned:
            return "complete"
        return self._stopped.get(load, "interrupted" if interrupted else "time")

    def _look_back(self) -> None:
        """After the visit of a load: has its time passed, and does a higher one promise more throughput?"""
        assert self._visit is not None
        load, visit = self._visit
        variants = [target.variant for target in self._plan.targets]
        if any(self._entries[load, name].seconds >= self._plan.point_seconds for name in variants):
            self._stopped.setdefault(load, "time")
        if self._settled(load):
            self._stopped.setdefault(load, "settled")
        if visit == 0 and all(self._saturated(load, name) for name in variants):
            for higher in self._plan.loads:
                if higher > load:
                    self._stopped.setdefault(higher, "saturated")

    def _settled(self, load: float) -> bool:
        """Whether the visits so far agree on every variant's time per token over the first one's; with one
        variant on its time per token.
        """
        first, *others = (self._entries[load, target.variant].visits for target in self._plan.targets)
        if not others:
            return agree([fmean(map(fmean, visit.values())) for visit in first.values() if visit])
        return all(
            agree(
                [
                    fmean(fmean(own[prompt]) - fmean(first[number][prompt]) for prompt in shared)
                    for number, own in visits.items()
                    if (shared := own.keys() & first.get(number, {}).keys())
                ]
            )
            for visits in others
        )

    def _saturated(self, load: float, variant: str) -> bool:
        own, *lower = (
            entry.tokens / entry.seconds if entry.seconds else 0.0
            for entry in (
                self._entries[load, variant],
                *(self._entries[other, variant] for other in self._plan.loads if other < load),
            )
        )
        return bool(lower) and own < GROWTH * max(lower)


def load_of(plan: Plan) -> float:
    """The one load of a plan: requests in flight, or per second."""
    return float(plan.concurrency) if plan.arrival == "closed" else plan.rate or 0.0


def agree(visits: list[float]) -> bool:
    """Whether the mean of logarithms, one per visit, is known to ``SETTLED``."""
    return len(visits) >= FEWEST_VISITS and 3 * stdev(visits) / sqrt(len(visits)) < SETTLED


async def _lags(into: list[float]) -> None:
    while True:
        due = perf_counter() + TICK
        await asyncio.sleep(TICK)
        into.append(perf_counter() - due)


async def _readings(look: Callable[[], Awaitable[Gauges | None]], into: list[Gauges]) -> None:
    pause = LOOK_SECONDS / 4
    while True:
        await asyncio.sleep(pause)
        pause = LOOK_SECONDS
        if (reading := await look()) is not None:
            into.append(reading)


def _mean(values: list[float] | list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(fmean(known), 6) if known else None
