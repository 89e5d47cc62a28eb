"""What comes together has no time of its own."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest

from specdec.benchmark.buffering import buffer_bytes
from specdec.metrics.arrivals import arrivals, came_at_once, tokens_per_arrival
from specdec.metrics.itl import itl
from specdec.metrics.step_gap import step_gap
from specdec.metrics.tpot import tpot
from specdec.runs.record import RequestRecord

Make = Callable[..., RequestRecord]

TPOT = 0.02


def made(tokens: int, *, ttft: float = 0.3) -> list[float]:
    return [ttft + TPOT * index for index in range(tokens)]


def held_back(times: Sequence[float], clump: int, *, spread: float = 0.0) -> list[float]:
    """When each token arrives behind something that hands on ``clump`` of them at once."""
    found: list[float] = []
    for start in range(0, len(times), clump):
        group = times[start : start + clump]
        found += [group[-1] + spread * index for index in range(len(group))]
    return found


def request(record: Make, times: Sequence[float]) -> RequestRecord:
    return record(
        chunk_times=tuple(times),
        chunk_tokens=tuple(range(1, len(times) + 1)),
        output_tokens=len(times),
        token_source="continuous-usage",
    )


@pytest.mark.parametrize("clump", [1, 2, 3, 7, 20, 40])
@pytest.mark.parametrize("spread", [0.0, 0.00002])
def test_clumps_change_no_tpot(record: Make, clump: int, spread: float) -> None:
    found = request(record, held_back(made(240), clump, spread=spread))
    assert tpot(found) == pytest.approx(TPOT, rel=0.01)
    assert tokens_per_arrival(found) == pytest.approx(clump, rel=0.1)
    assert itl(found) == pytest.approx(TPOT, rel=0.01)


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
def test_a_starved_client_changes_no_tpot(record: Make, share: float) -> None:
    chance = random.Random(1)
    times = made(400)
    for index in range(len(times) - 2, 0, -1):
        if chance.random() < share:
            times[index] = times[index + 1]
    assert tpot(request(record, times)) == pytest.approx(TPOT, rel=0.01)


def test_a_first_write_of_several_tokens_counts_for_nothing(record: Make) -> None:
    times = [0.3] * 6 + made(100, ttft=0.32)
    assert tpot(request(record, times)) == pytest.approx(TPOT, rel=0.01)


@pytest.mark.parametrize("pause", [1.0, 10.0, 100.0])
def test_one_long_pause_joins_no_other_tokens(record: Make, pause: float) -> None:
    times = [time + (pause if index >= 30 else 0) for index, time in enumerate(made(60))]
    found = request(record, times)
    assert len(arrivals(found)) == 60
    assert tpot(found) == pytest.approx((59 * TPOT + pause) / 59)


@pytest.mark.parametrize("reads", [1, 2, 3, 10])
@pytest.mark.parametrize("tokens", [2, 40, 600])
def test_an_answer_that_comes_whole_has_no_tpot(record: Make, reads: int, tokens: int) -> None:
    reads = min(reads, tokens)
    times = [12.0 + 0.00002 * (index * reads // tokens) for index in range(tokens)]
    found = request(record, times)
    assert came_at_once(found)
    assert (tpot(found), step_gap(found), itl(found)) == (None, None, None)


def test_a_stream_does_not_come_at_once(record: Make) -> None:
    assert not came_at_once(request(record, made(5)))
    assert not came_at_once(request(record, [0.3]))


@pytest.mark.parametrize("size", [1024, 4096, 8192, 16384, 65536])
def test_buffers_show_in_the_sizes_of_arrivals(size: int) -> None:
    reads = [(1.0, 700), *((2.0 + number, size) for number in range(5)), (9.0, 123)]
    assert buffer_bytes(reads) == size
    packets = [(1.0, 700)]
    for number in range(5):
        left, stamp = size, 2.0 + number
        while left:
            packets.append((stamp, min(1448, left)))
            left -= min(1448, left)
            stamp += 0.00005
    assert buffer_bytes([*packets, (9.0, 123)]) == size


def test_events_of_one_size_are_no_buffers() -> None:
    assert buffer_bytes([(float(number), 214) for number in range(50)]) is None
    assert buffer_bytes([(float(number), 3000 + 13 * number) for number in range(50)]) is None
