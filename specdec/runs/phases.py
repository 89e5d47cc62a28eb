"""What the servers of a run's phases ran on, where variants were served one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

PHASES = "phases"
"""Field of a manifest's environment: a list with, for each phase, its variant and what its server ran on."""


@dataclass(frozen=True, slots=True)
class Moved:
    """One fact that is not what it was in the variant's first phase.

    Attributes:
        phase: 0-based.
        variant: the one that was served.
        fact: dotted name, such as ``node.kernel``.
        first: what it was in the variant's first phase; None where it was not known.
        now: what it is in this one.
    """

    phase: int
    variant: str
    fact: str
    first: str | None
    now: str | None


def firsts(environment: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What each variant's server ran on in its first phase, by variant; empty where nothing is known.

    Args:
        environment: of the run's manifest.
    """
    seen: dict[str, dict[str, Any]] = {}
    for phase in _phases(environment):
        seen.setdefault(phase["variant"], {name: fact for name, fact in phase.items() if name != "variant"})
    return seen


def moved(environment: Mapping[str, Any]) -> tuple[Moved, ...]:
    """What changed under a variant between its phases; empty where nothing did, or nothing is known.

    Args:
        environment: of the run's manifest.
    """
    before = {variant: dict(_flat(facts)) for variant, facts in firsts(environment).items()}
    changes: list[Moved] = []
    for number, phase in enumerate(_phases(environment)):
        variant = phase["variant"]
        first, now = before[variant], dict(_flat(phase))
        changes.extend(
            Moved(number, variant, fact, first.get(fact), now.get(fact))
            for fact in dict.fromkeys([*first, *now])
            if fact != "variant" and first.get(fact) != now.get(fact)
        )
    return tuple(changes)


def _phases(environment: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return cast("Sequence[Mapping[str, Any]]", environment.get(PHASES) or ())


def _flat(facts: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in facts.items():
        if isinstance(value, Mapping):
            yield from _flat(cast("Mapping[str, Any]", value), f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", str(value)
