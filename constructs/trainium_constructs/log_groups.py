"""Makes the stack the owner of every log group that something in it writes to."""

from __future__ import annotations

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


def own_function_logs(scope: Construct, *, days: int) -> None:
    """Gives every function below ``scope`` a log group that is made before it and ends after it.

    The functions are the CDK's own. By itself Lambda makes a group with the first line, without retention and
    outside the stack. The group the CDK would make depends on its function, so it can go while the function
    still has deletions to log, and come back unowned.
    """
    for construct in scope.node.find_all():
        if isinstance(construct, cdk.CfnResource) and construct.cfn_resource_type == "AWS::Lambda::Function":
            group = logs.CfnLogGroup(construct, "Logs", retention_in_days=days)
            group.apply_removal_policy(cdk.RemovalPolicy.DESTROY)
            construct.add_property_override("LoggingConfig", {"LogGroup": group.ref})
