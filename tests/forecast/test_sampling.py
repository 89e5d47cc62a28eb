"""A draft that draws its proposals: what logged probabilities say of it, against the algorithm played out."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specdec.analysis.replay import expected_steps, runs, steps
from specdec.catalog.conventions import TEXTBOOK
from specdec.errors import BadInputError
from specdec.forecast.answers import Answer, Sources
from specdec.forecast.bits import Bank
from specdec.forecast.drafts import SamplingModel
from specdec.forecast.forecast import forecast, read
from specdec.forecast.model import drawn_with
from specdec.forecast.tokens import Tokens
from tests.forecast.test_forecast import Letters

TARGET = np.asarray([0.5, 0.3, 0.15, 0.05])
DRAFT = np.asarray([0.3, 0.3, 0.1, 0.3])
LENGTH = 60


def play(window: int, rng: np.random.Generator) -> tuple[list[int], int]:
    """A text and its steps after a first token that prefill gives, drawn and kept token by token as in
    Leviathan et al., arXiv 2211.17192, algorithm 1.
    """
    written, count = [int(rng.choice(4, p=TARGET))], 0
    while len(written) < LENGTH:
        count += 1
        for _ in range(window):
            token = int(rng.choice(4, p=DRAFT))
            if rng.random() >= min(1.0, TARGET[token] / DRAFT[token]):
                rest = np.maximum(TARGET - DRAFT, 0)
                written.append(int(rng.choice(4, p=rest / rest.sum())))
                break
            written.append(token)
        else:
            written.append(int(rng.choice(4, p=TARGET)))
    return written[:LENGTH], count


class Drawing:
    """A model that draws every token with the same chances."""

    path = Path("drawing.gguf")
    lanes = 1

    def likelihoods(self, prompt: Any, written: Any, *, temperature: float, top_p: float) -> list[float]:
        assert (temperature, top_p) == (0.8, 0.95)
        return [float(DRAFT[token]) for token in written[1:]]

    def choices(self, prompt: Any, written: Any) -> list[int]:
        return [int(DRAFT.argmax())] * (len(written) - 1)


def text(written: list[int], **more: Any) -> Tokens:
    logged: dict[str, Any] = {
        "temperature": 0.8,
        "top_p": 0.95,
        "logprobs": tuple(math.log(TARGET[t]) for t in written),
    }
    answer = Answer(id="a", group="g", prompt="p", text="".join(map(chr, written)), **{**logged, **more})
    return Tokens(answer, (1,), tuple(written))


def draft(tmp_path: Path) -> SamplingModel:
    model: Any = Drawing()
    return SamplingModel("drawing", model, Bank(tmp_path, "drawing"))


@pytest.mark.parametrize("window", [1, 3, 7])
def test_logged_probabilities_give_the_steps_that_the_algorithm_takes(window: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(window)
    played = [play(window, rng) for _ in range(300)]
    one = draft(tmp_path)
    texts = [text(written) for written, _ in played]
    replayed, left_out = read(one, texts, TEXTBOOK, lambda _, __, ___: None)
    assert not left_out
    taken = sum(count for _, count in played)
    assert replayed.counts[:, window - 1].sum() == pytest.approx(taken, rel=0.02)
    # A draft that proposes its likeliest token would do otherwise, so that the test tells them apart.
    greedy = sum(
        len(steps(runs(np.asarray(written[1:]) == DRAFT.argmax()).tolist(), window)) for written, _ in played
    )
    assert greedy != pytest.approx(taken, rel=0.05)


def test_certain_chances_are_the_walk_over_bits() -> None:
    rng = np.random.default_rng(5)
    for length in (1, 2, 5, 40):
        for usable in (1, 3, 15):
            bits = rng.random(length) < 0.6
            counted = len(steps(runs(bits).tolist(), usable))
            assert expected_steps(bits.astype(np.float64), usable) == pytest.approx(counted)


def test_without_logged_probabilities_a_draft_that_samples_is_refused(tmp_path: Path) -> None:
    greedy = Answer(id="g", group="g", prompt="p", text="abcd", temperature=0)
    bare = Answer(id="b", group="g", prompt="p", text="abcd", temperature=0.8)
    unknown = Answer(id="u", group="g", prompt="p", text="abcd")
    result = forecast(
        Sources(answers=[greedy, bare, unknown]), Letters(), [draft(tmp_path)], TEXTBOOK, costs={}
    )
    (outlook,) = result.drafts
    assert outlook.mix.answers == 1
    assert list(outlook.left_out.values()) == [2]
    with pytest.raises(BadInputError, match="2 sampled, and no log-probabilities"):
        forecast(Sources(answers=[bare, unknown]), Letters(), [draft(tmp_path)], TEXTBOOK, costs={})


def test_temperature_and_top_p_cut_as_servers_cut() -> None:
    logits = np.log(TARGET).astype(np.float32)

    def drawn(token: int, temperature: float, top_p: float) -> float:
        return drawn_with(logits, token, temperature=temperature, top_p=top_p)

    assert [drawn(t, 1, 1) for t in range(4)] == pytest.approx(TARGET.tolist(), rel=1e-5)
    squared = TARGET**2 / (TARGET**2).sum()
    assert drawn(1, 0.5, 1) == pytest.approx(squared[1], rel=1e-5)
    # 0.5 and 0.3 reach 0.7 together; the rest cannot be drawn.
    assert [drawn(t, 1, 0.7) for t in range(4)] == pytest.approx([0.625, 0.375, 0, 0], rel=1e-5)
