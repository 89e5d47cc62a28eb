"""What each role may do, exactly, and what must exist before what: the tables that a reviewer reads."""

import json
import re

from tests.stack.synthesis import EVERYTHING, ROOT, Template, as_list, template

STORE = {"s3:AbortMultipartUpload", "s3:GetObject", "s3:ListBucket", "s3:PutObject"}
ROLES: dict[str, tuple[set[str], set[str]]] = {
    # Start of the role's logical id: managed policies, actions.
    "ClusterRole": ({"AmazonEKSClusterPolicy"}, set()),
    "ClusterKubectlProviderHandlerServiceRole": (
        {
            "AmazonEC2ContainerRegistryReadOnly",
            "AmazonElasticContainerRegistryPublicReadOnly",
            "service-role/AWSLambdaBasicExecutionRole",
            "service-role/AWSLambdaVPCAccessExecutionRole",
        },
        {"eks:DescribeCluster"},
    ),
    "ClusterKubectlProviderframeworkonEventServiceRole": (
        {"service-role/AWSLambdaBasicExecutionRole", "service-role/AWSLambdaVPCAccessExecutionRole"},
        {"lambda:GetFunction", "lambda:InvokeFunction"},
    ),
    "NodeRole": (
        {
            "AmazonEC2ContainerRegistryPullOnly",
            "AmazonEKSWorkerNodePolicy",
            "AmazonSSMManagedInstanceCore",
        },
        set(),
    ),
    "NodeAddonsVpcCniRole": ({"AmazonEKS_CNI_Policy"}, set()),
    "ObservabilityAgentRole": ({"CloudWatchAgentServerPolicy"}, set()),
    "NetworkVpcFlowLogIAMRole": (
        set(),
        {"logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"},
    ),
    "CustomVpcRestrictDefaultSGCustomResourceProviderRole": (
        {"service-role/AWSLambdaBasicExecutionRole"},
        {
            "ec2:AuthorizeSecurityGroupEgress",
            "ec2:AuthorizeSecurityGroupIngress",
            "ec2:RevokeSecurityGroupEgress",
            "ec2:RevokeSecurityGroupIngress",
        },
    ),
    "PodAccessServerRole": (set(), STORE),
    "PodAccessStagerRole": (set(), STORE),
    "PodAccessBenchmarkRole": (
        set(),
        {
            *STORE,
            "cloudwatch:GetMetricStatistics",
            "cloudwatch:PutMetricData",
            "eks:DescribeAddon",
            "eks:DescribeNodegroup",
            "eks:ListAddons",
        },
    ),
    "ScaleDownRole": (set(), {"eks:UpdateNodegroupConfig", "sns:Publish"}),
    "CustomS3AutoDeleteObjectsCustomResourceProviderRole": (
        {"service-role/AWSLambdaBasicExecutionRole"},
        set(),
    ),
}
EDGES = {
    # Start of a logical id: what exists before it, and so goes after it.
    "SystemNodesGroup": (
        "NodeAddonsVpcCni",
        "NodeAddonsKubeProxy",
        "NodeAddonsPodIdentityAgent",
        "ContainerLogs",
    ),
    "TrainiumNodesGroup": (
        "NodeAddonsVpcCni",
        "NodeAddonsKubeProxy",
        "NodeAddonsPodIdentityAgent",
        "ScaleDown",
    ),
    "NodeAddonsVpcCni": ("NodeAddonsPodIdentityAgent",),
    "PodAddonsCoreDns": ("SystemNodesGroup",),
    "PodAddonsMountpointS3": ("SystemNodesGroup",),
    "ObservabilityCloudWatch": ("SystemNodesGroup", "ContainerLogs"),
    "NeuronDevicesChart": ("SystemNodesGroup", "TrainiumNodesGroup"),
    "Workloads": (
        "NeuronDevicesChart",
        "PodAddonsCoreDns",
        "PodAddonsMountpointS3",
        "PodAccessServerAssociation",
        "PodAccessStagerAssociation",
        "PodAccessBenchmarkAssociation",
        "ModelStoreBucket",
    ),
}


def roles(found: Template) -> dict[str, tuple[set[str], set[str]]]:
    """Logical id of every role to its managed policies and its actions."""
    made: dict[str, tuple[set[str], set[str]]] = {}
    for name, role in found.of_type("AWS::IAM::Role").items():
        text = json.dumps(role["Properties"].get("ManagedPolicyArns", []))
        managed = {part.split('"')[0] for part in text.replace("\\", "").split("iam::aws:policy/")[1:]}
        inline = [policy["PolicyDocument"] for policy in role["Properties"].get("Policies", [])]
        attached = [
            policy["Properties"]["PolicyDocument"]
            for policy in found.of_type("AWS::IAM::Policy").values()
            if {"Ref": name} in policy["Properties"]["Roles"]
        ]
        actions = {
            action
            for document in (*inline, *attached)
            for statement in document["Statement"]
            for action in as_list(statement["Action"])
        }
        made[name] = (managed, actions)
    return made


def test_every_role_has_exactly_its_policies_and_actions() -> None:
    """A role that is not in the table is new, and one of the table that no template has is gone."""
    seen: set[str] = set()
    for name, (managed, actions) in roles(template(*EVERYTHING)).items():
        starts = [start for start in ROLES if re.fullmatch(f"{start}[0-9A-F]{{8}}", name)]
        assert starts, f"{name}: a role that no reviewer has seen, with {managed} and {actions}"
        expected = ROLES[starts[0]]
        seen.add(starts[0])
        for kind, there, wanted in zip(
            ("managed policies", "actions"), (managed, actions), expected, strict=True
        ):
            assert there == wanted, (
                f"{name}: {kind} are {sorted(there)}, expected {sorted(wanted)}:"
                f" {sorted(there - wanted)} too many, {sorted(wanted - there)} missing"
            )
    assert seen == set(ROLES)


def test_every_edge_of_the_order_is_there() -> None:
    found = template(*EVERYTHING)
    missing = [
        f"{name}: what exists before it is {sorted(found.needs(name))}, expected {before} among them"
        for start, needed in EDGES.items()
        for name in found.resources
        if name.startswith(start)
        and found.resources[name]["Type"] not in ("AWS::IAM::Role", "AWS::IAM::Policy")
        for before in needed
        if not any(other.startswith(before) for other in found.needs(name))
    ]
    assert not missing, "\n".join(missing)


def test_the_page_for_reviewers_lists_every_role_with_all_it_may() -> None:
    page = (ROOT / "docs" / "stack.md").read_text(encoding="utf-8")
    lines = {line.split("`")[1]: line for line in page.splitlines() if line.startswith("| `")}
    for role, (managed, actions) in ROLES.items():
        assert role in lines, f"docs/stack.md does not name {role}"
        for allowed in (*actions, *(policy.rpartition("/")[2] for policy in managed)):
            assert f"`{allowed}`" in lines[role], f"docs/stack.md does not say that {role} may {allowed}"
