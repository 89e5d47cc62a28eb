"""A simulated run with known acceptance and step times, written as a real run folder is: the reports' test
data.

The simulation is of a fused server (NxD Inference counts: at most ``window`` tokens leave a step). Same
arguments, same bytes.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from specdec.experiment.reading import load
from specdec.runs.manifest import MeasuredVariant, RunManifest
from specdec.runs.record import RequestRecord

RUN = "20261129T180000Z-5a17ed"
BASE_STEP = 0.045
DRAFT_COST = 0.15
TTFT = 0.21
WORDS = (
    "the",
    "target",
    "model",
    "checks",
    "what",
    "the",
    "draft",
    "proposes",
    "and",
    "keeps",
    "every",
    "token",
    "it",
    "agrees",
    "with",
)


@dataclass(frozen=True)
class Case:
    """One test case: its class, the chance that the next proposed token is kept, and how many prompts it
    has.
    """

    name: str
    prompt_class: str
    acceptance: float
    prompts: int = 6


CASES = (
    Case("repeat-line", "structured", 0.99),
    Case("numbers", "structured", 0.96),
    Case("fixed-json", "structured", 0.93),
    Case("python-function", "code", 0.80),
    Case("extract-fields", "extraction", 0.72),
    Case("essay", "open", 0.36),
    Case("sonnet", "open", 0.30),
    Case("traduction", "multilingual", 0.38, prompts=2),
)


def records(
    *,
    cases: Sequence[Case] = CASES,
    window: int = 7,
    tokens: int = 120,
    repeats: int = 2,
    seed: int = 1,
    base_step: float = BASE_STEP,
    run: str = RUN,
    speculative: Sequence[str] = ("speculative",),
) -> list[RequestRecord]:
    """All requests of a run, in the order they were sent: variants alternate within each repeat of each
    prompt.
    """
    chance = random.Random(seed)
    found: list[RequestRecord] = []
    clock = 100.0
    for repeat in range(repeats):
        for index, case in enumerate(cases):
            for number in range(case.prompts):
                for variant in ("baseline", *speculative):
                    times, counts = _stream(
                        chance, case.acceptance if variant != "baseline" else None, window, tokens, base_step
                    )
                    closed = times[-1] + 0.002
                    found.append(
                        RequestRecord(
                            run=run,
                            lane="exact",
                            variant=variant,
                            test_case=case.name,
                            prompt_class=case.prompt_class,
                            prompt=f"{case.name}-{number}",
                            repeat=repeat,
                            block=repeat * len(cases) + index,
                            warmup=False,
                            concurrency=4,
                            sent_utc="2026-11-29T18:00:00Z",
                            sent=round(clock, 6),
                            outcome="ok",
                            finish_reason="length",
                            prompt_tokens=41 + number,
                            output_tokens=counts[-1],
                            token_source="continuous-usage",
                            requested_tokens=tokens,
                            chunk_times=times,
                            chunk_tokens=counts,
                            closed=round(closed, 6),
                            text=_text(case.name, number, tokens),
                            thinking=False,
                        )
                    )
                    clock += closed / 4
    return found


def spoiled(whole: Sequence[RequestRecord]) -> list[RequestRecord]:
    """The same run with what goes wrong in real ones: a warm-up, a timeout, an early end, and one text that
    differs.
    """
    found = list(whole)
    found.insert(0, replace(found[0], warmup=True, block=-1))
    timeout = next(i for i, r in enumerate(found) if r.variant == "speculative" and r.test_case == "sonnet")
    found[timeout] = replace(
        found[timeout],
        outcome="timeout",
        error="no token within 30 s",
        finish_reason=None,
        output_tokens=None,
        chunk_times=(),
        chunk_tokens=None,
        closed=None,
        text="",
    )
    early = next(
        i for i, r in enumerate(found) if r.variant == "baseline" and r.test_case == "extract-fields"
    )
    found[early] = replace(found[early], outcome="early-eos", finish_reason="stop")
    for index, record in enumerate(found):
        if record.variant == "speculative" and record.prompt == "essay-1":
            at = record.text.index("draft")
            found[index] = replace(
                record, text=record.text[:at] + "<script>smaller</script> model" + record.text[at + 5 :]
            )
    return found


def manifest(
    lines: Sequence[RequestRecord],
    *,
    window: int = 7,
    status: str = "complete",
    environment: dict[str, Any] | None = None,
) -> RunManifest:
    """The manifest that belongs to these records, with the shipped experiment as its configuration."""
    experiment = load(Path(__file__).parents[2] / "experiment.toml")
    counts: dict[str, Counter[str]] = {}
    for record in lines:
        counts.setdefault(record.variant, Counter())[record.outcome] += 1
    variants: dict[str, MeasuredVariant] = {}
    for name in counts:
        fast = name != "baseline"
        variants[name] = {
            "url": f"http://{'qwen-sd-vllm' if fast else 'qwen-vllm'}.specdec.svc:8000",
            "model": "Qwen/Qwen3-32B",
            "mode": "fused" if fast else None,
            "draft": "Qwen/Qwen3-1.7B" if fast else None,
            "window": window if fast else None,
            "role": "speculative" if fast else "baseline",
        }
    return RunManifest(
        run=lines[0].run,
        status=status,  # pyright: ignore[reportArgumentType]
        experiment=experiment.name,
        configuration=experiment.resolved(),
        configuration_hash=experiment.configuration_hash(),
        started_utc="2026-11-29T18:00:00Z",
        ended_utc="2026-11-29T18:04:10Z",
        environment=environment
        or {
            "engine": "simulated",
            "emulated": ["the servers: simulated step times, no model ran"],
            "machine": {"cpu": "none", "cores": 2},
            "versions": {"specdec": "0.1.0", "python": "3.11"},
        },
        variants=variants,
        counts={name: dict(counter) for name, counter in counts.items()},
        server_counters=dict.fromkeys(counts, None),
        records_sha256="",
    )


def write_run(folder: Path, lines: Sequence[RequestRecord], **more: Any) -> Path:
    """Writes a run folder as the benchmark does: the records, then the manifest."""
    folder.mkdir(parents=True, exist_ok=True)
    payload = "".join(record.to_json() + "\n" for record in lines).encode()
    (folder / "records.jsonl").write_bytes(payload)
    whole = replace(manifest(lines, **more), records_sha256=hashlib.sha256(payload).hexdigest())
    (folder / "manifest.json").write_text(whole.to_json(), encoding="utf-8")
    return folder


def _stream(
    chance: random.Random, acceptance: float | None, window: int, tokens: int, base_step: float
) -> tuple[tuple[float, ...], tuple[int, ...]]:
    step = base_step if acceptance is None else base_step * (1 + window * DRAFT_COST)
    now = TTFT * chance.uniform(0.97, 1.03)
    times, counts = [round(now, 6)], [1]
    while counts[-1] < tokens:
        gained = 1
        while acceptance is not None and gained < window and chance.random() < acceptance:
            gained += 1
        now += step * chance.uniform(0.97, 1.03)
        times.append(round(now, 6))
        counts.append(min(tokens, counts[-1] + gained))
    return tuple(times), tuple(counts)


def _text(case: str, number: int, tokens: int) -> str:
    chance = random.Random(f"{case}-{number}")
    return " ".join(chance.choice(WORDS) for _ in range(tokens)) + " draft"
