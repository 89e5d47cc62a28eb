"""Options for servers that want a key, another header, or something else in a request."""

from __future__ import annotations

import json
import os
import re
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import urlsplit

import click

from specdec import console
from specdec.errors import BadInputError, Mistake
from specdec.runs.place import HERE

if TYPE_CHECKING:
    from specdec.benchmark.plan import Target

_Command = TypeVar("_Command", bound=Callable[..., Any])

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VARIABLE = re.compile(r"[A-Z]+(_[A-Z]+)+")
"""A name as variables have it, and no key."""

_FRAMING = ("host", "content-length", "transfer-encoding", "connection", "accept-encoding", "expect")
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


@dataclass(frozen=True, slots=True)
class Access:
    """How a server lets a client in.

    Attributes:
        headers: of every request.
        tls: which certificates are trusted.
    """

    headers: Mapping[str, str]
    tls: ssl.SSLContext


def access_options(command: _Command) -> _Command:
    """Adds the options for what a server wants before it answers; see ``access``."""
    for option in reversed(
        (
            click.option(
                "--api-key-env", metavar="NAME", help="Environment variable that holds the API key."
            ),
            click.option(
                "--api-key-header",
                metavar="NAME",
                help="Header that the key is sent in, as it is.  [default: Authorization: Bearer]",
            ),
            click.option(
                "--header",
                "headers",
                multiple=True,
                metavar="'NAME: VALUE'",
                help="Header of every request; may be given again. Values are not stored.",
            ),
            click.option(
                "--cacert",
                type=click.Path(path_type=Path),
                help="PEM file of an authority whose certificates are trusted too.",
            ),
            click.option("--insecure", is_flag=True, help="Trust any certificate."),
        )
    ):
        command = option(command)
    return command


def request_options(command: _Command) -> _Command:
    """Adds the options for what a server wants before it answers, and in a request."""
    option = click.option(
        "--extra-body",
        metavar="JSON",
        help="JSON object of fields to add to every request, or to replace.",
    )
    return access_options(option(command))


def access(given: Mapping[str, Any]) -> Access:
    """What ``access_options`` ask for.

    Raises:
        BadInputError: a header or key that cannot be sent, or a file without a certificate.
    """
    from specdec.benchmark.endpoint import tls_context

    mistakes: list[Mistake] = []
    headers = _headers(given, mistakes)
    if mistakes:
        raise BadInputError("command line", mistakes)
    return Access(headers, tls_context(given["cacert"], insecure=given["insecure"]))


def changes(given: dict[str, Any], targets: Sequence[Target]) -> dict[str, Any]:
    """What the options change in a plan. Says where a proxy of the environment is ignored.

    Raises:
        BadInputError: a header, key or body that cannot be sent; every mistake is in the message.
    """
    mistakes: list[Mistake] = []
    headers = _headers(given, mistakes)
    body = _body(given["extra_body"], mistakes)
    if mistakes:
        raise BadInputError("command line", mistakes)
    _say_of_proxies(targets)
    return {
        "headers": headers,
        "extra_body": body,
        "authorities": given["cacert"],
        "insecure": given["insecure"],
    }


def _headers(given: Mapping[str, Any], mistakes: list[Mistake]) -> dict[str, str]:
    headers = _key(given["api_key_env"], given["api_key_header"], mistakes)
    for text in given["headers"]:
        name, colon, value = str(text).partition(":")
        problem = _problem(name.strip(), value.strip()) if colon else "has no colon"
        if problem:
            # The value may be a secret.
            mistakes.append(Mistake("--header", name.strip()[:60], problem, "Write 'NAME: VALUE'"))
        else:
            headers[name.strip()] = value.strip()
    return headers


def _problem(name: str, value: str) -> str | None:
    if not _NAME.fullmatch(name):
        return "is not the name of a header"
    if name.lower() in _FRAMING:
        return "is set by the client itself"
    try:
        value.encode("latin-1")
    except UnicodeEncodeError:
        return "has a value with characters that no header can hold"
    return None if value.isprintable() else "has a value with line breaks or control characters"


def _key(variable: str | None, header: str | None, mistakes: list[Mistake]) -> dict[str, str]:
    if header is not None and (not _NAME.fullmatch(header) or variable is None):
        problem = "is not the name of a header" if variable else "has no key to send"
        mistakes.append(Mistake("--api-key-header", header[:60], problem, "Give it with --api-key-env NAME"))
        return {}
    if variable is None:
        return {}
    key = os.environ.get(variable, "").strip()
    # It may be the key itself, given by mistake.
    shown = variable if _VARIABLE.fullmatch(variable) else "(not shown)"
    if not key:
        problem, remedy = "names no variable that is set", "Set it first, and give its name, not the key"
    elif not key.isascii() or not key.isprintable():
        problem, remedy = "names a variable with characters that no key has", "Set it to the key alone"
    else:
        return {header: key} if header else {"Authorization": f"Bearer {key}"}
    mistakes.append(Mistake("--api-key-env", shown, problem, remedy))
    return {}


def _body(text: str | None, mistakes: list[Mistake]) -> dict[str, Any]:
    if text is None:
        return {}
    try:
        parsed: Any = json.loads(text)
        json.dumps(parsed, allow_nan=False)
    except (ValueError, RecursionError):
        parsed = None
    if isinstance(parsed, dict):
        return cast("dict[str, Any]", parsed)
    remedy = """Write an object: --extra-body '{"top_k": 1}'"""
    mistakes.append(Mistake("--extra-body", text[:60], "is not a JSON object", remedy))
    return {}


def _say_of_proxies(targets: Sequence[Target]) -> None:
    named = [name for name in _PROXIES if os.environ.get(name) or os.environ.get(name.lower())]
    if named and any(urlsplit(target.url).hostname not in HERE for target in targets):
        console.say(f"{', '.join(named)} is ignored: the time a proxy takes would be counted as the server's")
