"""What a deployment pulls from public registries beside the serving stack's own image."""

from __future__ import annotations

AWS_CLI_IMAGE = (
    "public.ecr.aws/aws-cli/aws-cli:2.37.0"
    "@sha256:337494c2047176fe9abcf45a5d1eaf1c2c62cae40953284fb1143b5c6170f065"
)
"""AWS CLI with bash, curl and jq. Tag and digest agree in three independent public sources (2026-11-29)."""

PYTHON_IMAGE = (
    "public.ecr.aws/docker/library/python:3.12-slim"
    "@sha256:dddfd7e07f9d15aeeca61529320492139d21cac7f0070c00609243e51e4e0016"
)
"""Stock Python 3.12. Digest of the tag as of 2026-10-04, in two independent public sources."""

NEURON_CHART = "oci://public.ecr.aws/neuron/neuron-helm-chart"
NEURON_CHART_VERSION = "1.10.0"
"""Pinned, and always given: without a version the CDK's handler asks for one named "None" and fails in the
middle of a deployment.
"""

NEURON_CHART_IMAGES = {
    "dra": {("draDriver",): "public.ecr.aws/neuron/neuron-dra-driver:1.2.0"},
    "device-plugin": {
        ("devicePlugin",): "public.ecr.aws/neuron/neuron-device-plugin:2.32.0.0",
        ("scheduler",): "public.ecr.aws/neuron/neuron-scheduler:2.32.0.0",
        ("scheduler", "customScheduler"): (
            "public.ecr.aws/eks-distro/kubernetes/kube-scheduler:v1.31.12-eks-1-31-30"
        ),
    },
}
"""Images of the chart by allocation, and where its values name them: ``image.repository`` below these keys.
From the values that version 1.10.0 shows, as a public log of 2026-09-11 has them (chart digest
sha256:ed5d8f73).
"""
