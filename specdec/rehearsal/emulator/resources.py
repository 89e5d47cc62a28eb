"""CloudFormation resource types that the pinned emulator can serve by API but not by stack.

Each handler makes the API call that CloudFormation documents for its type, so a stack and a boto3 call meet
in one place. Property names and ``Ref`` values: the AWS CloudFormation template reference (read 2026-11-29).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

Properties = dict[str, Any]


class Clients(Protocol):
    """Gives boto3 clients for the account and region of the stack at work."""

    def __call__(self, service: str) -> Any:
        """The client of one service, e.g. ``ec2``."""
        ...


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource as CloudFormation sees it.

    Attributes:
        physical_id: what ``Ref`` gives.
        attributes: what ``Fn::GetAtt`` gives.
    """

    physical_id: str
    attributes: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class ResourceType:
    """How one type is created, changed and deleted.

    Attributes:
        create: properties to resource.
        delete: physical id and properties; a resource that is gone already is not an error.
        update: physical id, old and new properties to resource. None: any change replaces the resource.
    """

    create: Callable[[Clients, Properties], Resource]
    delete: Callable[[Clients, str, Properties], None]
    update: Callable[[Clients, str, Properties, Properties], Resource] | None = None


def camel(value: Any) -> Any:
    """Template property names (``RoleArn``) to the EKS API's (``roleArn``), at every depth."""
    match value:
        case dict():
            return {
                name[:1].lower() + name[1:]: camel(item) for name, item in cast("Properties", value).items()
            }
        case list():
            return [camel(item) for item in cast("list[Any]", value)]
        case _:
            return value


def _tags(properties: Properties) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in items(properties, "Tags")}


def _ec2_tags(properties: Properties, kind: str) -> dict[str, Any]:
    tags = items(properties, "Tags")
    return {"TagSpecifications": [{"ResourceType": kind, "Tags": tags}]} if tags else {}


def section(properties: Properties, name: str) -> Properties:
    """A property that is a map; empty if absent."""
    value: Properties = properties.get(name) or {}
    return value


def items(properties: Properties, name: str) -> list[Properties]:
    """A property that is a list of maps; empty if absent."""
    values: list[Properties] = properties.get(name) or []
    return values


def _retag_ec2(clients: Clients, resource: str, old: Properties, new: Properties) -> None:
    ec2 = clients("ec2")
    if gone := _tags(old).keys() - _tags(new).keys():
        ec2.delete_tags(Resources=[resource], Tags=[{"Key": name} for name in sorted(gone)])
    if tags := items(new, "Tags"):
        ec2.create_tags(Resources=[resource], Tags=tags)


def _retag_eks(clients: Clients, arn: str, old: Properties, new: Properties) -> None:
    eks = clients("eks")
    if gone := _tags(old).keys() - _tags(new).keys():
        eks.untag_resource(resourceArn=arn, tagKeys=sorted(gone))
    if tags := _tags(new):
        eks.tag_resource(resourceArn=arn, tags=tags)


def _only_tags_differ(old: Properties, new: Properties) -> bool:
    return {**old, "Tags": None} == {**new, "Tags": None}


def pick(properties: Properties, *names: str) -> dict[str, Any]:
    """Those of the named properties that have a value."""
    return {name: properties[name] for name in names if properties.get(name) is not None}


def _create_address(clients: Clients, properties: Properties) -> Resource:
    address = clients("ec2").allocate_address(Domain="vpc", **_ec2_tags(properties, "elastic-ip"))
    return Resource(
        address["PublicIp"], {"AllocationId": address["AllocationId"], "PublicIp": address["PublicIp"]}
    )


def _update_address(clients: Clients, physical_id: str, old: Properties, new: Properties) -> Resource:
    if not _only_tags_differ(old, new):
        return _create_address(clients, new)
    address = clients("ec2").describe_addresses(PublicIps=[physical_id])["Addresses"][0]
    _retag_ec2(clients, address["AllocationId"], old, new)
    return Resource(physical_id, {"AllocationId": address["AllocationId"], "PublicIp": physical_id})


def _delete_address(clients: Clients, physical_id: str, properties: Properties) -> None:
    ec2 = clients("ec2")
    for address in ec2.describe_addresses()["Addresses"]:
        if address["PublicIp"] == physical_id:
            ec2.release_address(AllocationId=address["AllocationId"])


def _create_nat_gateway(clients: Clients, properties: Properties) -> Resource:
    answer = clients("ec2").create_nat_gateway(
        **pick(properties, "SubnetId", "AllocationId"), **_ec2_tags(properties, "natgateway")
    )
    gateway: str = answer["NatGateway"]["NatGatewayId"]
    return Resource(gateway, {"NatGatewayId": gateway})


def _update_nat_gateway(clients: Clients, physical_id: str, old: Properties, new: Properties) -> Resource:
    if not _only_tags_differ(old, new):
        return _create_nat_gateway(clients, new)
    _retag_ec2(clients, physical_id, old, new)
    return Resource(physical_id, {"NatGatewayId": physical_id})


def _delete_nat_gateway(clients: Clients, physical_id: str, properties: Properties) -> None:
    clients("ec2").delete_nat_gateway(NatGatewayId=physical_id)


def _create_flow_log(clients: Clients, properties: Properties) -> Resource:
    fields = pick(
        properties,
        "ResourceType",
        "TrafficType",
        "LogDestinationType",
        "LogDestination",
        "LogGroupName",
        "DeliverLogsPermissionArn",
    )
    answer = clients("ec2").create_flow_logs(
        ResourceIds=[properties["ResourceId"]], **fields, **_ec2_tags(properties, "vpc-flow-log")
    )
    flow_log: str = answer["FlowLogIds"][0]
    return Resource(flow_log, {"Id": flow_log})


def _update_flow_log(clients: Clients, physical_id: str, old: Properties, new: Properties) -> Resource:
    if not _only_tags_differ(old, new):
        return _create_flow_log(clients, new)
    _retag_ec2(clients, physical_id, old, new)
    return Resource(physical_id, {"Id": physical_id})


def _delete_flow_log(clients: Clients, physical_id: str, properties: Properties) -> None:
    clients("ec2").delete_flow_logs(FlowLogIds=[physical_id])


def _permission(properties: Properties, peer: str) -> dict[str, Any]:
    permission: dict[str, Any] = {"IpProtocol": str(properties["IpProtocol"])}
    permission |= {
        name: int(properties[name]) for name in ("FromPort", "ToPort") if properties.get(name) is not None
    }
    note = pick(properties, "Description")
    if properties.get("CidrIp"):
        permission["IpRanges"] = [{"CidrIp": properties["CidrIp"], **note}]
    if properties.get("CidrIpv6"):
        permission["Ipv6Ranges"] = [{"CidrIpv6": properties["CidrIpv6"], **note}]
    if properties.get(peer):
        permission["UserIdGroupPairs"] = [{"GroupId": properties[peer], **note}]
    return permission


def _create_ingress(clients: Clients, properties: Properties) -> Resource:
    permission = _permission(properties, "SourceSecurityGroupId")
    answer = clients("ec2").authorize_security_group_ingress(
        GroupId=properties["GroupId"], IpPermissions=[permission]
    )
    rules: list[dict[str, str]] = answer.get("SecurityGroupRules") or []
    rule = rules[0]["SecurityGroupRuleId"] if rules else f"{properties['GroupId']}|ingress"
    return Resource(rule, {"Id": rule})


def _delete_ingress(clients: Clients, physical_id: str, properties: Properties) -> None:
    permission = _permission(properties, "SourceSecurityGroupId")
    clients("ec2").revoke_security_group_ingress(GroupId=properties["GroupId"], IpPermissions=[permission])


def _create_egress(clients: Clients, properties: Properties) -> Resource:
    permission = _permission(properties, "DestinationSecurityGroupId")
    answer = clients("ec2").authorize_security_group_egress(
        GroupId=properties["GroupId"], IpPermissions=[permission]
    )
    rules: list[dict[str, str]] = answer.get("SecurityGroupRules") or []
    rule = rules[0]["SecurityGroupRuleId"] if rules else f"{properties['GroupId']}|egress"
    return Resource(rule, {"Id": rule})


def _delete_egress(clients: Clients, physical_id: str, properties: Properties) -> None:
    permission = _permission(properties, "DestinationSecurityGroupId")
    clients("ec2").revoke_security_group_egress(GroupId=properties["GroupId"], IpPermissions=[permission])


def _make_addon_associations(clients: Clients, properties: Properties) -> None:
    """Makes the associations an add-on owns, as EKS does: in the namespace that the add-on declares, else
    ``kube-system``.
    """
    eks = clients("eks")
    namespace = section(properties, "NamespaceConfig").get("Namespace") or ADDON_NAMESPACES.get(
        properties["AddonName"], "kube-system"
    )
    for association in items(properties, "PodIdentityAssociations"):
        eks.create_pod_identity_association(
            clusterName=properties["ClusterName"],
            namespace=namespace,
            serviceAccount=association["ServiceAccount"],
            roleArn=association["RoleArn"],
        )


def _drop_addon_associations(clients: Clients, properties: Properties) -> None:
    eks = clients("eks")
    owned = {association["ServiceAccount"] for association in items(properties, "PodIdentityAssociations")}
    for association in eks.list_pod_identity_associations(clusterName=properties["ClusterName"])[
        "associations"
    ]:
        if association["serviceAccount"] in owned:
            eks.delete_pod_identity_association(
                clusterName=properties["ClusterName"], associationId=association["associationId"]
            )


ADDON_NAMESPACES = {"amazon-cloudwatch-observability": "amazon-cloudwatch"}
"""Namespaces of add-ons that do not live in ``kube-system`` (EKS user guide, "Amazon EKS add-ons")."""


def _addon_fields(properties: Properties) -> dict[str, Any]:
    return camel(pick(properties, "AddonVersion", "ConfigurationValues", "ServiceAccountRoleArn"))


def _create_addon(clients: Clients, properties: Properties) -> Resource:
    eks = clients("eks")
    _make_addon_associations(clients, properties)
    cluster, name = properties["ClusterName"], properties["AddonName"]
    tags = {"tags": _tags(properties)} if properties.get("Tags") else {}
    addon = eks.create_addon(clusterName=cluster, addonName=name, **_addon_fields(properties), **tags)[
        "addon"
    ]
    return Resource(f"{cluster}|{name}", {"Arn": addon["addonArn"]})


def _update_addon(clients: Clients, physical_id: str, old: Properties, new: Properties) -> Resource:
    if (old["ClusterName"], old["AddonName"]) != (new["ClusterName"], new["AddonName"]):
        return _create_addon(clients, new)
    eks = clients("eks")
    if old.get("PodIdentityAssociations") != new.get("PodIdentityAssociations"):
        _drop_addon_associations(clients, old)
        _make_addon_associations(clients, new)
    eks.update_addon(clusterName=new["ClusterName"], addonName=new["AddonName"], **_addon_fields(new))
    addon = eks.describe_addon(clusterName=new["ClusterName"], addonName=new["AddonName"])["addon"]
    _retag_eks(clients, addon["addonArn"], old, new)
    return Resource(physical_id, {"Arn": addon["addonArn"]})


def _delete_addon(clients: Clients, physical_id: str, properties: Properties) -> None:
    _drop_addon_associations(clients, properties)
    clients("eks").delete_addon(clusterName=properties["ClusterName"], addonName=properties["AddonName"])


def _create_access_entry(clients: Clients, properties: Properties) -> Resource:
    eks = clients("eks")
    cluster, principal = properties["ClusterName"], properties["PrincipalArn"]
    fields = camel(pick(properties, "Type", "KubernetesGroups", "Username"))
    tags = {"tags": _tags(properties)} if properties.get("Tags") else {}
    entry = eks.create_access_entry(clusterName=cluster, principalArn=principal, **fields, **tags)[
        "accessEntry"
    ]
    for policy in items(properties, "AccessPolicies"):
        eks.associate_access_policy(clusterName=cluster, principalArn=principal, **camel(policy))
    return Resource(f"{principal}|{cluster}", {"AccessEntryArn": entry["accessEntryArn"]})


def _update_access_entry(clients: Clients, physical_id: str, old: Properties, new: Properties) -> Resource:
    if (old["ClusterName"], old["PrincipalArn"], old.get("Type")) != (
        new["ClusterName"],
        new["PrincipalArn"],
        new.get("Type"),
    ):
        return _create_access_entry(clients, new)
    eks = clients("eks")
    where = {"clusterName": new["ClusterName"], "principalArn": new["PrincipalArn"]}
    for policy in items(old, "AccessPolicies"):
        eks.disassociate_access_policy(**where, policyArn=policy["PolicyArn"])
    for policy in items(new, "AccessPolicies"):
        eks.associate_access_policy(**where, **camel(policy))
    entry = eks.describe_access_entry(**where)["accessEntry"]
    _retag_eks(clients, entry["accessEntryArn"], old, new)
    return Resource(physical_id, {"AccessEntryArn": entry["accessEntryArn"]})


def _delete_access_entry(clients: Clients, physical_id: str, properties: Properties) -> None:
    clients("eks").delete_access_entry(
        clusterName=properties["ClusterName"], principalArn=properties["PrincipalArn"]
    )


def _create_pod_identity(clients: Clients, properties: Properties) -> Resource:
    fields = camel(pick(properties, "ClusterName", "Namespace", "ServiceAccount", "RoleArn"))
    tags = {"tags": _tags(properties)} if properties.get("Tags") else {}
    association = clients("eks").create_pod_identity_association(**fields, **tags)["association"]
    arn: str = association["associationArn"]
    return Resource(arn, {"AssociationArn": arn, "AssociationId": association["associationId"]})


def _update_pod_identity(clients: Clients, physical_id: str, old: Properties, new: Properties) -> Resource:
    if any(old[name] != new[name] for name in ("ClusterName", "Namespace", "ServiceAccount")):
        return _create_pod_identity(clients, new)
    association = physical_id.rsplit("/", 1)[-1]
    clients("eks").update_pod_identity_association(
        clusterName=new["ClusterName"], associationId=association, roleArn=new["RoleArn"]
    )
    # Its tags stay: the emulator does not tag associations that exist.
    return Resource(physical_id, {"AssociationArn": physical_id, "AssociationId": association})


def _delete_pod_identity(clients: Clients, physical_id: str, properties: Properties) -> None:
    clients("eks").delete_pod_identity_association(
        clusterName=properties["ClusterName"], associationId=physical_id.rsplit("/", 1)[-1]
    )


def _create_budget(clients: Clients, properties: Properties) -> Resource:
    budget = section(properties, "Budget")
    name = str(budget.get("BudgetName") or "budget")
    limit = section(budget, "BudgetLimit")
    wanted = {**budget, "BudgetName": name} | (
        {"BudgetLimit": {**limit, "Amount": str(limit["Amount"])}} if limit else {}
    )
    notices: list[Properties] = []
    for notice in items(properties, "NotificationsWithSubscribers"):
        notification = section(notice, "Notification")
        notices.append(
            {**notice, "Notification": {**notification, "Threshold": float(notification["Threshold"])}}
        )
    clients("budgets").create_budget(
        AccountId=_account(clients), Budget=wanted, NotificationsWithSubscribers=notices
    )
    return Resource(name)


def _update_budget(clients: Clients, physical_id: str, old: Properties, new: Properties) -> Resource:
    if section(old, "Budget").get("BudgetName") == section(new, "Budget").get("BudgetName"):
        _delete_budget(clients, physical_id, old)
    return _create_budget(clients, new)


def _delete_budget(clients: Clients, physical_id: str, properties: Properties) -> None:
    clients("budgets").delete_budget(AccountId=_account(clients), BudgetName=physical_id)


def _account(clients: Clients) -> str:
    account: str = clients("sts").get_caller_identity()["Account"]
    return account


TYPES: dict[str, ResourceType] = {
    "AWS::Budgets::Budget": ResourceType(_create_budget, _delete_budget, _update_budget),
    "AWS::EC2::EIP": ResourceType(_create_address, _delete_address, _update_address),
    "AWS::EC2::FlowLog": ResourceType(_create_flow_log, _delete_flow_log, _update_flow_log),
    "AWS::EC2::NatGateway": ResourceType(_create_nat_gateway, _delete_nat_gateway, _update_nat_gateway),
    "AWS::EC2::SecurityGroupEgress": ResourceType(_create_egress, _delete_egress),
    "AWS::EC2::SecurityGroupIngress": ResourceType(_create_ingress, _delete_ingress),
    "AWS::EKS::AccessEntry": ResourceType(_create_access_entry, _delete_access_entry, _update_access_entry),
    "AWS::EKS::Addon": ResourceType(_create_addon, _delete_addon, _update_addon),
    "AWS::EKS::PodIdentityAssociation": ResourceType(
        _create_pod_identity, _delete_pod_identity, _update_pod_identity
    ),
}
"""The types added to the emulator."""
