"""Do the services of a comparison differ in the draft alone?"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from specdec.experiment.sections import VariantSettings


def unlike_arms(
    settings: Mapping[str, VariantSettings], baselines: Sequence[str], speculative: Sequence[str]
) -> Iterator[str]:
    """A sentence for each speculative variant without a baseline of the same settings: its comparison
    measures more than the draft.

    Args:
        settings: what each variant ran with, by name; a variant that is absent is not judged.
        baselines: names, the experiment's own first.
        speculative: names.
    """
    plain = [name for name in baselines if name in settings]
    for name in speculative:
        if not plain or name not in settings or any(settings[name] == settings[other] for other in plain):
            continue
        own, other = (dataclasses.asdict(settings[each]) for each in (name, plain[0]))
        words = ", ".join(
            f"{field} {own[field]} instead of {other[field]}" for field in own if own[field] != other[field]
        )
        yield f"{name} differs from {plain[0]} in more than the draft: {words}. No baseline ran like it."
