"""A run while it goes on: what is served of it, and the half line in the terminal."""

from __future__ import annotations

import http.client
import time
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from scripts.browser import Browser, find
from specdec.benchmark.standing import Standing
from specdec.cli import cli
from specdec.errors import EXIT_FAILED, BadInputError, EnvironmentFault
from specdec.report.watch import serving
from specdec.runs.record import RequestRecord
from specdec.runs.unfinished import read_unfinished
from tests.report.sample import CASES, RUN, records, write_run

LINES = records(cases=CASES[:2], tokens=30, repeats=2)


def _begin(folder: Path, lines: list[RequestRecord]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "records.jsonl").open("a", encoding="utf-8") as file:
        file.writelines(line.to_json() + "\n" for line in lines)
    return folder


def _get(address: str, path: str = "/", **headers: str) -> tuple[int, dict[str, str], str]:
    connection = http.client.HTTPConnection(address.removeprefix("http://").rstrip("/"), timeout=20)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()
    finally:
        connection.close()


def test_page_follows_the_records_until_the_verdict(tmp_path: Path) -> None:
    folder = tmp_path / RUN
    folder.mkdir()
    with serving(folder) as address:
        assert address.startswith("http://127.0.0.1:")
        status, headers, body = _get(address)
        assert (status, headers["Refresh"]) == (200, "2")
        assert "No request has ended yet." in body
        _begin(folder, LINES[:8])
        with (folder / "records.jsonl").open("a") as file:
            file.write('{"run": "cut sho')
        body = _get(address)[2]
        assert "Measuring: 8 requests so far, no verdict" in body
        assert "helps" not in body
        (folder / "records.jsonl").unlink()
        write_run(folder, LINES)
        status, headers, body = _get(address)
        assert "Refresh" not in headers
        assert "<h1>Use speculation: it is faster on all 2 test cases.</h1>" in body


def test_only_ones_own_browser_is_answered(tmp_path: Path) -> None:
    with serving(_begin(tmp_path / RUN, LINES)) as address:
        assert _get(address, Host="attacker.example:80")[0] == 403
        assert _get(address, path="/../records.jsonl")[0] == 404
        headers = _get(address)[1]
        assert headers["Content-Security-Policy"].startswith("default-src 'none'")
        assert headers["Cache-Control"] == "no-store"
        port = int(address.rstrip("/").rpartition(":")[2])
        with pytest.raises(EnvironmentFault, match=f"Port {port}"), serving(tmp_path, port):
            pass


@pytest.fixture
def browser(tmp_path: Path) -> Generator[Browser]:
    program = find()
    if program is None:
        pytest.skip("NO BROWSER: the watched page was not looked at. Install chromium")
    with Browser(program, tmp_path / "profile") as opened:
        yield opened


@pytest.mark.slow
def test_a_browser_sees_the_run_grow_by_itself(browser: Browser, tmp_path: Path) -> None:
    folder = _begin(tmp_path / RUN, LINES[:4])
    with serving(folder) as address:
        browser.show(address, width=1000)
        assert "4 requests so far" in browser.ask("document.querySelector('h1').textContent")
        _begin(folder, LINES[4:10])
        heading = "document.querySelector('h1') && document.querySelector('h1').textContent"
        deadline = time.monotonic() + 30
        while "10 requests so far" not in (browser.ask(heading) or ""):
            assert time.monotonic() < deadline, browser.ask(heading)
            time.sleep(0.2)


def test_killed_run_is_reported_without_a_verdict(tmp_path: Path) -> None:
    folder = _begin(tmp_path / "runs" / RUN, LINES)
    arguments = ["report", "--runs", str(tmp_path / "runs"), "--unfinished"]
    result = CliRunner().invoke(cli, arguments, standalone_mode=False)
    assert result.return_value == EXIT_FAILED
    assert "This run is not finished" in result.stdout
    text = (folder / "report.md").read_text(encoding="utf-8")
    assert "it has no manifest.json, so it was killed or is still going on" in text
    run = read_unfinished(folder)
    assert [variant.get("role") for variant in run.manifest.variants.values()] == ["baseline", "speculative"]
    assert run.manifest.counts == {"baseline": {"ok": 24}, "speculative": {"ok": 24}}


def test_first_variant_stands_in_for_a_baseline_of_another_name(tmp_path: Path) -> None:
    lines = [replace(line, variant={"baseline": "plain"}.get(line.variant, line.variant)) for line in LINES]
    assert read_unfinished(_begin(tmp_path, lines)).manifest.variants["plain"].get("role") == "baseline"


@pytest.mark.parametrize("text", ["", "{}\n"])
def test_no_record_is_no_run(tmp_path: Path, text: str) -> None:
    (tmp_path / "records.jsonl").write_text(text)
    with pytest.raises(BadInputError, match=r"records.jsonl"):
        read_unfinished(tmp_path)


@pytest.mark.parametrize("arguments", [("--watch", "s3://bucket/runs/x"), ("--watch", "a", "b")])
def test_only_one_run_of_this_machine_is_watched(arguments: tuple[str, ...]) -> None:
    result = CliRunner().invoke(cli, ["report", *arguments], standalone_mode=False)
    assert isinstance(result.exception, BadInputError)
    assert "--watch" in str(result.exception)


def test_standing_has_medians_of_what_ended_well() -> None:
    standing = Standing()
    assert str(standing) == ""
    standing.add(None)
    for line in LINES:
        standing.add(line)
        standing.add(replace(line, warmup=True, chunk_times=tuple(9 * time for time in line.chunk_times)))
        standing.add(replace(line, outcome="timeout"))
    words = str(standing)
    assert words.startswith("; TPOT baseline 45")
    assert "speculative 1" in words
    assert "tokens/step)" in words.partition("speculative")[2]
    assert "tokens/step)" not in words.partition("speculative")[0]


def test_standing_takes_no_time_from_the_client() -> None:
    standing = Standing()
    line = records(cases=CASES[:1], tokens=600, repeats=1)[0]
    started = time.thread_time()
    for _ in range(200):
        standing.add(line)
        str(standing)
    assert (time.thread_time() - started) / 200 < 0.001
