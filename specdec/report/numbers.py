"""Numbers with their origin: each shown figure keeps its value, its formula and the lines of
``records.jsonl`` behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from specdec.runs.record import SELF_CHECK, RequestRecord

LANE = "exact"
"""The lane that a verdict is made of."""


@dataclass(frozen=True, slots=True)
class Number:
    """One figure of a report.

    Attributes:
        key: unique in the report, words joined by ``/``, e.g. ``tpot/speculative/sonnet``.
        value: unrounded, in ``unit``.
        unit: ``s``, ``ratio``, ``share``, ``tokens/step``, ``USD/1M tokens``, ``count``, ...
        shown: as the reports print it.
        how: what was computed from the records.
        lines: 1-based lines of ``records.jsonl`` it was computed from.
    """

    key: str
    value: float
    unit: str
    shown: str
    how: str
    lines: tuple[int, ...]

    @property
    def where(self) -> str:
        """The lines as a person writes them: ``3-5, 9``."""
        runs: list[list[int]] = []
        for line in self.lines:
            if runs and line == runs[-1][-1] + 1:
                runs[-1][1:] = [line]
            else:
                runs.append([line])
        return ", ".join("-".join(map(str, run)) for run in runs)

    def plain(self) -> dict[str, Any]:
        """As plain data for ``report.json``."""
        return {
            "key": self.key,
            "value": self.value,
            "unit": self.unit,
            "shown": self.shown,
            "how": self.how,
            "lines": list(self.lines),
        }


@dataclass(slots=True)
class Trace:
    """Makes the numbers of one report and remembers them.

    Attributes:
        records: of the run, in file order.
        load: the one load that numbers are about unless they say another; None for a run of one load.
        numbers: made so far, by key.
    """

    records: tuple[RequestRecord, ...]
    load: float | None = None
    numbers: dict[str, Number] = field(default_factory=dict[str, Number])
    _places: dict[tuple[str, str, str], list[int]] = field(init=False, repr=False)
    _measured: dict[tuple[str | None, tuple[str, ...]], tuple[int, ...]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._places = {}
        self._measured = {}
        for line, record in enumerate(self.records, 1):
            if record.lane == LANE and not record.warmup and self.load in (None, record.load):
                key = record.variant, record.test_case, record.outcome
                self._places.setdefault(key, []).append(line)

    def number(self, key: str, value: float, unit: str, shown: str, how: str, lines: Iterable[int]) -> Number:
        """A number of the report. The same key again gives the same number, so that a figure can stand in two
        tables.
        """
        made = Number(key, value, unit, shown, how, tuple(lines))
        known = self.numbers.setdefault(key, made)
        if known != made:
            raise ValueError(f"two different numbers are called {key!r}: {known.shown} and {made.shown}")
        return known

    def measured(self, test_case: str | None, *variants: str) -> tuple[int, ...]:
        """Lines that metrics are made of: ended ``ok`` in the exact lane, not warm-up. None for all test
        cases.
        """
        key = test_case, variants
        if key not in self._measured:
            known = (
                [self._places.get((variant, test_case, "ok"), []) for variant in set(variants)]
                if test_case is not None
                else [
                    lines
                    for (variant, _, outcome), lines in self._places.items()
                    if outcome == "ok" and variant in variants
                ]
            )
            self._measured[key] = tuple(sorted(line for lines in known for line in lines))
        return self._measured[key]

    def at_load(self, load: float, test_cases: Collection[str] | None, *variants: str) -> list[int]:
        """Lines as ``measured`` gives them, at one load of several; None for all test cases."""
        return [
            line
            for line, record in enumerate(self.records, 1)
            if record.lane == LANE
            and not record.warmup
            and record.outcome == "ok"
            and record.load == load
            and record.variant in variants
            and (test_cases is None or record.test_case in test_cases)
        ]

    def sent(self, test_case: str | None, *variants: str) -> list[int]:
        """Lines of all requests but warm-ups, however they ended."""
        return self._lines(lambda variant, case, _: variant in variants and test_case in (None, case))

    def again(self) -> list[int]:
        """Lines of the baseline's second arm, however they ended, warm-ups left out."""
        return [
            line
            for line, record in enumerate(self.records, 1)
            if record.lane == SELF_CHECK and not record.warmup and self.load in (None, record.load)
        ]

    def ended(self, test_case: str, variant: str, outcome: str) -> list[int]:
        """Lines of the requests that ended so."""
        return list(self._places.get((variant, test_case, outcome), ()))

    def pair(self, variants: tuple[str, str], prompt: str, repeat: int) -> list[int]:
        """Lines of one prompt and repeat in two variants."""
        return [
            line
            for line in self.sent(None, *variants)
            if (self.records[line - 1].prompt, self.records[line - 1].repeat) == (prompt, repeat)
        ]

    def _lines(self, wanted: Callable[[str, str, str], bool]) -> list[int]:
        return sorted(line for key, lines in self._places.items() if wanted(*key) for line in lines)


def milliseconds(seconds: float) -> str:
    """``45.0 ms``; three digits, since no more of them are steady from run to run."""
    return f"{_digits(seconds * 1000)} ms"


def duration(seconds: float) -> str:
    """Milliseconds below a second, else seconds."""
    return milliseconds(seconds) if seconds < 1 else f"{_digits(seconds)} s"


def times(ratio: float) -> str:
    """``2.95x``."""
    return f"{ratio:.2f}x"


def percent(share: float) -> str:
    """``61%``; a decimal below 10."""
    return f"{100 * share:.0f}%" if share >= 0.1 or share == 0 else f"{100 * share:.1f}%"


def dollars(usd: float) -> str:
    """``$1.04``."""
    return f"${usd:,.2f}" if usd >= 0.1 else f"${usd:.2g}"


def count(value: float) -> str:
    """A whole number."""
    return f"{value:.0f}"


def decimals(value: float) -> str:
    """Two decimals."""
    return f"{value:.2f}"


def sentence(text: str) -> str:
    """With a capital letter and a full stop."""
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


def _digits(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
