"""EKS add-ons of the stack, by name. The preflight asks for their versions; a test holds the template to this
list.
"""

from __future__ import annotations

CNI, OBSERVABILITY, POD_IDENTITY = "vpc-cni", "amazon-cloudwatch-observability", "eks-pod-identity-agent"

ADDONS = (
    "eks-pod-identity-agent",
    "kube-proxy",
    "vpc-cni",
    "coredns",
    "aws-mountpoint-s3-csi-driver",
    "amazon-cloudwatch-observability",
    "eks-node-monitoring-agent",
)
