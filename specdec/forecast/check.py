"""Compares a forecast with what was measured afterwards, request by request, for a run that has both."""

from __future__ import annotations

import dataclasses
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from specdec import atomic
from specdec.analysis.conventions import convention_of
from specdec.analysis.replay import steps
from specdec.forecast.answers import Sources
from specdec.forecast.drafts import Draft
from specdec.forecast.outlook import LOOK_UP_SLOPES, MODEL_SLOPES
from specdec.forecast.run_answers import read_run_answers
from specdec.forecast.tokens import Tokenizer, tokenize
from specdec.metrics.tpot import TPOT
from specdec.runs.folder import Run
from specdec.runs.record import EXACT, RequestRecord
from specdec.runs.record import measured as finished
from specdec.text import json_of

FILE = "forecast.json"
"""In the run's folder: what was checked."""

BEFORE = "forecast-before.json"
"""In the run's folder: the forecast, made of the baseline's records alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreseen:
    """One request of one variant, forecast.

    Attributes:
        variant, test_case, prompt: which.
        draft: what was replayed.
        look_up: whether it proposes only where it finds something.
        window: num_speculative_tokens.
        tokens_per_step: after the first token.
        plain, drafted: steps that verify nothing, and steps that do, per token.
        exact: whether the baseline's tokens are known one by one; else its text was tokenized again.
    """

    variant: str
    test_case: str
    prompt: str
    draft: str
    look_up: bool
    window: int
    tokens_per_step: float
    plain: float
    drafted: float
    exact: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A request whose tokens per step differ from the forecast.

    Attributes:
        prompt: which.
        forecast, measured: tokens per step.
        why: the likeliest reason.
    """

    prompt: str
    forecast: float
    measured: float
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """One test case of one variant, one request in flight.

    Attributes:
        variant, test_case: which.
        draft: what was replayed.
        window: num_speculative_tokens.
        equal, compared: requests whose tokens per step came out as forecast, to the last digit, and all that
            could be compared.
        differences: the requests that did not come out as forecast.
        left_out: requests whose answer cannot be replayed: its tokens do not agree with the server's count.
        forecast, measured: tokens per step, mean over requests.
        plain_tpot: seconds, of the baseline.
        tpot_low, tpot_high: seconds, forecast: published costs of a step.
        tpot: seconds, measured.
    """

    variant: str
    test_case: str
    draft: str
    window: int
    equal: int
    compared: int
    differences: tuple[Difference, ...]
    left_out: int
    forecast: float
    measured: float
    plain_tpot: float
    tpot_low: float
    tpot_high: float
    tpot: float


def baseline_of(run: Run) -> Run:
    """The run as it would be had only its baselines been asked."""
    return dataclasses.replace(run, records=tuple(r for r in run.records if _is_baseline(run, r)))


def _is_baseline(run: Run, record: RequestRecord) -> bool:
    return run.manifest.variants[record.variant].get("role") == "baseline"


def foresee(
    plain: Run, variant: str, draft: Draft, tokenizer: Tokenizer, *, base: Path | None = None
) -> tuple[Foreseen, ...]:
    """Forecasts a variant, request by request, from the baseline's texts.

    Args:
        plain: a run without a record of any other variant, see ``baseline_of``.
        variant: its name.
        draft: what the variant proposes from.
        tokenizer: of the target.
        base: folder that a relative prompt file starts from.

    Raises:
        ValueError: the run has a record of another variant: what was measured must not be known here.
    """
    strangers = {record.variant for record in plain.records if not _is_baseline(plain, record)}
    if strangers:
        raise ValueError(f"a forecast must not see records of {', '.join(sorted(strangers))}")
    window = plain.manifest.variants[variant].get("window")
    if window is None:
        return ()
    sources = Sources()
    read_run_answers(plain, sources, base=base)
    usable = convention_of(plain.manifest).usable(window)
    foreseen: list[Foreseen] = []
    for text in tokenize(sources.answers, tokenizer).texts:
        positions = draft.kept(text)[window]
        sizes = steps(positions.kept, usable)
        begins = np.cumsum([0, *sizes[:-1]])
        drafted = len(sizes) if positions.proposes is None else int(positions.proposes[begins].sum())
        foreseen.append(
            Foreseen(
                variant=variant,
                test_case=text.answer.group,
                prompt=text.answer.id,
                draft=draft.name,
                look_up=draft.look_up,
                window=window,
                tokens_per_step=sum(sizes) / len(sizes),
                plain=(len(sizes) - drafted) / sum(sizes),
                drafted=drafted / sum(sizes),
                exact=text.exact,
            )
        )
    return tuple(foreseen)


def check(run: Run, foreseen: Sequence[Foreseen]) -> tuple[Checked, ...]:
    """Holds a forecast against the run.

    Args:
        run: with a baseline and the variants; requests with others in flight are left aside. The variants'
            server tells accepted tokens per request.
        foreseen: what was forecast, of any of its variants.
    """
    alone = [r for r in finished(run.records) if r.lane == EXACT and r.concurrency == 1]
    plain: dict[tuple[str, str], tuple[RequestRecord, float]] = {}
    for record in alone:
        if _is_baseline(run, record) and (value := TPOT.of(record)) is not None:
            plain[record.test_case, record.prompt] = record, value
    forecasts = {(one.variant, one.test_case, one.prompt): one for one in foreseen}
    cases: defaultdict[tuple[str, str], list[RequestRecord]] = defaultdict(list)
    forecast_variants = {one.variant for one in foreseen}
    for record in alone:
        if record.variant in forecast_variants:
            cases[record.variant, record.test_case].append(record)
    checked: list[Checked] = []
    for (variant, case), records in cases.items():
        rows = [
            _Row(record, forecasts[key], measured, *plain[key[1:]], tpot)
            for record in records
            if (key := (variant, record.test_case, record.prompt)) in forecasts
            and key[1:] in plain
            and (measured := tokens_per_step(record)) is not None
            and (tpot := TPOT.of(record)) is not None
        ]
        if rows:
            checked.append(_summary(variant, case, rows, left_out=len(records) - len(rows)))
    return tuple(checked)


class _Row(NamedTuple):
    record: RequestRecord
    forecast: Foreseen
    measured: float
    plain: RequestRecord
    plain_tpot: float
    tpot: float

    @property
    def equal(self) -> bool:
        return abs(self.forecast.tokens_per_step - self.measured) < 1e-9

    def tpot_at(self, slope: float) -> float:
        """Seconds per token where each position of the window costs ``slope`` plain steps."""
        one = self.forecast
        return self.plain_tpot * (one.plain + one.drafted * (1 + slope * one.window))

    def why(self) -> str:
        if self.record.text != self.plain.text:
            return "the texts part: the forecast is of the baseline's"
        if not self.forecast.exact:
            return "same text; it was tokenized again, which may come out otherwise with as many tokens"
        return "same text, same tokens: the draft chose otherwise than in the forecast"


def _summary(variant: str, case: str, rows: Sequence[_Row], *, left_out: int) -> Checked:
    first = rows[0].forecast
    low, high = (
        fmean(row.tpot_at(slope) for row in rows)
        for slope in (LOOK_UP_SLOPES if first.look_up else MODEL_SLOPES)
    )
    return Checked(
        variant=variant,
        test_case=case,
        draft=first.draft,
        window=first.window,
        equal=sum(row.equal for row in rows),
        compared=len(rows),
        differences=tuple(
            Difference(
                prompt=row.record.prompt,
                forecast=row.forecast.tokens_per_step,
                measured=row.measured,
                why=row.why(),
            )
            for row in rows
            if not row.equal
        ),
        left_out=left_out,
        forecast=fmean(row.forecast.tokens_per_step for row in rows),
        measured=fmean(row.measured for row in rows),
        plain_tpot=fmean(row.plain_tpot for row in rows),
        tpot_low=low,
        tpot_high=high,
        tpot=fmean(row.tpot for row in rows),
    )


def tokens_per_step(record: RequestRecord) -> float | None:
    """By the server's count of accepted tokens: every step emits these and one more. A request without the
    count had nothing proposed.
    """
    after_first = (record.output_tokens or 0) - 1
    steps_ = after_first - (record.server.accepted_tokens if record.server else 0)
    return after_first / steps_ if steps_ > 0 else None


def write_foreseen(foreseen: Sequence[Foreseen], folder: Path) -> None:
    """Writes a forecast beside the run, before the run is compared with it."""
    atomic.write(folder / BEFORE, json_of([dataclasses.asdict(one) for one in foreseen]) + "\n")


def read_foreseen(folder: Path) -> tuple[Foreseen, ...]:
    """The forecast as it was written."""
    rows: list[dict[str, Any]] = json.loads((folder / BEFORE).read_text(encoding="utf-8"))
    return tuple(Foreseen(**row) for row in rows)


def write(checked: Sequence[Checked], folder: Path) -> None:
    """Puts what was checked beside the run."""
    atomic.write(folder / FILE, json_of([dataclasses.asdict(row) for row in checked]) + "\n")


def read(folder: Path) -> tuple[Checked, ...]:
    """What was checked of a run; nothing where nothing was."""
    try:
        rows: list[dict[str, Any]] = json.loads((folder / FILE).read_text(encoding="utf-8"))
        return tuple(
            Checked(differences=tuple(Difference(**one) for one in row.pop("differences", ())), **row)
            for row in rows
        )
    except (OSError, ValueError, TypeError):
        return ()
