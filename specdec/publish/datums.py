"""From the records of a run to CloudWatch datums: pure, and within the service's limits.

Limits: https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricData.html and
``API_MetricDatum.html``.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from specdec.errors import SpecdecError
from specdec.metrics import OF_RUN
from specdec.metrics.definition import Metric
from specdec.metrics.objective import Objective, objective_of
from specdec.metrics.tpot import TPOT
from specdec.metrics.ttft import TTFT
from specdec.publish import series
from specdec.publish.series import Series
from specdec.runs.manifest import RunManifest
from specdec.runs.record import SELF_CHECK, RequestRecord, measured
from specdec.runs.seam import earlier_runs
from specdec.text import parse_utc

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch.type_defs import MetricDatumTypeDef

MAX_DATUMS = 1000
"""Datums in one call."""
MAX_VALUES = 150
"""Different values in one datum."""
MAX_BYTES = 1_000_000
"""One call, before compression."""
MAX_DIMENSIONS = 30
MAX_AGE = timedelta(days=14)
"""Older datums are refused."""
_SMALLEST, _LARGEST = 2.0**-360, 2.0**360
"""Magnitudes that a value may have beside 0."""

Resolution = Literal[1, 60]
"""Seconds per point that CloudWatch keeps."""


@dataclass(frozen=True, slots=True)
class Datum:
    """Values of one series at one time, as a distribution: different values and how often each occurred.

    Attributes:
        series: what is measured.
        dimensions: values of ``series.dimensions``.
        timestamp: UTC, cut to the resolution.
        values: different values, ascending.
        counts: how often each occurred.
        part: 0, or higher where one time has more different values than a datum holds.
        resolution: seconds per point.
    """

    series: Series
    dimensions: tuple[str, ...]
    timestamp: datetime
    values: tuple[float, ...]
    counts: tuple[int, ...]
    part: int = 0
    resolution: Resolution = 60

    def key(self, run: str) -> str:
        """A key that tells this datum from all others of the same run. Two datums of one key would be
        published twice.
        """
        return "|".join(
            [
                run,
                self.series.namespace,
                self.series.name,
                *self.dimensions,
                self.timestamp.strftime("%Y%m%dT%H%M%SZ"),
                str(self.part),
            ]
        )

    def request(self) -> MetricDatumTypeDef:
        """The datum as ``put_metric_data`` takes it."""
        return {
            "MetricName": self.series.name,
            "Dimensions": [
                {"Name": name, "Value": value}
                for name, value in zip(self.series.dimensions, self.dimensions, strict=True)
            ],
            "Timestamp": self.timestamp,
            "Values": list(self.values),
            "Counts": [float(count) for count in self.counts],
            "Unit": self.series.unit,
            "StorageResolution": self.resolution,
        }

    def size(self) -> int:
        """Bytes the datum takes in a request, at most: its JSON form, which CBOR undercuts."""
        plain: dict[str, Any] = {**self.request(), "Timestamp": self.timestamp.isoformat()}
        return len(json.dumps(plain, allow_nan=False).encode()) + 2


def of_run(
    manifest: RunManifest,
    records: Sequence[RequestRecord],
    metrics: Iterable[Metric],
    *,
    experiment: str,
    high_resolution: bool = False,
) -> list[Datum]:
    """All datums of a run: each metric of each measured request, at the time the request was sent; then the
    run as a whole.

    A request for which a metric cannot be told gives no value to that metric. For a resumed run, metrics of
    single requests before the interruption are left out: the interrupted run published them.

    Args:
        manifest: of the run.
        records: of the run.
        metrics: what to compute from each record.
        experiment: value of the Experiment dimension.
        high_resolution: keep points of one second instead of one minute.

    Raises:
        ValueError: a metric gave a number that CloudWatch does not take (NaN, infinite, too small or too
            large).
    """
    resolution: Resolution = 1 if high_resolution else 60
    points: list[tuple[Series, tuple[str, ...], datetime, float]] = []
    chosen = [(metric, time_series) for metric in metrics for time_series in series.exact([metric])]
    exact = [record for record in records if record.lane == "exact"]
    loads = sorted({record.load for record in exact if not record.warmup})
    lowest = [record for record in exact if record.load in loads[:1]]
    earlier = earlier_runs(manifest.seams)
    for record in measured(record for record in lowest if record.run not in earlier):
        at = _cut(parse_utc(record.sent_utc), resolution)
        for metric, time_series in chosen:
            value = metric.of(record)
            if value is not None:
                points.append((time_series, (experiment, record.variant, record.test_case), at, value))
    ended = _cut(parse_utc(manifest.ended_utc), 60)
    for variant, case, percent in parity(manifest, lowest):
        points.append((series.PARITY, (experiment, variant, case), ended, percent))
    sent = [
        record
        for record in records
        if not record.warmup and record.run not in earlier and record.lane != SELF_CHECK
    ]
    for (variant, outcome), count in sorted(Counter((r.variant, r.outcome) for r in sent).items()):
        points.append((series.REQUESTS, (experiment, variant, outcome), ended, float(count)))
    objective = objective_of(manifest.configuration)
    for variant in sorted({record.variant for record in records}):
        own = [record for record in lowest if record.variant == variant and record.block >= 0]
        for metric, time_series in zip(OF_RUN, series.SERVICE, strict=True):
            total = metric.of(own, objective)
            if total is not None:
                points.append((time_series, (experiment, variant), ended, total))
    if len(loads) > 1:
        points.extend(_by_load(exact, earlier, experiment, objective, ended, resolution))
    points.append((series.FAILED_RUNS, (experiment,), ended, 0.0 if manifest.status == "complete" else 1.0))
    return list(distributions(points, resolution=resolution))


def _by_load(
    records: Sequence[RequestRecord],
    earlier: frozenset[str],
    experiment: str,
    objective: Objective | None,
    ended: datetime,
    resolution: Resolution,
) -> Iterator[tuple[Series, tuple[str, ...], datetime, float]]:
    for record in measured(record for record in records if record.run not in earlier):
        at = _cut(parse_utc(record.sent_utc), resolution)
        for metric, time_series in zip((TPOT, TTFT), series.BY_LOAD, strict=True):
            value = metric.of(record)
            if value is not None:
                dimensions = (experiment, record.variant, record.test_case, f"{record.load:g}")
                yield time_series, dimensions, at, value
    for variant, load in sorted({(record.variant, record.load) for record in records if record.block >= 0}):
        own = [r for r in records if (r.variant, r.load) == (variant, load) and r.block >= 0]
        for metric, time_series in zip(OF_RUN, series.SERVICE_BY_LOAD, strict=True):
            total = metric.of(own, objective)
            if total is not None:
                yield time_series, (experiment, variant, f"{load:g}"), ended, total


def failed_run(experiment: str, at: datetime) -> Datum:
    """The datum of a run that ended before it had a manifest."""
    return Datum(series.FAILED_RUNS, (experiment,), _cut(at, 60), (1.0,), (1,))


def parity(manifest: RunManifest, records: Iterable[RequestRecord]) -> Iterator[tuple[str, str, float]]:
    """(variant, test case, per cent of pairs with the baseline's text) for what was sent at temperature 0 and
    answered in full.
    """
    baselines = [name for name, facts in manifest.variants.items() if facts.get("role") == "baseline"]
    texts: dict[tuple[str, str], dict[tuple[str, int], str]] = defaultdict(dict)
    for record in measured(records):
        if record.temperature == 0:
            texts[record.variant, record.test_case][record.prompt, record.repeat] = record.text
    for (variant, case), own in texts.items():
        if not baselines or variant == baselines[0]:
            continue
        theirs = texts.get((baselines[0], case), {})
        pairs = own.keys() & theirs.keys()
        if pairs:
            yield variant, case, 100.0 * sum(own[pair] == theirs[pair] for pair in pairs) / len(pairs)


def distributions(
    points: Iterable[tuple[Series, tuple[str, ...], datetime, float]], *, resolution: Resolution = 60
) -> Iterator[Datum]:
    """Gathers single values into datums, one per series, dimensions and time, more where a datum cannot hold
    them.

    Raises:
        ValueError: a value that CloudWatch does not take, or dimensions that are not the series'.
    """
    gathered: dict[tuple[Series, tuple[str, ...], datetime], Counter[float]] = defaultdict(Counter)
    for time_series, dimensions, at, value in points:
        if not math.isfinite(value) or (value != 0 and not _SMALLEST <= abs(value) <= _LARGEST):
            raise ValueError(
                f"{time_series.namespace} {time_series.name} of {', '.join(dimensions)} is {value!r},"
                " which CloudWatch does not take"
            )
        if (
            len(dimensions) != len(time_series.dimensions)
            or len(dimensions) > MAX_DIMENSIONS
            or not all(dimensions)
        ):
            raise ValueError(
                f"{time_series.namespace} {time_series.name} has dimensions"
                f" {', '.join(time_series.dimensions)}; got {dimensions!r}"
            )
        gathered[time_series, dimensions, at][value] += 1
    for (time_series, dimensions, at), counter in gathered.items():
        values = sorted(counter)
        for part, first in enumerate(range(0, len(values), MAX_VALUES)):
            some = tuple(values[first : first + MAX_VALUES])
            yield Datum(
                time_series, dimensions, at, some, tuple(counter[value] for value in some), part, resolution
            )


def batches(datums: Iterable[Datum]) -> Iterator[list[Datum]]:
    """Datums by call: one namespace, at most ``MAX_DATUMS`` and ``MAX_BYTES`` each, in order.

    All parts of one series and time go into one call, so that what arrived of them can be told from their
    number of samples.
    """
    by_namespace: dict[str, dict[tuple[Series, tuple[str, ...], datetime], list[Datum]]] = defaultdict(dict)
    for datum in datums:
        by_namespace[datum.series.namespace].setdefault(
            (datum.series, datum.dimensions, datum.timestamp), []
        ).append(datum)
    for groups in by_namespace.values():
        batch: list[Datum] = []
        size = 1000
        for group in groups.values():
            extra = sum(datum.size() for datum in group)
            if batch and (len(batch) + len(group) > MAX_DATUMS or size + extra > MAX_BYTES):
                yield batch
                batch, size = [], 1000
            batch.extend(group)
            size += extra
        if batch:
            yield batch


def refuse_too_old(datums: Iterable[Datum], now: datetime) -> None:
    """CloudWatch takes nothing older than 14 days.

    Raises:
        SpecdecError: a datum is older.
    """
    oldest = min((datum.timestamp for datum in datums), default=now)
    if now - oldest > MAX_AGE:
        raise SpecdecError(
            f"the run is {(now - oldest).days} days old; CloudWatch takes nothing older than {MAX_AGE.days}"
            " days",
            remedy=(
                "Nothing was published. The run's records and report do not need CloudWatch: specdec report"
            ),
        )


def _cut(at: datetime, resolution: Resolution) -> datetime:
    return at.replace(microsecond=0) if resolution == 1 else at.replace(second=0, microsecond=0)
