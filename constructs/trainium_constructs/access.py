"""What the experiment's pods may do, one role per service account."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aws_cdk as cdk
from aws_cdk import aws_eks as eks
from aws_cdk import aws_iam as iam
from constructs import Construct

from trainium_constructs.acknowledgements import acknowledge, as_reported, wildcard
from trainium_constructs.model_store import ARTIFACTS, MODELS, RUNS
from trainium_constructs.roles import pod_role

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aws_cdk import aws_s3 as s3

    from trainium_constructs.cluster import AnyCluster


class PodAccess(Construct):
    """Pod Identity for the service accounts ``server``, ``stager`` and ``benchmark``.

    | service account | reads | writes |
    | --- | --- | --- |
    | server | models/, artifacts/ | artifacts/ |
    | stager | models/, the token's secret where one is named | models/ |
    | benchmark | runs/, metrics, versions of nodes and add-ons | runs/, metrics of our namespaces |
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: AnyCluster,
        bucket: s3.IBucket,
        namespace: str,
        metric_namespaces: Sequence[str],
        token_secret: str | None = None,
        key_arn: str | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        accounts = {
            "server": _objects(bucket, reads=(MODELS, ARTIFACTS), writes=(ARTIFACTS,)),
            "stager": [*_objects(bucket, reads=(MODELS,), writes=(MODELS,)), *_secret(self, token_secret)],
            "benchmark": [
                *_objects(bucket, reads=(RUNS,), writes=(RUNS,)),
                *_metrics(metric_namespaces),
                *_what_ran(self, cluster.name),
            ],
        }
        for account, statements in accounts.items():
            role = pod_role(
                self,
                f"{account.title()}Role",
                cluster_name=cluster.cluster.cluster_name,
                namespace=namespace,
                service_account=account,
            )
            for statement in (*statements, *_key(key_arn)):
                role.add_to_policy(statement)
            objects = as_reported(self, bucket.arn_for_objects(""))
            reasons = {
                wildcard(f"{objects}{prefix}/*"): "Objects below one prefix of one bucket"
                for prefix in (MODELS, ARTIFACTS, RUNS)
            }
            if account == "benchmark":
                reasons |= {
                    wildcard(as_reported(self, arn)): "Groups and add-ons of one cluster; reading only"
                    for arn in _parts_of_cluster(self, cluster.name)
                }
                reasons[wildcard("*")] = (
                    "Metrics are not resources of IAM. Writing is narrowed to our namespaces by a condition."
                    " Reading has none; it tells whether a lost answer was taken after all, so that nothing"
                    " is published twice"
                )
            acknowledge(role, reasons)
            eks.CfnPodIdentityAssociation(
                self,
                f"{account.title()}Association",
                cluster_name=cluster.cluster.cluster_name,
                namespace=namespace,
                service_account=account,
                role_arn=role.role_arn,
            )


def _objects(bucket: s3.IBucket, *, reads: Sequence[str], writes: Sequence[str]) -> list[iam.PolicyStatement]:
    """Listing, reading and writing under prefixes. Nobody may delete: objects are removed by lifecycle rules
    or with the bucket.
    """
    return [
        iam.PolicyStatement(
            sid="List",
            actions=["s3:ListBucket"],
            resources=[bucket.bucket_arn],
            conditions={
                "StringLike": {
                    "s3:prefix": [pattern for prefix in reads for pattern in (prefix, f"{prefix}/*")]
                }
            },
        ),
        iam.PolicyStatement(
            sid="Read",
            actions=["s3:GetObject"],
            resources=[bucket.arn_for_objects(f"{prefix}/*") for prefix in reads],
        ),
        iam.PolicyStatement(
            sid="Write",
            actions=["s3:PutObject", "s3:AbortMultipartUpload"],
            resources=[bucket.arn_for_objects(f"{prefix}/*") for prefix in writes],
        ),
    ]


def _key(arn: str | None) -> list[iam.PolicyStatement]:
    """Using the key of the bucket's objects; the key's own policy has to let IAM allow it."""
    if arn is None:
        return []
    return [
        iam.PolicyStatement(sid="UseKey", actions=["kms:Decrypt", "kms:GenerateDataKey"], resources=[arn])
    ]


def _secret(scope: Construct, name: str | None) -> list[iam.PolicyStatement]:
    """Reading one secret. The ARN of a secret known by name ends in six characters that Secrets Manager
    chose.
    """
    if name is None:
        return []
    arn = name
    if not name.startswith("arn:"):
        arn = cdk.Stack.of(scope).format_arn(
            service="secretsmanager",
            resource="secret",
            resource_name=f"{name}-??????",
            arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME,
        )
    return [iam.PolicyStatement(sid="ReadToken", actions=["secretsmanager:GetSecretValue"], resources=[arn])]


def _metrics(namespaces: Sequence[str]) -> list[iam.PolicyStatement]:
    """Publishing, and looking up what arrived of a call whose answer was lost.

    Neither has resources. The namespace narrows PutMetricData; GetMetricStatistics has no condition key that
    would narrow it (Service Authorization Reference, Amazon CloudWatch).
    """
    return [
        iam.PolicyStatement(
            sid="PublishMetrics",
            actions=["cloudwatch:PutMetricData"],
            resources=["*"],
            conditions={"StringEquals": {"cloudwatch:namespace": list(namespaces)}},
        ),
        iam.PolicyStatement(sid="LookUpMetrics", actions=["cloudwatch:GetMetricStatistics"], resources=["*"]),
    ]


def _parts_of_cluster(scope: Construct, cluster: str) -> list[str]:
    """ARNs of a cluster's node groups and add-ons, each of which ends in an id that EKS chose."""
    return [
        cdk.Stack.of(scope).format_arn(service="eks", resource=kind, resource_name=f"{cluster}/*")
        for kind in ("nodegroup", "addon")
    ]


def _what_ran(scope: Construct, cluster: str) -> list[iam.PolicyStatement]:
    """Reading which release the nodes and the add-ons are, to keep it with the run."""
    groups, installed = _parts_of_cluster(scope, cluster)
    itself = cdk.Stack.of(scope).format_arn(service="eks", resource="cluster", resource_name=cluster)
    return [
        iam.PolicyStatement(sid="ReadNodeRelease", actions=["eks:DescribeNodegroup"], resources=[groups]),
        iam.PolicyStatement(sid="ListAddons", actions=["eks:ListAddons"], resources=[itself]),
        iam.PolicyStatement(sid="ReadAddons", actions=["eks:DescribeAddon"], resources=[installed]),
    ]
