"""Writes docs/instances.md from the catalogue: what runs where, and how sure that is.

uv run python scripts/write_instances.py          # write
uv run python scripts/write_instances.py --check  # exit 1 if the page is stale; the tests do this
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

from specdec.catalog.chips import Instance
from specdec.catalog.images import MODES, STACKS
from specdec.catalog.instances import INSTANCES
from specdec.catalog.offers import OFFERS
from specdec.catalog.prices import known_price
from specdec.catalog.stacks import ModeSupport, ServingStack

PAGE = Path(__file__).parents[1] / "docs" / "instances.md"

HEAD = """# Instances, stacks and modes

Written by `scripts/write_instances.py` from `specdec/catalog/`, where every figure has its source
and date. Trainium3 has no row: EC2 knows no type of it that can be launched by name.

`specdec estimate` puts your experiment on each of these instances; `specdec check` looks for
Capacity Blocks of each that takes it.
"""

EVIDENCE = """
## What runs where

published: run in public by the stack's makers; measured: run in public by others; documented: in
the makers' docs; unverified: put together from source, or shown for other models only. A model in
brackets: it holds for that target, and is unverified for others. Refused: an experiment file that
asks for it is refused with the reason.
"""


def facts() -> Iterator[str]:
    """The table of instances."""
    yield "\n## Instances\n"
    yield "| instance | chips | LNC | HBM | vCPU, memory | pods | claims | known in | USD/h seen |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    for instance in INSTANCES.values():
        sizes = ", ".join(map(str, instance.claim_sizes))
        claims = sizes if instance.dra else f"{sizes} (device plugin only)"
        regions = ", ".join(offer.region for offer in OFFERS.get(instance.type, ()))
        yield (
            f"| {instance.type} | {instance.devices} {instance.chip}"
            f" | {', '.join(map(str, instance.logical_core_sizes))}"
            f" | {instance.devices * instance.hbm_bytes_per_device // 2**30} GiB"
            f" | {instance.vcpus}, {instance.memory_bytes // 2**30} GiB | {instance.max_pods} | {claims}"
            f" | {regions or 'nowhere'} | {price(instance)} |"
        )


def guesses() -> Iterator[str]:
    """What of the instances nobody has been seen to try."""
    yield "\nNot tried by anybody who wrote of it, so look there first if a pod does not start:\n"
    for instance in INSTANCES.values():
        if instance.unverified:
            yield item(f"{instance.type}: {'; '.join(instance.unverified)}")


def stacks_by(trait: Callable[[ServingStack], str]) -> dict[str, str]:
    """Names of the stacks that have each value of a trait."""
    names: dict[str, list[str]] = {}
    for stack in STACKS.values():
        names.setdefault(trait(stack), []).append(f"`{stack.name}`")
    return {value: ", ".join(alike) for value, alike in names.items()}


def elsewhere() -> Iterator[str]:
    """Whether graphs can be compiled before an accelerator is rented."""
    yield "\n## Compiling elsewhere\n"
    for words, names in stacks_by(lambda stack: stack.compile_elsewhere).items():
        yield item(f"{names}: {words}.")
    yield (
        "\nSo no job compiles on a plain node: every experiment has a variant with a draft, which has to"
        "\ncompile on the accelerator anyway, and the baseline compiles beside it at no cost of its own."
        "\nOne after the other it costs the minutes of one first start, once: the artifact is kept."
    )


def graphs() -> Iterator[str]:
    """Which loads run in which compiled graph."""
    yield "\n## Loads and compiled graphs\n"
    words = {
        "one": "a step is compiled for `max_num_seqs` sequences alone; a smaller load takes as long",
        "buckets": (
            "a step is compiled for each power of two up to `max_num_seqs`, or for those that"
            " `num_seqs_buckets` names, at one start; a load between runs padded to the next"
        ),
    }
    names = stacks_by(lambda stack: stack.batch_graphs)
    for kind, meaning in words.items():
        yield item(f"{names[kind]}: {meaning}.")
    yield (
        "\n`specdec estimate` and `specdec check` say which graphs the loads of an experiment run in, and"
        "\nthe fewest compiles with which, by the roofline, no load's step is more than 3% longer than in"
        "\na graph of its own. Half of what a step takes may be no reading and no computing, so measure"
        "\nbefore you rely on it."
    )


def item(text: str) -> str:
    """An item of a list, wrapped as prose is."""
    return textwrap.fill(
        f"- {text}", 100, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False
    )


def price(instance: Instance) -> str:
    """What a node has been seen to cost, how, where and when."""
    seen = next(filter(None, (known_price(instance.type, way) for way in instance.purchases)), None)
    if seen is None:
        return "none"
    return f"{seen.usd_per_hour:g}, {seen.purchase}, {seen.region}, {seen.date}"


def cell(instance: Instance, stack: ServingStack, support: ModeSupport | None) -> str:
    """How sure one mode of one stack is on one instance, or why it is refused."""
    if instance.chip not in stack.chips:
        return f"refused: not on {instance.chip}"
    if support is None:
        return "refused: no such mode"
    evidence = support.on.get(instance.type, "unverified")
    named = support.targets and evidence != "unverified"
    return f"{evidence} ({', '.join(t.split('/')[-1] for t in support.targets)})" if named else evidence


def page() -> str:
    """The whole page."""
    lines = [HEAD, *facts(), *guesses(), EVIDENCE]
    lines.append(f"| instance | stack | no draft | {' | '.join(MODES)} |")
    lines.append("| --- | --- | --- |" + " --- |" * len(MODES))
    for instance in INSTANCES.values():
        for stack in STACKS.values():
            cells = [cell(instance, stack, stack.support(mode)) for mode in (None, *MODES)]
            lines.append(f"| {instance.type} | {stack.name} | {' | '.join(cells)} |")
    return "\n".join([*lines, *graphs(), *elsewhere()]) + "\n"


def main() -> int:
    """Writes the page, or with ``--check`` compares it."""
    if "--check" in sys.argv:
        if PAGE.read_text(encoding="utf-8") == page():
            return 0
        print(f"{PAGE.name} is stale: run scripts/write_instances.py", file=sys.stderr)
        return 1
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
