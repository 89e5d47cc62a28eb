"""Cross-checks of an experiment: pairs of fields that cannot go together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from specdec.catalog.chips import WITHOUT_RESERVATION
from specdec.catalog.images import STACKS
from specdec.catalog.offers import OFFERS
from specdec.errors import Mistake
from specdec.experiment.loads import load_mistakes
from specdec.experiment.models import with_own
from specdec.experiment.phases import sequential_mistakes
from specdec.experiment.registry import check
from specdec.prompts.long import LENGTHS

if TYPE_CHECKING:
    from specdec.experiment.fields import Benchmark, Capacity, Guards, ModelFacts, Placement, Serving, Variant


@check
def _one_baseline(variants: tuple[Variant, ...]) -> Iterator[Mistake]:
    if all(variant.speculative for variant in variants):
        yield Mistake(
            "variants",
            [v.name for v in variants],
            "no variant decodes without a draft",
            "Add one without mode, draft and window",
        )
    for field in ("name", "service"):
        values = [getattr(variant, field) for variant in variants]
        for value in sorted({value for value in values if values.count(value) > 1}):
            yield Mistake(f"variants.{field}", value, "is used twice", "Give each variant its own")


@check
def _speculation_is_whole(variants: tuple[Variant, ...]) -> Iterator[Mistake]:
    for index, variant in enumerate(variants):
        fields = {"mode": variant.mode, "draft": variant.draft, "window": variant.window}
        missing = [field for field, value in fields.items() if value is None]
        if 0 < len(missing) < 3:
            for field in missing:
                yield Mistake(
                    f"variants[{index}].{field}",
                    None,
                    "is missing, and other speculation fields are set",
                    "Set mode, draft and window, or none",
                )


@check
def _tokenizers_match(
    serving: Serving, variants: tuple[Variant, ...], models: Mapping[str, ModelFacts]
) -> Iterator[Mistake]:
    known = with_own(models)
    target = known.get(serving.target)
    choices = f'Use one of {", ".join(known)}, or describe it in [models."<id>"]'
    if target is None:
        yield Mistake("serving.target", serving.target, "is not in the model catalogue", choices)
        return
    for index, variant in enumerate(variants):
        if variant.draft is None:
            continue
        draft = known.get(variant.draft)
        field = f"variants[{index}].draft"
        if draft is None:
            yield Mistake(field, variant.draft, "is not in the model catalogue", choices)
            continue
        alike = [
            m.id
            for m in known.values()
            if m.tokenizer == target.tokenizer and m.parameters < target.parameters
        ]
        if (draft.tokenizer, draft.vocabulary) != (target.tokenizer, target.vocabulary):
            yield Mistake(
                field,
                variant.draft,
                f"has tokenizer {draft.tokenizer} with {draft.vocabulary} entries, the target {target.id} has"
                f" {target.tokenizer} with {target.vocabulary}; verification compares token ids",
                f"Use a draft with the target's tokenizer: {', '.join(alike)}",
            )
        elif draft.parameters >= target.parameters:
            yield Mistake(
                field, variant.draft, "is not smaller than the target", f"Use one of {', '.join(alike)}"
            )


@check
def _lengths_fit(
    serving: Serving, variants: tuple[Variant, ...], models: Mapping[str, ModelFacts]
) -> Iterator[Mistake]:
    target, stack = with_own(models).get(serving.target), STACKS.get(serving.stack)
    if target and serving.max_model_len > target.max_positions:
        yield Mistake(
            "serving.max_model_len",
            serving.max_model_len,
            f"is more than the {target.max_positions} positions of {target.id}",
            "Lower it",
        )
    for index, variant in enumerate(variants):
        if stack and variant.window is not None and variant.window < stack.convention.smallest:
            yield Mistake(
                f"variants[{index}].window",
                variant.window,
                f"emits one token per step on {stack.name}, where a step emits up to"
                f" {stack.convention.limit}, so the draft would gain nothing",
                f"Use {stack.convention.smallest} or more",
            )


@check
def _placement(
    regions: tuple[str, ...], capacity: Capacity, placement: dict[str, Placement]
) -> Iterator[Mistake]:
    offers = {offer.region: offer for offer in OFFERS.get(capacity.instance_type, ())}
    for region in sorted({r for r in regions if regions.count(r) > 1}):
        yield Mistake("regions", region, "is named twice", "Name each region once")
    for region in dict.fromkeys(regions):
        if region not in offers and not capacity.allow_unlisted_region:
            yield Mistake(
                "regions",
                region,
                f"is not known to offer {capacity.instance_type}",
                f"Use one of {', '.join(offers)}, or set capacity.allow_unlisted_region = true",
            )
        place = placement.get(region)
        if place is None:
            yield Mistake(
                f"placement.{region}", None, "is missing", f'Add [placement.{region}] with zone = "..."'
            )
            continue
        if not place.zone.startswith(region) or len(place.zone) != len(region) + 1:
            zones = offers[region].zones if region in offers else (f"{region}a",)
            yield Mistake(
                f"placement.{region}.zone",
                place.zone,
                f"is not a zone of {region}",
                f"Use one of {', '.join(zones)}",
            )
        if capacity.purchase not in WITHOUT_RESERVATION and place.reservation_id is None:
            yield Mistake(
                f"placement.{region}.reservation_id",
                None,
                f"is missing, and capacity.purchase is {capacity.purchase!r}",
                "Set the id of the reservation or Capacity Block (cr-...)",
            )
        if capacity.purchase in WITHOUT_RESERVATION and place.reservation_id is not None:
            yield Mistake(
                f"placement.{region}.reservation_id",
                place.reservation_id,
                f"would not be used, since capacity.purchase is {capacity.purchase!r}",
                'Set capacity.purchase to "reservation" or "capacity-block", or remove it',
            )
    for region in sorted(placement.keys() - set(regions)):
        yield Mistake(
            f"placement.{region}",
            placement[region].zone,
            "is for a region that is not in regions",
            "Add the region or remove it",
        )


@check
def _rate_goes_with_arrival(benchmark: Benchmark) -> Iterator[Mistake]:
    if benchmark.arrival == "closed" and benchmark.rate is not None:
        yield Mistake(
            "benchmark.rate",
            benchmark.rate,
            "has no meaning in a closed loop",
            'Set arrival to "poisson" or "constant", or remove it',
        )
    if benchmark.arrival != "closed" and benchmark.rate is None and not benchmark.loads:
        yield Mistake(
            "benchmark.rate",
            None,
            f"is missing, and arrival is {benchmark.arrival!r}",
            "Give requests per second and variant",
        )


@check
def _phases(benchmark: Benchmark, guards: Guards, variants: tuple[Variant, ...]) -> Iterator[Mistake]:
    if benchmark.schedule != "sequential":
        return
    yield from sequential_mistakes(len(variants), benchmark.loads, prefix="benchmark.")
    if "llmperf" in benchmark.lanes:
        yield Mistake(
            "benchmark.lanes",
            list(benchmark.lanes),
            "holds llmperf, which asks all services in one go, and schedule is sequential",
            'Use lanes = ["exact"]',
        )
    if benchmark.clients > 1:
        yield Mistake(
            "benchmark.clients",
            benchmark.clients,
            "is more than the one client that switches the services, and schedule is sequential",
            "Use clients = 1",
        )
    stopped = guards.scale_down_every_hours or guards.scale_down_at is not None
    if not stopped and guards.notify is None:
        yield Mistake(
            "guards.notify",
            None,
            "is missing, no guard stops the nodes, and schedule is sequential: a server that does not come up"
            " for its phase would leave paid nodes, and nobody would hear of it",
            "Name who is told, or set guards.scale_down_every_hours",
        )


@check
def _self_check_takes_turns(benchmark: Benchmark) -> Iterator[Mistake]:
    if benchmark.self_check and benchmark.schedule != "alternate":
        yield Mistake(
            "benchmark.self_check",
            benchmark.self_check,
            "needs variants that take turns, and schedule is " + benchmark.schedule,
            'Remove it, or set schedule to "alternate"',
        )


@check
def _loads_fit(benchmark: Benchmark, serving: Serving, variants: tuple[Variant, ...]) -> Iterator[Mistake]:
    closed, loads = benchmark.arrival == "closed", benchmark.loads
    yield from load_mistakes("benchmark.loads", loads, closed=closed)
    least = min(variant.max_num_seqs or serving.max_num_seqs for variant in variants)
    field = "benchmark.loads" if loads else "benchmark.concurrency"
    most = max(loads) if loads else benchmark.concurrency
    if closed and most > least:
        yield Mistake(
            field,
            most,
            f"is more than the {least} sequences (max_num_seqs) that a variant decodes together: the rest"
            " would wait, and the queue be measured",
            f"Use at most {least}, or raise max_num_seqs",
        )


@check
def _clients_share(benchmark: Benchmark) -> Iterator[Mistake]:
    if benchmark.clients == 1:
        return
    if "llmperf" in benchmark.lanes:
        yield Mistake(
            "benchmark.lanes",
            list(benchmark.lanes),
            f"holds llmperf, which cannot share its load among {benchmark.clients} clients",
            'Use lanes = ["exact"], or clients = 1',
        )
    closed = benchmark.arrival == "closed"
    most = int(max(benchmark.loads)) if benchmark.loads else benchmark.concurrency
    if closed and benchmark.clients > most:
        yield Mistake(
            "benchmark.clients",
            benchmark.clients,
            f"is more than the {most} requests in flight that they would share",
            f"Use at most {most}",
        )


@check
def _long_prompts_fit(benchmark: Benchmark, serving: Serving) -> Iterator[Mistake]:
    if benchmark.prompts != "long":
        return
    # Lengths are about: a quarter more is left for the tokenizer and the chat template.
    needed = int(1.25 * max(LENGTHS)) + benchmark.output_tokens
    if serving.max_model_len < needed:
        yield Mistake(
            "serving.max_model_len",
            serving.max_model_len,
            f"is less than the {needed} tokens of the longest prompts of the set `long` and their output",
            f"Use {needed} or more, or another prompt set",
        )
