from __future__ import annotations

import hashlib
from typing import Any

import pytest
from botocore.exceptions import ClientError

from specdec.operate.copying import CopyFault, copy, keys_under, same
from specdec.operate.copying import Stored as Description


class Buckets:
    """S3 as far as a copy uses it, in memory; one object can be made to arrive damaged, and the copy to die
    before one.
    """

    def __init__(self, **buckets: dict[str, bytes]) -> None:
        self.buckets = buckets
        self.sent: list[str] = []
        self.damage: str | None = None
        self.die_before: str | None = None

    def head_object(self, *, Bucket: str, Key: str, ChecksumMode: str) -> dict[str, Any]:  # noqa: N803
        if Key not in self.buckets[Bucket]:
            raise ClientError({"Error": {"Code": "404", "Message": "Not Found"}}, "HeadObject")
        content = self.buckets[Bucket][Key]
        assert ChecksumMode == "ENABLED"
        return {
            "ContentLength": len(content),
            "ETag": f'"{hashlib.md5(content).hexdigest()}"',
            "ChecksumSHA256": hashlib.sha256(content).hexdigest(),
        }

    def copy(
        self,
        source: dict[str, str],
        bucket: str,
        key: str,
        *,
        SourceClient: object,  # noqa: N803
    ) -> None:
        if key == self.die_before:
            raise KeyboardInterrupt
        self.sent.append(key)
        content = self.buckets[source["Bucket"]][source["Key"]]
        self.buckets[bucket][key] = content[:-1] + b"?" if key == self.damage else content

    def get_paginator(self, operation: str) -> Any:
        assert operation == "list_objects_v2"
        return self

    def paginate(self, *, Bucket: str, Prefix: str) -> list[dict[str, Any]]:  # noqa: N803
        return [
            {"Contents": [{"Key": key} for key in sorted(self.buckets[Bucket]) if key.startswith(Prefix)]}
        ]


MODEL = {
    "models/Qwen/Qwen3-32B/main/.complete.json": b"{}",
    "models/Qwen/Qwen3-32B/main/config.json": b"config",
    "models/Qwen/Qwen3-32B/main/model.safetensors": b"weights",
}


def ignore(key: str, done: int, total: int) -> None:
    pass


def transfer(s3: Buckets) -> Any:
    keys = keys_under(s3, "here", ["models/Qwen/Qwen3-32B/main/"])
    return copy(s3, "here", s3, "there", keys, on_object=ignore)


def test_the_marker_is_copied_last() -> None:
    s3 = Buckets(here=dict(MODEL), there={})
    transfer(s3)
    assert s3.buckets["there"] == MODEL
    assert s3.sent[-1].endswith("/.complete.json")


@pytest.mark.parametrize("key", MODEL)
def test_a_copy_killed_before_any_object_leaves_no_marker_and_goes_on_from_there(key: str) -> None:
    s3 = Buckets(here=dict(MODEL), there={})
    s3.die_before = key
    with pytest.raises(KeyboardInterrupt):
        transfer(s3)
    assert "models/Qwen/Qwen3-32B/main/.complete.json" not in s3.buckets["there"]
    before, s3.die_before, s3.sent = set(s3.buckets["there"]), None, []
    done = transfer(s3)
    assert s3.buckets["there"] == MODEL
    assert set(s3.sent) == set(done.copied) == set(MODEL) - before
    assert set(done.kept) == before


def test_an_object_that_arrives_damaged_ends_the_copy_before_the_marker() -> None:
    s3 = Buckets(here=dict(MODEL), there={})
    s3.damage = "models/Qwen/Qwen3-32B/main/model.safetensors"
    with pytest.raises(CopyFault, match=r"model\.safetensors"):
        transfer(s3)
    assert "models/Qwen/Qwen3-32B/main/.complete.json" not in s3.buckets["there"]


def test_an_object_that_rotted_at_the_same_size_is_found_and_copied_again() -> None:
    s3 = Buckets(
        here=dict(MODEL), there={**MODEL, "models/Qwen/Qwen3-32B/main/model.safetensors": b"weighty"}
    )
    done = transfer(s3)
    assert done.copied == ("models/Qwen/Qwen3-32B/main/model.safetensors",)
    assert s3.buckets["there"] == MODEL


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        (Description("k", 1, {}, "a"), Description("k", 2, {}, "a"), (False, True)),
        (
            Description("k", 1, {"ChecksumCRC64NVME": "x"}, None),
            Description("k", 1, {"ChecksumCRC64NVME": "y"}, None),
            (False, True),
        ),
        (Description("k", 1, {}, "a"), Description("k", 1, {}, "a"), (True, True)),
        (
            Description("k", 1, {"ChecksumSHA256": "x"}, None),
            Description("k", 1, {"ChecksumCRC32": "y"}, None),
            (True, False),
        ),
    ],
)
def test_content_is_compared_by_what_both_sides_know(
    source: Description, target: Description, expected: tuple[bool, bool]
) -> None:
    assert same(source, target) == expected
