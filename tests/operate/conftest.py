from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import boto3
import pytest
from botocore.config import Config
from botocore.stub import Stubber

from specdec.deployed.clients import Clients
from specdec.experiment.fields import Experiment
from specdec.experiment.reading import load, parse
from specdec.preflight.finding import Scope
from specdec.pricing.workload import Workload
from tests.operate.models import models_read_once

DEFAULT = Path(__file__).parents[2] / "experiment.toml"
REGION = "us-east-2"
ACCOUNT = "111122223333"
TODAY = datetime.date(2026, 12, 1)
WORKLOAD = Workload(prompts=42, test_cases=8, llmperf_cases=6)


@pytest.fixture(scope="session", autouse=True)
def service_models_read_once() -> Iterator[None]:
    with models_read_once():
        yield


class StubbedAws:
    """boto3 clients whose answers are given in advance. Arguments and answers are validated against AWS's own
    service models.
    """

    def __init__(self) -> None:
        self._session = boto3.Session(aws_access_key_id="x", aws_secret_access_key="x", region_name=REGION)
        self._stubs: dict[str, Stubber] = {}
        self._clients: dict[str, Any] = {}
        self.clients = Clients(self, REGION)

    def client(self, service: str, *, region_name: str, config: Config) -> Any:
        return self._of(service)

    def _of(self, service: str) -> Any:
        if service not in self._clients:
            make = cast("Callable[..., Any]", self._session.client)
            self._clients[service] = make(service)
            self._stubs[service] = Stubber(self._clients[service])
            self._stubs[service].activate()
        return self._clients[service]

    def answers(self, service: str, operation: str, answer: dict[str, Any]) -> None:
        self._of(service)
        self._stubs[service].add_response(operation, answer)

    def fails(self, service: str, operation: str, code: str, message: str = "", status: int = 400) -> None:
        self._of(service)
        self._stubs[service].add_client_error(operation, code, message, http_status_code=status)

    def assert_used(self) -> None:
        for stub in self._stubs.values():
            stub.assert_no_pending_responses()


@pytest.fixture
def aws() -> Iterator[StubbedAws]:
    stubbed = StubbedAws()
    yield stubbed
    stubbed.assert_used()


def experiment_with(*edits: tuple[str, str]) -> Experiment:
    text = DEFAULT.read_text(encoding="utf-8")
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    return parse(text)


def scope_of(
    aws: StubbedAws, experiment: Experiment | None = None, caller: str = f"arn:aws:iam::{ACCOUNT}:user/eng"
) -> Scope:
    return Scope(experiment or load(DEFAULT), REGION, aws.clients, ACCOUNT, caller, WORKLOAD, TODAY)


def moment(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.UTC)
