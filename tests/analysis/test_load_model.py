"""Which window at which load: fitted on some loads, held against what the others are."""

import random
from dataclasses import replace

import numpy as np
import pytest

from scripts.tune_load_proof import COSTS, SURE, outcomes
from scripts.tune_proof import observed
from specdec.analysis.choice import CLOSE, Measured
from specdec.analysis.judge import judge
from specdec.analysis.load_model import fit_loads
from specdec.analysis.load_verdict import LoadWindow, WindowsOverLoad
from specdec.analysis.load_windows import over_load, predicted_loads
from specdec.analysis.observation import Observation
from specdec.catalog.conventions import TEXTBOOK
from specdec.catalog.instances import INSTANCES
from specdec.catalog.models import MODELS
from specdec.catalog.roofline import Floor, floor_of
from specdec.golden.truth import Speculation

from . import loads as simulated
from .simulate import manifest

WINDOW = 4


def advice(seed: int, drafted: simulated.Service, loads: tuple[float, ...]) -> WindowsOverLoad:
    records = simulated.run({"baseline": simulated.PLAIN, "drafted": drafted}, seed, loads=loads)
    verdict = judge(manifest({"baseline": {}, "drafted": {"window": drafted.window}}), records)
    assert verdict.loads is not None
    (row,) = verdict.loads.windows
    return row


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_two_loads_tell_the_others(seed: int) -> None:
    drafted = simulated.DRAFTED
    row = advice(seed, drafted, (1.0, 16.0))
    assert row.fitted == (1.0, 16.0)
    assert [point.load for point in row.rows if point.measured] == [1.0, 16.0]
    # What the services are made of, at loads that nobody measured.
    for point in row.rows:
        plain = simulated.PLAIN.step + simulated.PLAIN.batch_step * (point.load - 1)
        assert point.baseline_tpot == pytest.approx(plain, rel=0.12)
        if point.best == WINDOW:
            step = drafted.step + drafted.batch_step * (point.load - 1)
            true = plain * drafted.tokens_per_step / step
            assert point.low * 0.95 <= true <= point.high * 1.05
    # Smaller windows may pay a little longer than the measured one, never less.
    truth = simulated.truth()
    assert truth is not None
    assert row.off_above is not None
    assert row.off_above >= 0.8 * truth
    assert "off above" in row.says
    assert "disable_by_batch_size" in row.says
    # One window cannot tell what the cost of others has in common with it.
    assert row.confirm is not None
    assert f"measure window {row.confirm} over the same loads" in row.says


def fixed(load: float, window: int) -> float:
    """A step that takes longer with more requests, and as long at every window."""
    return 0.02 if not window else 0.024 + 0.01 * (load - 1)


def told(windows: tuple[int, ...]) -> dict[float, LoadWindow]:
    """Rows by load, from windows measured at 1 and 4 in flight."""
    chance = random.Random("fixed")
    texts = [[chance.random() < 0.6 for _ in range(300)] for _ in range(8)]
    seen = {
        load: {
            "case": [
                observed(
                    texts,
                    TEXTBOOK,
                    window,
                    lambda k, load=load: fixed(load, k) / fixed(load, 0),
                    chance,
                    plain=fixed(load, 0),
                )
                for window in windows
            ]
        }
        for load in (1.0, 4.0)
    }
    model = fit_loads(seen, TEXTBOOK, floor=Floor(), loads=(1.0, 2.0, 3.0, 4.0))
    assert model is not None
    names = tuple(f"w{window}" for window in windows)
    return {row.load: row for row in over_load(Measured(names, None, windows), model).rows}


@pytest.mark.slow
def test_a_cost_that_every_window_has_is_not_taken_for_one_per_token() -> None:
    # From window 7 alone a smaller window seems to cost less at a high load. It does not.
    alone, both = told((7,)), told((2, 7))
    assert alone[4.0].window is not None
    assert all(row.confidence < SURE for row in alone.values())
    # With window 2 measured, larger windows give more tokens for the same step, and none pays at 4.
    assert all(row.best >= 7 for row in both.values())
    assert both[4.0].window is None
    assert both[4.0].speedup == pytest.approx(0.89, abs=0.02)
    assert both[4.0].confidence > alone[4.0].confidence
    # The range is wider where less was measured near it.
    widths = [row.high - row.low for row in (both[4.0], alone[4.0])]
    assert widths[0] < widths[1] / 3


@pytest.mark.slow
def test_it_is_hardly_ever_sure_and_wrong() -> None:
    # scripts/tune_load_proof.py tries 22 of each shape.
    results = [
        one for shape in COSTS for one in outcomes(shape, services=1, windows=(3, 7), loads=(1.0, 8.0))
    ]
    sure = [one for one in results if one.sure > SURE]
    assert sure
    assert sum(one.loss > CLOSE for one in sure) <= 0.05 * len(results)


@pytest.mark.slow
def test_the_mix_and_the_lowest_load_agree() -> None:
    records = simulated.run({"baseline": simulated.PLAIN, "drafted": simulated.DRAFTED}, 5, loads=(1.0, 8.0))
    verdict = judge(manifest({"baseline": {}, "drafted": {"window": WINDOW}}), records)
    assert verdict.loads is not None
    lowest = verdict.loads.windows[0].rows[0]
    (mix,) = [advice for advice in verdict.windows if advice.test_case is None]
    assert (mix.recommended, mix.confidence) == (lowest.window, lowest.confidence)
    assert mix.baseline_tpot == lowest.baseline_tpot


@pytest.mark.slow
def test_what_pays_at_every_load_and_at_none_is_said() -> None:
    cheap = replace(simulated.DRAFTED, batch_step=0.0006)
    row = advice(1, cheap, (1.0, 4.0))
    assert row.off_above is None
    assert "it pays at every load from 1 to 4" in row.says
    dear = replace(simulated.DRAFTED, step=0.4)
    row = advice(1, dear, (1.0, 4.0))
    assert row.off_above is None
    assert row.says.startswith("leave speculation off from 1 to 4 requests in flight (")
    assert {point.window for point in row.rows} == {None}


def test_a_run_of_rates_has_no_advice_over_load() -> None:
    records = [
        replace(record, rate=float(record.concurrency))
        for record in simulated.run(
            {"baseline": simulated.PLAIN, "drafted": simulated.DRAFTED}, 1, loads=(1.0, 2.0), tokens=40
        )
    ]
    verdict = judge(manifest({"baseline": {}, "drafted": {"window": 4}}), records)
    assert verdict.loads is not None
    assert verdict.loads.windows == ()


def at_the_roof(load: float, floor: Floor, *, plain: float, extra: float, prompts: int = 6) -> Observation:
    """Services at the roofline, with a fixed part beside it: what the model's words say, by hand."""
    rng = np.random.default_rng(7)
    speculation = Speculation(0.7, WINDOW)
    sequences: list[tuple[tuple[int, ...], ...]] = []
    for _ in range(prompts):
        draws = np.minimum(rng.geometric(1 - speculation.acceptance, size=200), WINDOW + 1)
        sequences.append((tuple(int(draw) for draw in draws),))
    counts = np.array([float(len(one[0])) for one in sequences])
    tokens = np.array([float(sum(one[0])) for one in sequences])
    step = plain + floor.at(load, WINDOW + 1) + extra
    sizes = np.array(
        [[one[0].count(size) for size in range(1, WINDOW + 2)] for one in sequences], dtype=float
    )
    return Observation(
        window=WINDOW,
        fill=1.0,
        sizes=sizes,
        sequences=tuple(sequences),
        steps=counts,
        drafted=counts,
        tokens=tokens,
        seconds=counts * step,
        baseline=np.full(prompts, plain + floor.at(load, 1)),
    )


def test_the_roofline_bends_where_a_line_would_not() -> None:
    # Computing overtakes reading at eight tokens in a step.
    floor = Floor(weights=0.02, cache=0.0001, compute=0.0026)
    loads = (1.0, 2.0, 4.0, 8.0, 16.0)
    seen = {
        load: {"case": [at_the_roof(load, floor, plain=0.005 + 0.0002 * load, extra=0.004)]} for load in loads
    }
    ends = {load: seen[load] for load in (1.0, 16.0)}
    errors: dict[bool, float] = {}
    for roofline in (True, False):
        model = fit_loads(ends, TEXTBOOK, floor=floor if roofline else Floor(), loads=loads)
        assert model is not None
        worst = 0.0
        for load in loads:
            (one,) = seen[load]["case"]
            true = one.seconds.sum() / one.tokens.sum()
            place = WINDOW - model.windows.start
            worst = max(worst, abs(model.tpot(load)[0, place] / true - 1))
        errors[roofline] = worst
    assert errors[True] < 0.01
    # Without it the line through both ends misses what lies between, by its bend.
    assert errors[False] > 0.05


def test_the_floor_is_that_of_the_catalogue() -> None:
    model, instance = MODELS["Qwen/Qwen3-32B"], INSTANCES["trn2.48xlarge"]
    floor = floor_of(model, instance, devices=8, tensor_parallel_degree=32, context=600)
    # 64 GB at 8 x 2.9 TB/s, and two operations per weight at 8 x 667 TFLOPS.
    assert floor.weights == pytest.approx(0.0028, rel=0.05)
    assert floor.compute == pytest.approx(64e9 / (8 * 667e12), rel=0.05)
    # Reading 64 GB takes as long as computing some 230 tokens: below, a window rides along.
    turn = floor.weights / floor.compute
    assert turn == pytest.approx(667 / 2.9, rel=0.01)
    assert floor.at(1, 8) == floor.at(1, 1)
    assert floor.at(128, 8) > floor.at(128, 1)


def test_loads_are_whole_and_none_outside_the_measured() -> None:
    assert predicted_loads((1.0, 4.0)) == [1.0, 2.0, 3.0, 4.0]
    many = predicted_loads((1.0, 8.0, 256.0))
    assert many[0] == 1.0
    assert many[-1] == 256.0
    assert 8.0 in many
    assert len(many) <= 32
    assert all(load == int(load) for load in many)
