"""The stand-in cluster: what it keeps, prunes, refuses; and the stand-in tools that tell it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from specdec.rehearsal.emulator.cluster import Call, Cluster, Manifest, key, read, split
from tests.emulated.account import DrilledAws

pytestmark = pytest.mark.slow


def thing(
    kind: str, name: str, namespace: str = "specdec", label: str | None = None, api: str = "v1"
) -> Manifest:
    labels = {"labels": {label: ""}} if label else {}
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": namespace, **labels}}


def kubectl(verb: str, *objects: Manifest, more: tuple[str, ...] = (), exit_code: int = 0) -> Call:
    return Call(
        "us-east-2", "kubectl", (verb, "--kubeconfig", "k", "-f", "f", *more), objects, exit_code=exit_code
    )


def names(cluster: Cluster) -> set[str]:
    return {identity[3] for identity in cluster.objects}


def test_a_file_of_objects_without_separators() -> None:
    assert split('{"a": 1}{"b": 2}\n {"c": 3}') == [{"a": 1}, {"b": 2}, {"c": 3}]
    with pytest.raises(ValueError, match="Expecting"):
        split('{"a": 1}{')


def test_a_kind_is_told_apart_by_group_and_not_by_version() -> None:
    assert key(thing("ResourceClaimTemplate", "c", api="resource.k8s.io/v1")) == key(
        thing("ResourceClaimTemplate", "c", api="resource.k8s.io/v1beta2")
    )
    assert key(thing("Job", "j", api="batch/v1")) != key(thing("Job", "j", api="v1"))


def test_what_is_created_stays_until_it_is_deleted() -> None:
    created, deleted = (
        kubectl("create", thing("Job", "a"), thing("Job", "b")),
        kubectl("delete", thing("Job", "a")),
    )
    assert names(Cluster([created])) == {"a", "b"}
    assert names(Cluster([created, deleted])) == {"b"}
    assert names(Cluster([kubectl("create", thing("Job", "a"), exit_code=1)])) == set()


def test_creating_what_exists_is_refused() -> None:
    cluster = Cluster([kubectl("create", thing("Job", "a", api="batch/v1"))])
    refused = cluster.refusal(kubectl("create", thing("Job", "a", api="batch/v1")))
    assert refused == 'Error from server (AlreadyExists): jobs.batch "a" already exists'
    assert cluster.refusal(kubectl("apply", thing("Job", "a", api="batch/v1"))) is None
    assert cluster.refusal(kubectl("create", thing("Job", "a", "other", api="batch/v1"))) is None


def test_pruning_takes_what_left_the_manifest_but_only_kinds_that_kubectl_prunes() -> None:
    before = kubectl(
        "create",
        thing("Job", "old", label="mine"),
        thing("ServiceAccount", "account", label="mine"),
        thing("Job", "kept", label="mine"),
    )
    other = kubectl("create", thing("Job", "other", label="theirs"))
    after = kubectl("apply", thing("Job", "kept", label="mine"), more=("--prune", "-l", "mine"))
    assert names(Cluster([before, other, after])) == {"account", "kept", "other"}


def test_a_namespace_takes_its_objects_with_it() -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "specdec"}}
    calls = [
        kubectl("create", namespace, thing("Job", "a"), thing("Job", "b", "other")),
        kubectl("delete", namespace),
    ]
    assert names(Cluster(calls)) == {"b"}


def test_a_release_knows_the_version_that_was_pulled() -> None:
    pull = Call("r", "helm", ("pull", "oci://registry/group/chart", "--version", "1.2", "--untar"))
    upgrade = Call(
        "r", "helm", ("upgrade", "name", "/tmp/x/chart", "--install", "--namespace", "ns"), values={"a": 1}
    )
    (release,) = Cluster([pull, upgrade]).releases.values()
    assert (release.chart, release.version, release.namespace, release.values) == (
        "oci://registry/group/chart",
        "1.2",
        "ns",
        {"a": 1},
    )
    assert (
        Cluster([pull, upgrade, Call("r", "helm", ("uninstall", "name", "--namespace", "ns"))]).releases == {}
    )


def test_a_call_survives_its_line() -> None:
    call = kubectl("create", thing("Job", "a"))
    assert read([call.line()]) == [call]


class Tools:
    """The stand-ins as the CDK's handlers find them."""

    def __init__(self, account: DrilledAws, folder: Path) -> None:
        self.account, self._folder = account, folder

    def run(self, tool: str, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.account.state_dir / "bin" / tool), *arguments],
            env={"AWS_REGION": "eu-west-1"},
            cwd=self._folder,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )

    def kubectl(self, verb: str, *objects: Manifest) -> subprocess.CompletedProcess[str]:
        file = self._folder / "manifest.yaml"
        file.write_text("".join(json.dumps(manifest) for manifest in objects), encoding="utf-8")
        return self.run("kubectl", verb, "--kubeconfig", "k", "-f", str(file))


@pytest.fixture
def tools(account: DrilledAws, tmp_path: Path) -> Tools:
    return Tools(account, tmp_path)


def test_kubectl_records_and_refuses(tools: Tools) -> None:
    job: dict[str, Any] = thing("Job", "recorded", api="batch/v1")
    assert tools.kubectl("create", job).returncode == 0
    assert job in tools.account.recorded_manifests("eu-west-1")
    again = tools.kubectl("create", job)
    assert (again.returncode, "AlreadyExists" in again.stderr) == (1, True)
    tools.account.refuse({"Job/other": "no room"})
    refused = tools.kubectl("apply", thing("Job", "other", api="batch/v1"))
    assert (refused.returncode, refused.stderr.strip()) == (1, "no room")
    assert tools.kubectl("delete", job).returncode == 0
    assert tools.account.recorded_manifests("eu-west-1") == []


def test_helm_needs_a_version_and_unpacks_into_a_folder(tools: Tools, tmp_path: Path) -> None:
    assert tools.run("helm", "pull", "oci://r/chart", "--untar").returncode == 1
    assert tools.run("helm", "pull", "oci://r/chart", "--version", "1", "--untar").returncode == 0
    assert (tmp_path / "chart").is_dir()


def test_a_login_through_a_pipe_does_not_lock_itself_out(tools: Tools) -> None:
    assert (
        tools.run(
            "helm", "registry", "login", "--username", "AWS", "--password-stdin", "r", stdin="secret"
        ).returncode
        == 0
    )


def test_a_command_it_does_not_know_fails(tools: Tools) -> None:
    answer = tools.run("aws", "ec2", "terminate-instances")
    assert (answer.returncode, "does not know" in answer.stderr) == (1, True)
