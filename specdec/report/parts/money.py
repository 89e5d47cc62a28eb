"""What does a token cost, and how much of the machine is used?"""

from __future__ import annotations

from collections.abc import Sequence

from specdec import plots
from specdec.analysis.cost import by_price
from specdec.analysis.verdict import Measurement
from specdec.catalog.prices import NodePrice
from specdec.report.content import Cell, Section, Table, cell, columns
from specdec.report.numbers import Number, count, decimals, dollars
from specdec.report.parts.speculation import roofline
from specdec.report.parts.view import Evidence, Page, View


def cost(view: View) -> Section | None:
    """Dollars per million output tokens, and the roofline."""
    prices = by_price(view.verdict.prices)
    roof = roofline(view)
    if not prices:
        text = (
            "No price applies to this run, so no cost is given. To have one, give bench --usd-per-hour, or"
            " set cost.node_usd_per_hour in the experiment."
        )
        return Section("cost", "What a token costs", (text,), tables=(roof,) if roof else ())
    texts = [
        *(_price(price, names if len(prices) > 1 else []) for price, names in prices),
        "Share: the part of the node whose devices the variant has. Whole node: as if the rest stood idle and"
        " were paid for. Both at the throughput of this run, so at its number of requests in flight; more"
        " requests make a token cheaper.",
    ]
    texts += [f"This price is in doubt: {price.disputed}." for price, _ in prices if price.disputed]
    (pictures, tables), folds = view.paged(lambda page: _by_case(view, page), "Cost by test case")
    return Section(
        "cost",
        "What a token costs",
        tuple(texts),
        pictures=pictures,
        tables=(*tables, *([roof] if roof else [])),
        folds=folds,
    )


def _price(price: NodePrice, names: Sequence[str]) -> str:
    region = f" in {price.region}" if price.region else ""
    seen = f", {price.date}" if price.date else ""
    whose = f" ({', '.join(names)})" if names else ""
    return (
        f"Price of one {price.instance_type}{whose}: ${price.usd_per_hour:,.4g} per hour"
        f" ({price.purchase}{region}; {price.source}{seen})."
    )


def _by_case(view: View, page: Page) -> Evidence:
    rows: list[tuple[Cell, ...]] = []
    dots: dict[str, list[plots.Dots]] = {}
    for m in view.verdict.measurements:
        if m.cost is None or m.test_case not in page.test_cases:
            continue
        rows.append(
            (
                cell(m.test_case),
                cell(m.variant),
                cell(
                    _number(
                        view, m, "share_usd", m.cost.share_usd, "USD/1M tokens", dollars(m.cost.share_usd)
                    )
                ),
                cell(
                    _number(view, m, "node_usd", m.cost.node_usd, "USD/1M tokens", dollars(m.cost.node_usd))
                ),
                cell(
                    _number(
                        view,
                        m,
                        "throughput",
                        m.cost.tokens_per_second,
                        "tokens/s",
                        count(m.cost.tokens_per_second),
                    )
                ),
                cell(_number(view, m, "in_flight", m.cost.in_flight, "requests", decimals(m.cost.in_flight))),
            )
        )
        dots.setdefault(m.test_case, []).append(plots.Dots(view.place(m.variant), (), m.cost.share_usd))
    heads = columns(
        "Test case",
        "Variant",
        ">$ per 1M tokens, share",
        ">$ per 1M tokens, node",
        ">Tokens per second",
        ">In flight",
    )
    if not rows:
        return (), ()
    drawn = [plots.Row(case, tuple(case_dots)) for case, case_dots in dots.items()]
    title = "Cost of a million output tokens, share of the node"
    picture = plots.dots_by_case(f"cost{page.suffix}", title, "US dollars", drawn, view.variants)
    return (picture,), (Table("Cost of a million output tokens", heads, tuple(rows)),)


def _number(view: View, m: Measurement, name: str, value: float, unit: str, shown: str) -> Number:
    how = {
        "share_usd": "price of the share per hour over tokens per hour",
        "node_usd": "price of the node per hour over tokens per hour",
        "throughput": "output tokens of the service per second",
        "in_flight": "mean requests in flight",
    }[name]
    return view.trace.number(
        f"{name}/{m.variant}/{m.test_case}",
        value,
        unit,
        shown,
        how,
        view.trace.measured(m.test_case, m.variant),
    )
