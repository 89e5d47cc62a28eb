"""The npm packages of the checkout: the CDK command and what its functions need."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from specdec.errors import EnvironmentFault

_SECONDS = 600.0


def present(checkout: Path) -> bool:
    """Whether the packages that package-lock.json names are there, as far as npm wrote down."""
    # npm writes this file last, so a stopped installation does not have it.
    installed = checkout / "node_modules" / ".package-lock.json"
    cdk = checkout / "node_modules" / "aws-cdk" / "bin" / "cdk"
    lock = checkout / "package-lock.json"
    return cdk.exists() and installed.exists() and installed.stat().st_mtime >= lock.stat().st_mtime


def install(
    checkout: Path, environment: dict[str, str], log: Path, on_progress: Callable[[str], None]
) -> None:
    """Runs ``npm ci`` with the npm beside this Python.

    Raises:
        EnvironmentFault: there is no npm, or it fails or does not end; the message has its last words.
    """
    npm = Path(sys.executable).parent / "npm"
    if not npm.exists():
        raise EnvironmentFault(
            "No npm is installed with this Python", remedy="Install the project's packages: uv sync"
        )
    log.parent.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    path = f"{npm.parent}:{environment.get('PATH', '')}"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(npm), "ci", "--no-audit", "--no-fund"],
            cwd=checkout,
            env={**environment, "PATH": path},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            while process.poll() is None:
                if time.monotonic() - started > _SECONDS:
                    raise EnvironmentFault(
                        f"npm ci did not end within {_SECONDS:.0f} s", remedy=f"Its output is in {log}"
                    )
                on_progress("downloading about 60 MB of npm packages")
                time.sleep(0.2)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    if process.returncode:
        words = [
            line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()
        ]
        raise EnvironmentFault(
            f"npm ci failed: {words[-1] if words else f'status {process.returncode}'}",
            remedy=f"Its output is in {log}; the network is needed once",
        )
