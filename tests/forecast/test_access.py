"""A forecast asks the target's server as bench does: with its key, and behind its path."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from specdec.cli import cli
from specdec.errors import BadInputError, EnvironmentFault
from specdec.golden.server import GoldenServer
from specdec.golden.settings import Settings

Forecast = Callable[..., Result]

KEY = "k-123456789"
SENTENCE = "The river runs to the sea, and the river runs to the sea again."


@pytest.fixture
def guarded() -> Iterator[str]:
    """A server with a key, behind a path."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = GoldenServer(Settings(key=KEY, path="/openai"))
    yield asyncio.run_coroutine_threadsafe(server.start(), loop).result(10)
    asyncio.run_coroutine_threadsafe(server.stop(), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
    loop.close()


@pytest.fixture
def forecast(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Forecast:
    log = tmp_path / "log.jsonl"
    lines = [{"prompt": f"Say it {number} times.", "answer": SENTENCE} for number in range(4)]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("MY_KEY", KEY)

    def run(url: str, *options: str) -> Result:
        draft = ("--draft", "ngram:2", "--tokenizer", url, "--out", str(tmp_path / "out"))
        return CliRunner().invoke(cli, ["forecast", str(log), *draft, *options], standalone_mode=False)

    return run


def test_look_up_is_forecast_with_a_server_that_wants_a_key(guarded: str, forecast: Forecast) -> None:
    done = forecast(f"{guarded}/v1", "--api-key-env", "MY_KEY")
    assert done.exception is None, done.output
    assert "from 4 of 4 answers" in done.output


def test_without_the_key_the_remedy_is_the_key(guarded: str, forecast: Forecast) -> None:
    done = forecast(guarded)
    assert isinstance(done.exception, EnvironmentFault)
    assert "401" in str(done.exception)
    assert "--api-key-env" in str(done.exception.remedy)


def test_another_path_is_told_from_a_server_that_does_not_tokenize(guarded: str, forecast: Forecast) -> None:
    done = forecast(guarded.removesuffix("/openai"), "--api-key-env", "MY_KEY")
    assert isinstance(done.exception, EnvironmentFault)
    assert "what stands before /v1" in str(done.exception.remedy)


def test_a_variable_that_is_not_set_is_named_where_it_cannot_be_a_key(
    guarded: str, forecast: Forecast
) -> None:
    done = forecast(guarded, "--api-key-env", "MY_KEI")
    assert isinstance(done.exception, BadInputError)
    assert "MY_KEI" in str(done.exception)
    done = forecast(guarded, "--api-key-env", KEY)
    assert isinstance(done.exception, BadInputError)
    assert KEY not in str(done.exception)
