"""Publishing against a CloudWatch that keeps what it takes, and can lose answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import boto3
import pytest
from botocore.exceptions import (
    ClientError,
    ConnectTimeoutError,
    CredentialRetrievalError,
    NoCredentialsError,
    ReadTimeoutError,
    SSLError,
    TokenRetrievalError,
)
from mypy_boto3_cloudwatch import CloudWatchClient

from specdec.errors import EnvironmentFault, NoAccessError, SpecdecError
from specdec.metrics.tpot import TPOT
from specdec.publish import cloudwatch, datums, series
from specdec.publish.cloudwatch import Clock, UnsureError
from tests.publish.runs import NOW, record, write

Behaviour = Callable[[], None]


def client_error(code: str, status: int) -> ClientError:
    return ClientError(
        cast(
            "Any", {"Error": {"Code": code, "Message": "m"}, "ResponseMetadata": {"HTTPStatusCode": status}}
        ),
        "PutMetricData",
    )


LOST = ReadTimeoutError(endpoint_url="http://x")
WITHOUT_CREDENTIALS = (
    NoCredentialsError(),
    CredentialRetrievalError(provider="sso", error_msg="m"),
    TokenRetrievalError(provider="sso", error_msg="m"),
)


class FakeCloudWatch:
    """Takes datums like the service. ``script`` has, per call, None or (whether to keep the data, the error
    to raise).
    """

    def __init__(self, *script: tuple[bool, Exception] | None, unreadable: Exception | None = None) -> None:
        self.script = list(script)
        self.unreadable = unreadable
        self.calls = 0
        self.kept: list[tuple[str, dict[str, Any]]] = []

    def put_metric_data(self, *, Namespace: str, MetricData: list[dict[str, Any]]) -> None:  # noqa: N803
        self.calls += 1
        step = self.script.pop(0) if self.script else None
        if step is None or step[0]:
            self.kept += [(Namespace, one) for one in MetricData]
        if step is not None:
            raise step[1]

    def get_metric_statistics(self, **query: Any) -> dict[str, Any]:
        if self.unreadable is not None:
            raise self.unreadable
        points: dict[datetime, list[tuple[float, float]]] = {}
        for namespace, one in self.kept:
            same = (namespace, one["MetricName"], one["Dimensions"]) == (
                query["Namespace"],
                query["MetricName"],
                query["Dimensions"],
            )
            if same and query["StartTime"] <= one["Timestamp"] < query["EndTime"]:
                points.setdefault(one["Timestamp"], []).extend(zip(one["Values"], one["Counts"], strict=True))
        return {
            "Datapoints": [
                {
                    "Timestamp": at,
                    "SampleCount": sum(count for _, count in values),
                    "Sum": sum(value * count for value, count in values),
                    "Minimum": min(value for value, _ in values),
                    "Maximum": max(value for value, _ in values),
                }
                for at, values in reversed(points.items())
            ]
        }

    def as_client(self) -> CloudWatchClient:
        return cast("CloudWatchClient", self)


class FakeTime:
    def __init__(self) -> None:
        self.at = NOW + timedelta(minutes=10)
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.at += timedelta(seconds=seconds)

    @property
    def clock(self) -> Clock:
        return Clock(now=lambda: self.at, sleep=self.sleep)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    records = [
        record(),
        record(prompt="b", step=0.03),
        record("speculative", step=0.01),
        record("speculative", prompt="b", step=0.01),
    ]
    return write(tmp_path / "run", records)


def publish(folder: Path, fake: FakeCloudWatch, time: FakeTime | None = None) -> int:
    return cloudwatch.publish(
        folder, fake.as_client(), experiment="exp", metrics=[TPOT], clock=(time or FakeTime()).clock
    )


def keys(fake: FakeCloudWatch) -> list[str]:
    return [
        json.dumps([namespace, one["MetricName"], one["Dimensions"], one["Timestamp"].isoformat()])
        for namespace, one in fake.kept
    ]


def test_a_run_is_published_once_however_often_it_is_asked_for(folder: Path) -> None:
    fake = FakeCloudWatch()
    sent = publish(folder, fake)
    assert sent == len(fake.kept) > 0
    assert publish(folder, fake) == 0
    assert len(keys(fake)) == len(set(keys(fake)))
    assert {namespace for namespace, _ in fake.kept} == {"SpecDec/Exact", "SpecDec/Run"}


@pytest.mark.parametrize(
    "error",
    [client_error("Throttling", 400), client_error("Any", 429), ConnectTimeoutError(endpoint_url="x")],
)
def test_a_busy_service_is_asked_again_with_growing_pauses(folder: Path, error: Exception) -> None:
    fake, time = FakeCloudWatch((False, error), (False, error), (False, error)), FakeTime()
    publish(folder, fake, time)
    assert time.slept == [0.5, 1.0, 2.0]
    assert len(keys(fake)) == len(set(keys(fake)))


def test_it_gives_up_in_the_end_and_a_later_call_finishes(folder: Path) -> None:
    fake = FakeCloudWatch(*[(False, client_error("Throttling", 400))] * cloudwatch.ATTEMPTS)
    with pytest.raises(EnvironmentFault, match="6 attempts"):
        publish(folder, fake)
    assert publish(folder, fake) == len(fake.kept)


@pytest.mark.parametrize("error", [LOST, client_error("InternalServiceError", 500)])
@pytest.mark.parametrize("arrived", [True, False])
def test_a_lost_answer_is_looked_up_before_anything_is_repeated(
    folder: Path, error: Exception, arrived: bool
) -> None:
    fake = FakeCloudWatch((arrived, error))
    publish(folder, fake)
    assert len(keys(fake)) == len(set(keys(fake)))
    complete = FakeCloudWatch()
    (folder / "published.json").unlink()
    publish(folder, complete)
    assert sorted(keys(fake)) == sorted(keys(complete)), "nothing twice, nothing missing"


@pytest.mark.parametrize("arrived", [True, False])
def test_a_process_killed_in_mid_call_is_taken_up_without_doubling(folder: Path, arrived: bool) -> None:
    fake = FakeCloudWatch((arrived, KeyboardInterrupt()))  # pyright: ignore[reportArgumentType]
    with pytest.raises(KeyboardInterrupt):
        publish(folder, fake)
    publish(folder, fake)
    assert len(keys(fake)) == len(set(keys(fake)))
    assert {one["MetricName"] for _, one in fake.kept} == {
        "TimePerOutputToken",
        *(one.name for one in series.RUN),
    }


@pytest.mark.parametrize(
    "error", [LOST, client_error("Throttling", 400), client_error("InternalServiceError", 500)]
)
@pytest.mark.parametrize("arrived", [True, False])
def test_while_nothing_can_be_read_nothing_is_repeated(folder: Path, error: Exception, arrived: bool) -> None:
    fake = FakeCloudWatch((arrived, LOST), unreadable=error)
    with pytest.raises(UnsureError, match="may or may not"):
        publish(folder, fake)
    fake.unreadable = None
    publish(folder, fake)
    assert len(keys(fake)) == len(set(keys(fake)))
    assert {namespace for namespace, _ in fake.kept} == {"SpecDec/Exact", "SpecDec/Run"}


def test_a_role_that_may_not_read_leaves_a_doubtful_batch_and_says_so(folder: Path) -> None:
    fake = FakeCloudWatch((False, LOST), unreadable=client_error("AccessDenied", 403))
    with pytest.raises(UnsureError, match="may or may not"):
        publish(folder, fake)
    assert {namespace for namespace, _ in fake.kept} == {"SpecDec/Run"}, "the other batch was sent"
    fake.unreadable = None
    publish(folder, fake)
    assert len(keys(fake)) == len(set(keys(fake)))
    assert {namespace for namespace, _ in fake.kept} == {"SpecDec/Exact", "SpecDec/Run"}


@pytest.mark.parametrize(
    "error", [client_error("AccessDenied", 403), client_error("ExpiredToken", 400), *WITHOUT_CREDENTIALS]
)
def test_a_refusal_is_not_repeated(folder: Path, error: Exception) -> None:
    fake = FakeCloudWatch((False, error))
    with pytest.raises(NoAccessError):
        publish(folder, fake)
    assert fake.calls == 1


@pytest.mark.parametrize("error", [client_error("ExpiredToken", 400), *WITHOUT_CREDENTIALS])
def test_credentials_that_end_before_the_look_up_are_what_is_to_be_renewed(
    folder: Path, error: Exception
) -> None:
    fake = FakeCloudWatch((True, LOST), unreadable=error)
    with pytest.raises(NoAccessError) as caught:
        publish(folder, fake)
    assert "GetMetricStatistics" not in f"{caught.value} {caught.value.remedy}"
    assert "sso login" in (caught.value.remedy or "")
    fake.unreadable = None
    publish(folder, fake)
    assert len(keys(fake)) == len(set(keys(fake)))


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (SSLError(endpoint_url="http://x", error=OSError("m")), EnvironmentFault),
        (client_error("InvalidParameterValue", 400), UnsureError),
    ],
    ids=["unreachable", "wrong request"],
)
def test_what_cannot_be_read_back_for_another_reason_says_which(
    folder: Path, error: Exception, kind: type[SpecdecError]
) -> None:
    with pytest.raises(kind) as caught:
        read(folder, FakeCloudWatch(unreadable=error))
    assert "Allow" not in (caught.value.remedy or "")


def test_a_wrong_request_is_an_error_and_not_a_retry(folder: Path) -> None:
    fake = FakeCloudWatch((False, client_error("InvalidParameterValue", 400)))
    with pytest.raises(SpecdecError, match="InvalidParameterValue"):
        publish(folder, fake)
    assert fake.calls == 1


def test_a_broken_journal_stops_rather_than_guesses(folder: Path) -> None:
    (folder / "published.json").write_text("{", encoding="utf-8")
    fake = FakeCloudWatch()
    with pytest.raises(SpecdecError) as caught:
        publish(folder, fake)
    assert "what was published" in (caught.value.remedy or "")
    assert fake.calls == 0


def test_an_unfinished_run_is_not_published(tmp_path: Path) -> None:
    with pytest.raises(SpecdecError, match="holds neither"):
        publish(tmp_path, FakeCloudWatch())


def read(folder: Path, fake: FakeCloudWatch) -> cloudwatch.ReadBack:
    time = FakeTime()
    return cloudwatch.read_back(
        folder, fake.as_client(), experiment="exp", metrics=[TPOT], clock=time.clock, wait_seconds=20
    )


def test_what_is_read_back_equals_the_records(folder: Path) -> None:
    fake = FakeCloudWatch()
    publish(folder, fake)
    back = read(folder, fake)
    assert back.differences == ()
    assert back.samples == 4 + 2 + 4 + 1 + 1, (
        "four requests, two outcomes, two metrics of two services, one parity, one run"
    )


def test_read_back_finds_what_is_missing_doubled_or_changed(folder: Path) -> None:
    fake = FakeCloudWatch()
    publish(folder, fake)
    whole = list(fake.kept)
    fake.kept = whole[1:]
    assert {one.found for one in read(folder, fake).differences} == {None}
    fake.kept = [*whole, whole[0]]
    assert {one.statistic for one in read(folder, fake).differences} == {"SampleCount", "Sum"}
    namespace, first = whole[0]
    fake.kept = [(namespace, {**first, "Values": [value * 1.001 for value in first["Values"]]}), *whole[1:]]
    assert {one.statistic for one in read(folder, fake).differences} == {"Sum", "Minimum", "Maximum"}


def test_the_real_client_sends_one_request_within_the_size_limit() -> None:
    """What botocore puts on the wire for the fullest batch."""
    session = boto3.Session(aws_access_key_id="a", aws_secret_access_key="b")
    real = cloudwatch.client(session, "us-east-2")
    settings: Any = real.meta.config
    assert settings.retries == {"total_max_attempts": 1, "mode": "standard"}
    values = tuple(0.123456789 + index / 7 for index in range(150))
    full = [
        datums.Datum(
            series.FAILED_RUNS,
            ("exp",),
            datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=minute),
            values,
            (1,) * 150,
        )
        for minute in range(700)
    ]
    sizes: list[int] = []

    def stop(request: Any, **_: Any) -> Any:
        body: bytes = request.body if isinstance(request.body, bytes) else request.body.read()
        sizes.append(len(body))
        raise KeyboardInterrupt

    real.meta.events.register("before-send.cloudwatch.PutMetricData", stop)
    for batch in datums.batches(full):
        with pytest.raises(KeyboardInterrupt):
            real.put_metric_data(Namespace="SpecDec/Run", MetricData=[one.request() for one in batch])
    assert sizes
    assert max(sizes) <= datums.MAX_BYTES
