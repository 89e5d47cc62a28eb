"""Right decoders are told from wrong ones, on a toy model and over every kind of server. The same on the
local engine, with the table in docs/verdict.md, is scripts/prove_rejoin.py.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from specdec.analysis.pairing import pairs
from specdec.analysis.parity import parity
from specdec.analysis.rejoined import ENOUGH, poisson_rate, rejoined, with_rejoined
from specdec.errors import BadInputError, EnvironmentFault
from specdec.rejoin.api import Api
from specdec.rejoin.follow import asked_of, follow, parts
from specdec.rejoin.servers import Asked, Chat, LlamaCpp, Vllm, reference, scored
from specdec.rejoin.store import Followed, append, read
from specdec.rejoin.walk import OUTSIDE, Reference, Swap, Walk, walk
from specdec.runs.record import RequestRecord
from tests.analysis.simulate import record
from tests.rejoin.toy import (
    Choose,
    coarse,
    decode,
    exact,
    log_probabilities,
    losing,
    rounding,
    second_choice,
    served,
    text_of,
    tokens_of,
)

pytestmark = pytest.mark.slow

PROMPT = " ba de fi"


@contextmanager
def toy(kind: str = "llamacpp", logprobs: str = "real") -> Generator[tuple[Reference, list[str]]]:
    with served(kind, logprobs) as (url, asked):
        yield reference(Api(url), Asked((("user", PROMPT),), True, None, None)), asked


def other(choose: Choose, tokens: int = 300) -> str:
    return text_of(decode(tokens_of(PROMPT), tokens, choose))


def test_the_own_text_has_no_swap() -> None:
    with toy() as (server, asked):
        assert walk(server, other(exact)) == Walk(300, ())
    assert asked.count("/completion") == 1


def test_a_forced_token_is_found_where_it_is_and_the_walk_goes_on() -> None:
    prompt = tokens_of(PROMPT)
    said = decode(prompt, 100, exact)
    wrong = (said[40] + 1) % 60
    tail = decode([*prompt, *said[:40], wrong], 59, exact)
    with toy() as (server, asked):
        found = walk(server, text_of([*said[:40], wrong, *tail]))
    (swap,) = found.swaps
    assert (found.tokens, swap.token, swap.position) == (100, 40, 120)
    assert (swap.reference, swap.other) == (text_of([said[40]]), text_of([wrong]))
    assert swap.gap is not None
    assert swap.gap > 0
    assert asked.count("/completion") == 2


def test_a_walk_stops_reading_at_the_first_difference() -> None:
    said = decode(tokens_of(PROMPT), 4000, exact)
    with toy() as (server, asked):
        walk(server, text_of([(said[0] + 1) % 60, *said[1:]]), end=1)
        first = asked.count("/completion")
        assert first == 1


def test_parts_of_a_text_are_followed_alone() -> None:
    said = decode(tokens_of(PROMPT), 60, exact)
    said[10] = (said[10] + 1) % 60
    with toy() as (server, _):
        assert walk(server, text_of(said), start=0, end=10) == Walk(10, ())


@pytest.mark.parametrize(
    ("kind", "logprobs", "type_", "gapped"),
    [
        ("llamacpp", "real", LlamaCpp, True),
        ("vllm", "real", Vllm, True),
        ("vllm", "ids", Vllm, False),
        ("vllm", "zeros", Vllm, False),
        ("chat", "real", Chat, False),
    ],
)
def test_every_kind_of_server(kind: str, logprobs: str, type_: type, gapped: bool) -> None:
    with toy(kind, logprobs) as (server, _):
        assert isinstance(server, type_)
        assert walk(server, other(exact, 80)) == Walk(80, ())
        found = walk(server, other(second_choice(random.Random(1), 20), 80))
        assert len(found.swaps) in range(1, 12)
        assert all((swap.gap is not None) == gapped for swap in found.swaps)


def near(low: float, high: float, logprobs: str, tokens: int = 300) -> str:
    """A text that takes the second choice once, where its gap lies between two, and else the best."""
    context = tokens_of(PROMPT)
    forced = False
    for number in range(tokens):
        values = log_probabilities(context)
        if logprobs == "bf16":
            values = coarse(values)
        first, second = sorted(range(len(values)), key=lambda index: -values[index])[:2]
        take = not forced and number > 5 and low < values[first] - values[second] < high
        forced |= take
        context.append(second if take else first)
    assert forced
    return text_of(context[len(tokens_of(PROMPT)) :])


@pytest.mark.parametrize(
    ("kind", "logprobs", "state"),
    [
        ("llamacpp", "real", "differs"),
        ("vllm", "real", "differs"),
        ("llamacpp", "bf16", "swaps"),
        ("vllm", "bf16", "swaps"),
        ("llamacpp", "uneven", "swaps"),
    ],
)
def test_a_gap_that_bf16_makes_is_no_tie_where_log_probabilities_are_fine(
    kind: str, logprobs: str, state: str
) -> None:
    with toy(kind, logprobs) as (server, _):
        found = walk(server, near(0.11, 0.26, logprobs))
        assert max(swap.gap or 0.0 for swap in found.swaps) == pytest.approx(0.18, abs=0.08)
        assert rejoined([found]).state == state


def test_a_smaller_gap_is_a_tie_and_asks_for_nothing_more() -> None:
    with toy() as (server, asked):
        found = walk(server, near(0.03, 0.09, "real"))
    assert rejoined([found]).state == "swaps"
    assert asked.count("/completion") == 2


def test_the_message_says_why_a_small_gap_is_no_tie() -> None:
    fine = rejoined([Walk(1200, (Swap(3, 9, "a", "b", 0.17, 0.002),))])
    assert "a gap of 0.17 in log-probability, above 0.1, since the reference repeats" in fine.says
    unknown = rejoined([Walk(1200, (Swap(3, 9, "a", "b", 0.17),))])
    assert unknown.state == "swaps"


def test_no_server_is_said() -> None:
    with pytest.raises(EnvironmentFault, match="no answer"):
        reference(Api("http://127.0.0.1:9"), Asked((("user", "a"),), True, None, None))


RIGHT: dict[str, Callable[[random.Random], Choose]] = {
    "exact": lambda _: exact,
    "rounding": lambda chance: rounding(chance, 0.02),
}
WRONG: dict[str, Callable[[random.Random], Choose]] = {
    "another quantization": lambda chance: rounding(chance, 0.6),
    "second choice in 200": lambda chance: second_choice(chance, 200),
    "lost context": lambda _: losing(30, 4),
}


@pytest.mark.parametrize("name", [*RIGHT, *WRONG])
def test_right_and_wrong_decoders_of_a_thousand_tokens(name: str) -> None:
    made = (RIGHT | WRONG)[name]
    counted = 0
    with toy() as (server, _):
        for seed in range(2):
            text = other(made(random.Random(seed)), 1000)
            counted += rejoined([walk(server, text)]).state == "differs"
    assert counted == (2 if name in WRONG else 0)


def swaps(count: int, gap: float | None) -> tuple[Swap, ...]:
    return tuple(Swap(number, number, "a", "b", gap) for number in range(count))


@pytest.mark.parametrize(
    ("count", "tokens", "gap", "state"),
    [
        (0, 1000, None, "same"),
        (3, 1000, 0.25, "swaps"),  # two steps of bf16 at logits of 16 to 32
        (3, 1000, 0.31, "differs"),
        (3, 1000, OUTSIDE, "differs"),
        (5, 1000, 0.06, "swaps"),  # bf16 on the local engine
        (5, 1000, 0.21, "differs"),  # sum of gaps above 1 per 1,000
        (5, 1000, None, "swaps"),
        (20, 1000, 0.01, "differs"),  # more than rounding makes
        (20, 1000, None, "differs"),
        (12, 1000, None, "swaps"),  # not surely more than 8 per 1,000
        (0, 0, None, "not judged"),
    ],
)
def test_what_decides(count: int, tokens: int, gap: float | None, state: str) -> None:
    assert rejoined([Walk(tokens, swaps(count, gap))]).state == state


def test_the_blind_spot_and_too_few_tokens_are_said() -> None:
    blind = rejoined([Walk(1200, swaps(4, None))])
    assert "one wrong token in 200 would not be seen" in blind.says
    assert "fewer than" not in blind.says
    short = rejoined([Walk(ENOUGH - 1, swaps(2, 0.1))])
    assert f"fewer than {ENOUGH} tokens" in short.says
    assert "would not be seen" not in short.says


def test_without_gaps_the_baselines_own_rate_is_the_measure() -> None:
    many = [Walk(1000, swaps(20, None))]
    assert rejoined(many, [Walk(1000, swaps(18, None))]).state == "swaps"
    assert rejoined(many, [Walk(1000, swaps(3, None))]).state == "differs"


def test_a_scorer_that_is_another_model_decides_nothing() -> None:
    apart = [Walk(1000, swaps(4, 2.0))]
    assert rejoined(apart, [Walk(1000, swaps(4, 3.0))], scorer=True).state == "not judged"
    assert rejoined(apart, [Walk(1000, swaps(4, 0.1))], scorer=True).state == "differs"


def test_poisson_interval_of_the_tables() -> None:
    rate = poisson_rate(5, 1000)
    # Garwood's limits for a count of 5: 1.623 and 11.668.
    assert (1000 * rate.low, 1000 * rate.high) == (
        pytest.approx(1.623, abs=0.001),
        pytest.approx(11.668, abs=0.001),
    )
    assert poisson_rate(0, 100).low == 0


@pytest.mark.parametrize(
    ("own", "others", "real"),
    [
        (-0.1, {b"a": -0.1, b"b": -2.5}, True),
        (504.0, {b"a": 504.0, b"b": 12.0}, False),  # token ids, as NxD Inference's loader returns
        (0.0, {b"a": 0.0, b"b": 0.0}, False),
        (None, {}, False),
        (-0.1, {b"a": -0.1, b"b": float("-inf")}, False),
    ],
)
def test_what_is_a_log_probability(own: float | None, others: dict[bytes, float], real: bool) -> None:
    assert (scored(b"a", own, others).logprob is not None) == real


def requests(texts: dict[str, list[str]]) -> list[RequestRecord]:
    return [
        record(
            variant,
            f"p{number}",
            times=[1, 2],
            counts=[1, 300],
            text=text,
            requested_tokens=300,
            prompt_tokens=3 + number,
        )
        for variant, side in texts.items()
        for number, text in enumerate(side)
    ]


def test_a_run_is_followed_kept_and_taken_up(tmp_path: Path) -> None:
    swapped = other(rounding(random.Random(2), 0.02))
    assert swapped != other(exact)
    records = requests({"baseline": [other(exact)] * 3, "fast": [other(exact), swapped, swapped]})
    pending = parts(records, ["baseline"], ["fast"])
    assert [part.variant.prompt for part in pending] == ["p1", "p2"]
    asked = asked_of(dict.fromkeys(("p0", "p1", "p2"), (("user", PROMPT),)), "toy")
    with served("llamacpp") as (url, _):
        for each in follow(pending, asked, Api(url), scorer=False):
            append(tmp_path, each)
    kept = read(tmp_path)
    assert [each.prompt for each in kept] == ["p1", "p2"]
    own, fast = ([r for r in records if r.variant == name] for name in ("baseline", "fast"))
    paired = pairs(own, fast)
    before = parity(paired, own)
    assert before.state == "differs"
    after = with_rejoined(before, paired, kept)
    assert (after.state, after.followed) == ("swaps", 900)
    assert after.largest_gap is not None
    assert after.largest_gap < 0.05
    assert with_rejoined(before, paired, kept[:1]) == before


def test_a_server_without_log_probabilities_is_asked_for_its_own_rate(tmp_path: Path) -> None:
    wrong = other(second_choice(random.Random(4), 30), 90)
    records = requests({"baseline": [other(exact, 90)], "fast": [wrong]})
    asked = asked_of({"p0": (("user", PROMPT),)}, "toy")
    with served("vllm", "ids") as (url, _):
        own = list(follow(parts(records, ["baseline"], ["fast"]), asked, Api(url), scorer=False))
    assert [(each.variant, each.against) for each in own] == [("fast", "baseline"), ("baseline", "baseline")]
    assert own[1].walk == Walk(90, ())


def test_a_broken_line_is_named(tmp_path: Path) -> None:
    append(tmp_path, Followed("fast", "baseline", "case", "p", 0, "http://a", False, Walk(3, swaps(1, 0.1))))
    assert read(tmp_path)[0].walk.swaps[0].gap == 0.1
    path = tmp_path / "rejoined.jsonl"
    path.write_text(path.read_text(encoding="utf-8") + "{}\n", encoding="utf-8")
    with pytest.raises(BadInputError, match=r"rejoined\.jsonl:2"):
        read(tmp_path)


CHIP = {"timetable": (27, 0.0), "play": (71, 0.125), "tips": (90, 0.25)}
"""Three of the six prompts measured on one Trainium2 chip (foxl-ai/kiln): tokens until the texts part, and
the plain run's margin there, in log-probability."""


SPEEDS = {
    "code": 192.97,
    "explanation": 170.87,
    "timetable": 164.18,
    "play": 135.06,
    "tips": 160.13,
    "french": 113.43,
}
"""Tokens per second of the speculative side; the plain one gave 99.2."""


def test_the_six_prompts_of_the_chip_get_a_verdict_and_count() -> None:
    from specdec.analysis.judge import judge
    from tests.analysis.simulate import manifest

    chance = random.Random(5)
    records: list[RequestRecord] = []
    for block, (name, speed) in enumerate(SPEEDS.items()):
        shared = [chance.uniform(1, 4) for _ in range(128)]
        for variant, rate in (("baseline", 99.2), ("fast", speed)):
            gaps, words = list(shared), [f"{name}{number}" for number in range(128)]
            if name in CHIP:
                at, margin = CHIP[name]
                gaps[at] = margin
                gaps[at + 1 :] = [chance.uniform(1, 4) + 8 * (variant == "fast") for _ in gaps[at + 1 :]]
                words[at:] = [f"{variant}{number}" for number in range(128 - at)]
            records.append(
                record(
                    variant,
                    name,
                    times=[0.05 + number / rate for number in range(128)],
                    counts=list(range(1, 129)),
                    text=" ".join(words),
                    near_tie=tuple(gaps),
                    requested_tokens=128,
                    prompt_tokens=20 + block,
                    block=block,
                )
            )
    found = judge(manifest({"baseline": {}, "fast": {"window": 3, "draft": "eagle3"}}), records)
    (row,) = found.comparisons
    assert (row.parity.equal, row.parity.total, row.parity.state) == (3, 6, "swaps")
    assert row.counts
    assert row.decision == "helps"
    # Without log-probabilities, the three walks that join again count as well: three swaps in 768 tokens.
    silent = [replace(line, near_tie=None) for line in records]
    assert not judge(manifest({"baseline": {}, "fast": {"window": 3}}), silent).comparisons[0].counts
    kept = [
        Followed("fast", "baseline", "case", name, 0, "http://a", False, Walk(128, swaps(1, None)))
        for name in CHIP
    ]
    taken = judge(manifest({"baseline": {}, "fast": {"window": 3}}), silent, rejoined=kept).comparisons[0]
    assert (taken.parity.state, taken.counts, taken.parity.followed) == ("swaps", True, 768)
    assert "one wrong token in 200 would not be seen" in taken.says
