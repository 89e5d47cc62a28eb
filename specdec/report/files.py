"""Writes the report into its run folder: three files, each whole or not there."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from specdec import __version__, atomic
from specdec.analysis.compare import Change, compare
from specdec.analysis.cost import own_price
from specdec.analysis.judge import judge
from specdec.analysis.quality import QualityTest, quality_tests, scored
from specdec.analysis.regression import Regression, regressions
from specdec.analysis.verdict import Verdict
from specdec.quality.lm_eval import lm_eval_right
from specdec.quality.tasks import tasks
from specdec.rejoin import store
from specdec.report import html, markdown
from specdec.report.build import build
from specdec.report.change import build_change
from specdec.report.content import Content
from specdec.report.numbers import Trace
from specdec.runs import answers
from specdec.runs.folder import Run, read_run
from specdec.runs.manifest import MANIFEST, SERVER_PRICE, RunManifest
from specdec.runs.renamed import renamed
from specdec.runs.unfinished import read_unfinished
from specdec.text import json_of

SCHEMA = 1
"""Of ``report.json``."""


@dataclass(frozen=True, slots=True)
class Written:
    """The files of a report.

    Attributes:
        html, markdown, numbers: ``report.html``, ``report.md`` and ``report.json``.
        verdict: what they show.
    """

    html: Path
    markdown: Path
    numbers: Path
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class WrittenChange:
    """The files of a comparison.

    Attributes:
        html, markdown, numbers: three files named after both runs.
        change: what they show.
        regressions: what got worse.
    """

    html: Path
    markdown: Path
    numbers: Path
    change: Change
    regressions: tuple[Regression, ...]


def write(
    folder: Path,
    limits: Mapping[str, float] | None = None,
    *,
    prices: Callable[[Sequence[str]], Mapping[str, float]] = lambda _: {},
    unfinished: bool = False,
) -> Written:
    """Judges the run in ``folder`` and writes its report beside the records.

    The files are a function of the run and the limits: written again, they are the same byte for byte.

    Args:
        folder: of the run.
        limits: of the objective in place of the run's own, as ``[objective]`` has them.
        prices: given the variants, what an hour of each one's server costs, US dollars, in place of the run's
            own prices; a variant that is left out keeps its own.
        unfinished: whether a run without a manifest is reported too, as an interrupted one.

    Raises:
        BadInputError: the folder holds no finished, unspoiled run; see ``source.read_run``.
        EnvironmentFault: the files cannot be written.
    """
    run = read_unfinished(folder) if unfinished and not (folder / MANIFEST).exists() else read_run(folder)
    manifest = run.manifest
    if limits:
        objective: dict[str, Any] = {**(manifest.configuration.get("objective") or {}), **limits}
        manifest = replace(manifest, configuration={**manifest.configuration, "objective": objective})
    told = prices(list(manifest.variants))
    if told:
        own = {name: price.usd_per_hour for name in manifest.variants if (price := own_price(manifest, name))}
        environment = {**manifest.environment, SERVER_PRICE: {**own, **told}}
        manifest = replace(manifest, environment=environment)
    verdict = judge(
        manifest,
        run.records,
        rejoined=store.read(folder),
        short_answers=answers.read(folder, answers.SAMPLING),
    )
    qualities = quality_of(folder, run.manifest)
    content, trace = build(run, verdict, qualities)
    digest = run.manifest.records_sha256
    written = Written(folder / "report.html", folder / "report.md", folder / "report.json", verdict)
    atomic.write(written.html, html.render(content, digest))
    atomic.write(written.markdown, markdown.render(content, digest))
    atomic.write(written.numbers, numbers(run, verdict, content, trace, qualities))
    return written


def write_change(
    first: Path, second: Path, folder: Path, names: Mapping[str, str] | None = None
) -> WrittenChange:
    """Compares the runs in two folders and writes the comparison into ``folder``, named after both.

    Args:
        first: folder of a run.
        second: folder of the run that is held against it.
        folder: where the comparison goes.
        names: names of variants of the second run to those they have in the first.

    Raises:
        BadInputError: a folder holds no finished, unspoiled run, or the two have nothing to compare.
        EnvironmentFault: the files cannot be written.
    """
    runs = read_run(first), renamed(read_run(second), names or {})
    change = compare(*runs)
    verdicts = judge(runs[0].manifest, runs[0].records), judge(runs[1].manifest, runs[1].records)
    worse = regressions(change, *verdicts)
    content, traces = build_change(change, verdicts, worse)
    digests = " and ".join(run.manifest.records_sha256 for run in runs)
    title = "--".join(run.manifest.run for run in runs)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise atomic.unwritable(folder, error) from None
    written = WrittenChange(
        folder / f"{title}.html", folder / f"{title}.md", folder / f"{title}.json", change, worse
    )
    atomic.write(written.html, html.render(content, digests))
    atomic.write(written.markdown, markdown.render(content, digests))
    atomic.write(
        written.numbers,
        _json(
            {
                "schema": SCHEMA,
                "compared_with": __version__,
                "reference": change.reference,
                "rows": [dataclasses.asdict(row) for row in change.rows],
                "regressions": [dataclasses.asdict(regression) for regression in worse],
                "headline": content.headline,
                "sentence": change.sentence,
                "runs": [
                    {
                        "run": run.manifest.run,
                        "measured_with": run.manifest.version,
                        "records_sha256": run.manifest.records_sha256,
                        "numbers": _numbers(trace),
                    }
                    for run, trace in zip(runs, traces, strict=True)
                ],
            }
        ),
    )
    return written


def quality_of(folder: Path, manifest: RunManifest) -> tuple[QualityTest, ...]:
    """How well the variants of a run answer tasks, if they were asked."""
    shipped = quality_tests(manifest, answers.read(folder, answers.QUALITY), tasks())
    gsm8k = (
        test
        for source, (right, asked) in lm_eval_right(folder, list(manifest.variants)).items()
        for test in scored(manifest, right, source, asked)
    )
    return (*shipped, *gsm8k)


def numbers(
    run: Run,
    verdict: Verdict,
    content: Content,
    trace: Trace,
    qualities: Sequence[QualityTest] = (),
) -> str:
    """``report.json``: the answer, every row as data, and every number with its formula and its lines of
    ``records.jsonl``.
    """
    return _json(
        {
            "schema": SCHEMA,
            "run": run.manifest.run,
            "status": run.manifest.status,
            "measured_with": run.manifest.version,
            "judged_with": __version__,
            "configuration_hash": run.manifest.configuration_hash,
            "records_sha256": run.manifest.records_sha256,
            "headline": content.headline,
            "sure": content.sure,
            "sentence": content.sentence or content.headline,
            "margin": verdict.margin,
            "level": verdict.level,
            "rows": [dataclasses.asdict(row) for row in verdict.comparisons],
            "classes": [dataclasses.asdict(summary) for summary in verdict.classes],
            "sampling": [dataclasses.asdict(test) for test in verdict.sampled],
            "quality": [dataclasses.asdict(test) for test in qualities],
            "overall": [dataclasses.asdict(total) for total in verdict.overall],
            "self_check": None if verdict.self_check is None else dataclasses.asdict(verdict.self_check),
            "numbers": _numbers(trace),
        }
    )


def _numbers(trace: Trace) -> list[dict[str, Any]]:
    return [number.plain() for number in trace.numbers.values()]


def _json(document: dict[str, Any]) -> str:
    """JSON with a line per field, and per entry of a list: short enough, and to be compared line by line."""
    fields = (f"{json_of(name)}: {_entries(value)}" for name, value in document.items())
    return "{\n" + ",\n".join(fields) + "\n}\n"


def _entries(value: Any) -> str:
    if not isinstance(value, list):
        return json_of(value)
    return "[\n" + ",\n".join(json_of(entry) for entry in cast("list[Any]", value)) + "\n]"
