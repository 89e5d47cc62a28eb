"""The user's own prompt file on its way into the benchmark pod."""

from __future__ import annotations

import base64
import bz2
import shlex
from collections.abc import Mapping
from pathlib import Path

from charts.objects import digest
from specdec.errors import BadInputError, Mistake
from specdec.prompts.sets import is_file
from specdec.prompts.sets import load as load_prompts

PROMPTS = "/opt/prompts"

MAX_PROMPT_BYTES = 225_000
"""Most that a prompt file may take compressed. A template holds 1 MB (CloudFormation quotas), of which the
rest of the stack needs two thirds.
"""
_PART_BYTES = 100_000
"""Of one config map, so that it fits into one manifest."""


def prompt_file(prompts: str, *, base: Path | None = None) -> Path | None:
    """The user's own prompt file, or None for a shipped set.

    Args:
        prompts: ``benchmark.prompts`` of an experiment.
        base: folder that a relative path starts from; the current one by default.

    Raises:
        BadInputError: it cannot be read or is wrong, found here before the pod finds it hours into a
            deployment; or its path cannot be made again in the pod, where the experiment names it by the same
            path.
    """
    if not is_file(prompts):
        load_prompts(prompts)
        return None
    path = Path(prompts)
    if path.is_absolute() or ".." in path.parts:
        remedy = "Put it below that folder and name it by its path from there"
        problem = "is not below the folder of the experiment file"
        raise BadInputError("experiment", [Mistake("benchmark.prompts", prompts, problem, remedy)])
    load_prompts(prompts, base=base)
    return (base or Path()) / path


def parts_of(text: str) -> dict[str, str]:
    """A prompt file as config maps: name to base64 of a part of the compressed text, in order.

    Raises:
        BadInputError: more than the template has room for.
    """
    content = bz2.compress(text.encode())
    if len(content) > MAX_PROMPT_BYTES:
        raise BadInputError(
            "experiment",
            [
                Mistake(
                    "benchmark.prompts",
                    f"{len(text.encode())} bytes",
                    f"takes {len(content)} bytes compressed, and a deployment carries {MAX_PROMPT_BYTES}",
                    "Use fewer or shorter prompts; `specdec bench` from a machine of yours has no limit",
                )
            ],
        )
    name = f"llmperf-prompts-{digest([text])}"
    starts = range(0, len(content), _PART_BYTES)
    return {
        f"{name}-{number}": base64.b64encode(content[start : start + _PART_BYTES]).decode()
        for number, start in enumerate(starts)
    }


_DECOMPRESS = "import bz2, sys; sys.stdout.buffer.write(bz2.decompress(sys.stdin.buffer.read()))"
"""As a program, since the image has no bunzip2."""


def unpacking(prompts: str, parts: Mapping[str, str]) -> list[str]:
    """Commands that put the prompts where the experiment names them, from the pod's own folder on.

    Args:
        prompts: ``benchmark.prompts`` of the experiment, a relative path.
        parts: see ``parts_of``.
    """
    path = shlex.quote(Path(prompts).as_posix())
    files = " ".join(f"{PROMPTS}/{name}.bz2" for name in parts)
    return [
        f"install -D /dev/null {path}",
        f"cat {files} | python -c '{_DECOMPRESS}' > {path}",
    ]
