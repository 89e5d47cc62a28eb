"""Prints what a changed experiment costs more or less, as Markdown for a comment on a pull request.

uv run specdec estimate --experiment before.toml --json > before.json
uv run specdec estimate --experiment after.toml --json > after.json
uv run python scripts/estimate_difference.py before.json after.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

Estimate = dict[str, Any]
"""What ``specdec estimate --json`` prints."""


def table(before: Estimate, after: Estimate) -> str:
    """Dollars an hour, line by line, of the lines that differ, and in all.

    Args:
        before: estimate of the experiment as it is on the target branch.
        after: estimate of the experiment as the pull request has it.
    """
    old, new = _hourly(before), _hourly(after)
    rows = [
        f"| {name} | {_dollars(old.get(name))} | {_dollars(new.get(name))} |"
        for name in dict.fromkeys([*old, *new])
        if old.get(name) != new.get(name)
    ]
    total = after["usd_per_hour"] - before["usd_per_hour"]
    if not rows:
        return f"The experiment costs what it did: {after['usd_per_hour']:.2f} USD an hour."
    return "\n".join(
        [
            f"**{total:+.2f} USD an hour**, {after['usd_per_hour']:.2f} in all while the nodes are up.",
            "",
            "| per hour | before | after |",
            "| --- | ---: | ---: |",
            *rows,
        ]
    )


def _hourly(estimate: Estimate) -> dict[str, float]:
    return {item["name"]: round(item["count"] * item["usd_per_hour"], 4) for item in estimate["items"]}


def _dollars(amount: float | None) -> str:
    return "-" if amount is None else f"{amount:.4g} USD"


def main() -> int:
    """Reads two estimates and prints their difference."""
    if len(sys.argv) != 3:
        print("usage: estimate_difference.py BEFORE.json AFTER.json", file=sys.stderr)
        return 2
    before, after = (json.loads(Path(name).read_text(encoding="utf-8")) for name in sys.argv[1:])
    print(table(before, after))
    return 0


if __name__ == "__main__":
    sys.exit(main())
