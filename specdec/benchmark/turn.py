"""One variant's turn: the requests of a block, at the block's load, until the last of them has ended."""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from math import inf
from time import perf_counter
from typing import TYPE_CHECKING

from specdec.benchmark.load import arrivals

if TYPE_CHECKING:
    from specdec.benchmark.client import Client
    from specdec.benchmark.load import Block
    from specdec.benchmark.plan import Job, Plan
    from specdec.runs.record import RequestRecord

Ask = Callable[["Client", "Job", "Plan"], Awaitable["RequestRecord"]]

FILLERS = 4
"""Requests of an open loop that keep the load up, at most so many times the measured ones."""


async def _alone() -> None:
    """There is nobody to wait for."""


class Turn:
    """Sends a block to one variant.

    A held block keeps its load until its last measured request has ended: unmeasured requests of the same
    prompts fill the places that become free, and are cancelled then. Without them the last requests would
    have the server to themselves, and the reported load would be too high.

    Args:
        client: of the variant.
        block: what to send.
        ask: sends one request and keeps its record.
        together: returns when every client of the run has come so far.
        deadline: ``perf_counter`` after which no measured request is sent any more; those in flight end.

    Attributes:
        sent: measured requests that were sent.
        latest_send: seconds, the most that a request of an open loop was sent late.
    """

    def __init__(
        self,
        client: Client,
        block: Block,
        ask: Ask,
        *,
        together: Callable[[], Awaitable[object]] = _alone,
        deadline: float = inf,
    ) -> None:
        self.sent = 0
        self.latest_send = 0.0
        self._client = client
        self._block = block
        self._ask = ask
        self._deadline = deadline
        self._together = together
        self._waiting = deque(block.own)
        self._left = len(block.own)
        self._own_over = asyncio.Event()
        self._over = asyncio.Event()

    async def run(self) -> None:
        """Returns when the last measured request of all clients has ended. Raises what ``ask`` and
        ``together`` raise, in a group.
        """
        if not self._block.own:
            self._own_over.set()
            async with asyncio.TaskGroup() as group:
                group.create_task(self._part())
            return
        if self._block.plan.arrival == "closed" or self._block.number < 0:
            await self._closed()
        else:
            await self._open()

    async def _closed(self) -> None:
        width = self._block.width
        await self._client.warm(width)
        fillers = itertools.cycle(self._block.own)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._part())
            workers = [group.create_task(self._worker(fillers)) for _ in range(width)]
            await self._end(workers)

    async def _open(self) -> None:
        plan, share = self._block.plan, self._block.share
        count = len(self._block.jobs) * (1 + FILLERS * self._block.held)
        seed = plan.seed + self._block.number
        times = arrivals(count, rate=plan.rate or 0.0, arrival=plan.arrival, seed=seed)
        fillers = itertools.cycle(self._block.own)
        start = perf_counter()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._part())
            sent: list[asyncio.Task[bool]] = []
            for time in times[share.index :: share.of]:
                if await self._over_by(start + time):
                    break
                self.latest_send = max(self.latest_send, perf_counter() - start - time)
                job = self._next()
                if job is None and not self._block.held:
                    break
                asked = self._measured(job) if job else self._filler(next(fillers))
                sent.append(group.create_task(asked))
            await self._end(sent)

    async def _end(self, tasks: list[asyncio.Task[bool]] | list[asyncio.Task[None]]) -> None:
        if not self._block.held:
            return
        await self._over.wait()
        for task in tasks:
            task.cancel()

    async def _part(self) -> None:
        """Stops the fillers once the last measured request of every client has ended."""
        await self._own_over.wait()
        await self._together()
        self._over.set()

    async def _over_by(self, time: float) -> bool:
        """Waits until ``time`` or the end of the last measured request, and tells whether it was the end."""
        try:
            async with asyncio.timeout(max(0.0, time - perf_counter())):
                await self._over.wait()
        except TimeoutError:
            return False
        return True

    def _next(self) -> Job | None:
        if self._waiting and perf_counter() > self._deadline:
            self._ended(len(self._waiting))
            self._waiting.clear()
        return self._waiting.popleft() if self._waiting else None

    def _ended(self, jobs: int) -> None:
        self._left -= jobs
        if self._left <= 0:
            self._own_over.set()
            # Who is alone has nobody to wait for, and sends no filler after the end.
            if not self._block.share.together:
                self._over.set()

    async def _worker(self, fillers: Iterator[Job]) -> None:
        while (job := self._next()) is not None:
            if not await self._measured(job):
                return
        while self._block.held and not self._over.is_set() and await self._filler(next(fillers)):
            pass

    async def _measured(self, job: Job) -> bool:
        """Whether to go on: the request was not cancelled."""
        self.sent += 1
        record = await self._ask(self._client, job, self._block.plan)
        self._ended(1)
        return record.outcome != "cancelled"

    async def _filler(self, job: Job) -> bool:
        """Whether to go on: after a refused filler the next one is not sent at once."""
        record = await self._ask(self._client, replace(job, warmup=True), self._block.plan)
        return record.outcome in ("ok", "early-eos")
