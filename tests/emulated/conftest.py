"""One emulator for the tests that only need an account."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.emulated.account import DrilledAws


@pytest.fixture(scope="session")
def account(
    npm_packages: Path, tmp_path_factory: pytest.TempPathFactory
) -> Generator[DrilledAws, None, None]:
    """A running embedded account."""
    with DrilledAws(tmp_path_factory.mktemp("account")) as aws:
        yield aws
