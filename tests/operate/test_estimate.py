from __future__ import annotations

import json
from datetime import date
from typing import get_args

import pytest
from click.testing import CliRunner

from specdec.catalog.kubernetes import SUPPORT
from specdec.commands.estimate import command
from specdec.experiment.fields import Cluster, Experiment
from specdec.pricing.items import CostItem, items, node_cost
from specdec.pricing.predict import predict
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
        ('zone = "us-east-2b"', 'zone = "us-east-2b"\nreservation_id = "cr-0a"'),
    )
    assert node_cost(block, REGION, asked_usd_per_hour=1.0).usd_per_hour != 1.0


def test_every_item_has_a_source_and_the_nodes_are_counted() -> None:
    table = {
        item.name: item
        for item in estimated(
            experiment_with(PRICED, ("desired_nodes = 1", "desired_nodes = 2\nmax_nodes = 2")), REGION
        )
    }
    assert table["trn2.48xlarge nodes"].usd_per_hour == 80.0
    assert table["EKS control plane"].usd_per_hour == 0.10
    # 65.5 + 3.4 GB of weights, and a sharded copy for each variant: 65.5 and 69.0 GB.
    assert table["bucket, GB"].count == pytest.approx(203.4, abs=0.1)
    assert all(
        item.source and (item.date or item.source.endswith("of the experiment")) for item in table.values()
    )


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
    assert baseline.share_usd is not None
    assert baseline.node_usd is not None
    # 8 of 16 devices: half the node. 40 USD/h at 4 streams and 47 ms: 40e6 * 0.0475 / (3600 * 4).
    assert baseline.share_usd[1] == pytest.approx(baseline.node_usd[1] / 2)
    assert baseline.node_usd[1] == pytest.approx(40e6 * baseline.tpot[1] / (3600 * 4))


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
