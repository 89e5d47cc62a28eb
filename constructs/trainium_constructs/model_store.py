"""The bucket that holds models, compiled artifacts and runs."""

from __future__ import annotations

from typing import Literal, cast

import aws_cdk as cdk
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from trainium_constructs.acknowledgements import acknowledge

MODELS = "models"
ARTIFACTS = "artifacts"
RUNS = "runs"


class ModelStore(Construct):
    """An S3 bucket with three prefixes: ``models/``, ``artifacts/`` and ``runs/``.

    Versions are off: models and artifacts lie under names that follow from what they are, so nothing is
    overwritten by something else, and a second copy of 70 GB would only cost.

    Args:
        scope: parent construct.
        construct_id: construct id.
        kept_bucket: name of a bucket that an earlier stack left, to be used as it is; None makes a new one.
        on_destroy: what becomes of a new bucket when the stack goes.
        runs_kept_days: days after which run results expire, in a new bucket.
        key_arn: KMS key of the objects in a new bucket; None encrypts them with S3's own.

    Attributes:
        bucket: the bucket.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        kept_bucket: str | None,
        on_destroy: Literal["retain", "empty"],
        runs_kept_days: int,
        key_arn: str | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        if kept_bucket is not None:
            self.bucket = s3.Bucket.from_bucket_name(self, "Bucket", kept_bucket)
            return
        empty = on_destroy == "empty"
        key = kms.Key.from_key_arn(self, "Key", key_arn) if key_arn else None
        bucket = s3.Bucket(
            self,
            "Bucket",
            encryption=s3.BucketEncryption.KMS if key else s3.BucketEncryption.S3_MANAGED,
            encryption_key=key,
            # One call for many objects: a model is hundreds of files.
            bucket_key_enabled=True if key else None,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            enforce_ssl=True,
            minimum_tls_version=1.2,
            lifecycle_rules=[
                s3.LifecycleRule(
                    id="aborted-uploads", abort_incomplete_multipart_upload_after=cdk.Duration.days(1)
                ),
                s3.LifecycleRule(
                    id="old-runs", prefix=f"{RUNS}/", expiration=cdk.Duration.days(runs_kept_days)
                ),
            ],
            removal_policy=cdk.RemovalPolicy.DESTROY if empty else cdk.RemovalPolicy.RETAIN,
            auto_delete_objects=empty,
        )
        acknowledge(
            bucket,
            {
                "AwsSolutions::AwsSolutions-S1": (
                    "Its access logs would need a second bucket to outlive it; CloudTrail data events do not"
                )
            },
        )
        # The stubs of Bucket and IBucket name one parameter differently, nothing else.
        self.bucket = cast("s3.IBucket", bucket)
