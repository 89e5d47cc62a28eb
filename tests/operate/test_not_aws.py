"""Something else than AWS answers: a proxy, the sign-in page of a network, a wrong endpoint."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest
from botocore.config import Config

from specdec import aws
from specdec.errors import BadInputError, EnvironmentFault
from tests.web import Quiet, running


@contextmanager
def answering(status: int, kind: str, body: bytes) -> Generator[str]:
    class Handler(Quiet):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            self.reply(status, body, kind)

        def do_POST(self) -> None:
            self.do_GET()

    with running(Handler) as url:
        yield url


QUESTIONS: dict[str, tuple[str, dict[str, str]]] = {
    "sts": ("get_caller_identity", {}),
    "cloudformation": ("describe_stacks", {"StackName": "x"}),
    "ec2": ("describe_vpcs", {}),
    "s3": ("list_objects_v2", {"Bucket": "some-bucket"}),
    "eks": ("list_clusters", {}),
}


@pytest.mark.parametrize("service", QUESTIONS)
@pytest.mark.parametrize(
    ("status", "kind", "body"),
    [
        (200, "text/html", b"<html>Sign in</html>"),
        (200, "text/plain", b"  <!DOCTYPE html><p>Sign in"),
        (200, "text/xml", b"<a/>"),
        (200, "text/plain", b""),
        (404, "text/html", b"<html>nginx</html>"),
        (403, "text/html", b"<html>Forbidden</html>"),
        (502, "text/html", b"<html>Bad gateway</html>"),
    ],
)
def test_what_is_not_aws_is_never_an_answer(
    service: str, status: int, kind: str, body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    if service == "eks" and body in (b"", b"<a/>"):
        # JSON without content is an answer of that service; it is asked only after others have answered.
        return
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    with answering(status, kind, body) as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        once = Config(retries={"total_max_attempts": 1})
        session: Any = aws.session()
        client = session.client(service, region_name="us-east-2", config=once)
        question, arguments = QUESTIONS[service]
        with pytest.raises(EnvironmentFault) as caught, aws.doing("ask"):
            getattr(client, question)(**arguments)
    assert caught.value.exit_code == 4
    assert "AWS" in str(caught.value)


@pytest.mark.parametrize(
    "url", ["localhost:4566", "http://", "http://[::1", "http://a:99999", "ftp://a", "nonsense", "http://a:0"]
)
@pytest.mark.parametrize("name", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"])
def test_a_malformed_endpoint_is_wrong_input(name: str, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, url)
    with pytest.raises(BadInputError, match=name):
        aws.session()


def test_a_password_in_an_endpoint_is_not_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://user:hunter2@host:99999")
    with pytest.raises(BadInputError) as caught:
        aws.session()
    assert "hunter2" not in str(caught.value)
