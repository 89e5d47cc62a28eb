"""The forecast of a run held against what the run measured."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from scripts.eagle_proof import OFF, WINDOWS, from_one, largest_error
from specdec.analysis.choice import CLOSE
from specdec.analysis.judge import judge
from specdec.forecast import check
from specdec.forecast.answers import Answer
from specdec.forecast.drafts import LookUp
from specdec.forecast.tokens import tokenize
from specdec.prompts.sets import load
from specdec.report.build import build
from specdec.report.markdown import render
from specdec.runs.folder import Run
from specdec.runs.record import RequestRecord
from tests.analysis.simulate import counted, manifest, record
from tests.forecast.test_forecast import LIST, Letters
from tests.forecast.test_lookup import proposal

WINDOW = 5


def steps_of(prompt: str, answer: str) -> tuple[list[int], int]:
    """Cumulative tokens after each step of a server that looks up three letters, and accepted ones."""
    before, written = list(map(ord, prompt)), list(map(ord, answer))
    counts, accepted = [1], 0
    while counts[-1] < len(written):
        done = counts[-1]
        guess = proposal([*before, *written[: done - 1]], written[done - 1], 3, WINDOW)
        guess = guess[: len(written) - done - 1]
        right = 0
        while right < len(guess) and guess[right] == written[done + right]:
            right += 1
        accepted += right
        counts.append(done + right + 1)
    return counts, accepted


def run(tmp_path: Path, *, cheat: int = 0) -> Run:
    records: list[RequestRecord] = []
    for prompt in [p for p in load("rehearsal") if p.test_case in ("json", "story")][:6]:
        plain = list(range(1, len(LIST) + 1))
        case = prompt.test_case
        times = [0.01 * (n + 1) for n in range(len(plain))]
        records.append(record("baseline", prompt.id, times=times, counts=plain, test_case=case, text=LIST))
        counts, accepted = steps_of(f"{prompt.text}|", LIST)
        times = [0.02 * (n + 1) for n in range(len(counts))]
        told = counted(None, 99, accepted - cheat)
        records.append(
            record("fast", prompt.id, times=times, counts=counts, server=told, test_case=case, text=LIST)
        )
    variants = {"baseline": {}, "fast": {"window": WINDOW}}
    described = manifest(variants, configuration={"benchmark": {"prompts": "rehearsal"}})
    return Run(tmp_path, described, tuple(records))


def checked(measured: Run) -> tuple[check.Checked, ...]:
    foreseen = check.foresee(check.baseline_of(measured), "fast", LookUp(3), Letters())
    return check.check(measured, foreseen)


def test_the_forecast_equals_the_servers_own_count(tmp_path: Path) -> None:
    rows = checked(run(tmp_path))
    assert {row.test_case for row in rows} <= {"json", "story"}
    assert sum(row.compared for row in rows) == sum(row.equal for row in rows) == 6
    assert all(row.forecast > 2 for row in rows)
    # A step that verifies costs two plain ones here: 0.02 s a step, and nearly every step verifies.
    assert all(row.tpot < row.plain_tpot for row in rows)


def test_one_token_of_difference_is_seen_and_shown(tmp_path: Path) -> None:
    wrong = run(tmp_path, cheat=1)
    rows = checked(wrong)
    assert sum(row.equal for row in rows) == 0
    check.write(rows, tmp_path)
    content, _ = build(wrong, judge(wrong.manifest, wrong.records))
    page = render(content, "0")
    assert "What the forecast said" in page
    assert "In 0 of 6 requests" in page
    assert page.count("it was tokenized again") == 6


def test_a_forecast_sees_no_record_of_what_it_forecasts(tmp_path: Path) -> None:
    measured = run(tmp_path)
    with pytest.raises(ValueError, match="must not see records of fast"):
        check.foresee(measured, "fast", LookUp(3), Letters())
    forged = tuple(
        record if record.variant == "baseline" else dataclasses.replace(record, text="x", pieces=None)
        for record in measured.records
    )
    nothing = tuple(record for record in measured.records if record.variant == "baseline")
    made = [
        check.foresee(
            check.baseline_of(dataclasses.replace(measured, records=kept)), "fast", LookUp(3), Letters()
        )
        for kept in (measured.records, forged, nothing)
    ]
    assert made[0] == made[1] == made[2]
    check.write_foreseen(made[0], tmp_path)
    assert check.read_foreseen(tmp_path) == made[0]


class Pairs(Letters):
    """Reads "ab" as one token wherever it stands, though the target wrote it as two here and there."""

    def tokenize(self, text: str, *, special: bool) -> list[int]:
        return [ord(letter) for letter in text.replace("ab", "\u0100")]

    def token(self, piece: str) -> int | None:
        return 0x100 if piece == "ab" else super().token(piece)


def test_the_pieces_of_a_stream_tell_tokens_that_the_text_does_not(tmp_path: Path) -> None:
    def answer(*pieces: str, counted: int) -> Answer:
        text = "".join(pieces)
        return Answer(id="a", group="g", prompt="p", text=text, pieces=pieces, completion_tokens=counted)

    (text,) = tokenize([answer("a", "b", "ab", counted=3)], Pairs()).texts
    assert (text.written, text.exact) == ((ord("a"), ord("b"), 0x100), True)
    # A server that joins tokens in one event tells nothing, and what the text gives has to agree.
    (text,) = tokenize([answer("xaby", counted=3)], Pairs()).texts
    assert text.written == (ord("x"), 0x100, ord("y"))
    assert not tokenize([answer("a", "b", "ab", counted=4)], Pairs()).texts


def test_a_run_without_a_forecast_shows_none(tmp_path: Path) -> None:
    plain = run(tmp_path)
    content, _ = build(plain, judge(plain.manifest, plain.records))
    assert "What the forecast said" not in render(content, "0")


def test_each_published_window_tells_the_others() -> None:
    truth = {window: speed / OFF for window, (speed, _) in WINDOWS.items()}
    for seen in WINDOWS:
        advice = from_one(seen)
        speedups = {point.window: point.speedup for point in advice.curve}
        assert all(abs(speedups[window] / speed - 1) < 0.06 for window, speed in truth.items())
        lost = max(truth.values()) / truth[advice.recommended or 0] - 1
        assert lost <= CLOSE or advice.confirm == 3
    assert largest_error("vllm-neuron") < 0.05
    assert largest_error("the other engine") < 0.05
