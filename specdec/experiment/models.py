"""The models an experiment may name: the catalogue's, and its own ``[models]`` tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from specdec.catalog.models import MODELS, Model

if TYPE_CHECKING:
    from specdec.experiment.sections import ModelFacts


def with_own(own: Mapping[str, ModelFacts]) -> dict[str, Model]:
    """The catalogue and an experiment's own ``[models]`` tables. An own entry that lacks facts of an unknown
    model is left out; the experiment's checks have reported it.
    """
    models = dict(MODELS)
    for model, facts in own.items():
        known_facts = facts.model_dump(exclude_none=True)
        if model in models:
            models[model] = replace(models[model], **known_facts)
        elif not missing_facts(facts):
            models[model] = Model(id=model, source="the experiment file", **known_facts)
    return models


def missing_facts(facts: ModelFacts) -> list[str]:
    """Fields that an entry has to add, because the catalogue does not know its model."""
    return [name for name, value in facts.model_dump().items() if value is None]
