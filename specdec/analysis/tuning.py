"""Window advice for every draft that a run measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from specdec.analysis.advice import WindowAdvice
from specdec.analysis.choice import Measured, advise
from specdec.analysis.observation import Observation, observe
from specdec.analysis.significance import MIN_PROMPTS
from specdec.analysis.step_reading import is_idle
from specdec.analysis.verdict import StepSource
from specdec.analysis.window_model import Model, fit
from specdec.catalog.conventions import Convention
from specdec.runs.manifest import RunManifest
from specdec.runs.record import RequestRecord


class Evidence(Protocol):
    """What advice is drawn from: a run, and its measured requests by variant and test case."""

    manifest: RunManifest
    convention: Convention
    baselines: tuple[str, ...]
    speculative: tuple[str, ...]
    test_cases: tuple[str, ...]
    sources: dict[str, StepSource | None]

    def of(self, variant: str, test_case: str | None = None) -> list[RequestRecord]:
        """Measured requests of one variant."""
        ...

    def window(self, variant: str) -> int | None:
        """The variant's num_speculative_tokens."""
        ...


def windows_of(evidence: Evidence, drafts: Sequence[Measured] | None = None) -> tuple[WindowAdvice, ...]:
    """Advice per draft: each test case whose steps can be read, then the mix of these. Reference is the first
    baseline.

    Args:
        evidence: of one load.
        drafts: which; all by default.
    """
    if not evidence.baselines:
        return ()
    advice: list[WindowAdvice] = []
    for measured in drafts_of(evidence) if drafts is None else drafts:
        observations = observed(evidence, measured)
        models = {case: fit(seen, evidence.convention) for case, seen in observations.items()}
        advice += advice_of(measured, observations, models)
    return tuple(advice)


def observed(evidence: Evidence, measured: Measured) -> dict[str, list[Observation]]:
    """What the windows of one draft tell, by test case; without test cases that tell nothing."""
    cases: dict[str, list[Observation]] = {}
    for case in evidence.test_cases:
        for variant, window in zip(measured.variants, measured.windows, strict=True):
            observation = observation_of(evidence, variant, window, case)
            if observation is not None:
                cases.setdefault(case, []).append(observation)
    return cases


def advice_of(
    measured: Measured, observations: Mapping[str, Sequence[Observation]], models: Mapping[str, Model]
) -> list[WindowAdvice]:
    """Advice on one draft for each test case that has a model, then for the mix of these."""
    advice: list[WindowAdvice] = []
    sums: dict[int, list[float]] = {window: [] for window in measured.windows}
    for case, model in models.items():
        tpots = {o.window: float(o.seconds.sum() / o.tokens.sum()) for o in observations[case]}
        for window, tpot in tpots.items():
            sums[window].append(tpot)
        advice.append(advise(measured, [model], test_case=case, tpots=tpots))
    if models:
        means = {
            window: sum(values) / len(values) for window, values in sums.items() if len(values) == len(models)
        }
        advice.append(advise(measured, list(models.values()), test_case=None, tpots=means))
    return advice


def drafts_of(evidence: Evidence) -> Sequence[Measured]:
    """The variants of each draft whose steps can be told apart."""
    groups: dict[tuple[Any, Any], list[tuple[int, str]]] = {}
    for name in evidence.speculative:
        variant = evidence.manifest.variants[name]
        window = evidence.window(name)
        # Without steps that can be told apart there is no step time and no acceptance by position.
        if (
            window is not None
            and evidence.sources[name] is not None
            and evidence.convention.usable(window) >= 1
        ):
            groups.setdefault((variant.get("mode"), variant.get("draft")), []).append((window, name))
    return [
        Measured(
            variants=tuple(name for _, name in group),
            draft=draft,
            windows=tuple(window for window, _ in group),
        )
        for (_, draft), group in (
            (draft, _working(evidence, sorted(group))) for draft, group in groups.items()
        )
    ]


def _working(evidence: Evidence, group: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """Without variants that never gained a token where another window of their draft did: their speculation
    was not at work.
    """
    return [(window, name) for window, name in group if not is_idle(evidence.of(name))] or group


def observation_of(evidence: Evidence, variant: str, window: int, case: str) -> Observation | None:
    """What one test case tells of a variant. None also where nothing was ever proposed, which says nothing
    about a window, and where prompts are too few to resample.
    """
    observation = observe(
        evidence.of(evidence.baselines[0], case),
        evidence.of(variant, case),
        convention=evidence.convention,
        window=window,
        counters=evidence.manifest.server_counters.get(variant),
        every=evidence.of(variant),
    )
    return (
        observation
        if observation is not None and observation.drafted.sum() > 0 and len(observation.steps) >= MIN_PROMPTS
        else None
    )
