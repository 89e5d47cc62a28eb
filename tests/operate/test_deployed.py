"""The commands as a user runs them, around one deployment of the real app to two regions of an embedded account.

What the emulator cannot answer has to come out as unknown, in words. Nothing here shows what AWS itself would say.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from specdec.cli import main
from specdec.experiment import load
from specdec.preflight.store import markers
from specdec.rehearsal.cdk import Cdk
from specdec.rehearsal.emulator import CHECKOUT, EmbeddedAws
from tests.operate.conftest import DEFAULT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

FIRST, SECOND = "us-east-2", "ap-south-2"
STACK = f"op-{FIRST}"
UNANSWERED = {"quota", "offering", "capacity blocks", "kubernetes", "add-ons"}
"""What the pinned emulator knows nothing about."""

NOT_THERE = {"node image"}
"""What every account has and the emulator has not; it refuses to be given a parameter under AWS's own path."""

KINDS = {
    "alarm",
    "bucket",
    "cluster",
    "dashboard",
    "ec2 instance",
    "ec2 vpc",
    "log group",
    "network interface",
    "role",
    "schedule",
    "volume",
}


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


@dataclass
class Account:
    """The embedded account, the experiment file in a folder, and what the commands said on the way, by a name for each."""

    aws: EmbeddedAws
    folder: Path
    said: dict[str, Ended] = field(default_factory=dict[str, Ended])
    buckets: dict[str, str] = field(default_factory=dict[str, str])

    def run(self, name: str, *arguments: str, path: Path | None = None) -> Ended:
        """Runs a command in this process, since fifteen interpreters would take half a minute to start."""
        environment = self.aws.environment(FIRST)
        if path is not None:
            environment["PATH"] = f"{path}:{environment['PATH']}"
        out, err = io.StringIO(), io.StringIO()
        with (
            mock.patch.dict(os.environ, environment, clear=True),
            mock.patch.object(sys, "argv", ["specdec", *arguments]),
            contextlib.chdir(self.folder),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            pytest.raises(SystemExit) as ended,
        ):
            main()
        assert isinstance(ended.value.code, int)
        self.said[name] = Ended(ended.value.code, out.getvalue(), err.getvalue())
        return self.said[name]

    def run_apart(self, name: str, *arguments: str) -> None:
        """Runs a command as a process of its own, with its output in pipes."""
        ran = subprocess.run(
            [sys.executable, "-m", "specdec", *arguments],
            cwd=self.folder,
            env=self.aws.environment(FIRST) | {"PYTHONPATH": str(CHECKOUT)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        self.said[name] = Ended(ran.returncode, ran.stdout, ran.stderr)

    def client(self, service: str, region: str = FIRST) -> Any:
        return self.aws.session(region).client(service)

    def contents(self, region: str) -> dict[str, bytes]:
        s3, bucket = self.client("s3", region), self.buckets[region]
        listed = s3.list_objects_v2(Bucket=bucket).get("Contents", [])
        return {entry["Key"]: s3.get_object(Bucket=bucket, Key=entry["Key"])["Body"].read() for entry in listed}


@pytest.fixture(scope="session")
def account(tmp_path_factory: pytest.TempPathFactory) -> Generator[Account]:
    """The whole life: looked at before, cloned, deployed, looked at, copied, used, destroyed, searched, littered, searched."""
    folder = tmp_path_factory.mktemp("operate")
    text = DEFAULT.read_text(encoding="utf-8").replace('name = "qwen3-specdec"', 'name = "op"')
    (folder / "experiment.toml").write_text(
        text + '\n[store]\non_destroy = "empty"\n\n[cost]\nnode_usd_per_hour = 40.0\n', encoding="utf-8"
    )
    with EmbeddedAws(folder / "aws") as aws:
        it = Account(aws, folder)
        _before(it)
        cdk = Cdk(aws, folder / "experiment.toml", folder / "cdk")
        cdk.bootstrap((FIRST, SECOND))
        it.run("clone", "clone", SECOND, "--zone", f"{SECOND}b")
        outputs = cdk.deploy()
        it.buckets = {region: outputs[f"op-{region}"]["Bucket"] for region in (FIRST, SECOND)}
        it.run("check after", "check", "--region", FIRST, "--json")
        _copy(it)
        _use(it)
        it.run("leftovers while deployed", "leftovers", "--json")
        cdk.destroy()
        it.run("leftovers after destroy", "leftovers", "--json")
        _litter(it)
        it.run("leftovers of litter", "leftovers", "--region", FIRST, "--json")
        yield it


def _before(it: Account) -> None:
    # Planted: a log group that the stack would make under the same name. An account without the CDK's bootstrap is one by nature.
    logs = it.client("logs")
    logs.create_log_group(logGroupName=f"/aws/eks/{STACK}/cluster")
    it.run("check before", "check", "--json")
    it.run_apart("check before, for people", "check")
    logs.delete_log_group(logGroupName=f"/aws/eks/{STACK}/cluster")


def _copy(it: Account) -> None:
    s3 = it.client("s3")
    for number, marker in enumerate(markers(load(it.folder / "experiment.toml")).values()):
        s3.put_object(Bucket=it.buckets[FIRST], Key=marker, Body=b"{}")
        s3.put_object(Bucket=it.buckets[FIRST], Key=f"{marker.rsplit('/', 1)[0]}/weights", Body=b"weights %d" % number)
    s3.put_object(Bucket=it.buckets[FIRST], Key="runs/20261129T100000Z-aaaaaa/records.jsonl", Body=b"")
    it.run("copy", "clone", SECOND, "--copy")
    it.said["copied"] = Ended(0, json.dumps(sorted(it.contents(SECOND))), "")
    key = next(key for key in it.contents(SECOND) if key.endswith("weights"))
    it.client("s3", SECOND).put_object(Bucket=it.buckets[SECOND], Key=key, Body=b"rotten! 0")
    it.run("copy again", "clone", SECOND, "--copy")
    there, here = it.contents(SECOND), it.contents(FIRST)
    it.said["copied again"] = Ended(0 if all(here[name] == content for name, content in there.items()) else 1, "", "")


def _use(it: Account) -> None:
    it.run("status", "nodes", "status", "--json")
    it.run("down", "nodes", "down")
    it.run("too many", "nodes", "up", "2")
    it.run("runs", "runs", "--json")
    it.run("run printed", "run", "--repeats", "3", "--print")
    it.run("run", "run", "--repeats", "3", path=_kubectl(it.folder))
    it.run("wait", "wait", "--timeout-minutes", "0")


def _kubectl(folder: Path) -> Path:
    """A ``kubectl`` that keeps what it is given."""
    tools = folder / "tools"
    tools.mkdir()
    script = tools / "kubectl"
    script.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$@" > {folder}/kubectl.arguments\ncp "$2" {folder}/kubeconfig\ncat > {folder}/applied.json\n'
    )
    script.chmod(0o755)
    return tools


def _litter(it: Account) -> None:
    """One orphan of each kind, as far as the emulator keeps the kind."""
    tags = [{"Key": "eks:cluster-name", "Value": STACK}, {"Key": "experiment", "Value": "op"}]
    trust: dict[str, Any] = {"Version": "2012-10-17", "Statement": []}
    ec2 = it.client("ec2")
    it.client("logs").create_log_group(logGroupName=f"/aws/containerinsights/{STACK}/performance")
    it.client("logs").create_log_group(logGroupName=f"{STACK}-NetworkFlowLogs0A-B")
    it.client("logs").create_log_group(logGroupName=f"{STACK}0-of-another")
    it.client("cloudwatch").put_dashboard(DashboardName=STACK, DashboardBody='{"widgets": []}')
    it.client("cloudwatch").put_metric_alarm(
        AlarmName=f"{STACK}-AlarmsNeuronErrors-X",
        ComparisonOperator="GreaterThanThreshold",
        EvaluationPeriods=1,
        MetricName="m",
        Namespace="n",
        Period=300,
        Statistic="Sum",
        Threshold=1.0,
    )
    it.client("s3").create_bucket(Bucket=f"{STACK}-modelstore-x", CreateBucketConfiguration={"LocationConstraint": FIRST})
    it.client("iam").create_role(RoleName=f"{STACK}-NodeRole-X", AssumeRolePolicyDocument=json.dumps(trust))
    it.client("scheduler").create_schedule(
        Name=f"{STACK}-ScaleDown-X",
        ScheduleExpression="rate(1 hour)",
        FlexibleTimeWindow={"Mode": "OFF"},
        Target={"Arn": "arn:aws:scheduler:::aws-sdk:eks:updateNodegroupConfig", "RoleArn": "arn:aws:iam::111122223333:role/x"},
    )
    it.client("eks").create_cluster(
        name=STACK, roleArn="arn:aws:iam::111122223333:role/x", resourcesVpcConfig={"subnetIds": ["subnet-a", "subnet-b"]}
    )
    vpc = ec2.create_vpc(CidrBlock="10.9.0.0/16", TagSpecifications=[{"ResourceType": "vpc", "Tags": tags}])["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.9.1.0/24")["Subnet"]["SubnetId"]
    ec2.create_network_interface(SubnetId=subnet, Description=f"Amazon EKS {STACK}")
    owned = [{"Key": f"kubernetes.io/cluster/{STACK}", "Value": "owned"}]
    ec2.create_volume(AvailabilityZone=f"{FIRST}b", Size=1, TagSpecifications=[{"ResourceType": "volume", "Tags": owned}])
    ec2.run_instances(
        ImageId="ami-0123456789abcdef0", MinCount=1, MaxCount=1, TagSpecifications=[{"ResourceType": "instance", "Tags": tags}]
    )


def levels(ended: Ended, region: str = FIRST) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for finding in ended.document[region]:
        found.setdefault(finding["level"], set()).add(finding["check"])
    return found


def test_before_the_deployment_exactly_what_is_wrong_is_listed_each_with_a_remedy(account: Account) -> None:
    before = account.said["check before"]
    assert before.code == 1
    assert levels(before)["blocker"] == {"bootstrap", "names"} | NOT_THERE
    assert levels(before)["warning"] == {"identity", "reservation"}, "the emulator's caller is the root user"
    assert levels(before)["unknown"] == UNANSWERED
    wrong = [finding for finding in before.document[FIRST] if finding["level"] != "ok"]
    assert all(finding["remedy"] for finding in wrong)
    assert len({finding["what"] for finding in wrong}) == len(wrong)
    (name,) = (finding for finding in wrong if finding["check"] == "names")
    assert name["what"] == f"log group /aws/eks/{STACK}/cluster is left from an earlier deployment"


def test_what_a_person_reads_is_plain_text_when_piped_with_progress_apart(account: Account) -> None:
    shown = account.said["check before, for people"]
    assert "\x1b" not in shown.out + shown.err
    assert f"3 blocker, {len(UNANSWERED)} unknown, 2 warning" in shown.out
    assert f"checking {FIRST}" in shown.err
    assert f"checking {FIRST}" not in shown.out


def test_what_it_costs_is_itemized_with_sources(account: Account) -> None:
    cost = [finding["what"] for finding in account.said["check before"].document[FIRST] if finding["check"] == "cost"]
    assert cost[0] == "trn2.48xlarge nodes (1): 40.000 USD an hour; cost.node_usd_per_hour of the experiment"
    assert any(line.startswith("EKS control plane (1): 0.100 USD an hour; ") for line in cost)
    assert cost[-1].endswith(" for 8 hours")


def test_after_the_deployment_nothing_is_wrong(account: Account) -> None:
    after = account.said["check after"]
    assert levels(after)["blocker"] == NOT_THERE
    assert levels(after)["warning"] == {"identity"}
    assert levels(after)["unknown"] == UNANSWERED
    names = [finding["what"] for finding in after.document[FIRST] if finding["check"] == "names"]
    assert names == [f"stack {STACK} is CREATE_COMPLETE; deploying updates it"]


def test_a_clone_adds_its_region_and_is_deployed_there(account: Account) -> None:
    assert load(account.folder / "experiment.toml").regions == (FIRST, SECOND)
    assert f"added {SECOND}, zone {SECOND}b" in account.said["clone"].err
    assert account.buckets[FIRST] != account.buckets[SECOND]


def test_a_clone_takes_models_and_artifacts_along_and_no_runs(account: Account) -> None:
    copied = account.said["copied"].document
    assert "8 objects copied, 0 were there already" in account.said["copy"].err
    assert len(copied) == 8
    assert all(key.startswith(("models/", "artifacts/")) for key in copied)


def test_a_rotten_object_is_found_and_copied_again(account: Account) -> None:
    assert "1 objects copied, 7 were there already" in account.said["copy again"].err
    assert account.said["copied again"].code == 0


def test_nodes_are_followed_and_kept_within_the_group(account: Account) -> None:
    steps = {step["name"]: step for step in account.said["status"].document["steps"]}
    assert steps["weights of Qwen/Qwen3-32B"]["state"] == "done"
    assert steps["benchmark"]["detail"] == "no run has ended yet"
    # The pinned emulator cannot change a group by API; test_nodes.py has AWS's own model take the call.
    down = account.said["down"]
    assert (down.code, down.out) == (1, "")
    assert down.err.startswith("error: EKS refuses: ")
    assert account.said["too many"].code == 1
    assert "2 nodes asked for, 1 are the most" in account.said["too many"].err


def test_a_run_is_applied_as_it_is_printed(account: Account) -> None:
    printed = account.said["run printed"].document
    applied = json.loads((account.folder / "applied.json").read_text(encoding="utf-8"))
    assert [item["kind"] for item in applied["items"]] == [item["kind"] for item in printed["items"]] == ["ConfigMap", "Job"]
    job = applied["items"][-1]
    assert account.said["run"].out == f"{job['metadata']['name']}\n"
    environment = {entry["name"]: entry.get("value") for entry in job["spec"]["template"]["spec"]["containers"][0]["env"]}
    assert environment["BUCKET"] == account.buckets[FIRST]
    assert "--server-side" in (account.folder / "kubectl.arguments").read_text(encoding="utf-8")
    user = json.loads((account.folder / "kubeconfig").read_text(encoding="utf-8"))["users"][0]["user"]
    assert user["token"].startswith("k8s-aws-v1.")


def test_no_run_is_no_error_and_waiting_for_one_ends_in_time(account: Account) -> None:
    assert account.said["runs"].document == []
    assert account.said["wait"].code == 1
    assert account.said["wait"].err.splitlines()[-1] == "no new run after 0 minutes"


def test_a_living_stack_is_named_as_what_is_left(account: Account) -> None:
    left = account.said["leftovers while deployed"]
    assert left.code == 1
    assert [entry["kind"] for entry in left.document] == ["stack", "stack"]


def test_after_destroy_nothing_is_left_but_keys_that_wait_for_their_deletion(account: Account) -> None:
    left = account.said["leftovers after destroy"]
    assert left.code == 0, left.out
    assert {entry["kind"] for entry in left.document} <= {"kms key"}
    assert all(entry["kept"] for entry in left.document)


def test_an_orphan_of_each_kind_is_shown(account: Account) -> None:
    left = account.said["leftovers of litter"]
    assert left.code == 1
    found = {entry["kind"]: entry for entry in left.document if not entry["kept"]}
    assert set(found) == KINDS
    assert all(entry["remove"] for entry in left.document)
    assert len({(entry["kind"], entry["name"]) for entry in left.document}) == len(left.document)
    groups = [entry["name"] for entry in left.document if entry["kind"] == "log group"]
    assert groups == [f"/aws/containerinsights/{STACK}/performance", f"{STACK}-NetworkFlowLogs0A-B"]
