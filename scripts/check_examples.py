"""Takes every example through every gate, deploys it with the real CDK into an embedded account, and
destroys it again. The tests take two examples into the account, beside what exists there; all take minutes.

uv run python scripts/check_examples.py              # all
uv run python scripts/check_examples.py one-node     # some, by the name of the file
uv run python scripts/check_examples.py --no-deploy  # the gates alone
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
# The Node that comes with the Python packages; jsii would take an older one of the system.
os.environ.setdefault("JSII_NODE", str(Path(sys.executable).parent / "node"))

from specdec.errors import SpecdecError  # noqa: E402
from specdec.experiment.reading import load  # noqa: E402
from specdec.rehearsal import packages  # noqa: E402
from specdec.rehearsal.emulator import EmbeddedAws  # noqa: E402
from tests.emulated.examples import deployed_and_destroyed  # noqa: E402
from tests.stack.examples import failures  # noqa: E402


def problems(path: Path, *, deploy: bool) -> Iterator[str]:
    """What is wrong with one example."""
    yield from failures(load(path))
    if not deploy:
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            if not packages.present(ROOT):
                packages.install(ROOT, dict(os.environ), folder / "npm-ci.log", lambda _: None)
            with EmbeddedAws(folder / "aws") as aws:
                yield from deployed_and_destroyed(path, aws, folder)
        except SpecdecError as error:
            yield f"deployment: {error}"


def main() -> int:
    """Prints a line for each example, and exits 1 if one has a problem."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--no-deploy", action="store_true")
    given = parser.parse_args()
    known = {path.stem: path for path in sorted((ROOT / "examples").glob("*.toml"))}
    unknown = set(given.names) - known.keys()
    if unknown:
        parser.error(f"no example {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    wrong = 0
    for name, path in known.items():
        if given.names and name not in given.names:
            continue
        started = time.monotonic()
        found = list(problems(path, deploy=not given.no_deploy))
        wrong += len(found)
        print(f"{name}: {'; '.join(found) or 'ok'} ({time.monotonic() - started:.0f} s)", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
