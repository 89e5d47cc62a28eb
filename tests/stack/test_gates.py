"""Gates that other people's rules make: security pack, linters, and a synthesis that asks nobody anything."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from cdk_nag import AwsSolutionsChecks
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.json import JSONSnapshotExtension

from tests.stack.synthesis import EVERYTHING, REGION, ROOT, SECOND_REGION, TWO_REGIONS, app_of, templates

BIN = Path(sys.executable).parent
KEPT = ('zone = "us-east-2b"', 'bucket = "kept-bucket"\nzone = "us-east-2b"')


def violations(report: dict[str, Any]) -> list[str]:
    return [
        f"{violation['ruleName']} on {construct['constructPath']}"
        for plugin in report["pluginReports"]
        for violation in plugin["violations"]
        for construct in violation["violatingConstructs"]
    ]


@pytest.mark.parametrize("edits", [(), EVERYTHING, (KEPT,)], ids=["default", "everything", "kept-bucket"])
def test_security_pack(edits: tuple[tuple[str, str], ...], tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    """No finding is open; those accepted are listed with their reasons, so that a new one shows as a line of a diff."""
    app = app_of(*edits, outdir=str(tmp_path))
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app, verbose=True))
    try:
        app.synth()
    except RuntimeError:
        pytest.fail("\n".join(violations(json.loads((tmp_path / "validation-report.json").read_text()))))
    assert accepted(app) == snapshot(extension_class=JSONSnapshotExtension)


def accepted(app: cdk.App) -> dict[str, dict[str, str]]:
    """Construct to finding to reason."""
    found: dict[str, dict[str, str]] = {}
    for construct in app.node.find_all():
        for entry in construct.node.metadata:
            if entry.type == "aws:cdk:acknowledged-rules":
                found.setdefault(construct.node.path, {}).update(entry.data)
    return found


@pytest.mark.parametrize(
    ("edits", "region"),
    [(TWO_REGIONS, REGION), (TWO_REGIONS, SECOND_REGION), (EVERYTHING, REGION)],
    ids=[REGION, SECOND_REGION, "everything"],
)
def test_cfn_lint(edits: tuple[tuple[str, str], ...], region: str, tmp_path: Path) -> None:
    """W3005: the CDK writes DependsOn even where a reference says the same. W3010: capacity is in named zones."""
    path = tmp_path / "template.json"
    path.write_text(json.dumps(templates(*edits)[region].body))
    command = [BIN / "cfn-lint", "-r", region, "-i", "W3005", "W3010", "--", path]
    found = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert found.returncode == 0, found.stdout + found.stderr


ANOTHER_DAY_NODE = """
const Real = Date;
const shift = 400 * 24 * 3600 * 1000;
globalThis.Date = class extends Real {
  constructor(...given) { given.length ? super(...given) : super(Real.now() + shift); }
  static now() { return Real.now() + shift; }
};
"""
ANOTHER_DAY_PYTHON = """
import time
_real = time.time
time.time = lambda: _real() + 400 * 24 * 3600
"""


def synthesize(outdir: Path, environment: dict[str, str], *, wrapper: tuple[str, ...] = ()) -> bytes:
    """Runs the app with this environment and nothing of ours, and returns the template."""
    outdir.mkdir()
    cache = os.environ.get("JSII_RUNTIME_PACKAGE_CACHE_ROOT", str(Path.home() / ".cache/aws/jsii/package-cache"))
    found = subprocess.run(
        [*wrapper, sys.executable, ROOT / "app.py"],
        cwd=outdir,
        env={
            "PATH": f"{BIN}:/usr/bin:/bin",
            "HOME": str(outdir),
            "JSII_RUNTIME_PACKAGE_CACHE_ROOT": cache,
            "CDK_OUTDIR": str(outdir / "cdk.out"),
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    assert "missing" not in json.loads((outdir / "cdk.out/manifest.json").read_text())
    report = outdir / "cdk.out/validation-report.json"
    if report.exists():
        assert violations(json.loads(report.read_text())) == []
    (path,) = (outdir / "cdk.out").glob("*.template.json")
    return path.read_bytes()


def without_network() -> tuple[str, ...]:
    """A prefix that runs a command without any network, or nothing where the machine does not allow it."""
    prefix = ("unshare", "-n") if os.geteuid() == 0 else ("unshare", "-rn")
    if shutil.which(prefix[0]) and subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode == 0:
        return prefix
    return ()


@pytest.mark.slow
def test_synthesis_asks_no_network_no_credentials_and_no_clock(tmp_path: Path) -> None:
    """Two runs give the same bytes: one with the CDK's own validation, without a finding; one cut off, on another day, elsewhere."""
    (tmp_path / "shift.cjs").write_text(ANOTHER_DAY_NODE)
    (tmp_path / "python").mkdir()
    (tmp_path / "python/sitecustomize.py").write_text(ANOTHER_DAY_PYTHON)
    here = synthesize(tmp_path / "here", {"PYTHONHASHSEED": "1"})
    elsewhere = synthesize(
        tmp_path / "elsewhere",
        {
            "PYTHONHASHSEED": "2",
            "PYTHONPATH": str(tmp_path / "python"),
            "NODE_OPTIONS": f"--require={tmp_path / 'shift.cjs'}",
            "CDK_VALIDATION": "false",
            "AWS_REGION": "eu-west-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "TZ": "Asia/Kolkata",
        },
        wrapper=without_network(),
    )
    assert here == elsewhere
    assert len(here) > 100_000


def test_no_account_is_written_anywhere() -> None:
    assert not re.search(r"\b\d{12}\b", json.dumps(templates()[REGION].body))


def test_the_folder_of_constructs_does_not_shadow_the_library() -> None:
    import constructs

    assert not (ROOT / "constructs/__init__.py").exists()
    assert "site-packages" in str(constructs.__file__)
