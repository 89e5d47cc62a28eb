"""The calls to the stand-in for ``kubectl`` and ``helm``, and the cluster that would result from them.

Pure: recorded calls in, objects out. Standard library only, because the stand-in itself runs in a bare
interpreter.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

Manifest = dict[str, Any]
Key = tuple[str, str, str, str]
"""API group, kind, namespace and name of an object."""

PRUNABLE = frozenset(
    [
        "ConfigMap",
        "Endpoints",
        "PersistentVolumeClaim",
        "Pod",
        "ReplicationController",
        "Secret",
        "Service",
        "Job",
        "CronJob",
        "Ingress",
        "DaemonSet",
        "Deployment",
        "ReplicaSet",
        "StatefulSet",
        "Namespace",
        "PersistentVolume",
    ]
)
"""Kinds that ``kubectl apply --prune`` deletes when they leave a manifest (kubectl's pkg/cmd/util/prune,
1.36).
"""


@dataclass(frozen=True, slots=True)
class Call:
    """One command line that a handler ran.

    Attributes:
        region: region of the stack that ran it.
        tool: ``aws``, ``kubectl`` or ``helm``.
        arguments: what followed the tool's name.
        objects: Kubernetes objects in the file the command named, in order.
        values: Helm values in the file the command named.
        exit_code: how the stand-in answered.
    """

    region: str
    tool: str
    arguments: tuple[str, ...]
    objects: tuple[Manifest, ...] = ()
    values: dict[str, Any] = field(default_factory=dict[str, Any])
    exit_code: int = 0

    @property
    def verb(self) -> str:
        """The first word after the tool."""
        return self.arguments[0] if self.arguments else ""

    def flag(self, name: str) -> str | None:
        """The value after a flag, None if the flag is absent."""
        return self.arguments[self.arguments.index(name) + 1] if name in self.arguments else None

    def line(self) -> str:
        """One line of JSON."""
        return json.dumps(
            {
                "region": self.region,
                "tool": self.tool,
                "arguments": self.arguments,
                "objects": self.objects,
                "values": self.values,
                "exit_code": self.exit_code,
            }
        )


def read(lines: Iterable[str]) -> list[Call]:
    """Calls from the recorder's file."""
    calls: list[Call] = []
    for line in lines:
        raw = json.loads(line)
        calls.append(
            Call(
                raw["region"],
                raw["tool"],
                tuple(raw["arguments"]),
                tuple(raw["objects"]),
                raw["values"],
                raw["exit_code"],
            )
        )
    return calls


def key(manifest: Manifest) -> Key:
    """What identifies an object in one cluster. A kind is told apart by its group, not by its version."""
    metadata: dict[str, Any] = manifest["metadata"]
    group = str(manifest["apiVersion"]).rpartition("/")[0]
    return group, str(manifest["kind"]), str(metadata.get("namespace", "")), str(metadata["name"])


def split(text: str) -> list[Manifest]:
    """Objects in a file as the CDK's handler writes it: JSON objects one after the other, with nothing
    between.

    Raises:
        ValueError: not JSON.
    """
    decoder = json.JSONDecoder()
    manifests: list[Manifest] = []
    position = 0
    while position < len(text):
        manifest, position = decoder.raw_decode(text, position)
        manifests.append(manifest)
        while position < len(text) and text[position].isspace():
            position += 1
    return manifests


@dataclass(frozen=True, slots=True)
class Release:
    """A Helm release.

    Attributes:
        name: release name.
        namespace: where it is installed.
        chart: registry address or name of the chart.
        version: chart version, None if none was asked for.
        values: what differs from the chart's own values.
    """

    name: str
    namespace: str
    chart: str
    version: str | None
    values: dict[str, Any]


class Cluster:
    """Objects and releases of one cluster, after the calls it was given.

    Attributes:
        objects: by identity, in the order they came.
        releases: by namespace and name.
    """

    def __init__(self, calls: Iterable[Call] = ()) -> None:
        self.objects: dict[Key, Manifest] = {}
        self.releases: dict[tuple[str, str], Release] = {}
        self._pulled: dict[str, Call] = {}
        for call in calls:
            if call.exit_code == 0:
                self.take(call)

    def refusal(self, call: Call) -> str | None:
        """Why the API server would refuse a call, None if nothing speaks against it here."""
        if call.tool == "kubectl" and call.verb == "create":
            for manifest in call.objects:
                if key(manifest) in self.objects:
                    group, kind, _, name = key(manifest)
                    plural = f"{kind.lower()}s{'.' + group if group else ''}"
                    return f'Error from server (AlreadyExists): {plural} "{name}" already exists'
        return None

    def take(self, call: Call) -> None:
        """Changes the cluster as the call says."""
        match call.tool, call.verb:
            case "kubectl", "create" | "apply":
                self.objects |= {key(manifest): manifest for manifest in call.objects}
                if "--prune" in call.arguments and (label := call.flag("-l")):
                    self._prune(label, {key(manifest) for manifest in call.objects})
            case "kubectl", "delete":
                for manifest in call.objects:
                    self._delete(key(manifest))
            case "helm", "pull":
                self._pulled[call.arguments[1].rpartition("/")[2]] = call
            case "helm", "upgrade":
                release = self._release(call)
                self.releases[release.namespace, release.name] = release
            case "helm", "uninstall":
                self.releases.pop((call.flag("--namespace") or "default", call.arguments[1]), None)
            case _:
                pass

    def _release(self, call: Call) -> Release:
        name, chart = call.arguments[1:3]
        # A chart from a registry is unpacked first and then installed from a folder of its name.
        source = self._pulled.get(chart.rpartition("/")[2])
        return Release(
            name,
            call.flag("--namespace") or "default",
            source.arguments[1] if source else chart,
            (source or call).flag("--version"),
            call.values,
        )

    def _prune(self, label: str, kept: set[Key]) -> None:
        name, equals, value = label.partition("=")
        for identity, manifest in list(self.objects.items()):
            labels: dict[str, str] = manifest["metadata"].get("labels") or {}
            # The CDK sets its prune label with an empty value, and selects by presence.
            selected = labels.get(name) == value if equals else name in labels
            if selected and identity not in kept and identity[1] in PRUNABLE:
                self._delete(identity)

    def _delete(self, identity: Key) -> None:
        self.objects.pop(identity, None)
        if identity[1] == "Namespace":
            for other in [other for other in self.objects if other[2] == identity[3]]:
                del self.objects[other]
