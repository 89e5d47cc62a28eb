from __future__ import annotations

from pathlib import Path

import pytest

from specdec.report import Written, write
from tests.report.sample import RUN, records, spoiled, write_run


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with everything in it: eight test cases, warm-up, failures, differing texts. Read only."""
    return write_run(tmp_path_factory.mktemp("runs") / RUN, spoiled(records()))


@pytest.fixture(scope="session")
def written(folder: Path) -> Written:
    """Its report."""
    return write(folder)
