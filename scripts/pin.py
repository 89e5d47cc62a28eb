"""Writes the exact version of every Python package, transitive ones too, into pyproject.toml.

    uv run python scripts/pin.py            # take what the lock file of this checkout resolved
    uv lock --upgrade && uv run python scripts/pin.py

uv's lock file itself names registry hosts and is not committed; ``constraint-dependencies`` pins the same
versions without them. uv reads that setting only from pyproject.toml, not from uv.toml.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"
BEGIN, END = "constraint-dependencies = [ # written by scripts/pin.py\n", "] # end of scripts/pin.py\n"


def resolved() -> list[str]:
    """Requirement lines ``name==version ; marker`` of everything the lock file holds."""
    export = [
        "uv",
        "export",
        "--all-groups",
        "--no-hashes",
        "--no-emit-project",
        "--no-annotate",
        "--no-header",
        "--quiet",
    ]
    lines = subprocess.run(
        export, cwd=PYPROJECT.parent, check=True, capture_output=True, text=True
    ).stdout.splitlines()
    return sorted(line.strip() for line in lines if line.strip())


def main() -> None:
    """Rewrites the block, or adds it under ``[tool.uv]``."""
    block = BEGIN + "".join(f"    {json_string(line)},\n" for line in resolved()) + END
    text = PYPROJECT.read_text(encoding="utf-8")
    if BEGIN in text:
        text = re.sub(re.escape(BEGIN) + ".*?" + re.escape(END), lambda _: block, text, flags=re.DOTALL)
    else:
        text = text.replace("[tool.uv]\n", "[tool.uv]\n" + block, 1)
    PYPROJECT.write_text(text, encoding="utf-8")


def json_string(text: str) -> str:
    """A TOML basic string."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


if __name__ == "__main__":
    main()
