"""One emulator for the tests that only need an account."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from specdec.rehearsal.emulator import EmbeddedAws


@pytest.fixture(scope="session")
def account(
    npm_packages: Path, tmp_path_factory: pytest.TempPathFactory
) -> Generator[EmbeddedAws, None, None]:
    """A running embedded account."""
    with EmbeddedAws(tmp_path_factory.mktemp("account")) as aws:
        yield aws
