"""Cross-checks of what the accelerator node can carry: devices, cores, memory, and the stacks of its chip."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from specdec.catalog.images import STACKS
from specdec.catalog.instances import INSTANCES
from specdec.errors import Mistake
from specdec.experiment.models import with_own
from specdec.experiment.phases import nodes_for
from specdec.experiment.registry import check

if TYPE_CHECKING:
    from specdec.experiment.fields import Benchmark, Capacity, ModelFacts, Placement, Serving, Variant


@check
def _parallelism_fits(
    serving: Serving, capacity: Capacity, variants: tuple[Variant, ...], models: Mapping[str, ModelFacts]
) -> Iterator[Mistake]:
    instance = INSTANCES.get(capacity.instance_type)
    if instance is None:
        yield Mistake(
            "capacity.instance_type",
            capacity.instance_type,
            "is not in the instance catalogue",
            f"Use one of {', '.join(INSTANCES)}",
        )
        return
    known = with_own(models)
    target = known.get(serving.target)
    for field, degree, devices, sequences, draft in _degrees(serving, variants):
        if target and (
            target.attention_heads % degree or (degree % target.kv_heads and target.kv_heads % degree)
        ):
            fitting = [d for d in (1, 2, 4, 8, 16, 32, 64) if target.attention_heads % d == 0]
            yield Mistake(
                f"{field}tensor_parallel_degree",
                degree,
                f"does not divide the {target.attention_heads} attention heads of {target.id} over its"
                f" {target.kv_heads} KV heads",
                f"Use one of {', '.join(map(str, fitting))}",
            )
        cores = instance.logical_cores(devices, serving.logical_core_size)
        if degree > cores:
            yield Mistake(
                f"{field}tensor_parallel_degree",
                degree,
                f"is more than the {cores} logical cores of {devices} devices at logical_core_size"
                f" {serving.logical_core_size}",
                f"Use at most {cores}, or more devices",
            )
        if devices not in instance.claim_sizes:
            yield Mistake(
                f"{field}devices",
                devices,
                f"is not a set of neighbouring devices on {instance.type}",
                f"Use one of {', '.join(map(str, instance.claim_sizes))}",
            )
        loaded = [model for model in (target, known.get(draft or "")) if model]
        copies = max(1, degree // target.kv_heads) if target else 1
        need = sum(
            m.weight_bytes() + m.kv_bytes_per_token() * copies * serving.max_model_len * sequences
            for m in loaded
        )
        have = devices * instance.hbm_bytes_per_device
        if need > have:
            yield Mistake(
                f"{field}devices",
                devices,
                f"has {have / 2**30:.0f} GiB of HBM, weights and KV cache need {need / 2**30:.0f} GiB",
                "Use more devices, or a smaller max_model_len or max_num_seqs",
            )


def _degrees(
    serving: Serving, variants: tuple[Variant, ...]
) -> Iterator[tuple[str, int, int, int, str | None]]:
    seen: set[tuple[int, int, int, str | None]] = set()
    for index, variant in enumerate(variants):
        own = (
            variant.tensor_parallel_degree is not None
            or variant.devices is not None
            or variant.max_num_seqs is not None
        )
        settings = serving.settings(variant)
        values = (
            settings.tensor_parallel_degree,
            settings.devices,
            settings.max_num_seqs,
            variant.draft,
        )
        if not own and any(values[:3] == other[:3] for other in seen):
            continue
        seen.add(values)
        yield (f"variants[{index}]." if own else "serving.", *values)


@check
def _logical_cores(serving: Serving, capacity: Capacity) -> Iterator[Mistake]:
    instance = INSTANCES.get(capacity.instance_type)
    if instance is None:
        return
    if serving.logical_core_size not in instance.logical_core_sizes:
        choices = ", ".join(map(str, instance.logical_core_sizes))
        yield Mistake(
            "serving.logical_core_size",
            serving.logical_core_size,
            f"is not offered by {instance.type}",
            f"Use one of {choices}",
        )
    elif (
        serving.allocation == "device-plugin" and serving.logical_core_size != instance.logical_core_sizes[0]
    ):
        yield Mistake(
            "serving.logical_core_size",
            serving.logical_core_size,
            "cannot be set through the device plugin, which leaves the node's own",
            f'Use {instance.logical_core_sizes[0]}, or serving.allocation = "dra"',
        )


@check
def _nodes(
    serving: Serving, capacity: Capacity, variants: tuple[Variant, ...], benchmark: Benchmark
) -> Iterator[Mistake]:
    instance = INSTANCES.get(capacity.instance_type)
    if instance is None:
        return
    sizes = [serving.settings(variant).devices for variant in variants]
    if any(size > instance.devices for size in sizes):
        return
    need = nodes_for(serving, variants, benchmark, instance)
    words = f"holds {instance.devices} devices a node, the variants take {' + '.join(map(str, sizes))}"
    if benchmark.schedule == "sequential":
        words += ", one after the other"
        if capacity.desired_nodes > need:
            yield Mistake(
                "capacity.desired_nodes",
                capacity.desired_nodes,
                f"is more than the {need} that variants served one after the other use, and all are paid",
                f"Use {need}, or 0 to start without accelerators",
            )
    if need > capacity.max_nodes:
        yield Mistake(
            "capacity.max_nodes",
            capacity.max_nodes,
            words,
            f"Use {need} or more, or fewer variants or devices",
        )
    if 0 < capacity.desired_nodes < need:
        yield Mistake(
            "capacity.desired_nodes",
            capacity.desired_nodes,
            words,
            f"Use {need}, or 0 to start without accelerators",
        )


@check
def _node_counts(capacity: Capacity) -> Iterator[Mistake]:
    if capacity.desired_nodes > capacity.max_nodes:
        yield Mistake(
            "capacity.desired_nodes",
            capacity.desired_nodes,
            f"is more than capacity.max_nodes ({capacity.max_nodes})",
            "Raise max_nodes",
        )


@check
def _bought(capacity: Capacity, placement: dict[str, Placement]) -> Iterator[Mistake]:
    for region, place in placement.items():
        if capacity.desired_nodes and place.reservation_id is not None and not place.bought:
            yield Mistake(
                f"placement.{region}.reservation_id",
                place.reservation_id,
                f"is a placeholder, and capacity.desired_nodes is {capacity.desired_nodes}: a launch that"
                " fails rolls the stack back",
                "Put in the id of the block you bought, or set desired_nodes = 0",
            )


@check
def _chip(serving: Serving, capacity: Capacity, variants: tuple[Variant, ...]) -> Iterator[Mistake]:
    instance, stack = INSTANCES.get(capacity.instance_type), STACKS.get(serving.stack)
    if instance is None:
        return
    if capacity.purchase not in instance.purchases:
        yield Mistake(
            "capacity.purchase",
            capacity.purchase,
            f"has not been offered for {instance.type}",
            f"Use one of {', '.join(instance.purchases)}",
        )
    if serving.allocation == "dra" and not instance.dra:
        yield Mistake(
            "serving.allocation",
            serving.allocation,
            f"does not serve {instance.type}: the Neuron DRA driver is for Trainium",
            'Use "device-plugin"',
        )
    if stack is None:
        return
    if instance.chip not in stack.chips:
        modes = {variant.mode for variant in variants}
        able = [s.name for s in STACKS.values() if instance.chip in s.chips and all(map(s.support, modes))]
        types = [other.type for other in INSTANCES.values() if other.chip in stack.chips]
        yield Mistake(
            "serving.stack",
            serving.stack,
            f"does not run on {instance.chip}, the chip of {instance.type}",
            f"Use {' or '.join(able)}" if able else f"Use one of {', '.join(types)}",
        )
    limit = instance.largest_prefill
    if stack.generation == "native" and limit is not None and serving.prefill_tokens > limit:
        yield Mistake(
            "serving.prefill_tokens",
            serving.prefill_tokens,
            f"is more than is known to load on {instance.type}",
            f"Use at most {limit}",
        )
    exhausting = instance.exhausting_prefill
    if stack.generation != "native" and exhausting is not None and serving.max_model_len >= exhausting:
        yield Mistake(
            "serving.max_model_len",
            serving.max_model_len,
            f"is the longest prefill that {stack.name} compiles, and one of {exhausting} has run out of the"
            f" host memory of {instance.type}",
            f"Use less than {exhausting}",
        )


@check
def _host_memory(
    serving: Serving, capacity: Capacity, variants: tuple[Variant, ...], models: Mapping[str, ModelFacts]
) -> Iterator[Mistake]:
    instance, stack, known = (
        INSTANCES.get(capacity.instance_type),
        STACKS.get(serving.stack),
        with_own(models),
    )
    if instance is None or stack is None:
        return
    for index, variant in enumerate(variants):
        loaded = serving.loaded_models([variant])
        devices = serving.settings(variant).devices
        if devices not in instance.claim_sizes or any(model not in known for model in loaded):
            continue
        need = stack.host_copies * sum(known[model].weight_bytes() for model in loaded) / 2**30
        have = instance.server_share(devices)[1]
        if need <= have:
            continue
        able = [
            other.type
            for other in INSTANCES.values()
            if other.chip in stack.chips
            and any(need <= other.server_share(size)[1] for size in other.claim_sizes if size >= devices)
        ]
        yield Mistake(
            f"variants[{index}].draft" if variant.draft else "serving.target",
            variant.draft or serving.target,
            f"needs about {need:.0f} GiB of host memory while {stack.name} loads {' and '.join(loaded)}"
            f" ({stack.host_copies:g} times the weights), and a server has {have} GiB of {instance.type}",
            f"Use {' or '.join(able)}, a smaller model, or a stack that loads less at once"
            if able
            else "Use a smaller model, or a stack that loads less at once",
        )
