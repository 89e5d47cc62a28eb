"""Writes the hash-locked requirements of the benchmark pod from the ``.in`` files beside them.

    uv run python scripts/lock_pod.py

One hash per package, that of the wheel for the pod's Python and platform: whatever else an index offers is
refused. Versions that this project pins for itself are kept, so that the pod runs what the tests ran. No
index is named.
"""

from __future__ import annotations

import subprocess
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from packaging import tags
from packaging.utils import parse_wheel_filename

ROOT = Path(__file__).parents[1]
POD = ROOT / "charts" / "pod"
SOURCES = ROOT / "scripts" / "pod_requirements"
PYTHON, PLATFORM = "3.12", "x86_64-manylinux_2_28"

_VERSION, _GLIBC_MINOR = (3, 12), 28
_PLATFORMS = [
    *(f"manylinux_2_{minor}_x86_64" for minor in range(_GLIBC_MINOR, 4, -1)),
    # Older names of 2.17, 2.12 and 2.5 (PEP 600).
    "manylinux2014_x86_64",
    "manylinux2010_x86_64",
    "manylinux1_x86_64",
]
_TAGS = {
    *tags.cpython_tags(_VERSION, platforms=_PLATFORMS),
    *tags.compatible_tags(_VERSION, platforms=_PLATFORMS),
}


def fits(wheel: str) -> bool:
    """Whether a wheel's name says that it runs on the pod's Python and platform."""
    return not _TAGS.isdisjoint(parse_wheel_filename(wheel)[3])


def lock(name: str) -> str:
    """The text of one requirements file."""
    pins: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["uv"][
        "constraint-dependencies"
    ]
    with tempfile.TemporaryDirectory() as scratch:
        constraints, output = Path(scratch) / "constraints.txt", Path(scratch) / "pylock.toml"
        constraints.write_text("\n".join(pins) + "\n", encoding="utf-8")
        command = [
            "uv",
            "pip",
            "compile",
            "--quiet",
            "--no-header",
            "--python-version",
            PYTHON,
            "--python-platform",
            PLATFORM,
        ]
        command += [
            "--constraint",
            str(constraints),
            "--format",
            "pylock.toml",
            "--output-file",
            str(output),
            str(SOURCES / f"{name}.in"),
        ]
        subprocess.run(command, check=True, cwd=ROOT)
        packages: list[dict[str, Any]] = tomllib.loads(output.read_text(encoding="utf-8"))["packages"]
    lines = [f"# Written by scripts/lock_pod.py from {name}.in, for Python {PYTHON} on {PLATFORM}"]
    for package in packages:
        wheels = [
            wheel
            for wheel in package.get("wheels", [])
            if fits(wheel.get("name") or wheel["url"].rsplit("/", 1)[1])
        ]
        if not wheels:
            raise SystemExit(
                f"{package['name']} {package['version']} has no wheel for {PYTHON} on {PLATFORM}"
            )
        hashes = " ".join(sorted({f"--hash=sha256:{wheel['hashes']['sha256']}" for wheel in wheels}))
        lines.append(f"{package['name']}=={package['version']} {hashes}")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Rewrites both files."""
    for source in sorted(SOURCES.glob("*.in")):
        (POD / f"{source.stem}.txt").write_text(lock(source.stem), encoding="utf-8")


if __name__ == "__main__":
    main()
