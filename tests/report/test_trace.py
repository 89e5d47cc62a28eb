"""Every number of a report leads to lines of records.jsonl. Ten are followed with arithmetic of their own."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from math import exp, log
from pathlib import Path
from statistics import fmean, median
from typing import Any

import pytest

from specdec.report import Written

Line = dict[str, Any]


def _tpot(line: Line) -> float:
    return (line["chunk_times"][-1] - line["chunk_times"][0]) / (
        line["chunk_tokens"][-1] - line["chunk_tokens"][0]
    )


def _median_tpot(lines: list[Line]) -> float:
    return median(_tpot(line) for line in lines)


def _median_ttft(lines: list[Line]) -> float:
    return median(line["chunk_times"][0] for line in lines)


def _median_e2e(lines: list[Line]) -> float:
    return median(line["chunk_times"][-1] for line in lines)


def _median_gap(lines: list[Line]) -> float:
    return median(
        (line["chunk_times"][-1] - line["chunk_times"][0]) / (len(line["chunk_times"]) - 1) for line in lines
    )


def _tokens_per_step(lines: list[Line]) -> float:
    tokens = sum(line["chunk_tokens"][-1] - line["chunk_tokens"][0] for line in lines)
    return tokens / sum(len(line["chunk_times"]) - 1 for line in lines)


def _speed_up(lines: list[Line]) -> float:
    """Mean over prompts of the mean over repeats, of logarithms."""
    found = {(line["variant"], line["prompt"], line["repeat"]): _tpot(line) for line in lines}
    prompts: dict[str, list[float]] = {}
    for (variant, prompt, repeat), value in found.items():
        if variant == "baseline" and ("speculative", prompt, repeat) in found:
            prompts.setdefault(prompt, []).append(log(value / found["speculative", prompt, repeat]))
    return exp(fmean(fmean(values) for values in prompts.values()))


def _same_texts(lines: list[Line]) -> float:
    texts = {(line["variant"], line["prompt"], line["repeat"]): line["text"] for line in lines}
    pairs = [
        (text, texts.get(("speculative", prompt, repeat)))
        for (variant, prompt, repeat), text in texts.items()
        if variant == "baseline"
    ]
    return sum(one == other for one, other in pairs)


FOLLOWED: dict[str, Callable[[list[Line]], float]] = {
    "tpot/baseline/repeat-line": _median_tpot,
    "tpot/speculative/sonnet": _median_tpot,
    "ttft/baseline/numbers": _median_ttft,
    "ttft/speculative/essay": _median_ttft,
    "e2e/speculative/fixed-json": _median_e2e,
    "step_gap/speculative/fixed-json": _median_gap,
    "tokens_per_step/baseline/essay": _tokens_per_step,
    "tokens_per_step/speculative/python-function": _tokens_per_step,
    "ratio/tpot/speculative/baseline/repeat-line": _speed_up,
    "ratio/tpot/speculative/baseline/extract-fields": _speed_up,
    "parity/speculative/baseline/essay/equal": _same_texts,
    "outcome/speculative/sonnet/timeout": len,
    "warmups": len,
}


@pytest.fixture(scope="module")
def lines(folder: Path) -> list[Line]:
    return [json.loads(line) for line in (folder / "records.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def numbers(written: Written) -> dict[str, dict[str, Any]]:
    document = json.loads(written.numbers.read_text(encoding="utf-8"))
    return {number["key"]: number for number in document["numbers"]}


@pytest.mark.parametrize("key", FOLLOWED)
def test_number_follows_from_its_lines(
    key: str, lines: list[Line], numbers: dict[str, dict[str, Any]]
) -> None:
    number = numbers[key]
    assert FOLLOWED[key]([lines[line - 1] for line in number["lines"]]) == pytest.approx(
        number["value"], rel=1e-9
    )


def test_lines_are_the_right_ones(lines: list[Line], numbers: dict[str, dict[str, Any]]) -> None:
    expected = [
        place
        for place, line in enumerate(lines, 1)
        if (line["variant"], line["test_case"], line["outcome"], line["warmup"])
        == ("speculative", "sonnet", "ok", False)
    ]
    assert numbers["tpot/speculative/sonnet"]["lines"] == expected
    assert len(expected) == 11, "one of the twelve timed out"


def test_every_number_has_lines_that_exist(lines: list[Line], numbers: dict[str, dict[str, Any]]) -> None:
    assert len(numbers) > 200
    for number in numbers.values():
        assert number["lines"], number["key"]
        assert number["lines"] == sorted(set(number["lines"])), number["key"]
        assert number["lines"][0] >= 1, number["key"]
        assert number["lines"][-1] <= len(lines), number["key"]
        assert number["how"], number["key"]


class _Data(HTMLParser):
    """Collects the ``<data>`` elements and the text in them."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[dict[str, str | None], str]] = []
        self.lines: dict[str, str] = {}
        self._list: str | None = None
        self._open: dict[str, str | None] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open = dict(attrs) if tag == "data" else None
        if tag == "dt":
            self._list = dict(attrs).get("id")

    def handle_data(self, data: str) -> None:
        if self._open is not None:
            self.found.append((self._open, data))
            self._open = None
        elif self._list is not None and data != self._list:
            self.lines[self._list] = data
            self._list = None


def test_page_shows_the_numbers_of_the_list(written: Written, numbers: dict[str, dict[str, Any]]) -> None:
    page = _Data()
    page.feed(written.html.read_text(encoding="utf-8"))
    assert {attributes["data-key"] for attributes, _ in page.found} == numbers.keys()
    for attributes, text in page.found:
        number = numbers[attributes["data-key"] or ""]
        assert text == number["shown"]
        assert float(attributes["value"] or "") == number["value"]
        assert _expanded(page.lines[attributes["data-lines"] or ""]) == number["lines"]


def test_shown_is_the_value_rounded(numbers: dict[str, dict[str, Any]]) -> None:
    checked = 0
    for number in numbers.values():
        figure = re.fullmatch(r"\$?([\d,.]+)(| ms| s|x|%)", number["shown"])
        assert figure, number
        shown = float(figure[1].replace(",", "")) * {" ms": 1e-3, "%": 1e-2}.get(figure[2], 1)
        assert shown == pytest.approx(number["value"], rel=0.051, abs=0.0051), number["key"]
        checked += 1
    assert checked == len(numbers)


def _expanded(where: str) -> list[int]:
    found: list[int] = []
    for part in where.split(", "):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found
