"""Who asks an account about an experiment file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specdec.errors import NoAccessError

if TYPE_CHECKING:
    from pathlib import Path

    from specdec.deployed.clients import Clients


def caller_of(clients: Clients, experiment_path: Path, *, without: str | None = None) -> tuple[str, str]:
    """Account number and ARN of the caller, after the experiment file was read.

    Args:
        clients: of one region of the experiment.
        experiment_path: the file that was read and found good; a refusal says so.
        without: what can be done without an account.

    Raises:
        NoAccessError: no usable credentials.
        EnvironmentFault: AWS cannot be reached.
    """
    from specdec.deployed.clients import who

    try:
        return who(clients)
    except NoAccessError as error:
        error.args = (f"{error}; {experiment_path} is in order, the account was not asked",)
        error.remedy = "; ".join(filter(None, (error.remedy, without))) or None
        raise
