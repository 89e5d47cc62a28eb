"""One orphan of each kind that can be left behind: planted with the names or tags it would have, so that the
search must find it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Protocol

ACCOUNT = "111122223333"
TRUST = json.dumps({"Version": "2012-10-17", "Statement": []})


class Clients(Protocol):
    """Gives boto3 clients of the account and region."""

    def __call__(self, service: str) -> Any: ...


class Orphans:
    """What a stack of an experiment leaves in a region.

    Args:
        clients: of that region.
        region: its name.
        stack: name of the stack that is gone.
        experiment: name of its experiment.
    """

    def __init__(self, clients: Clients, *, region: str, stack: str, experiment: str) -> None:
        self._clients, self._region, self._stack = clients, region, stack
        self._tags = [{"Key": "eks:cluster-name", "Value": stack}, {"Key": "experiment", "Value": experiment}]
        self.kinds: dict[str, Callable[[], object]] = {
            "alarm": self._alarm,
            "bucket": self._bucket,
            "budget": self._budget,
            "cluster": self._cluster,
            "dashboard": self._dashboard,
            "ec2 elastic-ip": lambda: self._tagged("elastic-ip", "allocate_address", Domain="vpc"),
            "ec2 instance": lambda: self._tagged(
                "instance", "run_instances", ImageId="ami-0123456789abcdef0", MinCount=1, MaxCount=1
            ),
            "ec2 internet-gateway": lambda: self._tagged("internet-gateway", "create_internet_gateway"),
            "ec2 launch-template": self._launch_template,
            "ec2 natgateway": lambda: self._tagged(
                "natgateway", "create_nat_gateway", SubnetId=self._subnet(), ConnectivityType="private"
            ),
            "ec2 network-interface": self._interface,
            "ec2 placement-group": lambda: self._tagged(
                "placement-group", "create_placement_group", GroupName="efa", Strategy="cluster"
            ),
            "ec2 route-table": lambda: self._tagged("route-table", "create_route_table", VpcId=self._vpc()),
            "ec2 security-group": lambda: self._tagged(
                "security-group",
                "create_security_group",
                GroupName="peers",
                Description="EFA",
                VpcId=self._vpc(),
            ),
            "ec2 subnet": lambda: self._tagged(
                "subnet", "create_subnet", VpcId=self._vpc(), CidrBlock="10.9.2.0/24"
            ),
            "ec2 volume": lambda: self._tagged(
                "volume", "create_volume", AvailabilityZone=f"{region}b", Size=1
            ),
            "ec2 vpc": lambda: self._tagged("vpc", "create_vpc", CidrBlock="10.8.0.0/16"),
            "ec2 vpc-endpoint": lambda: self._tagged(
                "vpc-endpoint",
                "create_vpc_endpoint",
                VpcId=self._vpc(),
                ServiceName=f"com.amazonaws.{region}.s3",
            ),
            "ec2 vpc-flow-log": self._flow_log,
            "kms key": (
                lambda: clients("kms").create_key(
                    Tags=[{"TagKey": tag["Key"], "TagValue": tag["Value"]} for tag in self._tags]
                )
            ),
            "lambda function": self._function,
            "log group": self._log_groups,
            "network interface": self._eks_interface,
            "role": (
                lambda: clients("iam").create_role(
                    RoleName=f"{stack}-NodeRole-X", AssumeRolePolicyDocument=TRUST
                )
            ),
            "schedule": self._schedule,
            "sns topic": lambda: clients("sns").create_topic(Name=f"{stack}-Notices-X", Tags=self._tags),
            "ssm parameter": (
                lambda: clients("ssm").put_parameter(
                    Name="CFN-Barrier-X", Value="v", Type="String", Tags=self._tags
                )
            ),
            "volume": self._claimed_volume,
        }

    def plant(self) -> None:
        """Makes them all."""
        for make in self.kinds.values():
            make()

    def _tagged(self, kind: str, operation: str, **arguments: Any) -> Any:
        return getattr(self._clients("ec2"), operation)(
            **arguments, TagSpecifications=[{"ResourceType": kind, "Tags": self._tags}]
        )

    def _vpc(self) -> str:
        """A network that is not the experiment's."""
        ec2 = self._clients("ec2")
        return next(vpc["VpcId"] for vpc in ec2.describe_vpcs()["Vpcs"] if vpc["IsDefault"])

    def _subnet(self) -> str:
        subnets = self._clients("ec2").describe_subnets(
            Filters=[{"Name": "vpc-id", "Values": [self._vpc()]}]
        )["Subnets"]
        return str(subnets[0]["SubnetId"])

    def _alarm(self) -> None:
        self._clients("cloudwatch").put_metric_alarm(
            AlarmName=f"{self._stack}-AlarmsNeuronErrors-X",
            ComparisonOperator="GreaterThanThreshold",
            EvaluationPeriods=1,
            MetricName="m",
            Namespace="n",
            Period=300,
            Statistic="Sum",
            Threshold=1.0,
        )

    def _bucket(self) -> None:
        place = {"LocationConstraint": self._region}
        self._clients("s3").create_bucket(
            Bucket=f"{self._stack}-modelstore-x", CreateBucketConfiguration=place
        )

    def _budget(self) -> None:
        budget = {
            "BudgetName": self._stack,
            "BudgetType": "COST",
            "TimeUnit": "MONTHLY",
            "BudgetLimit": {"Amount": "100", "Unit": "USD"},
        }
        self._clients("budgets").create_budget(AccountId=ACCOUNT, Budget=budget)

    def _cluster(self) -> None:
        vpc = {"subnetIds": ["subnet-a", "subnet-b"]}
        self._clients("eks").create_cluster(
            name=self._stack, roleArn=f"arn:aws:iam::{ACCOUNT}:role/x", resourcesVpcConfig=vpc
        )

    def _dashboard(self) -> None:
        self._clients("cloudwatch").put_dashboard(DashboardName=self._stack, DashboardBody='{"widgets": []}')

    def _launch_template(self) -> None:
        data = {"InstanceType": "trn2.48xlarge"}
        self._tagged(
            "launch-template",
            "create_launch_template",
            LaunchTemplateName="accelerators",
            LaunchTemplateData=data,
        )

    def _flow_log(self) -> None:
        ec2 = self._clients("ec2")
        made = ec2.create_flow_logs(
            ResourceIds=[self._vpc()], ResourceType="VPC", TrafficType="ALL", LogGroupName="flow"
        )
        # Apart, since the emulator takes no tags with this call.
        ec2.create_tags(Resources=made["FlowLogIds"], Tags=self._tags)

    def _interface(self) -> None:
        ec2 = self._clients("ec2")
        made = ec2.create_network_interface(SubnetId=self._subnet(), Description="of an accelerator node")
        ec2.create_tags(Resources=[made["NetworkInterface"]["NetworkInterfaceId"]], Tags=self._tags)

    def _function(self) -> None:
        self._clients("lambda").create_function(
            FunctionName="handler-x",
            Role=f"arn:aws:iam::{ACCOUNT}:role/x",
            Runtime="python3.13",
            Handler="index.handler",
            Code={"ZipFile": b"PK\x05\x06" + bytes(18)},
            Tags={tag["Key"]: tag["Value"] for tag in self._tags},
        )

    def _log_groups(self) -> None:
        logs = self._clients("logs")
        for name in (
            f"/aws/containerinsights/{self._stack}/performance",
            f"{self._stack}-NetworkFlowLogs0A-B",
            f"{self._stack}0-of-another",
        ):
            logs.create_log_group(logGroupName=name)

    def _eks_interface(self) -> None:
        self._clients("ec2").create_network_interface(
            SubnetId=self._subnet(), Description=f"Amazon EKS {self._stack}"
        )

    def _schedule(self) -> None:
        self._clients("scheduler").create_schedule(
            Name=f"{self._stack}-ScaleDown-X",
            ScheduleExpression="rate(1 hour)",
            FlexibleTimeWindow={"Mode": "OFF"},
            Target={
                "Arn": "arn:aws:scheduler:::aws-sdk:eks:updateNodegroupConfig",
                "RoleArn": f"arn:aws:iam::{ACCOUNT}:role/x",
            },
        )

    def _claimed_volume(self) -> None:
        owned = [{"Key": f"kubernetes.io/cluster/{self._stack}", "Value": "owned"}]
        self._clients("ec2").create_volume(
            AvailabilityZone=f"{self._region}b",
            Size=1,
            TagSpecifications=[{"ResourceType": "volume", "Tags": owned}],
        )
