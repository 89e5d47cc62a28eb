"""The whole template as a snapshot. ``pytest tests/stack --snapshot-update`` renews it on purpose."""

import copy
import json
import re
from typing import Any

from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.json import JSONSnapshotExtension

from tests.stack.synthesis import (
    REGION,
    ROOT,
    SECOND_REGION,
    Template,
    template,
    without_region,
)

_ASSET = re.compile(r"\b[0-9a-f]{64}\b")
_CONTENT_HASH = re.compile(r"-[0-9a-f]{8,12}$")


def masked(template: Template) -> Any:
    """The template without hashes of the CDK's assets, which change with each of its releases.

    Of Kubernetes manifests, kind and name stay: their content belongs to the charts, which have their own
    tests.
    """
    body = copy.deepcopy(template.body)
    for name, objects in template.manifests.items():
        body["Resources"][name]["Properties"]["Manifest"] = [
            f"{one['kind']} {_CONTENT_HASH.sub('-<hash>', one['metadata']['name'])}" for one in objects
        ]
    return json.loads(_ASSET.sub("<asset>", json.dumps(body)))


def test_template(snapshot: SnapshotAssertion) -> None:
    assert masked(template()) == snapshot(extension_class=JSONSnapshotExtension)


def test_the_same_experiment_elsewhere_differs_in_nothing_but_the_region() -> None:
    there = template(("us-east-2", SECOND_REGION))
    assert without_region(template().body, REGION) == without_region(there.body, SECOND_REGION)


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
