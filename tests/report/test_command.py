"""``specdec report`` as a user calls it: which run is meant, what is printed, what is written, how it
ends.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber
from click.testing import CliRunner, Result

from specdec.cli import cli
from specdec.deployed.stack import bucket_of
from specdec.errors import (
    EXIT_BAD_INPUT,
    EXIT_ENVIRONMENT,
    EXIT_FAILED,
    EXIT_OK,
    EnvironmentFault,
    SpecdecError,
)
from specdec.report import write
from specdec.runs.find import find
from tests.report.sample import CASES, RUN, records, spoiled, write_run

BUCKET = "specdec-models"
STACK = "qwen3-specdec-us-east-2"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    write_run(tmp_path / "runs" / RUN, records(cases=CASES[:3], tokens=40))
    return tmp_path / "runs"


def _report(runs: Path, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["report", "--runs", str(runs), *arguments], standalone_mode=False)


def _fault(result: Result) -> SpecdecError:
    assert isinstance(result.exception, SpecdecError)
    return result.exception


def test_latest_run_is_judged_printed_and_written(runs: Path) -> None:
    result = _report(runs)
    assert result.return_value == EXIT_OK
    assert "repeat-line" in result.stdout
    assert str(runs / RUN / "report.html") in result.stderr
    assert {path.name for path in (runs / RUN).iterdir()} == {
        "records.jsonl",
        "manifest.json",
        "report.html",
        "report.md",
        "report.json",
    }


def test_json_is_the_list_of_numbers(runs: Path) -> None:
    document = json.loads(_report(runs, RUN, "--json").stdout)
    assert document["run"] == RUN
    assert any(number["key"] == "tpot/baseline/numbers" for number in document["numbers"])


def test_run_that_failed_ends_with_1(tmp_path: Path) -> None:
    write_run(tmp_path / RUN, records(cases=CASES[:1], tokens=20, repeats=1), status="failed")
    result = _report(tmp_path)
    assert result.return_value == EXIT_FAILED
    assert "This run is not finished: it failed" in result.stdout


@pytest.mark.parametrize(
    "arguments", [("nowhere",), ("s3://bucket/models/x/y",), ("s3://",), ("a", "b", "c")]
)
def test_no_such_run_ends_with_2(runs: Path, arguments: tuple[str, ...]) -> None:
    fault = _fault(_report(runs, *arguments))
    assert fault.exit_code == EXIT_BAD_INPUT
    assert arguments[0] in str(fault)


def test_nothing_half_written_when_the_disk_is_full(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _report(runs).return_value == EXIT_OK
    before = {path.name: path.read_bytes() for path in (runs / RUN).iterdir()}

    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    fault = _fault(_report(runs))
    assert fault.exit_code == EXIT_ENVIRONMENT
    assert "No space left on device" in str(fault)
    assert fault.remedy
    assert {path.name: path.read_bytes() for path in (runs / RUN).iterdir()} == before


class _S3:
    """The part of an S3 client that fetching a run needs, over a folder."""

    def __init__(self, objects: dict[str, Path]) -> None:
        self._objects = objects

    def get_paginator(self, name: str) -> _S3:
        assert name == "list_objects_v2"
        return self

    def paginate(self, *, Bucket: str, Prefix: str) -> list[dict[str, Any]]:  # noqa: N803 - boto3's names
        assert Bucket == BUCKET
        return [{"Contents": [{"Key": key} for key in self._objects if key.startswith(Prefix)]}]

    def download_file(self, bucket: str, key: str, target: str) -> None:
        assert bucket == BUCKET
        shutil.copyfile(self._objects[key], target)


class _Session:
    """A session whose S3 is the one above and whose CloudFormation answers what it is told."""

    def __init__(self, s3: _S3) -> None:
        self._s3 = s3
        self.regions: list[str | None] = []
        real: Any = boto3.Session(aws_access_key_id="x", aws_secret_access_key="x", region_name="us-east-2")
        self.cloudformation: Any = real.client("cloudformation")
        self.stub = Stubber(self.cloudformation)
        self.stub.activate()
        self.get_available_regions = real.get_available_regions

    def client(self, service: str, *, region_name: str | None, config: object) -> Any:
        self.regions.append(region_name)
        return self._s3 if service == "s3" else self.cloudformation


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _Session:
    objects: dict[str, Path] = {}
    for name in ("20261101T000000Z-aaaaaa", "20261129T000000Z-bbbbbb"):
        folder = write_run(tmp_path / "remote" / name, records(cases=CASES[:1], tokens=20, run=name))
        objects |= {f"runs/{name}/{path.name}": path for path in folder.iterdir()}
    made = _Session(_S3(objects))
    monkeypatch.setattr("specdec.aws.session", lambda: made)
    return made


def _stack(**more: Any) -> dict[str, Any]:
    return {
        "Stacks": [
            {"StackName": STACK, "CreationTime": "2026-11-29T00:00:00Z", "StackStatus": "CREATE_COMPLETE"}
            | more
        ]
    }


def test_latest_run_of_a_stacks_bucket(session: _Session, tmp_path: Path) -> None:
    output = [{"OutputKey": "Bucket", "OutputValue": BUCKET}]
    session.stub.add_response("describe_stacks", _stack(Outputs=output), {"StackName": STACK})
    result = _report(tmp_path / "runs", "--stack", STACK)
    assert result.return_value == EXIT_OK
    assert (tmp_path / "runs" / "20261129T000000Z-bbbbbb" / "report.html").exists()
    assert session.regions == [
        "us-east-2",
        "us-east-2",
    ], "the region is the one that the stack's name ends with"


def test_run_by_its_address(session: _Session, tmp_path: Path) -> None:
    folder = find(f"s3://{BUCKET}/runs/20261101T000000Z-aaaaaa/", runs=tmp_path / "runs")
    assert folder == tmp_path / "runs" / "20261101T000000Z-aaaaaa"
    assert (folder / "manifest.json").exists()


@pytest.mark.usefixtures("session")
def test_a_file_in_the_way_of_a_fetched_run(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(EnvironmentFault, match=r"taken/runs cannot be written: Not a directory"):
        find(f"s3://{BUCKET}/runs/20261101T000000Z-aaaaaa", runs=tmp_path / "taken" / "runs")


def test_bucket_is_found_without_an_output(session: _Session) -> None:
    session.stub.add_response("describe_stacks", _stack(), {"StackName": STACK})
    made = {
        "LogicalResourceId": "ModelStoreBucket",
        "PhysicalResourceId": BUCKET,
        "ResourceType": "AWS::S3::Bucket",
        "LastUpdatedTimestamp": "2026-11-29T00:00:00Z",
        "ResourceStatus": "CREATE_COMPLETE",
    }
    session.stub.add_response(
        "list_stack_resources", {"StackResourceSummaries": [made]}, {"StackName": STACK}
    )
    assert bucket_of(STACK, session.cloudformation) == BUCKET


def test_stack_that_is_not_there(session: _Session, tmp_path: Path) -> None:
    session.stub.add_client_error(
        "describe_stacks", "ValidationError", f"Stack with id {STACK} does not exist", 400
    )
    fault = _fault(_report(tmp_path / "runs", "--stack", STACK))
    assert fault.exit_code == EXIT_BAD_INPUT
    assert f"'{STACK}': is not deployed in region us-east-2" in str(fault)


def test_refusal_is_not_read_as_absence(session: _Session, tmp_path: Path) -> None:
    session.stub.add_client_error("describe_stacks", "AccessDenied", "no", 403)
    assert _fault(_report(tmp_path / "runs", "--stack", STACK)).exit_code == 3


def test_rows_are_data_in_the_json(tmp_path: Path) -> None:
    folder = write_run(tmp_path / RUN, spoiled(records()))
    rows = json.loads(write(folder).numbers.read_text(encoding="utf-8"))["rows"]
    by_case = {row["test_case"]: row for row in rows}
    assert by_case["numbers"]["decision"] == "helps"
    assert by_case["numbers"]["worthwhile"]
    assert by_case["numbers"]["tpot"]["interval"]["low"] > 1
    assert by_case["essay"]["reasons"][0]["code"] == "texts differ"
    assert not by_case["essay"]["counts"]
    assert by_case["sonnet"]["variant_side"]["ok"] == 11
