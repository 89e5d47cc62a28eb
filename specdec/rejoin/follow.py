"""Follows the texts of a stored run that part from the baseline's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from specdec.rejoin.api import Api
from specdec.rejoin.servers import Asked, reference
from specdec.rejoin.store import Followed
from specdec.rejoin.walk import Walk, walk
from specdec.runs.folder import Run
from specdec.runs.record import RequestRecord


@dataclass(frozen=True, slots=True)
class Part:
    """One pair whose texts part.

    Attributes:
        baseline, variant: its requests.
    """

    baseline: RequestRecord
    variant: RequestRecord


def parts(records: Sequence[RequestRecord], baselines: Sequence[str], variants: Sequence[str]) -> list[Part]:
    """Greedy pairs of the first baseline and each variant whose texts part, each text once: repeats that say
    the same need not be followed again.
    """
    first = next((name for name in baselines), None)
    greedy = [r for r in records if r.outcome == "ok" and not r.warmup and r.temperature == 0 and r.text]
    own = {(r.test_case, r.prompt, r.repeat): r for r in greedy if r.variant == first and r.lane == "exact"}
    chosen: dict[tuple[str, str, str, str], Part] = {}
    for record in greedy:
        key = record.test_case, record.prompt, record.repeat
        base = own.get(key)
        if record.variant in variants and base is not None and base.text != record.text:
            chosen.setdefault(
                (record.variant, record.test_case, record.prompt, record.text), Part(base, record)
            )
    return list(chosen.values())


def pending_of(run: Run) -> list[Part]:
    """The pairs of a run whose greedy texts part, see ``parts``."""
    roles = {variant: facts.get("role") for variant, facts in run.manifest.variants.items()}
    baselines = [variant for variant, role in roles.items() if role == "baseline"]
    return parts(run.records, baselines, [variant for variant in roles if variant not in baselines[:1]])


def follow(
    pending: Sequence[Part],
    asked: Callable[[RequestRecord], Asked],
    api: Api,
    *,
    scorer: bool,
    stop: Callable[[], bool] = lambda: False,
    on_progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Iterator[Followed]:
    """Follows each text, one at a time, and yields it when it is done: ending the iterator loses nothing.

    The variant's text is followed along the reference. Where that tells no log-probabilities, the baseline's
    own text is followed too, from a third and from two thirds of it: what another batch does to the baseline
    itself. On a scorer it is followed whole, since only a scorer that the baseline agrees with is one.

    Args:
        pending: see ``parts``.
        asked: what was asked for a record.
        api: the server: the baseline's own, or a scorer of the same target.
        scorer: whether it is a scorer.
        stop: asked before each text whether to follow no more of them.
        on_progress: told how many of how many are done.
    """
    owned: set[tuple[str, str]] = set()
    for number, part in enumerate(pending):
        if stop():
            return
        on_progress(number, len(pending))
        server = reference(api, asked(part.variant))
        own = walk(server, part.variant.text)
        yield _followed(part.variant, part.baseline.variant, api, own, scorer=scorer)
        key = part.baseline.test_case, part.baseline.prompt
        blind = any(swap.gap is None for swap in own.swaps)
        if (scorer or blind) and key not in owned:
            owned.add(key)
            pieces = len(server.cut(part.baseline.text))
            cuts = (0, pieces) if scorer else (0, pieces // 3, 2 * pieces // 3, pieces)
            legs = [walk(server, part.baseline.text, start=start, end=end) for start, end in pairwise(cuts)]
            joined = Walk(sum(leg.tokens for leg in legs), tuple(swap for leg in legs for swap in leg.swaps))
            yield _followed(part.baseline, part.baseline.variant, api, joined, scorer=scorer)
    on_progress(len(pending), len(pending))


def _followed(record: RequestRecord, against: str, api: Api, own: Walk, *, scorer: bool) -> Followed:
    return Followed(
        variant=record.variant,
        against=against,
        test_case=record.test_case,
        prompt=record.prompt,
        repeat=record.repeat,
        reference=api.url,
        scorer=scorer,
        walk=own,
    )


def asked_of(
    prompts: Mapping[str, tuple[tuple[str, str], ...]], model: str | None
) -> Callable[[RequestRecord], Asked]:
    """What was asked for a record, from (role, content) of each message by prompt id.

    Raises:
        KeyError: when called for a prompt that is not among them.
    """

    def asked(record: RequestRecord) -> Asked:
        return Asked(
            messages=prompts[record.prompt],
            fixed_length=record.requested_tokens is not None,
            thinking=record.thinking,
            model=model,
        )

    return asked
