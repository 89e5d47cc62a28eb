"""Simulated services with known acceptance and cost, in the shape of records. Independent of the code under
test.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Sequence
from typing import Any

from specdec.runs.manifest import RunManifest
from specdec.runs.record import RequestRecord, ServerSpeculation

PLAIN_STEP = 0.045


def record(
    variant: str,
    prompt: str,
    *,
    times: Sequence[float],
    counts: Sequence[int],
    test_case: str = "case",
    repeat: int = 0,
    text: str | None = None,
    **more: Any,
) -> RequestRecord:
    """One measured request."""
    fields: dict[str, Any] = {
        "run": "run",
        "lane": "exact",
        "prompt_class": "open",
        "block": 0,
        "warmup": False,
        "concurrency": 1,
        "sent_utc": "2026-11-29T18:00:00Z",
        "sent": 0.0,
        "outcome": "ok",
        "token_source": "continuous-usage",
        "output_tokens": counts[-1],
        "closed": times[-1],
    }
    return RequestRecord(
        variant=variant,
        test_case=test_case,
        prompt=prompt,
        repeat=repeat,
        text=f"the answer to {test_case} {prompt}" if text is None else text,
        chunk_times=tuple(times),
        chunk_tokens=tuple(counts),
        **(fields | more),
    )


def stream(
    chance: random.Random,
    *,
    tokens: int = 200,
    window: int = 0,
    wasted: int = 0,
    acceptance: Callable[[int], float] = lambda _: 0.0,
    cost: Callable[[int], float] = lambda window: 1.0,
    noise: float = 0.02,
    factor: float = 1.0,
) -> tuple[list[float], list[int]]:
    """Chunk times and cumulative counts of one request; ``acceptance`` takes the 1-based position, ``cost``
    the window.
    """
    now, times, counts = 0.2, [0.2], [1]
    while counts[-1] < tokens:
        kept = 0
        while kept < window - wasted and chance.random() < acceptance(kept + 1):
            kept += 1
        now += PLAIN_STEP * factor * (cost(window) if window else 1.0) * max(0.1, chance.gauss(1, noise))
        times.append(now)
        counts.append(min(tokens, counts[-1] + kept + 1))
    return times, counts


def service(
    variant: str,
    *,
    prompts: int,
    seed: int,
    repeats: int = 1,
    test_case: str = "case",
    prompt_noise: float = 0.0,
    **settings: Any,
) -> list[RequestRecord]:
    """All requests of one variant on one test case."""
    chance = random.Random(f"{variant}-{test_case}-{seed}")
    found: list[RequestRecord] = []
    for number in range(prompts):
        factor = settings.get("factor", 1.0) * chance.lognormvariate(0, prompt_noise)
        for repeat in range(repeats):
            times, counts = stream(chance, **(settings | {"factor": factor}))
            found.append(
                record(
                    variant,
                    f"p{number}",
                    times=times,
                    counts=counts,
                    repeat=repeat,
                    test_case=test_case,
                    # One request in flight makes a block of each.
                    block=zlib.crc32(f"{test_case} {number} {repeat}".encode()),
                )
            )
    return found


def manifest(variants: dict[str, dict[str, Any]], **more: Any) -> RunManifest:
    """The manifest of a run of these variants: {"window": 7, ...} for a speculative one, {} for a
    baseline.
    """
    served: str = more.get("configuration", {}).get("serving", {}).get("target", "m")
    whole = {
        name: (
            {
                "url": "",
                "model": served,
                "mode": "fused" if "window" in v else None,
                "draft": None,
                "role": "speculative" if "window" in v else "baseline",
            }
            | v
        )
        for name, v in variants.items()
    }
    fields: dict[str, Any] = {
        "run": "run",
        "status": "complete",
        "experiment": "e",
        "configuration": {},
        "configuration_hash": "0" * 12,
        "started_utc": "",
        "ended_utc": "",
        "environment": {},
        "variants": whole,
        "counts": {},
        "server_counters": dict.fromkeys(variants),
        "records_sha256": "",
    }
    return RunManifest(**(fields | more))


def counted(drafts: int | None, proposed: int, accepted: int) -> ServerSpeculation:
    """What a server tells of one request."""
    return ServerSpeculation(drafts=drafts, draft_tokens=proposed, accepted_tokens=accepted, source="timings")
