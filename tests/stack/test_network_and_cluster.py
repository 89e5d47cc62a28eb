import ipaddress
import itertools
import json

import pytest

from specdec.catalog.addons import ADDONS
from tests.stack.synthesis import DEFAULT, EVERYTHING, flat, references, template

pytestmark = pytest.mark.slow

CLUSTER = "AWS::EKS::Cluster"


def test_one_nat_gateway_and_a_free_path_to_s3() -> None:
    found = template()
    assert len(found.of_type("AWS::EC2::NatGateway")) == 1
    endpoint = found.only("AWS::EC2::VPCEndpoint")
    assert (endpoint["VpcEndpointType"], flat(endpoint["ServiceName"])) == (
        "Gateway",
        "com.amazonaws.<AWS::Region>.s3",
    )
    private = {name for name in found.of_type("AWS::EC2::RouteTable") if "public" not in name}
    assert len(private) == 2 + 3, "the control plane's two, and the nodes' in each zone"
    assert private <= set(references(endpoint["RouteTableIds"]))


def test_the_default_security_group_is_closed() -> None:
    """By the CDK's function, which may change the rules of this group and nothing else."""
    found = template()
    closed = found.only("Custom::VpcRestrictDefaultSG")
    (vpc,) = found.of_type("AWS::EC2::VPC")
    assert closed["DefaultSecurityGroupId"] == {"Fn::GetAtt": [vpc, "DefaultSecurityGroup"]}
    role = found.resources[found.named("CustomVpcRestrictDefaultSG", "AWS::IAM::Role")]["Properties"]
    (policy,) = role["Policies"]
    (statement,) = policy["PolicyDocument"]["Statement"]
    (group,) = statement["Resource"]
    assert flat(group["Fn::Join"][1][-1]) == f"<{vpc}.DefaultSecurityGroup>"


def test_flow_logs_are_on() -> None:
    assert template().only("AWS::EC2::FlowLog")["TrafficType"] == "ALL"


def test_the_control_plane_has_two_zones_and_the_accelerators_the_chosen_one() -> None:
    found = template()
    subnets = found.of_type("AWS::EC2::Subnet")
    zone_of = {name: subnet["Properties"]["AvailabilityZone"] for name, subnet in subnets.items()}
    control_plane = {zone_of[one["Ref"]] for one in found.only(CLUSTER)["ResourcesVpcConfig"]["SubnetIds"]}
    (accelerator,) = found.only("AWS::EKS::Nodegroup", AmiType="AL2023_x86_64_NEURON")["Subnets"]
    assert control_plane == {"us-east-2a", "us-east-2b"}
    assert zone_of[accelerator["Ref"]] == "us-east-2b"


@pytest.mark.parametrize("edits", [(), EVERYTHING], ids=["default", "everything"])
def test_another_zone_is_another_node_group_and_nothing_else(edits: tuple[tuple[str, str], ...]) -> None:
    made = {
        zone: template(*edits, ('zone = "us-east-2b"', f'zone = "us-east-2{zone}"')).resources
        for zone in "abc"
    }
    for zone in "ac":
        changed = [name for name in made["b"] if made[zone].get(name) != made["b"][name]]
        assert [made["b"][name]["Type"] for name in changed] == ["AWS::EKS::Nodegroup"]
        assert made[zone].keys() == made["b"].keys()


@pytest.mark.parametrize("cidr", ["10.42.0.0/16", "10.42.0.0/22"])
def test_ranges_do_not_overlap_and_the_zones_keep_theirs(cidr: str) -> None:
    zones = ", ".join(f'"us-east-2{letter}"' for letter in "abcde")
    found = template(
        ("[capacity]", f'[cluster]\nvpc_cidr = "{cidr}"\n\n[capacity]'),
        ('zone = "us-east-2b"', f'zones = [{zones}]\nzone = "us-east-2b"'),
    )
    subnets = found.of_type("AWS::EC2::Subnet").values()
    ranges = [ipaddress.IPv4Network(subnet["Properties"]["CidrBlock"]) for subnet in subnets]
    assert len(ranges) == 4 + 5
    assert not any(one.overlaps(other) for one, other in itertools.combinations(ranges, 2))
    assert all(one.subnet_of(ipaddress.IPv4Network(cidr)) for one in ranges)


def test_a_zone_more_leaves_every_other_subnet_as_it_is() -> None:
    more = (
        'zone = "us-east-2b"',
        'zones = ["us-east-2a", "us-east-2b", "us-east-2c", "us-east-2d"]\nzone = "us-east-2b"',
    )
    before, after = template().of_type("AWS::EC2::Subnet"), template(more).of_type("AWS::EC2::Subnet")
    assert {name: after[name] for name in before} == before
    assert len(after) == len(before) + 1


def test_no_subnet_gives_public_addresses() -> None:
    assert not any(
        subnet["Properties"].get("MapPublicIpOnLaunch", False)
        for subnet in template().of_type("AWS::EC2::Subnet").values()
    )


def test_every_subnet_and_launch_template_named_by_cluster_or_nodes_is_in_the_template() -> None:
    found = template()
    named = [found.only(CLUSTER)["ResourcesVpcConfig"]["SubnetIds"]]
    named += [group["Properties"]["Subnets"] for group in found.of_type("AWS::EKS::Nodegroup").values()]
    assert {found.resources[name]["Type"] for name in references(named)} == {"AWS::EC2::Subnet"}
    launch = [
        group["Properties"]["LaunchTemplate"] for group in found.of_type("AWS::EKS::Nodegroup").values()
    ]
    assert {found.resources[name]["Type"] for name in references(launch)} == {"AWS::EC2::LaunchTemplate"}


def test_the_endpoint_is_private_unless_ranges_are_named() -> None:
    private = template().only(CLUSTER)["ResourcesVpcConfig"]
    assert (private["EndpointPrivateAccess"], private["EndpointPublicAccess"]) == (True, False)
    public = template(*EVERYTHING).only(CLUSTER)["ResourcesVpcConfig"]
    assert (public["EndpointPrivateAccess"], public["PublicAccessCidrs"]) == (True, ["203.0.113.0/24"])


def test_all_control_plane_logs_are_on() -> None:
    enabled = template().only(CLUSTER)["Logging"]["ClusterLogging"]["EnabledTypes"]
    assert {one["Type"] for one in enabled} == {
        "api",
        "audit",
        "authenticator",
        "controllerManager",
        "scheduler",
    }


def test_kubernetes_secrets_are_encrypted_with_a_rotating_key() -> None:
    found = template()
    (encryption,) = found.only(CLUSTER)["EncryptionConfig"]
    assert encryption["Resources"] == ["secrets"]
    (key,) = references(encryption)
    assert found.resources[key]["Properties"]["EnableKeyRotation"] is True


def test_only_access_entries_open_the_cluster() -> None:
    found = template(*EVERYTHING)
    assert found.only(CLUSTER)["AccessConfig"] == {
        "AuthenticationMode": "API",
        "BootstrapClusterCreatorAdminPermissions": False,
    }
    entries = [entry["Properties"] for entry in found.of_type("AWS::EKS::AccessEntry").values()]
    people = [entry["PrincipalArn"] for entry in entries if isinstance(entry["PrincipalArn"], str)]
    assert people == ["arn:aws:iam::111122223333:role/Admin"]
    # The other one is the CDK's function that applies manifests.
    assert len(entries) == 2


@pytest.mark.parametrize("version", ["1.34", "1.35", "1.36"])
def test_every_offered_kubernetes_version_synthesizes(version: str) -> None:
    assert f'"{version}"' not in DEFAULT
    found = template(("[capacity]", f'[cluster]\nkubernetes_version = "{version}"\n\n[capacity]'))
    assert found.only(CLUSTER)["Version"] == version


def test_add_ons_are_known_and_declared_once() -> None:
    names = [addon["Properties"]["AddonName"] for addon in template().of_type("AWS::EKS::Addon").values()]
    assert sorted(names) == sorted(ADDONS)
    assert template().only(CLUSTER)["BootstrapSelfManagedAddons"] is False


def test_add_on_settings() -> None:
    found = template(*EVERYTHING)

    def settings(name: str) -> dict[str, object]:
        return json.loads(found.only("AWS::EKS::Addon", AddonName=name)["ConfigurationValues"])

    assert settings("vpc-cni") == {"enableNetworkPolicy": "true"}
    insights = settings("amazon-cloudwatch-observability")
    assert insights["containerInsights"] == insights["neuronMonitor"] == {"enabled": True}
    assert found.only("AWS::EKS::Addon", AddonName="coredns")["AddonVersion"] == "v1.12.1-eksbuild.2"


@pytest.mark.parametrize("version", ["1.34", "1.35", "1.36"])
def test_every_add_on_has_the_version_of_the_catalogue(version: str) -> None:
    found = template(("[capacity]", f'[cluster]\nkubernetes_version = "{version}"\n\n[capacity]'))
    there = {
        addon["Properties"]["AddonName"]: addon["Properties"]["AddonVersion"]
        for addon in found.of_type("AWS::EKS::Addon").values()
    }
    assert there == {name: addon.versions[version] for name, addon in ADDONS.items()}


@pytest.mark.parametrize(
    ("addon", "account"), [("vpc-cni", "aws-node"), ("amazon-cloudwatch-observability", "cloudwatch-agent")]
)
def test_add_ons_with_pod_identity(addon: str, account: str) -> None:
    (association,) = template().only("AWS::EKS::Addon", AddonName=addon)["PodIdentityAssociations"]
    assert association["ServiceAccount"] == account


def test_the_storage_driver_has_no_role_because_pods_have_their_own() -> None:
    assert "PodIdentityAssociations" not in template().only(
        "AWS::EKS::Addon", AddonName="aws-mountpoint-s3-csi-driver"
    )
