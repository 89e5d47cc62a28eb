"""Draws the dashboards' panels from the records of a run, without an account.

    uv run python scripts/render_dashboards.py RUN_FOLDER docs/dashboards

Panels, their series, statistics and expressions are read from the dashboard that the stack would deploy, and
the values from the datums that would be published. Panels of AWS's own metrics have no data here and are
drawn empty, with the reason. Lines over time, which would be single points of one run, are drawn as bars.
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import aws_cdk as cdk
import matplotlib as mpl
from aws_cdk.assertions import Template

from specdec import metrics
from specdec.publish import cloudwatch
from specdec.publish.datums import Datum
from specdec.runs.folder import read_run
from trainium_constructs.alarms import Alarms
from trainium_constructs.dashboards import Dashboards
from trainium_constructs.workloads import Server

Place = tuple[str, str, tuple[tuple[str, str], ...]]
"""Namespace, metric name, and dimensions in the order of their names."""

COLUMN, ROW = 0.75, 0.42
"""Inches per grid unit."""


def bodies(
    experiment: str, services: dict[str, str], test_cases: dict[str, str], llmperf_cases: list[str]
) -> dict[str, dict[str, Any]]:
    """The dashboards as deployed: name to body."""
    stack = cdk.Stack(cdk.App(), "Render", env=cdk.Environment(region="us-east-2"))
    # Monitoring reads these of the constructs it watches, and nothing else of them.
    watched: dict[str, Any] = {
        "experiment": experiment,
        "cluster": SimpleNamespace(name="experiment"),
        "system_nodes": SimpleNamespace(count=1),
        "workloads": SimpleNamespace(
            namespace="specdec", servers=[Server(variant, name, 8) for variant, name in services.items()]
        ),
    }
    Dashboards(
        stack,
        "Dashboards",
        name=experiment,
        **watched,
        accelerators=cast("Any", SimpleNamespace(devices=16)),
        alarms=Alarms(stack, "Alarms", unready_minutes=330, **watched),
        metrics=metrics.ALL,
        test_cases=test_cases,
        llmperf_test_cases=llmperf_cases,
    )
    dashboards: dict[str, dict[str, Any]] = {}
    for resource in Template.from_stack(stack).to_json()["Resources"].values():
        if resource["Type"] == "AWS::CloudWatch::Dashboard":
            parts = resource["Properties"]["DashboardBody"]["Fn::Join"][1]
            dashboards[resource["Properties"]["DashboardName"]] = json.loads(
                "".join(p if isinstance(p, str) else "us-east-2" for p in parts)
            )
    return dashboards


def samples(datums: list[Datum]) -> dict[Place, Counter[float]]:
    """All published values of each series."""
    counters: dict[Place, Counter[float]] = {}
    for datum in datums:
        place = (
            datum.series.namespace,
            datum.series.name,
            tuple(sorted(zip(datum.series.dimensions, datum.dimensions, strict=True))),
        )
        counter = counters.setdefault(place, Counter())
        counter.update(dict(zip(datum.values, datum.counts, strict=True)))
    return counters


def statistic(values: Counter[float], name: str) -> float:
    """One statistic over a whole time range, as CloudWatch names it."""
    ordered = sorted(values.elements())
    match = re.fullmatch(r"p(\d+)", name)
    if match:
        return ordered[min(len(ordered) - 1, int(len(ordered) * int(match[1]) / 100))]
    return {
        "Sum": sum(ordered),
        "Minimum": ordered[0],
        "Maximum": ordered[-1],
        "Average": sum(ordered) / len(ordered),
    }[name]


def shown(properties: dict[str, Any], data: dict[Place, Counter[float]]) -> list[tuple[str, float, str]]:
    """(label, value, colour) of each row that is shown and has data."""
    values: dict[str, float] = {}
    rows: list[tuple[str, float, str]] = []
    expressions: list[dict[str, Any]] = []
    for row in properties.get("metrics", ()):  # an alarm widget has none
        words = [word for word in row if isinstance(word, str)]
        options: dict[str, Any] = row[-1] if isinstance(row[-1], dict) else {}
        if not words:
            expressions.append(options)
            continue
        place = (words[0], words[1], tuple(sorted(zip(words[2::2], words[3::2], strict=True))))
        if place not in data:
            continue
        value = statistic(data[place], options.get("stat", "Average"))
        if "id" in options:
            values[options["id"]] = value
        if options.get("visible", True):
            rows.append((options.get("label", words[1]), value, options.get("color", "#1f77b4")))
    for options in expressions:
        value = evaluate(options["expression"], values)
        if value is None:
            continue
        if "id" in options:
            values[options["id"]] = value
        if options.get("visible", True):
            rows.append((options["label"], value, options.get("color", "#1f77b4")))
    return rows


def evaluate(formula: str, values: dict[str, float]) -> float | None:
    """A metric math expression over known values: quotients, and means and least values of lists, in which
    what has no data is passed over, as CloudWatch does. None for what needs more, or has no data.
    """
    if match := re.fullmatch(r"(\S+) / (\w+)", formula):
        above = values.get(match[1])
        if above is None and re.fullmatch(r"[\d.e+-]+", match[1]):
            above = float(match[1])
        below = values.get(match[2])
        return above / below if above is not None and below else None
    if match := re.fullmatch(r"(AVG|MIN)\(\[(.*)\]\)", formula):
        known = [values[name] for name in match[2].split(", ") if name in values]
        if known:
            return min(known) if match[1] == "MIN" else sum(known) / len(known)
    return None


def draw(body: dict[str, Any], data: dict[Place, Counter[float]], target: Path) -> None:
    """One picture of a whole dashboard, panels where the console puts them."""
    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "specdec"
    from matplotlib import pyplot

    plot: Any = pyplot
    height = max(widget["y"] + widget["height"] for widget in body["widgets"])
    figure: Any = plot.figure(figsize=(24 * COLUMN, height * ROW), facecolor="#f2f3f3")
    for widget in body["widgets"]:
        left, bottom = widget["x"] / 24, 1 - (widget["y"] + widget["height"]) / height
        wide, high = widget["width"] / 24, widget["height"] / height
        panel: Any = figure.add_axes(
            (left + 0.004, bottom + 0.1 / height, wide - 0.008, high - 0.2 / height), facecolor="white"
        )
        panel.set_xticks([])
        panel.set_yticks([])
        properties = widget["properties"]
        if widget["type"] == "text":
            lines = [
                line
                for part in properties["markdown"].replace("**", "").splitlines()
                for line in textwrap.wrap(part, 170) or [""]
            ]
            panel.text(0.01, 0.94, "\n".join(lines), va="top", fontsize=12, linespacing=1.35)
            continue
        panel.text(
            0.01, 1 - 0.3 / widget["height"], properties["title"], va="top", fontsize=12, weight="bold"
        )
        rows = shown(properties, data)
        if not rows:
            panel.text(
                0.5,
                0.5,
                "no data without AWS: emitted on the node or not measured in this run",
                ha="center",
                color="#777777",
                fontsize=11,
            )
            continue
        if properties["view"] == "singleValue":
            for number, (label, value, colour) in enumerate(rows):
                x = (number + 0.5) / len(rows)
                panel.text(x, 0.5, f"{value:.3g}", ha="center", va="center", fontsize=22, color=colour)
                panel.text(x, 0.2, label or "all", ha="center", va="center", fontsize=10)
            continue
        axes: Any = figure.add_axes((left + wide * 0.3, bottom + high * 0.08, wide * 0.62, high * 0.74))
        axes.barh(
            range(len(rows)),
            [value for _, value, _ in rows],
            color=[colour for _, _, colour in rows],
            height=min(0.8, 0.2 * len(rows)),
        )
        axes.set_yticks(range(len(rows)), [label for label, _, _ in rows], fontsize=10)
        axes.invert_yaxis()
        axes.tick_params(axis="x", labelsize=9)
        for number, (_, value, _) in enumerate(rows):
            axes.text(value, number, f" {value:.3g}", va="center", fontsize=9)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(target, dpi=70, metadata={"Software": None})
    plot.close(figure)


def main() -> None:
    """Draws both dashboards of one run."""
    folder, target = Path(sys.argv[1]), Path(sys.argv[2])
    run = read_run(folder)
    manifest, records = run.manifest, run.records
    published = cloudwatch.run_datums(run, experiment=manifest.experiment)
    llmperf_cases = list(
        dict.fromkeys(datum.dimensions[1] for datum in published if datum.series.namespace == "Qwen/LLMPerf")
    )
    services = {
        name: f"service-{name}"
        for name in sorted(
            manifest.variants, key=lambda name: manifest.variants[name].get("role") != "baseline"
        )
    }
    test_cases = {record.test_case: record.prompt_class for record in records}
    target.mkdir(parents=True, exist_ok=True)
    for name, body in bodies(manifest.experiment, services, test_cases, llmperf_cases).items():
        draw(body, samples(published), target / f"{name}.png")


if __name__ == "__main__":
    main()
