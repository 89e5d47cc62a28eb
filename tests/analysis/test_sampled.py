"""Samplers of one distribution pass, others are found. At full size: scripts/prove_sampling.py."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from scripts.prove_sampling import Language, plain, records, speculative
from specdec.analysis.judge import judge
from specdec.analysis.sampled import LEVEL, PLACES, compared_in, pieces, sampled_test
from specdec.runs.record import RequestRecord
from tests.analysis.simulate import manifest
from tests.analysis.test_gates import VARIANTS, run

pytestmark = pytest.mark.slow

REQUESTS = 600
LANGUAGE = Language(4.0, 1)


@cache
def answers(variant: str, verifier: float, seed: int) -> list[RequestRecord]:
    draw = plain(LANGUAGE) if variant == "baseline" else speculative(LANGUAGE, verifier=verifier)
    return records(variant, draw, REQUESTS, np.random.default_rng([seed, len(variant)]))


def test_a_right_sampler_passes_and_a_colder_verifier_is_found() -> None:
    right = sampled_test(answers("baseline", 1.0, 2), answers("fast", 1.0, 2))
    wrong = sampled_test(answers("baseline", 1.0, 2), answers("fast", 0.7, 2))
    assert (right.state, wrong.state) == ("one distribution", "differs")
    assert wrong.p_value <= LEVEL < right.p_value
    assert right.power > 0.9
    assert "times the temperature is found in" in right.says
    assert wrong.shares[0] != wrong.shares[1]
    # The first token is the target's own on either side.
    assert wrong.place > 1


def test_too_few_answers_cannot_tell() -> None:
    few = sampled_test(answers("baseline", 1.0, 2)[:25], answers("fast", 1.0, 2)[:25])
    assert few.state == "cannot tell"
    assert few.power < 0.9


def test_answers_that_never_vary_cannot_tell() -> None:
    same = [replace(line, text="Yes.") for line in answers("baseline", 1.0, 2)[:50]]
    test = sampled_test(same, [replace(line, variant="fast") for line in same])
    assert (test.state, test.p_value, test.power) == ("cannot tell", 1.0, 0.0)


def test_same_answers_same_numbers() -> None:
    both = answers("baseline", 1.0, 2), answers("fast", 0.7, 2)
    assert sampled_test(*both) == sampled_test(*both)


def test_a_text_is_cut_into_words_and_signs() -> None:
    assert pieces("It's  late, friend.", 9) == ("It", "'", "s", "  late", ",", " friend", ".", "", "")
    assert pieces("") == ("",) * PLACES


@pytest.mark.parametrize(("verifier", "counts"), [(1.0, True), (0.7, False)])
def test_a_row_counts_unless_the_distributions_differ(verifier: float, counts: bool) -> None:
    sampled = [*answers("baseline", 1.0, 2), *answers("fast", verifier, 2)]
    verdict = judge(manifest(VARIANTS), run(temperature=1.0), short_answers=sampled)
    (row,) = verdict.comparisons
    assert row.counts == counts
    assert row.label == "case, temperature 1"
    assert row.label in verdict.sentence.lower()
    assert (("other distribution", True) in [(r.code, r.withholds) for r in row.reasons]) == (not counts)
    assert verdict.sampled[0].says in row.says
    assert not any("is not checked" in caveat for caveat in verdict.caveats)


def test_a_row_that_was_not_tested_says_so() -> None:
    verdict = judge(manifest(VARIANTS), run(temperature=1.0))
    assert verdict.comparisons[0].counts
    assert any("specdec sampling checks it" in caveat for caveat in verdict.caveats)


def test_a_test_at_another_temperature_is_none_of_this_row() -> None:
    colder = [replace(line, temperature=0.5) for line in answers("baseline", 1.0, 2)]
    sampled = [*colder, *(replace(line, variant="fast", text="No.") for line in colder)]
    verdict = judge(manifest(VARIANTS), run(temperature=1.0), short_answers=sampled)
    assert verdict.sampled[0].state == "differs"
    assert verdict.comparisons[0].counts
    assert any("is not checked" in caveat for caveat in verdict.caveats)


def test_a_failed_answer_is_none() -> None:
    failed = [replace(line, outcome="timeout", text="") for line in answers("fast", 1.0, 2)]
    assert compared_in(manifest(VARIANTS), [*answers("baseline", 1.0, 2), *failed]) == ()
