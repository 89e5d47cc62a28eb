"""The answers of a run's baseline: a run already holds what a forecast needs."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from specdec.errors import BadInputError, Mistake
from specdec.forecast.answers import SAMPLED, Answer, Sources
from specdec.prompts.sets import Prompt, load
from specdec.runs.folder import Run
from specdec.runs.record import SELF_CHECK, RequestRecord


def read_run_answers(
    run: Run, sources: Sources, *, prompts: str | None = None, base: Path | None = None
) -> None:
    """Takes each prompt's answer by the first baseline, once: repeats at temperature 0 are the same text.

    Args:
        run: the run.
        sources: gets answers and counts.
        prompts: prompt set or file, where the run's manifest does not say or the file has moved.
        base: folder that a relative prompt file starts from.

    Raises:
        BadInputError: the run has no baseline, or its prompts cannot be read.
    """
    baseline = next((n for n, v in run.manifest.variants.items() if v.get("role") == "baseline"), None)
    if baseline is None:
        raise BadInputError(
            "SOURCE",
            [Mistake(str(run.folder), None, "has no baseline", "Name a run that measured one, or a log")],
        )
    benchmark: dict[str, Any] = run.manifest.configuration.get("benchmark", {})
    name = prompts or str(benchmark.get("prompts", "classes"))
    known: dict[tuple[str, str], Prompt] = {(p.test_case, p.id): p for p in load(name, base=base)}
    seen: set[tuple[str, str]] = set()
    # Of several loads the lowest: alone in flight, a request is decoded as plainly as can be.
    for record in sorted(run.records, key=lambda record: record.concurrency):
        if record.variant != baseline or record.warmup or record.lane == SELF_CHECK:
            continue
        key = (record.test_case, record.prompt)
        if key in seen and record.outcome == "ok":
            continue
        if record.outcome != "ok":
            sources.left_out[f"request that ended {record.outcome}"] += 1
            continue
        if key not in known:
            sources.left_out[f"prompt that the set {name} does not hold"] += 1
            continue
        seen.add(key)
        sources.layouts["run"] += 1
        if record.temperature:
            sources.notes[SAMPLED] += 1
        chat = benchmark.get("api", "chat") == "chat"
        prompt = known[key]
        turns = tuple((turn.role, turn.content) for turn in prompt.conversation)
        sources.answers.append(
            Answer(
                id=record.prompt,
                group=record.test_case,
                messages=turns if chat else (),
                prompt="" if chat else prompt.text,
                text=record.text,
                pieces=_pieces(record),
                prompt_tokens=record.prompt_tokens,
                completion_tokens=record.output_tokens,
                finish=record.finish_reason,
                temperature=record.temperature,
            )
        )


def _pieces(record: RequestRecord) -> tuple[str, ...]:
    ends = [*itertools.accumulate(record.pieces or ())]
    return tuple(record.text[start:end] for start, end in itertools.pairwise([0, *ends]))
