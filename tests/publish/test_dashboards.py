"""No chart of what nobody publishes, and nothing published that no chart shows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, get_args

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Template
from constructs import Construct

from specdec import metrics
from specdec.llmperf.results import PUBLISHED_CASES
from specdec.publish import series
from specdec.publish.datums import Datum, of_run
from specdec.runs.record import Outcome
from tests.publish.runs import record
from tests.publish.test_datums import manifest
from trainium_constructs import container_insights as insights
from trainium_constructs.alarms import Alarms
from trainium_constructs.dashboards import Dashboards
from trainium_constructs.decision_charts import HEIGHT
from trainium_constructs.workloads import Server

pytestmark = pytest.mark.slow

SERVICES = {"baseline": "qwen-vllm", "speculative": "qwen-sd-vllm", "tuned": "qwen-tuned-vllm"}
CASES = {"count": "structured", "sonnet": "open"}
WATCHED: dict[str, Any] = {
    "experiment": "exp",
    "cluster": SimpleNamespace(name="exp-us"),
    "system_nodes": SimpleNamespace(count=1),
    "workloads": SimpleNamespace(
        namespace="specdec", servers=[Server(variant, name, 8) for variant, name in SERVICES.items()]
    ),
}
"""What monitoring reads of the constructs it watches."""
OURS = {(one.namespace, one.name): one for one in (*series.exact(metrics.ALL), *series.RUN, *series.LLMPERF)}
THEIRS = {one.name: one for one in insights.ALL}


def build(scope: Construct, **changes: Any) -> tuple[Dashboards, Alarms]:
    alarms = Alarms(scope, "Alarms", unready_minutes=330, **WATCHED)
    given: dict[str, Any] = {
        "name": "exp-us",
        "accelerators": SimpleNamespace(devices=16),
        "alarms": alarms,
        "metrics": metrics.ALL,
        "test_cases": CASES,
        "llmperf_test_cases": list(PUBLISHED_CASES),
        "node_usd_per_hour": 35.76,
    }
    return Dashboards(scope, "Dashboards", **{**WATCHED, **given, **changes}), alarms


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    stack = cdk.Stack(cdk.App(), "S", env=cdk.Environment(region="us-east-2"))
    build(stack)
    return dict(Template.from_stack(stack).to_json())


@pytest.fixture(scope="module")
def bodies(template: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return dashboard_bodies(template)


def dashboard_bodies(template: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Dashboard name to its body, tokens replaced by text; invalid JSON fails here."""
    found: dict[str, dict[str, Any]] = {}
    for resource in template["Resources"].values():
        if resource["Type"] == "AWS::CloudWatch::Dashboard":
            parts = resource["Properties"]["DashboardBody"]["Fn::Join"][1]
            found[resource["Properties"]["DashboardName"]] = json.loads(
                "".join(p if isinstance(p, str) else "token" for p in parts)
            )
    return found


def drawn(body: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, str]]]:
    """(namespace, metric, dimensions) of every metric row of every widget, CloudWatch's shorthand
    resolved.
    """
    for widget in body["widgets"]:
        last: list[str] = []
        for row in widget["properties"].get("metrics", []):
            words = [one for one in row if isinstance(one, str)]
            if not words:
                continue
            full: list[str] = []
            for index, word in enumerate(words):
                full.append(last[index] if word == "." else word)
            last = full
            yield full[0], full[1], dict(zip(full[2::2], full[3::2], strict=True))


def watched(template: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, str]]]:
    """The same of every alarm."""
    for resource in template["Resources"].values():
        if resource["Type"] == "AWS::CloudWatch::Alarm":
            properties = resource["Properties"]
            for one in [
                properties,
                *(
                    part["MetricStat"]["Metric"]
                    for part in properties.get("Metrics", [])
                    if "MetricStat" in part
                ),
            ]:
                if "MetricName" in one:
                    yield (
                        one["Namespace"],
                        one["MetricName"],
                        {d["Name"]: d["Value"] for d in one["Dimensions"]},
                    )


def searches(bodies: dict[str, dict[str, Any]]) -> list[str]:
    return re.findall(
        r"SEARCH\('(.*?)', 'Average'\)",
        "\n".join(json.dumps(body).replace('\\"', '"') for body in bodies.values()),
    )


def test_every_series_of_a_chart_or_alarm_is_published_under_these_dimensions(
    bodies: dict[str, dict[str, Any]], template: dict[str, Any]
) -> None:
    rows = [row for body in bodies.values() for row in drawn(body)] + list(watched(template))
    assert len(rows) > 200
    for namespace, name, dimensions in rows:
        if namespace == insights.NAMESPACE:
            assert frozenset(dimensions) in THEIRS[name].dimension_sets, (name, dimensions)
        else:
            assert set(OURS[namespace, name].dimensions) == set(dimensions), (namespace, name, dimensions)


def test_every_value_of_a_dimension_is_one_that_is_published(bodies: dict[str, dict[str, Any]]) -> None:
    allowed = {
        "Experiment": {"exp"},
        "Variant": set(SERVICES),
        "Outcome": set(get_args(Outcome)),
        "ClusterName": {"exp-us"},
        "Namespace": {"specdec"},
        "PodName": set(SERVICES.values()),
    }
    for body in bodies.values():
        for namespace, _, dimensions in drawn(body):
            cases = set(PUBLISHED_CASES) if namespace == series.LLMPERF_NAMESPACE else set(CASES)
            for name, value in dimensions.items():
                assert value in (cases if name == "TestCase" else allowed[name])


def test_every_series_of_ours_is_on_a_chart(
    bodies: dict[str, dict[str, Any]], template: dict[str, Any]
) -> None:
    shown = {(namespace, name) for body in bodies.values() for namespace, name, _ in drawn(body)}
    shown |= {(namespace, name) for namespace, name, _ in watched(template)}
    assert set(OURS) <= shown


def test_the_documented_aws_series_are_all_used(
    bodies: dict[str, dict[str, Any]], template: dict[str, Any]
) -> None:
    rows = [row for body in bodies.values() for row in drawn(body)] + list(watched(template))
    used = {name for namespace, name, _ in rows if namespace == insights.NAMESPACE}
    used |= set(re.findall(r'MetricName="(\w+)"', " ".join(searches(bodies))))
    assert set(THEIRS) == used


def test_what_the_publisher_makes_of_a_run_is_what_the_list_says() -> None:
    records = [record(), record("speculative")]
    made: list[Datum] = of_run(manifest(), records, metrics.ALL, experiment="exp")
    assert {one.series for one in made} <= set(OURS.values())
    assert {"TimePerOutputToken", "Parity", "Requests", "FailedRuns"} <= {one.series.name for one in made}


def test_a_search_names_a_schema_that_the_agent_emits_and_one_group_of_devices(
    bodies: dict[str, dict[str, Any]],
) -> None:
    found = searches(bodies)
    assert len(found) == 2, "16 devices, 8 to a service"
    for text, devices in zip(found, (range(8), range(8, 16)), strict=True):
        schema = text[text.index("{") + 1 : text.index("}")].split(",")
        assert schema[0] == insights.NAMESPACE
        assert frozenset(schema[1:]) in insights.CORE_UTILIZATION.dimension_sets
        assert re.findall(r'NeuronDevice="device(\d+)"', text) == [str(one) for one in devices]
        assert len(text) < 1024, "the longest search that CloudWatch takes"


def test_device_groups_follow_what_each_variant_claims() -> None:
    stack = cdk.Stack(cdk.App(), "S", env=cdk.Environment(region="us-east-2"))
    servers = [Server("baseline", "half", 8), Server("tuned", "whole", 16)]
    build(stack, workloads=SimpleNamespace(namespace="specdec", servers=servers))
    text = json.dumps(Template.from_stack(stack).to_json())
    labels = re.findall(r"devices (\d+ to \d+)", text)
    assert labels == ["0 to 7", "8 to 15", "0 to 15"]


def test_speed_up_is_baseline_over_variant(bodies: dict[str, dict[str, Any]]) -> None:
    widget = next(
        w for w in bodies["exp-us"]["widgets"] if w["properties"].get("title", "").startswith("Speed-up: ")
    )
    rows = widget["properties"]["metrics"]
    expressions = [row[0]["expression"] for row in rows if isinstance(row[0], dict)]
    assert expressions[0] == "b0 / v0"
    assert len(expressions) == len(CASES) * (len(SERVICES) - 1)
    resolved = list(drawn({"widgets": [widget]}))
    ids = [row[-1]["id"] for row in rows if not isinstance(row[0], dict)]
    variants = {key: dimensions["Variant"] for key, (_, _, dimensions) in zip(ids, resolved, strict=True)}
    assert {variants[f"b{number}"] for number in range(4)} == {"baseline"}
    assert [variants[f"v{number}"] for number in range(4)] == ["speculative", "tuned"] * 2


def _first_screen(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The widgets above the first section on single test cases."""
    below = next(
        w["y"] for w in body["widgets"] if w["properties"].get("markdown", "").startswith("## By test case")
    )
    return [widget for widget in body["widgets"] if widget["y"] < below]


@pytest.mark.parametrize("more", [{}, {"loads": (1.0, 4.0)}, {"node_usd_per_hour": None}])
def test_what_one_decides_on_is_on_one_screen(more: dict[str, Any]) -> None:
    stack = cdk.Stack(cdk.App(), "S", env=cdk.Environment(region="us-east-2"))
    build(stack, **more)
    body = dashboard_bodies(dict(Template.from_stack(stack).to_json()))["exp-us"]
    widgets = _first_screen(body)
    assert max(widget["y"] + widget["height"] for widget in widgets) <= HEIGHT
    titles = " ".join(widget["properties"].get("title", "") for widget in widgets)
    wanted = ["Speed-up, mean", "by class over runs", "Parity", "Goodput"]
    wanted += [] if "node_usd_per_hour" in more else ["USD per million output tokens", "USD spent"]
    wanted += ["Speed-up by load"] if "loads" in more else ["Output tokens per second"]
    assert [words for words in wanted if words not in titles] == []
    views = [widget["properties"]["view"] for widget in widgets if widget["type"] == "metric"]
    assert views.count("singleValue") >= 3
    assert views.count("timeSeries") >= 3
    for widget in widgets:
        _require_whole_math(widget["properties"].get("metrics", []))


def _require_whole_math(rows: list[list[Any]]) -> None:
    """Every id stands once, and an expression uses what its own chart has."""
    options = [row[-1] for row in rows]
    ids = [option["id"] for option in options if "id" in option]
    assert len(ids) == len(set(ids))
    functions = {"AVG", "MIN", "SUM", "IF", "FILL", "PERIOD", "RUNNING_SUM", "SEARCH"}
    for option in options:
        formula = re.sub(r"'[^']*'", "", option.get("expression", ""))
        assert set(re.findall(r"[A-Za-z_]\w*", formula)) <= {*ids, *functions}, formula


def test_cost_is_of_the_variants_share_of_a_node(bodies: dict[str, dict[str, Any]]) -> None:
    (widget,) = [
        w
        for w in bodies["exp-us"]["widgets"]
        if w["properties"].get("title") == "USD per million output tokens"
    ]
    formulas = [row[-1]["expression"] for row in widget["properties"]["metrics"] if "expression" in row[-1]]
    # Half of a node of 35.76 USD an hour at 100 tokens per second: 17.88 / 360,000 * 1e6 = 49.67 USD.
    assert float(formulas[0].split(" / ")[0]) / 100 == pytest.approx(49.67, abs=0.01)


def test_every_chart_has_a_title_and_the_page_no_overlap(bodies: dict[str, dict[str, Any]]) -> None:
    for body in bodies.values():
        places: set[tuple[int, int]] = set()
        for widget in body["widgets"]:
            assert widget["properties"].get("title") or widget["type"] == "text"
            own = {
                (x, y)
                for x in range(widget["x"], widget["x"] + widget["width"])
                for y in range(widget["y"], widget["y"] + widget["height"])
            }
            assert not own & places
            assert max(x for x, _ in own) < 24
            places |= own


def test_several_loads_are_drawn_as_they_are_published() -> None:
    stack = cdk.Stack(cdk.App(), "S", env=cdk.Environment(region="us-east-2"))
    build(stack, loads=(1.0, 4.0))
    own = {one.name: one for one in (*series.BY_LOAD, *series.SERVICE_BY_LOAD)}
    drawn_by_load = {
        (name, tuple(sorted(dimensions)))
        for body in dashboard_bodies(dict(Template.from_stack(stack).to_json())).values()
        for _, name, dimensions in drawn(body)
        if "Load" in dimensions
    }
    assert drawn_by_load == {
        (name, tuple(sorted(own[name].dimensions)))
        for name in ("TimePerOutputToken", "SystemThroughput", "Goodput")
    }


def test_more_than_cloudwatch_draws_is_refused() -> None:
    stack = cdk.Stack(cdk.App(), "S")
    with pytest.raises(ValueError, match="Use fewer test cases"):
        build(stack, test_cases={f"case-{number}": "open" for number in range(120)})


def test_without_a_price_there_is_no_spend_and_the_text_says_why() -> None:
    stack = cdk.Stack(cdk.App(), "S")
    build(stack, node_usd_per_hour=None)
    text = json.dumps(Template.from_stack(stack).to_json())
    assert "RUNNING_SUM" not in text
    assert "cost.node_usd_per_hour" in text


def test_an_undocumented_dimension_set_is_refused() -> None:
    with pytest.raises(ValueError, match="is not emitted by ClusterName, PodName; use"):
        insights.REPLICAS_READY.metric(
            {"ClusterName": "c", "PodName": "p"}, statistic="Sum", period=cdk.Duration.minutes(1)
        )


@pytest.mark.parametrize(("field", "value"), [("accelerator_hours", 25), ("unready_minutes", 0)])
def test_an_alarm_longer_than_cloudwatch_looks_back_is_refused(field: str, value: int) -> None:
    options: dict[str, Any] = {**WATCHED, "unready_minutes": 330, field: value}
    with pytest.raises(ValueError, match=field):
        Alarms(cdk.Stack(cdk.App(), "S"), "A", **options)


def test_services_that_take_turns_have_one_alarm() -> None:
    stack = cdk.Stack(cdk.App(), "S")
    options: dict[str, Any] = {**WATCHED, "unready_minutes": 330, "in_turn": True}
    Alarms(stack, "A", **options)
    text = json.dumps(Template.from_stack(stack).to_json())
    assert text.count('AWS::CloudWatch::Alarm"') == 1 + 7
    assert "IF(nodes > 1, FILL(ready, 0) + FILL(ready2, 0) + FILL(ready3, 0), 1)" in text


def test_alarms_stay_silent_without_data_and_speak_of_a_remedy(template: dict[str, Any]) -> None:
    alarms = [
        one["Properties"] for one in template["Resources"].values() if one["Type"] == "AWS::CloudWatch::Alarm"
    ]
    assert len(alarms) == len(SERVICES) + 7
    assert {one["TreatMissingData"] for one in alarms} == {"notBreaching"}
    assert all(len(one["AlarmDescription"]) < 1024 for one in alarms)
