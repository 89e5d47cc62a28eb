from __future__ import annotations

import json
from datetime import date
from typing import get_args

import pytest
from click.testing import CliRunner

from specdec.catalog.kubernetes import SUPPORT
from specdec.commands.estimate import command
from specdec.commands.workload import workload_of
from specdec.experiment.fields import Cluster, Experiment, Network
from specdec.experiment.reading import load, parse
from specdec.pricing.elsewhere import candidates
from specdec.pricing.items import CostItem, items, node_cost
from specdec.pricing.predict import predict, run_hours
from specdec.pricing.workload import Workload
from tests.operate.conftest import DEFAULT, REGION, experiment_with

PRICED = ("[benchmark]", "[cost]\nnode_usd_per_hour = 40.0\n\n[benchmark]")

WORKLOAD = Workload(prompts=42, test_cases=8, llmperf_cases=6)


def estimated(
    experiment: Experiment, region: str, *, asked: dict[str, float] | None = None
) -> list[CostItem]:
    return items(experiment, region, WORKLOAD, today=date(2026, 12, 1), asked=asked)


def test_a_price_of_the_experiment_goes_before_any_other() -> None:
    experiment = experiment_with(PRICED)
    assert node_cost(experiment, REGION, asked_usd_per_hour=99.0).usd_per_hour == 40.0
    assert node_cost(experiment_with(), REGION, asked_usd_per_hour=99.0).usd_per_hour == 99.0


def test_a_capacity_block_is_not_priced_by_the_on_demand_list() -> None:
    block = experiment_with(
        ('purchase = "on-demand"', 'purchase = "capacity-block"'),
        ('zone = "us-east-2b"', 'zone = "us-east-2b"\nreservation_id = "cr-0000000a"'),
    )
    assert node_cost(block, REGION, asked_usd_per_hour=1.0).usd_per_hour != 1.0


def test_every_item_has_a_source_and_the_nodes_are_counted() -> None:
    table = {
        item.name: item
        for item in estimated(
            experiment_with(PRICED, ("desired_nodes = 0", "desired_nodes = 2\nmax_nodes = 2")), REGION
        )
    }
    assert table["trn2.48xlarge nodes, while up"].usd_per_hour == 80.0
    assert table["EKS control plane"].usd_per_hour == 0.10
    # 65.5 + 3.4 GB of weights, and a sharded copy for each variant: 65.5 and 69.0 GB.
    assert table["bucket, GB"].count == pytest.approx(203.4, abs=0.1)
    assert all(
        item.source and (item.date or item.source.endswith("of the experiment")) for item in table.values()
    )


def test_endpoints_cost_what_a_gateway_would_not() -> None:
    network = Network(internet=False)
    isolated = experiment_with(PRICED).model_copy(update={"network": network})
    table = {item.name: item for item in estimated(isolated, REGION)}
    endpoints = table["VPC endpoints, per zone (traffic apart)"]
    assert (endpoints.count, endpoints.usd_per_hour) == (24, pytest.approx(0.24))
    assert not any("NAT" in name for name in table)
    assert any("NAT" in item.name for item in estimated(experiment_with(PRICED), REGION))


def test_what_exists_costs_the_experiment_nothing() -> None:
    place = (
        experiment_with().placement[REGION].model_copy(update={"cluster_name": "c", "vpc_id": "vpc-0000000a"})
    )
    existing = experiment_with(PRICED).model_copy(update={"placement": {REGION: place}})
    names = {item.name for item in estimated(existing, REGION)}
    assert not names & {"EKS control plane", "NAT gateway (traffic apart)"}


def test_what_aws_tells_of_a_system_node_goes_before_the_catalogue() -> None:
    catalogue, told = (
        next(
            item
            for item in estimated(experiment_with(PRICED), REGION, asked=asked)
            if item.name == "m7i.2xlarge system node"
        )
        for asked in (None, {"m7i.2xlarge": 0.5})
    )
    assert (told.usd_per_hour, told.source) == (0.5, f"AWS pricing API, on demand, {REGION}")
    assert catalogue.usd_per_hour != told.usd_per_hour


def test_the_prediction_spans_the_published_results() -> None:
    baseline, speculative = predict(experiment_with(PRICED), REGION)
    assert baseline.tpot[0] < 0.0098 < 0.045 < baseline.tpot[1]
    assert speculative.tpot[0] < 0.015 < speculative.tpot[1] == baseline.tpot[1]
    assert baseline.break_even is None
    assert speculative.break_even is not None
    assert 0 < (speculative.break_even[0] or 0) < (speculative.break_even[1] or 1) < 1
    assert baseline.share_usd is not None
    assert baseline.node_usd is not None
    # 8 of 16 devices: half the node. 40 USD/h at 4 streams and 47 ms: 40e6 * 0.0475 / (3600 * 4).
    assert baseline.share_usd[1] == pytest.approx(baseline.node_usd[1] / 2)
    assert baseline.node_usd[1] == pytest.approx(40e6 * baseline.tpot[1] / (3600 * 4))


def test_a_stack_that_wastes_a_proposal_needs_a_better_draft_to_break_even() -> None:
    text = (DEFAULT.parent / "examples" / "eagle3.toml").read_text(encoding="utf-8")
    textbook = parse(text)
    wasting = textbook.model_copy(
        update={"serving": textbook.serving.model_copy(update={"stack": "vllm-0.16.0-sdk-2.31.1"})}
    )
    needed = [predict(experiment, REGION)[1].break_even for experiment in (textbook, wasting)]
    assert needed[0] is not None
    assert needed[1] is not None
    assert (needed[0][0] or 0) < (needed[1][0] or 0)


def test_five_dollars_an_hour() -> None:
    experiment = load(DEFAULT.parent / "examples" / "five-dollars.toml")
    own, *others = candidates(experiment, "ap-southeast-4", WORKLOAD, today=date(2026, 12, 1))
    assert (own.nodes, own.devices, own.tensor_parallel_degree) == (2, 1, 4)
    assert own.node_usd_per_hour == pytest.approx(4.47)
    assert own.hours is not None
    assert own.usd_per_hour is not None
    assert own.usd == pytest.approx((own.hours[0] * own.usd_per_hour, own.hours[1] * own.usd_per_hour))
    # Others measured 99.2 tokens a second without a draft and 113 to 193 with it, on this instance and stack.
    baseline, eagle = own.predictions
    assert baseline.tpot[0] <= 1 / 99.2 * 1.02 <= baseline.tpot[1]
    assert eagle.tpot[0] <= 1 / 193 * 1.02 <= 1 / 113.4 <= eagle.tpot[1]
    reasons = {other.instance_type: other.refused for other in others}
    assert reasons["trn2.48xlarge"] is None
    assert "does not run on Trainium, " in (reasons["trn1.32xlarge"] or "")


def test_one_after_the_other_takes_half_the_nodes_and_a_start_for_each_phase() -> None:
    """Everything together stays under five dollars an hour, not the nodes alone."""
    two, one = (load(DEFAULT.parent / "examples" / f"{name}.toml") for name in ("five-dollars", "one-node"))
    both, own = (
        candidates(experiment, "ap-southeast-4", workload_of(experiment), today=date(2026, 12, 1))[0]
        for experiment in (two, one)
    )
    assert (own.nodes, own.node_usd_per_hour) == (1, pytest.approx(2.235))
    assert own.usd_per_hour is not None
    assert own.usd_per_hour < 5
    assert both.node_usd_per_hour is not None
    assert both.usd_per_hour is not None
    assert both.node_usd_per_hour < 5 < both.usd_per_hour
    readme = " ".join((DEFAULT.parent / "README.md").read_text(encoding="utf-8").split())
    said = f"{both.node_usd_per_hour:.2f} USD an hour for the nodes, {both.usd_per_hour:.2f} with everything"
    assert said in readme
    assert f"for {own.usd_per_hour:.2f} an hour with everything" in readme
    predictions = predict(one, "ap-southeast-4")
    starts, again = one.stack.start_minutes, one.stack.restart_minutes
    for end in (0, 1):
        requests = WORKLOAD.prompts * one.benchmark.output_tokens
        plain, draft = (prediction.tpot[end] * requests / 3600 for prediction in predictions)
        # baseline, draft, baseline, draft, baseline: two servers start for the first time, three again.
        expected = 3 * plain + 2 * draft + (2 * starts[end] + 3 * again[end]) / 60
        assert run_hours(one, WORKLOAD, predictions)[end] == pytest.approx(expected)


def test_the_published_pair_does_not_fit_the_host_of_one_chip() -> None:
    found = {
        c.instance_type: c for c in candidates(experiment_with(), REGION, WORKLOAD, today=date(2026, 12, 1))
    }
    assert "GiB of host memory" in (found["trn2.3xlarge"].refused or "")
    trn1 = found["trn1.32xlarge"]
    assert (trn1.refused, trn1.devices, trn1.tensor_parallel_degree, trn1.nodes) == (None, 8, 16, 1)


def test_several_loads_and_variants_in_turn_take_the_sum_of_their_times() -> None:
    experiment = experiment_with(PRICED)
    predictions = predict(experiment, REGION)

    def measuring(**changes: object) -> float:
        benchmark = experiment.benchmark.model_copy(update=changes)
        other = experiment.model_copy(update={"benchmark": benchmark})
        return run_hours(other, WORKLOAD, predictions)[1] - experiment.stack.start_minutes[1] / 60

    assert measuring(self_check=0.0) == pytest.approx(2 * measuring(schedule="concurrent"))
    # A quarter of the baseline's requests, which here take as long as the variant's at worst, are sent twice.
    assert measuring() == pytest.approx(2.25 / 2 * measuring(self_check=0.0))
    # One in flight takes four times as long as four; eight no less than four, the most that decode together.
    assert measuring(loads=(1.0, 4.0, 8.0)) == pytest.approx(6 * measuring())


def test_the_command_prints_json_that_adds_up() -> None:
    printed = CliRunner().invoke(command, ["--experiment", str(DEFAULT), "--hours", "10", "--json"])
    document = json.loads(printed.stdout)
    assert document["usd"] == pytest.approx(10 * sum(item["usd_per_hour"] or 0 for item in document["items"]))


def test_a_kubernetes_version_past_its_standard_support_costs_six_times_as_much() -> None:
    older = experiment_with(PRICED, ("[capacity]", '[cluster]\nkubernetes_version = "1.34"\n\n[capacity]'))

    def control_plane(today: date) -> float | None:
        table = {item.name: item for item in items(older, REGION, WORKLOAD, today=today)}
        return table["EKS control plane"].usd_per_hour

    assert (control_plane(date(2026, 12, 2)), control_plane(date(2026, 12, 3))) == (0.10, 0.60)


def test_every_kubernetes_version_that_may_be_named_has_its_support_dated() -> None:
    choices = get_args(Cluster.model_fields["kubernetes_version"].annotation)
    assert set(SUPPORT) == set(choices)


def test_the_words_of_an_estimate_say_what_they_rest_on() -> None:
    said = CliRunner().invoke(command, ["--experiment", str(DEFAULT), "--hours", "1"]).stdout
    assert "USD for 1 hour\n" in said
    assert "no price of on-demand in us-east-2 known; taken from capacity-block in us-east-2" in said
    assert "best case" in said
    without = float(said.partition("the same without accelerator nodes")[2].split()[0])
    total = float(said.partition("total of known prices")[2].split()[0])
    # A node's root volume goes with the node: 500 GB at 0.08 USD a month of 730 hours.
    assert total - without == pytest.approx(36.46 + 500 * 0.08 / 730, abs=0.002)
    two = str(DEFAULT.parent / "examples" / "five-dollars.toml")
    table = json.loads(CliRunner().invoke(command, ["--experiment", two, "--json"]).stdout)["items"]
    gone = {item["name"]: item["count"] for item in table if item["while_up"]}
    assert gone == {"trn2.3xlarge nodes, while up": 2, "their root volumes, GB, while up": 1000}
    chip = str(DEFAULT.parent / "examples" / "one-node.toml")
    assert (
        "1 node, 1 device a service, TP4: 2.235 USD an hour"
        in CliRunner().invoke(command, ["--experiment", chip]).stdout
    )
