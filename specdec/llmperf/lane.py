"""Calls LLMPerf, one variant and test case at a time, from a copy of its source whose prompt file nobody else
touches.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from specdec.errors import SpecdecError
from specdec.llmperf.results import PROMPT_LINES, PUBLISHED_CASES, Arguments, Case, parse, save

TOKENIZER = "hf-internal-testing/llama-tokenizer"
"""What LLMPerf counts with. It is found as a folder of this name in the working directory, without asking a
hub.
"""

_GRACE_SECONDS = 300
"""Beyond LLMPerf's own limit: the last requests (180 s each at most), and the start and end of Ray."""

_SERVED = re.compile(r"^vllm:request_success_total(?:\{[^}]*\})?\s+([0-9.eE+]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Installation:
    """Where LLMPerf is.

    Attributes:
        python: interpreter with its requirements.
        source: checkout of the pinned commit.
        tokenizer: folder with the files of ``TOKENIZER``.
    """

    python: Path
    source: Path
    tokenizer: Path


def run_lane(
    installation: Installation,
    arguments: Arguments,
    urls: Mapping[str, str],
    folder: Path,
    *,
    cases: Mapping[str, str | None] = PUBLISHED_CASES,
    on_event: Callable[[str, int, int], None] = lambda message, done, total: None,
) -> list[Case]:
    """Runs every test case on every variant, variants in turn, and saves the results in the run folder after
    each call.

    A call that fails gives a case without requests whose problem says why; the others go on.

    Args:
        installation: where LLMPerf is.
        arguments: of every call.
        urls: base URL per variant, with or without ``/v1``.
        folder: run folder, made if needed.
        cases: TestCase dimension to the line that the prompt file repeats, None for LLMPerf's sonnets.
        on_event: told what runs, and how many calls of how many are done.
    """
    folder.mkdir(parents=True, exist_ok=True)
    done: list[Case] = []
    total = len(cases) * len(urls)
    for index, (test_case, line) in enumerate(cases.items()):
        # Who goes first changes, so that a drift of the machine does not favour one variant.
        order = list(urls)[::-1] if index % 2 else list(urls)
        for variant in order:
            on_event(f"LLMPerf: {variant}, {test_case}", len(done), total)
            done.append(_call(installation, arguments, variant, urls[variant], test_case, line, folder))
            save(folder, done)
    on_event("LLMPerf: done", len(done), total)
    return done


def _call(
    installation: Installation,
    arguments: Arguments,
    variant: str,
    url: str,
    test_case: str,
    line: str | None,
    folder: Path,
) -> Case:
    results = folder / "llmperf" / variant / re.sub(r"[^\w.-]", "-", test_case)
    shutil.rmtree(results, ignore_errors=True)
    results.mkdir(parents=True)
    base = url.rstrip("/").removesuffix("/v1")
    before = _served(base)
    distinct = 1 if line is not None else arguments.max_num_completed_requests
    try:
        log = _execute(installation, arguments, base, line, results)
        after = _served(base)
        sent = round(after - before) if before is not None and after is not None else None
        return parse(
            results,
            variant=variant,
            test_case=test_case,
            arguments=arguments,
            log=log,
            sent=sent,
            distinct_prompts=distinct,
        )
    except SpecdecError as error:
        return Case(
            variant=variant,
            test_case=test_case,
            arguments=arguments,
            finished=int(time.time()),
            distinct_prompts=distinct,
            requests=(),
            problems=(str(error),),
        )


def _execute(
    installation: Installation, arguments: Arguments, base: str, line: str | None, results: Path
) -> str:
    with tempfile.TemporaryDirectory(prefix="llmperf-") as scratch:
        place = Path(scratch) / "llmperf"
        shutil.copytree(installation.source, place, ignore=shutil.ignore_patterns(".git"))
        tokenizer = place / TOKENIZER
        tokenizer.parent.mkdir()
        tokenizer.symlink_to(installation.tokenizer.resolve(), target_is_directory=True)
        if line is not None:
            (place / "src" / "llmperf" / "sonnet.txt").write_text(
                f"{line}\n" * PROMPT_LINES, encoding="utf-8"
            )
        environment = {
            **os.environ,
            "PYTHONPATH": str(place / "src"),
            "OPENAI_API_BASE": f"{base}/v1",
            "OPENAI_API_KEY": "none",
            "HF_HUB_OFFLINE": "1",
            "RAY_USAGE_STATS_ENABLED": "0",
            "TOKENIZERS_PARALLELISM": "false",
        }
        command = [
            str(installation.python),
            "token_benchmark_ray.py",
            *arguments.command_line(results.resolve()),
        ]
        limit = arguments.timeout + _GRACE_SECONDS
        log = results / "log.txt"
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                cwd=place,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                status = process.wait(limit)
            except subprocess.TimeoutExpired:
                raise SpecdecError(
                    f"LLMPerf did not end within {limit} s and was stopped; see {log}"
                ) from None
            finally:
                # Ray's processes outlive a driver that was killed.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    text = log.read_text(encoding="utf-8", errors="replace")
    if status != 0:
        last = next((part for part in reversed(text.splitlines()) if part.strip()), "no output")
        raise SpecdecError(f"LLMPerf ended with status {status}: {last.strip()[:300]}")
    return text


def _served(base: str) -> float | None:
    """Requests the server has answered, by its own counter; None if it has none."""
    try:
        with urllib.request.urlopen(f"{base}/metrics", timeout=5) as answer:  # noqa: S310
            page = answer.read().decode(errors="replace")
    except (urllib.error.URLError, OSError, ValueError):
        return None
    counts = _SERVED.findall(page)
    return sum(map(float, counts)) if counts else None


def arguments_for(
    model: str, *, output_tokens: int, concurrency: int, temperature: float, thinking: bool
) -> Arguments:
    """The published arguments with what an experiment says about length, load and sampling."""
    return dataclasses.replace(
        Arguments(model=model),
        mean_output_tokens=output_tokens,
        num_concurrent_requests=concurrency,
        temperature=temperature,
        thinking=thinking,
    )
