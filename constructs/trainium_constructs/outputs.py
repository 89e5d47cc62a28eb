"""What a person needs after the deployment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aws_cdk as cdk
from constructs import Construct

if TYPE_CHECKING:
    from collections.abc import Mapping


class Outputs(Construct):
    """Stack outputs under short names, most of them commands to copy."""

    def __init__(self, scope: Construct, construct_id: str, *, values: Mapping[str, tuple[str, str]]) -> None:
        super().__init__(scope, construct_id)
        for name, (value, description) in values.items():
            cdk.CfnOutput(self, name, value=value, description=description).override_logical_id(name)
