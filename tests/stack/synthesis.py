"""Templates of experiments, each made once per test run."""

import functools
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

# The Node that comes with the Python packages; jsii would take an older one of the system.
os.environ.setdefault("JSII_NODE", str(Path(sys.executable).parent / "node"))

import aws_cdk as cdk

from specdec.experiment.fields import Experiment
from specdec.experiment.reading import parse
from stacks.app import add_stacks, new_app

ROOT = Path(__file__).parents[2]
DEFAULT = (ROOT / "experiment.toml").read_text(encoding="utf-8")
REGION, SECOND_REGION = "us-east-2", "ap-south-2"

_PRUNE_LABEL = re.compile(r"prune-[0-9a-f]{42}")
_NAME_HASH = re.compile(r"-[0-9a-f]{8,12}\b")

Resource = dict[str, Any]

TWO_REGIONS = (
    ('regions = ["us-east-2"]', 'regions = ["us-east-2", "ap-south-2"]'),
    ("[serving]", '[placement.ap-south-2]\nzone = "ap-south-2b"\n\n[serving]'),
)
EVERYTHING = (
    (
        "[capacity]",
        """
[store]
on_destroy = "empty"

[guards]
monthly_budget_usd = 5000.0
notify = "team@example.com"
budget_covers = "experiment"
scale_down_at = "2030-01-02T20:00:00"
scale_down_every_hours = 4

[cluster]
public_access_cidrs = ["203.0.113.0/24"]
admin_principal_arns = ["arn:aws:iam::111122223333:role/Admin"]
log_retention_days = 7
addon_versions = { coredns = "v1.12.1-eksbuild.2" }

[tags]
cost-centre = "42"

[capacity]
efa = true
""",
    ),
)
"""Every option of the stack that adds something to it."""


@dataclass(frozen=True)
class Template:
    """A synthesized template, with the questions tests ask of it."""

    text: str

    @functools.cached_property
    def body(self) -> dict[str, Any]:
        return json.loads(self.text)

    @property
    def resources(self) -> dict[str, Resource]:
        return self.body["Resources"]

    def of_type(self, kind: str) -> dict[str, Resource]:
        return {name: resource for name, resource in self.resources.items() if resource["Type"] == kind}

    def only(self, kind: str, **properties: Any) -> Resource:
        """Properties of the one resource of this type with these properties."""
        (found,) = [
            resource["Properties"]
            for resource in self.of_type(kind).values()
            if all(resource["Properties"].get(key) == value for key, value in properties.items())
        ]
        return found

    def named(self, start: str, kind: str | None = None) -> str:
        """Logical id of the one resource (of the type) whose id starts so."""
        (found,) = [
            name
            for name, resource in self.resources.items()
            if name.startswith(start) and kind in (None, resource["Type"])
        ]
        return found

    def needs(self, name: str) -> set[str]:
        """All resources that exist before this one, directly or through others."""
        found: set[str] = set()
        waiting = [name]
        while waiting:
            resource = self.resources[waiting.pop()]
            after = resource.get("DependsOn", [])
            direct = {after} if isinstance(after, str) else set(after)
            for one in (direct | set(references(resource))) & self.resources.keys() - found:
                found.add(one)
                waiting.append(one)
        return found

    @functools.cached_property
    def manifests(self) -> dict[str, list[dict[str, Any]]]:
        """Kubernetes objects by the resource that applies them; a token in them reads ``<name>``."""
        return {
            name: json.loads(flat(resource["Properties"]["Manifest"]))
            for name, resource in self.of_type("Custom::AWSCDK-EKS-KubernetesResource").items()
        }


def without_region(body: dict[str, Any], region: str) -> str:
    """What a template has in common with those of other regions."""
    text = json.dumps(body).replace(region, "<region>")
    # The CDK's label for pruning, and names that follow from content, are hashes over the region too.
    return _NAME_HASH.sub("-<hash>", _PRUNE_LABEL.sub("prune-<hash>", text))


def references(value: Any) -> Iterator[str]:
    """Logical ids that a value refers to."""
    match value:
        case {"Ref": str(name)}:
            yield name
        case {"Fn::GetAtt": [str(name), _]}:
            yield name
        case dict():
            for one in cast("dict[str, Any]", value).values():
                yield from references(one)
        case list():
            for one in cast("list[Any]", value):
                yield from references(one)
        case _:
            pass


def as_list(value: Any) -> list[Any]:
    """One or many, as CloudFormation lets both stand."""
    return cast("list[Any]", value) if isinstance(value, list) else [value]


def flat(value: Any) -> str:
    """A string with tokens in it as one string: ``<LogicalId>`` or ``<LogicalId.Attribute>`` for each."""
    match value:
        case str():
            return value
        case {"Fn::Join": [separator, parts]}:
            return separator.join(flat(part) for part in parts)
        case {"Ref": name}:
            return f"<{name}>"
        case {"Fn::GetAtt": [name, attribute]}:
            return f"<{name}.{attribute}>"
        case {"Fn::Select": [index, {"Fn::Split": [separator, text]}]}:
            return f"<part {index} of {flat(text)} at {separator}>"
        case _:
            raise AssertionError(f"not a string: {value!r}")


def experiment(*edits: tuple[str, str]) -> Experiment:
    """The default experiment after edits to its text."""
    text = DEFAULT
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    return parse(text)


def app_of(wanted: Experiment, *, outdir: str, validate: bool = False) -> cdk.App:
    app = new_app(outdir=outdir, context={"aws:cdk:disable-asset-staging": True}, validate=validate)
    add_stacks(app, wanted)
    return app


_made: dict[str, dict[str, Template]] = {}


def templates(*edits: tuple[str, str]) -> dict[str, Template]:
    """Region to template. Edits that come to the same experiment share them."""
    wanted = experiment(*edits)
    key = wanted.configuration_hash()
    if key not in _made:
        with tempfile.TemporaryDirectory() as folder:
            app_of(wanted, outdir=folder).synth()
            found = {path.name: path.read_text() for path in Path(folder).glob("*.template.json")}
        assert len(found) == len(wanted.regions), "one flat stack per region"
        _made[key] = {
            region: Template(found[f"{wanted.stack_name(region)}.template.json"]) for region in wanted.regions
        }
    return _made[key]


def template(*edits: tuple[str, str]) -> Template:
    """Template of the first region."""
    return next(iter(templates(*edits).values()))
