"""Names and labels that more than one chart uses."""

from __future__ import annotations

import hashlib
import json
from typing import Any

NAMESPACE = "specdec"
SERVER = "server"
STAGER = "stager"
BENCHMARK = "benchmark"
"""Service accounts, one per kind of pod, each with its own IAM role."""

PORT = 8000
MEETING = "benchmark-meeting"
"""Service that leads to the benchmark pod with index 0."""
MEETING_PORT = 7070
INDEX_LABEL = "batch.kubernetes.io/job-completion-index"
"""Label of the pods of an Indexed Job (Kubernetes 1.28 and later)."""
INSTANCE_TYPE_LABEL = "node.kubernetes.io/instance-type"
CLIENT_LABEL = "specdec/client"
"""A namespace with this label set to ``true`` may reach the services."""


def labels(name: str, component: str) -> dict[str, str]:
    """The recommended labels; ``name`` and ``component`` select, so they never change for a given
    workload.
    """
    return {
        "app.kubernetes.io/name": name,
        "app.kubernetes.io/component": component,
        "app.kubernetes.io/part-of": "specdec",
    }


def short_hash(value: Any) -> str:
    """8 hex digits over plain data: the suffix of objects whose content Kubernetes does not let change."""
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:8]


def service_url(service: str) -> str:
    """Address of a service inside the cluster."""
    return f"http://{service}.{NAMESPACE}.svc:{PORT}"
