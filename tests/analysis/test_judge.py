"""The verdict as a whole, on simulated runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from specdec.analysis.conventions import convention_of
from specdec.analysis.cost import usd_at
from specdec.analysis.judge import judge
from specdec.analysis.verdict import Verdict
from specdec.catalog.conventions import NXDI_FUSED, TEXTBOOK
from specdec.catalog.prices import NodePrice
from specdec.experiment.reading import load
from specdec.runs.record import RequestRecord, ServerSpeculation
from tests.analysis.simulate import manifest, service

PRICE = NodePrice(
    instance_type="trn2.48xlarge",
    usd_per_hour=36.0,
    purchase="experiment",
    region=None,
    source="test",
    date=None,
)
EXPERIMENT = load(Path(__file__).parents[2] / "experiment.toml")


def configuration(**more: Any) -> dict[str, Any]:
    """The shipped experiment with its second variant called ``fast``, as a run keeps it."""
    plain = EXPERIMENT.resolved() | more
    plain["variants"][1]["name"] = "fast"
    return plain


def kept(_position: int) -> float:
    return 0.9


def dropped(_position: int) -> float:
    return 0.2


def cost(window: int) -> float:
    return 1 + 0.15 * window


def fast(
    test_case: str, acceptance: Any = kept, *, window: int = 7, name: str = "fast", **more: Any
) -> list[RequestRecord]:
    return service(
        name, prompts=6, seed=1, test_case=test_case, window=window, acceptance=acceptance, cost=cost, **more
    )


def plain(test_case: str, *, name: str = "baseline", **more: Any) -> list[RequestRecord]:
    return service(name, prompts=6, seed=1, test_case=test_case, **more)


def verdict(
    records: list[RequestRecord], variants: dict[str, dict[str, Any]] | None = None, **more: Any
) -> Verdict:
    settings: dict[str, Any] = {"price": PRICE} | {
        key: more.pop(key) for key in ("price", "convention") if key in more
    }
    return judge(
        manifest(variants or {"baseline": {}, "fast": {"window": 7, "draft": "d"}}, **more),
        records,
        **settings,
    )


def test_helps_where_acceptance_is_high_and_hurts_where_it_is_low() -> None:
    found = verdict(plain("easy") + plain("hard") + fast("easy") + fast("hard", dropped))
    assert {row.test_case: row.decision for row in found.comparisons} == {"easy": "helps", "hard": "hurts"}
    assert found.sentence.startswith("Use speculation for easy (")
    assert "leave it off for hard" in found.sentence
    easy = next(row for row in found.comparisons if row.test_case == "easy")
    # Textbook, a = 0.9, k = 7: (1 - 0.9^8) / 0.1 = 5.695 tokens per step, cost 2.05: 2.78 times.
    assert easy.tpot is not None
    assert easy.tpot.value == pytest.approx(2.78, rel=0.05)


def test_measured_acceptance_matches_the_simulation() -> None:
    found = verdict(plain("easy") + fast("easy"))
    acceptance = found.measurement("fast", "easy")
    assert acceptance is not None
    assert acceptance.acceptance is not None
    assert acceptance.acceptance.tokens_per_step == pytest.approx(5.695, rel=0.05)
    assert acceptance.acceptance.source == "client-chunks"
    assert [round(position.conditional, 1) for position in acceptance.acceptance.by_position] == [0.9] * 7
    base = found.measurement("baseline", "easy")
    assert base is not None
    assert base.acceptance is not None
    assert base.acceptance.tokens_per_step == 1.0
    assert base.acceptance.rate is None


def test_a_server_that_merges_steps_gives_no_acceptance_but_still_speed() -> None:
    def merged(record: RequestRecord) -> RequestRecord:
        assert record.chunk_tokens is not None
        return replace(record, chunk_times=record.chunk_times[::2], chunk_tokens=record.chunk_tokens[::2])

    found = verdict([merged(record) for record in plain("easy") + fast("easy")])
    assert all(m.acceptance is None for m in found.measurements)
    assert found.comparisons[0].decision == "helps"
    assert found.windows == ()
    assert any("cannot be read from the stream" in caveat for caveat in found.caveats)


def test_failed_parity_is_marked_and_does_not_count() -> None:
    records = plain("easy") + [replace(r, text="the ending") if r.prompt == "p2" else r for r in fast("easy")]
    found = verdict(records)
    row = found.comparisons[0]
    assert (row.decision, row.counts, row.parity.state) == ("helps", False, "differs")
    assert (row.parity.equal, row.parity.total) == (5, 6)
    assert row.parity.differences[0].position == 4
    assert "cannot count" in found.sentence
    assert found.classes == ()


def test_an_unfinished_run_decides_nothing() -> None:
    found = verdict(plain("easy") + fast("easy"), status="interrupted", problem="Ctrl-C")
    assert found.sentence == "No verdict: this run is interrupted."
    assert {row.decision for row in found.comparisons} == {"undecided"}
    assert found.windows == ()
    assert "Ctrl-C" in found.caveats[0]


def test_warm_up_failures_and_other_lanes_enter_no_number() -> None:
    records = plain("easy") + fast("easy")
    spoiled = [
        replace(records[0], warmup=True, chunk_times=(1.0, 99.0), chunk_tokens=(1, 2)),
        replace(records[0], lane="llmperf", chunk_times=(1.0, 99.0), chunk_tokens=(1, 2)),
        replace(records[-1], repeat=1, outcome="timeout", chunk_times=(), chunk_tokens=None),
    ]
    clean, found = verdict(records), verdict(records + spoiled)
    assert [row.tpot for row in found.comparisons] == [row.tpot for row in clean.comparisons]
    assert [reason.code for reason in found.comparisons[0].reasons] == ["failures"]
    assert [m.failures for m in found.measurements] == [0, 1]
    assert any(caveat.startswith("1 request failed") for caveat in found.caveats)


def test_a_tuned_baseline_is_the_one_to_beat() -> None:
    variants = {"baseline": {}, "tuned": {}, "fast": {"window": 7, "draft": "d"}}
    found = verdict(plain("easy") + plain("easy", name="tuned", factor=0.4) + fast("easy"), variants)
    rows = {(row.variant, row.against): row for row in found.comparisons}
    assert set(rows) == {("tuned", "baseline"), ("fast", "baseline"), ("fast", "tuned")}
    assert rows["fast", "tuned"].best_baseline
    # 2.78 times the first baseline is 1.11 times one that takes 0.4 of its time.
    ratio = rows["fast", "tuned"].tpot
    assert ratio is not None
    assert ratio.value == pytest.approx(1.11, rel=0.05)
    assert found.sentence.endswith("Speed is against the best baseline of each test case.")


def test_two_drafts_are_compared() -> None:
    def some(_position: int) -> float:
        return 0.6

    def cheap(window: int) -> float:
        return 1 + 0.05 * window

    variants = {
        "baseline": {},
        "fast": {"window": 7, "draft": "large"},
        "small": {"window": 7, "draft": "small"},
    }
    small = service("small", prompts=6, seed=2, test_case="easy", window=7, acceptance=some, cost=cheap)
    found = verdict(plain("easy") + fast("easy") + small, variants)
    assert [row.draft for row in found.drafts] == ["large", "small"]
    first, second = found.drafts
    assert first.speedup > second.speedup
    assert first.acceptance_to_match is None
    # The cheap draft needs less acceptance than the expensive one for the same speed, and more than it has.
    assert second.acceptance_to_match is not None
    assert second.acceptance < second.acceptance_to_match < first.acceptance


def test_windows_of_one_draft_make_one_curve() -> None:
    variants = {"baseline": {}, "w3": {"window": 3, "draft": "d"}, "w9": {"window": 9, "draft": "d"}}
    found = verdict(
        plain("easy") + fast("easy", window=3, name="w3") + fast("easy", window=9, name="w9"), variants
    )
    case, mix = found.windows
    assert case.measured_windows == mix.measured_windows == (3, 9)
    assert {p.window for p in case.curve if p.measured_tpot is not None} == {3, 9}
    for point in case.curve:
        if point.measured_tpot is not None:
            assert point.tpot == pytest.approx(point.measured_tpot, rel=0.05)


def test_requests_that_all_ran_at_one_time_are_told() -> None:
    together = [replace(record, concurrency=4, block=2) for record in plain("easy") + fast("easy")]
    assert any("This design cannot decide easy" in caveat for caveat in verdict(together).caveats)
    apart = [replace(record, block=index % 2) for index, record in enumerate(together)]
    assert not any("This design cannot decide" in caveat for caveat in verdict(apart).caveats)


def test_nothing_proposed_says_nothing_about_a_window() -> None:
    reported = [
        replace(
            record, server=ServerSpeculation(drafts=0, draft_tokens=0, accepted_tokens=0, source="timings")
        )
        for record in fast("easy")
    ]
    assert verdict(plain("easy") + reported).windows == ()
    assert verdict(plain("easy")[:2] + fast("easy")[:2]).windows == ()


def test_a_server_that_does_not_speculate_is_named_and_no_evidence() -> None:
    variants = {"baseline": {}, "w2": {"window": 2, "draft": "d"}, "w9": {"window": 9, "draft": "d"}}
    working = plain("easy") + fast("easy", window=9, name="w9")
    off = service("w2", prompts=6, seed=5, test_case="easy")
    found = verdict(working + off, variants)
    assert [advice.measured_windows for advice in found.windows] == [(9,), (9,)]
    (said,) = [caveat for caveat in found.caveats if "speculation is off" in caveat]
    assert "No step of w2 emitted" in said
    failed = [replace(record, outcome="http-error", chunk_times=(), chunk_tokens=None) for record in off]
    assert not any("speculation is off" in caveat for caveat in verdict(working + failed, variants).caveats)
    alone = verdict(plain("easy") + off, {name: variants[name] for name in ("baseline", "w2")})
    assert any("No step of w2 emitted" in caveat for caveat in alone.caveats)
    assert not any(
        "speculation is off" in caveat
        for caveat in verdict(working, {name: variants[name] for name in ("baseline", "w9")}).caveats
    )


def test_money_for_the_share_and_for_the_whole_node() -> None:
    found = verdict(plain("easy") + fast("easy"), configuration=configuration())
    base = found.measurement("baseline", "easy")
    assert base is not None
    assert base.cost is not None
    # One stream after another: 200 tokens in 0.2 + 199 * 0.045 = 9.155 s is 21.85 a second; 36 USD / 3600 s /
    # 21.85 * 1e6 = 457.7 USD. The simulated requests all start at 0, so six are in flight at once: 76.3 USD.
    assert base.cost.in_flight == pytest.approx(6, rel=0.02)
    assert base.cost.node_usd == pytest.approx(76.3, rel=0.02)
    assert base.cost.share_usd == base.cost.node_usd / 2


def test_roofline_of_the_published_baseline() -> None:
    found = verdict(plain("easy") + fast("easy"), configuration=configuration())
    base = found.rooflines[0]
    # 64 GB of weights over 8 * 2.9 TB/s is 2.76 ms, of 45 ms 6%.
    assert base.limit_tpot == pytest.approx(2.76e-3, rel=0.03)
    assert base.share == pytest.approx(0.062, rel=0.05)
    assert "tune the baseline" in base.says


def test_a_model_of_ones_own_has_a_roof_too() -> None:
    plain_facts = {
        "architecture": "Qwen3ForCausalLM",
        "tokenizer": "Qwen3",
        "layers": 32,
        "hidden_size": 4096,
        "attention_heads": 32,
        "kv_heads": 8,
        "head_size": 128,
        "intermediate_size": 12288,
        "vocabulary": 151936,
        "max_positions": 40960,
        "tied_embeddings": False,
        "parameters": 8_000_000_000,
        "revision": "main",
    }
    own = EXPERIMENT.resolved()["serving"] | {"target": "acme/Own-8B"}
    found = verdict(
        plain("easy") + fast("easy"),
        configuration=configuration(serving=own, models={"acme/Own-8B": plain_facts}),
    )
    # 16 GB of weights, less the rows of the input embedding that a step does not read, over 8 * 2.9 TB/s.
    read = 16e9 - 2 * 151936 * 4096
    assert found.rooflines[0].limit_tpot == pytest.approx(read / 23.2e12, rel=0.03)


def test_a_configuration_of_another_version_gives_no_price_and_no_roof() -> None:
    odd = configuration() | {"unheard_of": 1}
    found = verdict(plain("easy") + fast("easy"), configuration=odd, price=None)
    assert not found.prices
    assert found.rooflines == ()


def test_a_run_on_this_machine_has_no_price_and_no_roof() -> None:
    found = verdict(
        plain("easy") + fast("easy"),
        configuration=configuration(),
        environment={"engine": {"name": "llama.cpp"}},
        price=None,
    )
    assert not found.prices
    assert found.rooflines == ()
    assert found.convention == "textbook"
    assert any("on this machine" in caveat for caveat in found.caveats)


def test_what_a_token_costs_at_a_window() -> None:
    found = verdict(plain("easy") + fast("easy", window=5), configuration=configuration(), price=PRICE)
    (mix,) = (advice for advice in found.windows if advice.test_case is None)
    costs = {m.variant: m.cost for m in found.measurements}
    base, own = costs["baseline"], costs["fast"]
    assert base is not None
    assert own is not None
    assert usd_at(found, mix, None) == base.share_usd
    measured = mix.measured_windows[0]
    assert usd_at(found, mix, measured) == pytest.approx(own.share_usd)
    # The rest of the request is paid as before: only the time per token changes.
    best = min(mix.curve, key=lambda point: point.tpot)
    at = {point.window: point.tpot for point in mix.curve}
    seconds = own.in_flight / own.tokens_per_second + best.tpot - at[measured]
    share = own.share_usd / own.node_usd
    expected = share * PRICE.usd_per_hour * 1e6 * seconds / (3600 * own.in_flight)
    assert usd_at(found, mix, best.window) == pytest.approx(expected)
    assert usd_at(replace(found, measurements=()), mix, None) is None


def test_convention_follows_the_serving_stack() -> None:
    assert convention_of(manifest({}, configuration=configuration())) is NXDI_FUSED
    assert convention_of(manifest({}, configuration={})) is TEXTBOOK


def test_same_records_same_verdict() -> None:
    records = plain("easy") + fast("easy")
    assert verdict(records) == verdict(records)


def test_nothing_measured_is_said() -> None:
    found = verdict([])
    assert found.comparisons == ()
    assert found.sentence == "Nothing to compare."
