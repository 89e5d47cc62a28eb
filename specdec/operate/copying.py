"""Copies what is expensive to make again from one bucket to another: resumable, verified, markers last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from specdec.aws import calls, pages
from specdec.errors import SpecdecError
from specdec.serving.layout import ARTIFACT_MARKER, MODEL_MARKER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_CHECKSUMS = ("ChecksumCRC64NVME", "ChecksumSHA256", "ChecksumSHA1", "ChecksumCRC32C", "ChecksumCRC32")
"""Fields of HeadObject, the ones S3 computes over a whole object first."""


@dataclass(frozen=True, slots=True)
class Stored:
    """An object as its bucket describes it.

    Attributes:
        key: object key.
        size: bytes.
        checksums: field name to value, of checksums over the whole object only.
        etag: MD5 of the content where the object was uploaded in one part and not encrypted with a KMS key;
            else None.
    """

    key: str
    size: int
    checksums: dict[str, str]
    etag: str | None


@dataclass(frozen=True, slots=True)
class Copied:
    """What a copy did.

    Attributes:
        copied: keys copied now.
        kept: keys that were there and equal.
        by_size_only: keys for which the two buckets share no checksum, so that only the sizes could be
            compared.
    """

    copied: tuple[str, ...]
    kept: tuple[str, ...]
    by_size_only: tuple[str, ...]


class CopyFault(SpecdecError):
    """An object did not arrive as it was sent."""


def describe(client: Any, bucket: str, key: str) -> Stored | None:
    """An object's size and checksums, or None where there is no such object.

    Raises:
        NoAccessError: the caller may not ask.
    """
    from botocore.exceptions import ClientError

    from specdec.aws import code

    with calls():
        try:
            head = client.head_object(Bucket=bucket, Key=key, ChecksumMode="ENABLED")
        except ClientError as error:
            if code(error) in ("404", "NoSuchKey", "NotFound"):
                return None
            raise
    etag = str(head["ETag"]).strip('"')
    full_object = head.get("ChecksumType") != "COMPOSITE"
    plain = "-" not in etag and head.get("ServerSideEncryption") != "aws:kms"
    return Stored(
        key=key,
        size=int(head["ContentLength"]),
        checksums={field: str(head[field]) for field in _CHECKSUMS if full_object and field in head},
        etag=etag if plain else None,
    )


def same(source: Stored, target: Stored) -> tuple[bool, bool]:
    """Whether two objects have the same content, and whether a checksum says so rather than the size
    alone.
    """
    if source.size != target.size:
        return False, True
    shared = source.checksums.keys() & target.checksums.keys()
    if shared:
        return all(source.checksums[field] == target.checksums[field] for field in shared), True
    if source.etag and target.etag:
        return source.etag == target.etag, True
    return True, False


def keys_under(client: Any, bucket: str, prefixes: Iterable[str]) -> list[str]:
    """Every key under the prefixes, markers after everything else of their folder.

    An interrupted copy then never leaves a folder that looks whole.
    """
    with calls():
        keys = [
            entry["Key"]
            for prefix in prefixes
            for entry in pages(client, "list_objects_v2", "Contents", Bucket=bucket, Prefix=prefix)
        ]
    unique = list(dict.fromkeys(keys))
    markers = (f"/{MODEL_MARKER}", f"/{ARTIFACT_MARKER}")
    return sorted(unique, key=lambda key: key.endswith(markers))


def copy(
    source: Any,
    source_bucket: str,
    target: Any,
    target_bucket: str,
    keys: list[str],
    *,
    on_object: Callable[[str, int, int], None],
) -> Copied:
    """Copies objects inside S3 and compares each with its original; what is there and equal is kept.

    Args:
        source: S3 client of the source's region.
        source_bucket: where from.
        target: S3 client of the target's region.
        target_bucket: where to.
        keys: in the order in which they are to appear.
        on_object: told each key, how many are done, and how many there are.

    Raises:
        CopyFault: an object differs from its original after it was copied; nothing after it is copied, so no
            marker either.
        NoAccessError: the caller may not read or write.
    """
    copied: list[str] = []
    kept: list[str] = []
    by_size_only: list[str] = []
    for index, key in enumerate(keys):
        on_object(key, index, len(keys))
        original = describe(source, source_bucket, key)
        if original is None:
            raise CopyFault(
                f"{key} vanished from {source_bucket} during the copy", remedy="Run the command again"
            )
        there = describe(target, target_bucket, key)
        equal, certain = same(original, there) if there else (False, True)
        if not equal:
            with calls():
                # The managed copy splits objects over 5 GB, which a single CopyObject refuses.
                target.copy({"Bucket": source_bucket, "Key": key}, target_bucket, key, SourceClient=source)
            there = describe(target, target_bucket, key)
            equal, certain = same(original, there) if there else (False, True)
            if not equal:
                raise CopyFault(
                    f"{key} arrived in {target_bucket} with different content",
                    remedy=f"aws s3 rm s3://{target_bucket}/{key}, and run again",
                )
            copied.append(key)
        else:
            kept.append(key)
        if not certain:
            by_size_only.append(key)
    on_object("done", len(keys), len(keys))
    return Copied(tuple(copied), tuple(kept), tuple(by_size_only))
