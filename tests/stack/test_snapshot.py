"""The whole template as a snapshot, and each Kubernetes object in it as a page of YAML to read.

``pytest tests/stack --snapshot-update`` renews them on purpose.
"""

import copy
import json
import re
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.json import JSONSnapshotExtension
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from tests.stack.synthesis import (
    REGION,
    ROOT,
    SECOND_REGION,
    Template,
    template,
    without_region,
)

pytestmark = pytest.mark.slow


_ASSET = re.compile(r"\b[0-9a-f]{64}\b")
_CONTENT_HASH = re.compile(r"-[0-9a-f]{8,12}$")
_HASHED = re.compile(r"\b((?:llmperf|models|neuron-\d+|stage[a-z0-9-]*|qwen[a-z-]*vllm))-[0-9a-f]{8}\b")
PAGES = Path(__file__).parent / "__snapshots__" / "test_snapshot"

Object = dict[str, Any]


def masked(template: Template) -> Any:
    """The template without hashes of the CDK's assets, which change with each of its releases.

    Of Kubernetes manifests, kind and name stay: each object has a page of its own.
    """
    body = copy.deepcopy(template.body)
    for name, objects in template.manifests.items():
        body["Resources"][name]["Properties"]["Manifest"] = [
            f"{one['kind']} {_CONTENT_HASH.sub('-<hash>', one['metadata']['name'])}" for one in objects
        ]
    return json.loads(_ASSET.sub("<asset>", json.dumps(body)))


def test_template(snapshot: SnapshotAssertion) -> None:
    assert masked(template()) == snapshot(extension_class=JSONSnapshotExtension)


class Yaml(SingleFileSnapshotExtension):
    """One file for each object."""

    file_extension = "yaml"
    _write_mode = WriteMode.TEXT


def page(manifest: Object) -> str:
    """An object as YAML: hashes masked, the CDK's prune label left out, files of this repository by name."""
    masked = copy.deepcopy(manifest)
    labels = masked["metadata"].pop("labels", {})
    if own := {key: value for key, value in labels.items() if not key.startswith("aws.cdk.eks/prune-")}:
        masked["metadata"]["labels"] = own
    files = {path.read_text(encoding="utf-8"): path for path in (ROOT / "charts").glob("[ps]*/*")}
    for name, text in masked.get("data", {}).items():
        path = files.get(text)
        masked["data"][name] = f"<{path.relative_to(ROOT)}>" if path else f"<{name}>"
    masked |= (
        {"binaryData": {name: f"<{name}>" for name in masked["binaryData"]}} if "binaryData" in masked else {}
    )
    text: str = cast("Any", yaml).safe_dump(masked, sort_keys=True, width=100)
    return _HASHED.sub(r"\1-<hash>", text)


def test_manifests(snapshot: SnapshotAssertion) -> None:
    pages = {
        f"{manifest['kind']}-{_CONTENT_HASH.sub('', manifest['metadata']['name'])}": page(manifest)
        for manifests in template().manifests.values()
        for manifest in manifests
    }
    for name, text in pages.items():
        assert text == snapshot(name=name, extension_class=Yaml)
    kept = {path.stem.removeprefix("test_manifests[").removesuffix("]") for path in PAGES.glob("*.yaml")}
    assert kept == set(pages), "a page of an object that is no more: --snapshot-update removes it"


def test_the_same_experiment_elsewhere_differs_in_nothing_but_the_region() -> None:
    there = template(("us-east-2", SECOND_REGION))
    assert without_region(template().body, REGION) == without_region(there.body, SECOND_REGION)


def test_no_partition_is_assumed() -> None:
    """The same experiment in a region of another partition of AWS."""
    elsewhere = template(
        ("us-east-2", "us-gov-west-1"),
        ("[capacity]", "[capacity]\nallow_unlisted_region = true"),
        ('zone = "us-gov-west-1b"', 'zones = ["us-gov-west-1a", "us-gov-west-1b"]\nzone = "us-gov-west-1b"'),
    )
    assert "arn:aws:" not in elsewhere.text
    assert "arn:aws-us-gov:" in elsewhere.text or "AWS::Partition" in elsewhere.text


def test_no_region_is_written_in_the_code() -> None:
    sources = [
        path for folder in ("stacks", "constructs", "charts") for path in (ROOT / folder).rglob("*.py")
    ]
    assert sources
    found = [
        path.name
        for path in (*sources, ROOT / "app.py")
        if re.search(r"\b(us|ap|eu|sa|ca|me|af|il)-[a-z]+-\d\b", path.read_text())
    ]
    assert not found


def test_the_test_command_never_renews_a_snapshot() -> None:
    assert "snapshot-update" not in (ROOT / ".ci" / "run").read_text() + (ROOT / "pyproject.toml").read_text()
