"""Each gate: a run that it catches, and a near miss that it lets pass."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from specdec.analysis.judge import judge
from specdec.analysis.loops import loops
from specdec.analysis.parity import sooner
from specdec.analysis.significance import MARGIN
from specdec.analysis.verdict import Comparison, Verdict
from specdec.runs.record import RequestRecord
from tests.analysis.simulate import manifest, record

PROMPTS = 20
VARIANTS: dict[str, dict[str, Any]] = {"baseline": {}, "fast": {"window": 7, "draft": "d"}}
WORDS = [f"word{number}" for number in range(400)]


def answer(seed: object, words: int = 80) -> str:
    chance = random.Random(str(seed))
    return " ".join(chance.choice(WORDS) for _ in range(words))


def run(
    gains: Callable[[int], float] = lambda _: 1.5, *, prompts: int = PROMPTS, repeats: int = 1, **more: Any
) -> list[RequestRecord]:
    """Pairs that ran alone, one after another: 50 ms a token, over ``gains`` on the other side; 1% noise."""
    chance, clock = random.Random(3), 0.0
    records: list[RequestRecord] = []
    for repeat in range(repeats):
        for number in range(prompts):
            for variant in VARIANTS:
                gain = gains(number) if variant == "fast" else 1.0
                step = 0.05 / gain * chance.gauss(1, 0.01)
                tokens = range(1, 101)
                clock += 100 * step
                records.append(
                    record(
                        variant,
                        f"p{number}",
                        times=[0.1 + step * (token - 1) for token in tokens],
                        counts=list(tokens),
                        repeat=repeat,
                        block=repeat * prompts + number,
                        text=answer(number),
                        prompt_tokens=10 + number,
                        requested_tokens=100,
                        sent=clock,
                        **more,
                    )
                )
    return records


def spoiled(
    records: Sequence[RequestRecord], count: int, variant: str = "fast", **changes: Any
) -> list[RequestRecord]:
    """The run with the first ``count`` requests of a variant changed."""
    left = {record.prompt: None for record in records if int(record.prompt[1:]) < count}
    return [
        replace(record, **changes) if record.variant == variant and record.prompt in left else record
        for record in records
    ]


def row(records: Sequence[RequestRecord], **more: Any) -> Comparison:
    return verdict(records, **more).comparisons[0]


def verdict(records: Sequence[RequestRecord], **more: Any) -> Verdict:
    return judge(manifest(more.pop("variants", VARIANTS), **more), records)


def codes(found: Comparison) -> list[tuple[str, bool]]:
    return [(reason.code, reason.withholds) for reason in found.reasons]


def test_a_clean_run_passes_every_gate() -> None:
    found = verdict(run())
    assert found.comparisons[0].reasons == ()
    assert found.comparisons[0].counts
    assert found.sentence.startswith("Use speculation for case (1.50 times as fast)")


FAILED: dict[str, Any] = {
    "outcome": "timeout",
    "chunk_times": (),
    "chunk_tokens": None,
    "text": "",
    "closed": None,
}


@pytest.mark.parametrize("variant", ["baseline", "fast"])
def test_survivors(variant: str) -> None:
    caught = verdict(spoiled(run(), 3, variant, **FAILED))
    assert codes(caught.comparisons[0]) == [("failures", True)]
    assert not caught.comparisons[0].counts
    assert "Case cannot count, because too many requests failed" in caught.sentence
    passed = row(spoiled(run(), 2, variant, **FAILED))
    assert codes(passed) == [("failures", False)]
    assert passed.counts
    assert f"2 of 20 requests to {variant} failed (2 timeout)" in passed.says


def test_seventeen_of_twenty_failing_is_no_advice_to_use_it() -> None:
    found = verdict(spoiled(run(), 17, **FAILED))
    assert "se speculation" not in found.sentence


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", 0.7),
        ("thinking", True),
        ("requested_tokens", 50),
        ("prompt_tokens", 9999),
        ("output_tokens", 99),
    ],
)
def test_pairs_agree(name: str, value: Any) -> None:
    caught = row(spoiled(run(), 3, **{name: value}))
    assert ("unlike pairs", True) in codes(caught)
    assert caught.unlike_pairs == 3
    assert f"3 of 20 pairs differ in {name.replace('_', ' ')}" in caught.says
    passed = row(spoiled(run(), 2, **{name: value}))
    assert codes(passed) == [("unlike pairs", False)]
    assert passed.tpot is not None
    assert passed.tpot.prompts == 18


def test_the_length_is_the_models_choice_where_an_answer_may_end() -> None:
    free = [replace(record, requested_tokens=None) for record in run()]
    assert row(spoiled(free, 5, output_tokens=90)).unlike_pairs == 0


def test_a_prompt_count_that_a_server_does_not_give_is_no_difference() -> None:
    assert row(spoiled(run(), 5, prompt_tokens=None)).reasons == ()


def test_one_target_on_both_sides() -> None:
    other = {name: {**facts, "model": name} for name, facts in VARIANTS.items()}
    assert codes(row(run(), variants=other)) == [("other model", True)]
    unnamed = {name: {**facts, "model": None} for name, facts in VARIANTS.items()}
    assert row(run(), variants=unnamed).reasons == ()


@pytest.mark.parametrize(
    ("ours", "theirs", "counts"),
    [
        ("tokens:a", "tokens:b", False),
        ("tokens:a", "tokens:a", True),
        ("tokens:a", "prompt:b", True),
        ("tokens:a", None, True),
    ],
)
def test_one_template_on_both_sides(ours: str, theirs: str | None, counts: bool) -> None:
    served = {
        "baseline": {"template": ours},
        "fast": {"window": 7, "draft": "d", "template": theirs},
    }
    found = row(run(), variants=served)
    assert found.counts == counts
    assert (("other template", True) in codes(found)) == (not counts)


def test_one_server_under_two_names_is_noise() -> None:
    one = {name: {**facts, "url": "http://127.0.0.1:8001"} for name, facts in VARIANTS.items()}
    assert codes(row(run(), variants=one)) == [("same server", True)]
    apart = {name: {**facts, "url": f"http://127.0.0.1:800{len(name)}"} for name, facts in VARIANTS.items()}
    assert row(run(), variants=apart).reasons == ()


def test_a_side_without_records_is_named() -> None:
    records = run()
    for variant in VARIANTS:
        rest = [record for record in records if record.variant != variant]
        found = verdict([*rest, *(replace(record, test_case="other") for record in records)])
        (lost,) = [line for line in found.comparisons if line.test_case == "case"]
        assert codes(lost) == [("no records", True)]
        assert "case cannot count, because one side has no request" in found.sentence
        assert f"{variant} has no request here" in lost.says


def test_a_best_estimate_below_the_margin_never_reads_use() -> None:
    little = verdict(run(lambda _: 1.04))
    assert little.comparisons[0].decision in ("helps", "no difference")
    assert not little.comparisons[0].worthwhile
    assert "se speculation" not in little.sentence
    enough = verdict(run(lambda _: 1.06))
    assert enough.comparisons[0].worthwhile
    assert enough.sentence.startswith("Use speculation")
    assert MARGIN == 0.05


LOOP = answer(1, 10) + " loop" * 100


@pytest.mark.parametrize("variant", ["baseline", "fast"])
def test_a_loop_above_temperature_0(variant: str) -> None:
    hot = run(temperature=0.7)
    caught = row(spoiled(hot, 3, variant, text=LOOP))
    assert codes(caught) == [("sampled", False), ("loops", True)]
    assert f"3 of 20 answers of {variant} end in a loop" in caught.says
    passed = row(spoiled(hot, 2, variant, text=LOOP))
    assert codes(passed) == [("sampled", False), ("loops", False)]
    assert passed.counts


def test_loops_on_both_sides_at_temperature_0() -> None:
    both = spoiled(spoiled(run(), 11, text=LOOP), 11, "baseline", text=LOOP)
    assert ("loops", True) in codes(row(both))
    few = spoiled(spoiled(run(), 10, text=LOOP), 10, "baseline", text=LOOP)
    assert codes(row(few)) == [("loops", False)] * 2
    asked = [replace(record, prompt_class="structured") for record in both]
    assert row(asked).reasons == ()


@pytest.mark.parametrize(
    ("text", "looping"),
    [
        (answer(1) + " and so on" * 70, True),
        ("w0 w1 w2" + " loop" * 40, True),
        (answer(2, 60) + (". " + answer(3, 12)) * 8, True),
        ("a" * 400, True),
        (answer(1), False),
        (answer(1) + " and so on" * 20, False),  # only the last third
        (answer(2, 60) + (". " + answer(3, 30)) * 3, False),  # three times are a refrain
        ("\n".join(f"{n}. item {n}: {n * 7}" for n in range(60)), False),
        ("[" + ", ".join(f'{{"id": {n}, "ok": true}}' for n in range(40)) + "]", False),
        ("no no no no", False),
    ],
)
def test_what_a_loop_is(text: str, looping: bool) -> None:
    assert loops(text) is looping


def test_text_that_was_not_read_is_not_equal() -> None:
    silent = [replace(record, text="") for record in run()]
    caught = row(silent)
    assert codes(caught) == [("unread", True)]
    assert caught.parity.state == "not judged"
    passed = row(spoiled(run(), 2, text=""))
    assert codes(passed) == [("unread", False)]
    assert (passed.parity.state, passed.parity.total) == ("same", 18)


def test_no_time_per_token_is_explained() -> None:
    whole: dict[str, Any] = {"chunk_times": (5.0,), "chunk_tokens": (100,)}
    caught = row([replace(record, **whole) for record in run()])
    assert codes(caught) == [("no time per token", True)]
    assert "came at once" in caught.says
    uncounted = row(
        [replace(record, chunk_tokens=None, output_tokens=None, token_source="none") for record in run()]
    )
    assert "counts no tokens" in uncounted.says
    assert row(spoiled(run(), 2, **whole)).reasons == ()
    assert codes(row(spoiled(run(), 3, **whole))) == [("no time per token", True)]


def joined(records: Sequence[RequestRecord], every: int, share: float) -> list[RequestRecord]:
    """The speculative side with ``every`` tokens in each of a share of its steps, one in the others."""
    chance = random.Random(8)
    changed: list[RequestRecord] = []
    for line in records:
        if line.variant == "baseline":
            changed.append(line)
            continue
        counts = [1]
        while counts[-1] < 1000:
            counts.append(counts[-1] + (every if chance.random() < share else 4))
        times = tuple(0.1 + 0.06 * step for step in range(len(counts)))
        changed.append(replace(line, chunk_times=times, chunk_tokens=tuple(counts), output_tokens=counts[-1]))
    return [replace(line, requested_tokens=None) for line in changed]


def test_merged_steps_withhold_acceptance_and_windows() -> None:
    # Window 7 by the textbook: at most eight tokens in a step.
    caught = verdict(joined(run(), every=9, share=0.04))
    (measured,) = [m for m in caught.measurements if m.variant == "fast"]
    assert measured.acceptance is None
    assert caught.windows == ()
    assert any(line.startswith("Steps of fast are larger than the window allows") for line in caught.caveats)
    for passed in (
        verdict(joined(run(), every=9, share=0.01)),
        verdict(joined(run(), every=8, share=0.5)),
    ):
        (measured,) = [m for m in passed.measurements if m.variant == "fast"]
        assert measured.acceptance is not None
        assert passed.windows


def test_money_needs_sums() -> None:
    split = verdict(run(lambda number: 2.2 if number % 2 else 0.6, prompts=40))
    (total,) = split.overall
    assert total.tpot is not None
    assert total.fleet is not None
    assert total.tpot.value == pytest.approx((2.2 * 0.6) ** 0.5, rel=0.01)
    # Half the tokens take 1 / 2.2 and half 1 / 0.6 of the time: 1.061 in sum, with the TTFT that both share.
    assert 1 / total.fleet.value == pytest.approx(1.06, rel=0.01)
    assert "times the baseline's time in total, which is what you pay for" in split.sentence
    assert "se speculation" not in split.sentence
    even = verdict(run(lambda number: 2.2 if number % 2 else 0.9, prompts=40))
    assert "in sum" not in even.sentence


def test_a_significant_gain_that_costs_more_in_sum_is_no_advice() -> None:
    found = verdict(run(lambda number: 0.25 if number % 10 == 0 else 1.3, prompts=60))
    (line,) = found.comparisons
    assert line.tpot is not None
    assert line.fleet is not None
    assert line.tpot.value > 1 > line.fleet.value
    assert not line.worthwhile
    assert line.fleet.interval is not None
    assert line.fleet.interval.low < line.fleet.value < line.fleet.interval.high


def test_failed_requests_cost_what_they_took() -> None:
    from tests.analysis.test_judge import PRICE

    def usd(records: Sequence[RequestRecord]) -> float:
        found = judge(manifest(VARIANTS), records, price=PRICE)
        (cost,) = [m.cost for m in found.measurements if m.variant == "fast"]
        assert cost is not None
        return cost.node_usd

    gone = {**FAILED, "outcome": "http-error"}
    # Requests that were refused at once cost nothing; one that timed out cost 120 s without an answer.
    assert usd(spoiled(run(), 2, **gone)) == pytest.approx(usd(run()), rel=0.02)
    own = 18 * (0.1 + 99 * 0.05 / 1.5)
    assert usd(spoiled(run(), 2, **FAILED)) / usd(run()) == pytest.approx((own + 240) / own, rel=0.02)


def test_a_difference_within_the_baselines_own_is_undecided() -> None:
    slow = [
        replace(line, chunk_times=tuple(1.1 * time for time in line.chunk_times))
        if (line.variant, line.repeat) == ("baseline", 1)
        else line
        for line in run(lambda _: 1.02, repeats=2)
    ]
    caught = row(slow)
    assert caught.noise == pytest.approx(1.1, rel=0.01)
    assert caught.decision == "undecided"
    assert codes(caught) == [("within noise", False)]
    passed = row(run(lambda _: 1.2, repeats=2))
    assert passed.noise == pytest.approx(1, abs=0.01)
    assert passed.decision == "helps"


def parted(records: Sequence[RequestRecord], variant: str, repeat: int, at: int) -> list[RequestRecord]:
    """The run with one repeat of a variant saying something else from a character on."""
    return [
        replace(line, text=line.text[:at] + answer(f"other {line.prompt}", 60))
        if (line.variant, line.repeat) == (variant, repeat)
        else line
        for line in records
    ]


def test_a_baseline_that_never_repeats_itself_excuses_no_earlier_parting() -> None:
    noisy = parted(run(repeats=2), "baseline", 1, at=400)
    late = parted(parted(noisy, "fast", 0, at=380), "fast", 1, at=380)
    assert row(late).parity.state == "swaps"
    early = parted(parted(noisy, "fast", 0, at=20), "fast", 1, at=20)
    assert row(early).parity.state == "differs"
    assert not row(early).counts


def test_rates_of_parting() -> None:
    assert sooner(8, 800, 2, 8000)
    assert not sooner(8, 8000, 8, 8000)
    assert not sooner(1, 1000, 1, 1000)


def test_equal_texts_are_one_prompt() -> None:
    six = [replace(line, text="one and the same answer", prompt_tokens=12) for line in run(prompts=6)]
    found = row(six)
    assert found.tpot is not None
    assert (found.tpot.prompts, found.tpot.pairs) == (1, 6)
    assert found.decision == "undecided"
    apart = row(run(prompts=6))
    assert apart.tpot is not None
    assert apart.tpot.prompts == 6


def held_back(records: Sequence[RequestRecord], clump: int, **more: Any) -> list[RequestRecord]:
    """The plain side with ``clump`` tokens in each arrival, as behind a proxy that fills a buffer first."""
    found: list[RequestRecord] = []
    for one in records:
        if one.variant == "baseline":
            last = len(one.chunk_times) - 1
            ends = [min(last, index - index % clump + clump - 1) for index in range(last + 1)]
            times = tuple(one.chunk_times[end] for end in ends)
            found.append(replace(one, chunk_times=times, **more))
        else:
            found.append(one)
    return found


@pytest.mark.parametrize("clump", [2, 5, 20])
def test_a_plain_variant_whose_tokens_come_together_decides_nothing(clump: int) -> None:
    caught = row(held_back(run(), clump))
    assert codes(caught) == [("buffered", True)]
    assert not caught.counts
    assert "buffering" in caught.says


def test_the_size_of_buffers_is_named() -> None:
    assert "buffers of 4096 bytes" in row(held_back(run(), 1, buffer_bytes=4096)).says
    few = spoiled(run(), 3, variant="baseline", buffer_bytes=4096)
    assert row(few).reasons == ()


def test_a_part_that_was_not_read_is_never_equal() -> None:
    caught = row([replace(record, unread="field audio") for record in run()])
    assert codes(caught) == [("unread", True)]
    assert caught.parity.state == "not judged"
