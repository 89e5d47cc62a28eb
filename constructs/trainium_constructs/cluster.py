"""The Kubernetes cluster: control plane, its logs and keys, and who gets in."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast

import aws_cdk as cdk
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from constructs import Construct

from trainium_constructs.acknowledgements import MANAGED, acknowledge, managed_policy, wildcard
from trainium_constructs.network import PRIVATE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aws_cdk import aws_ec2 as ec2
    from aws_cdk import aws_lambda as lambda_


TUNNEL_PORT = 8443
"""Local end of the tunnel to the API endpoint."""


class Cluster(Construct):
    """An EKS cluster that only access entries open.

    The principal that deploys is not made an administrator by the way: with the CDK that would be the
    CloudFormation execution role, and an access entry for it could then not be declared a second time.

    Attributes:
        cluster: the cluster, for Kubernetes manifests and Helm charts, and for its name as a reference.
        name: its name, known before deployment.
        addon_versions: add-on name to version; an absent name leaves the choice to EKS.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        vpc: ec2.IVpc,
        kubernetes_version: str,
        addon_versions: Mapping[str, str],
        public_access_cidrs: Sequence[str],
        admin_principal_arns: Sequence[str],
        viewer_principal_arns: Sequence[str] = (),
        log_retention: logs.RetentionDays,
        key_arn: str | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        self.name, self.addon_versions = name, addon_versions
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

    def tunnel(self, region: str) -> str:
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

    def through_tunnel(self, region: str) -> str:
        """Command that points kubectl's entry of the cluster at the tunnel; the certificate is still the
        endpoint's own.
        """
        arn = f"arn:{cdk.Aws.PARTITION}:eks:{region}:{cdk.Aws.ACCOUNT_ID}:cluster/{self.name}"
        return (
            f"kubectl config set-cluster {arn} --server=https://localhost:{TUNNEL_PORT}"
            f" --tls-server-name={self._host}"
        )


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
    stack = cdk.Stack.of(cluster)
    provider = cluster.node.find_child("KubectlProvider")
    handler = provider.node.find_child("Handler")
    function = stack.get_logical_id(cast("cdk.CfnElement", handler.node.default_child))
    condition = stack.get_logical_id(cast("cdk.CfnElement", handler.node.find_child("HasEcrPublic")))
    registry = MANAGED.removeprefix("arn:<AWS::Partition>") + "AmazonElasticContainerRegistryPublicReadOnly"
    arn = {"Fn::Join": ["", ["arn:", {"Ref": "AWS::Partition"}, registry]]}
    only_in_aws = json.dumps({"Fn::If": [condition, arn, {"Ref": "AWS::NoValue"}]}, separators=(",", ":"))
    made_by_cdk = "Made by the CDK for its own function"
    acknowledge(
        provider,
        {
            managed_policy("service-role/AWSLambdaBasicExecutionRole"): made_by_cdk,
            managed_policy("service-role/AWSLambdaVPCAccessExecutionRole"): made_by_cdk,
            managed_policy("AmazonEC2ContainerRegistryReadOnly"): made_by_cdk,
            f"AwsSolutions::AwsSolutions-IAM4[Policy::{only_in_aws}]": made_by_cdk,
            wildcard(
                f"<{function}.Arn>:*"
            ): "Versions of the CDK's own handler, called by the CDK's own framework",
            "AwsSolutions::AwsSolutions-L1": "The CDK chooses the runtime its handler was tested with",
        },
    )
