"""Who may not ask gets one sentence and exit code 3; who cannot reach AWS gets 4; an answer stays an
answer.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from boto3.exceptions import Boto3Error, RetriesExceededError, S3UploadFailedError
from botocore import exceptions as aws_exceptions
from botocore.exceptions import ClientError

from specdec.aws import DeniedError, ThrottledError, calls, doing
from specdec.cli import main
from specdec.errors import EnvironmentFault, NoAccessError, SpecdecError
from specdec.preflight.finding import Finding
from specdec.preflight.run import CHECKS, run
from tests.operate.conftest import DEFAULT, REGION, StubbedAws, scope_of
from tests.operate.refusing import refusing

ROOT = Path(__file__).parents[2]


def client_error(code: str, message: str = "no", status: int = 400) -> ClientError:
    answer: Any = {
        "Error": {"Code": code, "Message": message},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }
    return ClientError(answer, "DescribeThings")


@pytest.mark.parametrize(
    ("raised", "expected", "exit_code"),
    [
        (aws_exceptions.NoCredentialsError(), NoAccessError, 3),
        (
            aws_exceptions.PartialCredentialsError(provider="env", cred_var="AWS_SECRET_ACCESS_KEY"),
            NoAccessError,
            3,
        ),
        (aws_exceptions.ProfileNotFound(profile="x"), NoAccessError, 3),
        (aws_exceptions.UnauthorizedSSOTokenError(), NoAccessError, 3),
        (aws_exceptions.TokenRetrievalError(provider="sso", error_msg="x"), NoAccessError, 3),
        (client_error("ExpiredToken"), NoAccessError, 3),
        (client_error("InvalidClientTokenId", status=403), NoAccessError, 3),
        (client_error("OptInRequired"), NoAccessError, 3),
        (client_error("AccessDenied", status=403), DeniedError, 3),
        (client_error("UnauthorizedOperation", status=403), DeniedError, 3),
        (client_error("ThrottlingException"), ThrottledError, 1),
        (client_error("RequestLimitExceeded", status=503), ThrottledError, 1),
        (aws_exceptions.EndpointConnectionError(endpoint_url="http://127.0.0.1:1"), EnvironmentFault, 4),
        (aws_exceptions.ConnectTimeoutError(endpoint_url="http://127.0.0.1:1"), EnvironmentFault, 4),
        (aws_exceptions.ReadTimeoutError(endpoint_url="http://127.0.0.1:1"), EnvironmentFault, 4),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_refusals(raised: Exception, expected: type[SpecdecError], exit_code: int) -> None:
    with pytest.raises(expected) as caught, calls():
        raise raised
    assert caught.value.exit_code == exit_code
    assert caught.value.remedy


def test_an_answer_passes_through() -> None:
    with pytest.raises(ClientError), calls():
        raise client_error("ValidationError", "Stack with id x does not exist")


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (client_error("AccessDenied", status=403), NoAccessError),
        (aws_exceptions.EndpointConnectionError(endpoint_url="http://127.0.0.1:1"), EnvironmentFault),
        (client_error("NoSuchBucket", status=404), SpecdecError),
    ],
    ids=["denied", "unreachable", "an answer elsewhere"],
)
@pytest.mark.parametrize("wrapped", [False, True], ids=["call", "transfer"])
def test_where_nothing_is_an_answer_the_error_names_what_failed(
    raised: Exception, expected: type[SpecdecError], wrapped: bool
) -> None:
    error = S3UploadFailedError("Failed to upload") if wrapped else raised
    error.__cause__ = raised if wrapped else None
    with pytest.raises(SpecdecError, match=r"^cannot write s3://b/k: ") as caught, doing("write s3://b/k"):
        raise error
    assert type(caught.value) is expected


def test_a_download_that_keeps_breaking_off_is_an_endpoint_that_cannot_be_reached() -> None:
    with (
        pytest.raises(EnvironmentFault, match=r"^cannot read s3://b/k: AWS cannot be reached: reset"),
        doing("read s3://b/k"),
    ):
        raise RetriesExceededError(cast("Boto3Error", ConnectionResetError("reset")))


def test_a_mistake_of_our_own_is_not_blamed_on_aws() -> None:
    with pytest.raises(KeyError), doing("write s3://b/k"):
        raise KeyError


def test_the_refused_action_is_named_as_iam_names_it() -> None:
    message = (
        "User: arn:aws:iam::111122223333:user/x is not authorized to perform: eks:DescribeCluster on"
        " resource: y"
    )
    with pytest.raises(DeniedError, match="not allowed: eks:DescribeCluster") as caught, calls():
        raise client_error("AccessDeniedException", message)
    assert caught.value.action == "eks:DescribeCluster"


def test_one_refused_check_leaves_the_others_their_findings(
    aws: StubbedAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: object) -> list[Finding]:
        raise DeniedError("eks:DescribeClusterVersions", "no")

    def fine(_: object) -> list[Finding]:
        return [Finding("fine", "ok", "fine")]

    monkeypatch.setattr("specdec.preflight.run.CHECKS", {"kubernetes": refused, "fine": fine})
    seen: list[str] = []
    found = run(scope_of(aws), on_done=lambda name, done, total: seen.append(f"{done}/{total}"))
    assert [(finding.check, finding.level) for finding in found] == [
        ("kubernetes", "unknown"),
        ("fine", "ok"),
    ]
    assert found[0].denied == "eks:DescribeClusterVersions"
    assert seen == ["1/2", "2/2"]
    assert len(CHECKS) > 10


@pytest.mark.parametrize("command", ["check", "leftovers"])
def test_without_credentials_a_command_ends_in_one_line_and_3(command: str, tmp_path: Path) -> None:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
    clean |= {"HOME": str(tmp_path), "AWS_EC2_METADATA_DISABLED": "true"}
    ended = subprocess.run(
        [sys.executable, "-m", "specdec", command],
        cwd=ROOT,
        env=clean,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 3, ended.stderr
    assert ended.stderr.splitlines() == [
        "error: no AWS credentials: Unable to locate credentials; experiment.toml is in order, the account"
        " was not asked (remedy: Sign in with `aws sso login` or `aws configure`, or set AWS_PROFILE)"
    ]
    assert ended.stdout == ""


ASKING = [
    ["check"],
    ["nodes", "up"],
    ["nodes", "down"],
    ["nodes", "status"],
    ["wait", "--timeout-minutes", "0"],
    ["run"],
    ["runs"],
    ["clone", "ap-south-2"],
    ["leftovers"],
    ["report", "--stack", "qwen3-specdec-us-east-2"],
    ["report", "s3://bucket/runs/20261129T180000Z-5a17ed"],
    ["tune", "s3://bucket/runs/20261129T180000Z-5a17ed"],
]
"""Every command that asks AWS."""


@pytest.fixture
def signed_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Credentials of the environment and nothing else, in a folder with the default experiment."""
    for name in [name for name in os.environ if name.startswith("AWS_") or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    for name, value in {
        "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "x",
        "AWS_DEFAULT_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    }.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "experiment.toml").write_text(DEFAULT.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ended(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.setattr(sys, "argv", ["specdec", *arguments])
    with pytest.raises(SystemExit) as exit_:
        main()
    return exit_.value.code


@pytest.mark.parametrize("arguments", ASKING, ids=" ".join)
@pytest.mark.parametrize(
    ("state", "said"),
    [("none", "no AWS credentials"), ("expired", "have expired"), ("denied", "not allowed: ")],
)
def test_every_command_that_is_refused_ends_in_one_line_and_3(
    arguments: list[str],
    state: str,
    said: str,
    signed_in: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = "ExpiredToken" if state == "expired" else "AccessDenied"
    if state == "none":
        monkeypatch.delenv("AWS_ACCESS_KEY_ID")
        monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with refusing(code, known=state == "denied") as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        status = ended(arguments, monkeypatch)
    errors = capsys.readouterr().err
    # Besides the error, a command may have said how far it was; a failed check lists what it was not allowed
    # to ask.
    lines = [line for line in errors.splitlines() if line.startswith("error: ")]
    assert status == 3, errors
    assert len(lines) == 1, errors
    assert said in lines[0]
    assert ("experiment.toml is in order" in lines[0]) == (
        state != "denied" and "report" not in arguments and "tune" not in arguments
    )
    assert "Traceback" not in errors
    assert (signed_in / "experiment.toml").read_text(encoding="utf-8") == DEFAULT.read_text(encoding="utf-8")


@pytest.mark.parametrize("region", ["nowhere-9", "us-west-2"])
def test_a_clone_into_a_region_that_the_catalogue_refuses_asks_no_account(
    region: str, signed_in: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    assert ended(["clone", region], monkeypatch) == 2
    assert f"regions = '{region}': is not known to offer trn2.48xlarge" in capsys.readouterr().err
    assert ended(["clone", "ap-southeast-4"], monkeypatch) == 3
    assert "make the two edits by hand" in capsys.readouterr().err
    assert (signed_in / "experiment.toml").read_text(encoding="utf-8") == DEFAULT.read_text(encoding="utf-8")


def test_a_stack_in_a_region_that_nothing_tells(
    signed_in: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    assert ended(["report", "--stack", "Bad Stack"], monkeypatch) == 2
    error = capsys.readouterr().err
    assert "--region: is not known: You must specify a region" in error
    assert "AWS_DEFAULT_REGION" in error
    assert ended(["report", "--stack", "x", "--region", "Bad Region"], monkeypatch) == 2
    assert "--region" in capsys.readouterr().err


@pytest.mark.parametrize("bucket", ["nosuchbucket", "Not A Bucket"])
def test_a_run_in_a_bucket_that_is_not_there(
    bucket: str, signed_in: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with refusing("NoSuchBucket", known=True) as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        for address in (f"s3://{bucket}/runs/x", f"s3://{bucket}"):
            assert ended(["report", address], monkeypatch) == 2
            assert f"bucket = '{bucket}': does not exist" in capsys.readouterr().err


def test_an_error_that_nobody_expected_is_one_line_too(
    signed_in: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with refusing("InvalidAction", known=True) as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        assert ended(["runs"], monkeypatch) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: AWS answers DescribeStacks with InvalidAction: ")
