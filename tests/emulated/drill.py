"""The life of the real app in the embedded account, in a network of its own: run as a script, leaves what it
saw in a file.

One process does it and many tests ask about it, because a process that has entered a network namespace cannot
leave it.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import charts
from specdec.deployed.clients import Clients
from specdec.errors import EnvironmentFault, SpecdecError
from specdec.experiment.fields import Experiment
from specdec.experiment.reading import load
from specdec.preflight import leftovers
from specdec.rehearsal import isolation
from specdec.rehearsal.cdk import Cdk
from specdec.rehearsal.emulator import Session
from specdec.rehearsal.emulator.cluster import Manifest
from tests.emulated.account import DrilledAws
from tests.operate.user import User

Facts = dict[str, Any]
DIMENSIONS = [
    {"Name": "Experiment", "Value": "drill"},
    {"Name": "Variant", "Value": "speculative"},
    {"Name": "TestCase", "Value": "repetition"},
]


def main(folder: Path) -> None:
    """Runs every part and writes ``facts.json`` into the folder."""
    facts: Facts = {"seconds": {}}
    try:
        isolation.enter()
        facts["isolated"] = True
    except EnvironmentFault as fault:
        facts["isolated"] = str(fault)
    with DrilledAws(folder / "aws") as aws:
        user = User(aws, folder / "experiment.toml")
        _life(folder, aws, user, facts)
        _failure(folder, aws, facts)
        user.at_last()
    facts["said"] = user.facts()
    (folder / "facts.json").write_text(json.dumps(facts, default=str), encoding="utf-8")


def _life(folder: Path, aws: DrilledAws, user: User, facts: Facts) -> None:
    user.before_the_deployment()
    user.adds_a_region()
    experiment = load(folder / "experiment.toml")
    steps: list[tuple[str, int | None, int | None]] = []

    def timed(name: str, action: Callable[[], Any]) -> Any:
        started = time.monotonic()
        result = action()
        facts["seconds"][name] = round(time.monotonic() - started, 1)
        return result

    def keep(detail: str, done: int | None, total: int | None) -> None:
        steps.append((detail, done, total))

    cdk = Cdk(aws, folder / "experiment.toml", folder / "cdk")
    timed("synth", cdk.synth)
    timed("bootstrap", lambda: cdk.bootstrap(experiment.regions))
    facts["outputs"] = timed("deploy", lambda: cdk.deploy(keep))
    facts["deploy_steps"], facts["stacks"] = (
        list(steps),
        {stack.name: stack.resources for stack in cdk.stacks},
    )
    facts["deployed"] = {
        region: _seen(aws.session(region), experiment, region) for region in experiment.regions
    }
    facts["manifests"] = {region: aws.recorded_manifests(region) for region in experiment.regions}
    facts["built"] = {
        region: _built(experiment, region, facts["deployed"][region]["bucket"]["name"])
        for region in experiment.regions
    }
    facts["releases"] = {region: _releases(aws, region) for region in experiment.regions}
    facts["metrics"] = _measured(aws.session(experiment.regions[0]))
    facts["differs_after_deploy"] = timed("diff", cdk.diff)
    user.once_deployed(facts["outputs"])

    changed = Cdk(aws, folder / "changed.toml", folder / "changed")
    changed.synth()
    timed("update", changed.deploy)
    first = experiment.regions[0]
    facts["updated"] = _seen(aws.session(first), experiment, first)
    facts["updated_manifests"] = aws.recorded_manifests(first)
    facts["updated_built"] = _built(
        load(folder / "changed.toml"), first, facts["deployed"][first]["bucket"]["name"]
    )

    facts["zones"] = {
        zone: timed(f"zone {zone}", lambda zone=zone: _moved(folder, aws, first, zone)) for zone in "ac"
    }

    for region in experiment.regions:
        # What a run leaves: a bucket that is not empty.
        aws.session(region).client("s3").put_object(
            Bucket=_bucket(facts, experiment, region), Key="runs/drill/records.jsonl", Body=b"{}"
        )
    steps.clear()
    timed("destroy", lambda: cdk.destroy(keep))
    facts["destroy_steps"] = list(steps)
    user.once_destroyed()
    facts["left"] = {region: _left(aws, experiment, region) for region in experiment.regions}


def _moved(folder: Path, aws: DrilledAws, region: str, zone: str) -> Facts:
    """What a live stack does when the nodes move into another zone."""
    text = (folder / "changed.toml").read_text(encoding="utf-8")
    moved = folder / f"zone-{zone}.toml"
    moved.write_text(text.replace(f'zone = "{region}b"', f'zone = "{region}{zone}"'), encoding="utf-8")
    stack = load(moved).stack_name(region)
    cloudformation, eks = aws.session(region).client("cloudformation"), aws.session(region).client("eks")

    def resources() -> dict[str, Any]:
        template = cloudformation.get_template(StackName=stack)["TemplateBody"]
        listed = cloudformation.describe_stack_resources(StackName=stack)["StackResources"]
        ids = {resource["LogicalResourceId"]: resource["PhysicalResourceId"] for resource in listed}
        body = json.loads(template) if isinstance(template, str) else template
        return {name: (ids.get(name), resource) for name, resource in body["Resources"].items()}

    before = resources()
    Cdk(aws, moved, folder / f"zone-{zone}").deploy()
    after = resources()
    touched = [name for name in before.keys() | after.keys() if before.get(name) != after.get(name)]
    groups = eks.list_nodegroups(clusterName=stack)["nodegroups"]
    return {
        "status": cloudformation.describe_stacks(StackName=stack)["Stacks"][0]["StackStatus"],
        "touched": sorted(touched),
        "groups": [group for group in groups if group.startswith("accelerator-")],
    }


def _failure(folder: Path, aws: DrilledAws, facts: Facts) -> None:
    experiment = load(folder / "failing.toml")
    region = experiment.regions[0]
    aws.refuse(
        {f"Deployment/{experiment.variants[1].service}": 'admission webhook "drill" denied the request'}
    )
    cdk = Cdk(aws, folder / "failing.toml", folder / "failing")
    try:
        cdk.deploy()
    except SpecdecError as error:
        facts["failure"] = {"message": str(error), "remedy": error.remedy, "exit_code": error.exit_code}
    stack = experiment.stack_name(region)
    facts["failed_status"] = (
        aws.session(region)
        .client("cloudformation")
        .describe_stacks(StackName=stack)["Stacks"][0]["StackStatus"]
    )
    cdk.destroy()
    facts["left_after_failure"] = _left(aws, experiment, region)


def _built(experiment: Experiment, region: str, bucket: str) -> list[Manifest]:
    # Here and not in the tests: the benchmark's pod carries this source tree, so the objects are those of
    # this moment.
    return [
        manifest
        for chart in charts.build(experiment, region=region, bucket=bucket).values()
        for manifest in chart.to_json()
    ]


def _seen(session: Session, experiment: Experiment, region: str) -> Facts:
    name = experiment.stack_name(region)
    eks, ec2, cloudwatch = session.client("eks"), session.client("ec2"), session.client("cloudwatch")
    groups = [
        eks.describe_nodegroup(clusterName=name, nodegroupName=group)["nodegroup"]
        for group in eks.list_nodegroups(clusterName=name)["nodegroups"]
    ]
    templates: list[Facts] = [
        ec2.describe_launch_template_versions(LaunchTemplateId=template["LaunchTemplateId"])[
            "LaunchTemplateVersions"
        ][-1]["LaunchTemplateData"]
        for template in ec2.describe_launch_templates()["LaunchTemplates"]
    ]
    dashboards = [entry["DashboardName"] for entry in cloudwatch.list_dashboards()["DashboardEntries"]]
    cloudformation = session.client("cloudformation")
    return {
        "status": cloudformation.describe_stacks(StackName=name)["Stacks"][0]["StackStatus"],
        "template": cloudformation.get_template(StackName=name)["TemplateBody"],
        "cluster": eks.describe_cluster(name=name)["cluster"],
        "node_groups": groups,
        "addons": eks.list_addons(clusterName=name)["addons"],
        "associations": eks.list_pod_identity_associations(clusterName=name)["associations"],
        "access_entries": eks.list_access_entries(clusterName=name)["accessEntries"],
        "templates": templates,
        "zones": sorted(
            {subnet["AvailabilityZone"] for subnet in _own(ec2.describe_subnets()["Subnets"], name)}
        ),
        "nat_gateways": [gateway["State"] for gateway in ec2.describe_nat_gateways()["NatGateways"]],
        "flow_logs": [log["FlowLogStatus"] for log in ec2.describe_flow_logs()["FlowLogs"]],
        "dashboards": {
            board: json.loads(cloudwatch.get_dashboard(DashboardName=board)["DashboardBody"])
            for board in dashboards
        },
        "alarms": [alarm["AlarmName"] for alarm in cloudwatch.describe_alarms()["MetricAlarms"]],
        "bucket": _bucket_seen(session, name),
    }


def _own(items: list[Facts], stack: str) -> list[Facts]:
    return [item for item in items if any(stack in str(tag.get("Value", "")) for tag in item.get("Tags", []))]


def _bucket_seen(session: Session, stack: str) -> Facts:
    s3 = session.client("s3")
    name = next(bucket["Name"] for bucket in s3.list_buckets()["Buckets"] if bucket["Name"].startswith(stack))
    return {
        "name": name,
        "blocked": s3.get_public_access_block(Bucket=name)["PublicAccessBlockConfiguration"],
        "rules": s3.get_bucket_lifecycle_configuration(Bucket=name)["Rules"],
        "encryption": s3.get_bucket_encryption(Bucket=name)["ServerSideEncryptionConfiguration"]["Rules"],
        "policy": json.loads(s3.get_bucket_policy(Bucket=name)["Policy"]),
        "tags": {tag["Key"]: tag["Value"] for tag in s3.get_bucket_tagging(Bucket=name)["TagSet"]},
    }


def _bucket(facts: Facts, experiment: Experiment, region: str) -> str:
    name: str = facts["deployed"][region]["bucket"]["name"]
    return name


def _releases(aws: DrilledAws, region: str) -> list[Facts]:
    return [
        {
            "name": release.name,
            "namespace": release.namespace,
            "chart": release.chart,
            "version": release.version,
            "values": release.values,
        }
        for release in aws.cluster(region).releases.values()
    ]


def _measured(session: Session) -> Facts:
    cloudwatch = session.client("cloudwatch")
    now = datetime.now(UTC).replace(microsecond=0)
    data = [
        {
            "MetricName": "TimePerOutputToken",
            "Dimensions": DIMENSIONS,
            "Timestamp": now,
            "Value": value,
            "Unit": "Milliseconds",
        }
        for value in (10.0, 14.0, 18.0)
    ]
    cloudwatch.put_metric_data(Namespace="SpecDec/Exact", MetricData=data)
    answer = cloudwatch.get_metric_statistics(
        Namespace="SpecDec/Exact",
        MetricName="TimePerOutputToken",
        Dimensions=DIMENSIONS,
        StartTime=now - timedelta(minutes=5),
        EndTime=now + timedelta(minutes=5),
        Period=600,
        Statistics=["Average", "Minimum", "Maximum", "SampleCount"],
    )
    return answer["Datapoints"][0]


def _left(aws: DrilledAws, experiment: Experiment, region: str) -> Facts:
    """What the product's own search finds, and everything of the kinds that the stack makes, whoever owns
    it.
    """
    session, name = aws.session(region), experiment.stack_name(region)
    ec2 = session.client("ec2")
    names: dict[str, list[str]] = {
        "buckets": [
            bucket["Name"]
            for bucket in session.client("s3").list_buckets()["Buckets"]
            if bucket["Name"].startswith(name)
        ],
        "clusters": session.client("eks").list_clusters()["clusters"],
        "dashboards": [
            entry["DashboardName"]
            for entry in session.client("cloudwatch").list_dashboards()["DashboardEntries"]
        ],
        "alarms": [
            alarm["AlarmName"] for alarm in session.client("cloudwatch").describe_alarms()["MetricAlarms"]
        ],
        "addresses": [address["PublicIp"] for address in ec2.describe_addresses()["Addresses"]],
        "launch templates": [
            template["LaunchTemplateName"] for template in ec2.describe_launch_templates()["LaunchTemplates"]
        ],
        # AWS too lists a deleted gateway for about an hour.
        "nat gateways": [
            gateway["NatGatewayId"]
            for gateway in ec2.describe_nat_gateways()["NatGateways"]
            if gateway["State"] != "deleted"
        ],
        "networks": [vpc["VpcId"] for vpc in ec2.describe_vpcs()["Vpcs"] if not vpc["IsDefault"]],
        "flow logs": [log["FlowLogId"] for log in ec2.describe_flow_logs()["FlowLogs"]],
        "functions": [
            function["FunctionName"] for function in session.client("lambda").list_functions()["Functions"]
        ],
        "log groups": [
            group["logGroupName"] for group in session.client("logs").describe_log_groups()["logGroups"]
        ],
        "roles": [
            role["RoleName"]
            for role in session.client("iam").list_roles()["Roles"]
            if role["RoleName"].startswith(name)
        ],
        "objects": [
            f"{manifest['kind']}/{manifest['metadata']['name']}"
            for manifest in aws.recorded_manifests(region)
        ],
        "releases": [release["name"] for release in _releases(aws, region)],
    }
    keys = session.client("kms")
    own_keys = [keys.describe_key(KeyId=key["KeyId"])["KeyMetadata"] for key in keys.list_keys()["Keys"]]
    found = leftovers.find(experiment, region, Clients(session, region))
    return {
        "found": [f"{leftover.kind} {leftover.name}" for leftover in found if leftover.kept is None],
        "kept": [f"{leftover.kind} {leftover.name}" for leftover in found if leftover.kept is not None],
        "keys": [key["KeyState"] for key in own_keys if key["KeyManager"] == "CUSTOMER"],
        "names": {kind: items for kind, items in names.items() if items},
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]))
