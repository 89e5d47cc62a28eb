"""The forecast from tokens to advice, and the command as a new user calls it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from specdec.analysis.measured_costs import costs_of
from specdec.catalog.conventions import NXDI_FUSED, TEXTBOOK
from specdec.commands.forecast import command
from specdec.errors import BadInputError, EnvironmentFault
from specdec.folders import cache_folder
from specdec.forecast.answers import Answer, Sources
from specdec.forecast.bits import Bank, Kept, Positions
from specdec.forecast.drafts import LookUp, Model, open_draft, require_same_vocabulary
from specdec.forecast.forecast import forecast, read, sampled
from specdec.forecast.model import opened
from specdec.forecast.outlook import look, replay_all
from specdec.forecast.shipped import packaged
from specdec.forecast.tokens import Tokens, render, tokenize, turn_end
from specdec.forecast.weights import ready
from specdec.runs.folder import read_run
from tests.report.sample import RUN, records, write_run

LIST = "\n".join(f'{{"id": {n}, "status": "active", "role": "user"}}' for n in range(1, 12))
STORY = "".join(chr(200 + n) for n in range(99))
"""Nothing in it comes again."""


TEMPLATE = "{% for m in messages %}{{ m.content }}|{% endfor %}"


class Letters:
    """A tokenizer of single characters."""

    end = 0

    def tokenize(self, text: str, *, special: bool) -> list[int]:
        return [ord(letter) for letter in text]

    def token(self, piece: str) -> int | None:
        return ord(piece) if len(piece) == 1 else None

    def conversation(self, messages: Iterable[tuple[str, str]]) -> list[int] | None:
        return self.tokenize(render(TEMPLATE, messages), special=True)

    @property
    def turn_end(self) -> int:
        return turn_end(TEMPLATE, self)


def text(written: str, *, group: str = "g", prompt: str = "p" * 20) -> Tokens:
    answer = Answer(id=written[:8], group=group, prompt=prompt, text=written)
    return Tokens(answer, tuple(map(ord, prompt)), tuple(map(ord, written)))


def sources(*answers: Answer) -> Sources:
    return Sources(answers=list(answers))


def test_structured_text_is_to_be_rented_and_open_text_is_not() -> None:
    found = forecast(
        sources(
            Answer(id="a", group="list", prompt="", text=LIST),
            Answer(id="b", group="story", prompt="", text=STORY),
        ),
        Letters(),
        [LookUp(3)],
        TEXTBOOK,
        costs={},
    )
    advice = {group.group: group.advice for group in found.drafts[0].groups}
    assert advice == {"list": "rent", "story": "leave"}
    assert found.unchecked == 2
    assert found.drafts[0].most[0].group == "list"


def test_conventions_differ_by_the_last_proposal() -> None:
    kept = dict.fromkeys(range(1, 16), Positions(np.full(59, 100)))
    one = text("x" * 60)
    textbook, fused = (replay_all([one], [kept], c) for c in (TEXTBOOK, NXDI_FUSED))
    # 59 tokens in steps of 8 and of 7, windows 1.. and 2.. in the columns.
    assert textbook.counts[0, 6] == 8
    assert fused.counts[0, 5] == 9


def test_a_step_without_a_proposal_costs_no_verification() -> None:
    never = Positions(np.zeros(99, dtype=np.int64), np.zeros(99, dtype=np.bool_))
    replayed = replay_all([text("y" * 100)], [dict.fromkeys(range(1, 16), never)], TEXTBOOK)
    outlook = look("d", "", replayed, TEXTBOOK, slopes=(0.2, 0.3), costs={7: 3.0}, left_out={})
    assert {point.speedup for point in outlook.mix.curve} == {1.0}


def test_a_measured_step_makes_a_point_of_the_band() -> None:
    kept = [LookUp(3).kept(text(LIST))]
    replayed = replay_all([text(LIST)], kept, TEXTBOOK)
    band = look("d", "", replayed, TEXTBOOK, slopes=(0.01, 0.2), costs={}, left_out={}).mix.curve[6]
    point = look("d", "", replayed, TEXTBOOK, slopes=(0.01, 0.2), costs={7: 1.5}, left_out={}).mix.curve[6]
    assert band.speedup is None
    assert point.cost == pytest.approx(1.5)
    assert point.speedup_high - point.speedup_low < 1e-6 < band.speedup_high - band.speedup_low


def test_counts_that_disagree_leave_an_answer_out() -> None:
    found = tokenize(
        [
            Answer(id="a", group="g", prompt="ab", text="four", prompt_tokens=2, completion_tokens=4),
            Answer(id="b", group="g", prompt="ab", text="four", prompt_tokens=2, completion_tokens=3),
            Answer(id="c", group="g", prompt="ab", text="four", prompt_tokens=9, completion_tokens=4),
            Answer(id="d", group="g", prompt="ab", text="four", completion_tokens=5, finish="stop"),
        ],
        Letters(),
    )
    assert [t.answer.id for t in found.texts] == ["a", "d"]
    # The server counts the token that ends the answer.
    assert found.texts[1].written[-1] == Letters.end
    reasons = sorted(found.left_out)
    assert [reason.split(" ")[0] for reason in reasons] == ["answer", "prompt"], reasons


def test_nothing_that_can_be_used_names_the_reasons() -> None:
    wrong = Answer(id="b", group="g", prompt="ab", text="four", completion_tokens=3)
    with pytest.raises(BadInputError, match="1 answer has another number of tokens") as caught:
        forecast(sources(wrong), Letters(), [LookUp(3)], TEXTBOOK, costs={})
    assert "--tokenizer" in str(caught.value)


def test_a_budget_samples_and_says_so() -> None:
    texts = [text(f"{number:03d}" + "x" * 97) for number in range(50)]
    chosen = sampled(texts, 1000)
    assert len(chosen) == 10
    assert chosen == sampled(texts, 1000)
    assert sampled(texts, None) == tuple(texts)


def test_look_up_on_many_answers_is_quick() -> None:
    # 10,000 answers of 300 tokens take under 20 s: docs/forecast.md. Here a fiftieth of that.
    texts = [text((LIST if n % 2 else STORY * 4)[:300]) for n in range(200)]
    started = time.process_time()
    replayed, _ = read(LookUp(3), texts, TEXTBOOK, lambda _, __, ___: None)
    assert len(replayed.texts) == 200
    assert time.process_time() - started < 2


@pytest.mark.parametrize("name", ["eagle3:x", "medusa:y", "mtp:z"])
def test_a_draft_that_needs_hidden_states_is_refused_with_the_reason(name: str, tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="hidden states"):
        open_draft(name, cache=tmp_path, tokenizer=None)


@pytest.mark.parametrize("name", ["ngram:0", "ngram:x", "nowhere.gguf"])
def test_a_draft_that_is_none_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(BadInputError):
        open_draft(name, cache=tmp_path, tokenizer=None)


def test_what_a_draft_said_is_asked_once_even_after_an_interruption(tmp_path: Path) -> None:
    one = text("abc")
    first = Bank(tmp_path, "draft").bits(one, lambda: [True, False])
    (file,) = tmp_path.iterdir()
    file.write_text(file.read_text(encoding="utf-8") + '["cut sh', encoding="utf-8")

    def never() -> list[bool]:
        raise AssertionError("asked again")

    assert Bank(tmp_path, "draft").bits(one, never).tolist() == first.tolist() == [True, False]
    assert Bank(tmp_path, "another").bits(one, lambda: [False, False]).tolist() == [False, False]


def test_logs_in_and_an_answer_out(tmp_path: Path) -> None:
    log = tmp_path / "answers.jsonl"
    entry = {"prompt": "Go on with the list.", "answer": LIST, "test_case": "json"}
    log.write_text(json.dumps(entry) + "\n", encoding="utf-8")
    arguments = [
        str(log),
        "--draft",
        "ngram:3",
        "--out",
        str(tmp_path / "out"),
        "--experiment",
        "experiment.toml",
    ]
    result = CliRunner().invoke(command, arguments, standalone_mode=False)
    assert result.exception is None
    assert "rent it: window" in result.output
    assert "1 have none" in result.output
    page = (tmp_path / "out" / "forecast.html").read_text(encoding="utf-8")
    assert "<svg" in page
    assert "trn2.48xlarge" in page
    assert "records.jsonl" not in page
    numbers = json.loads((tmp_path / "out" / "forecast.json").read_text(encoding="utf-8"))
    assert numbers["drafts"][0]["mix"]["advice"] == "rent"


def test_a_run_tells_what_its_steps_cost(tmp_path: Path) -> None:
    run = write_run(tmp_path / "runs" / RUN, records())
    log = tmp_path / "answers.jsonl"
    log.write_text(json.dumps({"prompt": "Go on.", "answer": LIST}) + "\n", encoding="utf-8")
    arguments = [str(log), "--draft", "ngram:3", "--out", str(tmp_path / "out"), "--step-cost", str(run)]
    result = CliRunner().invoke(command, arguments, standalone_mode=False)
    assert result.exception is None
    numbers = json.loads((tmp_path / "out" / "forecast.json").read_text(encoding="utf-8"))
    stored = read_run(run)
    told = costs_of(stored.manifest, stored.records).costs[0]
    assert numbers["costs"] == {"7": pytest.approx(told.cost)}
    low, high = numbers["cost_bands"]["7"]
    assert low < told.cost < high
    point = numbers["drafts"][0]["mix"]["curve"][6]
    assert point["cost"] == pytest.approx(told.cost, rel=0.02)
    # What the run leaves open stays open.
    assert point["speedup_low"] < point["speedup"] < point["speedup_high"]


@pytest.mark.parametrize("cost", ["7", "x=1", "16=3", "7=0", "7=90"])
def test_a_step_cost_that_is_none_is_refused(cost: str, tmp_path: Path) -> None:
    log = tmp_path / "answers.jsonl"
    log.write_text("{}\n", encoding="utf-8")
    arguments = [str(log), "--draft", "ngram:3", "--step-cost", cost]
    result = CliRunner().invoke(command, arguments, standalone_mode=False)
    assert isinstance(result.exception, BadInputError)
    assert "--step-cost" in str(result.exception)


def test_a_draft_that_does_not_fit_into_memory_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "large.gguf"
    with path.open("wb") as file:
        file.truncate(1 << 43)
    with pytest.raises(EnvironmentFault, match="of memory are free"):
        open_draft(str(path), cache=tmp_path, tokenizer=None)


def test_another_vocabulary_is_refused_with_the_difference(tmp_path: Path) -> None:
    class Vocabulary:
        def __init__(self, *pieces: str) -> None:
            self.vocabulary = len(pieces)
            self.piece = pieces.__getitem__

    target: Any = Vocabulary("a", "b", "c")
    require_same_vocabulary("d", target, target)
    other: Any = Vocabulary("a", "x", "c", "d")
    with pytest.raises(BadInputError, match="4 tokens, and the target has 3; token 1 is 'x', not 'b'"):
        require_same_vocabulary("d", other, target)


def test_a_tokenizer_is_had_without_its_weights() -> None:
    with opened(packaged(), weights=False) as vocabulary, opened(packaged()) as model:
        assert vocabulary.tokenize(LIST, special=False) == model.tokenize(LIST, special=False)
        assert vocabulary.conversation([("user", "hi")]) == model.conversation([("user", "hi")])
        # llama.cpp reads no length of context where it reads the vocabulary alone.
        assert (vocabulary.context, model.context) == (0, 8192)


def test_texts_that_are_read_at_the_same_time_keep_their_order() -> None:
    class Slow(LookUp):
        lanes = 3

        def kept(self, text: Tokens) -> Kept:
            time.sleep(0.01 * (len(text.written) % 3))
            if len(text.written) == 5:
                raise ValueError("too long")
            return super().kept(text)

    texts = [text("ab" * n) if n != 7 else text("abcde") for n in range(2, 20)]
    one_by_one, _ = read(
        LookUp(3), [one for one in texts if len(one.written) != 5], TEXTBOOK, lambda _, __, ___: None
    )
    together, left_out = read(Slow(3), texts, TEXTBOOK, lambda _, __, ___: None)
    assert left_out == {"longer than the draft's context": 1}
    assert together.texts == one_by_one.texts
    assert (together.counts == one_by_one.counts).all()


@pytest.mark.slow
def test_a_text_longer_than_the_drafts_context_is_left_out_and_counted(tmp_path: Path) -> None:
    with opened(packaged(), context=32, threads=1) as model:
        draft = Model("small", model, Bank(tmp_path, "small"))
        texts = [text("abc", prompt="p" * 8), text("x" * 40)]
        replayed, left_out = read(draft, texts, TEXTBOOK, lambda _, __, ___: None)
        assert left_out == {"longer than the draft's context": 1}
        assert [kept.answer.text for kept in replayed.texts] == ["abc"]
        answer = Answer(id="x", group="g", prompt="p" * 20, text="x" * 40)
        with pytest.raises(BadInputError, match="1 longer than the draft's context"):
            forecast(sources(answer), Letters(), [draft], TEXTBOOK, costs={})


@pytest.mark.slow
@pytest.mark.parametrize("form", ["Q4_1", "Q4_0"])
def test_one_pass_chooses_as_single_steps_do(form: str) -> None:
    # The property that the forecast of a draft model rests on, see forecast.model.
    path = packaged() if form == "Q4_1" else ready(cache_folder(os.environ) / "weights", "Q4_0").path
    with opened(path, context=512, threads=1) as model:
        tokens = model.tokenize(
            "The keeper of the lighthouse found a letter, and the letter said: come home. " * 8, special=False
        )
        assert len(tokens) > 92
        together = model.choices(tokens[:20], tokens[20:92])
        # Each of these ends its last pass with another number of tokens: 1, 2, 29, 1, 2 and 7.
        lengths = (2, 3, 30, 65, 66, 71)
        alone = [model.choices(tokens[:20], tokens[20 : 20 + n])[-1] for n in lengths]
    assert alone == [together[n - 2] for n in lengths]


def test_without_any_tokenizer_one_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_: str) -> None:
        return None

    log = tmp_path / "answers.jsonl"
    log.write_text(json.dumps({"prompt": "a", "answer": LIST}) + "\n", encoding="utf-8")
    monkeypatch.setattr("importlib.util.find_spec", none)
    result = CliRunner().invoke(command, [str(log), "--draft", "ngram:3"], standalone_mode=False)
    assert isinstance(result.exception, BadInputError)
    assert "--tokenizer" in str(result.exception)
