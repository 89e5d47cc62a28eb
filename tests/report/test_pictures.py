"""Pictures live inside the page: its colours, no ids that clash, nothing fetched, nothing cut, the same bytes
each time.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from specdec import plots
from specdec.plots import Picture
from specdec.plots.scale import Scale, even, spanning
from specdec.plots.svg import width_of

VARIANTS = ("baseline", "a & <b>")
LONG = "a test case whose name is far longer than there is room for in any picture"


def _dots() -> Picture:
    rows = [
        plots.Row("repeat-line", (plots.Dots(0, (45.0, 45.4), 45.2), plots.Dots(1, (14.0,), 14.0))),
        plots.Row(LONG, (plots.Dots(0, (), 0.0),)),
    ]
    return plots.dots_by_case("tpot", "Time per output token", "milliseconds", rows, VARIANTS)


def _speed_ups() -> Picture:
    intervals = [
        plots.Interval("numbers", 1, 2.9, (2.7, 3.1), "helps"),
        plots.Interval("sonnet", 1, 0.8, None, "undecided"),
    ]
    return plots.speed_ups("speed", "Speed-up", intervals, VARIANTS, ("numbers", "sonnet"))


def _several() -> Picture:
    intervals = [plots.Interval("numbers", place, 1.0 + place, (0.9, 40.0), "helps") for place in range(4)]
    return plots.speed_ups("speed", "Speed-up", intervals, ("baseline", "w4", "w7", "w9"), ("numbers",))


def _steps() -> Picture:
    return plots.step_histograms("steps", "Steps", [plots.Histogram("numbers", (0.1, 0.2, 0.7), 2.6)] * 2, 1)


def _shaded() -> Picture:
    rows = [("numbers", (0.95, 0.9, None)), ("sonnet", (0.3, None, None))]
    return plots.shaded("positions", "Acceptance", rows, 1)


def _windows() -> Picture:
    windows, tpot = (1, 2, 3), (50.0, 30.0, 33.0)
    low, high = (49.0, 29.0, 31.0), (51.0, 31.0, 36.0)
    curves = [
        plots.Curve("numbers", windows, tpot, low, high, ((3, 32.5),), 45.0, 2),
        plots.Curve(
            "sonnet", windows, (90.0, 120.0, 1e4), low, (95.0, 130.0, 2e4), ((3, 200.0),), 45.0, None
        ),
    ]
    return plots.window_curves("window", "Windows", curves, 1)


def _lines() -> Picture:
    series = [
        plots.Series("baseline", 0, (plots.Point(1, 20.0, (19.0, 21.5)), plots.Point(64, 80.0))),
        plots.Series(
            VARIANTS[1], 1, (plots.Point(1, 10.0, (9.0, 11.0)), plots.Point(64, 120.0, (90.0, 150.0)))
        ),
    ]
    x, y = plots.Axis("requests in flight", log=True), plots.Axis("milliseconds per token")
    return plots.lines("load", "TPOT by load", x, y, series, limits=[plots.Limit("objective", 50.0)])


def _frontier() -> Picture:
    points = (plots.Point(10.0, 0.5, label="window 4"), plots.Point(30.0, 0.9, label=LONG[:20]))
    x, y = plots.Axis("tokens per second for a user"), plots.Axis("tokens per dollar")
    return plots.frontier("frontier", "Frontier", x, y, [plots.Series("speculative", 1, points)])


def _bars() -> Picture:
    rows = [plots.Bar("json", 0, 1.2, (1.1, 1.3)), plots.Bar("json", 1, 0.4), plots.Bar("story", 0, 2.0)]
    return plots.bars("cost", "Cost", "US dollars", rows, VARIANTS)


PICTURES = {
    "dots": _dots,
    "speed-ups": _speed_ups,
    "several": _several,
    "steps": _steps,
    "shaded": _shaded,
    "windows": _windows,
    "lines": _lines,
    "frontier": _frontier,
    "bars": _bars,
}
SVG = "{http://www.w3.org/2000/svg}"
every = pytest.mark.parametrize("picture", [make() for make in PICTURES.values()], ids=PICTURES)


@pytest.mark.parametrize("name", PICTURES)
def test_same_bytes_each_time(name: str) -> None:
    assert PICTURES[name]() == PICTURES[name]()


@every
def test_element_stands_alone_in_a_page(picture: Picture) -> None:
    ids: list[str] = []
    for panel in (*picture.panels, picture.key):
        if not panel:
            continue
        root = ElementTree.fromstring(panel)
        assert root.get("role") == "img"
        named = {element.get("id"): element.text for element in root if element.get("id")}
        label = root.get("aria-labelledby")
        assert label is not None
        assert all(named[part] for part in label.split())
        ids += re.findall(r' id="([^"]+)"', panel)
    assert len(ids) == len(set(ids))
    assert all(found.startswith(f"{picture.name}-") for found in ids)


@every
def test_colours_are_the_pages_and_text_is_text(picture: Picture) -> None:
    for panel in picture.panels:
        root = ElementTree.fromstring(panel)
        for element in root.iter():
            for name in ("fill", "stroke"):
                assert re.fullmatch(r"none|var\(--[\w-]+,#[0-9a-f]{6}\)|", element.get(name, "")), (
                    element.attrib
                )
        assert root.findall(f".//{SVG}text")
        assert "font-family" not in panel
        assert "<style" not in panel


@every
def test_nothing_is_fetched(picture: Picture) -> None:
    for panel in picture.panels:
        assert "http" not in panel.replace('xmlns="http://www.w3.org/2000/svg"', "")


@every
def test_nothing_lies_outside_the_picture(picture: Picture) -> None:
    for panel in picture.panels:
        root = ElementTree.fromstring(panel)
        _, _, wide, high = map(float, (root.get("viewBox") or "").split())
        clipped = [element for inner in root.iter(f"{SVG}svg") if inner is not root for element in inner]
        for element in root.iter(f"{SVG}path"):
            if element in clipped:
                continue
            data = element.get("d") or ""
            # Arcs give radii and flags, not places; their circles start at the left end and are round.
            for x, y in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", data):
                assert 0 <= float(x) <= wide, data
                assert 0 <= float(y) <= high, data
        for element in root.iter(f"{SVG}text"):
            assert 0 <= float(element.get("x") or "") <= wide
            assert 0 <= float(element.get("y") or "") <= high


@every
def test_words_do_not_lie_on_each_other(picture: Picture) -> None:
    for panel in picture.panels:
        root = ElementTree.fromstring(panel)
        boxes: list[tuple[float, float, float]] = []
        for element in root.iter(f"{SVG}text"):
            x, y, wide = (
                float(element.get("x") or ""),
                float(element.get("y") or ""),
                width_of(element.text or ""),
            )
            left = x - {"end": wide, "middle": wide / 2}.get(element.get("text-anchor", ""), 0)
            # The measure is that of the widest usual face, so a small overlap is none on a real page.
            for other_left, other_right, other_y in boxes:
                apart = left > other_right - 8 or left + wide < other_left + 8 or abs(y - other_y) > 8
                assert apart, (element.text, y)
            boxes.append((left, left + wide, y))


def test_words_carry_the_figures() -> None:
    assert _dots().alt.startswith(
        "Time per output token, milliseconds, medians. repeat-line: baseline 45.2, a & <b> 14."
    )
    assert (
        _speed_ups().alt == "Speed-up. numbers: 2.90, interval 2.70 to 3.10, helps."
        " sonnet: 0.80, too few prompts for an interval, undecided."
    )
    assert _steps().alt == "Steps. Mean tokens per step: numbers 2.60, numbers 2.60."
    assert _shaded().alt == "Acceptance. numbers: 95%, 90%, too few. sonnet: 30%, too few, too few."
    assert _windows().alt.startswith(
        "Windows. numbers: baseline 45, measured 32.5 at window 3, best predicted 30 at window 2;"
        " recommended window 2. sonnet:"
    )
    assert _windows().alt.endswith("recommended: off.")
    assert (
        _lines().alt
        == "TPOT by load. milliseconds per token over requests in flight. baseline: 20 (19 to 21.5)"
        " at 1, 80 at 64. a & <b>: 10 (9 to 11) at 1, 120 (90 to 150) at 64. objective: 50."
    )
    assert _bars().alt == (
        "Cost, US dollars. json, baseline: 1.2 (1.1 to 1.3). json, a & <b>: 0.4. story, baseline: 2."
    )


def test_names_from_outside_cannot_break_out() -> None:
    (svg,) = _dots().panels
    assert "a &amp; &lt;b&gt;" in svg
    assert "<b>" not in svg


def test_a_long_name_is_cut_in_the_plot_and_whole_in_words() -> None:
    picture = _dots()
    labels = [element.text for element in ElementTree.fromstring(picture.panels[0]).iter(f"{SVG}text")]
    assert any(label and label.endswith("…") and LONG.startswith(label[:-1]) for label in labels)
    assert LONG in picture.alt


def test_thousands_of_requests_stay_small() -> None:
    dots = tuple(
        plots.Dots(place, tuple(40 + step / 500 for step in range(10_000)), 50.0) for place in (0, 1)
    )
    picture = plots.dots_by_case("tpot", "TPOT", "ms", [plots.Row("sonnet", dots)], VARIANTS)
    assert len(picture.panels[0]) < 10_000


@pytest.mark.parametrize(
    ("low", "high"), [(0, 1), (0.83, 1.21), (0, 7), (-3, 12), (0, 86_400), (1e-9, 3e-9), (0.999, 1.001)]
)
def test_ticks_are_round_few_and_inside(low: float, high: float) -> None:
    ticks = even(low, high, 6)
    assert 2 <= len(ticks) <= 6
    assert all(low - 1e-12 <= tick <= high + 1e-12 for tick in ticks)
    assert len({f"{tick:.6g}" for tick in ticks}) == len(ticks)


def test_logarithmic_ticks() -> None:
    assert Scale(0.6, 3.4, 0, 100, log=True).ticks() == [0.7, 1, 1.5, 2, 3]
    assert Scale(1, 1000, 0, 100, log=True).ticks() == [1, 10, 100, 1000]
    half, double = Scale(0.5, 2, 0, 100, log=True)(1), Scale(0.5, 2, 0, 100)(1)
    assert half == pytest.approx(50)
    assert double == pytest.approx(100 / 3)


def test_a_scale_of_one_value_or_of_none() -> None:
    assert spanning([3.0], 0, 100)(3.0) == pytest.approx(50)
    assert spanning([0.0], 0, 100, zero=True)(0.0) == pytest.approx(0)
    assert spanning([], 0, 100)(0.5) == pytest.approx(50)
    assert not spanning([0.0, 1.0], 0, 100, log=True).log, "zero has no logarithm"
