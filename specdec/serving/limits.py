"""How long a server may take until it is ready. Every limit on a start follows from these."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from specdec.experiment.fields import Experiment

STAGING_SECONDS = 2 * 3600
"""How long a server waits for its models before it gives up and is restarted."""

PULLING_SECONDS = 1800
"""Room for pulling the server's image. Assumed: nobody has published a time for its tens of GB."""


def start_seconds(experiment: Experiment) -> int:
    """Longest start of one server that may still succeed, in seconds: the models arrive, the image is pulled,
    and the server compiles. Nothing may call a server failed before, while its node is paid.
    """
    return STAGING_SECONDS + PULLING_SECONDS + experiment.serving.startup_minutes * 60


MEASURING_SECONDS = 3600
"""Room for the measuring itself, which takes minutes to half an hour for the published experiment."""


def run_seconds(experiment: Experiment) -> int:
    """How long a first run may take from the start of the nodes on, in seconds: the longest start that may
    still succeed, once or, where variants are served one after the other, for each of them, and the
    measuring.
    """
    once = start_seconds(experiment)
    further = (len(experiment.variants) - 1) * (once - STAGING_SECONDS) if experiment.sequential else 0
    return once + further + MEASURING_SECONDS
