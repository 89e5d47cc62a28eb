"""EKS add-ons of the stack: a version for each Kubernetes version, and the settings the stack gives them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

CNI, OBSERVABILITY, POD_IDENTITY = "vpc-cni", "amazon-cloudwatch-observability", "eks-pod-identity-agent"

_UPGRADE = (
    "seen at work in one public cluster that was taken from 1.34 over 1.35 to 1.36, by its upgrade log"
    " (2026-09-24)"
)
_PINNED = "pinned in public for a cluster of 1.35"


@dataclass(frozen=True, slots=True)
class AddOn:
    """One add-on.

    Attributes:
        name: its name in EKS.
        versions: Kubernetes version to the version that the stack asks for.
        source: where those were seen.
        values: settings under the add-on's own schema (``aws eks describe-addon-configuration``).
        floor: oldest release that takes the settings; None where every release does.
        floor_source: where that was read.
    """

    name: str
    versions: Mapping[str, str]
    source: str
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    floor: tuple[int, int, int] | None = None
    floor_source: str = ""

    def below_floor(self, version: str) -> bool:
        """Whether a version is too old for the settings. Text that is no version is not judged."""
        numbers = release(version)
        return self.floor is not None and numbers is not None and numbers < self.floor


def release(version: str) -> tuple[int, int, int] | None:
    """The release in a version like ``v6.7.0-eksbuild.1``, here (6, 7, 0); None where there is none."""
    match = re.match(r"v(\d+)\.(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def _every(version: str) -> dict[str, str]:
    return dict.fromkeys(("1.34", "1.35", "1.36"), version)


ADDONS = {
    addon.name: addon
    for addon in (
        AddOn(
            POD_IDENTITY,
            _every("v1.3.10-eksbuild.3"),
            "pinned in public for clusters of 1.34, 1.35 and 1.36 (2026-08)",
        ),
        AddOn(
            "kube-proxy",
            {"1.34": "v1.34.6-eksbuild.29", "1.35": "v1.35.3-eksbuild.29", "1.36": "v1.36.0-eksbuild.25"},
            _UPGRADE,
        ),
        AddOn(
            CNI,
            _every("v1.22.4-eksbuild.3"),
            _UPGRADE,
            # Without it the CNI accepts NetworkPolicy objects and enforces none.
            values={"enableNetworkPolicy": "true"},
        ),
        AddOn(
            "coredns",
            {"1.34": "v1.12.4-eksbuild.38", "1.35": "v1.13.2-eksbuild.31", "1.36": "v1.14.3-eksbuild.23"},
            _UPGRADE,
        ),
        AddOn(
            "aws-mountpoint-s3-csi-driver",
            _every("v2.7.0-eksbuild.1"),
            f"{_PINNED} (2026-07), as the newest there is; not seen with 1.34 and 1.36",
        ),
        AddOn(
            OBSERVABILITY,
            _every("v6.7.0-eksbuild.1"),
            _UPGRADE,
            values={
                "containerInsights": {"enabled": True},
                "containerLogs": {"enabled": True},
                "neuronMonitor": {"enabled": True},
                "applicationSignals": {"enabled": False},
                "dcgmExporter": {"enabled": False},
            },
            floor=(6, 2, 0),
            floor_source=(
                "aws-observability/helm-charts 6.2.0 (2026-06-10) brought containerInsights.enabled and"
                " applicationSignals.enabled"
            ),
        ),
        AddOn(
            "eks-node-monitoring-agent",
            _every("v1.6.5-eksbuild.1"),
            f"{_PINNED} (2026-07); not seen with 1.34 and 1.36",
        ),
    )
}
"""By name. ``specdec check`` compares the versions with those that the account is offered; a test holds the
template to this list.
"""


def addon_versions(kubernetes: str, chosen: Mapping[str, str]) -> dict[str, str]:
    """Version of every add-on.

    Args:
        kubernetes: Kubernetes version of the cluster.
        chosen: add-on to version, for those that the experiment chooses itself.
    """
    return {name: chosen.get(name, addon.versions[kubernetes]) for name, addon in ADDONS.items()}
