"""Makes the stack the owner of every log group that something in it writes to."""

from __future__ import annotations

from typing import cast

import aws_cdk as cdk
from aws_cdk import aws_logs as logs
from constructs import Construct

_RETENTION = {
    1: logs.RetentionDays.ONE_DAY,
    3: logs.RetentionDays.THREE_DAYS,
    5: logs.RetentionDays.FIVE_DAYS,
    7: logs.RetentionDays.ONE_WEEK,
    14: logs.RetentionDays.TWO_WEEKS,
    30: logs.RetentionDays.ONE_MONTH,
    60: logs.RetentionDays.TWO_MONTHS,
    90: logs.RetentionDays.THREE_MONTHS,
    180: logs.RetentionDays.SIX_MONTHS,
    365: logs.RetentionDays.ONE_YEAR,
}


def retention_days(days: int) -> logs.RetentionDays:
    """The retention of a log group. CloudWatch knows only certain numbers of days."""
    return _RETENTION[days]


def own_log_groups(scope: Construct, *, days: int) -> None:
    """Ends every log group below ``scope`` with the stack, those of the CDK's own functions too.

    The CDK would keep the groups of its functions for two years, beyond the stack. For the functions of its small custom resources it makes
    none, so that Lambda would make one by itself, to be kept for ever.
    """
    for construct in scope.node.find_all():
        if isinstance(construct, logs.CfnLogGroup):
            construct.retention_in_days = days
            construct.apply_removal_policy(cdk.RemovalPolicy.DESTROY)
        elif isinstance(construct, cdk.CustomResourceProviderBase):
            _log_group_of_provider(construct, days=days)


def _log_group_of_provider(provider: cdk.CustomResourceProviderBase, *, days: int) -> None:
    function = cast("cdk.CfnResource", provider.node.find_child("Handler"))
    group = logs.CfnLogGroup(provider, "Logs", retention_in_days=days)
    group.apply_removal_policy(cdk.RemovalPolicy.DESTROY)
    function.add_property_override("LoggingConfig", {"LogGroup": group.ref})
