"""What the pod is told, by environment variables and a file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from specdec.benchmark.meeting import ALONE, Share
from specdec.errors import BadInputError, Mistake

if TYPE_CHECKING:
    from specdec.experiment.fields import Experiment


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The pod's orders.

    Attributes:
        experiment: what to measure.
        services: base URL per variant.
        bucket: where the run goes.
        region: AWS region.
        stack: stack name, kept with the run.
        cluster: name of the EKS cluster.
        wait_seconds: how long the other services may take to get ready after the first.
        work: folder for runs and scratch files.
        llmperf_python: interpreter with LLMPerf's requirements, or None.
        run: id of the run; None makes one.
        resume: id of an interrupted run in the bucket to go on with, or None.
        share: which part of the requests this pod sends.
    """

    experiment: Experiment
    services: dict[str, str]
    bucket: str
    region: str
    stack: str
    cluster: str
    wait_seconds: float
    work: Path
    llmperf_python: Path | None
    run: str | None = None
    resume: str | None = None
    share: Share = ALONE

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Settings:
        """Reads ``EXPERIMENT`` (path of the resolved experiment as JSON), ``SERVICES`` (JSON), ``BUCKET``,
        ``AWS_REGION``, ``STACK``, ``CLUSTER``, ``WAIT_SECONDS``, ``WORK``, ``LLMPERF_PYTHON``, ``RUN`` and
        ``RESUME``. In an Indexed Job ``JOB_COMPLETION_INDEX``, which Kubernetes sets, ``SPECDEC_CLIENTS`` and
        ``SPECDEC_MEET``.

        Raises:
            BadInputError: one is missing or wrong; every mistake is in the message.
        """
        from pydantic import ValidationError

        from specdec.experiment.fields import Experiment

        names = ("EXPERIMENT", "SERVICES", "BUCKET", "AWS_REGION", "STACK", "CLUSTER", "WAIT_SECONDS")
        mistakes = [
            Mistake(name, None, "is not set", "Set it in the Job")
            for name in names
            if not environment.get(name)
        ]
        if mistakes:
            raise BadInputError("environment", mistakes)
        path = Path(environment["EXPERIMENT"])
        try:
            experiment = Experiment.model_validate_json(path.read_text(encoding="utf-8"))
        except (OSError, ValidationError) as error:
            mistakes.append(
                Mistake(
                    "EXPERIMENT",
                    str(path),
                    f"is not an experiment: {error}",
                    "Write Experiment.resolved() as JSON",
                )
            )
            raise BadInputError("environment", mistakes) from None
        services: dict[str, str] = json.loads(environment["SERVICES"])
        return cls(
            experiment=experiment,
            services=services,
            bucket=environment["BUCKET"],
            region=environment["AWS_REGION"],
            stack=environment["STACK"],
            cluster=environment["CLUSTER"],
            wait_seconds=float(environment["WAIT_SECONDS"]),
            work=Path(environment.get("WORK", "/work")),
            llmperf_python=Path(python) if (python := environment.get("LLMPERF_PYTHON")) else None,
            run=environment.get("RUN"),
            resume=environment.get("RESUME"),
            share=_share(environment),
        )


def _share(environment: Mapping[str, str]) -> Share:
    clients, index = (int(environment.get(name, value)) for name, value in _SHARED.items())
    meet = environment.get("SPECDEC_MEET")
    if clients > 1 and index == 0 and meet is not None:
        # The name leads to this very pod, which may not know it yet.
        meet = f"0.0.0.0:{meet.rpartition(':')[2]}"
    return Share(index, clients, meet)


_SHARED = {"SPECDEC_CLIENTS": "1", "JOB_COMPLETION_INDEX": "0"}
