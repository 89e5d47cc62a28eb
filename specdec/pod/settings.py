"""What the pod is told, by environment variables and a file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
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
        deployments: name of each variant's Deployment, where one is served after the other; else empty.
        leave_seconds: after which a server that was scaled down is gone.
        poll_seconds: between two looks at a server that starts or ends.
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
    deployments: dict[str, str] = field(default_factory=dict[str, str])
    leave_seconds: float = 0.0
    poll_seconds: float = 5.0

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Settings:
        """Reads ``EXPERIMENT`` (path of the resolved experiment as JSON), ``SERVICES`` (JSON), ``BUCKET``,
        ``AWS_REGION``, ``STACK``, ``CLUSTER``, ``WAIT_SECONDS``, ``WORK``, ``LLMPERF_PYTHON``, ``RUN``,
        ``RESUME``, ``DEPLOYMENTS`` (JSON) and ``LEAVE_SECONDS``. In an Indexed Job
        ``JOB_COMPLETION_INDEX``, which Kubernetes sets, ``SPECDEC_CLIENTS`` and ``SPECDEC_MEET``.

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
            deployments=json.loads(environment.get("DEPLOYMENTS", "{}")),
            leave_seconds=float(environment.get("LEAVE_SECONDS", "0")),
        )


def _share(environment: Mapping[str, str]) -> Share:
    clients, index = (int(environment.get(name, value)) for name, value in _SHARED.items())
    meet = environment.get("SPECDEC_MEET")
    if clients > 1 and index == 0 and meet is not None:
        # The name leads to this very pod, which may not know it yet.
        meet = f"0.0.0.0:{meet.rpartition(':')[2]}"
    return Share(index, clients, meet)


_SHARED = {"SPECDEC_CLIENTS": "1", "JOB_COMPLETION_INDEX": "0"}
