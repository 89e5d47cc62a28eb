"""Takes the pictures of a report that the docs show: on a wide screen, and on a phone in the dark.

    uv run python scripts/picture_report.py runs/<run id>

Writes docs/report-desktop.png and docs/report-phone.png. Use a rehearsal of an idle machine, whose table
stands in the README. Needs a browser, see ``scripts/browser.py``.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from scripts.browser import Browser, find
from specdec.report import write

ROOT = Path(__file__).parents[1]
SCREENS = (("desktop", 1280, 1400, False), ("phone", 390, 1500, True))
"""Name, width and height of the part that is shown, and whether it is dark."""


def main() -> int:
    """Writes both pictures."""
    program = find()
    if program is None:
        print("error: no browser here (remedy: install chromium)", file=sys.stderr)
        return 4
    page = write(Path(sys.argv[1]).resolve()).html
    with tempfile.TemporaryDirectory() as profile, Browser(program, Path(profile)) as browser:
        for name, width, height, dark in SCREENS:
            browser.show(page.as_uri(), width=width, height=height, dark=dark)
            browser.picture(ROOT / "docs" / f"report-{name}.png", whole=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
