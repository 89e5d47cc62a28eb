"""What every test may count on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from specdec.rehearsal import packages
from specdec.rehearsal.emulator import CHECKOUT


@pytest.fixture(scope="session", autouse=True)
def npm_packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the npm packages, which a fresh clone that was never rehearsed does not have yet."""
    if not packages.present(CHECKOUT):
        log = tmp_path_factory.mktemp("npm") / "npm-ci.log"
        packages.install(CHECKOUT, dict(os.environ), log, lambda _: None)
    return CHECKOUT / "node_modules"
