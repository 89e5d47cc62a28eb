"""Remedies for requests that failed, by how they failed."""

from __future__ import annotations

import re

_BY_STATUS = {
    301: "It has moved: use the URL that it names",
    302: "It has moved: use the URL that it names",
    303: "It has moved: use the URL that it names",
    307: "It has moved: use the URL that it names",
    308: "It has moved: use the URL that it names",
    400: "It refuses the request: read its message, and try --plain-template, --eos and --api",
    401: (
        "It needs a key, or refuses this one: --api-key-env names the variable that holds it,"
        " --api-key-header the header it is sent in"
    ),
    403: "The key is valid but not allowed to do this: use another key or another model",
    404: "It has no such route or model: check the path of the URL, --api and --model",
    405: "This is not a chat or completions route: check the path of the URL",
    407: "A proxy asks for a password: measure from a machine without a proxy in between",
    408: "It gave up waiting: lower --concurrency",
    413: "The prompt is too long for it: use shorter prompts",
    422: "It refuses a field of the request: read its message, and try --plain-template and --eos",
    429: "It limits the rate: lower --concurrency, or --rate",
    502: "The proxy in front cannot reach the server: start the server, or address it directly",
    503: "It is overloaded or not ready: wait, or lower --concurrency",
    504: "The proxy in front gave up waiting: address the server directly",
}
_BY_OUTCOME = {
    "early-eos": "Answers end early: let them, with --eos",
    "refused": "Start it, or correct the URL",
    "timeout": "Raise --stall-seconds or --request-seconds, or lower --concurrency",
    "stream-error": "See the server's log",
    "cut": "See the server's log; something in between may cut long answers",
    "bad-response": "Check that the URL is that of an OpenAI-compatible server",
}
_BY_WORDS = (
    (
        r"(hostname|IP address) mismatch|doesn't match",
        "Use the name that its certificate is for",
    ),
    (r"certificate has expired", "Its certificate has expired: renew it"),
    (r"certificate is not yet valid", "Its certificate is not valid yet: check the clocks of both machines"),
    (
        r"certificate|self.signed",
        "Its certificate is not trusted here: name the file of its authority with --cacert ca.pem",
    ),
    (r"HTTPS port|client sent an HTTP request", "It uses TLS: write https://"),
    (r"wrong version number|record layer failure|http request", "It does not use TLS: write http://"),
    (r"no answer, and no TLS", "Start it, correct the URL, or write http:// if it does not use TLS"),
    (r"Name or service not known|nodename|name resolution|No address", "Correct the name of the host"),
    (
        r"ignore_eos|continuous_usage_stats|chat_template_kwargs",
        "It refuses a field: --plain-template, --eos",
    ),
)


def remedy(outcome: str, error: str) -> str:
    """What to do about requests that ended so.

    Args:
        outcome: of the record.
        error: of the record.
    """
    for pattern, words in _BY_WORDS:
        if re.search(pattern, error, re.IGNORECASE):
            return words
    status = re.match(r"HTTP (\d{3})", error)
    if status:
        code = int(status[1])
        return _BY_STATUS.get(code, "See the server's log" if code >= 500 else "Read the server's message")
    return _BY_OUTCOME.get(outcome, "See the server's log")
