"""Whether an EKS cluster that exists can carry the stack: version, network, add-ons, names and the way in."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from specdec.aws import calls, code, pages
from specdec.catalog.addons import ADDONS, CNI, OBSERVABILITY, POD_IDENTITY
from specdec.deployed.stack import stack_status
from specdec.errors import EnvironmentFault, SpecdecError
from specdec.operate.kubernetes import NAMESPACE, Kubectl
from specdec.operate.nodes import PREFIX
from specdec.preflight.account_rules import statements_of
from specdec.preflight.finding import Finding, Scope

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from specdec.experiment.fields import Placement

Facts = dict[str, Any]


def cluster(scope: Scope) -> Iterator[Finding]:
    """An existing cluster is used as it is, so anything it lacks would only show hours into a deployment.
    Nothing is asked if the stack makes its own cluster.
    """
    place = scope.experiment.placement[scope.region]
    if place.cluster_name is None:
        return
    name, eks = place.cluster_name, scope.clients("eks")
    with calls():
        try:
            facts: Facts = eks.describe_cluster(name=name)["cluster"]
        except ClientError as error:
            if code(error) != "ResourceNotFoundException":
                raise
            listed = ", ".join(pages(eks, "list_clusters", "clusters")) or "none"
            remedy = f"Set placement.{scope.region}.cluster_name to one of: {listed}"
            yield Finding("cluster", "blocker", f"there is no cluster {name} in {scope.region}", remedy)
            return
        there: dict[str, Facts] = {
            addon: eks.describe_addon(clusterName=name, addonName=addon)["addon"]
            for addon in pages(eks, "list_addons", "addons", clusterName=name)
            if addon in ADDONS
        }
    wanted = scope.experiment.cluster.kubernetes_version
    findings = [
        *judge_cluster(facts, place, wanted=wanted),
        *judge_addons(there, place, experiment=scope.experiment.name),
    ]
    if stack_status(scope.clients, scope.stack) is None:
        findings += _names(scope, name)
    findings += _way_in(scope, facts, place)
    if not any(finding.level == "blocker" for finding in findings):
        yield Finding(
            "cluster", "ok", f"{name} runs {facts['version']} and has what the stack does not bring"
        )
    yield from findings


def judge_cluster(facts: Mapping[str, Any], place: Placement, *, wanted: str) -> Iterator[Finding]:
    """Reads state, version, network and endpoint of the cluster."""
    name, network = place.cluster_name, facts.get("resourcesVpcConfig", {})
    if facts.get("status") != "ACTIVE":
        yield _blocker(f"{name} is {facts.get('status')}", f"Wait: aws eks wait cluster-active --name {name}")
    if facts.get("version") != wanted:
        yield _blocker(
            f"{name} runs Kubernetes {facts.get('version')}, and the experiment is made for {wanted}",
            f'Set cluster.kubernetes_version = "{facts.get("version")}", if it can be set so; else let the'
            " cluster be upgraded",
        )
    for field, key, mine in (
        ("vpc_id", "vpcId", place.vpc_id),
        ("cluster_security_group_id", "clusterSecurityGroupId", place.cluster_security_group_id),
    ):
        if network.get(key) != mine:
            yield _blocker(
                f"{name} has {network.get(key)}, not {mine}", f'Set {field} = "{network.get(key)}" beside it'
            )
    if not network.get("endpointPrivateAccess"):
        yield Finding(
            "cluster",
            "warning",
            f"the API of {name} has no private endpoint, so our function and nodes reach it by the internet",
            "Let its owners turn private access on, or see that public access admits your NAT gateway",
        )


def judge_addons(
    there: Mapping[str, Mapping[str, Any]], place: Placement, *, experiment: str
) -> Iterator[Finding]:
    """Compares the cluster's add-ons with those that the experiment says it has.

    Args:
        there: DescribeAddon's answer for each of the stack's add-ons that the cluster has.
        place: what the experiment says.
        experiment: its name, the value of the tag on what is ours.
    """
    named = f"placement's cluster_addons of {place.cluster_name}"
    for name in place.cluster_addons:
        if name not in there:
            what = (
                "no Pod Identity agent, so no pod of ours would get credentials"
                if name == POD_IDENTITY
                else f"no add-on {name}"
            )
            yield _blocker(
                f"{place.cluster_name} has {what}",
                f"Take {name} out of cluster_addons, and the stack brings it; or let the owners add it",
            )
    for name, addon in there.items():
        if name not in place.cluster_addons and addon.get("tags", {}).get("experiment") != experiment:
            yield _blocker(
                f"{place.cluster_name} has {name} {addon.get('addonVersion')}, which {_owner(addon)} owns",
                f'Add "{name}" to {named}: two stacks cannot own one add-on',
            )
        if name in place.cluster_addons and addon.get("status") not in ("ACTIVE", "DEGRADED", "UPDATING"):
            yield _blocker(f"{name} is {addon.get('status')}", "Let its owners mend it first")
    yield from _settings(there, place)


def _settings(there: Mapping[str, Mapping[str, Any]], place: Placement) -> Iterator[Finding]:
    cni = there.get(CNI)
    if cni is not None and CNI in place.cluster_addons and '"enableNetworkPolicy"' not in _configured(cni):
        yield Finding(
            "cluster",
            "warning",
            f"{CNI} is not set to enforce network policies, so those of the experiment have no effect",
            'Its setting is {"enableNetworkPolicy": "true"}',
        )
    agent = there.get(OBSERVABILITY)
    if agent is None or OBSERVABILITY not in place.cluster_addons:
        return
    if '"neuronMonitor"' not in _configured(agent):
        yield Finding(
            "cluster",
            "warning",
            f"{OBSERVABILITY} is not set to watch Neuron devices, so the charts of devices stay empty",
            'Its settings are {"containerInsights": {"enabled": true}, "neuronMonitor": {"enabled": true}}',
        )


def _configured(addon: Mapping[str, Any]) -> str:
    return str(addon.get("configurationValues") or "")


def _owner(addon: Mapping[str, Any]) -> str:
    tags = addon.get("tags", {})
    stack = tags.get("aws:cloudformation:stack-name")
    return (
        f"stack {stack}"
        if stack
        else f"somebody else (tags {json.dumps(tags, sort_keys=True, allow_nan=False)})"
    )


def _names(scope: Scope, name: str) -> Iterator[Finding]:
    """What of the stack's names in the cluster is taken."""
    eks = scope.clients("eks")
    with calls():
        groups = pages(eks, "list_nodegroups", "nodegroups", clusterName=name)
        associations = pages(
            eks, "list_pod_identity_associations", "associations", clusterName=name, namespace=NAMESPACE
        )
    zone = scope.experiment.placement[scope.region].zone
    group = f"{PREFIX}{zone}-{scope.experiment.capacity.purchase}"
    yield from judge_names(groups, associations, name=name, wanted=group)
    ask = ["get", "namespace", NAMESPACE, "--ignore-not-found", "--output", "name"]
    try:
        taken = bool(Kubectl(scope.experiment, scope.region, scope.clients)(ask).strip())
    except (EnvironmentFault, SpecdecError) as error:
        yield Finding(
            "cluster",
            "unknown",
            f"whether the namespace {NAMESPACE} is free was not looked at: {error}",
            f"kubectl get namespace {NAMESPACE}",
        )
        return
    if taken:
        yield _blocker(
            f"the namespace {NAMESPACE} is taken in {name}",
            "One experiment fits into a cluster at a time: destroy the other, or use another cluster",
        )


def judge_names(
    groups: Iterable[str], associations: Iterable[Mapping[str, Any]], *, name: str, wanted: str
) -> Iterator[Finding]:
    """Looks for the stack's node group and its pods' roles among what the cluster has.

    Args:
        groups: names of the node groups.
        associations: Pod Identity associations in the experiment's namespace.
        name: of the cluster.
        wanted: start of the name of the stack's accelerator group.
    """
    for group in groups:
        if group.startswith(wanted):
            yield _blocker(
                f"{name} has a node group {group} already",
                "Another experiment has it: destroy that one, or use another zone",
            )
    accounts = sorted(str(association.get("serviceAccount")) for association in associations)
    if accounts:
        yield _blocker(
            f"Pod Identity in {name} has {', '.join(accounts)} in the namespace {NAMESPACE} already",
            "One experiment fits into a cluster at a time: destroy the other, or use another cluster",
        )


def _way_in(scope: Scope, facts: Mapping[str, Any], place: Placement) -> Iterator[Finding]:
    mode = facts.get("accessConfig", {}).get("authenticationMode", "CONFIG_MAP")
    if place.kubectl_role_arn is None:
        if mode == "CONFIG_MAP":
            yield _blocker(
                f"{place.cluster_name} knows no access entries, so a role of ours gets in by aws-auth only",
                "Set kubectl_role_arn to a role that aws-auth maps to system:masters; or let the owners run:"
                f" aws eks update-cluster-config --name {place.cluster_name} --access-config"
                " authenticationMode=API_AND_CONFIG_MAP",
            )
        return
    with calls():
        try:
            role = scope.clients("iam").get_role(RoleName=place.kubectl_role_arn.rpartition("/")[2])["Role"]
        except ClientError as error:
            if code(error) != "NoSuchEntity":
                raise
            yield _blocker(f"there is no role {place.kubectl_role_arn}", "Correct kubectl_role_arn")
            return
        entry = None
        if mode != "CONFIG_MAP":
            try:
                entry = scope.clients("eks").list_associated_access_policies(
                    clusterName=place.cluster_name, principalArn=place.kubectl_role_arn
                )["associatedAccessPolicies"]
            except ClientError as error:
                if code(error) != "ResourceNotFoundException":
                    raise
    yield from judge_kubectl_role(place.kubectl_role_arn, role["AssumeRolePolicyDocument"], entry, mode=mode)


def judge_kubectl_role(
    arn: str, trust: Mapping[str, Any], policies: Iterable[Mapping[str, Any]] | None, *, mode: str
) -> Iterator[Finding]:
    """Reads who may assume a kubectl role, and what it may do in the cluster.

    Args:
        arn: the role.
        trust: its trust policy.
        policies: access policies of its entry; None where it has none.
        mode: authentication mode of the cluster.
    """
    services = [
        str(statement.get("Principal", {}).get("Service", ""))
        for statement in statements_of(trust)
        if statement.get("Effect") == "Allow" and isinstance(statement.get("Principal"), dict)
    ]
    if not any("lambda.amazonaws.com" in service for service in services):
        yield _blocker(
            f"{arn} does not let Lambda assume it, and kubectl runs there",
            "Let its trust policy allow sts:AssumeRole to lambda.amazonaws.com",
        )
    admin = any("AmazonEKSClusterAdminPolicy" in str(policy.get("policyArn")) for policy in policies or ())
    if policies is None and mode == "API":
        yield _blocker(
            f"{arn} has no access entry",
            f"Let the owners run: aws eks create-access-entry --principal-arn {arn} --cluster-name NAME",
        )
    elif not admin:
        yield Finding(
            "cluster",
            "unknown",
            f"whether {arn} may administer the cluster is told by Kubernetes alone (aws-auth or groups)",
            "kubectl auth can-i '*' '*' --all-namespaces, as this role",
        )


def _blocker(what: str, remedy: str) -> Finding:
    return Finding("cluster", "blocker", what, remedy)
