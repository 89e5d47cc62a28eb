"""Serving stacks: dated, pinned combinations of image, vLLM and Neuron SDK, and what each can do.

A variant asks for a mode. The stack says whether it supports the mode, which settings it takes, what the
draft must be, and how sure that is on which instance.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from specdec.catalog.conventions import Convention

Generation = Literal["nxdi-v0", "nxdi-v1", "native"]
"""``nxdi-v0``: Neuron's vLLM V0 fork. ``nxdi-v1``: the V1 plugin on NxD Inference. ``native``: vllm-neuron
1.x without it.
"""

Evidence = Literal["published", "measured", "documented", "unverified"]
"""How sure a mode is, the surest first: run in public by its makers; run in public by others; described in
its makers' docs; put together from source or for other models only.
"""

UNVERIFIED: Evidence = "unverified"

Drafts = Literal["any", "target's class", "prepared Llama"]
"""What a draft must be. ``any``: trained for the target, whatever its class. ``target's class``: built from
the target's own model class. ``prepared Llama``: of Llama's class, with the target's output head copied in.
"""


BatchGraphs = Literal["one", "buckets"]
"""Batch sizes for which a step is compiled. ``one``: ``max_num_seqs`` alone; fewer sequences run in the same
graph. ``buckets``: each power of two up to it, or those that ``num_seqs_buckets`` names, at one start.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeSupport:
    """How one stack offers one mode, or decoding without one.

    Attributes:
        method: value of ``method`` in vLLM's speculative configuration, or None to leave it out.
        settings: what the serving library is told for it, by its own names.
        drafts: see ``Drafts``.
        on: instance type to how sure it is there; on an instance that is not named it is unverified.
        targets: the targets for which that holds; empty where it holds for any.
        whole_block: whether one pass of the draft proposes the whole window.
        note: what limits it.
    """

    method: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    drafts: Drafts = "any"
    on: Mapping[str, Evidence]
    targets: tuple[str, ...] = ()
    whole_block: bool = False
    note: str

    @property
    def evidence(self) -> Evidence:
        """How sure it is where it is surest."""
        return surest(self.on.values())


def surest(evidence: Iterable[Evidence]) -> Evidence:
    """The surest of some, ``unverified`` of none."""
    order: list[Evidence] = ["published", "measured", "documented", "unverified"]
    ranked: list[Evidence] = sorted(evidence, key=order.index)
    return ranked[0] if ranked else UNVERIFIED


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingStack:
    """One image and what is known about it.

    Attributes:
        name: name in the experiment file.
        image: image reference. Neuron publishes no digests in public text, so the tag, which names every
            version, pins it.
        vllm: vLLM version.
        sdk: Neuron SDK version.
        library: library that runs the model, with its version.
        released: date of the release, ISO.
        generation: see ``Generation``; decides how configuration is passed.
        chips: chips it runs on.
        plain: decoding without a draft.
        modes: supported modes; a mode that is absent cannot be asked for.
        convention: tokens one step may emit.
        batch_graphs: batch sizes that it compiles, see ``BatchGraphs``.
        counters_real: whether vLLM's speculative-decoding counters carry values.
        host_copies: how many times its loader holds a variant's weights in host memory at its peak.
        start_minutes: minutes of a first start, compiling included, shortest and longest seen.
        scheduled_acceptance: what is known of having its server keep proposals by a schedule, whatever they
            are; no stack of the catalogue documents it.
        restart_minutes: minutes of a start with the artifact of an earlier one, shortest and longest seen.
        compile_elsewhere: what its documents say of compiling on a node without accelerators, with source.
        samples: whether it samples at a temperature above 0 with a draft too.
        environment: what every server of it is told beside what its generation needs.
        defects: what is known to go wrong.
        sources: where this was read, with dates.
    """

    name: str
    image: str
    vllm: str
    sdk: str
    library: str
    released: str
    generation: Generation
    chips: tuple[str, ...]
    plain: ModeSupport
    modes: dict[str, ModeSupport]
    convention: Convention
    batch_graphs: BatchGraphs
    counters_real: bool
    host_copies: float
    start_minutes: tuple[float, float]
    scheduled_acceptance: str
    restart_minutes: tuple[float, float]
    compile_elsewhere: str
    samples: bool = False
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    defects: tuple[str, ...]
    sources: tuple[str, ...]

    def support(self, mode: str | None) -> ModeSupport | None:
        """How it offers a mode, or decoding without a draft for None; None where it does not."""
        return self.plain if mode is None else self.modes.get(mode)
