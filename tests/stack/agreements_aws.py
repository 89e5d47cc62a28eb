"""What the resources around the cluster have to agree on: nodes, add-ons, roles, logs, routes, guards."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from specdec.catalog.instances import INSTANCES
from tests.stack.agreements import Deployed, Disagreement, Object
from tests.stack.synthesis import as_list, flat, references

TRUSTED_TAGS = ("eks-cluster-name", "kubernetes-namespace", "kubernetes-service-account")
LOG_KINDS = ("application", "dataplane", "host", "performance")
METADATA = {"HttpTokens": "required", "HttpPutResponseHopLimit": 1}


def cluster(deployed: Deployed) -> Iterator[Disagreement]:
    """Nobody pays six times as much unasked, and every part of the cluster has one owner."""
    for one in deployed.template.of_type("AWS::EKS::Cluster").values():
        properties = one["Properties"]
        there = properties.get("UpgradePolicy")
        if there != {"SupportType": "STANDARD"}:
            yield f"Cluster/{properties['Name']}: UpgradePolicy", there, {"SupportType": "STANDARD"}
        if properties.get("BootstrapSelfManagedAddons") is not False:
            yield (
                f"Cluster/{properties['Name']}: BootstrapSelfManagedAddons",
                properties.get("BootstrapSelfManagedAddons"),
                "False, since the add-ons are the stack's",
            )


def default_group(deployed: Deployed) -> Iterator[Disagreement]:
    closed = [
        flat(one["Properties"]["DefaultSecurityGroupId"])
        for one in deployed.template.of_type("Custom::VpcRestrictDefaultSG").values()
    ]
    for vpc in deployed.template.of_type("AWS::EC2::VPC"):
        if f"<{vpc}.DefaultSecurityGroup>" not in closed:
            yield f"VPC/{vpc}: closed default security groups", closed, "its own"


def launch_templates(deployed: Deployed) -> Iterator[Disagreement]:
    for _, launch in deployed.groups:
        name = f"LaunchTemplate of {launch['InstanceType']}"
        if launch["MetadataOptions"] != METADATA:
            yield f"{name}: MetadataOptions", launch["MetadataOptions"], METADATA
        instance = INSTANCES.get(launch["InstanceType"])
        text = launch.get("UserData", {}).get("Fn::Base64", "")
        if instance is not None and "strategy: RAID0" not in text:
            yield f"{name}: localStorage in UserData", text, "strategy: RAID0, for images and emptyDir"


def replacement(deployed: Deployed) -> Iterator[Disagreement]:
    """There is no second accelerator node to start before the first is drained."""
    for group, launch in deployed.groups:
        there = group["UpdateConfig"].get("UpdateStrategy", "DEFAULT")
        if launch["InstanceType"] in INSTANCES and there != "MINIMAL":
            yield f"Nodegroup of {launch['InstanceType']}: UpdateStrategy", there, "MINIMAL"
        if group.get("NodeRepairConfig", {}).get("Enabled") is not True:
            yield f"Nodegroup of {launch['InstanceType']}: NodeRepairConfig", None, "enabled"


def zones(deployed: Deployed) -> Iterator[Disagreement]:
    subnets = deployed.template.of_type("AWS::EC2::Subnet")
    wanted = deployed.experiment.placement[deployed.region].zone
    for group, launch in deployed.groups:
        there = {subnets[one["Ref"]]["Properties"]["AvailabilityZone"] for one in group["Subnets"]}
        if launch["InstanceType"] in INSTANCES and there != {wanted}:
            yield f"Nodegroup of {launch['InstanceType']}: zones of its subnets", sorted(there), [wanted]


def device_handout(deployed: Deployed) -> Iterator[Disagreement]:
    """The chart's two ways to hand out devices exclude each other on a node."""
    for chart in deployed.template.of_type("Custom::AWSCDK-EKS-HelmChart").values():
        values = json.loads(flat(chart["Properties"]["Values"]))
        there = {key: value["enabled"] for key, value in values.items()}
        by_claim = deployed.experiment.serving.allocation == "dra"
        wanted = {"draDriver": by_claim, "devicePlugin": not by_claim, "scheduler": not by_claim}
        if {key: there.get(key) for key in wanted} != wanted:
            yield f"HelmChart/{chart['Properties']['Release']}: enabled", there, wanted


def add_ons(deployed: Deployed) -> Iterator[Disagreement]:
    """Add-ons do what the rest of the stack counts on."""
    values: dict[str, Mapping[str, Any]] = {
        one["Properties"]["AddonName"]: json.loads(one["Properties"].get("ConfigurationValues", "{}"))
        for one in deployed.template.of_type("AWS::EKS::Addon").values()
    }
    policies = values.get("vpc-cni", {}).get("enableNetworkPolicy")
    if deployed.kind("NetworkPolicy") and policies != "true":
        yield "Addon/vpc-cni: enableNetworkPolicy", policies, "'true', else no NetworkPolicy is enforced"
    insights = values.get("amazon-cloudwatch-observability", {})
    for switch in ("containerInsights", "containerLogs", "neuronMonitor"):
        if not insights.get(switch, {}).get("enabled"):
            yield (
                f"Addon/amazon-cloudwatch-observability: {switch}",
                insights.get(switch),
                "enabled, since alarms and dashboards read its metrics",
            )
    if deployed.kind("PersistentVolume") and "aws-mountpoint-s3-csi-driver" not in values:
        yield "Addons", sorted(values), "one that mounts buckets"


def trust(deployed: Deployed) -> Iterator[Disagreement]:
    """A role that pods assume trusts one service account of one namespace of one cluster."""
    for name, role in deployed.template.of_type("AWS::IAM::Role").items():
        for statement in role["Properties"]["AssumeRolePolicyDocument"]["Statement"]:
            if "pods.eks" not in json.dumps(statement["Principal"]):
                continue
            condition = statement.get("Condition", {}).get("StringEquals", {})
            there = sorted(key.removeprefix("aws:RequestTag/") for key in condition)
            if there != sorted(TRUSTED_TAGS):
                yield f"Role/{name}: tags that its trust asks for", there, sorted(TRUSTED_TAGS)


def add_on_identities(deployed: Deployed) -> Iterator[Disagreement]:
    """The service account of an add-on is the one that its role trusts."""
    for one in deployed.template.of_type("AWS::EKS::Addon").values():
        for association in one["Properties"].get("PodIdentityAssociations", []):
            role = deployed.template.resources[association["RoleArn"]["Fn::GetAtt"][0]]["Properties"]
            for statement in role["AssumeRolePolicyDocument"]["Statement"]:
                condition = statement["Condition"]["StringEquals"]
                there = condition.get("aws:RequestTag/kubernetes-service-account")
                if there != association["ServiceAccount"]:
                    yield (
                        f"Addon/{one['Properties']['AddonName']}: service account its role trusts",
                        there,
                        association["ServiceAccount"],
                    )


def log_groups(deployed: Deployed) -> Iterator[Disagreement]:
    """Groups that AWS would make by itself, under the names it takes."""
    name = deployed.experiment.stack_name(deployed.region)
    owned = {
        group["Properties"].get("LogGroupName")
        for group in deployed.template.of_type("AWS::Logs::LogGroup").values()
    }
    wanted = {f"/aws/containerinsights/{name}/{kind}" for kind in LOG_KINDS} | {f"/aws/eks/{name}/cluster"}
    for missing in sorted(wanted - owned):
        yield "LogGroups: names", sorted(group for group in owned if group), f"with {missing}"


def s3_routes(deployed: Deployed) -> Iterator[Disagreement]:
    """Models come over the free path in every subnet where a node may be."""
    endpoints = deployed.template.of_type("AWS::EC2::VPCEndpoint").values()
    routed = {
        name for endpoint in endpoints for name in references(endpoint["Properties"].get("RouteTableIds", []))
    }
    tables = {
        one["Properties"]["SubnetId"]["Ref"]: one["Properties"]["RouteTableId"]["Ref"]
        for one in deployed.template.of_type("AWS::EC2::SubnetRouteTableAssociation").values()
    }
    for subnet, table in sorted(tables.items()):
        if "public" not in subnet.lower() and table not in routed:
            yield f"VPCEndpoint of S3: route table of {subnet}", sorted(routed), f"with {table}"


def s3_policy(deployed: Deployed) -> Iterator[Disagreement]:
    """The path to S3 leads to the stack's bucket, and to what AWS keeps there to be read."""
    kept = deployed.experiment.placement[deployed.region].bucket
    for endpoint in deployed.template.of_type("AWS::EC2::VPCEndpoint").values():
        statements = endpoint["Properties"].get("PolicyDocument", {"Statement": []})["Statement"]
        reached: dict[str, list[str]] = {}
        for statement in statements:
            for arn in map(flat, as_list(statement["Resource"])):
                reached.setdefault(str(statement["Action"]), []).append(arn)
        whole = reached.pop("s3:*", [])
        own = [arn for arn in whole if (kept or "ModelStoreBucket") in arn]
        if whole != own or len(own) != 2:
            yield "VPCEndpoint of S3: what may be done with everything", whole, "the stack's bucket alone"
        other = {
            action: arns for action, arns in reached.items() if action not in ("s3:GetObject", "s3:PutObject")
        }
        if other or "*" in [arn for arns in reached.values() for arn in arns]:
            yield "VPCEndpoint of S3: what else may be done", reached, "reading and answering, where AWS says"


def schedules(deployed: Deployed) -> Iterator[Disagreement]:
    """A schedule of the guard sets the nodes of this cluster to none."""
    cluster = deployed.experiment.stack_name(deployed.region)
    for name, schedule in deployed.template.of_type("AWS::Scheduler::Schedule").items():
        call: Object = json.loads(flat(schedule["Properties"]["Target"]["Input"]))
        if "NodegroupName" not in call:
            continue
        there = (
            call["ClusterName"],
            call["ScalingConfig"].get("MinSize"),
            call["ScalingConfig"].get("DesiredSize"),
        )
        if there != (cluster, 0, 0):
            yield f"Schedule/{name}: cluster, smallest and desired size", there, (cluster, 0, 0)


def alarms(deployed: Deployed) -> Iterator[Disagreement]:
    """Silence is no alarm: an experiment that is not running sends nothing."""
    for name, alarm in deployed.template.of_type("AWS::CloudWatch::Alarm").items():
        there = alarm["Properties"].get("TreatMissingData", "missing")
        if there != "notBreaching":
            yield f"Alarm/{name}: TreatMissingData", there, "notBreaching"
        if deployed.experiment.guards.notify and not alarm["Properties"].get("AlarmActions"):
            yield f"Alarm/{name}: AlarmActions", None, "the topic of guards.notify"


AWS_AGREEMENTS: dict[str, Callable[[Deployed], Iterator[Disagreement]]] = {
    "cluster": cluster,
    "default group": default_group,
    "launch templates": launch_templates,
    "replacement": replacement,
    "zones": zones,
    "device hand-out": device_handout,
    "add-ons": add_ons,
    "trust": trust,
    "add-on identities": add_on_identities,
    "log groups": log_groups,
    "S3 routes": s3_routes,
    "S3 policy": s3_policy,
    "schedules": schedules,
    "alarms": alarms,
}
