from collections import Counter
from itertools import pairwise
from statistics import mean

import pytest

from specdec.benchmark.load import arrivals, blocks, warmup
from specdec.errors import BadInputError

from .conftest import MakePlan

pytestmark = pytest.mark.alone

TWO = {"baseline": "http://a", "speculative": "http://b"}


def test_every_prompt_and_repeat_once_in_blocks_of_one_test_case(make_plan: MakePlan) -> None:
    plan = make_plan(TWO, count=12, cases=3, concurrency=4, repeats=3)
    sent = [(job.prompt.id, job.repeat) for block in blocks(plan) for job in block.jobs]
    assert sorted(sent) == sorted((f"p{i}", repeat) for i in range(12) for repeat in range(3))
    for number, block in enumerate(blocks(plan)):
        assert block.number == number
        assert len({job.prompt.test_case for job in block.jobs}) == 1
        assert {job.block for job in block.jobs} == {number}


@pytest.mark.parametrize(
    ("prompts", "concurrency", "repeats", "sizes"),
    [
        (3, 8, 7, [10, 11]),  # repeats together, until a block fills the concurrency
        (8, 4, 2, [4, 4, 4, 4]),
        (6, 4, 2, [4, 4, 4]),
        (5, 1, 1, [1, 1, 1, 1, 1]),
        (4, 8, 1, [4]),  # fewer requests than fly together
        (7, 4, 1, [7]),
    ],
)
def test_blocks_are_as_many_as_the_concurrency_allows(
    prompts: int, concurrency: int, repeats: int, sizes: list[int], make_plan: MakePlan
) -> None:
    plan = make_plan(TWO, count=prompts, concurrency=concurrency, repeats=repeats)
    assert [len(block.jobs) for block in blocks(plan)] == sizes


def test_other_prompts_share_a_block_in_the_next_repeat(make_plan: MakePlan) -> None:
    parts = [
        {job.prompt.id for job in block.jobs}
        for block in blocks(make_plan(TWO, count=8, concurrency=4, repeats=2))
    ]
    assert parts[0] | parts[1] == parts[2] | parts[3]
    assert parts[0] not in parts[2:]


def test_two_variants_take_turns_a_b_b_a(make_plan: MakePlan) -> None:
    orders = [block.order for block in blocks(make_plan(TWO, count=8, concurrency=2, repeats=1))]
    assert orders[0] == orders[2] == orders[1][::-1] == orders[3][::-1]


@pytest.mark.parametrize("variants", [2, 3])
def test_each_variant_comes_first_equally_often_in_every_test_case(
    variants: int, make_plan: MakePlan
) -> None:
    plan = make_plan(
        {f"v{i}": f"http://h{i}" for i in range(variants)}, count=16, cases=4, concurrency=4, repeats=6
    )
    first: dict[str, Counter[int]] = {}
    for block in blocks(plan):
        assert sorted(block.order) == list(range(variants))
        first.setdefault(block.jobs[0].prompt.test_case, Counter())[block.order[0]] += 1
    for counts in first.values():
        assert set(counts.values()) == {6 // variants}


def test_the_seed_fixes_everything(make_plan: MakePlan) -> None:
    def order(seed: int, **fields: object) -> list[tuple[tuple[int, ...], tuple[str, ...]]]:
        plan = make_plan(TWO, count=12, cases=3, seed=seed, **fields)
        return [(block.order, tuple(job.prompt.id for job in block.jobs)) for block in blocks(plan)]

    assert order(1) == order(1)
    assert any(order(1) != order(seed) for seed in range(2, 8))
    assert order(1, arrival="poisson", rate=2.0) != order(2, arrival="poisson", rate=2.0)


def test_warm_up_uses_prompts_of_its_own(make_plan: MakePlan) -> None:
    plan = make_plan(TWO, warmup=3, output_tokens=600)
    jobs = warmup(plan)
    assert len({job.prompt.text for job in jobs}) == 3
    assert all((job.warmup, job.block, job.output_tokens) == (True, -1, 32) for job in jobs)
    assert not {job.prompt.id for job in jobs} & {prompt.id for prompt in plan.prompts}


def test_constant_arrival() -> None:
    assert arrivals(4, rate=2.0, arrival="constant", seed=1) == [0.0, 0.5, 1.0, 1.5]


def test_poisson_arrival_has_exponential_gaps() -> None:
    times = arrivals(20001, rate=5.0, arrival="poisson", seed=1)
    gaps = [b - a for a, b in pairwise(times)]
    assert times[0] == 0.0
    assert mean(gaps) == pytest.approx(0.2, rel=0.03)
    # Of an exponential distribution, 1 - 1/e lies below the mean.
    assert sum(gap < 0.2 for gap in gaps) / len(gaps) == pytest.approx(0.632, abs=0.01)
    assert arrivals(9, rate=5.0, arrival="poisson", seed=1) == times[:9]


def test_a_plan_refuses_what_cannot_be(make_plan: MakePlan) -> None:
    with pytest.raises(BadInputError) as caught:
        make_plan(
            {"baseline": "nonsense"},
            count=0,
            output_tokens=1,
            concurrency=0,
            repeats=0,
            warmup=-1,
            temperature=3.0,
            rate=1.0,
        )
    fields = [mistake.field for mistake in caught.value.mistakes]
    assert fields == [
        "target baseline",
        "prompts",
        "output_tokens",
        "concurrency",
        "repeats",
        "warmup",
        "temperature",
        "rate",
    ]
    with pytest.raises(BadInputError, match="not a rate"):
        make_plan(TWO, arrival="poisson")
    with pytest.raises(BadInputError, match=r"Use case-0, case-1"):
        make_plan(TWO, cases=2).only(("nowhere",))
