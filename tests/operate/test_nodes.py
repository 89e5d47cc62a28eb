from __future__ import annotations

import io
from pathlib import Path
from typing import Any, Literal

import pytest
from botocore.response import StreamingBody

from specdec.commands.run import not_there, refuse_beside
from specdec.commands.wait import matters, over, weights_there
from specdec.errors import SpecdecError
from specdec.experiment.reading import load, parse
from specdec.operate import kubernetes, workloads
from specdec.operate.clone import with_region
from specdec.operate.nodes import Step, latest_run, resize, status
from specdec.runs.manifest import RunManifest
from tests.operate.conftest import DEFAULT, REGION, StubbedAws, moment

EXPERIMENT = load(DEFAULT)
STACK = EXPERIMENT.stack_name(REGION)


def manifest(
    status: Literal["complete", "interrupted", "failed"], problem: str | None = None
) -> StreamingBody:
    made = RunManifest(
        run="20261129T130000Z-aaaaaa",
        status=status,
        experiment="e",
        configuration={},
        configuration_hash="h",
        started_utc="2026-11-29T12:00:00Z",
        ended_utc="2026-11-29T13:00:00Z",
        environment={},
        variants={},
        counts={},
        server_counters={},
        records_sha256="s",
        problem=problem,
    )
    text = made.to_json().encode()
    return StreamingBody(io.BytesIO(text), len(text))


def group(aws: StubbedAws, *, desired: int, issues: list[dict[str, Any]] | None = None) -> None:
    aws.answers("eks", "list_nodegroups", {"nodegroups": ["system", "accelerator-us-east-2b-on-demand"]})
    described = {
        "status": "ACTIVE",
        "scalingConfig": {"minSize": 0, "maxSize": 1, "desiredSize": desired},
        "health": {"issues": issues or []},
    }
    aws.answers("eks", "describe_nodegroup", {"nodegroup": described})


def applied(aws: StubbedAws, at: str) -> None:
    resources = [
        {
            "LogicalResourceId": name,
            "ResourceType": "Custom::AWSCDK-EKS-KubernetesResource",
            "LastUpdatedTimestamp": moment(when),
            "ResourceStatus": "CREATE_COMPLETE",
        }
        for name, when in (("WorkloadsllmperfB6A996A8", at), ("Workloadsqwenvllm133D", "2026-11-30T00:00:00"))
    ]
    aws.answers("cloudformation", "list_stack_resources", {"StackResourceSummaries": resources})


@pytest.mark.parametrize(
    ("at", "state"),
    [
        # A pod may begin before CloudFormation notes that its Job was applied.
        ("2026-11-29T13:00:30", "done"),
        ("2026-11-29T12:00:00", "done"),
        ("2026-11-29T18:00:00", "waiting"),
    ],
)
def test_a_run_of_an_earlier_deployment_is_not_that_of_this_one(aws: StubbedAws, at: str, state: str) -> None:
    stack = {
        "StackName": "s",
        "StackStatus": "CREATE_COMPLETE",
        "CreationTime": moment("2026-11-29T09:00:00"),
    }
    outputs = {"Outputs": [{"OutputKey": "Bucket", "OutputValue": "b"}]}
    for _ in range(2):
        aws.answers("cloudformation", "describe_stacks", {"Stacks": [stack | outputs]})
    run = {"Key": "runs/20261129T130000Z-aaaaaa/manifest.json", "LastModified": moment("2026-11-29T13:30:00")}
    aws.answers("s3", "list_objects_v2", {"Contents": [run]})
    aws.answers("s3", "get_object", {"Body": manifest("complete")})
    applied(aws, at)
    step = latest_run(EXPERIMENT, REGION, aws.clients)
    assert step is not None
    assert step.state == state
    assert "20261129T130000Z-aaaaaa: complete" in step.detail


def test_without_the_cluster_a_wait_is_over_once_the_deployed_benchmark_has_run() -> None:
    jobs = [Step("job llmperf-1a", "waiting", "running", None, "")]
    for state, expected in (("done", True), ("failed", True), ("waiting", False)):
        benchmark = Step("benchmark", state, "", None, "S3")
        assert over([benchmark], asked=False) is expected
        # The cluster knows better: a run that was started since has not ended.
        assert not over([benchmark, *jobs], asked=True)


def test_pods_that_wait_for_weights_do_not_end_a_wait() -> None:
    pending = Step("alarm AlarmsPodsPending1A-X", "failed", "", "2026-11-29T13:01:00+00:00", "CloudWatch")
    began = "2026-11-29T13:00:00+00:00"
    assert matters(pending, began, staged=True)
    assert not matters(pending, began, staged=False)
    weights = [Step("weights of a", "done", "", None, ""), Step("weights of b", "waiting", "", None, "")]
    assert not weights_there(weights)
    assert weights_there(weights[:1])
    assert not weights_there([])


def test_nodes_up(aws: StubbedAws) -> None:
    group(aws, desired=0)
    aws.answers("eks", "update_nodegroup_config", {"update": {"id": "1"}})
    assert resize(EXPERIMENT, REGION, aws.clients, nodes=1) == "accelerator-us-east-2b-on-demand"


def test_more_nodes_than_the_group_may_have_are_refused_before_the_call(aws: StubbedAws) -> None:
    group(aws, desired=0)
    with pytest.raises(SpecdecError, match="2 nodes requested, and at most 1 are allowed"):
        resize(EXPERIMENT, REGION, aws.clients, nodes=2)


def test_nodes_of_a_stack_that_is_not_deployed(aws: StubbedAws) -> None:
    aws.fails("eks", "list_nodegroups", "ResourceNotFoundException")
    with pytest.raises(SpecdecError, match="not deployed"):
        resize(EXPERIMENT, REGION, aws.clients, nodes=1)


def test_status_names_what_eks_complains_of(aws: StubbedAws) -> None:
    group(
        aws,
        desired=1,
        issues=[{"code": "AsgInstanceLaunchFailures", "message": "no capacity", "resourceIds": []}],
    )
    aws.answers("ec2", "describe_instances", {"Reservations": []})
    aws.fails("cloudformation", "describe_stacks", "ValidationError", "Stack with id x does not exist")
    aws.fails("cloudwatch", "describe_alarms", "AccessDenied", status=403)
    steps = {step.name: step for step in status(EXPERIMENT, REGION, aws.clients)}
    assert steps["capacity"].state == "failed"
    assert "AsgInstanceLaunchFailures: no capacity" in steps["capacity"].detail
    assert steps["instances running"].detail == "0 of 1"
    assert steps["alarms"].state == "not known"


def test_status_tells_what_is_in_the_bucket_and_since_when(aws: StubbedAws) -> None:
    group(aws, desired=1)
    running = {"State": {"Name": "running"}, "LaunchTime": moment("2026-11-29T10:00:00")}
    aws.answers("ec2", "describe_instances", {"Reservations": [{"Instances": [running]}]})
    stack = {
        "StackName": "s",
        "StackStatus": "CREATE_COMPLETE",
        "CreationTime": moment("2026-11-29T09:00:00"),
    }
    aws.answers("cloudformation", "describe_stacks", {"Stacks": [stack]})
    aws.answers(
        "cloudformation",
        "describe_stacks",
        {"Stacks": [{**stack, "Outputs": [{"OutputKey": "Bucket", "OutputValue": "b"}]}]},
    )
    aws.answers("s3", "head_object", {"LastModified": moment("2026-11-29T11:00:00")})
    aws.answers("s3", "head_object", {"LastModified": moment("2026-11-29T11:01:00")})
    aws.answers("s3", "head_object", {"LastModified": moment("2026-11-29T12:00:00")})
    aws.fails("s3", "head_object", "404", status=404)
    run = {"Key": "runs/20261129T130000Z-aaaaaa/manifest.json", "LastModified": moment("2026-11-29T13:00:00")}
    unfinished = {
        "Key": "runs/20261129T140000Z-bbbbbb/records.jsonl",
        "LastModified": moment("2026-11-29T14:00:00"),
    }
    aws.answers("s3", "list_objects_v2", {"Contents": [run, unfinished]})
    aws.answers("s3", "get_object", {"Body": manifest("failed", "no answer from qwen-vllm")})
    applied(aws, "2026-11-29T09:30:00")
    left = {
        "AlarmName": f"{STACK}-AlarmsNodesLeftRunning1A-X",
        "StateUpdatedTimestamp": moment("2026-11-29T22:00:00"),
    }
    aws.answers(
        "cloudwatch",
        "describe_alarms",
        {"MetricAlarms": [left, {"AlarmName": f"{STACK}-AlarmsNeuronErrors2B-Y"}]},
    )
    steps = {step.name: step for step in status(EXPERIMENT, REGION, aws.clients)}
    assert steps["instances running"].state == "done"
    assert steps["weights of Qwen/Qwen3-32B"].since == "2026-11-29T11:00:00+00:00"
    assert (steps["artifact of baseline"].state, steps["artifact of speculative"].state) == (
        "done",
        "waiting",
    )
    assert steps["benchmark"].state == "failed"
    assert steps["benchmark"].detail == "run 20261129T130000Z-aaaaaa: failed: no answer from qwen-vllm"
    assert steps["alarm AlarmsNodesLeftRunning1A-X"].state == "waiting"
    assert steps["alarm AlarmsNeuronErrors2B-Y"].state == "failed"


class Kubectl(kubernetes.Kubectl):
    """A cluster whose objects are given."""

    def __init__(self, **objects: list[dict[str, Any]]) -> None:
        self.objects = objects

    def items(self, kind: str) -> list[dict[str, Any]]:
        return self.objects.get(kind, [])


def test_what_the_cluster_says_of_services_and_jobs() -> None:
    ready = {"metadata": {"name": "qwen-vllm"}, "spec": {"replicas": 1}, "status": {"readyReplicas": 1}}
    late = {
        "metadata": {"name": "qwen-sd-vllm"},
        "spec": {"replicas": 1},
        "status": {
            "conditions": [{"type": "Progressing", "status": "False", "message": "deadline exceeded"}]
        },
    }
    failed = {
        "metadata": {"name": "llmperf-a", "creationTimestamp": "2026-11-29T10:00:00Z"},
        "spec": {},
        "status": {
            "conditions": [
                {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "gave up"}
            ]
        },
    }
    steps = workloads.status(Kubectl(deployments=[ready, late], jobs=[failed]), EXPERIMENT)
    assert [(step.name, step.state) for step in steps] == [
        ("service qwen-vllm", "done"),
        ("service qwen-sd-vllm", "failed"),
        ("job llmperf-a", "failed"),
    ]
    assert steps[2].detail == "BackoffLimitExceeded: gave up"


def test_a_later_run_makes_the_earlier_one_forgotten() -> None:
    def job(name: str, hour: int, condition: str) -> dict[str, Any]:
        labels = {"app.kubernetes.io/name": "llmperf"}
        return {
            "metadata": {"name": name, "creationTimestamp": f"2026-11-29T{hour}:00:00Z", "labels": labels},
            "spec": {},
            "status": {"conditions": [{"type": condition, "status": "True"}]},
        }

    later, earlier = job("llmperf-a-2", 12, "Complete"), job("llmperf-a", 10, "Failed")
    steps = workloads.status(Kubectl(deployments=[], jobs=[later, earlier]), EXPERIMENT)
    assert [(step.name, step.state) for step in steps if step.name.startswith("job")] == [
        ("job llmperf-a-2", "done")
    ]
    assert over(steps)
    assert not over([])


def pod(name: str, *, message: str = "", reason: str = "") -> dict[str, Any]:
    """A pod of a workload that is not scheduled, or one whose container waits."""
    unscheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    waiting = {"name": "server", "state": {"waiting": {"reason": reason, "message": "not found"}}}
    return {
        "metadata": {
            "name": f"{name}-1",
            "labels": {"app.kubernetes.io/name": name},
            "ownerReferences": [{"name": name}],
        },
        "status": {"conditions": [unscheduled]} if message else {"containerStatuses": [waiting]},
    }


@pytest.mark.parametrize(
    ("made", "state", "words"),
    [
        (pod("qwen-vllm", message="0/2 nodes: 1 Insufficient cpu"), "waiting", "1 Insufficient cpu"),
        (pod("qwen-vllm", message="1 node(s) had untolerated taint"), "waiting", "untolerated taint"),
        (pod("qwen-vllm", reason="ImagePullBackOff"), "failed", "server: ImagePullBackOff, not found"),
        (pod("qwen-vllm", reason="CrashLoopBackOff"), "waiting", "server: CrashLoopBackOff"),
        (pod("qwen-vllm", reason="ContainerCreating"), "waiting", "0 of 1 ready"),
    ],
)
def test_a_service_says_why_it_is_not_ready(made: dict[str, Any], state: str, words: str) -> None:
    deployment = {"metadata": {"name": "qwen-vllm"}, "spec": {"replicas": 1}, "status": {}}
    step = workloads.judge_service("qwen-vllm", deployment, [made])
    assert step.state == state
    assert words in step.detail


def test_a_service_that_waits_for_its_phase_is_neither_ready_nor_failed() -> None:
    deployment = {"spec": {"replicas": 0}, "status": {}}
    step = workloads.judge_service("qwen-sd-vllm", deployment, [])
    assert (step.state, step.detail) == ("waiting", "scaled to 0; the benchmark starts it for its phase")


def test_a_pending_pod_does_not_run() -> None:
    job: dict[str, Any] = {
        "metadata": {"name": "llmperf-a", "labels": {"app.kubernetes.io/name": "llmperf"}},
        "spec": {},
        "status": {"active": 1, "ready": 0},
    }
    pending = pod("llmperf-a", message="0/1 nodes are available: 1 Insufficient cpu.")
    step = workloads.judge_job(job, [pending])
    assert step.detail == "its pod does not run yet: 0/1 nodes are available: 1 Insufficient cpu."
    job["status"] = {"active": 1, "ready": 1}
    assert workloads.judge_job(job, []).detail == "running"
    with pytest.raises(SpecdecError, match="llmperf-a has not ended"):
        refuse_beside([job])
    job["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    refuse_beside([job])


def test_a_run_leaves_the_config_maps_of_the_stack_with_their_labels() -> None:
    there = {"kind": "ConfigMap", "metadata": {"name": "llmperf-1", "labels": {"aws.cdk.eks/prune-c8": ""}}}
    same = {"kind": "ConfigMap", "metadata": {"name": "llmperf-1"}}
    other, job = (
        {"kind": kind, "metadata": {"name": name}}
        for kind, name in (("ConfigMap", "llmperf-2"), ("Job", "llmperf-1"))
    )
    assert not_there([same, other, job], [there]) == [other, job]


def claim(phase: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "models-1", "creationTimestamp": "2026-11-29T10:00:00Z"},
        "spec": {"volumeName": "models-1"},
        "status": {"phase": phase},
    }


@pytest.mark.parametrize(
    ("phase", "volume", "state", "words"),
    [
        ("Pending", "Released", "failed", "kubectl delete persistentvolume models-1"),
        ("Lost", "Bound", "failed", "kubectl delete persistentvolume models-1"),
        ("Lost", None, "failed", "its volume is gone"),
        ("Pending", "Available", "waiting", "pending"),
        ("Pending", None, "waiting", "pending"),
    ],
)
def test_a_volume_that_will_never_bind_says_how_to_mend_it(
    phase: str, volume: str | None, state: str, words: str
) -> None:
    """As after `kubectl delete namespace`, whose volume outlives it and remembers the claim that is gone."""
    volumes = [{"metadata": {"name": "models-1"}, "status": {"phase": volume}}] if volume else []
    cluster = Kubectl(persistentvolumeclaims=[claim(phase)], persistentvolumes=volumes)
    step = workloads.status(cluster, EXPERIMENT)[0]
    assert (step.name, step.state) == ("volume models-1", state)
    assert words in step.detail
    assert matters(step, "") is (state == "failed")


def test_a_volume_that_is_bound_is_not_spoken_of() -> None:
    steps = workloads.status(Kubectl(persistentvolumeclaims=[claim("Bound")]), EXPERIMENT)
    assert not [step for step in steps if step.name.startswith("volume")]


@pytest.mark.parametrize(
    ("words", "kind", "remedy"),
    [
        (
            "Unable to connect to the server: tls: failed to verify certificate: x509: certificate signed by"
            " unknown authority",
            kubernetes.Unreachable,
            "NO_PROXY",
        ),
        (
            "Unable to connect to the server: dial tcp 10.0.0.1:443: i/o timeout",
            kubernetes.Unreachable,
            "VPC",
        ),
        ('deployments.apps is forbidden: User "x" cannot list', SpecdecError, "admin_principal_arns"),
    ],
)
def test_what_kubectl_says_gets_the_remedy_that_mends_it(
    aws: StubbedAws,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: str,
    kind: type[SpecdecError],
    remedy: str,
) -> None:
    script = tmp_path / "kubectl"
    script.write_text(f"#!/bin/sh\necho '{words}' >&2\nexit 1\n", encoding="utf-8")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    aws.answers("eks", "describe_cluster", {"cluster": {"endpoint": "https://x", "certificateAuthority": {}}})
    with pytest.raises(SpecdecError) as caught:
        kubernetes.Kubectl(EXPERIMENT, REGION, aws.clients).items("deployments")
    assert type(caught.value) is kind
    assert remedy in str(caught.value.remedy)


def test_the_benchmark_has_the_charts_label() -> None:
    from charts.names import labels

    assert labels("llmperf", "benchmark")[workloads.NAME_LABEL] == workloads.BENCHMARK


@pytest.mark.parametrize(
    ("name", "state", "since", "expected"),
    [
        ("service qwen-vllm", "failed", None, True),
        ("service qwen-vllm", "waiting", None, False),
        ("benchmark", "failed", "2026-11-29T13:00:00+00:00", False),
        ("alarm BenchmarkFailed", "failed", "2026-11-29T12:59:00+00:00", False),
        ("alarm BenchmarkFailed", "failed", "2026-11-29T13:01:00+00:00", True),
    ],
)
def test_a_wait_ends_with_what_failed_since_it_began(
    name: str, state: str, since: str | None, expected: bool
) -> None:
    assert matters(Step(name, state, "", since, ""), "2026-11-29T13:00:00+00:00") is expected


def test_the_namespace_is_the_charts() -> None:
    from charts.names import NAMESPACE

    assert kubernetes.NAMESPACE == NAMESPACE


def test_a_region_is_added_without_touching_anything_else() -> None:
    text = DEFAULT.read_text(encoding="utf-8")
    cloned = with_region(text, region="ap-south-2", zone="ap-south-2a")
    assert parse(cloned).regions == ("us-east-2", "ap-south-2")
    assert parse(cloned).placement["ap-south-2"].zone == "ap-south-2a"
    added = [line for line in cloned.splitlines() if line not in text.splitlines()]
    assert added == [
        'regions = ["us-east-2", "ap-south-2"]',
        "[placement.ap-south-2]",
        'zone = "ap-south-2a"',
    ]
    assert with_region(cloned, region="ap-south-2", zone="ap-south-2b") == cloned


def test_the_node_group_is_found_by_the_name_the_stack_gives_it() -> None:
    from specdec.operate.nodes import PREFIX
    from trainium_constructs.trainium_nodes import node_group_name

    assert node_group_name(zone="us-east-2b", purchase="on-demand").startswith(PREFIX)
