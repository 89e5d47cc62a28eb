import base64
import json
from typing import Any

import pytest
import yaml

from tests.stack.synthesis import EVERYTHING, Template, flat, template

pytestmark = pytest.mark.slow

RESERVED = ('zone = "us-east-2b"', 'reservation_id = "cr-0123456789abcdef0"\nzone = "us-east-2b"')
RESERVATION = (('"on-demand"', '"reservation"'), RESERVED)
CAPACITY_BLOCK = (('"on-demand"', '"capacity-block"'), RESERVED)


def accelerators(found: Template) -> tuple[dict[str, Any], dict[str, Any]]:
    """The node group and the data of its launch template."""
    group = found.only("AWS::EKS::Nodegroup", AmiType="AL2023_x86_64_NEURON")
    return group, found.resources[group["LaunchTemplate"]["Id"]["Ref"]]["Properties"]["LaunchTemplateData"]


@pytest.mark.parametrize(
    ("edits", "capacity_type", "market", "reservation"),
    [
        ((), "ON_DEMAND", None, None),
        (RESERVATION, "ON_DEMAND", None, "cr-0123456789abcdef0"),
        (CAPACITY_BLOCK, "CAPACITY_BLOCK", "capacity-block", "cr-0123456789abcdef0"),
    ],
    ids=["on-demand", "reservation", "capacity-block"],
)
def test_capacity_and_market_agree(
    edits: tuple[tuple[str, str], ...], capacity_type: str, market: str | None, reservation: str | None
) -> None:
    group, launch = accelerators(template(*edits))
    assert group["CapacityType"] == capacity_type
    assert launch.get("InstanceMarketOptions") == ({"MarketType": market} if market else None)
    target = {"CapacityReservationTarget": {"CapacityReservationId": reservation}} if reservation else None
    assert launch.get("CapacityReservationSpecification") == target
    # EKS refuses a launch template with any of these for a managed node group.
    assert (
        not {"IamInstanceProfile", "InstanceInitiatedShutdownBehavior", "HibernationOptions", "ImageId"}
        & launch.keys()
    )
    assert "SubnetId" not in json.dumps(launch)


def test_the_instance_type_is_in_the_launch_template_alone() -> None:
    found = template()
    assert accelerators(found)[1]["InstanceType"] == "trn2.48xlarge"
    assert all(
        "InstanceTypes" not in group["Properties"] for group in found.of_type("AWS::EKS::Nodegroup").values()
    )


@pytest.mark.parametrize("desired", [0, 1, 3])
def test_sizes_are_in_order(desired: int) -> None:
    found = template(("desired_nodes = 0", f"desired_nodes = {desired}\nmax_nodes = 3"))
    for group in found.of_type("AWS::EKS::Nodegroup").values():
        sizes = group["Properties"]["ScalingConfig"]
        assert 0 <= sizes["MinSize"] <= sizes["DesiredSize"] <= sizes["MaxSize"]
        assert sizes["MaxSize"] >= 1
    assert accelerators(found)[0]["ScalingConfig"] == {"MinSize": 0, "DesiredSize": desired, "MaxSize": 3}


def test_a_spot_group_is_spot_and_names_no_reservation() -> None:
    group, launch = accelerators(template(('purchase = "on-demand"', 'purchase = "spot"')))
    assert (group["CapacityType"], group["NodegroupName"]) == ("SPOT", "accelerator-us-east-2b-spot")
    assert not {"InstanceMarketOptions", "CapacityReservationSpecification"} & launch.keys()


def test_an_update_does_not_wait_for_a_second_accelerator_node() -> None:
    assert accelerators(template())[0]["UpdateConfig"] == {"MaxUnavailable": 1, "UpdateStrategy": "MINIMAL"}


def test_nodes_move_to_another_image_on_purpose_only() -> None:
    """EKS moves a node group when its release changes, and leaves one without a release where it is."""
    for group in template().of_type("AWS::EKS::Nodegroup").values():
        assert not {"ReleaseVersion", "Version"} & group["Properties"].keys()
    release = ("[capacity]", '[cluster]\nami_release = "1.35.8-20260917"\n\n[capacity]')
    pinned = template(release).of_type("AWS::EKS::Nodegroup")
    moved = {(one["Properties"]["ReleaseVersion"], one["Properties"]["Version"]) for one in pinned.values()}
    assert moved == {("1.35.8-20260917", "1.35")}
    assert len(pinned) == 2
    newer = template((release[0], release[1].replace("20260917", "20261101"))).resources
    changed = {name for name, one in newer.items() if one != template(release).resources[name]}
    assert changed == set(pinned), "another release is the node groups and nothing else"


def test_only_pods_that_tolerate_it_run_on_accelerator_nodes() -> None:
    assert accelerators(template())[0]["Taints"] == [
        {"Key": "aws.amazon.com/neuron", "Value": "true", "Effect": "NO_SCHEDULE"}
    ]


def test_all_instances_have_imdsv2_encrypted_disks_and_cost_tags() -> None:
    for resource in template(*EVERYTHING).of_type("AWS::EC2::LaunchTemplate").values():
        launch = resource["Properties"]["LaunchTemplateData"]
        assert launch["MetadataOptions"] == {"HttpTokens": "required", "HttpPutResponseHopLimit": 1}
        (disk,) = launch["BlockDeviceMappings"]
        assert disk["DeviceName"] == "/dev/xvda"
        assert (disk["Ebs"]["Encrypted"], disk["Ebs"]["VolumeType"]) == (True, "gp3")
        for tagged in launch["TagSpecifications"]:
            tags = {tag["Key"]: tag["Value"] for tag in tagged["Tags"]}
            assert tags.keys() == {"experiment", "Name"}
            assert tags["experiment"] == "qwen3-specdec"
        assert [tagged["ResourceType"] for tagged in launch["TagSpecifications"]] == ["instance", "volume"]


def test_the_root_volume_holds_neuron_images() -> None:
    assert accelerators(template())[1]["BlockDeviceMappings"][0]["Ebs"]["VolumeSize"] == 500


def test_local_disks_become_one_array() -> None:
    user_data = accelerators(template())[1]["UserData"]["Fn::Base64"]
    head, _, rest = user_data.partition("Content-Type: application/node.eks.aws")
    assert head.startswith("Content-Type: multipart/mixed; boundary=")
    document = rest.partition("---\n")[2].partition("\n--")[0]
    assert yaml.safe_load(document) == {
        "apiVersion": "node.eks.aws/v1alpha1",
        "kind": "NodeConfig",
        "spec": {"instance": {"localStorage": {"strategy": "RAID0"}}},
    }
    assert len(base64.b64encode(user_data.encode())) < 16 * 1024


def test_a_node_sets_aside_the_pages_its_servers_ask_for() -> None:
    small = template(
        ("trn2.48xlarge", "trn2.3xlarge"),
        ("vllm-0.9.1-sdk-2.26.1", "vllm-0.24.0-sdk-2.32.0"),
        ('"fused"', '"eagle"'),
        ("logical_core_size = 2\ndevices = 8", "logical_core_size = 2\ndevices = 1"),
        ("tensor_parallel_degree = 32", "tensor_parallel_degree = 4"),
        ("desired_nodes = 0", "desired_nodes = 2\nmax_nodes = 2\nallow_unlisted_region = true"),
    )
    user_data = accelerators(small)[1]["UserData"]["Fn::Base64"]
    script = user_data.partition("Content-Type: text/x-shellscript")[2]
    # 5120 MiB in pages of 2 MiB.
    assert "echo 2560 > /proc/sys/vm/nr_hugepages" in script
    assert "nr_hugepages" not in accelerators(template())[1]["UserData"]["Fn::Base64"]


def test_nodes_have_no_interfaces_of_their_own_without_efa() -> None:
    _, launch = accelerators(template())
    assert not {"NetworkInterfaces", "Placement", "SecurityGroupIds"} & launch.keys()


def test_efa_on_every_network_card() -> None:
    found = template(*EVERYTHING)
    _, launch = accelerators(found)
    layout = [
        (one["NetworkCardIndex"], one["DeviceIndex"], one["InterfaceType"])
        for one in launch["NetworkInterfaces"]
    ]
    assert layout == [
        (0, 0, "interface"),
        (0, 1, "efa-only"),
        *((card, 0, "efa-only") for card in range(1, 16)),
    ]
    cluster = found.named("Cluster", "AWS::EKS::Cluster")
    for one in launch["NetworkInterfaces"]:
        assert flat(one["Groups"][0]) == f"<{cluster}.ClusterSecurityGroupId>"
    assert found.resources[launch["Placement"]["GroupName"]["Ref"]]["Properties"]["Strategy"] == "cluster"


def test_efa_in_reserved_capacity_brings_no_placement_group() -> None:
    found = template(*CAPACITY_BLOCK, ("[capacity]", "[capacity]\nefa = true"))
    assert "Placement" not in accelerators(found)[1]


def test_the_group_gets_another_name_when_it_would_be_replaced() -> None:
    names = {
        accelerators(template(*edits))[0]["NodegroupName"] for edits in ((), RESERVATION, CAPACITY_BLOCK)
    }
    assert len(names) == 3
    assert all(len(name) <= 63 for name in names)


@pytest.mark.parametrize("allocation", ["dra", "device-plugin"])
def test_devices_are_handed_out_in_one_way(allocation: str) -> None:
    chart = template(("[serving]", f'[serving]\nallocation = "{allocation}"')).only(
        "Custom::AWSCDK-EKS-HelmChart"
    )
    values = json.loads(chart["Values"])
    dra, plugin = values["draDriver"]["enabled"], values["devicePlugin"]["enabled"]
    assert (dra, plugin) == (allocation == "dra", allocation != "dra")
    assert values["scheduler"]["enabled"] is plugin
    assert values["npd"]["enabled"] is False
    # Without these two the CDK's handler fails in the middle of a deployment.
    assert chart["Release"] == "neuron"
    assert chart["Version"].count(".") == 2


def test_launch_templates_do_not_follow_owner_variants_or_tags() -> None:
    # CloudFormation refuses a new template version together with a new tag of the node group
    # (aws/aws-cdk#16644).
    other = template(
        ("window = 7", "window = 5"),
        ('name = "speculative"', 'name = "smaller-window"'),
        ('owner = "inference-team"', 'owner = "others"'),
    )
    assert other.of_type("AWS::EC2::LaunchTemplate") == template().of_type("AWS::EC2::LaunchTemplate")


def test_another_reservation_is_another_node_group() -> None:
    from trainium_constructs.trainium_nodes import node_group_name

    names = {
        node_group_name(zone="ap-southeast-4a", purchase="capacity-block", reservation_id=f"cr-{digit * 17}")
        for digit in "01"
    }
    assert len(names) == 2
    assert max(map(len, names)) <= 63
