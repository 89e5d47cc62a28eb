"""Look-up drafting against a walk written after llama.cpp's own words, position by position."""

from __future__ import annotations

import random

import pytest

from specdec.forecast.lookup import find_matches


def proposal(tokens: list[int], sampled: int, length: int, window: int) -> list[int]:
    """What llama.cpp's ngram_simple proposes after ``tokens`` and ``sampled``: what followed the latest
    earlier place of the last ``length`` tokens, if that is at least as long as the run.
    """
    if len(tokens) <= length + window + 1:
        return []
    pattern = [*tokens[len(tokens) - length + 1 :], sampled]
    for place in range(len(tokens) - length - 1, 0, -1):
        if tokens[place : place + length] == pattern:
            copied = tokens[place + length : place + length + window]
            return copied if len(copied) >= length else []
    return []


@pytest.mark.parametrize("length", [1, 2, 3])
@pytest.mark.parametrize("window", [3, 7, 15])
def test_every_position_proposes_what_the_engine_does(length: int, window: int) -> None:
    chance = random.Random(length * 100 + window)
    proposals = 0
    for _ in range(30):
        words = chance.randint(2, 6)
        prompt = [chance.randrange(words) for _ in range(chance.randint(1, 30))]
        answer = [chance.randrange(words) for _ in range(chance.randint(2, 60))]
        matches = find_matches(prompt, answer, length)
        proposed, kept = matches.proposed(window).tolist(), matches.kept(window).tolist()
        for position in range(len(answer) - 1):
            expected = proposal([*prompt, *answer[:position]], answer[position], length, window)
            right = 0
            for guess, token in zip(expected, answer[position + 1 :], strict=False):
                if guess != token:
                    break
                right += 1
            assert proposed[position] == len(expected)
            assert kept[position] == right
            proposals += bool(expected)
    assert proposals > 50


def test_an_answer_of_one_token_has_no_step() -> None:
    assert find_matches([1, 2, 3], [4], 3).kept(7).tolist() == []
