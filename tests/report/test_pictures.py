"""Pictures live inside the page: its colours, no ids that clash, nothing fetched, the same bytes each
time.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from specdec.report import plots
from specdec.report.svg import Picture

VARIANTS = ("baseline", "a & <b>")


def _dots() -> Picture:
    rows = [plots.Row("repeat-line", (plots.Dots(0, (45.0, 45.4), 45.2), plots.Dots(1, (14.0,), 14.0)))]
    return plots.dots_by_case("tpot", "Time per output token", "milliseconds", rows, VARIANTS)


def _speed_ups() -> Picture:
    intervals = [plots.Interval("numbers", 1, 2.9, (2.7, 3.1)), plots.Interval("sonnet", 1, 0.8, None)]
    return plots.speed_ups("speed", "Speed-up", intervals, VARIANTS, ("numbers", "sonnet"))


def _steps() -> Picture:
    return plots.step_histograms("steps", "Steps", [plots.Histogram("numbers", (0.1, 0.2, 0.7), 2.6)], 1)


def _acceptance() -> Picture:
    return plots.acceptance(
        "positions", "Acceptance", [("numbers", (0.95, 0.9, None)), ("sonnet", (0.3, None, None))], 1
    )


def _windows() -> Picture:
    curve = plots.Curve(
        "numbers",
        (1, 2, 3),
        (50.0, 30.0, 33.0),
        (49.0, 29.0, 31.0),
        (51.0, 31.0, 36.0),
        ((3, 32.5),),
        45.0,
        2,
    )
    return plots.window_curves("window", "Windows", [curve], 1)


PICTURES = {
    "dots": _dots,
    "speed-ups": _speed_ups,
    "steps": _steps,
    "acceptance": _acceptance,
    "windows": _windows,
}


@pytest.mark.parametrize("name", PICTURES)
def test_same_bytes_each_time(name: str) -> None:
    assert PICTURES[name]() == PICTURES[name]()


@pytest.mark.parametrize("name", PICTURES)
def test_element_stands_alone_in_a_page(name: str) -> None:
    picture = PICTURES[name]()
    root = ElementTree.fromstring(picture.svg)
    assert root.get("role") == "img"
    named = {element.get("id"): element.text for element in root if element.get("id")}
    label = root.get("aria-labelledby")
    assert label is not None
    assert [named[part] for part in label.split()] == [picture.title, picture.alt]
    ids = re.findall(r' id="([^"]+)"', picture.svg)
    assert len(ids) == len(set(ids))
    assert all(found.startswith(f"{picture.name}-") for found in ids)
    assert set(re.findall(r'(?:href="|url\()#([^")]+)', picture.svg)) <= set(ids)


@pytest.mark.parametrize("name", PICTURES)
def test_colours_are_the_pages_and_text_is_text(name: str) -> None:
    svg = PICTURES[name]().svg
    assert "var(--ink)" in svg
    # Only axes lines that matplotlib never paints may keep a colour of their own; every stand-in must be
    # gone.
    assert not re.findall(r"#[ab]0000[0-9]", svg)
    assert "<text" in svg
    assert "font-family" not in svg
    assert "<style" not in svg


@pytest.mark.parametrize("name", PICTURES)
def test_nothing_is_fetched(name: str) -> None:
    svg = PICTURES[name]().svg.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert "http" not in svg


def test_words_carry_the_figures() -> None:
    assert (
        _dots().alt == "Time per output token, milliseconds, medians. repeat-line: baseline 45.2, a & <b> 14."
    )
    assert (
        _speed_ups().alt
        == "Speed-up. numbers: 2.90, interval 2.70 to 3.10. sonnet: 0.80, too few prompts for an interval."
    )
    assert _steps().alt == "Steps. Mean tokens per step: numbers 2.60."
    assert _acceptance().alt == "Acceptance. numbers: 95%, 90%, too few. sonnet: 30%, too few, too few."
    assert (
        _windows().alt
        == "Windows. numbers: baseline 45, measured 32.5 at window 3, best predicted 30 at window 2;"
        " recommended window 2."
    )


def test_names_from_outside_cannot_break_out() -> None:
    svg = _dots().svg
    assert "a &amp; &lt;b&gt;" in svg
    assert "<b>" not in svg
