"""Small parts: steps, acceptance from a server's counts, prices, the sweep plan, the command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from specdec.analysis.acceptance import acceptance, drafted_steps
from specdec.analysis.choice import Measured, advise
from specdec.analysis.cost import usd_per_million_tokens
from specdec.analysis.observation import observe
from specdec.analysis.step_reading import read_steps, step_source
from specdec.analysis.sweep_plan import plan_sweep
from specdec.analysis.window_model import fit
from specdec.catalog.conventions import TEXTBOOK
from specdec.catalog.prices import PRICES, known_price
from specdec.commands.tune import command
from specdec.errors import BadInputError
from specdec.experiment.reading import parse
from tests.analysis.simulate import counted, record, service


def kept(_position: int) -> float:
    return 0.8


def cost(window: int) -> float:
    return 1 + 0.1 * window


def test_bursts_are_one_step() -> None:
    # Two steps of three tokens, each sent as three chunks a millisecond apart.
    one = record(
        "fast", "p", times=[0.2, 0.300, 0.301, 0.302, 0.400, 0.401, 0.402], counts=[1, 2, 3, 4, 5, 6, 7]
    )
    found = read_steps(one)
    assert found is not None
    assert found.tokens == (3, 3)
    assert found.seconds == pytest.approx(0.2)
    plain = record("baseline", "p", times=[0.2, 0.3, 0.4, 0.5], counts=[1, 2, 3, 4])
    assert step_source([plain], [one]) == "client-bursts"


def test_a_servers_accepted_tokens_give_the_mean() -> None:
    # 21 tokens: one from prefill, 20 in steps; 12 accepted, so 8 steps and 2.5 tokens per step.
    told = record(
        "fast", "p", times=[0.1, 0.2, 0.3], counts=[1, 11, 21], server=counted(None, 40, 12), output_tokens=21
    )
    found = acceptance([told], convention=TEXTBOOK, window=7, source=None, told=True)
    assert found is not None
    assert (found.source, found.steps, found.tokens_per_step, found.proposed, found.accepted) == (
        "server-per-request",
        8,
        2.5,
        40,
        12,
    )


def test_drafted_steps_from_proposed_tokens() -> None:
    told = record("fast", "p", times=[0.1, 0.2], counts=[1, 21], server=counted(None, 40, 12))
    assert drafted_steps([told], every=8, proposal=8.0) == 5
    assert drafted_steps([told], every=8, proposal=None) == 8


def test_cost_formula() -> None:
    # 36 USD an hour is 0.01 a second; 100 tokens a second make a million in 10,000 s: 100 USD.
    assert usd_per_million_tokens(36.0, 100.0) == pytest.approx(100.0)


def test_every_price_has_a_source_and_a_date() -> None:
    assert all(price.source and price.date for price in PRICES)


def test_a_disputed_price_is_never_chosen() -> None:
    found = known_price("trn2.48xlarge", "on-demand", "us-east-2")
    assert found is not None
    assert (found.purchase, found.region, found.disputed) == ("capacity-block", "us-east-2", None)
    assert known_price("p5.48xlarge", "on-demand") is None


def test_the_experiments_own_price_wins() -> None:
    text = (Path(__file__).parents[2] / "experiment.toml").read_text(encoding="utf-8")
    found = parse(f"{text}\n[cost]\nnode_usd_per_hour = 20.0\n").price("us-east-2")
    assert found is not None
    assert (found.usd_per_hour, found.purchase) == (20.0, "experiment")


def test_the_plan_confirms_first_and_adds_up_hours() -> None:
    base = service("baseline", prompts=6, seed=1)
    fast = service("fast", prompts=6, seed=1, window=4, acceptance=kept, cost=cost)
    seen = observe(base, fast, convention=TEXTBOOK, window=4)
    assert seen is not None
    mix = advise(Measured(("fast",), "d", (4,)), [fit([seen], TEXTBOOK)], test_case=None, tpots={})
    price = known_price("trn2.48xlarge", "capacity-block", "us-east-2")
    plan = plan_sweep(mix, bench_hours=0.25, compile_hours=1.0, price=price)
    assert plan
    assert all(step.window != 4 for step in plan)
    if mix.confirm is not None:
        assert plan[0].window == mix.confirm
    assert [step.node_hours for step in plan] == [1.25 * n for n in range(1, len(plan) + 1)]
    assert plan[0].usd == pytest.approx(1.25 * 36.46)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [(["--sweep", "a"], "--sweep"), (["--sweep", "0,4"], "--sweep"), (["--test-case", "x"], "--test-case")],
)
def test_wrong_input_names_the_option(arguments: list[str], field: str) -> None:
    with pytest.raises(BadInputError, match=field):
        CliRunner().invoke(command, arguments, standalone_mode=False, catch_exceptions=False)


def test_tune_prints_advice_and_json(tmp_path: Path) -> None:
    from tests.report.sample import records, write_run

    folder = write_run(
        tmp_path / "20261129T180000Z-5a17ed", records(tokens=60, repeats=1), environment={"machine": "node"}
    )
    text = CliRunner().invoke(command, [str(folder)], standalone_mode=False, catch_exceptions=False)
    assert text.return_value == 0
    assert "Mix: " in text.stdout
    assert "node-hours" in text.stdout
    assert max(map(len, text.stdout.splitlines())) <= 140
    parsed = json.loads(CliRunner().invoke(command, [str(folder), "--json"], standalone_mode=False).stdout)
    assert parsed["windows"][-1]["test_case"] is None
    assert parsed["sweep"]
