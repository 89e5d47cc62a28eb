"""Services and Jobs, judged from objects of the cluster's API. Nothing is asked here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from specdec.errors import SpecdecError
from specdec.operate.nodes import Step

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from specdec.experiment.fields import Experiment
    from specdec.operate.kubernetes import Kubectl

Object = dict[str, Any]

NAME_LABEL = "app.kubernetes.io/name"
BENCHMARK = "llmperf"
"""Value of the name label of every benchmark Job; a test holds it equal to the chart's."""

HOPELESS = frozenset(
    {
        "CreateContainerConfigError",
        "CreateContainerError",
        "ErrImageNeverPull",
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
    }
)
"""Reasons of a waiting container that no waiting mends (kubelet, pkg/kubelet/images and kuberuntime)."""


def status(kubectl: Kubectl, experiment: Experiment) -> list[Step]:
    """Services and Jobs of the experiment, the latest Job of each workload.

    Raises:
        SpecdecError: the cluster cannot be asked, or refuses.
    """
    deployments = {item["metadata"]["name"]: item for item in kubectl.items("deployments")}
    pods = kubectl.items("pods")
    steps = [
        judge_service(variant.service, deployments.get(variant.service), pods_of(pods, variant.service))
        for variant in experiment.variants
    ]
    jobs: dict[str, Object] = {}
    for item in sorted(kubectl.items("jobs"), key=lambda item: item["metadata"]["creationTimestamp"]):
        # A later benchmark run is another Job of the same workload, and how the earlier one ended no longer
        # matters.
        jobs[item["metadata"].get("labels", {}).get(NAME_LABEL, item["metadata"]["name"])] = item
    steps += [judge_job(item, pods_of_job(pods, item)) for item in jobs.values()]
    return [*_volumes(kubectl), *steps]


def _volumes(kubectl: Kubectl) -> Iterator[Step]:
    """Claims that have no volume; those that have one say nothing."""
    unbound = [
        claim
        for claim in kubectl.items("persistentvolumeclaims")
        if claim.get("status", {}).get("phase") != "Bound"
    ]
    if unbound:
        try:
            volumes = {item["metadata"]["name"]: item for item in kubectl.items("persistentvolumes")}
        except SpecdecError:
            # A viewer of the namespace may not read what belongs to no namespace.
            volumes = {}
        yield from (judge_claim(claim, volumes.get(claim["spec"]["volumeName"])) for claim in unbound)


def judge_claim(claim: Object, volume: Object | None) -> Step:
    """Why a claim has no volume. A volume whose claim was deleted, with its namespace for one, keeps that
    claim's id and binds to no other (Kubernetes, "Persistent Volumes", reclaiming).
    """
    name, phase = claim["metadata"]["name"], claim.get("status", {}).get("phase", "Pending")
    since = claim["metadata"].get("creationTimestamp")
    last = (volume or {}).get("status", {}).get("phase")
    if last in ("Released", "Failed") or phase == "Lost":
        words = (
            f"{phase.lower()}, and its volume is {(last or 'gone').lower()}: an earlier claim was deleted by"
            f" hand. kubectl delete persistentvolume {name}, then apply the chart model-storage again; the"
            " bucket stays as it is"
        )
        return Step(f"volume {name}", "failed", words, since, "Kubernetes")
    return Step(f"volume {name}", "waiting", phase.lower(), since, "Kubernetes")


def pods_of(pods: Iterable[Object], name: str) -> list[Object]:
    """Pods of one workload by its name label."""
    return [pod for pod in pods if pod["metadata"].get("labels", {}).get(NAME_LABEL) == name]


def pods_of_job(pods: Iterable[Object], job: Object) -> list[Object]:
    """Pods that a Job made."""
    name = job["metadata"]["name"]
    return [
        pod
        for pod in pods
        if any(owner.get("name") == name for owner in pod["metadata"].get("ownerReferences", []))
    ]


def unfinished(jobs: Iterable[Object]) -> list[Object]:
    """Benchmark Jobs that have neither completed nor failed."""
    return [
        job
        for job in jobs
        if job["metadata"].get("labels", {}).get(NAME_LABEL) == BENCHMARK
        and not {"Complete", "Failed"} & _true_conditions(job).keys()
    ]


def why_not_ready(pods: Sequence[Object]) -> tuple[str | None, bool]:
    """Why pods do not run, in the cluster's own words, and whether waiting is pointless."""
    for pod in pods:
        state = pod.get("status", {})
        unscheduled = [
            condition
            for condition in state.get("conditions", [])
            if condition["type"] == "PodScheduled" and condition["status"] == "False"
        ]
        for condition in unscheduled:
            return str(condition.get("message") or condition.get("reason")), False
        for container in (*state.get("initContainerStatuses", []), *state.get("containerStatuses", [])):
            waiting = container.get("state", {}).get("waiting", {})
            reason = waiting.get("reason")
            # These two are said of every pod for a moment.
            if reason and reason not in ("ContainerCreating", "PodInitializing"):
                message = waiting.get("message")
                words = f"{container['name']}: {reason}" + (f", {message}" if message else "")
                return words, reason in HOPELESS
    return None, False


def judge_service(name: str, deployment: Object | None, pods: Sequence[Object]) -> Step:
    """How far a service is, and why it is not ready."""
    what = f"service {name}"
    if deployment is None:
        return Step(what, "failed", "there is no such Deployment", None, "Kubernetes")
    ready, wanted = deployment["status"].get("readyReplicas", 0), deployment["spec"].get("replicas", 1)
    if wanted == 0:
        words = "scaled to 0; the benchmark starts it for its phase"
        return Step(what, "waiting", words, None, "Kubernetes")
    conditions = {condition["type"]: condition for condition in deployment["status"].get("conditions", [])}
    progressing = conditions.get("Progressing", {})
    if ready >= wanted > 0:
        since = conditions.get("Available", {}).get("lastTransitionTime")
        return Step(what, "done", "ready", since, "Kubernetes")
    since, (reason, hopeless) = progressing.get("lastTransitionTime"), why_not_ready(pods)
    if progressing.get("status") == "False":
        words = "; ".join(part for part in (str(progressing.get("message", "")), reason) if part)
        return Step(what, "failed", words, since, "Kubernetes")
    words = f"{ready} of {wanted} ready" + (f": {reason}" if reason else "")
    return Step(what, "failed" if hopeless else "waiting", words, since, "Kubernetes")


def judge_job(job: Object, pods: Sequence[Object]) -> Step:
    """How far a Job is. A pod that is only pending does not run."""
    name, conditions = f"job {job['metadata']['name']}", _true_conditions(job)
    if "Failed" in conditions:
        failed = conditions["Failed"]
        words = f"{failed.get('reason')}: {failed.get('message')}"
        return Step(name, "failed", words, failed.get("lastTransitionTime"), "Kubernetes")
    if "Complete" in conditions:
        since = conditions["Complete"].get("lastTransitionTime")
        return Step(name, "done", "complete", since, "Kubernetes")
    since = job["status"].get("startTime")
    if job["status"].get("ready", 0):
        return Step(name, "waiting", "running", since, "Kubernetes")
    reason, hopeless = why_not_ready(pods)
    if job["status"].get("active", 0):
        words = f"its pod does not run yet: {reason or 'starting'}"
        return Step(name, "failed" if hopeless else "waiting", words, since, "Kubernetes")
    return Step(name, "waiting", "not started", since, "Kubernetes")


def _true_conditions(item: Object) -> dict[str, Object]:
    return {
        condition["type"]: condition
        for condition in item.get("status", {}).get("conditions", [])
        if condition["status"] == "True"
    }
