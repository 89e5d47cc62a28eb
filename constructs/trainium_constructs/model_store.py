"""The bucket that holds models, compiled artifacts and runs."""

from __future__ import annotations

from typing import Literal

import aws_cdk as cdk
from aws_cdk import aws_s3 as s3
from constructs import Construct

MODELS = "models"
ARTIFACTS = "artifacts"
RUNS = "runs"


class ModelStore(Construct):
    """An S3 bucket with three prefixes: ``models/``, ``artifacts/`` and ``runs/``.

    Versions are off: models and artifacts lie under names derived from their content's configuration and are never overwritten by
    something else, and a second copy of 70 GB would only cost.

    Attributes:
        bucket: the bucket.
    """

    def __init__(self, scope: Construct, construct_id: str, *, on_destroy: Literal["retain", "empty"], runs_kept_days: int) -> None:
        super().__init__(scope, construct_id)
        empty = on_destroy == "empty"
        self.bucket = s3.Bucket(
            self,
            "Bucket",
            encryption=s3.BucketEncryption.S3_MANAGED,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            enforce_ssl=True,
            minimum_tls_version=1.2,
            lifecycle_rules=[
                s3.LifecycleRule(id="aborted-uploads", abort_incomplete_multipart_upload_after=cdk.Duration.days(1)),
                s3.LifecycleRule(id="old-runs", prefix=f"{RUNS}/", expiration=cdk.Duration.days(runs_kept_days)),
            ],
            removal_policy=cdk.RemovalPolicy.DESTROY if empty else cdk.RemovalPolicy.RETAIN,
            auto_delete_objects=empty,
        )
