"""Compares two runs: the same prompts on another day, in another region, or with another configuration.

Two runs are two days, and a day affects all of its requests alike. With one day on each side, no number of
prompts can tell a change from a bad day. A baseline that both runs measured unchanged can: each variant is
judged by how much more it changed than this reference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from specdec.analysis.pairing import LogRatio, log_ratios, pairs
from specdec.analysis.significance import ReadTogether, decide, paired_ratio, row_level
from specdec.analysis.verdict import Decision, PairedRatio
from specdec.errors import BadInputError, Mistake
from specdec.metrics.tpot import TPOT
from specdec.runs.folder import Run
from specdec.runs.record import RequestRecord, measured

CHANGE_WORDS: dict[Decision, str] = {
    "helps": "faster",
    "hurts": "slower",
    "no difference": "no difference",
    "undecided": "undecided",
}
"""What a decision means between two runs: the second against the first."""


@dataclass(frozen=True, slots=True)
class Row:
    """One variant and test case in both runs.

    Attributes:
        variant, test_case: which.
        load: requests in flight or per second, where a run has several; else None.
        ratio: TPOT of the first run over that of the second; above 1 the second is faster. Where
            ``against_day`` holds, over the same ratio of the reference. None without a common prompt.
        decision: from the ratio; ``undecided`` where only the days are compared.
        against_day: whether what the reference changed by, the day's own change, is taken out.
    """

    variant: str
    test_case: str
    load: float | None
    ratio: PairedRatio | None
    decision: Decision
    against_day: bool = False

    @property
    def name(self) -> str:
        """The test case, and the load where there are several."""
        return self.test_case if self.load is None else f"{self.test_case} at {self.load:g}"


@dataclass(frozen=True, slots=True)
class Change:
    """Two runs side by side.

    Attributes:
        first, second: the runs, ``second`` being judged against ``first``.
        reference: the baseline that both runs measured unchanged; None where there is none, and nothing is
            decided then.
        rows: per variant and test case that both have.
        sentence: the answer.
    """

    first: Run
    second: Run
    reference: str | None
    rows: tuple[Row, ...]
    sentence: str

    def word(self, row: Row) -> str:
        """What a row says of the second run; the reference says only how the day was."""
        return "reference" if row.variant == self.reference else CHANGE_WORDS[row.decision]


def compare(first: Run, second: Run) -> Change:
    """Compares the measured requests of two runs, paired by prompt and repeat.

    Raises:
        BadInputError: one of them is not complete, no variant has a test case in common, or prompts of one id
            differ.
    """
    for run in (first, second):
        if run.manifest.status != "complete":
            raise _wrong(
                run,
                f"is {run.manifest.status}",
                "Compare complete runs; `specdec report` shows what this one left",
            )
    several = any(len(_loads(run)) > 1 for run in (first, second))
    own, other = _by_row(first, by_load=several), _by_row(second, by_load=several)
    common = [key for key in own if key in other]
    if not common:
        raise _wrong(
            second,
            f"has no variant and test case in common with run {first.manifest.run}: {_pairs_of(other)}"
            f" against {_pairs_of(own)}",
            "Measure both with the same names of targets and the same prompts",
        )
    for key in common:
        for pair in pairs(own[key], other[key]):
            before, after = pair.baseline.prompt_tokens, pair.variant.prompt_tokens
            if before is not None and after is not None and before != after:
                said = f"{pair.baseline.prompt} has {after} tokens, and {before} in run {first.manifest.run}"
                raise _wrong(
                    second, f"asked other prompts: {said}", "Compare runs of one prompt set on one model"
                )
    reference = _reference(first, second, common)
    changes = {key: log_ratios(pairs(own[key], other[key]), TPOT.of) for key in common}
    relative = {
        key: _less(changes[key], changes[reference, *key[1:]])
        for key in common
        if reference is not None and key[0] != reference and (reference, *key[1:]) in changes
    }
    known = ReadTogether.of([(key[0], row) for key, row in relative.items()])
    rows: list[Row] = []
    for key in common:
        if key in relative:
            ratio = known.ratio(key[0], relative[key])
            rows.append(Row(*key, ratio, decide(ratio.interval if ratio else None), against_day=True))
        else:
            # The day is a block without a second one: nothing tells its disturbance from a change.
            ratio = paired_ratio(changes[key], level=row_level(len(common)))
            rows.append(Row(*key, ratio and replace(ratio, interval=None, unknown="blocks"), "undecided"))
    return Change(first, second, reference, tuple(rows), _sentence(rows, reference, first, second))


def _reference(first: Run, second: Run, common: Sequence[_Key]) -> str | None:
    """The first baseline that both runs measured with the same settings."""
    for name in dict.fromkeys(variant for variant, *_ in common):
        sides = [
            (
                {key: run.manifest.variants[name].get(key) for key in ("role", "model", "engine")},
                run.manifest.configuration.get("serving"),
                [
                    own
                    for own in run.manifest.configuration.get("variants", [])
                    if own.get("name") == name and "url" not in own
                ],
            )
            for run in (first, second)
        ]
        if sides[0] == sides[1] and sides[0][0]["role"] == "baseline":
            return name
    return None


def _less(row: Sequence[LogRatio], reference: Sequence[LogRatio]) -> tuple[LogRatio, ...]:
    """What a row changed by beyond the reference, prompt by prompt."""
    means: dict[tuple[str, str], list[float]] = {}
    for pair in reference:
        means.setdefault(pair.prompt, []).append(pair.value)
    return tuple(
        replace(pair, value=pair.value - fmean(means[pair.prompt])) for pair in row if pair.prompt in means
    )


_Key = tuple[str, str, float | None]


def _loads(run: Run) -> set[float]:
    return {record.load for record in measured(run.records) if record.lane == "exact"}


def _by_row(run: Run, *, by_load: bool) -> Mapping[_Key, list[RequestRecord]]:
    rows: dict[_Key, list[RequestRecord]] = {}
    for record in measured(run.records):
        if record.lane == "exact":
            key = record.variant, record.test_case, record.load if by_load else None
            rows.setdefault(key, []).append(record)
    return rows


def _sentence(rows: Sequence[Row], reference: str | None, first: Run, second: Run) -> str:
    decided = [row for row in rows if row.against_day]
    parts: list[str] = []
    for word in ("faster", "slower"):
        names = [
            f"{row.variant} on {row.name} ({row.ratio.value:.2f}x)"
            for row in decided
            if row.ratio and CHANGE_WORDS[row.decision] == word
        ]
        if names:
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            parts.append(f"{word}: {', '.join(names[:3])}{more}")
    undecided = sum(row.decision == "undecided" for row in decided)
    if decided and not parts:
        parts.append("no difference" if not undecided else "no change is shown")
    if undecided:
        which = f"all {undecided}" if undecided == len(decided) > 1 else f"{undecided} of {len(decided)}"
        parts.append(f"{which} rows are undecided")
    day = [row.ratio.value for row in rows if row.ratio and row.variant == reference]
    if reference is not None and day:
        parts.append(
            f"{reference} has the same settings in both runs and ran at {_span(day)} of its first speed, and"
            " this change is taken out of the other rows"
        )
    if not decided:
        raw = [row.ratio.value for row in rows if row.ratio]
        shown = f" ({_span(raw)})" if raw else ""
        missing = (
            "no other variant ran in both" if reference else "no baseline ran with the same settings in both"
        )
        parts.append(f"{missing}, so a change of the service cannot be told apart from one of the day{shown}")
    return f"Run {second.manifest.run} against {first.manifest.run}: {'; '.join(parts)}."


def _span(values: Sequence[float]) -> str:
    low, high = f"{min(values):.2f}x", f"{max(values):.2f}x"
    return low if low == high else f"{low} to {high}"


def _pairs_of(keys: Iterable[_Key]) -> str:
    """The pairs of variant and test case, a few of them."""
    names = sorted({f"{variant}/{case}" for variant, case, _ in keys})
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _wrong(run: Run, problem: str, remedy: str) -> BadInputError:
    return BadInputError("compare", [Mistake("run", run.manifest.run, problem, remedy)])
