"""Order of creation and deletion, what survives, and what ends a forgotten experiment."""

import copy
import json

import pytest

import charts
from specdec.deployed.stack import BENCHMARK_RESOURCE
from specdec.rehearsal.emulator.cluster import Call, Cluster
from specdec.serving.limits import run_seconds, start_seconds
from tests.stack.synthesis import EVERYTHING, REGION, Template, experiment, flat, template, templates
from trainium_constructs.workloads import MANIFEST_BYTES, event_bytes, split

pytestmark = pytest.mark.slow

MANIFEST = "Custom::AWSCDK-EKS-KubernetesResource"


def of_type(found: Template, kind: str) -> set[str]:
    return set(found.of_type(kind))


def addon(found: Template, name: str) -> str:
    (logical,) = [
        key for key, one in found.of_type("AWS::EKS::Addon").items() if one["Properties"]["AddonName"] == name
    ]
    return logical


def test_workloads_go_before_what_they_stand_on() -> None:
    """CloudFormation deletes in the opposite order of creation, so what a resource needs outlives it."""
    found = template(*EVERYTHING)
    for manifest in of_type(found, MANIFEST):
        needs = found.needs(manifest)
        assert of_type(found, "AWS::EKS::Nodegroup") <= needs
        assert of_type(found, "Custom::AWSCDK-EKS-HelmChart") <= needs
        assert of_type(found, "AWS::EKS::PodIdentityAssociation") <= needs
        assert of_type(found, "AWS::S3::Bucket") <= needs
        # Emptying the bucket comes after the last pod that could still write to it.
        assert of_type(found, "Custom::S3AutoDeleteObjects") <= needs
        assert {addon(found, "aws-mountpoint-s3-csi-driver"), addon(found, "coredns")} <= needs
        assert of_type(found, "AWS::EKS::AccessEntry") & needs


def test_manifests_are_applied_one_after_another_in_the_order_of_the_charts() -> None:
    found = template()
    order = sorted(
        of_type(found, MANIFEST), key=lambda name: len(found.needs(name) & of_type(found, MANIFEST))
    )
    assert [len(found.needs(name) & of_type(found, MANIFEST)) for name in order] == list(range(len(order)))
    applied = copy.deepcopy([one for name in order for one in found.manifests[name]])
    bucket = f"<{found.named('ModelStoreBucket', 'AWS::S3::Bucket')}>"
    wanted = [
        one
        for chart in charts.build(experiment(), region=REGION, bucket=bucket).values()
        for one in chart.to_json()
    ]
    for one in applied:
        # The CDK's label for pruning.
        labels = {
            key: value
            for key, value in one["metadata"].pop("labels", {}).items()
            if not key.startswith("aws.cdk.eks/prune-")
        }
        if labels:
            one["metadata"]["labels"] = labels
    assert json.dumps(applied, sort_keys=True) == json.dumps(wanted, sort_keys=True)


def test_nodes_come_after_their_network_and_before_dns() -> None:
    found = template()
    groups = of_type(found, "AWS::EKS::Nodegroup")
    for group in groups:
        needs = found.needs(group)
        assert {addon(found, name) for name in ("vpc-cni", "kube-proxy", "eks-pod-identity-agent")} <= needs
        assert of_type(found, "AWS::EC2::NatGateway") <= needs
        assert {
            name for name in of_type(found, "AWS::Logs::LogGroup") if name.startswith("ContainerLogs")
        } <= needs
    system = found.named("SystemNodesGroup")
    for name in ("coredns", "aws-mountpoint-s3-csi-driver", "amazon-cloudwatch-observability"):
        assert system in found.needs(addon(found, name))


def test_the_cluster_outlives_its_nodes_and_the_network_outlives_the_cluster() -> None:
    found = template()
    cluster = found.named("Cluster", "AWS::EKS::Cluster")
    for group in of_type(found, "AWS::EKS::Nodegroup"):
        assert cluster in found.needs(group)
    needs = found.needs(cluster)
    for kind in ("AWS::EC2::VPC", "AWS::EC2::NatGateway", "AWS::EC2::VPCGatewayAttachment"):
        assert of_type(found, kind) <= needs
    network = {name for name in of_type(found, "AWS::EC2::Subnet") if name.startswith("NetworkVpc")}
    assert len(network) == 4
    assert network <= needs
    assert found.named("ClusterControlPlaneLogs") in needs


@pytest.mark.parametrize("edits", [(), EVERYTHING], ids=["default", "everything"])
def test_nothing_survives_but_the_bucket_by_choice(edits: tuple[tuple[str, str], ...]) -> None:
    found = template(*edits)
    kept = {
        resource["Type"]
        for resource in found.resources.values()
        if resource.get("DeletionPolicy") == "Retain"
    }
    assert kept == ({"AWS::S3::Bucket"} if edits == () else set())


@pytest.mark.parametrize(("edits", "days"), [((), 30), (EVERYTHING, 7)], ids=["default", "everything"])
def test_every_log_group_ends(edits: tuple[tuple[str, str], ...], days: int) -> None:
    found = template(*edits)
    groups = found.of_type("AWS::Logs::LogGroup")
    assert {group["Properties"]["RetentionInDays"] for group in groups.values()} == {days}
    assert {group["DeletionPolicy"] for group in groups.values()} == {"Delete"}
    for function in found.of_type("AWS::Lambda::Function").values():
        assert function["Properties"]["LoggingConfig"]["LogGroup"]["Ref"] in groups
    assert found.of_type("AWS::Lambda::Function")


def test_log_groups_that_aws_would_make_by_itself_are_in_the_stack() -> None:
    name = experiment().stack_name(REGION)
    owned = {
        group["Properties"].get("LogGroupName")
        for group in template().of_type("AWS::Logs::LogGroup").values()
    }
    assert {
        f"/aws/eks/{name}/cluster",
        *(f"/aws/containerinsights/{name}/{kind}" for kind in INSIGHTS),
    } <= owned


INSIGHTS = ("application", "dataplane", "host", "performance")


def test_nothing_makes_a_load_balancer() -> None:
    found = template()
    services = [one for objects in found.manifests.values() for one in objects if one["kind"] == "Service"]
    assert services
    assert {one["spec"].get("type", "ClusterIP") for one in services} == {"ClusterIP"}


def test_a_failed_manifest_can_be_applied_again() -> None:
    for manifest in template().of_type(MANIFEST).values():
        assert manifest["Properties"]["Overwrite"] is True


def test_model_storage_is_never_pruned() -> None:
    """Another bucket is another volume. Pruned at the change, the old claim would go with the last pod that
    uses it, after a rollback had asked for it again.
    """
    found = template()
    pruned = {
        name: "PruneLabel" in resource["Properties"] for name, resource in found.of_type(MANIFEST).items()
    }
    lasting = {name for name, is_pruned in pruned.items() if not is_pruned}
    kinds = {item["kind"] for name in lasting for item in found.manifests[name]}
    assert kinds == {"PersistentVolume", "PersistentVolumeClaim"}
    assert len(pruned) > len(lasting)
    assert not any(
        label.startswith("aws.cdk.eks/prune-")
        for name in lasting
        for item in found.manifests[name]
        for label in item["metadata"].get("labels", {})
    )


def test_a_rolled_back_change_of_bucket_leaves_the_old_claim() -> None:
    """The calls of the CDK's handler: the new manifest is applied, and then the old one again."""
    kept = template(('zone = "us-east-2b"', 'bucket = "kept-bucket"\nzone = "us-east-2b"'))
    cluster = Cluster()
    for made in (template(), kept, template()):
        (name,) = [key for key in made.of_type(MANIFEST) if "modelstorage" in key]
        properties = made.resources[name]["Properties"]
        label = properties.get("PruneLabel")
        arguments = ("apply", "-f", "f", *(("--prune", "-l", label) if label else ()))
        call = Call(REGION, "kubectl", arguments, tuple(made.manifests[name]))
        assert cluster.refusal(call) is None
        cluster.take(call)
    claims = {identity[3] for identity in cluster.objects if "PersistentVolumeClaim" in identity}
    wanted = {
        one["metadata"]["name"]
        for made in (template(), kept)
        for objects in made.manifests.values()
        for one in objects
        if one["kind"] == "PersistentVolumeClaim"
    }
    assert len(wanted) == 2
    assert claims == wanted, "the old claim, which pods hold, and the new one, which nobody uses any more"


def test_no_manifest_outgrows_the_event_that_carries_it() -> None:
    for objects in template().manifests.values():
        assert sum(event_bytes(one) for one in objects) <= MANIFEST_BYTES


def test_the_template_stays_within_what_cloudformation_takes() -> None:
    assert max(len(json.dumps(one.body)) for one in templates().values()) < 1_000_000


def test_a_large_chart_becomes_several_manifests_in_order() -> None:
    objects = [
        {"kind": "ConfigMap", "metadata": {"name": str(index)}, "data": {"file": "x" * 90_000}}
        for index in range(5)
    ]
    parts = list(split("chart", objects))
    assert [len(part) for part in parts] == [2, 2, 1]
    assert [one for part in parts for one in part] == objects


def test_an_object_too_large_for_any_manifest_is_refused() -> None:
    with pytest.raises(ValueError, match="ConfigMap big of chart chart"):
        list(
            split(
                "chart",
                [{"kind": "ConfigMap", "metadata": {"name": "big"}, "data": {"file": "x" * MANIFEST_BYTES}}],
            )
        )


def test_scale_down_calls_eks_and_nothing_else() -> None:
    found = template(*EVERYTHING)
    schedules = [
        one["Properties"]
        for one in found.of_type("AWS::Scheduler::Schedule").values()
        if flat(one["Properties"]["Target"]["Arn"]).endswith("updateNodegroupConfig")
    ]
    assert {one["ScheduleExpression"] for one in schedules} == {"at(2030-01-02T20:00:00)", "rate(4 hours)"}
    called: list[str] = []
    for one in schedules:
        assert flat(one["Target"]["Arn"]).endswith(":scheduler:::aws-sdk:eks:updateNodegroupConfig")
        assert one["ScheduleExpressionTimezone"] == "UTC"
        call = json.loads(one["Target"]["Input"])
        called.append(call.pop("NodegroupName"))
        assert call == {
            "ClusterName": experiment().stack_name(REGION),
            "ScalingConfig": {"MinSize": 0, "MaxSize": 1, "DesiredSize": 0},
        }
    # The group of every zone, so that another zone changes no schedule.
    groups = [f"accelerator-us-east-2{zone}-on-demand" for zone in "abc"]
    assert sorted(called) == sorted(groups * 2)
    policy = found.resources[found.named("ScaleDownRoleDefaultPolicy")]["Properties"]["PolicyDocument"][
        "Statement"
    ]
    (statement,) = [one for one in policy if one["Action"] == "eks:UpdateNodegroupConfig"]
    assert [flat(arn).split("/")[-2] for arn in statement["Resource"]] == groups


def test_the_first_call_of_a_rate_finds_no_nodes_yet() -> None:
    """A rate without a start date fires at once; were the group there first, the deployment would end with no
    nodes.
    """
    found = template(*EVERYTHING)
    group = found.named("TrainiumNodesGroup")
    assert of_type(found, "AWS::Scheduler::Schedule") <= found.needs(group)
    for schedule in of_type(found, "AWS::Scheduler::Schedule"):
        assert not of_type(found, "AWS::EKS::Cluster") & found.needs(schedule)


def test_the_budget_counts_this_experiment_in_this_region() -> None:
    budget = template(*EVERYTHING).only("AWS::Budgets::Budget")
    assert budget["Budget"]["CostFilters"] == {
        "Region": [REGION],
        "TagKeyValue": ["user:experiment$qwen3-specdec"],
    }
    assert budget["Budget"]["BudgetLimit"] == {"Amount": 5000, "Unit": "USD"}
    told = [
        (one["Notification"]["NotificationType"], one["Notification"]["Threshold"])
        for one in budget["NotificationsWithSubscribers"]
    ]
    assert told == [("ACTUAL", 80), ("ACTUAL", 100), ("FORECASTED", 100)]


def test_nodes_end_by_default_and_not_where_that_is_refused() -> None:
    assert not template().of_type("AWS::Budgets::Budget")
    rates = [
        one["Properties"]["ScheduleExpression"]
        for one in template().of_type("AWS::Scheduler::Schedule").values()
    ]
    assert rates == ["rate(12 hours)"] * 3
    off = template(("[capacity]", "[guards]\nscale_down_every_hours = 0\n\n[capacity]"))
    assert not off.of_type("AWS::Scheduler::Schedule")


def test_alarms_budget_and_guard_tell_one_topic() -> None:
    found = template(*EVERYTHING)
    topic = found.named("NoticesTopic", "AWS::SNS::Topic")
    assert found.only("AWS::SNS::Subscription")["Endpoint"] == "team@example.com"
    alarms = found.of_type("AWS::CloudWatch::Alarm").values()
    assert {json.dumps(one["Properties"]["AlarmActions"]) for one in alarms} == {json.dumps([{"Ref": topic}])}
    told = [
        subscriber["Address"]
        for notice in found.only("AWS::Budgets::Budget")["NotificationsWithSubscribers"]
        for subscriber in notice["Subscribers"]
    ]
    assert told == [{"Ref": topic}] * 3
    messages = [
        one["Properties"]
        for one in found.of_type("AWS::Scheduler::Schedule").values()
        if flat(one["Properties"]["Target"]["Arn"]).endswith(":sns:publish")
    ]
    assert {one["ScheduleExpression"] for one in messages} == {"at(2030-01-02T20:00:00)", "rate(4 hours)"}
    assert {json.loads(flat(one["Target"]["Input"]))["TopicArn"] for one in messages} == {f"<{topic}>"}
    may_publish = [
        statement["Principal"]["Service"]
        for policy in found.of_type("AWS::SNS::TopicPolicy").values()
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
        if statement["Effect"] == "Allow"
    ]
    assert sorted(may_publish) == ["budgets.amazonaws.com", "cloudwatch.amazonaws.com"]


def test_a_topic_that_there_is_is_used_as_it_is() -> None:
    arn = "arn:aws:sns:us-east-2:111122223333:alarms"
    found = template(("[capacity]", f'[guards]\nnotify = "{arn}"\n\n[capacity]'))
    assert not found.of_type("AWS::SNS::Topic")
    alarms = found.of_type("AWS::CloudWatch::Alarm").values()
    assert {json.dumps(one["Properties"]["AlarmActions"]) for one in alarms} == {json.dumps([arn])}


def test_tags_reach_everything_that_takes_them() -> None:
    for kind in (
        "AWS::S3::Bucket",
        "AWS::EC2::VPC",
        "AWS::EKS::Nodegroup",
        "AWS::IAM::Role",
        "AWS::Logs::LogGroup",
        "AWS::EKS::Cluster",
    ):
        for name, resource in template(*EVERYTHING).of_type(kind).items():
            if name.startswith("Custom"):
                # The CDK makes these as plain resources without tags; the tags of the stack reach them at
                # deployment.
                continue
            tags = resource["Properties"]["Tags"]
            found: dict[str, str] = (
                tags if kind.startswith("AWS::EKS::N") else {tag["Key"]: tag["Value"] for tag in tags}
            )
            assert {
                "experiment": "qwen3-specdec",
                "owner": "inference-team",
                "cost-centre": "42",
            }.items() <= found.items()


def test_outputs_are_what_a_person_needs_next() -> None:
    outputs = template().body["Outputs"]
    name = experiment().stack_name(REGION)
    assert outputs["Kubeconfig"]["Value"] == f"aws eks update-kubeconfig --name {name} --region {REGION}"
    assert flat(outputs["Dashboard"]["Value"]).endswith(f"#dashboards/dashboard/{name}")
    assert {"Bucket", "Logs", "Runs", "MachineDashboard"} <= outputs.keys()
    tunnel, through = flat(outputs["Tunnel"]["Value"]), flat(outputs["KubectlThroughTunnel"]["Value"])
    host = tunnel.partition("host=")[2].partition(",")[0]
    assert host in through
    assert f"Values={name}-system" in tunnel
    nodes = template().of_type("AWS::EC2::LaunchTemplate").values()
    names = [
        flat(tag["Value"])
        for node in nodes
        for tag in node["Properties"]["LaunchTemplateData"]["TagSpecifications"][0]["Tags"]
        if tag["Key"] == "Name"
    ]
    cluster = template().named("Cluster", "AWS::EKS::Cluster")
    assert f"<{cluster}>-system" in names, "the tunnel finds its node by this name"
    assert all(output["Description"] for output in outputs.values())


def test_dashboards_are_valid_and_say_something() -> None:
    bodies = [
        json.loads(flat(one["Properties"]["DashboardBody"]))
        for one in template().of_type("AWS::CloudWatch::Dashboard").values()
    ]
    assert len(bodies) == 2
    for body in bodies:
        assert len(body["widgets"]) >= 8
        assert all(
            {"type", "x", "y", "width", "height", "properties"} <= widget.keys() for widget in body["widgets"]
        )


@pytest.mark.parametrize("edits", [(), (("devices = 8", "devices = 8\nstartup_minutes = 720"),)])
def test_no_alarm_calls_a_start_failed_that_may_still_succeed(edits: tuple[tuple[str, str], ...]) -> None:
    found, longest = template(*edits), start_seconds(experiment(*edits))
    unready = [
        one["Properties"]
        for name, one in found.of_type("AWS::CloudWatch::Alarm").items()
        if name.startswith("AlarmsUnready")
    ]
    assert len(unready) == 2
    for alarm in unready:
        seconds = alarm["EvaluationPeriods"] * 300
        assert longest <= seconds < longest + 300
    assert run_seconds(experiment(*edits)) > longest


def test_the_benchmark_is_found_in_a_deployed_stack() -> None:
    found = template()
    named = {name for name in of_type(found, MANIFEST) if name.startswith(BENCHMARK_RESOURCE)}
    jobs = {
        name
        for name in of_type(found, MANIFEST)
        if any(one["kind"] == "Job" and "llmperf" in one["metadata"]["name"] for one in found.manifests[name])
    }
    assert jobs <= named
    assert jobs
