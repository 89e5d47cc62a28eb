"""Writes the report into its run folder: three files, each whole or not there."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from specdec.analysis.verdict import Verdict, judge
from specdec.errors import EnvironmentFault
from specdec.report import html, markdown
from specdec.report.build import build
from specdec.report.content import Content
from specdec.report.numbers import Trace
from specdec.report.source import Run, read_run

SCHEMA = 1
"""Of ``report.json``."""


@dataclass(frozen=True, slots=True)
class Written:
    """What a report left.

    Attributes:
        html, markdown, numbers: ``report.html``, ``report.md`` and ``report.json``.
        verdict: what they show.
    """

    html: Path
    markdown: Path
    numbers: Path
    verdict: Verdict


def write(folder: Path) -> Written:
    """Judges the run in ``folder`` and writes its report beside the records.

    The files are a function of the run: written again, they are the same byte for byte.

    Raises:
        BadInputError: the folder holds no finished, unspoiled run; see ``source.read_run``.
        EnvironmentFault: the files cannot be written.
    """
    run = read_run(folder)
    verdict = judge(run.manifest, run.records)
    content, trace = build(run, verdict)
    digest = run.manifest.records_sha256
    written = Written(folder / "report.html", folder / "report.md", folder / "report.json", verdict)
    replace(written.html, html.render(content, digest))
    replace(written.markdown, markdown.render(content, digest))
    replace(written.numbers, numbers(run, content, trace))
    return written


def numbers(run: Run, content: Content, trace: Trace) -> str:
    """``report.json``: the answer, and every number with its formula and its lines of ``records.jsonl``."""
    document = {
        "schema": SCHEMA,
        "run": run.manifest.run,
        "status": run.manifest.status,
        "configuration_hash": run.manifest.configuration_hash,
        "records_sha256": run.manifest.records_sha256,
        "sentence": content.sentence,
        "numbers": [number.plain() for number in trace.numbers.values()],
    }
    return json.dumps(document, ensure_ascii=False, indent=1) + "\n"


def replace(path: Path, text: str) -> None:
    """Writes a file under a temporary name and puts it in place whole.

    Raises:
        EnvironmentFault: it cannot be written: no space, or no permission.
    """
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        temporary = Path(name)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
                file.write(text)
            temporary.chmod(0o644)
            temporary.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
    except OSError as error:
        raise EnvironmentFault(
            f"{path} cannot be written: {error.strerror}", remedy="Free some space or allow writing there, then run `specdec report` again"
        ) from None
