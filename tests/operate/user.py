"""A person who runs the commands around one deployment of the real app, and what each command said. Called by
the drill.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

from specdec.catalog.addons import ADDONS
from specdec.catalog.instances import INSTANCES
from specdec.catalog.offers import OFFERS
from specdec.cli import main
from specdec.deployed.markers import markers
from specdec.experiment.reading import load
from specdec.rehearsal.emulator import CHECKOUT
from tests.emulated.account import DrilledAws
from tests.emulated.offers import Block, Offer
from tests.operate.models import models_read_once
from tests.operate.orphans import Orphans

FIRST, SECOND = "us-east-2", "ap-south-2"
KIND = "trn2.48xlarge"
PRICES = {KIND: 40.0, "m7i.2xlarge": 0.5}
INSIGHTS = "amazon-cloudwatch-observability"
UNGUARDED = """
[guards]
scale_down_every_hours = 0
scale_down_at = "2020-01-02T03:04:05"
"""
GUARDS = """
[guards]
monthly_budget_usd = 100.0
notify = "team@example.com"
"""


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


def good(region: str, kubernetes: str) -> Offer:
    """A region that has everything the default experiment asks for, in the zone that the drill asks for
    it.
    """
    image = (
        f"/aws/service/eks/optimized-ami/{kubernetes}/amazon-linux-2023/x86_64/neuron/recommended/image_id"
    )
    start = (datetime.now(UTC) + timedelta(days=2)).isoformat(timespec="seconds")
    return Offer(
        quotas={INSTANCES["trn2.48xlarge"].quota_on_demand: 192.0},
        zones={KIND: [f"{region}a", f"{region}b"], "m7i.2xlarge": [f"{region}a", f"{region}b"]},
        blocks=[Block("cb-0123456789abcdef0", KIND, f"{region}b", 1, 24, start, 858.26)],
        kubernetes={kubernetes: "STANDARD_SUPPORT"},
        addons={
            name: {kubernetes: [addon.versions[kubernetes], "v1.0.0-eksbuild.1"]}
            for name, addon in ADDONS.items()
        },
        schemas={name: strict(addon.values) for name, addon in ADDONS.items()},
        parameters={image: "ami-0123456789abcdef0"},
        prices=PRICES,
    )


def strict(values: Mapping[str, Any]) -> str:
    """A JSON schema that takes these settings and no other."""
    properties: dict[str, Any] = {}
    for name, value in values.items():
        match value:
            case bool():
                properties[name] = {"type": "boolean"}
            case str():
                properties[name] = {"type": "string"}
            case _:
                properties[name] = json.loads(strict(value))
    return json.dumps({"type": "object", "additionalProperties": False, "properties": properties})


def bad(region: str, kubernetes: str) -> Offer:
    """A region in which each question about what is offered has the wrong answer: one add-on is not there,
    one is there in its old default alone, and one takes none of our settings.
    """
    return Offer(
        quotas={INSTANCES["trn2.48xlarge"].quota_on_demand: 191.0},
        zones={KIND: [f"{region}c"], "m7i.2xlarge": [f"{region}a"]},
        blocks=None,
        kubernetes={kubernetes: "UNSUPPORTED", "1.30": "EXTENDED_SUPPORT"},
        addons={
            name: {kubernetes: ["v5.3.1-eksbuild.1" if name == INSIGHTS else addon.versions[kubernetes]]}
            for name, addon in ADDONS.items()
            if name != "coredns"
        },
        schemas={"vpc-cni": strict({})},
        prices=PRICES,
    )


@dataclass
class User:
    """The person: an experiment file, the account, its credentials and what the commands said, by a name for
    each.
    """

    aws: DrilledAws
    file: Path
    credentials: dict[str, str] = field(default_factory=dict[str, str])
    said: dict[str, Ended] = field(default_factory=dict[str, Ended])
    buckets: dict[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        self._text = self.file.read_text(encoding="utf-8")
        self.stack = load(self.file).stack_name(FIRST)
        self.kubernetes = load(self.file).cluster.kubernetes_version

    def facts(self) -> dict[str, Any]:
        return {name: asdict(ended) for name, ended in self.said.items()}

    def before_the_deployment(self) -> None:
        """Looks at an account in which everything is wrong, then puts all of it right but for the deployment
        itself.
        """
        logs, iam = self.client("logs"), self.client("iam")
        self.aws.offer({FIRST: bad(FIRST, self.kubernetes)})
        logs.create_log_group(logGroupName=f"/aws/eks/{self.stack}/cluster")
        self._run("check before", "check", "--json")
        self._run_apart("check before, for people", "check")
        unguarded = self.file.with_name("unguarded.toml")
        unguarded.write_text(self._text + UNGUARDED, encoding="utf-8")
        self._run("check unguarded", "check", "--experiment", str(unguarded), "--json")
        logs.delete_log_group(logGroupName=f"/aws/eks/{self.stack}/cluster")
        # Capacity Blocks are asked for in every region that the catalogue knows.
        known = {offer.region for listed in OFFERS.values() for offer in listed}
        self.aws.offer({region: good(region, self.kubernetes) for region in (FIRST, SECOND, *known)})
        iam.create_user(UserName="engineer")
        iam.attach_user_policy(UserName="engineer", PolicyArn="arn:aws:iam::aws:policy/AdministratorAccess")
        key = iam.create_access_key(UserName="engineer")["AccessKey"]
        self.credentials = {
            "AWS_ACCESS_KEY_ID": key["AccessKeyId"],
            "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"],
        }

    def adds_a_region(self) -> None:
        self._run("clone", "clone", SECOND, "--zone", f"{SECOND}b")

    def once_deployed(self, outputs: dict[str, dict[str, str]]) -> None:
        """Everything that is done with a deployment; leaves it with the nodes that it was deployed with."""
        experiment = load(self.file)
        self.buckets = {
            region: outputs[experiment.stack_name(region)]["Bucket"] for region in (FIRST, SECOND)
        }
        self._run("check after", "check", "--json")
        self._run("status at first", "nodes", "status", "--json")
        self._run("up before staging", "nodes", "up")
        self._run("down", "nodes", "down")
        self._copy()
        self._nodes()
        self._run("runs", "runs", "--json")
        self._run("run printed", "run", "--repeats", "3", "--print")
        self._run("run", "run", "--repeats", "3", path=self._kubectl())
        self._run("wait", "wait", "--timeout-minutes", "0")
        self._run("leftovers while deployed", "leftovers", "--json")

    def once_destroyed(self) -> None:
        self._run("leftovers after destroy", "leftovers", "--json")

    def at_last(self) -> None:
        """Looks for what others have left."""
        experiment = load(self.file)
        Orphans(self.client, region=FIRST, stack=self.stack, experiment=experiment.name).plant()
        guarded = self.file.with_name("guarded.toml")
        # Budgets are looked for where the experiment has one, and it can have one in the first region only.
        guarded.write_text(self._text + GUARDS, encoding="utf-8")
        self._run("leftovers of others", "leftovers", "--experiment", str(guarded), "--json")

    def client(self, service: str, region: str = FIRST) -> Any:
        return self.aws.session(region).client(service)

    def _run(self, name: str, *arguments: str, path: Path | None = None) -> None:
        """Runs a command in this process, since twenty interpreters would take half a minute to start."""
        environment = self._environment()
        if path is not None:
            environment["PATH"] = f"{path}:{environment['PATH']}"
        out, err = io.StringIO(), io.StringIO()
        code: object = None
        with (
            mock.patch.dict(os.environ, environment, clear=True),
            mock.patch.object(sys, "argv", ["specdec", *arguments]),
            models_read_once(),
            contextlib.chdir(self.file.parent),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            try:
                main()
            except SystemExit as ended:
                code = ended.code
        assert isinstance(code, int), f"{arguments} did not end as a command does"
        self.said[name] = Ended(code, out.getvalue(), err.getvalue())

    def _run_apart(self, name: str, *arguments: str) -> None:
        """Runs a command as a process of its own, with its output in pipes."""
        ran = subprocess.run(
            [sys.executable, "-m", "specdec", *arguments],
            cwd=self.file.parent,
            env=self._environment() | {"PYTHONPATH": str(CHECKOUT)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        self.said[name] = Ended(ran.returncode, ran.stdout, ran.stderr)

    def _environment(self) -> dict[str, str]:
        return self.aws.environment(FIRST) | self.credentials

    def _contents(self, region: str) -> dict[str, bytes]:
        s3, bucket = self.client("s3", region), self.buckets[region]
        listed = s3.list_objects_v2(Bucket=bucket).get("Contents", [])
        return {
            entry["Key"]: s3.get_object(Bucket=bucket, Key=entry["Key"])["Body"].read() for entry in listed
        }

    def _copy(self) -> None:
        s3 = self.client("s3")
        for number, marker in enumerate(markers(load(self.file)).values()):
            s3.put_object(Bucket=self.buckets[FIRST], Key=marker, Body=b"{}")
            s3.put_object(
                Bucket=self.buckets[FIRST],
                Key=f"{marker.rsplit('/', 1)[0]}/weights",
                Body=b"weights %d" % number,
            )
        s3.put_object(Bucket=self.buckets[FIRST], Key="runs/20261129T100000Z-aaaaaa/records.jsonl", Body=b"")
        self._run("copy", "clone", SECOND, "--copy")
        self.said["copied"] = Ended(0, json.dumps(sorted(self._contents(SECOND))), "")
        key = next(key for key in self._contents(SECOND) if key.endswith("weights"))
        self.client("s3", SECOND).put_object(Bucket=self.buckets[SECOND], Key=key, Body=b"rotten! 0")
        self._run("copy again", "clone", SECOND, "--copy")
        there, here = self._contents(SECOND), self._contents(FIRST)
        self.said["copied again"] = Ended(
            0 if all(here[name] == content for name, content in there.items()) else 1, "", ""
        )

    def _nodes(self) -> None:
        ec2 = self.client("ec2")
        self._run("status when down", "nodes", "status", "--json")
        self._run("too many", "nodes", "up", "2")
        self._run("up", "nodes", "up")
        self.said["guards"] = Ended(0, json.dumps(self._guards(), default=str), "")
        self._run("status while starting", "nodes", "status", "--json")
        # What Auto Scaling would start, with the tags that EKS has it set.
        tags = [
            {"Key": "eks:cluster-name", "Value": self.stack},
            {"Key": "eks:nodegroup-name", "Value": self.said["up"].out.split(" ")[0]},
        ]
        started = ec2.run_instances(
            ImageId="ami-0123456789abcdef0",
            MinCount=1,
            MaxCount=1,
            TagSpecifications=[{"ResourceType": "instance", "Tags": tags}],
        )
        self._run("status when up", "nodes", "status", "--json")
        ec2.terminate_instances(InstanceIds=[instance["InstanceId"] for instance in started["Instances"]])

    def _guards(self) -> dict[str, Any]:
        """Start date of each schedule of the stack by the group it stops, None where it has none."""
        scheduler = self.client("scheduler")
        names = [schedule["Name"] for schedule in scheduler.list_schedules()["Schedules"]]
        schedules = [scheduler.get_schedule(Name=name) for name in names]
        return {
            json.loads(schedule["Target"]["Input"])["NodegroupName"]: schedule.get("StartDate")
            for schedule in schedules
        }

    def _kubectl(self) -> Path:
        """A ``kubectl`` that keeps what it is given, to a cluster with nothing in it."""
        folder = self.file.parent
        tools = folder / "tools"
        tools.mkdir()
        script = tools / "kubectl"
        script.write_text(
            "#!/bin/sh\n"
            """case "$*" in *" get "*) echo '{"items": []}'; exit;; esac\n"""
            f'printf "%s\\n" "$@" > {folder}/kubectl.arguments\ncp "$2" {folder}/kubeconfig\n'
            f"cat > {folder}/applied.json\n"
        )
        script.chmod(0o755)
        return tools
