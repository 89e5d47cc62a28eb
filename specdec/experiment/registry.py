"""How a check of the experiment is registered, and the one loop that runs them all.

A check takes sections by the names of its parameters and yields mistakes. It runs when all of them are valid
by themselves, so that one run reports all mistakes of a file.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from specdec.errors import Mistake
from specdec.experiment.fields import Experiment

Check = Callable[..., Iterator[Mistake]]

_CHECKS: list[tuple[tuple[str, ...], Check]] = []


def check(function: Check) -> Check:
    """Registers a check. Its parameters are fields of ``Experiment``.

    Raises:
        TypeError: a parameter is no such field, so that the check would never run.
    """
    sections = tuple(inspect.signature(function).parameters)
    unknown = [name for name in sections if name not in Experiment.model_fields]
    if unknown:
        raise TypeError(f"{function.__qualname__} takes {', '.join(unknown)}: not a field of Experiment")
    _CHECKS.append((sections, function))
    return function


def mistakes_of(parts: Mapping[str, Any]) -> Iterator[Mistake]:
    """Every mistake that the valid sections in ``parts`` make together, in the order of registration."""
    for sections, function in _CHECKS:
        if all(section in parts for section in sections):
            yield from function(*(parts[section] for section in sections))
