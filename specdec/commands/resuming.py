"""``specdec bench --resume``: the plan of an interrupted run, read back from what it left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from specdec.errors import BadInputError, Mistake
from specdec.text import HIDDEN

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from specdec.benchmark.plan import Plan
    from specdec.runs.folder import Run
    from specdec.runs.manifest import RunManifest

MAY_CHANGE = frozenset(
    {
        "resume",
        "targets",
        "prompts",
        "prompt_column",
        "out",
        "as_json",
        "headers",
        "api_key_env",
        "api_key_header",
        "cacert",
        "insecure",
    }
)
"""Options that do not change what is measured: addresses, secrets, where the prompts lie now, and output."""


def require_nothing_else(given: Sequence[str]) -> None:
    """Refuses options that would change the plan.

    Raises:
        BadInputError: another one is.
    """
    mistakes = [
        Mistake(f"--{name.replace('_', '-')}", None, "would change the plan of a resumed run", "Leave it out")
        for name in given
        if name not in MAY_CHANGE
    ]
    if mistakes:
        raise BadInputError("command line", mistakes)


def interrupted_run(name: str, runs: Path) -> Run:
    """The interrupted run of a folder or an id, killed ones too.

    Args:
        name: its folder, or its id.
        runs: where the runs lie.

    Raises:
        BadInputError: there is none, or it is complete, or what it was cannot be told.
    """
    from specdec.runs.find import find
    from specdec.runs.folder import read_run
    from specdec.runs.manifest import MANIFEST
    from specdec.runs.record import EXACT, SELF_CHECK
    from specdec.runs.unfinished import read_unfinished

    folder = find(name, runs=runs)
    run = read_run(folder) if (folder / MANIFEST).exists() else read_unfinished(folder)
    if run.manifest.status == "complete":
        problem, remedy = "is complete", "Nothing is missing; start a new run"
    elif not run.manifest.environment.get("load"):
        problem, remedy = "does not say how it was measured", "It is of an older version; start a new run"
    elif any(record.lane not in (EXACT, SELF_CHECK) for record in run.records):
        problem, remedy = "is no run of the exact lane", "Start a new run"
    else:
        return run
    raise BadInputError("command line", [Mistake("--resume", name, problem, remedy)])


def plan_of(
    run: Run, targets: dict[str, str], *, prompts: str | None, column: str | None, **request: Any
) -> Plan:
    """The plan of an interrupted run under a new run id.

    Args:
        run: the interrupted run.
        targets: new base URLs by variant; the others stay where they were.
        prompts: where the prompts are, if not where they were.
        column: as for ``bench``.
        request: headers, authorities and whether any certificate is trusted.

    Raises:
        BadInputError: a target or prompt set that the run does not have, or headers that are missing.
    """
    from specdec.benchmark.client import Timeouts
    from specdec.benchmark.plan import Plan, new_run_id
    from specdec.benchmark.resume import load_settings_of
    from specdec.prompts.sets import load, of_test_cases
    from specdec.runs.manifest import SERVER_PRICE

    manifest = run.manifest
    settings: dict[str, Any] = load_settings_of(manifest)
    benchmark = cast("dict[str, Any]", manifest.configuration.get("benchmark", {}))
    _require_known(manifest, targets, settings, request)
    test_cases = tuple(settings["test_cases"])
    return Plan(
        run=new_run_id(),
        experiment=manifest.experiment,
        configuration=manifest.configuration,
        configuration_hash=manifest.configuration_hash,
        targets=tuple(_targets(manifest, targets)),
        prompts=of_test_cases(load(prompts or benchmark["prompts"], column=column), test_cases),
        output_tokens=benchmark["output_tokens"],
        concurrency=benchmark["concurrency"],
        repeats=benchmark["repeats"],
        temperature=benchmark["temperature"],
        thinking=benchmark["thinking"],
        api=benchmark["api"],
        schedule=benchmark["schedule"],
        arrival=benchmark["arrival"],
        rate=benchmark.get("rate"),
        loads=tuple(benchmark.get("loads") or ()),
        point_seconds=benchmark["point_seconds"],
        warmup=settings["warmup"],
        self_check=settings.get("self_check", 0.0),
        seconds=settings.get("seconds"),
        seed=settings["seed"],
        ignore_eos=settings["ignore_eos"],
        near_ties=settings["near_ties"],
        extra_body=settings["extra_body"],
        timeouts=Timeouts(stall=benchmark["stall_seconds"], total=benchmark["request_seconds"]),
        # Of the rest, this machine tells its own.
        environment={name: value for name, value in manifest.environment.items() if name == SERVER_PRICE},
        **request,
    )


def _targets(manifest: RunManifest, moved: dict[str, str]) -> list[Any]:
    from specdec.benchmark.plan import Target

    return [
        Target(
            variant=name,
            url=moved.get(name) or variant.get("url", ""),
            role=variant.get("role", "speculative"),
            model=variant.get("model"),
            mode=variant.get("mode"),
            draft=variant.get("draft"),
            window=variant.get("window"),
        )
        for name, variant in manifest.variants.items()
    ]


def _require_known(
    manifest: RunManifest, targets: dict[str, str], settings: dict[str, Any], request: dict[str, Any]
) -> None:
    names = list(manifest.variants)
    mistakes = [
        Mistake("--target", name, "is no target of the interrupted run", f"Use {', '.join(names)}")
        for name in targets
        if name not in names
    ]
    hidden = [
        name
        for name, variant in manifest.variants.items()
        if name not in targets and HIDDEN in variant.get("url", "")
    ]
    mistakes += [
        Mistake(
            "--target", name, "has a secret in its address, which is not stored", "Give --target NAME=URL"
        )
        for name in hidden
    ]
    missing = sorted(set(settings["headers"]) - set(request["headers"]))
    if missing:
        remedy = "Give them again with --header or --api-key-env: values are not stored"
        mistakes.append(Mistake("headers", ", ".join(missing), "were sent before the interruption", remedy))
    if mistakes:
        raise BadInputError("command line", mistakes)


def announcement(plan: Plan, run: Run) -> str:
    """How much of the run stands, said before it goes on."""
    from specdec.benchmark.load import blocks, self_check_requests
    from specdec.benchmark.resume import earlier

    stands = earlier(plan, run, list(blocks(plan)))
    kept = sum(not record.warmup for record in stands.records)
    again = f", {stands.set_aside} of a torn block are asked again" if stands.set_aside else ""
    arms = len(plan.targets) + bool(self_check_requests(plan))
    warmup = arms * plan.warmup
    return (
        f"resuming {run.manifest.run}: {kept} measured requests in {len(stands.blocks)} whole blocks"
        f" stand{again}; {plan.total - kept} to send, {warmup} of them for warming up again"
    )
