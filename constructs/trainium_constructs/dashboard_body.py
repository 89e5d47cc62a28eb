"""What a dashboard is made of, as the plain data that CloudWatch documents.

The CDK's own widgets would render the same text, but each of several hundred metrics would be a call out of
Python: a tenth of the time of a synthesis.

Source:
https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/CloudWatch-Dashboard-Body-Structure.html
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from aws_cdk import Aws
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

Row = list[Any]
"""One metric or expression of a chart."""

Widget = dict[str, Any]
"""One panel, not yet in its place."""

FULL, HALF, THIRD = 24, 12, 8
"""Widths of a panel, in columns of the page."""

_PERIOD, _STATISTIC = 300, "Average"
"""What CloudWatch takes when a row says nothing."""


def metric(
    namespace: str,
    name: str,
    dimensions: Mapping[str, str],
    *,
    statistic: str,
    label: str,
    period: int = _PERIOD,
    colour: str | None = None,
    identity: str | None = None,
    visible: bool = True,
) -> Row:
    """A metric as a row of a chart.

    Args:
        namespace: its namespace.
        name: its name.
        dimensions: dimension names to values.
        statistic: CloudWatch's name of it, such as ``p50``.
        label: what the legend says.
        period: seconds.
        colour: ``#`` and six hex digits; None leaves it to CloudWatch.
        identity: what expressions of the same chart call it.
        visible: whether it is drawn, not only used by expressions.
    """
    options = {
        "color": colour,
        "label": label,
        "period": None if period == _PERIOD else period,
        "id": identity,
        "visible": None if visible else False,
        "stat": None if statistic == _STATISTIC else statistic,
    }
    return [namespace, name, *(word for pair in sorted(dimensions.items()) for word in pair), _given(options)]


def expression(
    formula: str,
    *,
    label: str,
    period: int = _PERIOD,
    colour: str | None = None,
    identity: str | None = None,
    visible: bool = True,
) -> Row:
    """A metric math expression as a row of a chart; arguments as those of ``metric``."""
    return [
        _given(
            {
                "label": label,
                "color": colour,
                "expression": formula,
                "period": None if period == _PERIOD else period,
                "id": identity,
                "visible": None if visible else False,
            }
        )
    ]


def text(markdown: str, height: int) -> Widget:
    """A text over the whole width."""
    return {"type": "text", "width": FULL, "height": height, "properties": {"markdown": markdown}}


def alarm_states(title: str, arns: Sequence[str]) -> Widget:
    """The states of alarms, over the whole width."""
    return {"type": "alarm", "width": FULL, "height": 3, "properties": {"title": title, "alarms": list(arns)}}


def numbers(title: str, rows: Iterable[Row], *, width: int, whole_range: bool = True) -> Widget:
    """One figure per row: over the time range shown, or, without ``whole_range``, its last value."""
    properties: dict[str, Any] = {
        "view": "singleValue",
        "title": title,
        "region": Aws.REGION,
        "metrics": list(rows),
        "setPeriodToTimeRange": whole_range,
        "sparkline": False,
    }
    return {"type": "metric", "width": width, "height": 4, "properties": properties}


def bars(title: str, rows: Iterable[Row], *, height: int = 8) -> Widget:
    """One bar per row over the time range shown."""
    properties = {
        "view": "bar",
        "title": title,
        "region": Aws.REGION,
        "metrics": list(rows),
        **_from_zero(),
        "setPeriodToTimeRange": True,
    }
    return {"type": "metric", "width": HALF, "height": height, "properties": properties}


def trend(title: str, rows: Iterable[Row], *, width: int = HALF, height: int = 8) -> Widget:
    """One line per row, as large as bars unless said otherwise."""
    properties = {
        "view": "timeSeries",
        "title": title,
        "region": Aws.REGION,
        "metrics": list(rows),
        **_from_zero(),
    }
    return {"type": "metric", "width": width, "height": height, "properties": properties}


def lines(
    title: str,
    rows: Iterable[Row],
    *,
    width: int = THIRD,
    maximum: float | None = None,
    stacked: bool = False,
) -> Widget:
    """One line per row."""
    properties = {
        "view": "timeSeries",
        "title": title,
        "region": Aws.REGION,
        "stacked": stacked,
        "metrics": list(rows),
        **_from_zero(maximum),
    }
    return {"type": "metric", "width": width, "height": 6, "properties": properties}


def dashboard(
    scope: Construct, construct_id: str, *, name: str, shows: str, rows: Iterable[Sequence[Widget]]
) -> None:
    """A dashboard: in each row panels from the left, as high as the highest of them.

    Args:
        scope: parent.
        construct_id: construct id.
        name: name of the dashboard.
        shows: the time range it opens with, up to now, as an ISO 8601 duration.
        rows: panels, from the top.
    """
    placed: list[Widget] = []
    y = 0
    for row in rows:
        x = 0
        for widget in row:
            placed.append(
                {"type": widget["type"], "width": widget["width"], "height": widget["height"], "x": x, "y": y}
                | widget
            )
            x += widget["width"]
        y += max(widget["height"] for widget in row)
    body = json.dumps({"start": f"-{shows}", "widgets": placed}, ensure_ascii=False, separators=(",", ":"))
    cloudwatch.CfnDashboard(
        Construct(scope, construct_id), "Resource", dashboard_name=name, dashboard_body=body
    )


def _from_zero(maximum: float | None = None) -> dict[str, Any]:
    return {"yAxis": {"left": _given({"max": maximum, "min": 0})}}


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in options.items() if value is not None}
