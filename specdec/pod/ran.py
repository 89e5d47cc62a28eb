"""What the services of a run really ran on: node, image, driver and libraries, and the cluster's add-ons.

A tag, a node group and a file say what was asked for. This asks the cluster and EKS what is there, so that
two runs can be compared, and the phases of one. It reads, and never ends a run: what cannot be found out is
told in its place.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from specdec.errors import EnvironmentFault

if TYPE_CHECKING:
    from mypy_boto3_eks import EKSClient

Get = Callable[[str], dict[str, Any]]
"""A path of the Kubernetes API to its answer."""

VERSIONS = "versions"
"""Init container of a server whose last words are its image's and its node's versions, as JSON."""

_SECONDS = 10.0


def client(session: Any, region: str) -> EKSClient:
    """An EKS client that gives up soon: a run must not wait long for what it can do without.

    Args:
        session: a boto3 session.
        region: AWS region.
    """
    from botocore.config import Config

    quick = Config(
        connect_timeout=_SECONDS, read_timeout=_SECONDS, retries={"total_max_attempts": 2, "mode": "standard"}
    )
    return session.client("eks", region_name=region, config=quick)


def ran(
    services: Mapping[str, str], *, cluster: str, eks: EKSClient, api: Callable[[], Get]
) -> dict[str, Any]:
    """What is there, as plain data for the manifest: ``servers`` by variant, and ``addons``.

    Args:
        services: base URL per variant; its host is ``<service>.<namespace>.svc``.
        cluster: name of the EKS cluster.
        eks: client of EKS.
        api: makes the Kubernetes API; what it raises is told.
    """
    servers: dict[str, dict[str, Any]] = {}
    for variant, url in services.items():
        service, namespace = str(urlsplit(url).hostname).split(".")[:2]
        servers[variant] = server(service, namespace, cluster=cluster, eks=eks, api=api)
    return {"servers": servers, "addons": _told(lambda: _addons(eks, cluster))}


def server(
    service: str, namespace: str, *, cluster: str, eks: EKSClient, api: Callable[[], Get]
) -> dict[str, Any]:
    """What the server behind one service runs on now: ``image``, ``libraries`` and ``node``.

    Args:
        service: name of the Kubernetes service, and of its Deployment.
        namespace: of both.
        cluster: as of ``ran``.
        eks: as of ``ran``.
        api: as of ``ran``.
    """
    return _told(lambda: _server(service, namespace, api(), eks, cluster))


def _told(look: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        return look()
    except EnvironmentFault as fault:
        return {"problem": str(fault)}
    except (OSError, BotoCoreError, ClientError, KeyError, ValueError) as error:
        return {"problem": f"{type(error).__name__}: {error}"}


def _server(service: str, namespace: str, get: Get, eks: EKSClient, cluster: str) -> dict[str, Any]:
    selector = quote(f"app.kubernetes.io/name={service}")
    pods = get(f"/api/v1/namespaces/{namespace}/pods?labelSelector={selector}")["items"]
    ready = [pod for pod in pods if _ready(pod)]
    if len(ready) != 1:
        return {"problem": f"{len(ready)} ready pods of {service}"}
    (pod,) = ready
    status = pod["status"]
    images = {one["name"]: one["imageID"] for one in status["containerStatuses"]}
    return {
        "image": images["server"],
        "libraries": _words(status),
        "node": _node(get(f"/api/v1/nodes/{pod['spec']['nodeName']}"), eks, cluster),
    }


def _ready(pod: Mapping[str, Any]) -> bool:
    conditions = {one["type"]: one["status"] for one in pod["status"].get("conditions", [])}
    return conditions.get("Ready") == "True" and "deletionTimestamp" not in pod["metadata"]


def _words(status: Mapping[str, Any]) -> dict[str, Any]:
    for one in status.get("initContainerStatuses", []):
        if one["name"] == VERSIONS:
            words = one.get("state", {}).get("terminated", {}).get("message", "")
            return json.loads(words) if words else {"problem": f"{VERSIONS} said nothing"}
    return {"problem": f"no container {VERSIONS}"}


def _node(node: Mapping[str, Any], eks: EKSClient, cluster: str) -> dict[str, Any]:
    labels, facts = node["metadata"]["labels"], node["status"]["nodeInfo"]
    group = labels.get("eks.amazonaws.com/nodegroup")
    release = None
    if group is not None:
        answer = eks.describe_nodegroup(clusterName=cluster, nodegroupName=group)["nodegroup"]
        release = answer.get("releaseVersion")
    return {
        "ami": labels.get("eks.amazonaws.com/nodegroup-image"),
        "ami_release": release,
        "container_runtime": facts["containerRuntimeVersion"],
        "instance_type": labels.get("node.kubernetes.io/instance-type"),
        "kernel": facts["kernelVersion"],
        "kubelet": facts["kubeletVersion"],
        "os": facts["osImage"],
    }


def _addons(eks: EKSClient, cluster: str) -> dict[str, Any]:
    names = [
        name
        for page in eks.get_paginator("list_addons").paginate(clusterName=cluster)
        for name in page["addons"]
    ]
    return {
        name: eks.describe_addon(clusterName=cluster, addonName=name)["addon"].get("addonVersion")
        for name in names
    }
