"""Gates that other people's rules make: security pack, linters, and a synthesis that asks nobody anything."""

import contextlib
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
from cfnlint import ManualArgs, lint
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.json import JSONSnapshotExtension

from tests.stack.synthesis import (
    EVERYTHING,
    REGION,
    ROOT,
    SECOND_REGION,
    TWO_REGIONS,
    app_of,
    experiment,
    templates,
)

pytestmark = pytest.mark.slow

BIN = Path(sys.executable).parent
KEPT = ('zone = "us-east-2b"', 'bucket = "kept-bucket"\nzone = "us-east-2b"')


@pytest.mark.parametrize("edits", [(), EVERYTHING, (KEPT,)], ids=["default", "everything", "kept-bucket"])
def test_security_pack(
    edits: tuple[tuple[str, str], ...], tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    """Neither the pack nor the CDK's own validation has an open finding; those accepted of either are listed
    with their reasons, so that a new one shows as a line of a diff.
    """
    app = app_of(experiment(*edits), outdir=str(tmp_path), validate=True)
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app, verbose=True))
    with contextlib.suppress(RuntimeError):
        app.synth()
    reports = json.loads((tmp_path / "validation-report.json").read_text())["pluginReports"]
    assert {"CloudFormation Validate", "AwsSolutions"} <= {report["pluginName"] for report in reports}
    assert [
        f"{violation['ruleName']} on {construct['constructPath']}"
        for report in reports
        for violation in report["violations"]
        for construct in violation["violatingConstructs"]
    ] == []
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
def test_cfn_lint(edits: tuple[tuple[str, str], ...], region: str) -> None:
    """W3005: the CDK writes DependsOn even where a reference says the same. W3010: capacity is in named
    zones.
    """
    assert linted(templates(*edits)[region].body, region) == []


def linted(body: dict[str, Any], region: str) -> list[str]:
    found = lint(json.dumps(body), config=ManualArgs(regions=[region], ignore_checks=["W3005", "W3010"]))
    return [str(one) for one in found]


def test_cfn_lint_sees_what_is_wrong() -> None:
    (found,) = linted(
        {"Resources": {"Bucket": {"Type": "AWS::S3::Bucket", "Properties": {"BucketNmae": "x"}}}}, REGION
    )
    assert "BucketNmae" in found


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


def synthesize(outdir: Path, environment: dict[str, str], *, wrapper: tuple[str, ...] = ()) -> str:
    """Runs the app as ``cdk.json`` does, with this environment and nothing of ours, and returns the
    template.
    """
    outdir.mkdir()
    cache = os.environ.get(
        "JSII_RUNTIME_PACKAGE_CACHE_ROOT", str(Path.home() / ".cache/aws/jsii/package-cache")
    )
    found = subprocess.run(
        [*wrapper, sys.executable, "-O", ROOT / "app.py"],
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
    (path,) = (outdir / "cdk.out").glob("*.template.json")
    return path.read_text()


def without_network() -> tuple[str, ...]:
    """A prefix that runs a command without any network, or nothing where the machine does not allow it."""
    prefix = ("unshare", "-n") if os.geteuid() == 0 else ("unshare", "-rn")
    if (
        shutil.which(prefix[0])
        and subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode == 0
    ):
        return prefix
    return ()


def test_synthesis_asks_no_network_no_credentials_and_no_clock(tmp_path: Path) -> None:
    """Two runs give the same text: one among the other tests, and one cut off, on another day, elsewhere."""
    (tmp_path / "shift.cjs").write_text(ANOTHER_DAY_NODE)
    (tmp_path / "python").mkdir()
    (tmp_path / "python/sitecustomize.py").write_text(ANOTHER_DAY_PYTHON)
    elsewhere = synthesize(
        tmp_path / "elsewhere",
        {
            "PYTHONHASHSEED": "1",
            "PYTHONPATH": str(tmp_path / "python"),
            "NODE_OPTIONS": f"--require={tmp_path / 'shift.cjs'}",
            "CDK_VALIDATION": "false",
            "AWS_REGION": "eu-west-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "TZ": "Asia/Kolkata",
        },
        wrapper=without_network(),
    )
    assert templates()[REGION].text == elsewhere
    assert len(elsewhere) > 100_000


def test_no_account_is_written_anywhere() -> None:
    assert not re.search(r"\b\d{12}\b", json.dumps(templates()[REGION].body))


def test_the_folder_of_constructs_does_not_shadow_the_library() -> None:
    import constructs

    assert not (ROOT / "constructs/__init__.py").exists()
    assert "site-packages" in str(constructs.__file__)
