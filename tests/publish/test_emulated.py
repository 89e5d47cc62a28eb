"""The benchmark pod, by its own start script, against an embedded account and a server of known truth."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError

from charts import pod_code
from specdec.analysis.judge import judge
from specdec.errors import NoAccessError, SpecdecError
from specdec.experiment.fields import Experiment
from specdec.experiment.reading import parse
from specdec.golden.settings import Settings
from specdec.golden.truth import Uniform
from specdec.metrics.tpot import tpot
from specdec.pod import benchmark as pod
from specdec.pod.settings import Settings as Orders
from specdec.publish import cloudwatch
from specdec.rehearsal.emulator import EmbeddedAws
from specdec.rehearsal.emulator.embedded import Session
from specdec.runs import bucket as run_bucket
from specdec.runs.folder import read_run
from tests.benchmark.cluster import Cluster
from tests.publish.runs import record, write

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
BUCKET, REGION = "runs-of-the-pod", "us-east-2"
PLAIN = Settings(ttft=0.01, step=0.004, per_step=Uniform(1, 1))


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Generator[EmbeddedAws, None, None]:
    with EmbeddedAws(tmp_path_factory.mktemp("account")) as account:
        account.session(REGION).client("s3").create_bucket(
            Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION}
        )
        yield account


@pytest.fixture
def session(aws: EmbeddedAws) -> Session:
    return aws.session(REGION)


def test_a_run_goes_to_the_bucket_manifest_last_and_comes_back_whole(
    session: Session, tmp_path: Path
) -> None:
    s3 = session.client("s3")
    folder = write(tmp_path / "run", [record()])
    (folder / "llmperf").mkdir()
    (folder / "llmperf" / "log.txt").write_text("log", encoding="utf-8")
    order: list[str] = []
    upload = s3.upload_file

    def watched(path: str, bucket: str, key: str, **more: Any) -> None:
        order.append(key)
        upload(path, bucket, key, **more)

    s3.upload_file = watched
    assert run_bucket.upload(folder, s3, BUCKET) == 3
    run = "20261129T120000Z-abc123"
    assert order[-1] == f"runs/{run}/manifest.json"
    assert run in [found.run for found in run_bucket.ended(s3, BUCKET)]
    back = run_bucket.download(run, s3, BUCKET, tmp_path / "back")
    for path in ("records.jsonl", "manifest.json", "llmperf/log.txt"):
        assert (back / path).read_bytes() == (folder / path).read_bytes()


def test_changed_records_an_unfinished_run_and_a_missing_one_are_told_apart(
    session: Session, tmp_path: Path
) -> None:
    s3 = session.client("s3")
    folder = write(tmp_path / "run", [record()])
    run_bucket.upload(folder, s3, BUCKET, run="changed")
    s3.put_object(Bucket=BUCKET, Key="runs/changed/records.jsonl", Body=b"{}\n")
    with pytest.raises(SpecdecError, match="is not the file that the manifest was written for"):
        run_bucket.download("changed", s3, BUCKET, tmp_path)
    (folder / "manifest.json").unlink()
    run_bucket.upload(folder, s3, BUCKET, run="cut")
    assert "cut" not in [found.run for found in run_bucket.ended(s3, BUCKET)]
    with pytest.raises(SpecdecError, match="is not finished"):
        run_bucket.download("cut", s3, BUCKET, tmp_path)
    with pytest.raises(SpecdecError, match="is not there"):
        run_bucket.download("never", s3, BUCKET, tmp_path)


def test_a_refused_upload_is_no_access_and_a_missing_bucket_is_named(
    session: Session, tmp_path: Path
) -> None:
    s3 = session.client("s3")
    folder = write(tmp_path / "run", [record()])
    with pytest.raises(SpecdecError, match="s3://nowhere-at-all/runs/"):
        run_bucket.upload(folder, s3, "nowhere-at-all")

    def refuse(*_: Any, **__: Any) -> None:
        details: Any = {"Error": {"Code": "AccessDenied"}, "ResponseMetadata": {"HTTPStatusCode": 403}}
        raise ClientError(details, "PutObject")

    s3.upload_file = refuse
    with pytest.raises(NoAccessError, match="cannot write"):
        run_bucket.upload(folder, s3, BUCKET)


@contextmanager
def golden(*options: str) -> Generator[str]:
    """A golden server in a process of its own."""
    command = [str(Path(sys.executable).with_name("specdec")), "golden", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout is not None
            line = ""
            while "http://" not in line:
                line = process.stdout.readline()
                assert line, "the golden server ended"
            yield "http://" + line.split("http://")[1].split()[0].rstrip("/.,;").removesuffix("/v1")
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def pod_python() -> Path:
    """A Python of the version that the pod's lists are locked for."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    named = shutil.which("python3.12")
    for candidate in [*sorted(pyenv.glob("3.12.*/bin/python3")), *([Path(named)] if named else [])]:
        # A pyenv shim is there and does not run where no 3.12 is selected.
        if subprocess.run([candidate, "-c", "import venv"], capture_output=True, check=False).returncode == 0:
            return candidate
    pytest.skip(
        "the pod's lists are locked for Python 3.12, and this machine has none: the start script was not run"
    )


def experiment_file(folder: Path, lanes: list[str]) -> Path:
    text = (ROOT / "experiment.toml").read_text(encoding="utf-8")
    raw = parse(text).resolved()
    raw["benchmark"] |= {
        "lanes": lanes,
        "output_tokens": 24,
        "repeats": 1,
        "concurrency": 4,
        "prompts": "published",
    }
    assert tomllib.loads(text)["name"] == raw["name"]
    path = folder / "experiment.json"
    path.write_text(json.dumps(raw), encoding="utf-8")
    return path


def orders(aws: EmbeddedAws, work: Path, services: dict[str, str], **changes: str) -> dict[str, str]:
    """The pod's environment, and its code from the chart's list: nothing else of this checkout."""
    code = work / "code"
    for name, text in pod_code.sources().items():
        (code / name).parent.mkdir(parents=True, exist_ok=True)
        (code / name).write_text(text, encoding="utf-8")
    return {
        **{
            name: value
            for name, value in os.environ.items()
            if name.startswith(("PIP_", "UV_", "SSL_", "REQUESTS_"))
        },
        **{name: value for name, value in aws.environment(REGION).items() if name.startswith("AWS_")},
        "AWS_REGION": REGION,
        "HOME": os.environ["HOME"],
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": str(code),
        "WORK": str(work),
        "EXPERIMENT": str(experiment_file(work, ["exact"])),
        "SERVICES": json.dumps(services),
        "STACK": "exp-us-east-2",
        "CLUSTER": "exp-us-east-2",
        "WAIT_SECONDS": "20",
        "BUCKET": BUCKET,
        **changes,
    }


@pytest.mark.slow
def test_the_pod_measures_publishes_and_stores_and_all_of_it_agrees(
    aws: EmbeddedAws, pod_python: Path, tmp_path: Path
) -> None:
    with (
        golden("--ttft-ms", "20", "--step-ms", "4") as plain,
        golden("--ttft-ms", "20", "--step-ms", "8", "--tokens-per-step", "4") as fast,
    ):
        environment = orders(
            aws, tmp_path, {"baseline": plain, "speculative": fast}, PATH=f"{pod_python.parent}:/usr/bin:/bin"
        )
        shutil.copytree(ROOT / "charts" / "pod", tmp_path / "files")
        ran = subprocess.run(
            ["bash", str(tmp_path / "files" / "start.sh")],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "baseline is ready" in ran.stdout
    s3 = aws.session(REGION).client("s3")
    run = next(line.split()[2] for line in ran.stdout.splitlines() if " run 2" in line)
    folder = run_bucket.download(run, s3, BUCKET, tmp_path / "back")
    found = read_run(folder)
    manifest, records = found.manifest, found.records
    assert (manifest.status, manifest.environment["stack"]) == ("complete", "exp-us-east-2")
    back = cloudwatch.read_back(
        folder, aws.session(REGION).client("cloudwatch"), experiment=manifest.experiment, wait_seconds=10
    )
    assert back.differences == ()
    assert back.samples > len(records)
    speculative = [
        value for one in records if one.variant == "speculative" and (value := tpot(one)) is not None
    ]
    assert sorted(speculative)[len(speculative) // 2] == pytest.approx(0.002, rel=0.15), "8 ms for 4 tokens"


def test_a_service_that_never_gets_ready_fails_the_pod_and_tells_the_alarm(
    aws: EmbeddedAws, tmp_path: Path
) -> None:
    with golden() as plain:
        environment = orders(
            aws, tmp_path, {"baseline": plain, "speculative": "http://127.0.0.1:9"}, WAIT_SECONDS="1"
        )
        ran = subprocess.run(
            [sys.executable, "-m", "specdec.pod"],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
    assert ran.returncode == 4, ran.stdout + ran.stderr
    assert "not ready 1 s after the first: speculative at http://127.0.0.1:9: /health" in ran.stderr
    names = [
        one["MetricName"]
        for one in aws.session(REGION)
        .client("cloudwatch")
        .list_metrics(Namespace="SpecDec/Run", MetricName="FailedRuns")["Metrics"]
    ]
    assert names


def test_a_pod_that_is_ended_stores_its_run_and_the_next_one_goes_on(
    aws: EmbeddedAws, tmp_path: Path
) -> None:
    s3 = aws.session(REGION).client("s3")
    command = [sys.executable, "-m", "specdec.pod"]
    run = "20261129T130000Z-abc123"
    with golden("--ttft-ms", "5", "--step-ms", "2") as plain:
        services = {"baseline": plain, "speculative": plain}
        first = orders(aws, tmp_path / "first", services, RUN=run)
        with subprocess.Popen(command, env=first, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as pod:
            assert pod.stdout is not None
            while " 20/" not in pod.stdout.readline():
                assert pod.poll() is None
            pod.terminate()
            pod.communicate(timeout=60)
        assert pod.returncode == 130
        kept = read_run(run_bucket.download(run, s3, BUCKET, tmp_path / "back"))
        assert kept.manifest.status == "interrupted"
        # The pod that takes its place has the same orders, and the one after that has nothing to do.
        second = orders(aws, tmp_path / "second", services, RUN=run)
        ran = subprocess.run(command, env=second, cwd=tmp_path, capture_output=True, text=True, timeout=100)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        name = next(
            line.split()[2] for line in ran.stdout.splitlines() if " run 2" in line and " of " in line
        )
        third = orders(aws, tmp_path / "third", services, RUN=name)
        idle = subprocess.run(command, env=third, cwd=tmp_path, capture_output=True, text=True, timeout=100)
        assert (idle.returncode, "is complete already" in idle.stdout) == (0, True)
    folder = run_bucket.download(name, s3, BUCKET, tmp_path / "back")
    resumed = read_run(folder)
    (seam,) = resumed.manifest.seams
    assert (resumed.manifest.status, seam.run, name != run) == ("complete", run, True)
    assert resumed.records[: seam.records] == tuple(r for r in kept.records if r in resumed.records)
    cloud = aws.session(REGION).client("cloudwatch")
    back = cloudwatch.read_back(folder, cloud, experiment=resumed.manifest.experiment, wait_seconds=10)
    assert back.samples > 0


def test_the_pod_serves_one_variant_after_the_other_and_says_what_each_phase_ran_on(
    aws: EmbeddedAws, tmp_path: Path
) -> None:
    """The whole pod: the cluster's API scales, servers of known truth answer, the account takes the run."""
    names = {"baseline": "qwen-vllm", "speculative": "qwen-sd-vllm"}
    fast = Settings(ttft=0.01, step=0.008, per_step=Uniform(4, 4))
    raw = parse((ROOT / "experiment.toml").read_text(encoding="utf-8")).resolved()
    raw["capacity"] |= {"max_nodes": 1}
    raw["benchmark"] |= {
        "lanes": ["exact"],
        "output_tokens": 12,
        "repeats": 2,
        "prompts": "published",
        "schedule": "sequential",
    }
    experiment = Experiment.model_validate_json(json.dumps(raw))
    cluster = Cluster(list(names.values()), lambda name, _: PLAIN if name == names["baseline"] else fast)
    orders = Orders(
        experiment=experiment,
        services={variant: cluster.urls[name] for variant, name in names.items()},
        bucket=BUCKET,
        region=REGION,
        stack="exp-us-east-2",
        cluster="exp-us-east-2",
        wait_seconds=20.0,
        work=tmp_path,
        llmperf_python=None,
        run="20261129T140000Z-abc123",
        deployments=names,
        poll_seconds=0.02,
    )
    try:
        cluster.scale(names["baseline"], 1)
        ended = pod.measure(orders, session=cast("Any", aws.session(REGION)), api=cluster.api(tmp_path))
    finally:
        cluster.close()
    assert ended == 0
    assert cluster.starts == [*names.values(), *names.values(), names["baseline"]]
    assert cluster.together == 1
    s3 = aws.session(REGION).client("s3")
    stored = read_run(run_bucket.download("20261129T140000Z-abc123", s3, BUCKET, tmp_path / "back"))
    told = stored.manifest.environment["phases"]
    assert [(phase["variant"], phase["node"]["kernel"]) for phase in told] == [
        ("baseline", "6.12.0"),
        ("speculative", "6.12.1"),
        ("baseline", "6.12.2"),
        ("speculative", "6.12.3"),
        ("baseline", "6.12.4"),
    ]
    assert {phase["libraries"]["driver"] for phase in told} == {"2.27"}
    verdict = judge(stored.manifest, stored.records)
    assert any(
        "node.kernel of baseline was 6.12.0 in its first phase and 6.12.2 in phase 3" in said
        for said in verdict.caveats
    )
    ratios = [row.tpot.value for row in verdict.comparisons if row.variant == "speculative" and row.tpot]
    assert len(ratios) == 8
    assert median(ratios) == pytest.approx(2.0, rel=0.3), "4 ms for a token, and 8 ms for 4"


def test_an_order_that_is_missing_is_named(aws: EmbeddedAws, tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "EXPERIMENT": "x"}
    ran = subprocess.run(
        [sys.executable, "-m", "specdec.pod"],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 2
    assert all(
        name in ran.stderr
        for name in ("SERVICES", "BUCKET", "AWS_REGION", "STACK", "CLUSTER", "WAIT_SECONDS")
    )
