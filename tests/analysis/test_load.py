"""The verdict over load on simulated services whose crossing is known."""

from dataclasses import replace
from typing import Any

import pytest

from specdec.analysis.judge import judge
from specdec.analysis.load_sentences import short_answer
from specdec.analysis.load_verdict import LoadPoint, LoadRow, LoadVerdict
from specdec.analysis.verdict import Decision, Verdict
from specdec.catalog.prices import NodePrice
from specdec.runs.point import Point

from . import loads as simulated
from .simulate import manifest

VARIANTS: dict[str, dict[str, Any]] = {"baseline": {}, "drafted": {"window": 4}}
TRUTH = 5.82


def judged(drafted: simulated.Service = simulated.DRAFTED, seed: int = 1, **fields: Any) -> Verdict:
    run = {name: fields.pop(name) for name in ("configuration", "points", "status") if name in fields}
    price = fields.pop("price", None)
    records = simulated.run({"baseline": simulated.PLAIN, "drafted": drafted}, seed, **fields)
    return judge(manifest(VARIANTS, **run), records, price=price)


def over_load(verdict: Verdict) -> LoadVerdict:
    assert verdict.loads is not None
    return verdict.loads


def test_the_truth_is_what_the_settings_say() -> None:
    assert simulated.truth() == pytest.approx(TRUTH, abs=0.01)


def test_a_planted_crossing_is_found_and_its_interval_holds_the_truth() -> None:
    near = held = 0
    for seed in range(6):
        (row,) = over_load(judged(seed=seed)).rows
        (found,) = row.crossings
        near += abs(found.load / TRUTH - 1) < 0.1
        held += found.low <= TRUTH <= found.high
        assert row.helps_up_to in (1.0, 2.0, 4.0)
        assert row.hurts_from in (8.0, 16.0)
    assert near >= 4
    assert held >= 5


def test_two_alike_services_have_no_crossing() -> None:
    for seed in range(6):
        (row,) = over_load(judged(simulated.PLAIN, seed=seed, block_noise=0.05)).rows
        assert row.crossings == ()
        assert row.helps_up_to is None
        assert row.hurts_from is None


def test_the_answer_says_up_to_which_load_and_what_it_costs_above() -> None:
    verdict = judged(seed=2)
    assert verdict.sentence == over_load(verdict).sentence
    assert verdict.sentence == (
        "Use speculation up to 2 requests in flight (it turns at 4.63, 3 to 6.65); from 8 on it costs"
        " you 23%."
    )
    # The other parts are about the lowest load, and all rows of all loads hold together.
    assert verdict.load == 1.0
    (comparison,) = verdict.comparisons
    assert comparison.tpot is not None
    assert comparison.tpot.interval is not None
    assert comparison.tpot.interval.level == pytest.approx(1 - 0.02 / 5)


def test_one_load_reads_as_before() -> None:
    verdict = judged(loads=(1.0,))
    assert verdict.loads is None
    assert verdict.load is None


def test_a_run_that_did_not_end_decides_nothing() -> None:
    found = over_load(judged(status="interrupted"))
    assert found.sentence == ""
    assert all(point.decision == "undecided" for row in found.rows for point in row.points)
    assert all(row.crossings == () for row in found.rows)


LIMITS = {
    # TPOT of the plain service is 45 to 54 ms, of the drafted one 27 to 93 ms, from 1 to 16 in flight.
    "both carry all": ({"tpot_ms": 200}, (16.0, True), (16.0, True)),
    "one misses at once": ({"tpot_ms": 38}, (None, False), (2.5, False)),
    "both miss at once": ({"tpot_ms": 10}, (None, False), (None, False)),
    "TTFT is missed by both": ({"ttft_ms": 100, "tpot_ms": 200}, (None, False), (None, False)),
}


@pytest.mark.parametrize("limits", LIMITS)
def test_objectives(limits: str) -> None:
    objective, *expected = LIMITS[limits]
    found = over_load(judged(configuration={"objective": objective}, block_noise=0.0, prompt_noise=0.01))
    assert found.objective is not None
    for capacity, (load, at_least) in zip(found.capacities, expected, strict=True):
        assert capacity.at_least is at_least
        assert capacity.load == (None if load is None else pytest.approx(load, rel=0.3))
        assert capacity.ratio is None
        missed = f"{capacity.variant} misses the objective at the lowest load measured."
        assert (missed in found.caveats) is (load is None)
    kept = {(served.variant, served.load): served.kept for served in found.served}
    assert kept["drafted", 1.0] == (0 if expected[1][0] is None else 1)


def test_capacity_has_a_ratio_with_an_interval_and_a_price() -> None:
    price = NodePrice(
        instance_type="trn2.48xlarge",
        usd_per_hour=36.0,
        purchase="experiment",
        source="test",
        region=None,
        date=None,
    )
    found = over_load(judged(configuration={"objective": {"tpot_ms": 51}}, price=price, prompt_noise=0.03))
    plain, drafted = found.capacities
    assert plain.ratio is None
    assert plain.load is not None
    assert drafted.load is not None
    assert drafted.ratio == pytest.approx(drafted.load / plain.load)
    assert drafted.ratio_low is not None
    assert drafted.ratio_high is not None
    assert drafted.ratio_low < drafted.load / plain.load < drafted.ratio_high
    assert drafted.usd_per_million is not None
    ends = [s.usd_per_million for s in found.served if s.variant == "drafted" and s.load in (4.0, 8.0)]
    assert min(e for e in ends if e) <= drafted.usd_per_million <= max(e for e in ends if e)
    assert f"carries {drafted.load:.3g} requests in flight" in found.sentence


def test_classes_have_answers_of_their_own() -> None:
    good = replace(simulated.DRAFTED, acceptance=0.9, batch_step=0.002)
    records = simulated.run({"baseline": simulated.PLAIN, "drafted": simulated.DRAFTED}, 1)
    for record in simulated.run({"baseline": simulated.PLAIN, "drafted": good}, 2, prompt_class="structured"):
        records.append(replace(record, test_case="json", block=record.block + 1000))
    found = over_load(judge(manifest(VARIANTS), records))
    assert {row.prompt_class: row.hurts_from for row in found.rows}["structured"] is None
    assert "for open prompts use speculation up to" in found.sentence.lower()
    assert "for structured prompts use speculation up to 16 requests in flight" in found.sentence.lower()


def test_what_limits_the_answer_is_said() -> None:
    def point(variant: str, load: float, **fields: Any) -> Point:
        whole: dict[str, Any] = {
            "unit": "in flight",
            "planned": 16,
            "sent": 16,
            "end": "complete",
            "seconds": 9.0,
        }
        return Point(variant=variant, load=load, **(whole | fields))

    points = (
        point("baseline", 1.0),
        point("baseline", 8.0, loop_lag_seconds=0.03),
        point("drafted", 8.0, end="time", sent=7),
        point("drafted", 16.0, waiting=3.0),
        point("drafted", 32.0, end="saturated", sent=0),
    )
    said = " ".join(over_load(judged(points=points)).caveats)
    assert "The client itself was late at baseline 8:" in said
    assert "Not finished within the time per point: drafted 8." in said
    assert "kept requests waiting at drafted 16:" in said
    assert "Not measured: 32 requests in flight" in said


def test_acceptance_that_depends_on_load_is_said() -> None:
    assert not any("tokens per step" in text for text in over_load(judged()).caveats)
    records = [
        record
        if record.variant == "baseline" or record.concurrency < 8
        # Every second token is rejected at 8 in flight.
        else replace(
            record,
            chunk_times=tuple(0.2 + 0.1 * i for i in range(200)),
            chunk_tokens=tuple(range(1, 201)),
        )
        for record in simulated.run({"baseline": simulated.PLAIN, "drafted": simulated.DRAFTED}, 1)
    ]
    said = over_load(judge(manifest(VARIANTS), records)).caveats
    assert any("times the tokens per step at 8 requests in flight" in text for text in said)


@pytest.mark.parametrize(
    ("decisions", "says"),
    [
        (("undecided", "no difference"), "Undecided: this run cannot tell"),
        (("no difference", "no difference"), "Use it or not"),
        (("undecided", "hurts"), "Leave speculation off"),
        (("helps", "undecided"), "Use speculation up to 1 request in flight."),
    ],
)
def test_what_to_do_in_one_line(decisions: tuple[Decision, Decision], says: str) -> None:
    points = tuple(
        LoadPoint(load=load, ratio=None, decision=word, tokens_per_step=None, excluded=())
        for load, word in zip((1.0, 4.0), decisions, strict=True)
    )
    row = LoadRow(
        variant="speculative",
        prompt_class="open",
        points=points,
        helps_up_to=1.0 if decisions[0] == "helps" else None,
        hurts_from=4.0 if decisions[1] == "hurts" else None,
        crossings=(),
        says="",
    )
    verdict = LoadVerdict(
        unit="in flight",
        loads=(1.0, 4.0),
        level=0.98,
        rows=(row,),
        served=(),
        objective=None,
        capacities=(),
        sentence="",
        caveats=(),
    )
    assert short_answer(verdict).startswith(says)
