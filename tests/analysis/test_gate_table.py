"""Every gate of the analysis: a run that it catches, and a near miss that it lets pass, as one table.

A reason of a row, or a limit in one of the ``ROOMS``, that has no line here fails a test.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

import pytest

from specdec.analysis.judge import judge
from specdec.analysis.loops import loops
from specdec.analysis.parity import parity, sooner
from specdec.analysis.quality import scored
from specdec.analysis.rejoined import rejoined
from specdec.analysis.sampled import sampled_test
from specdec.analysis.self_check import settled
from specdec.analysis.sentences import too_few
from specdec.analysis.verdict import Comparison, ReasonCode, Verdict
from specdec.metrics.arrivals import came_at_once, first_arrival
from specdec.metrics.steps import step_starts
from specdec.rejoin.walk import OUTSIDE, Swap, Walk, spacing
from specdec.runs.record import RequestRecord
from tests.analysis import test_phases as phases
from tests.analysis import test_sampled as sampling
from tests.analysis import test_seams as seams
from tests.analysis.noise import Design
from tests.analysis.simulate import manifest, record
from tests.analysis.test_gates import (
    FAILED,
    LOOP,
    VARIANTS,
    answer,
    codes,
    held_back,
    joined,
    row,
    run,
    spoiled,
    verdict,
)
from tests.analysis.test_gates import parted as parted_from
from tests.analysis.test_self_check import checked, ratio

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Gate:
    """One gate.

    Attributes:
        catches: whether it catches what is given.
        caught: makes what it must catch.
        passed: makes a near miss, which it must let pass.
        limits: constants of the code that decide, as ``module.NAME``.
    """

    catches: Callable[[Any], bool]
    caught: Callable[[], Any]
    passed: Callable[[], Any]
    limits: tuple[str, ...] = ()


def withheld(code: ReasonCode) -> Callable[[Comparison], bool]:
    return lambda found: (code, True) in codes(found) and not found.counts


def noted(code: ReasonCode) -> Callable[[Comparison], bool]:
    return lambda found: (code, False) in codes(found)


def served(**facts: tuple[Any, Any]) -> Comparison:
    """A clean run whose variants are served so: values of the baseline and of the other."""
    variants = {
        name: {**own, **{field: values[place] for field, values in facts.items()}}
        for place, (name, own) in enumerate(VARIANTS.items())
    }
    return row(run(), variants=variants)


def rest_without(variant: str, keep: int) -> Comparison:
    """A run in which one side has only ``keep`` requests on the test case."""
    records = run()
    kept = [r for r in records if r.variant != variant or int(r.prompt[1:]) < keep]
    found = verdict([*kept, *(replace(r, test_case="other") for r in records)])
    return next(line for line in found.comparisons if line.test_case == "case")


def apart(shared: int) -> Comparison:
    """Twenty prompts to each side of which ``shared`` are the same."""
    return row(
        [
            replace(r, prompt=f"q{r.prompt}") if r.variant == "fast" and int(r.prompt[1:]) >= shared else r
            for r in run()
        ]
    )


def at_seam(lost: float, cases: int = 6) -> Comparison:
    design = Design(cases=cases, effects=(0.3, 0.0, -0.2), repeats=4)
    _, resumed = seams.simulated(1, cut=0.5, gain_lost=lost, design=design).verdicts()
    return resumed.comparisons[0]


def clumped(requests: int) -> Comparison:
    """Two tokens in each arrival of so many of the plain side's twenty requests."""
    together = held_back(run(), 2)
    return row([b if int(b.prompt[1:]) < requests else a for a, b in zip(run(), together, strict=True)])


def tied(gap: float) -> Comparison:
    """Every text of the variant parts from the baseline's at a token with this gap."""
    gaps = (2.0,) * 5 + (gap,)
    return row(
        [
            replace(
                r,
                text=f"{r.text[:40]}{' otherwise' if r.variant == 'fast' else ' as it was'}",
                near_tie=(*gaps, 5.0 if r.variant == "fast" else 1.0),
            )
            for r in run()
        ]
    )


def hot(temperature: float) -> Comparison:
    return row(run(temperature=temperature))


def drawn(verifier: float) -> Comparison:
    short = [*sampling.answers("baseline", 1.0, 2), *sampling.answers("fast", verifier, 2)]
    return judge(manifest(VARIANTS), run(temperature=1.0), short_answers=short).comparisons[0]


def unsteady(gain: float) -> Comparison:
    """The baseline's second repeats are 10% slower; the variant is ``gain`` times as fast."""
    return row(
        [
            replace(r, chunk_times=tuple(1.1 * time for time in r.chunk_times))
            if (r.variant, r.repeat) == ("baseline", 1)
            else r
            for r in run(lambda _: gain, repeats=2)
        ]
    )


def doubled(share: float) -> Verdict:
    """A run whose plain side brings two tokens in a share of its chunks, as a server that joins steps."""
    chance = random.Random(5)
    changed: list[RequestRecord] = []
    for r in joined(run(), every=5, share=0.5):
        if r.variant == "baseline":
            counts = [1]
            while counts[-1] < 1000:
                counts.append(counts[-1] + (2 if chance.random() < share else 1))
            times = tuple(0.1 + 0.05 * step for step in range(len(counts)))
            changed.append(
                replace(r, chunk_times=times, chunk_tokens=tuple(counts), output_tokens=counts[-1])
            )
        else:
            changed.append(r)
    return verdict(changed)


def has_no_acceptance(found: Verdict) -> bool:
    (measured,) = [m for m in found.measurements if m.variant == "fast"]
    return measured.acceptance is None and found.windows == ()


def in_blocks(blocks: int) -> Comparison:
    """Four requests at a time, in so many blocks."""
    return row([replace(r, block=int(r.prompt[1:]) * blocks // 20, concurrency=4) for r in run()])


def in_phases(apart_: float) -> Comparison:
    """A-B-A whose baseline's phases differ by ``apart_``."""
    records = phases.run(1, speed=1.5, drift=lambda phase: apart_ * (phase == 2), request=1e-4)
    return phases.compared(records)[0]


def no_interval(found: Comparison) -> bool:
    return found.tpot is not None and found.tpot.interval is None and found.decision == "undecided"


def differs(found: Any) -> bool:
    return found.state == "differs"


def walked(gaps: Sequence[float | None], tokens: int = 1000, rounding: float | None = None) -> Walk:
    return Walk(tokens, tuple(Swap(n, 3 * n, "a", "b", gap, rounding) for n, gap in enumerate(gaps)))


def followed(
    gaps: Sequence[float | None],
    *,
    own: int | None = None,
    tokens: int = 1000,
    rounding: float | None = None,
) -> Any:
    """What walks along the baseline say; ``own`` are its swaps with itself in 1,000 tokens."""
    return rejoined([walked(gaps, tokens, rounding)], [] if own is None else [walked([None] * own)])


def on_grid(step: float, off: float) -> float | None:
    """The grid that is seen in log-probabilities on one, of which one is off by a little."""
    return spacing([-step * number for number in (1, 2, 5, 7, 30)] + [off - 12 * step])


def scored_by(gap: float) -> Any:
    """On a scorer along which the baseline's own text has a swap with this gap."""
    return rejoined([walked([0.1])], [walked([gap])], scorer=True)


def wrong_tasks(wrong: int) -> Any:
    ours = {str(number): True for number in range(60)}
    theirs = {str(number): number >= wrong for number in range(60)}
    (test,) = scored(manifest(VARIANTS), {"baseline": ours, "fast": theirs}, "shipped", 60)
    return test


def short(answers: int) -> Any:
    return sampled_test(
        sampling.answers("baseline", 1.0, 2)[:answers], sampling.answers("fast", 1.0, 2)[:answers]
    )


def early(at: int) -> Comparison:
    """Texts that part after ``at`` characters, where the baseline's own repeats part after 400."""
    noisy = parted_from(run(repeats=2), "baseline", 1, at=400)
    return row(parted_from(parted_from(noisy, "fast", 0, at=at), "fast", 1, at=at))


def repeated(piece: str, times: int, before: int) -> str:
    return answer(1)[:before] + piece * times


def streamed(gaps: Sequence[float], tokens: Sequence[int] | None = None) -> RequestRecord:
    """A stream with these gaps in seconds after a first chunk at 0.1 s, and tokens in each chunk."""
    times, counts = [0.1], [1]
    for gap, more in zip(gaps, tokens or [1] * len(gaps), strict=True):
        times.append(times[-1] + gap)
        counts.append(counts[-1] + more)
    return record("fast", "p", times=times, counts=counts)


def in_bursts(short_gaps: int, ratio_: float) -> RequestRecord:
    """A hundred gaps of which so many are only ``ratio_`` of the others."""
    return streamed([0.05 * ratio_ if n < short_gaps else 0.05 for n in range(100)])


def joins_chunks(stream: RequestRecord) -> bool:
    return len(step_starts(stream)) < len(stream.chunk_times)


GATES: dict[str, Gate] = {
    # What withholds a row, by its code.
    "unfinished": Gate(
        withheld("unfinished"),
        lambda: row(run(), status="interrupted"),
        lambda: row(run(), problem="one point of load was cut short"),
    ),
    "seam": Gate(withheld("seam"), lambda: at_seam(0.12), lambda: at_seam(0.03), ("significance.MARGIN",)),
    "same server": Gate(
        withheld("same server"),
        lambda: served(url=("http://a:1", "http://a:1"), model=("m", "m")),
        lambda: served(url=("http://a:1", "http://a:2"), model=("m", "m")),
    ),
    "other model": Gate(
        withheld("other model"),
        lambda: served(model=("m", "m-sd")),
        lambda: served(model=("m", None)),
    ),
    "other template": Gate(
        withheld("other template"),
        lambda: served(template=("tokens:a", "tokens:b")),
        lambda: served(template=("tokens:a", "prompt:b")),
    ),
    "no records": Gate(
        withheld("no records"), partial(rest_without, "fast", 0), partial(rest_without, "fast", 1)
    ),
    "failures": Gate(
        withheld("failures"),
        lambda: row(spoiled(run(), 3, **FAILED)),
        lambda: row(spoiled(run(), 2, **FAILED)),
        ("gates.SURVIVORS",),
    ),
    "unlike pairs": Gate(
        withheld("unlike pairs"),
        lambda: row(spoiled(run(), 3, thinking=True)),
        lambda: row(spoiled(run(), 2, thinking=True)),
        ("gates.SURVIVORS",),
    ),
    "no pairs": Gate(withheld("no pairs"), lambda: apart(0), lambda: apart(1)),
    "no time per token": Gate(
        withheld("no time per token"),
        lambda: row(spoiled(run(), 3, chunk_times=(5.0,), chunk_tokens=(100,))),
        lambda: row(spoiled(run(), 2, chunk_times=(5.0,), chunk_tokens=(100,))),
        ("gates.SURVIVORS",),
    ),
    "buffered": Gate(withheld("buffered"), lambda: clumped(11), lambda: clumped(9), ("gates.HELD_BACK",)),
    "buffered, by the size of buffers": Gate(
        withheld("buffered"),
        lambda: row(spoiled(run(), 11, "baseline", buffer_bytes=4096)),
        lambda: row(spoiled(run(), 10, "baseline", buffer_bytes=4096)),
    ),
    "unread": Gate(
        withheld("unread"),
        lambda: row(spoiled(run(), 3, text="")),
        lambda: row(spoiled(run(), 2, text="")),
        ("gates.SURVIVORS",),
    ),
    "texts differ": Gate(
        withheld("texts differ"), lambda: tied(0.31), lambda: tied(0.29), ("parity.NEAR_TIE",)
    ),
    "texts differ, against the baseline's own repeats": Gate(
        withheld("texts differ"), lambda: early(150), lambda: early(330), ("parity.SURE",)
    ),
    "sampled": Gate(noted("sampled"), lambda: hot(0.1), lambda: hot(0.0)),
    "other distribution": Gate(
        withheld("other distribution"), lambda: drawn(0.7), lambda: drawn(1.0), ("sampled.LEVEL",)
    ),
    "loops": Gate(
        withheld("loops"),
        lambda: row(spoiled(run(temperature=0.7), 3, text=LOOP)),
        lambda: row(spoiled(run(temperature=0.7), 2, text=LOOP)),
        ("gates.SURVIVORS",),
    ),
    "loops, in a class that asks for repetition": Gate(
        withheld("loops"),
        lambda: row(spoiled(run(temperature=0.7), 20, text=LOOP)),
        lambda: row(spoiled(run(temperature=0.7, prompt_class="structured"), 20, text=LOOP)),
        ("gates.REPETITIVE",),
    ),
    "loops, at temperature 0": Gate(
        withheld("loops"),
        lambda: row(spoiled(spoiled(run(), 11, text=LOOP), 11, "baseline", text=LOOP)),
        lambda: row(spoiled(spoiled(run(), 11, text=LOOP), 10, "baseline", text=LOOP)),
    ),
    "within noise": Gate(noted("within noise"), lambda: unsteady(1.04), lambda: unsteady(1.07)),
    # What holds a decision or an advice back.
    "an estimate below the margin": Gate(
        lambda found: not found.worthwhile,
        lambda: row(run(lambda _: 1.045)),
        lambda: row(run(lambda _: 1.055)),
        ("significance.MARGIN",),
    ),
    "a bill that rises": Gate(
        lambda found: not found.worthwhile,
        lambda: row(run(lambda number: 0.25 if number % 10 == 0 else 1.3, prompts=60)),
        lambda: row(run(lambda number: 0.6 if number % 10 == 0 else 1.3, prompts=60)),
    ),
    "too few prompts": Gate(
        no_interval,
        lambda: row(run(prompts=2)),
        lambda: row(run(prompts=3)),
        ("significance.MIN_PROMPTS",),
    ),
    "too few prompts, said beforehand": Gate(
        lambda counts: too_few(counts) is not None,
        lambda: {"a": 4, "b": 3},
        lambda: {"a": 4, "b": 4},
        ("sentences.FEW_PROMPTS",),
    ),
    "too few blocks": Gate(no_interval, lambda: in_blocks(1), lambda: in_blocks(2)),
    "phases that differ too much": Gate(
        no_interval, lambda: in_phases(0.06), lambda: in_phases(0.03), ("significance.WIDEST",)
    ),
    "equal texts": Gate(
        lambda found: found.tpot.prompts < 6,
        lambda: row([replace(r, text="one answer", prompt_tokens=12) for r in run(prompts=6)]),
        lambda: row(
            [replace(r, text="one answer", prompt_tokens=12 + int(r.prompt[1:])) for r in run(prompts=6)]
        ),
    ),
    "the noise floor": Gate(
        lambda decision: decision == "undecided",
        lambda: settled(ratio(1.10, 1.06, 1.14), checked(1.101)),
        lambda: settled(ratio(1.10, 1.06, 1.14), checked(1.099)),
        ("self_check.LEVEL",),
    ),
    "a baseline that differs from itself": Gate(
        lambda decision: decision == "undecided",
        lambda: settled(ratio(1.10, 1.06, 1.14), checked(1.061, differs=True)),
        lambda: settled(ratio(1.10, 1.06, 1.14), checked(1.059, differs=True)),
    ),
    "a floor above the margin": Gate(
        lambda decision: decision == "undecided",
        lambda: settled(ratio(1.0, 0.98, 1.02), checked(1.051)),
        lambda: settled(ratio(1.0, 0.98, 1.02), checked(1.049)),
        ("significance.MARGIN",),
    ),
    "two test cases around a seam": Gate(
        lambda found: not withheld("seam")(found),
        lambda: at_seam(0.25, cases=2),
        lambda: at_seam(0.25, cases=3),
        ("seams.FEWEST_UNITS",),
    ),
    # What withholds acceptance and windows.
    "merged steps": Gate(
        has_no_acceptance,
        lambda: verdict(joined(run(), every=9, share=0.03)),
        lambda: verdict(joined(run(), every=9, share=0.015)),
        ("step_reading.MERGED_SHARE",),
    ),
    "merged steps of a plain server": Gate(
        has_no_acceptance, lambda: doubled(0.07), lambda: doubled(0.03), ("tokens_per_step.MERGED",)
    ),
    "chunks of one step": Gate(
        joins_chunks, lambda: in_bursts(10, 0.15), lambda: in_bursts(10, 0.25), ("steps.BURST",)
    ),
    "chunks of one step, too few": Gate(
        joins_chunks, lambda: in_bursts(6, 0.1), lambda: in_bursts(4, 0.1), ("steps.BURSTS",)
    ),
    "chunks of several tokens": Gate(
        lambda stream: not joins_chunks(stream),
        lambda: streamed([0.005, 0.05] * 20, [2, 1] * 5 + [1, 1] * 15),
        lambda: streamed([0.005, 0.05] * 20, [2, 1] * 4 + [1, 1] * 16),
        ("steps.MULTIPLE",),
    ),
    "chunks of one arrival": Gate(
        lambda stream: first_arrival(stream) > 0,
        lambda: streamed([0.0018, *[0.05] * 30]),
        lambda: streamed([0.0022, *[0.05] * 30]),
        ("arrivals.TOGETHER_SECONDS",),
    ),
    "chunks of one arrival in a fast stream": Gate(
        lambda stream: first_arrival(stream) > 0,
        lambda: streamed([0.0001, *[0.001] * 30]),
        lambda: streamed([0.0003, *[0.001] * 30]),
        ("arrivals.TOGETHER",),
    ),
    "an answer that came at once": Gate(
        came_at_once,
        lambda: streamed([45e-6] * 50),
        lambda: streamed([55e-6] * 50),
        ("arrivals.FASTEST",),
    ),
    # What follows texts along the baseline.
    "a gap too large": Gate(
        differs, lambda: followed([0.31]), lambda: followed([0.29]), ("parity.NEAR_TIE",)
    ),
    "a gap too large for fine log-probabilities": Gate(
        differs,
        lambda: followed([0.11], rounding=0.0),
        lambda: followed([0.09], rounding=0.0),
        ("walk.FINE_TIE",),
    ),
    "a gap too large for the reference's own rounding": Gate(
        differs,
        lambda: followed([0.17], rounding=0.03),
        lambda: followed([0.17], rounding=0.04),
        ("rejoined.ROUNDINGS",),
    ),
    "a gap too large for any rounding": Gate(
        differs,
        lambda: followed([0.31], rounding=0.25),
        lambda: followed([0.29], rounding=0.25),
        ("parity.NEAR_TIE",),
    ),
    "coarse log-probabilities": Gate(
        bool, lambda: on_grid(1 / 32, 1e-4), lambda: on_grid(1 / 32, 4e-4), ("walk._UNEVEN",)
    ),
    "coarse log-probabilities, by their grid": Gate(
        bool, lambda: on_grid(1 / 32, 0.0), lambda: on_grid(1 / 64, 0.0), ("walk._GRIDS",)
    ),
    "gaps too large in sum": Gate(
        differs, lambda: followed([0.21] * 5), lambda: followed([0.19] * 5), ("rejoined.MOST_GAP",)
    ),
    "gaps too large in sum, of few tokens": Gate(
        differs,
        lambda: followed([0.21] * 5, tokens=300),
        lambda: followed([0.19] * 5, tokens=300),
        ("rejoined.ENOUGH",),
    ),
    "swaps too often": Gate(
        differs,
        lambda: followed([0.01] * 16),
        lambda: followed([0.01] * 14),
        ("rejoined.RIGHT_RATE", "rejoined.LEVEL"),
    ),
    "swaps too often, without log-probabilities": Gate(
        differs, lambda: followed([None] * 16), lambda: followed([None] * 14), ("rejoined.RIGHT_RATE",)
    ),
    "swaps more often than the baseline's own": Gate(
        differs,
        lambda: followed([None] * 9, own=2),
        lambda: followed([None] * 7, own=2),
        ("parity.SURE",),
    ),
    "a token that is not among the likeliest": Gate(
        differs, lambda: followed([OUTSIDE]), lambda: followed([None]), ("walk.OUTSIDE",)
    ),
    "few tokens followed": Gate(
        lambda found: "fewer than 1000 tokens" in found.says,
        lambda: followed([], tokens=999),
        lambda: followed([], tokens=1000),
        ("rejoined.ENOUGH",),
    ),
    "a scorer of another model": Gate(
        lambda found: found.state == "not judged", lambda: scored_by(0.31), lambda: scored_by(0.29)
    ),
    "texts that part sooner": Gate(
        lambda rates: sooner(*rates), lambda: (9, 800, 2, 800), lambda: (8, 800, 2, 800), ("parity.SURE",)
    ),
    "nothing to compare": Gate(
        lambda pairs: parity(pairs, []).state == "not judged",
        list,
        lambda: row_pairs(),
    ),
    # What a loop is.
    "a loop": Gate(loops, lambda: repeated(" and so on", 60, 600), lambda: repeated(" and so on", 59, 600)),
    "a refrain": Gate(
        loops,
        lambda: "x" * 10 + (". " + answer(3, 30)) * 8,
        lambda: answer(2, 90) + (". " + answer(3, 30)) * 3,
        ("loops.TIMES", "loops.SHARE"),
    ),
    "a short answer": Gate(
        lambda text: not loops(text), lambda: "no" * 19, lambda: "no" * 20, ("loops.SHORTEST",)
    ),
    # What short answers and tasks show.
    "too few short answers": Gate(
        lambda test: test.state == "cannot tell",
        lambda: short(60),
        lambda: short(600),
        ("sampled.ENOUGH_POWER", "sampled.COLDER"),
    ),
    "wrong answers": Gate(
        lambda test: test.state == "worse",
        lambda: wrong_tasks(6),
        lambda: wrong_tasks(5),
        ("quality.LEVEL",),
    ),
}


def row_pairs() -> list[Any]:
    from specdec.analysis.pairing import pairs

    records = run(prompts=1)
    return list(pairs(records[:1], records[1:]))


ROOMS = (
    "specdec/analysis/gates.py",
    "specdec/analysis/loops.py",
    "specdec/analysis/pairing.py",
    "specdec/analysis/parity.py",
    "specdec/analysis/quality.py",
    "specdec/analysis/rejoined.py",
    "specdec/analysis/rows.py",
    "specdec/analysis/sampled.py",
    "specdec/analysis/seams.py",
    "specdec/analysis/self_check.py",
    "specdec/analysis/sentences.py",
    "specdec/analysis/significance.py",
    "specdec/analysis/step_reading.py",
    "specdec/metrics/arrivals.py",
    "specdec/metrics/steps.py",
    "specdec/metrics/tokens_per_step.py",
    "specdec/rejoin/walk.py",
)
"""Where limits of gates stand. What holds over several loads is in ``test_load.py``, the window's choice in
``test_window_model.py``.
"""

NO_GATES = {
    "walk.PLAIN_GAP": "saves a request: a gap above it is above every limit",
    "walk._FEWEST": "where fewer are listed the widest limit holds, see test_rejoin.py",
    "walk._LIKELIEST": "tokens that are compared",
    "loops._COMPRESSED": "a short cut: what compresses less is no loop by the period either",
    "pairing._WHOLE": "1, but for rounding",
    "parity.SHOWN": "characters of a text that are shown",
    "sampled.PLACES": "size of the test",
    "sampled.LEAST_EXPECTED": "pools cells, decides nothing",
    "sampled.SHUFFLES": "size of the test",
    "sampled.POWER_ROUNDS": "size of the test",
    "sampled.SEED": "a seed",
    "sampled._PIECE": "cuts a text into words",
    "sentences.NAMED_CHANGES": "words",
    "sentences._PRICE": "words",
    "significance.JOINT_LEVEL": "held by simulation: docs/verdict.md",
    "significance.POWER": "plans a later run",
    "significance.SEED": "a seed",
    "significance.RESAMPLES": "size of the bootstrap",
    "significance._AT_ONCE": "memory",
    "significance._KEPT": "memory",
    "significance.MOST_REPEATS": "plans a later run",
    "significance.FEW_BLOCKS": "chooses between two intervals that both hold",
    "step_reading.BURST_SHARE": "names the source of steps",
    "tokens_per_step.TOKENS_PER_STEP": "a metric",
    "walk.MOST_SWAPS": "ends a walk that is told already",
}
"""Constants in these rooms that let nothing pass and hold nothing back, each with the reason."""


@pytest.mark.parametrize("name", GATES)
def test_it_catches_its_run_and_lets_the_near_miss_pass(name: str) -> None:
    gate = GATES[name]
    assert gate.catches(gate.caught())
    assert not gate.catches(gate.passed())


def test_every_reason_has_its_line() -> None:
    assert set(get_args(ReasonCode)) <= GATES.keys()


def limits() -> set[str]:
    found: set[str] = set()
    for path in ROOMS:
        for node in ast.parse((ROOT / path).read_text(encoding="utf-8")).body:
            targets = node.targets if isinstance(node, ast.Assign) else []
            names = [name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]
            found |= {f"{Path(path).stem}.{name}" for name in names if name.isupper()}
    return found


def test_every_limit_has_its_line() -> None:
    claimed = {limit for gate in GATES.values() for limit in gate.limits}
    assert limits() == claimed | NO_GATES.keys()
    assert not claimed & NO_GATES.keys()


def test_the_page_names_every_reason_that_withholds() -> None:
    page = (ROOT / "docs" / "verdict.md").read_text(encoding="utf-8")
    table = page.split("## What withholds a row")[1].split("\n## ")[0]
    never = {"sampled", "within noise"}
    missing = [code for code in get_args(ReasonCode) if code not in table and code not in never]
    assert missing == []
