"""Completes the pinned emulator's own handlers: properties of a bucket, alarms over expressions."""

from __future__ import annotations

from typing import Any

from specdec.rehearsal.emulator.resources import Clients, Properties, Resource, items, pick, section


class BucketNotEmptyError(Exception):
    """A bucket with objects or versions in it is to be deleted. S3 refuses that, and so does
    CloudFormation.
    """


_ALARM_FIELDS = (
    "ActionsEnabled",
    "AlarmActions",
    "AlarmDescription",
    "ComparisonOperator",
    "DatapointsToAlarm",
    "EvaluationPeriods",
    "OKActions",
    "Threshold",
    "TreatMissingData",
)


def put_math_alarm(clients: Clients, properties: Properties) -> Resource:
    """Makes or replaces an alarm over an expression. The pinned emulator keeps it under its name and never
    evaluates it.
    """
    fields = pick(properties, *_ALARM_FIELDS)
    fields |= {
        name: int(fields[name]) for name in ("DatapointsToAlarm", "EvaluationPeriods") if name in fields
    }
    fields |= {"Threshold": float(fields["Threshold"])} if "Threshold" in fields else {}
    fields |= (
        {"ActionsEnabled": str(fields["ActionsEnabled"]).lower() == "true"}
        if "ActionsEnabled" in fields
        else {}
    )
    name = str(properties["AlarmName"])
    cloudwatch = clients("cloudwatch")
    cloudwatch.put_metric_alarm(
        AlarmName=name, Metrics=[_alarm_query(query) for query in items(properties, "Metrics")], **fields
    )
    return Resource(
        name, {"Arn": cloudwatch.describe_alarms(AlarmNames=[name])["MetricAlarms"][0]["AlarmArn"]}
    )


def _alarm_query(query: Properties) -> dict[str, Any]:
    translated = dict(query)
    if "ReturnData" in translated:
        translated["ReturnData"] = str(translated["ReturnData"]).lower() == "true"
    if "Period" in translated:
        translated["Period"] = int(translated["Period"])
    if stat := section(translated, "MetricStat"):
        translated["MetricStat"] = {**stat, "Period": int(stat["Period"])}
    return translated


def _lifecycle_rule(rule: Properties) -> dict[str, Any]:
    translated: dict[str, Any] = {"Status": rule["Status"], "Filter": {"Prefix": rule.get("Prefix", "")}}
    translated |= {"ID": rule["Id"]} if rule.get("Id") else {}
    if rule.get("ExpirationInDays") is not None:
        translated["Expiration"] = {"Days": int(rule["ExpirationInDays"])}
    if abort := section(rule, "AbortIncompleteMultipartUpload"):
        translated["AbortIncompleteMultipartUpload"] = {
            "DaysAfterInitiation": int(abort["DaysAfterInitiation"])
        }
    if noncurrent := section(rule, "NoncurrentVersionExpiration"):
        translated["NoncurrentVersionExpiration"] = {"NoncurrentDays": int(noncurrent["NoncurrentDays"])}
    return translated


def configure_bucket(clients: Clients, bucket: str, properties: Properties) -> None:
    """Applies the bucket properties that the pinned emulator's own handler drops: tags, encryption, lifecycle
    rules.
    """
    s3 = clients("s3")
    if tags := items(properties, "Tags"):
        s3.put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": tags})
    rules = [
        _encryption_rule(rule)
        for rule in items(section(properties, "BucketEncryption"), "ServerSideEncryptionConfiguration")
    ]
    # The emulator has no key that AWS manages, which is what KMS without a key id means.
    if rules and all(_has_key(rule) for rule in rules):
        s3.put_bucket_encryption(Bucket=bucket, ServerSideEncryptionConfiguration={"Rules": rules})
    if lifecycle := items(section(properties, "LifecycleConfiguration"), "Rules"):
        wanted = {"Rules": [_lifecycle_rule(rule) for rule in lifecycle]}
        s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration=wanted)


def _encryption_rule(rule: Properties) -> Properties:
    return {
        "ApplyServerSideEncryptionByDefault": section(rule, "ServerSideEncryptionByDefault"),
        "BucketKeyEnabled": str(rule.get("BucketKeyEnabled", False)).lower() == "true",
    }


def _has_key(rule: Properties) -> bool:
    default = section(rule, "ApplyServerSideEncryptionByDefault")
    return default.get("SSEAlgorithm") == "AES256" or bool(default.get("KMSMasterKeyID"))


def refuse_full_bucket(clients: Clients, bucket: str) -> None:
    """Stops the deletion of a bucket that still holds something.

    Raises:
        BucketNotEmptyError: an object, a version or a delete marker is left.
    """
    s3 = clients("s3")
    try:
        listing = s3.list_object_versions(Bucket=bucket, MaxKeys=1)
    except s3.exceptions.NoSuchBucket:
        return
    if (
        listing.get("Versions")
        or listing.get("DeleteMarkers")
        or s3.list_objects_v2(Bucket=bucket, MaxKeys=1).get("KeyCount")
    ):
        raise BucketNotEmptyError(
            f"The bucket you tried to delete is not empty ({bucket}); its objects and versions must go first"
        )
