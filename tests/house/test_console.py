"""What a terminal, a pipe, a full disk and an impatient user get."""

from __future__ import annotations

import ast
import errno
import io
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from specdec import console
from specdec.console import Column, Styled
from specdec.text import json_of, printable, printable_json

MAIN = [sys.executable, "-m", "specdec"]
EVIL = "\x1b[2J\x1b]0;title\x07\r\nnext\x9b1m\u202edlrow\ud800"


@pytest.mark.parametrize(
    "character", [chr(code) for code in (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x202E)]
)
def test_no_control_character_is_printable(character: str) -> None:
    assert printable(f"a{character}b").isprintable()
    assert character not in printable_json(json_of({"a": f"x{character}"}))


def test_other_scripts_stay_as_they_are() -> None:
    assert printable("日本語 für 💡") == "日本語 für 💡"


def test_json_holds_no_nan_and_no_half_of_a_character() -> None:
    assert json_of({"a": "x\ud800"}) == '{"a":"x\ufffd"}'
    for number in (float("nan"), float("inf"), float("-inf")):
        with pytest.raises(ValueError, match="JSON"):
            json_of([number])


COLUMNS = [Column("test case", fold=True), Column("TPOT\nms", right=True), Column("verdict", fold=True)]
ROWS = [["json", "9.5", Styled("helps", "bold green")], [EVIL, "10.0", "hurts"]]


def test_a_table_is_a_line_a_row_for_other_programs() -> None:
    lines = console.table(COLUMNS, ROWS).split("\n")
    assert len(lines) == 4
    assert lines[2].split() == ["json", "9.5", "helps"]
    assert all(line.isprintable() for line in lines)


@pytest.mark.parametrize("width", [20, 30, 40, 79, 100])
def test_a_table_fits_a_narrow_terminal_and_loses_nothing(width: int) -> None:
    text = console.table(
        COLUMNS, [["json", "9.5", "helps"], ["a-long-name-of-a-case", "10.0", "hurts"]], width=width
    )
    assert max(map(len, text.split("\n"))) <= max(width, len("test case: a-long-name-of-a-case"))
    for word in ("9.5", "10.0", "helps", "hurts", "json"):
        assert word in text
    if width >= 40:
        assert max(map(len, text.split("\n"))) <= width


def test_colour_only_where_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert console.colour(Terminal())
    assert not console.colour(io.StringIO())
    assert not console.colour(None)
    monkeypatch.setenv("NO_COLOR", "1")
    assert not console.colour(Terminal())
    assert console.terminal(Terminal())
    monkeypatch.setenv("TERM", "dumb")
    assert not console.terminal(Terminal())
    assert "\x1b" in console.table(COLUMNS, ROWS, colours=True)
    assert "\x1b" not in console.table(COLUMNS, ROWS, width=80)


def test_a_line_every_half_minute_without_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with console.progress("measuring") as step:
        for done in range(1, 101):
            now[0] += 1
            step.update(f"json {EVIL}", done, 100)
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition("(")[2] for line in lines[1:-1]] == ["30 s)", "60 s)", "90 s)"]
    assert lines[0] == "measuring ..."
    assert lines[-1] == "measuring: done (100.0 s)"
    assert all(line.isprintable() for line in lines)


def test_messages_that_nobody_can_read_end_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(sys, "stderr", Full())
    console.say("x")
    with console.progress("step") as step:
        step.update("x")
    monkeypatch.setattr(sys, "stderr", None)
    with console.progress("step") as step:
        step.update("x")


def environment(**more: str) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("AWS_", "COLUMNS"))}
    return {**kept, "AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": "/dev/null", **more}


SPEAKING = [["stacks"], ["stacks", "--json"], ["estimate"], ["golden", "--faults"], ["bench", "--help"]]
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("arguments", SPEAKING, ids=" ".join)
def test_a_full_disk_and_a_closed_pipe_have_their_exit_codes(arguments: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [*MAIN, *arguments], cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, env=environment()
        )
    assert (ended.returncode, ended.stderr.count("\n")) == (4, 1), ended.stderr
    assert "the output cannot be written: No space left on device" in ended.stderr
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run(
        [*MAIN, *arguments], cwd=ROOT, stdout=writing, stderr=subprocess.PIPE, text=True, env=environment()
    )
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (141, "")


@pytest.mark.parametrize("moment", [0.04, 0.07, 0.1, 0.15, 0.2, 0.25])
def test_an_early_ctrl_c_ends_without_a_traceback(moment: float) -> None:
    process = subprocess.Popen(
        [*MAIN, "golden"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    time.sleep(moment)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    # Before Python has come to our first line the system ends it; a server that serves ends well on Ctrl-C.
    if "specdec" in errors or process.returncode not in (-signal.SIGINT, 1):
        assert "Traceback" not in errors
        assert process.returncode in (0, 130), errors


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1", "TERM": "xterm"}, {"TERM": "dumb"}])
def test_a_terminal_without_colour_gets_none(variables: dict[str, str]) -> None:
    assert b"\x1b" not in on_a_terminal(["stacks"], **variables)


def on_a_terminal(arguments: list[str], **variables: str) -> bytes:
    main, child = pty.openpty()
    process = subprocess.Popen(
        [*MAIN, *arguments], cwd=ROOT, stdin=child, stdout=child, stderr=child, env=environment(**variables)
    )
    os.close(child)
    seen = b""
    while True:
        try:
            piece = os.read(main, 65536)
        except OSError:
            break
        if not piece:
            break
        seen += piece
    os.close(main)
    process.wait(20)
    return seen


def test_commands_print_through_the_console_alone() -> None:
    for path in (ROOT / "specdec" / "commands").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                assert ast.unparse(node.func) not in ("click.echo", "click.secho", "print"), path
                assert not ast.unparse(node.func).startswith("sys.stdout"), path
