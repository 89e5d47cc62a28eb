"""Sends a run's metrics to CloudWatch, once, and reads them back to compare."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specdec.aws import DeniedError, ThrottledError, calls, unexpected
from specdec.errors import EnvironmentFault, NoAccessError, SpecdecError
from specdec.publish import datums
from specdec.publish.datums import Datum
from specdec.publish.journal import Journal
from specdec.publish.series import Series
from specdec.runs.folder import Run, read_run

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch import CloudWatchClient
    from mypy_boto3_cloudwatch.type_defs import DatapointTypeDef

    from specdec.metrics.definition import Metric

ATTEMPTS = 6
"""Calls per batch before giving up."""
SETTLE_SECONDS = 120.0
"""How long a sent datum may take to become readable."""


class UnsureError(SpecdecError):
    """A call ended without an answer and metrics cannot be read, or not by this role: its datums were not
    sent again.
    """


@dataclass(frozen=True, slots=True)
class Clock:
    """Where time comes from.

    Attributes:
        now: current UTC time.
        sleep: waits for seconds.
    """

    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    sleep: Callable[[float], None] = time.sleep


def client(session: Any, region: str) -> CloudWatchClient:
    """A CloudWatch client that does not retry by itself: a retry after a lost answer would publish twice.

    Args:
        session: a boto3 session.
        region: AWS region.
    """
    from botocore.config import Config

    quiet = Config(retries={"total_max_attempts": 1, "mode": "standard"}, connect_timeout=10, read_timeout=30)
    return session.client("cloudwatch", region_name=region, config=quiet)


def run_datums(
    run: Run, *, experiment: str, metrics: Iterable[Metric] | None = None, high_resolution: bool = False
) -> list[Datum]:
    """Every datum of a run: exact lane, run, and LLMPerf lane where its folder has one.

    Raises:
        SpecdecError: the LLMPerf lane's file cannot be read.
        ValueError: a metric gave a number that CloudWatch does not take.
    """
    from specdec.llmperf import results
    from specdec.publish import llmperf_datums

    if metrics is None:
        from specdec.metrics import ALL

        metrics = ALL
    manifest = run.manifest
    exact_datums = datums.of_run(
        manifest, run.records, metrics, experiment=experiment, high_resolution=high_resolution
    )
    baseline = next(
        (name for name, facts in manifest.variants.items() if facts.get("role") == "baseline"), None
    )
    return exact_datums + llmperf_datums.of_cases(results.load(run.folder), baseline=baseline)


def publish(
    folder: Path,
    cloudwatch: CloudWatchClient,
    *,
    experiment: str,
    metrics: Iterable[Metric] | None = None,
    high_resolution: bool = False,
    clock: Clock = Clock(),
) -> int:
    """Publishes a finished run and returns how many datums this call sent: 0 if all were published before.

    A journal in the folder keeps what was sent. A call whose answer was lost is looked up in CloudWatch
    before it is repeated.

    Args:
        folder: run folder.
        cloudwatch: from ``client``; one that retries by itself can publish twice.
        experiment: value of the Experiment dimension.
        metrics: instead of ``specdec.metrics.ALL``.
        high_resolution: keep points of one second instead of one minute.
        clock: where time comes from.

    Raises:
        BadInputError: not a finished run.
        SpecdecError: too old, or refused by CloudWatch.
        NoAccessError: no credentials, or no permission to publish.
        EnvironmentFault: CloudWatch cannot be reached.
        UnsureError: whether a batch arrived cannot be told; all others were sent.
    """
    run = read_run(folder)
    todo = run_datums(run, experiment=experiment, metrics=metrics, high_resolution=high_resolution)
    return send(todo, cloudwatch, run=run.manifest.run, journal=Journal(folder), clock=clock)


def send(
    todo: Sequence[Datum],
    cloudwatch: CloudWatchClient,
    *,
    run: str,
    journal: Journal,
    clock: Clock = Clock(),
) -> int:
    """Sends the datums that the journal does not know as sent; see ``publish``."""
    left = [datum for datum in todo if journal.state(datum.key(run)) != "sent"]
    datums.refuse_too_old(left, clock.now())
    sent = 0
    unsure: list[Datum] = []
    for batch in datums.batches(left):
        doubtful = [datum for datum in batch if journal.state(datum.key(run)) == "sending"]
        fresh = [datum for datum in batch if journal.state(datum.key(run)) is None]
        if doubtful:
            try:
                fresh += _settle(doubtful, cloudwatch, run, journal, clock)
            except UnsureError:
                unsure += doubtful
        if fresh:
            try:
                sent += _send_batch(fresh, cloudwatch, run, journal, clock)
            except UnsureError:
                unsure += fresh
    if unsure:
        raise UnsureError(
            f"{len(unsure)} of {len(todo)} datums may or may not have reached CloudWatch; they were not sent"
            " again",
            remedy="Publish the run folder again; the role has to be allowed cloudwatch:GetMetricStatistics",
        )
    return sent


def _send_batch(
    batch: list[Datum], cloudwatch: CloudWatchClient, run: str, journal: Journal, clock: Clock
) -> int:
    keys = [datum.key(run) for datum in batch]
    left = batch
    for attempt in range(ATTEMPTS):
        journal.mark([datum.key(run) for datum in left], "sending")
        outcome, error = _call(left, cloudwatch)
        if outcome == "sent":
            journal.mark(keys, "sent")
            return len(left)
        if outcome == "lost":
            left = _settle(left, cloudwatch, run, journal, clock)
            if not left:
                return len(batch)
        else:
            journal.mark([datum.key(run) for datum in left], None)
        if outcome == "refused" and error is not None:
            raise error
        if attempt < ATTEMPTS - 1:
            clock.sleep(min(30.0, 0.5 * 2**attempt))
    raise EnvironmentFault(
        f"CloudWatch did not take a batch of {len(left)} datums in {ATTEMPTS} attempts",
        remedy="Publish again later; nothing is sent twice",
    )


def _call(batch: list[Datum], cloudwatch: CloudWatchClient) -> tuple[str, SpecdecError | None]:
    """``sent``, ``busy`` (not processed, try again), ``refused`` (never accepted) or ``lost`` (unknown)."""
    try:
        with calls():
            return _put(batch, cloudwatch), None
    except ThrottledError:
        return "busy", None
    except DeniedError as error:
        remedy = "Allow cloudwatch:PutMetricData for the namespaces of the experiment"
        return "refused", NoAccessError(f"CloudWatch: {error}", remedy=remedy)
    except SpecdecError as error:
        return "refused", error
    except Exception as error:
        if _of_the_server(error):
            return "lost", None
        fault = unexpected(error)
        if fault is None:
            raise
        return "refused", fault


def _put(batch: list[Datum], cloudwatch: CloudWatchClient) -> str:
    from botocore import exceptions as boto
    from botocore.parsers import ResponseParserError

    try:
        cloudwatch.put_metric_data(
            Namespace=batch[0].series.namespace, MetricData=[datum.request() for datum in batch]
        )
    except (boto.EndpointConnectionError, boto.ConnectTimeoutError):
        return "busy"
    except (boto.HTTPClientError, ResponseParserError):
        # The request may have arrived before the connection broke, or before something on the way answered in
        # its place.
        return "lost"
    return "sent"


def _of_the_server(error: Exception) -> bool:
    from botocore.exceptions import ClientError

    return (
        isinstance(error, ClientError)
        and error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0) >= 500
    )


def _settle(
    batch: list[Datum], cloudwatch: CloudWatchClient, run: str, journal: Journal, clock: Clock
) -> list[Datum]:
    """Finds out which datums of a batch arrived, and returns the others, which may be sent again.

    Raises:
        UnsureError: it cannot be found out.
    """
    deadline = clock.now() + timedelta(seconds=SETTLE_SECONDS)
    pause = 2.0
    missing = batch
    while True:
        seen = _arrived(missing, cloudwatch)
        journal.mark(
            [datum.key(run) for datum, arrived in zip(missing, seen, strict=True) if arrived], "sent"
        )
        missing = [datum for datum, arrived in zip(missing, seen, strict=True) if not arrived]
        if clock.now() >= deadline and None in seen:
            raise UnsureError("CloudWatch does not answer", remedy="Publish the run folder again later")
        if not missing or clock.now() >= deadline:
            journal.mark([datum.key(run) for datum in missing], None)
            return missing
        clock.sleep(pause)
        pause = min(20.0, pause * 1.5)


def _arrived(batch: list[Datum], cloudwatch: CloudWatchClient) -> list[bool | None]:
    """Whether each datum is readable, by the number of samples of its series at its time; None where
    CloudWatch did not answer.
    """
    expected: dict[tuple[Series, tuple[str, ...], datetime], float] = defaultdict(float)
    for datum in batch:
        expected[datum.series, datum.dimensions, datum.timestamp] += sum(datum.counts)
    seen: dict[tuple[Series, tuple[str, ...], datetime], bool | None] = {}
    for place, count in expected.items():
        series, dimensions, at = place
        resolution = next(
            datum.resolution for datum in batch if (datum.series, datum.dimensions, datum.timestamp) == place
        )
        points = _statistics(
            cloudwatch, series, dimensions, at, at + timedelta(seconds=resolution), resolution
        )
        seen[place] = (
            None if points is None else sum(point.get("SampleCount", 0.0) for point in points) >= count
        )
    return [seen[datum.series, datum.dimensions, datum.timestamp] for datum in batch]


def _statistics(
    cloudwatch: CloudWatchClient,
    one: Series,
    dimensions: tuple[str, ...],
    start: datetime,
    end: datetime,
    period: int,
) -> list[DatapointTypeDef] | None:
    """Datapoints of a series; None while CloudWatch is too busy to tell or does not answer."""
    from botocore.exceptions import HTTPClientError

    try:
        with calls():
            try:
                return cloudwatch.get_metric_statistics(
                    Namespace=one.namespace,
                    MetricName=one.name,
                    Dimensions=[
                        {"Name": name, "Value": value}
                        for name, value in zip(one.dimensions, dimensions, strict=True)
                    ],
                    StartTime=start,
                    EndTime=end,
                    Period=period,
                    Statistics=["SampleCount", "Sum", "Minimum", "Maximum"],
                )["Datapoints"]
            except HTTPClientError:
                return None
    except ThrottledError:
        return None
    except DeniedError as error:
        raise UnsureError(
            f"CloudWatch cannot be read: {error}", remedy="Allow cloudwatch:GetMetricStatistics"
        ) from None
    except SpecdecError:
        raise
    except Exception as error:
        if _of_the_server(error):
            return None
        fault = unexpected(error)
        if fault is None:
            raise
        raise UnsureError(f"CloudWatch cannot be read: {fault}", remedy=fault.remedy) from None


@dataclass(frozen=True, slots=True)
class Difference:
    """A series whose numbers in CloudWatch are not those of the records.

    Attributes:
        series: metric name.
        dimensions: its dimension values.
        statistic: SampleCount, Sum, Minimum or Maximum.
        expected: from the records.
        found: from CloudWatch; None if there is no data.
    """

    series: str
    dimensions: tuple[str, ...]
    statistic: str
    expected: float
    found: float | None


@dataclass(frozen=True, slots=True)
class ReadBack:
    """Compares what CloudWatch holds of a run with its records.

    Attributes:
        compared: series compared.
        samples: values behind them.
        differences: empty when every number agrees.
    """

    compared: int
    samples: int
    differences: tuple[Difference, ...]


def read_back(
    folder: Path,
    cloudwatch: CloudWatchClient,
    *,
    experiment: str,
    metrics: Iterable[Metric] | None = None,
    high_resolution: bool = False,
    wait_seconds: float = SETTLE_SECONDS,
    clock: Clock = Clock(),
) -> ReadBack:
    """Compares number of samples, sum, smallest and largest value of every published series with the run's
    records.

    Another run of the same experiment in the same minutes shows as a difference. Arguments as in ``publish``;
    ``wait_seconds`` bounds the wait for datums to become readable.

    Raises:
        BadInputError: not a finished run.
        SpecdecError: CloudWatch cannot be read.
        NoAccessError: no credentials.
        EnvironmentFault: CloudWatch cannot be reached.
    """
    places: dict[tuple[Series, tuple[str, ...]], list[Datum]] = defaultdict(list)
    todo = run_datums(
        read_run(folder), experiment=experiment, metrics=metrics, high_resolution=high_resolution
    )
    for datum in todo:
        places[datum.series, datum.dimensions].append(datum)
    deadline = clock.now() + timedelta(seconds=wait_seconds)
    while True:
        differences = tuple(
            difference
            for (series, dimensions), parts in places.items()
            for difference in _compare(cloudwatch, series, dimensions, parts)
        )
        if not differences or clock.now() >= deadline:
            samples = sum(sum(datum.counts) for parts in places.values() for datum in parts)
            return ReadBack(len(places), samples, differences)
        clock.sleep(min(5.0, max(0.1, wait_seconds / 10)))


_DATAPOINTS = 1440
"""Datapoints that one GetMetricStatistics call returns at most."""


def _compare(
    cloudwatch: CloudWatchClient, one: Series, dimensions: tuple[str, ...], parts: list[Datum]
) -> list[Difference]:
    resolution = parts[0].resolution
    times = sorted({datum.timestamp for datum in parts})
    points: list[DatapointTypeDef] = []
    start = times[0]
    while start <= times[-1]:
        end = min(
            start + timedelta(seconds=resolution * _DATAPOINTS), times[-1] + timedelta(seconds=resolution)
        )
        points += _statistics(cloudwatch, one, dimensions, start, end, resolution) or []
        start = end
    wanted = set(times)
    points = [point for point in points if point.get("Timestamp", start).astimezone(UTC) in wanted]
    values = [
        (value, count) for datum in parts for value, count in zip(datum.values, datum.counts, strict=True)
    ]
    expected = {
        "SampleCount": float(sum(count for _, count in values)),
        "Sum": math.fsum(value * count for value, count in values),
        "Minimum": min(value for value, _ in values),
        "Maximum": max(value for value, _ in values),
    }
    statistics: dict[str, float | None] = dict.fromkeys(expected)
    if points:
        statistics = {
            "SampleCount": sum(point.get("SampleCount", 0.0) for point in points),
            "Sum": math.fsum(point.get("Sum", 0.0) for point in points),
            "Minimum": min(point.get("Minimum", math.inf) for point in points),
            "Maximum": max(point.get("Maximum", -math.inf) for point in points),
        }
    return [
        Difference(one.name, dimensions, statistic, value, other)
        for statistic, value in expected.items()
        if (other := statistics[statistic]) is None
        or not math.isclose(value, other, rel_tol=1e-9, abs_tol=1e-12)
    ]
