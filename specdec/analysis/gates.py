"""The gates that a row must pass for its speed to count. Each reason says what is wrong and what to do about
it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median

from specdec.analysis.loops import loops
from specdec.analysis.pairing import Pair
from specdec.analysis.sampled import SampledTest
from specdec.analysis.verdict import Parity, Reason, Side
from specdec.metrics.arrivals import tokens_per_arrival
from specdec.metrics.tpot import tpot
from specdec.runs.record import RequestRecord
from specdec.runs.remembered import remembered

SURVIVORS = 0.9
"""Share of a side's requests, and of the pairs, that must be fit to use: with more missing, what is left may
be the easy part."""

HELD_BACK = 1.5
"""Tokens of a plain variant per arrival above which something holds tokens back: with every second token
still on its own, a late read here and there is left alone."""

REPETITIVE = "structured"
"""Class of prompts that ask for repetition, so that an answer which repeats one piece is no loop."""


def unlike(pair: Pair) -> tuple[str, ...]:
    """The fields in which the requests of a pair differ although only the variant may differ. Such a pair
    compares two different tasks.
    """
    ours, theirs = pair.baseline, pair.variant
    fields = ["temperature", "thinking", "requested_tokens"]
    if ours.prompt_tokens is not None and theirs.prompt_tokens is not None:
        fields.append("prompt_tokens")
    # Where the server may end an answer, its length is the model's choice.
    fixed = ours.requested_tokens is not None and theirs.requested_tokens is not None
    if fixed and ours.output_tokens is not None and theirs.output_tokens is not None:
        fields.append("output_tokens")
    return tuple(name for name in fields if getattr(ours, name) != getattr(theirs, name))


def unread(record: RequestRecord) -> bool:
    """Whether tokens were counted whose text was not read: all of them, or a part that the client named."""
    return record.unread is not None or (bool(record.output_tokens) and not record.text)


@remembered
def _ends_in_loop(record: RequestRecord) -> bool:
    return loops(record.text)


def side_of(requests: Sequence[RequestRecord]) -> Side:
    """The outcomes of one side's requests.

    Args:
        requests: all of one variant on one test case, failed ones too, warm-up left out.
    """
    ok = [record for record in requests if record.outcome == "ok"]
    return Side(
        requests=len(requests),
        ok=len(ok),
        loops=sum(map(_ends_in_loop, ok)),
        outcomes=tuple(sorted(Counter(record.outcome for record in requests).items())),
    )


def reasons(
    *,
    names: tuple[str, str],
    sides: tuple[Side, Side],
    prompt_class: str,
    alike: Sequence[Pair],
    apart: Sequence[tuple[Pair, tuple[str, ...]]],
    parity: Parity,
    models: tuple[str | None, str | None],
    same_server: bool,
    complete: bool,
    shift: str | None = None,
    sampled: SampledTest | None = None,
    templates: tuple[str | None, str | None] = (None, None),
) -> Iterator[Reason]:
    """Why a row does not count, or counts with a note.

    Args:
        names: of the baseline and the variant.
        sides: see ``side_of``, in the same order.
        prompt_class: of the test case.
        alike: the pairs that are averaged.
        apart: the pairs that differ in more than the variant, and in what.
        parity: of the texts.
        models: that either served.
        same_server: whether both names are one address.
        complete: whether the run ended as planned.
        shift: how the ratio changed where the run was interrupted and resumed; None where it did not.
        templates: what either makes of a conversation, where it tells.
        sampled: the test of short answers at the pairs' temperature, where there was one.
    """
    if not complete:
        yield Reason("unfinished", True, "the run did not end as planned")
    if shift is not None:
        yield Reason("seam", True, shift)
    if same_server:
        yield Reason(
            "same server",
            True,
            f"{' and '.join(names)} are one server, so the ratio shows nothing but noise",
        )
    elif None not in models and models[0] != models[1]:
        yield Reason(
            "other model",
            True,
            f"{names[0]} serves {models[0]} and {names[1]} {models[1]}; serve one target under one name",
        )
    if other_template(templates):
        yield Reason(
            "other template",
            True,
            f"{names[0]} and {names[1]} make different prompts of one conversation; serve both with one chat"
            " template",
        )
    missing = [name for name, side in zip(names, sides, strict=True) if not side.requests]
    if missing:
        yield Reason("no records", True, f"{' and '.join(missing)} has no request here")
        return
    yield from _survivors(names, sides)
    yield from _pairs(alike, apart)
    yield from _texts(alike, parity)
    hot = temperature(alike)
    yield from _sampled(hot, sampled)
    yield from _loops(names, sides, prompt_class, hot=hot)


def other_template(templates: tuple[str | None, str | None]) -> bool:
    """Whether both servers report their templates in the same form, text or token ids, and the two differ."""
    ours, theirs = templates
    return bool(ours and theirs and ours.partition(":")[0] == theirs.partition(":")[0] and ours != theirs)


def _survivors(names: tuple[str, str], sides: tuple[Side, Side]) -> Iterator[Reason]:
    for name, side in zip(names, sides, strict=True):
        if side.ok < side.requests:
            kinds = ", ".join(f"{count} {kind}" for kind, count in side.outcomes if kind != "ok")
            few = side.ok < SURVIVORS * side.requests
            says = f"{side.requests - side.ok} of {side.requests} requests to {name} failed ({kinds})"
            yield Reason("failures", few, f"{says}; at least 90% must succeed" if few else says)


def _pairs(alike: Sequence[Pair], apart: Sequence[tuple[Pair, tuple[str, ...]]]) -> Iterator[Reason]:
    if apart:
        total = len(alike) + len(apart)
        fields = Counter(name for _, names in apart for name in names)
        named = ", ".join(name.replace("_", " ") for name in fields)
        few = len(alike) < SURVIVORS * total
        yield Reason("unlike pairs", few, f"{len(apart)} of {total} pairs differ in {named} and are left out")
    if alike:
        timed = sum(tpot(pair.baseline) is not None and tpot(pair.variant) is not None for pair in alike)
        if not timed:
            yield Reason(
                "no time per token", True, _untimed([r for p in alike for r in (p.baseline, p.variant)])
            )
        elif timed < SURVIVORS * len(alike):
            yield Reason(
                "no time per token", True, f"only {timed} of {len(alike)} pairs have a time per token"
            )
        yield from _held_back([pair.baseline for pair in alike])
    elif not apart:
        yield Reason("no pairs", True, "no prompt was answered on both sides")


def _held_back(plain: Sequence[RequestRecord]) -> Iterator[Reason]:
    """Whether tokens of a plain variant, which are made one by one, come several at a time: then a proxy, the
    server or the client holds them back, and what a user would see of either variant cannot be told.
    """
    sizes = Counter(record.buffer_bytes for record in plain if record.buffer_bytes is not None)
    if 2 * sizes.total() > len(plain):
        size = sizes.most_common(1)[0][0]
        yield Reason("buffered", True, f"answers come in buffers of {size} bytes; measure without the proxy")
        return
    together = [value for value in map(tokens_per_arrival, plain) if value is not None]
    if together and median(together) > HELD_BACK:
        says = f"{median(together):.1f} tokens of the plain variant come at a time"
        yield Reason("buffered", True, f"{says}: buffering on the way, in the server, or a busy client")


def _untimed(records: Sequence[RequestRecord]) -> str:
    missing = [record for record in records if tpot(record) is None]
    if all(record.output_tokens is None for record in missing):
        return "the server counts no tokens, so there is no time per token"
    if all(len(set(record.chunk_times)) < 2 for record in missing):
        return "the answer came at once, so there is no time per token"
    return "tokens cannot be matched with times, so there is no time per token"


def temperature(alike: Sequence[Pair]) -> float:
    """The highest that pairs were sampled at."""
    return max((pair.baseline.temperature for pair in alike), default=0.0)


def _sampled(hot: float, sampled: SampledTest | None) -> Iterator[Reason]:
    if not hot:
        return
    if sampled is None:
        yield Reason("sampled", False, f"sampled at temperature {hot:g}, where texts cannot agree")
    elif sampled.state == "differs":
        yield Reason("other distribution", True, sampled.says)
    else:
        yield Reason("sampled", False, sampled.says)


def _texts(alike: Sequence[Pair], parity: Parity) -> Iterator[Reason]:
    silent = sum(unread(pair.baseline) or unread(pair.variant) for pair in alike)
    if silent:
        few = len(alike) - silent < SURVIVORS * len(alike)
        yield Reason("unread", few, f"{silent} of {len(alike)} pairs have tokens counted and no text read")
    if parity.state == "differs":
        yield Reason("texts differ", True, "the texts differ, and nothing explains it")


def _loops(
    names: tuple[str, str], sides: tuple[Side, Side], prompt_class: str, *, hot: float
) -> Iterator[Reason]:
    if prompt_class == REPETITIVE:
        return
    mostly = all(2 * side.loops > side.ok for side in sides)
    for name, side in zip(names, sides, strict=True):
        if side.loops:
            withheld = side.ok - side.loops < SURVIVORS * side.ok if hot > 0 else mostly
            hint = "; if the prompts ask for that, give them the class structured" if withheld else ""
            says = f"{side.loops} of {side.ok} answers of {name} end in a loop{hint}"
            yield Reason("loops", withheld, says)
