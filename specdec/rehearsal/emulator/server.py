"""The emulator's process: ministack on an inherited socket, with the resource types in ``resources`` added.

Started by ``EmbeddedAws``; ends when the pipe on its standard input closes, so it cannot outlive who started
it. All uses of names that ministack does not publish are in this module; they fit ministack 1.5.33, and each
says what that release lacks.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import os
import secrets
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from specdec.rehearsal.emulator.completions import configure_bucket, put_math_alarm, refuse_full_bucket
from specdec.rehearsal.emulator.resources import TYPES, Clients, Properties, ResourceType

CUSTOM_RESOURCE_SECONDS = "120"
"""How long a custom resource may take. CloudFormation waits an hour; a rehearsal in which nothing is far away
need not.
"""


Answer = tuple[int, dict[str, str], bytes]
"""Status, headers and body."""


@dataclass(frozen=True, slots=True)
class Request:
    """A call as it comes over the wire.

    Attributes:
        method, path, query, headers, body: of the HTTP request; header names in lower case.
    """

    method: str
    path: str
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]
    body: bytes

    @property
    def service(self) -> str:
        """The service that the request was signed for; empty if it was not signed."""
        scope = self.headers.get("authorization", "").partition("Credential=")[2].split(",")[0].split("/")
        return scope[3] if len(scope) == 5 else ""


@cache
def _client(service: str, account: str, region: str) -> Any:
    import boto3
    from botocore.config import Config

    make: Any = boto3.client  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    client = make(
        service,
        region_name=region,
        endpoint_url=f"http://127.0.0.1:{os.environ['GATEWAY_PORT']}",
        aws_access_key_id=account,  # the emulator takes a 12-digit key as the account
        aws_secret_access_key="test",  # noqa: S106
        # A creation is not repeated: it would meet what the first try has made.
        config=Config(proxies={}, retries={"total_max_attempts": 1}, connect_timeout=5, read_timeout=30),
    )

    def close_afterwards(request: Any, **_: Any) -> None:
        # A connection that is kept may be closed for idleness just as the next stack wants it.
        request.headers["Connection"] = "close"

    client.meta.events.register("before-send", close_afterwards)
    return client


def _stack_clients() -> Clients:
    """Clients for the account and region that the emulator is working for in this thread."""
    responses: Any = importlib.import_module("ministack.core.responses")
    account: str = responses.get_account_id()
    region: str = responses.get_region()

    def clients(service: str) -> Any:
        return _client(service, account, region)

    return clients


def _adapt(kind: ResourceType) -> dict[str, Callable[..., Any]]:
    """A resource type in the shape of ministack's table of handlers."""

    def create(logical_id: str, properties: Properties, stack: str) -> tuple[str, dict[str, str]]:
        made = kind.create(_stack_clients(), properties)
        return made.physical_id, made.attributes

    def delete(physical_id: str, properties: Properties) -> None:
        kind.delete(_stack_clients(), physical_id, properties)

    def update(physical_id: str, old: Properties, new: Properties, stack: str) -> tuple[str, dict[str, str]]:
        # A new physical id makes ministack delete the predecessor in its cleanup phase.
        clients = _stack_clients()
        made = kind.update(clients, physical_id, old, new) if kind.update else kind.create(clients, new)
        return made.physical_id, made.attributes

    return {"create": create, "delete": delete, "update": update}


def _wrap_bucket(table: dict[str, Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
    def create(logical_id: str, properties: Properties, stack: str) -> Any:
        made: Any = table["create"](logical_id, properties, stack)
        configure_bucket(_stack_clients(), made[0], properties)
        return made

    def update(physical_id: str, old: Properties, new: Properties, stack: str) -> Any:
        made: Any = table["update"](physical_id, old, new, stack)
        configure_bucket(_stack_clients(), made[0], new)
        return made

    def delete(physical_id: str, properties: Properties) -> Any:
        refuse_full_bucket(_stack_clients(), physical_id)
        return table["delete"](physical_id, properties)

    return {**table, "create": create, "update": update, "delete": delete}


def _wrap_alarm(table: dict[str, Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
    def put(properties: Properties) -> tuple[str, dict[str, str]]:
        made = put_math_alarm(_stack_clients(), properties)
        return made.physical_id, made.attributes

    def create(logical_id: str, properties: Properties, stack: str) -> Any:
        if not properties.get("Metrics"):
            return table["create"](logical_id, properties, stack)
        # As CloudFormation names what a template does not name.
        name = properties.get("AlarmName") or f"{stack}-{logical_id}-{secrets.token_hex(6).upper()}"
        return put({**properties, "AlarmName": name})

    def update(physical_id: str, old: Properties, new: Properties, stack: str, logical_id: str) -> Any:
        if not new.get("Metrics"):
            return table["update"](physical_id, old, new, stack, logical_id)
        # PutMetricAlarm replaces what has the name.
        return put({**new, "AlarmName": new.get("AlarmName") or physical_id})

    return {**table, "create": create, "update": update}


def extend() -> None:
    """Adds the resource types that ministack has no handler for, and bounds its wait for custom resources.

    Raises:
        AttributeError, KeyError: this ministack is not the pinned one.
    """
    provisioners: Any = importlib.import_module("ministack.services.cloudformation.provisioners")
    stacks: Any = importlib.import_module("ministack.services.cloudformation.stacks")
    custom: Any = importlib.import_module("ministack.services.cloudformation.custom_resource")
    functions: Any = importlib.import_module("ministack.services.lambda_svc")

    handlers: dict[str, dict[str, Callable[..., Any]]] = provisioners._RESOURCE_HANDLERS
    for name, kind in TYPES.items():
        handlers.setdefault(name, _adapt(kind))
    # Its bucket takes no encryption, lifecycle and access block, and goes although it is full.
    handlers["AWS::S3::Bucket"] = _wrap_bucket(handlers["AWS::S3::Bucket"])

    # It drops alarms over metric math.
    handlers["AWS::CloudWatch::Alarm"] = _wrap_alarm(handlers["AWS::CloudWatch::Alarm"])

    # Our handlers call the emulator back, so they must not hold its event loop.
    blocking: Callable[[str], bool] = stacks._runs_on_worker_thread

    def blocks(kind: str) -> bool:
        return kind in TYPES or kind in ("AWS::S3::Bucket", "AWS::CloudWatch::Alarm") or blocking(kind)

    stacks._runs_on_worker_thread = blocks

    # It waits an hour for a custom resource, as CloudFormation does.
    invoke: Callable[..., Any] = custom.invoke_custom_resource

    def bounded(request: str, logical_id: str, properties: Properties, *args: Any, **named: Any) -> Any:
        return invoke(
            request, logical_id, {"ServiceTimeout": CUSTOM_RESOURCE_SECONDS, **properties}, *args, **named
        )

    custom.invoke_custom_resource = bounded

    # A function that cannot even start never answers; AWS would let the stack wait for its timeout.
    execute: Callable[..., dict[str, Any]] = functions._execute_function_with_config_scope

    def answering(function: dict[str, Any], event: Any) -> dict[str, Any]:
        result = execute(function, event)
        if result.get("error") and isinstance(event, dict) and "ResponseURL" in event:
            token = str(event["ResponseURL"]).rsplit("/", 1)[-1]  # pyright: ignore[reportUnknownArgumentType]
            custom.deliver_response(
                token, {"Status": "FAILED", "Reason": f"the function failed: {result.get('body')}"}
            )
        return result

    functions._execute_function_with_config_scope = answering

    _complete_searches()


def _complete_searches() -> None:
    """Makes the emulator find resources by description and tag, as the search for leftovers asks."""
    compute: Any = importlib.import_module("ministack.services.ec2")
    tagging: Any = importlib.import_module("ministack.services.tagging")

    # EC2 calls the type of a flow log by another name than the emulator.
    guess: Callable[[str], str] = compute._guess_resource_type

    def kind(resource: str) -> str:
        return "vpc-flow-log" if resource.startswith("fl-") else guess(resource)

    compute._guess_resource_type = kind

    # The emulator would answer with all interfaces, whatever is asked for.
    def interfaces(parameters: Any) -> Any:
        filters: dict[str, list[str]] = compute._parse_filters(parameters)
        ids: list[str] = compute._parse_member_list(parameters, "NetworkInterfaceId")
        fields = "".join(
            compute._eni_fields_xml(interface)
            for number, interface in compute._network_interfaces.items()
            if (not ids or number in ids)
            and compute._resource_matches_tag_filters(number, filters)
            and any(
                compute._glob_match(pattern, interface["Description"])
                for pattern in filters.get("description", ["*"])
            )
        )
        return compute._xml(
            200, "DescribeNetworkInterfacesResponse", f"<networkInterfaceSet>{fields}</networkInterfaceSet>"
        )

    compute._ACTION_MAP["DescribeNetworkInterfaces"] = interfaces

    # The tagging service knows parameters, and the emulator leaves them out.
    tagging._COLLECTORS.setdefault("ssm", tagging._collect_ssm)


def answer_first(module: str, folder: Path) -> None:
    """Asks a module about each call before ministack, for calls that ministack does not know.

    Args:
        module: name of a module with ``answer(request, region, folder) -> Answer | None``; None
            leaves the call to ministack.
        folder: the account's own, handed on.

    Raises:
        AttributeError: this ministack is not the pinned one.
    """
    application: Any = importlib.import_module("ministack.app")
    responses: Any = importlib.import_module("ministack.core.responses")
    answer: Callable[[Request, str, Path], Answer | None] = importlib.import_module(module).answer
    dispatch: Callable[..., Any] = application._dispatch_service_request

    async def answering(
        method: str, path: str, headers: dict[str, str], body: bytes, query: dict[str, list[str]], number: str
    ) -> Answer:
        own = answer(Request(method, path, query, headers, body), responses.get_region(), folder)
        return own or await dispatch(method, path, headers, body, query, number)

    application._dispatch_service_request = answering


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    # The whole group: the functions' worker processes are in it.
    os.killpg(os.getpgrp(), signal.SIGKILL)


def main() -> None:
    """Serves until killed or until standard input closes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--fd", type=int, required=True, help="listening socket, inherited")
    parser.add_argument("--answers", help="module that is asked about each call first")
    parser.add_argument("--folder", type=Path, required=True, help="the account's own folder")
    parser.add_argument("--outlive", action="store_true", help="go on when standard input closes")
    options = parser.parse_args()
    if not options.outlive:
        threading.Thread(target=_end_with_parent, daemon=True).start()

    from hypercorn.config import Config

    # Through importlib: both packages are untyped, and neither is installed where the rehearsal's packages
    # are not.
    serve: Any = importlib.import_module("hypercorn.asyncio").serve
    application: Any = importlib.import_module("ministack.app").app
    extend()
    if options.answers:
        answer_first(options.answers, options.folder)
    config = Config()
    config.bind = [f"fd://{options.fd}"]
    config.keep_alive_timeout = 75
    config.loglevel = os.environ.get("LOG_LEVEL", "WARNING")
    asyncio.run(serve(application, config))


if __name__ == "__main__":
    main()
