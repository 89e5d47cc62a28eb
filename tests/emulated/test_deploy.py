"""The real CDK command deploys, changes and destroys the real app in an embedded account, without a network.

What this proves is the plumbing: assets, order, outputs, custom-resource code, updates, deletion. The
emulator accepts most of what AWS would refuse; that is for the gates in ``tests/stack``.
"""

from __future__ import annotations

from typing import Any

import pytest

from specdec.rehearsal.emulator.cluster import Manifest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1000)]

Facts = dict[str, Any]
FIRST, SECOND = "us-east-2", "ap-south-2"
REGIONS = (FIRST, SECOND)
PRUNE_LABEL = "aws.cdk.eks/prune-"


def without_what_the_cdk_adds(manifest: Manifest) -> Manifest:
    """The CDK adds one thing to an object: a label of its own with an empty value, and ``labels`` if there
    were none. Model storage, which nothing may prune, has none.
    """
    labels: dict[str, str] = manifest["metadata"]["labels"]
    added = [name for name in labels if name.startswith(PRUNE_LABEL)]
    assert len(added) == (0 if manifest["kind"].startswith("PersistentVolume") else 1), manifest
    assert not any(labels[name] for name in added)
    own = {name: value for name, value in labels.items() if name not in added}
    metadata = {name: value for name, value in manifest["metadata"].items() if name != "labels"}
    return {**manifest, "metadata": {**metadata, "labels": own} if own else metadata}


def by_name(manifests: list[Manifest]) -> dict[tuple[str, str], Manifest]:
    return {(manifest["kind"], manifest["metadata"]["name"]): manifest for manifest in manifests}


def recorded(manifests: list[Manifest]) -> dict[tuple[str, str], Manifest]:
    return by_name([without_what_the_cdk_adds(manifest) for manifest in manifests])


def test_it_ran_in_a_network_of_its_own(drill: Facts) -> None:
    if drill["isolated"] is not True:
        pytest.skip(f"the drill ran, but not cut off: {drill['isolated']}")


@pytest.mark.parametrize("region", REGIONS)
def test_every_region_has_its_stack(drill: Facts, region: str) -> None:
    seen = drill["deployed"][region]
    assert seen["status"] == "CREATE_COMPLETE"
    assert seen["cluster"]["status"] == "ACTIVE"
    assert seen["cluster"]["version"] == drill["experiment"].cluster.kubernetes_version
    assert seen["cluster"]["resourcesVpcConfig"]["endpointPublicAccess"] is False
    assert drill["experiment"].placement[region].zone in seen["zones"]
    assert len(seen["zones"]) == 3, "a subnet for nodes in each"
    assert seen["nat_gateways"] == ["available"]
    assert seen["flow_logs"] == ["ACTIVE"]


def test_a_person_is_told_what_they_need_next(drill: Facts) -> None:
    outputs = drill["outputs"][f"drill-{SECOND}"]
    assert outputs["Bucket"] == drill["deployed"][SECOND]["bucket"]["name"]
    assert outputs["Kubeconfig"] == f"aws eks update-kubeconfig --name drill-{SECOND} --region {SECOND}"
    assert outputs["Dashboard"].endswith(f"#dashboards/dashboard/drill-{SECOND}")


def test_progress_counts_up_to_all_resources(drill: Facts) -> None:
    done = [step[1] for step in drill["deploy_steps"]]
    assert done == sorted(done)
    assert drill["deploy_steps"][-1][1:] == [sum(drill["stacks"].values())] * 2


@pytest.mark.parametrize("region", REGIONS)
def test_the_nodes_are_what_the_experiment_says(drill: Facts, region: str) -> None:
    seen = drill["deployed"][region]
    (neuron,) = [group for group in seen["node_groups"] if group["amiType"] == "AL2023_x86_64_NEURON"]
    assert neuron["scalingConfig"] == {"minSize": 0, "maxSize": 1, "desiredSize": 0}
    assert len(neuron["subnets"]) == 1
    (template,) = [template for template in seen["templates"] if template["InstanceType"] == "trn2.48xlarge"]
    assert template["MetadataOptions"]["HttpTokens"] == "required"
    assert template["MetadataOptions"]["HttpPutResponseHopLimit"] == 1
    assert template["BlockDeviceMappings"][0]["Ebs"]["Encrypted"] is True


@pytest.mark.parametrize("region", REGIONS)
def test_pods_get_their_roles(drill: Facts, region: str) -> None:
    seen = drill["deployed"][region]
    accounts = {
        (association["namespace"], association["serviceAccount"]) for association in seen["associations"]
    }
    assert {
        ("specdec", "server"),
        ("specdec", "stager"),
        ("specdec", "benchmark"),
        ("amazon-cloudwatch", "cloudwatch-agent"),
    } <= accounts
    assert {
        "eks-pod-identity-agent",
        "aws-mountpoint-s3-csi-driver",
        "amazon-cloudwatch-observability",
        "vpc-cni",
    } <= set(seen["addons"])


@pytest.mark.parametrize("region", REGIONS)
def test_the_bucket_is_closed(drill: Facts, region: str) -> None:
    bucket = drill["deployed"][region]["bucket"]
    assert set(bucket["blocked"].values()) == {True}
    assert bucket["encryption"][0]["ApplyServerSideEncryptionByDefault"]["SSEAlgorithm"] == "AES256"
    assert {rule["ID"] for rule in bucket["rules"]} == {"aborted-uploads", "old-runs"}
    denied = [statement for statement in bucket["policy"]["Statement"] if statement["Effect"] == "Deny"]
    assert any(statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}} for statement in denied)
    assert bucket["tags"]["experiment"] == "drill"


@pytest.mark.parametrize("region", REGIONS)
def test_the_cluster_was_given_exactly_what_the_charts_say(drill: Facts, region: str) -> None:
    assert recorded(drill["manifests"][region]) == by_name(drill["built"][region])


@pytest.mark.parametrize("region", REGIONS)
def test_the_neuron_driver_is_installed_by_version(drill: Facts, region: str) -> None:
    (release,) = drill["releases"][region]
    assert release["chart"] == "oci://public.ecr.aws/neuron/neuron-helm-chart"
    assert release["version"]
    assert release["values"]["draDriver"]["enabled"] is True
    assert release["values"]["devicePlugin"]["enabled"] is False


def test_metrics_come_back_as_they_were_put(drill: Facts) -> None:
    points = drill["metrics"]
    # (10 + 14 + 18) / 3 = 14
    assert (points["Average"], points["Minimum"], points["Maximum"], points["SampleCount"]) == (
        14.0,
        10.0,
        18.0,
        3.0,
    )


def test_deploying_leaves_no_difference(drill: Facts) -> None:
    assert drill["differs_after_deploy"] is False


def test_an_update_changes_what_was_changed(drill: Facts) -> None:
    before, after = drill["deployed"][FIRST], drill["updated"]
    assert after["status"] == "UPDATE_COMPLETE"
    (neuron,) = [group for group in after["node_groups"] if group["amiType"] == "AL2023_x86_64_NEURON"]
    assert neuron["scalingConfig"]["desiredSize"] == 1
    assert after["cluster"]["createdAt"] == before["cluster"]["createdAt"], "the cluster stays"
    assert after["dashboards"].keys() == before["dashboards"].keys()
    board = f"drill-{FIRST}"
    assert "drafted" not in str(before["dashboards"][board])
    assert "drafted" in str(after["dashboards"][board])


@pytest.mark.parametrize("zone", ["a", "c"])
def test_another_zone_touches_the_node_group_alone(drill: Facts, zone: str) -> None:
    seen = drill["zones"][zone]
    assert seen["status"] == "UPDATE_COMPLETE"
    assert [name for name in seen["touched"] if not name.startswith("TrainiumNodesGroup")] == []
    assert seen["groups"] == [f"accelerator-{FIRST}{zone}-on-demand"]


def test_an_update_prunes_what_a_manifest_no_longer_has(drill: Facts) -> None:
    assert recorded(drill["updated_manifests"]) == by_name(drill["updated_built"])
    assert by_name(drill["built"][FIRST]).keys() - by_name(drill["updated_built"]).keys(), (
        "something was there to prune"
    )


@pytest.mark.parametrize("region", REGIONS)
def test_destroying_leaves_nothing(drill: Facts, region: str) -> None:
    left = drill["left"][region]
    assert left["found"] == []
    assert left["names"] == {}
    # A key cannot be deleted at once, on AWS either: it waits for its last days, without cost.
    assert set(left["keys"]) == {"PendingDeletion"}
    assert all(kept.startswith("kms ") for kept in left["kept"])


def test_a_refused_object_fails_the_deployment_and_is_named(drill: Facts) -> None:
    failure = drill["failure"]
    assert failure["exit_code"] == 1
    assert "Custom::AWSCDK-EKS-KubernetesResource" in failure["message"]
    assert 'admission webhook "drill" denied the request' in failure["message"]
    assert "    at " not in failure["message"]
    assert failure["remedy"].endswith("deploy.log")
    assert drill["failed_status"] == "ROLLBACK_COMPLETE"


def test_a_failed_deployment_is_destroyed_clean_but_for_the_bucket_that_is_kept(drill: Facts) -> None:
    left = drill["left_after_failure"]
    assert left["found"] == []
    assert [kept for kept in left["kept"] if kept.startswith("bucket ")] == [
        f"bucket {name}" for name in left["names"]["buckets"]
    ]
    assert left["names"].keys() == {"buckets"}
