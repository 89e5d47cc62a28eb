"""Services of AWS that are called from inside of a VPC: where it has no way out, each needs an endpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from specdec.experiment.fields import Experiment

ENDPOINTS = (
    "ec2",
    "ec2messages",
    "ecr.api",
    "ecr.dkr",
    "eks",
    "eks-auth",
    "lambda",
    "logs",
    "monitoring",
    "ssm",
    "ssmmessages",
    "sts",
)
"""Short names, of every stack. Nodes need ec2, ecr, eks and sts, Pod Identity eks-auth, agents and the
benchmark logs and monitoring, Session Manager ssm and the two messages services (EKS user guide, "Deploy
private clusters with limited internet access"; Systems Manager user guide, "VPC endpoints"); lambda is for
the CDK's framework, which calls its kubectl function from inside of the VPC."""

ZONES = 2
"""In which an endpoint has an interface: the control plane's."""


def endpoints_of(experiment: Experiment) -> tuple[str, ...]:
    """Interface endpoints that an experiment needs beside the gateway to S3."""
    token = experiment.serving.hf_token_secret is not None
    return (*ENDPOINTS, *(("secretsmanager",) if token else ()))
