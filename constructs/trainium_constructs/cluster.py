"""The Kubernetes cluster: control plane, its logs and keys, and who gets in."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeAlias, cast

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from constructs import Construct, IConstruct

from trainium_constructs.acknowledgements import MANAGED, acknowledge, managed_policy, wildcard
from trainium_constructs.network import PRIVATE
from trainium_constructs.roles import service_role

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from aws_cdk import aws_lambda as lambda_


TUNNEL_PORT = 8443
"""Local end of the tunnel to the API endpoint."""


_MADE_BY_CDK = "Made by the CDK for its own function"


class Cluster(Construct):
    """An EKS cluster that only access entries open.

    The principal that deploys is not made an administrator by the way: with the CDK that would be the
    CloudFormation execution role, and an access entry for it could then not be declared a second time.

    Attributes:
        cluster: the cluster, for Kubernetes manifests and Helm charts, and for its name as a reference.
        name: its name, known before deployment.
        addon_versions: version of every add-on, by its name.
        existing_addons: add-ons that are there already: none.
        kubernetes_version: of the control plane.
        ami_release: release of the node image for every node group; None leaves each at the one it was made
            with.
    """

    existing_addons: frozenset[str] = frozenset()

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        vpc: ec2.IVpc,
        kubernetes_version: str,
        addon_versions: Mapping[str, str],
        ami_release: str | None = None,
        public_access_cidrs: Sequence[str],
        admin_principal_arns: Sequence[str],
        viewer_principal_arns: Sequence[str] = (),
        log_retention: logs.RetentionDays,
        key_arn: str | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        self.name, self.addon_versions = name, addon_versions
        self.kubernetes_version, self.ami_release = kubernetes_version, ami_release
        # EKS would create this group by itself, without an end to its retention, and leave it behind.
        control_plane_logs = logs.LogGroup(
            self,
            "ControlPlaneLogs",
            log_group_name=f"/aws/eks/{name}/cluster",
            retention=log_retention,
            removal_policy=cdk.RemovalPolicy.DESTROY,
        )
        secrets_key = (
            _secrets_key(self, name) if key_arn is None else kms.Key.from_key_arn(self, "SecretsKey", key_arn)
        )
        endpoint = eks.EndpointAccess.PRIVATE
        if public_access_cidrs:
            endpoint = eks.EndpointAccess.PUBLIC_AND_PRIVATE.only_from(*public_access_cidrs)
        cluster = eks.Cluster(
            self,
            "Cluster",
            cluster_name=name,
            version=eks.KubernetesVersion.of(kubernetes_version),
            vpc=vpc,
            vpc_subnets=[{"subnet_type": PRIVATE}],
            endpoint_access=endpoint,
            secrets_encryption_key=secrets_key,
            cluster_logging=[
                eks.ClusterLoggingTypes.API,
                eks.ClusterLoggingTypes.AUDIT,
                eks.ClusterLoggingTypes.AUTHENTICATOR,
                eks.ClusterLoggingTypes.CONTROLLER_MANAGER,
                eks.ClusterLoggingTypes.SCHEDULER,
            ],
            bootstrap_cluster_creator_admin_permissions=False,
            # Networking and DNS are add-ons of this stack, each with one owner, instead of unmanaged copies.
            bootstrap_self_managed_addons=False,
            default_capacity_type=eks.DefaultCapacityType.NODEGROUP,
            default_capacity=0,
            kubectl_provider_options=eks.KubectlProviderOptions(
                kubectl_layer=_kubectl_layer(self, kubernetes_version),
            ),
        )
        cluster.node.add_dependency(control_plane_logs)
        # At the end of standard support EKS upgrades, rather than charge six times as much.
        cast("cdk.CfnResource", cluster.node.default_child).add_property_override(
            "UpgradePolicy", {"SupportType": "STANDARD"}
        )
        for kind, policy, arns in (
            ("Admin", "AmazonEKSClusterAdminPolicy", admin_principal_arns),
            ("Viewer", "AmazonEKSViewPolicy", viewer_principal_arns),
        ):
            for index, arn in enumerate(arns):
                everywhere = eks.AccessPolicy.from_access_policy_name(
                    policy, access_scope_type=eks.AccessScopeType.CLUSTER
                )
                cluster.grant_access(f"{kind}{index}", arn, [everywhere])
        _accept_what_the_cdk_makes(cluster)
        # The stubs of Cluster lack one property of ICluster that the class has.
        self.cluster = cast("eks.ICluster", cluster)

    @property
    def _host(self) -> str:
        """Host name of the API endpoint, as a token."""
        return cdk.Fn.select(1, cdk.Fn.split("//", self.cluster.cluster_endpoint))

    def reach(self, region: str) -> dict[str, tuple[str, str]]:
        """Outputs that tell how to get to the API, which is private: name to command and what it does."""
        return {
            "Kubeconfig": kubeconfig(self.name, region),
            "Tunnel": (
                self._tunnel(region),
                "Forwards port 8443 here to the private API endpoint, by Session Manager; leave it open",
            ),
            "KubectlThroughTunnel": (
                self._through_tunnel(region),
                "After Kubeconfig, with the tunnel open: points kubectl at it",
            ),
        }

    def _tunnel(self, region: str) -> str:
        """Command that forwards a local port through a system node to the API endpoint.

        Source: Systems Manager user guide, "Start a session (port forwarding to remote host)".
        """
        node = (
            f"aws ec2 describe-instances --region {region} --filters Name=tag:Name,Values={self.name}-system"
            " Name=instance-state-name,Values=running --query Reservations[0].Instances[0].InstanceId"
            " --output text"
        )
        return (
            f"aws ssm start-session --region {region} --target $({node})"
            " --document-name AWS-StartPortForwardingSessionToRemoteHost"
            f" --parameters host={self._host},portNumber=443,localPortNumber={TUNNEL_PORT}"
        )

    def _through_tunnel(self, region: str) -> str:
        """Command that points kubectl's entry of the cluster at the tunnel; the certificate is still the
        endpoint's own.
        """
        arn = f"arn:{cdk.Aws.PARTITION}:eks:{region}:{cdk.Aws.ACCOUNT_ID}:cluster/{self.name}"
        return (
            f"kubectl config set-cluster {arn} --server=https://localhost:{TUNNEL_PORT}"
            f" --tls-server-name={self._host}"
        )


class ExistingCluster(Construct):
    """An EKS cluster that somebody else made, behind the same attributes. Nothing of it is changed or tagged:
    what is added are node groups, add-ons that it lacks, an access entry, Pod Identity associations and
    Kubernetes objects, all of them resources of the stack.

    Args:
        scope: parent construct.
        construct_id: construct id.
        name: the cluster.
        vpc: its VPC; the kubectl function runs in the private subnets.
        security_group_id: the group that EKS made for the cluster; it admits itself to the API.
        kubernetes_version: of the cluster, for the kubectl that goes with it.
        addon_versions: as for ``Cluster``, for the add-ons that are added.
        existing_addons: add-ons that the cluster has.
        ami_release: as for ``Cluster``, for the node groups that are added.
        kubectl_role_arn: role that may administer the cluster and that Lambda may assume; None makes a role
            with an access entry.

    Attributes:
        cluster, name, addon_versions, existing_addons, kubernetes_version, ami_release: as of ``Cluster``.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        vpc: ec2.IVpc,
        security_group_id: str,
        kubernetes_version: str,
        addon_versions: Mapping[str, str],
        existing_addons: Collection[str],
        ami_release: str | None = None,
        kubectl_role_arn: str | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        self.name, self.addon_versions = name, addon_versions
        self.kubernetes_version, self.ami_release = kubernetes_version, ami_release
        self.existing_addons = frozenset(existing_addons)
        if kubectl_role_arn is None:
            role: iam.IRole = cast(
                "iam.IRole", service_role(self, "KubectlRole", service="lambda.amazonaws.com")
            )
        else:
            # Not mutable: the CDK would attach policies to a role that is not ours.
            role = iam.Role.from_role_arn(self, "KubectlRole", kubectl_role_arn, mutable=False)
        group = ec2.SecurityGroup.from_security_group_id(
            self, "SecurityGroup", security_group_id, mutable=False
        )
        named = eks.Cluster.from_cluster_attributes(self, "Named", cluster_name=name, vpc=vpc)
        provider = eks.KubectlProvider(
            self,
            "KubectlProvider",
            cluster=named,
            kubectl_layer=_kubectl_layer(self, kubernetes_version),
            role=role,
            private_subnets=vpc.private_subnets,
            security_groups=[group],
        )
        self.cluster = eks.Cluster.from_cluster_attributes(
            self,
            "Cluster",
            cluster_name=name,
            cluster_security_group_id=security_group_id,
            vpc=vpc,
            kubectl_provider=cast("eks.IKubectlProvider", provider),
        )
        if kubectl_role_arn is None:
            entry = eks.AccessEntry(
                self,
                "KubectlAccess",
                cluster=self.cluster,
                principal=role.role_arn,
                access_policies=[
                    eks.AccessPolicy.from_access_policy_name(
                        "AmazonEKSClusterAdminPolicy", access_scope_type=eks.AccessScopeType.CLUSTER
                    )
                ],
            )
            # The first object comes after the entry, and the entry goes after the last.
            provider.node.add_dependency(entry)
        _accept_kubectl_provider(provider, self)
        if kubectl_role_arn is None:
            acknowledge(cast("iam.Role", role), _kubectl_policies(self))
        else:
            # Of a policy that it would give to a role of its own; unused, it is a finding.
            removed = self.node.try_remove_child("HasEcrPublic")
            assert removed, "the CDK names this condition otherwise now"

    def reach(self, region: str) -> dict[str, tuple[str, str]]:
        """How to get to the API; its owners know the way to it."""
        return {"Kubeconfig": kubeconfig(self.name, region)}


AnyCluster: TypeAlias = Cluster | ExistingCluster


def kubeconfig(name: str, region: str) -> tuple[str, str]:
    """The command that makes an entry for kubectl, and what it does."""
    return f"aws eks update-kubeconfig --name {name} --region {region}", "Lets kubectl reach the cluster"


def _secrets_key(scope: Construct, name: str) -> kms.IKey:
    key = kms.Key(
        scope,
        "SecretsKey",
        description=f"Kubernetes secrets of {name}",
        enable_key_rotation=True,
        pending_window=cdk.Duration.days(7),
        removal_policy=cdk.RemovalPolicy.DESTROY,
    )
    # The stubs of Key and IKey name one parameter differently, nothing else.
    return cast("kms.IKey", key)


def _kubectl_layer(scope: Construct, kubernetes_version: str) -> lambda_.ILayerVersion:
    """The layer with kubectl and Helm, of the cluster's version or, as kubectl allows, one minor version
    above it.
    """
    # Each layer brings 37 MB that jsii has to take up before the first construct, so only one is imported.
    if kubernetes_version == "1.36":
        from aws_cdk.lambda_layer_kubectl_v36 import KubectlV36Layer

        layer: lambda_.LayerVersion = KubectlV36Layer(scope, "KubectlLayer")
    else:
        from aws_cdk.lambda_layer_kubectl_v35 import KubectlV35Layer

        layer = KubectlV35Layer(scope, "KubectlLayer")
    return cast("lambda_.ILayerVersion", layer)


def _accept_what_the_cdk_makes(cluster: eks.Cluster) -> None:
    """Findings on the cluster role and on the two functions behind Kubernetes manifests and Helm charts."""
    acknowledge(
        cluster, {managed_policy("AmazonEKSClusterPolicy"): "The policy EKS requires of a cluster role"}
    )
    provider = cluster.node.find_child("KubectlProvider")
    _accept_kubectl_provider(provider, provider.node.find_child("Handler"))


def _accept_kubectl_provider(provider: IConstruct, condition_scope: IConstruct) -> None:
    """Findings on the two functions behind Kubernetes manifests and Helm charts.

    Args:
        provider: the CDK's construct.
        condition_scope: where the CDK puts its condition about public registries: beside the role.
    """
    stack = cdk.Stack.of(provider)
    handler = provider.node.find_child("Handler")
    function = stack.get_logical_id(cast("cdk.CfnElement", handler.node.default_child))
    acknowledge(
        provider,
        {
            **_kubectl_policies(condition_scope),
            managed_policy("service-role/AWSLambdaBasicExecutionRole"): _MADE_BY_CDK,
            wildcard(
                f"<{function}.Arn>:*"
            ): "Versions of the CDK's own handler, called by the CDK's own framework",
            "AwsSolutions::AwsSolutions-L1": "The CDK chooses the runtime its handler was tested with",
        },
    )


def _kubectl_policies(condition_scope: IConstruct) -> dict[str, str]:
    """Findings on the policies that the CDK gives to the role of its kubectl function."""
    stack = cdk.Stack.of(condition_scope)
    condition = stack.get_logical_id(cast("cdk.CfnElement", condition_scope.node.find_child("HasEcrPublic")))
    registry = MANAGED.removeprefix("arn:<AWS::Partition>") + "AmazonElasticContainerRegistryPublicReadOnly"
    arn = {"Fn::Join": ["", ["arn:", {"Ref": "AWS::Partition"}, registry]]}
    only_in_aws = json.dumps({"Fn::If": [condition, arn, {"Ref": "AWS::NoValue"}]}, separators=(",", ":"))
    return {
        managed_policy("service-role/AWSLambdaVPCAccessExecutionRole"): _MADE_BY_CDK,
        managed_policy("AmazonEC2ContainerRegistryReadOnly"): _MADE_BY_CDK,
        f"AwsSolutions::AwsSolutions-IAM4[Policy::{only_in_aws}]": _MADE_BY_CDK,
    }
