"""The baseline against itself inside a run: which requests, how they are kept, and what must not see them."""

import asyncio
import threading
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from specdec.analysis.judge import judge
from specdec.analysis.verdict import Comparison, Verdict
from specdec.benchmark.announcement import announcement, seconds
from specdec.benchmark.load import SELF_CHECK as SECOND_ARM
from specdec.benchmark.load import blocks, self_check_requests
from specdec.benchmark.plan import Plan
from specdec.benchmark.self_check import Candidate, chosen
from specdec.benchmark.standing import Standing
from specdec.benchmark.summary import summarize
from specdec.cli import cli
from specdec.errors import BadInputError
from specdec.forecast.answers import Sources
from specdec.forecast.run_answers import read_run_answers
from specdec.golden.server import GoldenServer
from specdec.golden.settings import Settings
from specdec.report.table_of_requests import as_csv
from specdec.runs.folder import read_run
from specdec.runs.manifest import MANIFEST
from specdec.runs.record import EXACT, SELF_CHECK, RequestRecord
from specdec.runs.unfinished import read_unfinished

from .conftest import MakePlan, Measure, Start

pytestmark = pytest.mark.alone

TWO = {"baseline": "http://a", "speculative": "http://b"}
THREE = {**TWO, "other": "http://c"}


def without(order: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(index for index in order if index != SECOND_ARM)


@pytest.mark.parametrize("urls", [TWO, THREE])
@pytest.mark.parametrize(
    "fields",
    [
        {"repeats": 1, "concurrency": 2},
        {"repeats": 2, "concurrency": 4},
        {"repeats": 3, "concurrency": 1},
        {"repeats": 2, "loads": (1, 3)},
        {"repeats": 6, "arrival": "poisson", "rate": 3.0},
    ],
)
def test_the_second_arm_changes_nothing_of_the_others(
    urls: dict[str, str], fields: dict[str, Any], make_plan: MakePlan
) -> None:
    plain = make_plan(urls, count=16, cases=4, **fields)
    checked = replace(plain, self_check=0.5)
    pairs = list(zip(blocks(plain), blocks(checked), strict=True))
    assert [(own.jobs, own.order) for own, _ in pairs] == [(b.jobs, without(b.order)) for _, b in pairs]
    assert any(SECOND_ARM in block.order for _, block in pairs)
    assert checked.total == plain.total + plain.warmup + self_check_requests(checked)


def test_no_prompt_is_read_for_the_others_by_the_second_arm(make_plan: MakePlan) -> None:
    """A server may keep what it read of a prompt, so that who asks it second has it easier."""
    places: Counter[str] = Counter()
    for seed in range(1, 9):
        plan = make_plan(TWO, count=16, cases=4, repeats=2, concurrency=2, self_check=0.25, seed=seed)
        asked: set[str] = set()
        for block in blocks(plan):
            prompts = {job.prompt.id for job in block.jobs}
            if SECOND_ARM in block.order:
                first = block.order[0] == SECOND_ARM
                places["first" if first else "last"] += 1
                assert prompts <= asked if first else block.order[-1] == SECOND_ARM
                assert abs(block.order.index(0) - block.order.index(SECOND_ARM)) == 2
            asked |= prompts
    # A drift falls on both arms alike.
    assert places["first"] == places["last"]


@pytest.mark.parametrize(
    ("count", "share", "checked"),
    [
        (64, 0.25, 16),
        (8, 0.25, 4),  # at least four, but no more than half
        (6, 0.25, 3),
        (5, 0.25, 0),  # two would tell nothing
        (4, 1.0, 4),
        (100, 0.01, 4),
        (100, 0.0, 0),
    ],
)
def test_a_modest_share_and_enough_to_tell(count: int, share: float, checked: int) -> None:
    candidates = [
        Candidate(number % 2, 2, f"case {number % 3}", number >= count / 2) for number in range(count)
    ]
    places = chosen(candidates, share, 1)
    assert len(places) == checked
    # Spread over the run: every equal part of it has one.
    assert {number * checked // count for number in places} == set(range(checked))
    for number, place in places.items():
        assert candidates[number].allows(place) or share == 1


def test_it_is_said_and_counted_before_the_run(make_plan: MakePlan) -> None:
    plan = make_plan(TWO, count=16, repeats=2, concurrency=1, self_check=0.25)
    assert "8 requests of it measure baseline against itself" in announcement(plan)
    bare = replace(plan, self_check=0.0)
    assert "itself" not in announcement(bare)
    assert seconds(plan, 0.01) / seconds(bare, 0.01) == pytest.approx(2.25 / 2)


@pytest.mark.parametrize("share", [-0.1, 1.5, float("nan")])
def test_a_share_is_a_share(share: float, make_plan: MakePlan) -> None:
    with pytest.raises(BadInputError, match="is no share"):
        make_plan(TWO, self_check=share)


def test_only_variants_that_take_turns_are_checked(make_plan: MakePlan) -> None:
    with pytest.raises(BadInputError, match="take turns"):
        make_plan(TWO, self_check=0.25, schedule="concurrent")


def test_one_target_alone_is_not_checked(make_plan: MakePlan) -> None:
    plan = make_plan({"baseline": "http://a"}, count=16, concurrency=1, self_check=0.25)
    assert plan.total == 16 * plan.repeats + plan.warmup


FAST = Settings(ttft=0.005, step=0.002)
FASTER = replace(FAST, step=0.001)


def checked_plan(make_plan: MakePlan, urls: dict[str, str], **fields: Any) -> Plan:
    return make_plan(
        urls, **{"count": 8, "cases": 2, "concurrency": 1, "warmup": 1, "self_check": 0.25, **fields}
    )


def test_its_requests_are_kept_apart(
    start: Start, make_plan: MakePlan, measure: Measure, tmp_path: Path
) -> None:
    server, base = start(FAST)
    _, fast = start(FASTER)
    plan = checked_plan(make_plan, {"baseline": base, "speculative": fast}, repeats=1)
    manifest, records = measure(plan)
    again = [record for record in records if record.lane == SELF_CHECK]
    assert Counter((r.variant, r.warmup, r.outcome) for r in again) == {
        ("baseline", False, "ok"): 4,
        ("baseline", True, "ok"): 1,
    }
    assert len(server.truths) == 8 + 1 + 4 + 1
    assert len(records) == plan.total
    assert manifest.counts == {"baseline": {"ok": 8}, "speculative": {"ok": 8}}
    assert manifest.environment["load"]["self_check"] == 0.25


@pytest.fixture
def stored(start: Start, make_plan: MakePlan, tmp_path: Path) -> Path:
    """A run with a self-check."""
    from specdec.benchmark.run import run

    _, base = start(FAST)
    _, fast = start(FASTER)
    plan = checked_plan(make_plan, {"baseline": base, "speculative": fast}, repeats=1)
    run(plan, tmp_path / plan.run)
    return tmp_path / plan.run


def test_nobody_takes_the_second_arm_for_a_variant_or_for_the_baseline(stored: Path) -> None:
    run = read_run(stored)
    bare = replace(run, records=tuple(record for record in run.records if record.lane == EXACT))
    verdict, plain = (judge(own.manifest, own.records) for own in (run, bare))
    assert verdict.self_check is not None
    assert plain.self_check is None
    assert verdict.measurements == plain.measurements
    assert [row.tpot for row in verdict.comparisons] == [row.tpot for row in plain.comparisons]
    assert verdict.windows == plain.windows
    summary = summarize(run.manifest, stored)
    assert summary["variants"]["baseline"]["all"]["outcomes"] == {"ok": 8}
    standing, alone = Standing(), Standing()
    for record in run.records:
        standing.add(record)
    for record in bare.records:
        alone.add(record)
    assert str(standing) == str(alone)
    lanes = Counter(line.split(",")[1] for line in as_csv(run).splitlines()[1:])
    assert lanes == {EXACT: 16, SELF_CHECK: 4}


def test_answers_for_a_forecast_are_taken_once(stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from specdec.prompts.sets import Prompt

    run = read_run(stored)
    known = [
        Prompt(id=r.prompt, test_case=r.test_case, prompt_class="open", text="t")
        for r in run.records
        if not r.warmup and r.variant == "baseline" and r.lane == EXACT
    ]

    def shipped(_name: str, *, base: Path | None) -> list[Prompt]:
        assert base is None
        return known

    monkeypatch.setattr("specdec.forecast.run_answers.load", shipped)
    sources = Sources()
    # The second arm's answers alone would be four.
    read_run_answers(run, sources)
    assert len(sources.answers) == 8


def test_a_killed_run_counts_it_apart(stored: Path) -> None:
    (stored / MANIFEST).unlink()
    assert read_unfinished(stored).manifest.counts == {"baseline": {"ok": 8}, "speculative": {"ok": 8}}


class Warming(GoldenServer):
    """A server that gives whoever connects first better times, as long as it runs."""

    def __init__(self, settings: Settings, *, favoured: int, others: float) -> None:
        super().__init__(settings)
        self._favoured = favoured
        self._plain, self._slow = settings, replace(settings, step=settings.step * others)
        self._known: list[asyncio.StreamWriter] = []

    async def _completion(
        self, writer: asyncio.StreamWriter, body: dict[str, Any], read: float, *, chat: bool
    ) -> None:
        if writer not in self._known:
            self._known.append(writer)
        self.settings = self._plain if self._known.index(writer) < self._favoured else self._slow
        await super()._completion(writer, body, read, chat=chat)


@contextmanager
def serving(*servers: GoldenServer) -> Generator[list[str]]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield [asyncio.run_coroutine_threadsafe(server.start(), loop).result(10) for server in servers]
    for server in servers:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
    loop.close()


def biased(make_plan: MakePlan, measure: Measure, others: float) -> tuple[Comparison, Verdict]:
    """One service under two names, of which the first to connect is served faster."""
    settings = Settings(ttft=0.01, step=0.005)
    ours = Warming(settings, favoured=1, others=others)
    theirs = Warming(settings, favoured=0, others=others)
    with serving(ours, theirs) as (base, other):
        urls = {"baseline": base, "again": other}
        plan = checked_plan(make_plan, urls, cases=1, output_tokens=25, self_check=0.5)
        manifest, records = measure(plan)
    verdict = judge(manifest, records)
    (row,) = verdict.comparisons
    return row, verdict


def test_what_the_first_connection_gains_is_no_verdict(make_plan: MakePlan, measure: Measure) -> None:
    row, verdict = biased(make_plan, measure, others=1.3)
    assert row.tpot is not None
    assert row.tpot.interval is not None
    assert row.tpot.interval.high < 1  # the interval alone would say that it hurts
    assert row.decision == "undecided"
    assert "within noise" in [reason.code for reason in row.reasons]
    assert "differs from itself" in row.says
    check = verdict.self_check
    assert check is not None
    assert check.floor is not None
    assert check.floor > 1.2
    assert {summary.decision for summary in verdict.classes} <= {"undecided"}


def test_a_fair_server_keeps_its_verdict(make_plan: MakePlan, measure: Measure) -> None:
    slow, quick = (GoldenServer(Settings(ttft=0.01, step=step)) for step in (0.005, 0.001))
    with serving(slow, quick) as (base, fast):
        plan = checked_plan(make_plan, {"baseline": base, "fast": fast}, cases=1, output_tokens=25)
        manifest, records = measure(plan)
    verdict = judge(manifest, records)
    (row,) = verdict.comparisons
    assert verdict.self_check is not None
    assert row.floor is not None
    assert row.floor >= (verdict.self_check.floor or 0) > 1
    assert row.decision == "helps"


def test_a_baseline_that_fails_its_second_arm_has_no_floor(make_plan: MakePlan, measure: Measure) -> None:
    """What the second arm cannot tell takes nothing from the rows."""
    with serving(GoldenServer(FAST), GoldenServer(FASTER)) as (base, fast):
        plan = checked_plan(make_plan, {"baseline": base, "fast": fast}, cases=1, repeats=1)
        manifest, records = measure(plan)

    def failed(record: RequestRecord) -> RequestRecord:
        gone = record.lane == SELF_CHECK
        return replace(record, outcome="cut", error="gone") if gone else record

    verdict = judge(manifest, [failed(record) for record in records])
    assert verdict.self_check is not None
    assert (verdict.self_check.ok, verdict.self_check.floor) == (0, None)
    assert "not known" in verdict.self_check.says
    assert verdict.comparisons[0].decision == "helps"


def test_bench_checks_itself_unless_told_otherwise(start: Start, tmp_path: Path) -> None:
    _, base = start(FAST)
    _, fast = start(FASTER)
    prompts = tmp_path / "p.txt"
    prompts.write_text("".join(f"Tell me {n} things.\n" for n in range(8)))

    def lanes(*more: str) -> Counter[str]:
        out = tmp_path / f"runs{len(more)}{''.join(more)}"
        options = ["--prompts", str(prompts), "--output-tokens", "8", "--concurrency", "1", "--repeats", "1"]
        result = CliRunner().invoke(
            cli, ["bench", "--target", base, "--target", fast, *options, "--out", str(out), *more]
        )
        assert result.exit_code == 0, result.output
        (folder,) = out.iterdir()
        return Counter(record.lane for record in read_run(folder).records if not record.warmup)

    assert lanes() == {EXACT: 16, SELF_CHECK: 4}
    assert lanes("--self-check", "1") == {EXACT: 16, SELF_CHECK: 8}
    assert lanes("--self-check", "0") == {EXACT: 16}
    assert lanes("--schedule", "concurrent") == {EXACT: 16}
