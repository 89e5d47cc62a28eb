"""A forecast held against what was then measured: of a run that has both, request by request."""

from __future__ import annotations

import dataclasses
import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

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
from specdec.runs.record import RequestRecord
from specdec.text import json_of

FILE = "forecast.json"
"""In the run's folder: what was checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """One test case of one variant, one request in flight.

    Attributes:
        variant, test_case: which.
        draft: what was replayed.
        window: num_speculative_tokens.
        equal, compared: requests whose tokens per step came out as forecast, to the last digit, and all that
            could be compared.
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
    left_out: int
    forecast: float
    measured: float
    plain_tpot: float
    tpot_low: float
    tpot_high: float
    tpot: float


def check(
    run: Run, variant: str, draft: Draft, tokenizer: Tokenizer, *, base: Path | None = None
) -> tuple[Checked, ...]:
    """Forecasts a variant from the baseline's texts alone, and compares.

    Args:
        run: with a baseline and the variant; requests with others in flight are left aside.
        variant: its name; its server tells accepted tokens per request.
        draft: what the variant proposes from.
        tokenizer: of the target.
        base: folder that a relative prompt file starts from.
    """
    window = run.manifest.variants[variant].get("window")
    if window is None:
        return ()
    sources = Sources()
    read_run_answers(run, sources, base=base)
    texts = tokenize(sources.answers, tokenizer).texts
    usable = convention_of(run.manifest).usable(window)
    forecasts: dict[tuple[str, str], tuple[float, float, float]] = {}
    for text in texts:
        positions = draft.kept(text)[window]
        sizes = steps(positions.kept.tolist(), usable)
        begins = np.cumsum([0, *sizes[:-1]])
        drafted = len(sizes) if positions.proposes is None else int(positions.proposes[begins].sum())
        forecasts[text.answer.group, text.answer.id] = (
            sum(sizes) / len(sizes),
            (len(sizes) - drafted) / sum(sizes),
            drafted / sum(sizes),
        )
    alone = [r for r in run.records if not r.warmup and r.outcome == "ok" and r.concurrency == 1]
    plain = {
        (r.test_case, r.prompt): value
        for r in alone
        if run.manifest.variants[r.variant].get("role") == "baseline" and (value := TPOT.of(r)) is not None
    }
    cases: defaultdict[str, list[RequestRecord]] = defaultdict(list)
    for record in alone:
        if record.variant == variant:
            cases[record.test_case].append(record)
    slopes = LOOK_UP_SLOPES if draft.look_up else MODEL_SLOPES
    checked: list[Checked] = []
    for case, records in cases.items():
        rows = [
            (record, forecasts[key], measured, plain[key], tpot)
            for record in records
            if (key := (record.test_case, record.prompt)) in forecasts
            and key in plain
            and (measured := tokens_per_step(record)) is not None
            and (tpot := TPOT.of(record)) is not None
        ]
        if not rows:
            continue
        low, high = (
            fmean(t0 * (p + d * (1 + slope * window)) for _, (_, p, d), _, t0, _ in rows) for slope in slopes
        )
        checked.append(
            Checked(
                variant=variant,
                test_case=case,
                draft=draft.name,
                window=window,
                equal=sum(abs(expected[0] - measured) < 1e-9 for _, expected, measured, _, _ in rows),
                compared=len(rows),
                left_out=len(records) - len(rows),
                forecast=fmean(expected[0] for _, expected, _, _, _ in rows),
                measured=fmean(measured for _, _, measured, _, _ in rows),
                plain_tpot=fmean(t0 for _, _, _, t0, _ in rows),
                tpot_low=low,
                tpot_high=high,
                tpot=fmean(tpot for *_, tpot in rows),
            )
        )
    return tuple(checked)


def tokens_per_step(record: RequestRecord) -> float | None:
    """By the server's count of accepted tokens: every step emits these and one more. A request without the
    count had nothing proposed.
    """
    after_first = (record.output_tokens or 0) - 1
    steps_ = after_first - (record.server.accepted_tokens if record.server else 0)
    return after_first / steps_ if steps_ > 0 else None


def write(checked: tuple[Checked, ...], folder: Path) -> None:
    """Puts what was checked beside the run."""
    atomic.write(folder / FILE, json_of([dataclasses.asdict(row) for row in checked]) + "\n")


def read(folder: Path) -> tuple[Checked, ...]:
    """What was checked of a run; nothing where nothing was."""
    try:
        rows: list[dict[str, Any]] = json.loads((folder / FILE).read_text(encoding="utf-8"))
        return tuple(Checked(**row) for row in rows)
    except (OSError, ValueError, TypeError):
        return ()
