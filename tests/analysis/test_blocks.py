"""What blocks share: identical services under known disturbances, whole reports at a time. The large form,
with the table in docs/verdict.md, is scripts/prove_verdict.py.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from specdec.analysis import blocks
from specdec.analysis.blocks import block_spread, shared_share
from specdec.analysis.judge import judge
from specdec.analysis.pairing import LogRatio
from specdec.analysis.significance import paired_ratio
from tests.analysis.noise import Design, Disturbance, run
from tests.analysis.simulate import manifest

VARIANTS = {"baseline": {}, "fast": {"window": 7, "draft": "d"}}


def reports(count: int, disturbance: Disturbance, design: Design) -> list[set[str]]:
    """The decisions of each of ``count`` simulated reports, through the whole verdict."""
    return [
        {
            row.decision
            for row in judge(manifest(VARIANTS), run(random.Random(seed), disturbance, design)).comparisons
        }
        for seed in range(count)
    ]


@pytest.mark.parametrize(
    ("disturbance", "design"),
    [
        (Disturbance(block=0.02), Design()),
        (Disturbance(block=0.02), Design(concurrency=8, repeats=4)),
        (Disturbance(block=0.02), Design(cases=3, repeats=4)),
        (Disturbance(slow=0.05), Design()),
    ],
)
def test_identical_services_are_not_told_apart(disturbance: Disturbance, design: Design) -> None:
    # Without a variance between blocks, more than half of such reports are wrong.
    said = reports(25, disturbance, design)
    assert sum(bool(decisions & {"helps", "hurts"}) for decisions in said) <= 2


def test_a_true_difference_is_found_all_the_same() -> None:
    said = reports(5, Disturbance(request=0.03, block=0.01), Design(prompts=8, effects=(0.0953,)))
    assert sum("helps" in decisions for decisions in said) == 5


def test_one_block_each_cannot_tell() -> None:
    found = judge(
        manifest(VARIANTS), run(random.Random(1), Disturbance(block=0.02), Design(repeats=1, concurrency=8))
    )
    for row in found.comparisons:
        assert row.tpot is not None
        assert (row.decision, row.tpot.interval, row.tpot.unknown) == ("undecided", None, "blocks")
        assert "more repeats" in row.says


def pairs(*blocks: list[float], prompts: int = 4, first: int = 0) -> tuple[LogRatio, ...]:
    return tuple(
        LogRatio(("case", f"p{index % prompts}"), first + number, value)
        for number, values in enumerate(blocks)
        for index, value in enumerate(values)
    )


def test_the_variance_between_blocks_is_the_simulated_one() -> None:
    chance = random.Random(4)
    rows: list[tuple[LogRatio, ...]] = []
    for row in range(200):
        shared = [chance.gauss(0, 0.03) for _ in range(4)]
        rows.append(
            pairs(*[[block + chance.gauss(0, 0.01) for _ in range(4)] for block in shared], first=4 * row)
        )
    spread = block_spread(rows)
    assert spread is not None
    assert spread.variance == pytest.approx(0.03**2, rel=0.15)
    # 200 rows of four blocks are worth about 600 degrees of freedom.
    assert spread.variance / spread.uncertainty == pytest.approx(600**0.5, rel=0.3)
    same_blocks = block_spread([tuple(replace(pair, block=pair.block % 4) for pair in row) for row in rows])
    assert same_blocks is not None
    # Rows that all ran in the same four blocks know no more of them than three degrees of freedom.
    assert same_blocks.variance / same_blocks.uncertainty < 2


def test_prompts_of_unlike_speed_are_no_spread_between_blocks() -> None:
    chance = random.Random(5)
    rows = [
        pairs(*[[prompt + chance.gauss(0, 0.001) for prompt in (-0.3, 0.0, 0.1, 0.4)] for _ in range(4)])
        for _ in range(8)
    ]
    spread = block_spread(rows)
    assert spread is not None
    assert spread.variance < 1e-6


def test_requests_that_ran_alone_share_nothing() -> None:
    assert shared_share(pairs([0.1], [0.2], [0.3], [0.4], prompts=1)) == 1.0
    alone = tuple(LogRatio(("case", f"p{number}"), number, 0.1) for number in range(5))
    assert shared_share(alone) == 0.0
    assert shared_share(pairs([0.1] * 4, [0.2] * 4)) == pytest.approx(0.5)


def test_a_noisy_neighbour_does_not_widen_a_quiet_row() -> None:
    chance = random.Random(6)
    quiet = [pairs(*[[chance.gauss(0, 0.005) for _ in range(4)] for _ in range(4)]) for _ in range(4)]
    noisy = [pairs(*[[chance.gauss(0, 0.1) for _ in range(4)] for _ in range(4)]) for _ in range(4)]
    alone = paired_ratio(quiet[0], level=0.99, blocks=block_spread(quiet))
    beside = paired_ratio(quiet[0], level=0.99, blocks=block_spread([*quiet, *noisy]))
    assert alone is not None
    assert beside is not None
    assert alone.interval is not None
    assert beside.interval is not None
    assert beside.interval.high - beside.interval.low < 2 * (alone.interval.high - alone.interval.low)


def shuffled(prompts: int, seed: int) -> list[LogRatio]:
    """Three repeats, four prompts to a block, other prompts together in each; a tenth of the pairs lost."""
    chance = random.Random(seed)
    row: list[LogRatio] = []
    for repeat in range(3):
        order = chance.sample(range(prompts), prompts)
        row += [
            LogRatio(("case", f"p{prompt}"), repeat * prompts + place // 4, chance.gauss(0, 0.02))
            for place, prompt in enumerate(order)
            if chance.random() < 0.9
        ]
    return row


def chained(count: int) -> list[LogRatio]:
    """Each prompt links two blocks, and no other does: what solving takes longest for."""
    chance = random.Random(7)
    return [
        LogRatio(("case", f"p{prompt}"), prompt + side, chance.gauss(0, 0.02))
        for prompt in range(count)
        for side in (0, 1)
    ]


@pytest.mark.parametrize(
    "row",
    [
        shuffled(60, 1),
        # Two parts without a common prompt.
        [
            *shuffled(24, 2),
            *(LogRatio(("other", r.prompt[1]), r.block + 999, r.value) for r in shuffled(24, 3)),
        ],
        chained(200),
    ],
)
def test_many_blocks_are_solved_as_few_are_decomposed(
    row: list[LogRatio], monkeypatch: pytest.MonkeyPatch
) -> None:
    by_table = block_spread([row])
    monkeypatch.setattr(blocks, "_DENSE", 0)
    solved = block_spread([row])
    assert by_table is not None
    assert solved is not None
    for name in ("variance", "uncertainty", "most", "most_uncertainty", "degrees"):
        assert getattr(solved, name) == pytest.approx(getattr(by_table, name), rel=1e-9, abs=1e-15)
