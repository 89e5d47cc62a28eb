"""``specdec stacks``: which serving stacks there are, what each can do, and how sure that is."""

from __future__ import annotations

import dataclasses
from typing import Any

import click

from specdec import console
from specdec.catalog.images import STACKS
from specdec.catalog.stacks import ServingStack
from specdec.commands.options import json_option


@click.command()
@json_option
@click.argument("name", required=False, type=click.Choice(list(STACKS)))
def command(as_json: bool, name: str | None) -> None:
    """Show how mature each serving stack is; with NAME, everything known of one.

    Evidence of a mode: published (run in public by its makers), measured (run in public by others),
    documented (in its makers' docs), unverified (put together from source, or shown for other models only).
    """
    if as_json:
        chosen = [STACKS[name]] if name else list(STACKS.values())
        console.show_json([_plain(stack) for stack in chosen])
    elif name:
        _show(STACKS[name])
    else:
        _table()


def _plain(stack: ServingStack) -> dict[str, Any]:
    return {**dataclasses.asdict(stack), "convention": stack.convention.name}


def _table() -> None:
    heads = ("stack", "released", "runs on", "modes", "tokens per step at window k", "server counters")
    rows: list[tuple[str, ...]] = []
    for stack in STACKS.values():
        modes = ", ".join(f"{mode} ({support.evidence})" for mode, support in stack.modes.items())
        rows.append(
            (
                stack.name,
                stack.released,
                stack.library,
                modes,
                f"up to {stack.convention.limit}",
                "real" if stack.counters_real else "stay zero",
            )
        )
    console.show_table([console.Column(head, fold=head in ("modes", "runs on")) for head in heads], rows)
    console.show("\nspecdec stacks NAME shows image, notes, known defects and sources.")


def _show(stack: ServingStack) -> None:
    console.show(f"{stack.name}\n  image      {stack.image}")
    console.show(
        f"  versions   vLLM {stack.vllm}, Neuron SDK {stack.sdk}, {stack.library}, released {stack.released}"
    )
    console.show(f"  chips      {', '.join(stack.chips)}")
    console.show(
        f"  sampling   {'with a draft too' if stack.samples else 'none: compiled to decode greedily'}"
    )
    for mode, support in (("no draft", stack.plain), *stack.modes.items()):
        places = ", ".join(f"{evidence} on {instance}" for instance, evidence in support.on.items())
        targets = f" for {', '.join(support.targets)}" if support.targets else ""
        console.show(f"  {mode:10} {places}{targets}: {support.note}")
    console.show(f"  compiling elsewhere: {stack.compile_elsewhere}")
    for title, lines in (("defect", stack.defects), ("source", stack.sources)):
        for line in lines:
            console.show(f"  {title:10} {line}")
