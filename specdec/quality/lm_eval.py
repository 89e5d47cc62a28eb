"""The lm-eval lane: gsm8k as the published sample runs it, against every variant, and how its files are read.

lm-eval is not a dependency: it has to be installed beside specdec. It fetches gsm8k itself.
"""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from specdec.errors import EnvironmentFault

VERSION = "0.4.13"
"""Of lm-eval, that the arguments and files here are those of."""

STDERR = 2
"""Of this process: what lm-eval prints is no result of ours."""

FOLDER = "lm-eval"
"""Folder inside a run, with one folder for each variant."""

LIMIT = 50
"""Questions: the published sample's (aws-neuron/aws-neuron-eks-samples @cecff9e, qwen-lmeval-pod.yaml)."""

_INSTRUCTION = (
    "You are a helpful assistant. Answer math questions directly and concisely. Do not use <think> tags."
    " Give only the final numerical answer."
)
_REMEDY = f'Install it beside specdec: uv pip install "lm-eval[api]=={VERSION}"'


def require_installed() -> None:
    """Raises:
    EnvironmentFault: lm-eval is not installed, or in another version.
    """
    try:
        version = importlib.metadata.version("lm-eval")
    except importlib.metadata.PackageNotFoundError:
        raise EnvironmentFault("lm-eval is not installed", remedy=_REMEDY) from None
    if version != VERSION:
        raise EnvironmentFault(f"lm-eval is {version}, and {VERSION} is supported", remedy=_REMEDY)


def arguments(model: str, url: str, output: Path, *, limit: int, concurrency: int) -> list[str]:
    """The published command line.

    Args:
        model: name to ask for.
        url: base URL, with or without ``/v1``.
        output: folder for its files.
        limit: questions.
        concurrency: requests in flight; the sample has 4.
    """
    base = url.rstrip("/").removesuffix("/v1")
    settings = {
        "model": model,
        "base_url": f"{base}/v1/chat/completions",
        "num_concurrent": concurrency,
        "max_retries": 3,
        "tokenized_requests": False,
        "max_gen_toks": 512,
    }
    return [
        *("--model", "local-chat-completions"),
        *("--model_args", ",".join(f"{name}={value}" for name, value in settings.items())),
        *("--tasks", "gsm8k"),
        *("--num_fewshot", "0"),
        *("--limit", str(limit)),
        *("--output_path", str(output)),
        "--log_samples",
        "--apply_chat_template",
        *("--system_instruction", _INSTRUCTION),
    ]


def evaluate(
    model: str, url: str, output: Path, environment: Mapping[str, str], *, limit: int, concurrency: int
) -> None:
    """Runs lm-eval against one variant; its own progress goes to stderr.

    Raises:
        EnvironmentFault: it failed; it has said why.
    """
    output.mkdir(parents=True, exist_ok=True)
    command = [
        sys.executable,
        "-m",
        "lm_eval",
        *arguments(model, url, output, limit=limit, concurrency=concurrency),
    ]
    done = subprocess.run(command, stdout=STDERR, env=dict(environment), check=False)
    if done.returncode:
        raise EnvironmentFault(
            f"lm-eval against {url} ended with status {done.returncode}",
            remedy="Read its message above; it needs the server, and gsm8k from the hub or its cache",
        )


def lm_eval_right(folder: Path, variants: Sequence[str]) -> dict[str, tuple[dict[str, dict[str, bool]], int]]:
    """By task and filter: whether each answer is right, by variant and question, and the questions asked.

    Read from the newest ``samples_gsm8k_*.jsonl`` of each variant; empty where lm-eval was not run.
    """
    right: dict[str, dict[str, dict[str, bool]]] = {}
    for variant in variants:
        files = sorted((folder / FOLDER / variant).rglob("samples_gsm8k_*.jsonl"))
        lines = files[-1].read_text(encoding="utf-8").splitlines() if files else []
        for line in lines:
            sample: dict[str, Any] = json.loads(line)
            source = f"gsm8k, {sample.get('filter', 'none')}"
            own = right.setdefault(source, {}).setdefault(variant, {})
            own[str(sample["doc_id"])] = float(sample["exact_match"]) > 0
    return {
        source: (by_variant, len({task for tasks in by_variant.values() for task in tasks}))
        for source, by_variant in right.items()
    }
