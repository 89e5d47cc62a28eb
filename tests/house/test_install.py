"""The package as its users install it: the wheel in an empty environment, in a folder elsewhere."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from scripts.measure_install import install, measure, megabytes, wheel
from specdec.extras import remedy

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("elsewhere")
    shutil.copy(ROOT / "experiment.toml", folder)
    return folder


def _run(command: Path, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    # Without the checkout's paths and settings, as on a machine that has never seen it.
    environment = {
        "PATH": f"{command}:/usr/bin:/bin",
        "HOME": str(folder),
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    return subprocess.run(
        [str(command / "specdec"), *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.fixture(scope="module")
def alone(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commands of the package without extras."""
    return install(built, "", tmp_path_factory.mktemp("alone") / "environment")


def test_the_measuring_tool_is_small(alone: Path) -> None:
    assert 20 < megabytes(alone.parent) < 100


def test_the_package_alone_measures_and_reports(alone: Path, elsewhere: Path) -> None:
    run = measure(alone, elsewhere)
    done = _run(alone, "report", str(run), folder=elsewhere)
    assert done.returncode == 0, done.stderr
    assert (run / "report.html").stat().st_size > 20_000
    numbers = json.loads((run / "report.json").read_text(encoding="utf-8"))["numbers"]
    (ratio,) = [
        number["value"]
        for number in numbers
        if number["key"].startswith("ratio/tpot/")
        and number["unit"] == "ratio"
        and number["shown"].endswith("x")
    ]
    assert ratio == pytest.approx(3, rel=0.5), "three tokens a step, at the same time per step"


@pytest.mark.parametrize(
    "arguments", [("--help",), ("stacks",), ("estimate",), ("tune", "--help"), ("forecast", "--help")]
)
def test_commands_of_the_package_alone(alone: Path, elsewhere: Path, arguments: tuple[str, ...]) -> None:
    done = _run(alone, *arguments, folder=elsewhere)
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.parametrize(
    ("arguments", "extra"), [(("check",), "aws"), (("manifests",), "aws"), (("runs",), "aws")]
)
def test_a_command_of_an_extra_says_what_to_install(
    alone: Path, elsewhere: Path, arguments: tuple[str, ...], extra: str
) -> None:
    done = _run(alone, *arguments, folder=elsewhere)
    assert done.returncode == 4, done.stderr
    assert remedy(extra) in done.stderr
    assert "Traceback" not in done.stderr


def test_the_aws_extra(built: Path, elsewhere: Path, tmp_path: Path) -> None:
    commands = install(built, "aws", tmp_path / "environment")
    done = _run(commands, "manifests", folder=elsewhere)
    assert done.returncode == 0, done.stderr
    assert "kind: Deployment" in done.stdout
    done = _run(commands, "check", folder=elsewhere)
    assert done.returncode == 3, "there are no credentials"
    assert "Traceback" not in done.stderr


def test_the_rehearsal_extra(built: Path, elsewhere: Path, tmp_path: Path) -> None:
    commands = install(built, "rehearsal", tmp_path / "environment")
    subprocess.run([str(commands / "python"), "-c", "import ministack, xllamacpp"], check=True, cwd=elsewhere)
    assert _run(commands, "rehearse", "--help", folder=elsewhere).returncode == 0
