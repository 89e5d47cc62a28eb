"""What the pods of a template have to agree on with their own parts: probes, scripts, volumes, networks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import cast

from tests.stack.agreements import (
    Deployed,
    Disagreement,
    Object,
    containers,
    environment,
    name_of,
)

HEALTH = "/health"
"""Where vLLM answers whether its engine lives."""
POD_IDENTITY = ("169.254.170.23/32", "TCP", 80)
"""Where the Pod Identity agent answers (EKS user guide, "Pod Identity agent")."""
NAMES = {("UDP", 53), ("TCP", 53)}
HOME_VARIABLES = ("HOME", "TMPDIR", "HF_HOME", "NEURON_COMPILED_ARTIFACTS", "VLLM_CACHE_ROOT")
"""Variables whose folder a program writes to."""


def commands(made: Object) -> list[list[str]]:
    """Every command line of a container: its own, its probes' and its hooks'."""
    probes = [made.get(probe, {}) for probe in ("startupProbe", "readinessProbe", "livenessProbe")]
    hooks = list(made.get("lifecycle", {}).values())
    asked = [one["exec"]["command"] for one in (*probes, *hooks) if "exec" in one]
    return [made["command"], *asked]


def scripts(deployed: Deployed) -> Iterator[Disagreement]:
    """A script that a container, probe or hook names is in the config map that is mounted there."""
    maps = {item["metadata"]["name"]: item for item in deployed.kind("ConfigMap")}
    for owner, pod in deployed.pods.items():
        volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes", [])}
        for made in containers(pod):
            mounts = {mount["mountPath"]: mount["name"] for mount in made["volumeMounts"]}
            for word in (word for command in commands(made) for word in command):
                folder, _, file = word.rpartition("/")
                source = volumes.get(mounts.get(folder, ""), {}).get("configMap", {}).get("name")
                if source in maps and file not in maps[source]["data"]:
                    yield f"{owner}: {made['name']} runs", word, f"one of {sorted(maps[source]['data'])}"


def probes(deployed: Deployed) -> Iterator[Disagreement]:
    for deployment in deployed.kind("Deployment"):
        for made in containers(deployment["spec"]["template"]):
            for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                path = made.get(probe, {}).get("httpGet", {}).get("path", HEALTH)
                if path != HEALTH:
                    yield f"{name_of(deployment)}: path of {probe}", path, HEALTH


def updates(deployed: Deployed) -> Iterator[Disagreement]:
    """A new pod of a server gets its devices from the old one, so the old one goes first."""
    for deployment in deployed.kind("Deployment"):
        there = deployment["spec"].get("strategy", {}).get("type", "RollingUpdate")
        if there != "Recreate":
            yield f"{name_of(deployment)}: strategy", there, "Recreate"


def writable(deployed: Deployed) -> Iterator[Disagreement]:
    """A folder that a program writes to is on a volume that it may write to."""
    for owner, pod in deployed.pods.items():
        for made in containers(pod):
            mounts = [mount["mountPath"] for mount in made["volumeMounts"] if not mount.get("readOnly")]
            for name in HOME_VARIABLES:
                folder = environment(made).get(name)
                if folder is not None and not any(below(folder, mount) for mount in mounts):
                    yield f"{owner}: {name} of {made['name']}", folder, f"below one of {sorted(mounts)}"


def below(path: str, folder: str) -> bool:
    return f"{path.rstrip('/')}/".startswith(f"{folder.rstrip('/')}/")


def models(deployed: Deployed) -> Iterator[Disagreement]:
    """The models on a server's command line are in the folder where the bucket's models are mounted."""
    for deployment in deployed.kind("Deployment"):
        spec = deployment["spec"]["template"]["spec"]
        claimed = [volume["name"] for volume in spec["volumes"] if "persistentVolumeClaim" in volume]
        server = spec["containers"][0]
        mounts = [mount["mountPath"] for mount in server["volumeMounts"] if mount["name"] in claimed]
        words = " ".join(server["args"])
        named = {path for path in re.findall(r"/[\w.-]+(?:/[\w.-]+)+", words) if "Qwen" in path}
        for path in sorted(named):
            if not any(below(path, mount) for mount in mounts):
                yield f"{name_of(deployment)}: model on the command line", path, f"below one of {mounts}"
        if not named:
            yield f"{name_of(deployment)}: models on the command line", words, "one below the mount"


def shared_memory(deployed: Deployed) -> Iterator[Disagreement]:
    """The workers of one server talk through memory, and not through a disk."""
    for deployment in deployed.kind("Deployment"):
        spec = deployment["spec"]["template"]["spec"]
        volumes = {volume["name"]: volume.get("emptyDir", {}) for volume in spec["volumes"]}
        mounts = {mount["mountPath"]: mount["name"] for mount in spec["containers"][0]["volumeMounts"]}
        medium = volumes.get(mounts.get("/dev/shm", ""), {}).get("medium")
        if medium != "Memory":
            yield f"{name_of(deployment)}: medium of /dev/shm", medium, "Memory"


def claims(deployed: Deployed) -> Iterator[Disagreement]:
    """Devices that a pod claims go to its server, and are asked for once."""
    for deployment in deployed.kind("Deployment"):
        spec = deployment["spec"]["template"]["spec"]
        claimed = [claim["name"] for claim in spec.get("resourceClaims", [])]
        server = spec["containers"][0]
        used = [claim["name"] for claim in server["resources"].get("claims", [])]
        limits = server["resources"]["limits"]
        if claimed != used:
            yield f"{name_of(deployment)}: claims of {server['name']}", used, claimed
        plugin = "aws.amazon.com/neuron" in limits
        if plugin == bool(claimed):
            yield f"{name_of(deployment)}: devices of {server['name']}", limits, "by claim or by limit"


def neighbours(deployed: Deployed) -> Iterator[Disagreement]:
    """The attribute of a constraint carries the number of devices (Neuron docs, deploy/eks/dra.rst)."""
    prefixes = {"topology": "neuron.aws.com/topology", "devicegroup": "resource.aws.com/devicegroup"}
    for template in deployed.kind("ResourceClaimTemplate"):
        devices = template["spec"]["spec"]["devices"]
        count = devices["requests"][0]["exactly"]["count"]
        wanted = deployed.experiment.serving.neighbours
        whole = count in (1, deployed.experiment.instance.devices)
        expected = [] if whole or wanted == "none" else [f"{prefixes[wanted]}{count}_id"]
        there = [one["matchAttribute"] for one in devices.get("constraints", [])]
        if there != expected:
            yield f"{name_of(template)}: matchAttribute", there, expected


def reachable(deployed: Deployed) -> Iterator[Disagreement]:
    """A pod whose egress is closed still reaches names, its credentials, and HTTPS outside; what several
    policies open for it adds up.
    """
    open_ports: dict[str, set[tuple[str, str, int]]] = {}
    for policy in deployed.kind("NetworkPolicy"):
        if "Egress" not in policy["spec"]["policyTypes"]:
            continue
        for owner in deployed.owners(policy["spec"]["podSelector"].get("matchLabels", {})):
            for rule in policy["spec"]["egress"]:
                for peer in rule["to"]:
                    target = peer.get("ipBlock", {}).get("cidr") or name_of_peer(peer)
                    ports = {(target, port["protocol"], port["port"]) for port in rule["ports"]}
                    open_ports[owner] = open_ports.get(owner, set()) | ports
    wanted = {POD_IDENTITY, ("0.0.0.0/0", "TCP", 443)}
    wanted |= {("kube-dns", protocol, port) for protocol, port in NAMES}
    for owner, there in open_ports.items():
        if missing := wanted - there:
            yield f"{owner}: egress", sorted(there), f"with {sorted(missing)}"


def name_of_peer(peer: Object) -> str:
    labels = cast("Object", peer["podSelector"]).get("matchLabels", {})
    return labels.get("k8s-app") or labels.get("app.kubernetes.io/component", "any")


def admission(deployed: Deployed) -> Iterator[Disagreement]:
    """The namespace lets every pod in (Kubernetes, "Pod Security Standards"), and tells of the rest."""
    (namespace,) = deployed.kind("Namespace")
    labels, level = namespace["metadata"]["labels"], "pod-security.kubernetes.io"
    enforced = labels.get(f"{level}/enforce")
    for owner, pod in deployed.pods.items():
        for made in containers(pod):
            needed = admitted_at(made["securityContext"])
            if LEVELS.index(enforced) > LEVELS.index(needed):
                yield f"{name_of(namespace)}: level that is enforced", enforced, f"{needed}, for {owner}"
    for told in ("warn", "audit"):
        if labels.get(f"{level}/{told}") != "restricted":
            yield f"{name_of(namespace)}: {told}", labels.get(f"{level}/{told}"), "restricted"


LEVELS = ("privileged", "baseline", "restricted")


def admitted_at(security: Object) -> str:
    """The strictest level that lets a container in."""
    if security.get("privileged") or security.get("capabilities", {}).get("add"):
        return "privileged"
    restricted = (
        security.get("runAsNonRoot") is True
        and security.get("allowPrivilegeEscalation") is False
        and "ALL" in security.get("capabilities", {}).get("drop", [])
    )
    return "restricted" if restricted else "baseline"


POD_AGREEMENTS: dict[str, Callable[[Deployed], Iterator[Disagreement]]] = {
    "scripts": scripts,
    "probes": probes,
    "updates": updates,
    "writable folders": writable,
    "models": models,
    "shared memory": shared_memory,
    "claims": claims,
    "neighbours": neighbours,
    "reachable": reachable,
    "admission": admission,
}
