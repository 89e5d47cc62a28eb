"""Which loads need a compile of their own, on a stack with one graph and on one with buckets."""

from __future__ import annotations

from itertools import combinations

import pytest
from click.testing import CliRunner

from specdec.catalog.images import STACKS
from specdec.catalog.roofline import Floor
from specdec.commands.estimate import command
from specdec.pricing.compiles import CLOSE, batches, cheapest, compiles
from tests.operate.conftest import DEFAULT, REGION, experiment_with

LOADS = ("concurrency = 4", "loads = [1, 2, 4]")


def test_one_graph_serves_every_load_as_a_full_batch() -> None:
    plain, drafted = compiles(experiment_with(LOADS), REGION)
    assert plain.runs_in == drafted.runs_in == (4, 4, 4)
    assert plain.own == (1, 2, 4)
    # 32 billion weights are read whether one sequence waits for them or four: one compile is enough.
    assert plain.cheapest == (4,)
    assert plain.starts == (3, 1)
    assert plain.hours == (10 / 60, 30 / 60)
    assert "load 1 in that for 4 and load 2 in that for 4" in plain.says
    assert "3 compiles (max_num_seqs = 1, 2 and 4, each a deployment)" in plain.says


def test_buckets_are_compiled_by_one_start() -> None:
    stack = next(name for name, stack in STACKS.items() if stack.batch_graphs == "buckets")
    assert batches("buckets", 6) == (1, 2, 4, 6)
    assert batches("buckets", 8) == (1, 2, 4, 8)
    changed = experiment_with(
        ('stack = "vllm-0.9.1-sdk-2.26.1"', f'stack = "{stack}"'),
        ('mode = "fused"', 'mode = "eagle"'),
        ("max_num_seqs = 4", "max_num_seqs = 8"),
        ("concurrency = 4", "loads = [1, 3, 8]"),
    )
    plain = compiles(changed, REGION)[0]
    assert plain.runs_in == (1, 4, 8)
    assert plain.starts == (1, 1)
    assert 'load 3 in that for 4 runs padded. With {"num_seqs_buckets": [1, 3, 8]}' in plain.says


@pytest.mark.parametrize("compute", [0.0, 0.0005, 0.01])
def test_no_smaller_set_keeps_every_load_close(compute: float) -> None:
    floor, loads, tokens = Floor(weights=0.02, cache=0.0001, compute=compute), (1, 2, 4, 8, 16), 5

    def close(sizes: tuple[int, ...]) -> bool:
        return all(
            any(
                size >= load and floor.at(size, tokens) <= (1 + CLOSE) * floor.at(load, tokens)
                for size in sizes
            )
            for load in loads
        )

    best = cheapest(loads, floor, tokens=tokens)
    assert close(best)
    assert not any(close(sizes) for sizes in combinations(loads, len(best) - 1))


def test_arrivals_by_rate_have_no_batch() -> None:
    rates = ("concurrency = 4", 'arrival = "poisson"\nrate = 1.0')
    assert compiles(experiment_with(rates), REGION) == ()


def test_estimate_says_it() -> None:
    shown = CliRunner().invoke(command, ["--experiment", str(DEFAULT)], standalone_mode=False)
    assert "Graphs that vllm-0.9.1-sdk-2.26.1 compiles for these loads:" in shown.output
    assert "baseline: its load has the graph that is compiled." in shown.output
