"""What is sent and never kept, and what a user is told when nothing succeeds."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.hostile_command import Done, specdec
from scripts.hostile_server import Request, Server, answer, chunk, event, http, serving, streamed
from specdec.benchmark.endpoint import Endpoint
from specdec.benchmark.plan import Target
from specdec.benchmark.remedies import remedy
from specdec.benchmark.secrecy import Secrets
from specdec.text import without_secrets

KEY = 'sk-hunter2/"quoted"+key'


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as made:
        yield made


def bench(server: Server, folder: Path, *arguments: str, **variables: str) -> Done:
    (folder / "p.txt").write_text("one\ntwo\n")
    short = ("--repeats", "1", "--warmup", "0", "--output-tokens", "4", "--prompts", "p.txt")
    return specdec("bench", "--target", server.url, *short, *arguments, cwd=folder, **variables)


def stored(folder: Path) -> str:
    return "".join(path.read_text(errors="replace") for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    "place", ["text", "error", "http error", "model", "owner", "finish reason", "location"]
)
def test_a_key_that_a_server_repeats_is_kept_nowhere(place: str, server: Server, tmp_path: Path) -> None:
    def respond(request: Request) -> bytes:
        key = request.headers["authorization"].removeprefix("Bearer ")
        match place:
            case "text":
                return streamed(
                    [event(chunk(f"your {key[:9]}", 1)), event(chunk(f"{key[9:]} is", 4, finish="length"))]
                )
            case "error":
                return streamed([event({"error": {"message": f"bad key {key}"}})])
            case "http error":
                return http(json.dumps({"error": f"bad {key}"}).encode(), status="400 Bad")
            case "finish reason":
                return streamed([event(chunk("x", 4, finish=f"key {key}"))])
            case "location":
                return http(b"", status="301 Moved", more=f"Location: http://x/?key={key}\r\n")
            case _:
                return streamed(answer(request.body))

    model = {"id": KEY if place == "model" else "m", "owned_by": KEY if place == "owner" else "me"}
    server.models = http(json.dumps({"data": [model]}).encode())
    server.respond = respond
    done = bench(server, tmp_path, "--api-key-env", "MY_KEY", MY_KEY=KEY)
    again = specdec("report", cwd=tmp_path)
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    everything = done.stdout + done.stderr + again.stdout + again.stderr + stored(tmp_path)
    assert "Traceback" not in everything
    for form in (KEY, json.dumps(KEY)[1:-1], "hunter2"):
        assert form not in everything


@pytest.mark.parametrize("value", ["sk-abc123def", "hf_abc123def", ""])
def test_a_key_in_the_place_of_its_variables_name_is_not_printed(
    value: str, server: Server, tmp_path: Path
) -> None:
    done = bench(server, tmp_path, "--api-key-env", value or "UNSET_VARIABLE_9")
    assert done.returncode == 2
    assert "names no variable that is set" in done.stderr
    assert (value or "UNSET_VARIABLE_9") not in done.stderr


@pytest.mark.parametrize("key", ["ключ", "key\nX-Evil: 1", "密钥-12345", "a\x1b[2J", "\udcff\udcfe"])
def test_a_key_that_no_header_can_carry(key: str, server: Server, tmp_path: Path) -> None:
    done = bench(server, tmp_path, "--api-key-env", "MY_KEY", MY_KEY=key)
    assert (done.returncode, server.requests) == (2, [])
    assert "characters that no key has" in done.stderr
    assert key.encode(errors="replace") not in done.stderr.encode()


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("http://user:hunter2@127.0.0.1:1", 2),
        ("http://hunter2@127.0.0.1:1", 2),
        ("http://user:hunter2@127.0.0.1:99999", 2),
        # A query is sent. Nobody listens there.
        ("http://127.0.0.1:1/v1?key=hunter2", 4),
        ("http://127.0.0.1:1?hunter2", 4),
        ("ftp://u:hunter2@x", 2),
    ],
)
def test_a_secret_in_a_url_is_not_repeated(url: str, code: int, tmp_path: Path) -> None:
    done = specdec("bench", "--target", url, cwd=tmp_path)
    assert done.returncode == code
    assert "hunter2" not in done.stdout + done.stderr + stored(tmp_path)


def test_urls_as_they_are_shown() -> None:
    assert (
        without_secrets("https://a/v1?api-version=2024-06-01&code=x#y")
        == "https://a/v1?api-version=2024-06-01&code=***"
    )
    assert without_secrets("https://u:p@a:1/b") == "https://***@a:1/b"
    assert without_secrets("https://a:1/b@c") == "https://a:1/b@c"
    assert (
        Target(variant="a", url="http://h?k=secret", role="baseline").measured().get("url")
        == "http://h?k=***"
    )


def test_a_short_key_is_no_secret_and_spoils_no_text() -> None:
    assert Secrets(["Bearer EMPTY"]).hide("EMPTY words") == "EMPTY words"
    assert Secrets(["Bearer abcdef"]).hide("abcdefg Bearer abcdef") == "***g ***"


@pytest.mark.parametrize(
    ("url", "authority", "path"),
    [
        ("http://bücher.example:8000/v1", "xn--bcher-kva.example:8000", "/v1"),
        ("http://例え.テスト/modèle", "xn--r8jz45g.xn--zckzah", "/mod%C3%A8le/v1"),
        ("http://[::1]:8000/a b", "[::1]:8000", "/a%20b/v1"),
    ],
)
def test_hosts_and_paths_of_other_scripts(url: str, authority: str, path: str) -> None:
    endpoint = Endpoint.of(url)
    assert (endpoint.authority, endpoint.base) == (authority, path)


@pytest.mark.parametrize("name", ["", " ", "a\nb", "a\x1b[2Jb", "\u202eb", "x" * 300])
def test_a_name_that_breaks_a_table_is_refused(name: str, server: Server, tmp_path: Path) -> None:
    done = specdec("bench", "--target", f"{name}={server.url}", cwd=tmp_path)
    assert (done.returncode, server.requests) == (2, [])
    assert re.search("name of a target|not an http", done.stderr)
    assert all(line.isprintable() for line in done.stderr.split("\n"))


FAILING = {
    "--eos": streamed([event(chunk("x", 1, finish="stop"))]),
    "server's log": streamed([event({"error": {"message": "overloaded", "code": 503}})]),
    "--concurrency": http(b"{}", status="429 Slow"),
    "--api and --model": http(b"{}", status="404 Not Found"),
    "moved to https://b/v1": http(b"", status="308 Moved", more="Location: https://b/v1\r\n"),
    "OpenAI-compatible": http(b"<html>", kind="text/html"),
    "something in between": b"",
}


@pytest.mark.parametrize("words", FAILING)
def test_nothing_succeeded_is_a_failure_with_a_remedy(words: str, server: Server, tmp_path: Path) -> None:
    server.respond = lambda request: FAILING[words]
    done = bench(server, tmp_path, "--target", f"other={server.url}/other")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert words in done.stderr
    assert specdec("report", cwd=tmp_path).returncode == 1


def test_one_side_without_a_success_is_a_failure(server: Server, tmp_path: Path) -> None:
    server.respond = lambda request: (
        http(b"{}", status="500 Oops")
        if request.path.startswith("/other")
        else streamed(answer(request.body))
    )
    done = bench(server, tmp_path, "--target", f"other={server.url}/other")
    assert done.returncode == 1
    assert "error: other: no request succeeded: http-error: HTTP 500" in done.stderr
    assert "error: baseline" not in done.stderr
    assert specdec("report", cwd=tmp_path).returncode == 1


@pytest.mark.parametrize(
    ("status", "words"),
    [("401 No", "--api-key-env"), ("403 No", "another key"), ("301 Moved", "moved to http://b/")],
)
def test_the_first_question_tells_already(status: str, words: str, server: Server, tmp_path: Path) -> None:
    server.models = http(b"{}", status=status, more="Location: http://b/\r\n")
    done = bench(server, tmp_path)
    assert (done.returncode, server.requests) == (2, [])
    assert words in done.stderr


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("no connection to a: certificate verify failed: self-signed certificate", "--cacert"),
        ("certificate verify failed: Hostname mismatch, certificate is not valid for 'a'", "Use the name"),
        (
            "certificate verify failed: IP address mismatch, certificate is not valid for '::1'",
            "Use the name",
        ),
        ("certificate verify failed: certificate has expired", "expired"),
        ("certificate verify failed: certificate is not yet valid", "clocks"),
        ("[SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1006)", "http://"),
        ("no answer, and no TLS within 10 s", "write http://"),
        ("HTTP 400: The plain HTTP request was sent to HTTPS port", "write https://"),
        ("no connection to a: Connection refused", "Start it"),
        ("no connection to a: Name or service not known", "name of the host"),
    ],
)
def test_remedies_of_connections(error: str, words: str) -> None:
    assert words in remedy("refused", error)


def test_half_a_character_in_an_answer_ends_no_run(server: Server, tmp_path: Path) -> None:
    server.respond = lambda request: streamed(
        [
            event(b'{"choices":[{"delta":{"content":"a\\ud800"}}],"usage":{"completion_tokens":1}}'),
            event(chunk("b\ud83d", 4, finish="length")),
        ]
    )
    done = bench(server, tmp_path)
    assert done.returncode == 0, done.stderr
    (run,) = (tmp_path / "runs").iterdir()
    assert {json.loads(line)["text"] for line in (run / "records.jsonl").read_text().splitlines()} == {
        "a\ufffdb\ufffd"
    }
    assert specdec("report", cwd=tmp_path).returncode == 0
