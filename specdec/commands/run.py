"""``specdec run``: another benchmark run on a deployed stack."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from specdec import console
from specdec.commands.nodes import opened
from specdec.commands.options import experiment_option, region_option
from specdec.errors import EXIT_OK, BadInputError, Mistake, SpecdecError
from specdec.text import json_of

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from specdec.experiment.fields import Experiment
    from specdec.runs.manifest import RunManifest

STEP_COST_TOKENS = 96
"""Tokens of each answer that is to tell step costs: 16 answers hold some 1,500 plain steps."""


@click.command()
@experiment_option
@region_option
@click.option(
    "--prompts", metavar="SET|FILE", help="Other prompts than the experiment's; a file may lie anywhere."
)
@click.option(
    "--lane",
    "lanes",
    multiple=True,
    type=click.Choice(["exact", "llmperf"]),
    help="Only this lane; may be given again.",
)
@click.option("--repeats", type=click.IntRange(1, 10_000), help="Times each prompt is sent to each variant.")
@click.option("--output-tokens", type=click.IntRange(2, 1_000_000), help="Tokens per answer.")
@click.option("--concurrency", type=click.IntRange(1, 10_000), help="Requests in flight.")
@click.option(
    "--step-costs",
    is_flag=True,
    help="Measure what a step of each window costs and nothing else: few short prompts, one in flight.",
)
@click.option(
    "--resume", "interrupted", metavar="RUN", help="Go on with an interrupted run: measure what is missing."
)
@click.option(
    "--print", "printing", is_flag=True, help="Print what would be applied, as JSON, and start nothing."
)
def command(
    experiment_path: Path,
    region: str | None,
    prompts: str | None,
    lanes: tuple[str, ...],
    repeats: int | None,
    output_tokens: int | None,
    concurrency: int | None,
    step_costs: bool,
    interrupted: str | None,
    printing: bool,
) -> int:
    """Start another benchmark run on a deployed stack, with other prompts, lanes or repeats; nothing is
    deployed again.

    With --step-costs any draft of the right size will do, since a step costs the same however many of its
    proposals are kept. `specdec forecast LOG --draft D --step-cost RUN` takes the costs from the run.

    Needs kubectl and a way to the cluster's API, and is refused while another benchmark has not ended: two at
    the same servers would measure each other. The records go to the bucket: `specdec wait --run ID`, then
    `specdec report --stack NAME ID`.

    With --resume the complete blocks of the interrupted run are taken over into a new run. --prompts then
    says where a prompt file of its own lies now.
    """
    from specdec.benchmark.plan import new_run_id
    from specdec.deployed.stack import bucket_for
    from specdec.operate.kubernetes import Kubectl

    experiment, name, clients = opened(experiment_path, region)
    name_of_prompts, base = placed(prompts, experiment_path.parent)
    changes = {
        "prompts": name_of_prompts,
        "lanes": lanes or None,
        "repeats": repeats,
        "output_tokens": output_tokens,
        "concurrency": concurrency,
    }
    given = {field: value for field, value in changes.items() if value is not None}
    changed = (step_cost_changes(experiment) if step_costs else {}) | given
    wanted = experiment if interrupted else with_changes(experiment, changed, base=base)
    bucket = bucket_for(experiment, name, clients)
    if bucket is None:
        raise SpecdecError(
            f"there is no bucket in {name} yet", remedy=f"uv run npx cdk deploy {experiment.stack_name(name)}"
        )
    if interrupted is not None:
        given.pop("prompts", None)
        refuse_changes(given | ({"step_costs": True} if step_costs else {}))
        manifest = interrupted_manifest(interrupted, clients("s3"), bucket)
        wanted = as_it_was(experiment, name, manifest)
        base = folder_of(wanted.benchmark.prompts, prompts, experiment_path.parent)
    run = new_run_id()
    started = objects(wanted, region=name, bucket=bucket, run=run, resume=interrupted, base=base)
    if printing:
        console.show_json(as_list(started))
        return EXIT_OK
    kubectl = Kubectl(experiment, name, clients)
    refuse_beside(kubectl.items("jobs"))
    new = not_there(started, kubectl.items("configmaps"))
    # Server-side, since the code in the config maps is larger than the annotation that a client-side apply
    # writes.
    kubectl(["apply", "--server-side", "--filename", "-"], stdin=as_list(new))
    console.show(run)
    console.say(f"Follow it with: specdec wait --run {run}")
    if step_costs:
        windows = sorted({variant.window for variant in experiment.variants if variant.window})
        console.say(
            f"Windows {', '.join(map(str, windows))} are measured. Others follow from these; a further one is"
            " a further variant."
        )
        console.say(
            f"What is kept is left to the draft: {experiment.stack.scheduled_acceptance}. A step costs the"
            " same."
        )
        console.say(f"Then: specdec forecast LOG --draft DRAFT --step-cost s3://{bucket}/runs/{run}")
    return EXIT_OK


def placed(prompts: str | None, beside: Path) -> tuple[str | None, Path]:
    """Prompts of the command line as a run names them, and the folder that this starts from. A file may lie
    anywhere: the pod gets it under its name alone.

    Args:
        prompts: as given, from the current folder on; None for the experiment's own.
        beside: folder of the experiment file, from which its own prompts start.
    """
    from specdec.prompts.sets import is_file

    if prompts is None or not is_file(prompts):
        return prompts, beside
    name = Path(prompts).name
    # A file may be called as a set is.
    return name if is_file(name) else f"./{name}", Path(prompts).parent


def folder_of(prompts: str, given: str | None, beside: Path) -> Path:
    """The folder that the prompts of an interrupted run start from now.

    Args:
        prompts: as the run names them.
        given: where the file is said to be; None if it is where the experiment file is.
        beside: folder of the experiment file.

    Raises:
        BadInputError: the file is not there, or another one is named.
    """
    from specdec.prompts.sets import is_file

    if not is_file(prompts):
        if given is None:
            return beside
        refuse_changes({"prompts": given})
    parts = Path(prompts).parts
    if given is None:
        if (beside / prompts).is_file():
            return beside
        problem = f"was started with the prompt file {prompts}, which is not in {beside}"
        raise BadInputError(
            "command line", [Mistake("--resume", None, problem, "Say where it is now: --prompts FILE")]
        )
    path = Path(given).absolute()
    if path.parts[-len(parts) :] != parts:
        problem = f"is not the run's own prompt file {prompts}"
        raise BadInputError("command line", [Mistake("--prompts", given, problem, "Name that file")])
    return path.parents[len(parts) - 1]


def step_cost_changes(experiment: Experiment) -> dict[str, Any]:
    """The benchmark that tells step costs.

    Raises:
        BadInputError: there is no window whose cost could be told.
    """
    if not any(variant.window for variant in experiment.variants):
        raise BadInputError(
            "command line",
            [
                Mistake(
                    "--step-costs",
                    experiment.name,
                    "has no variant with a window",
                    "Add one with mode, draft and window; any draft of the right size will do",
                )
            ],
        )
    return {
        "prompts": f"synthetic:input=64,output={STEP_COST_TOKENS},count=8",
        "lanes": ("exact",),
        "repeats": 2,
        "output_tokens": STEP_COST_TOKENS,
        "concurrency": 1,
        "clients": 1,
        "loads": (),
        "arrival": "closed",
        "rate": None,
    }


def as_list(items: list[dict[str, Any]]) -> str:
    """Objects as one document."""
    return json_of({"apiVersion": "v1", "kind": "List", "items": items}, indent=2)


def not_there(started: list[dict[str, Any]], config_maps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The objects that a run adds. A config map is named by its content, so an existing one belongs to the
    stack. If it were applied again, it would lose the label by which the CDK prunes it.
    """
    there = {("ConfigMap", item["metadata"]["name"]) for item in config_maps}
    return [item for item in started if (item["kind"], item["metadata"]["name"]) not in there]


def refuse_beside(jobs: list[dict[str, Any]]) -> None:
    """Lets a run start only where no benchmark is to end.

    Raises:
        SpecdecError: one is.
    """
    from specdec.operate.kubernetes import NAMESPACE
    from specdec.operate.workloads import unfinished

    for job in unfinished(jobs):
        name = job["metadata"]["name"]
        raise SpecdecError(
            f"the benchmark {name} has not ended, and two at the same servers would measure each other",
            remedy=f"Wait for it: specdec wait; or end it: kubectl -n {NAMESPACE} delete job {name}",
        )


def with_changes(experiment: Experiment, changes: dict[str, Any], *, base: Path | None = None) -> Experiment:
    """The same experiment with other fields in its benchmark.

    Args:
        experiment: a checked experiment.
        changes: fields of ``benchmark``.
        base: folder that a relative path of prompts starts from; the current one by default.

    Raises:
        BadInputError: the prompts cannot be read, or the services cannot take what is asked.
    """
    from specdec.experiment.prompt_fit import fitting
    from specdec.experiment.reading import with_benchmark

    changed = with_benchmark(experiment, changes)
    fitting(changed, base=base)
    return changed


def refuse_changes(changed: dict[str, Any]) -> None:
    """Lets nothing change in a resumed run.

    Raises:
        BadInputError: an option would.
    """
    mistakes = [
        Mistake(
            f"--{field.replace('_', '-')}", value, "would change the plan of a resumed run", "Leave it out"
        )
        for field, value in changed.items()
    ]
    if mistakes:
        raise BadInputError("command line", mistakes)


def interrupted_manifest(run: str, s3: S3Client, bucket: str) -> RunManifest:
    """The manifest of a run in the bucket that did not end as planned.

    Raises:
        BadInputError: there is no such run, or it is complete, or of another version.
        NoAccessError: no credentials, or no permission to read.
        EnvironmentFault: S3 cannot be reached.
    """
    from specdec.runs.bucket import has_ended, manifest_of

    problem, remedy = "is not in the bucket, or was killed before it was stored", "List them: specdec runs"
    if has_ended(run, s3, bucket):
        try:
            manifest = manifest_of(run, s3, bucket)
        except ValueError as error:
            problem, remedy = f"has a manifest that cannot be read: {error}", "Start a new run"
        else:
            if manifest.status != "complete":
                return manifest
            problem, remedy = "is complete", "Nothing is missing; start a new run"
    raise BadInputError("command line", [Mistake("--resume", run, problem, remedy)])


def as_it_was(experiment: Experiment, region: str, manifest: RunManifest) -> Experiment:
    """The experiment with the benchmark of an interrupted run.

    Raises:
        BadInputError: something else that is measured has changed since.
    """
    before = manifest.configured
    if before is not None:
        wanted = experiment.model_copy(update={"benchmark": before.benchmark})
        if wanted.measured(region).configuration_hash() == manifest.configuration_hash:
            return wanted
    changed = [
        name
        for name, value in experiment.measured(region).resolved().items()
        if name != "benchmark" and manifest.configuration.get(name) != value
    ]
    problem = f"was of another experiment: {', '.join(changed) or 'fields of another version'} differ"
    remedy = "Set them back as they were, or start a new run"
    raise BadInputError("command line", [Mistake("--resume", manifest.run, problem, remedy)])


def objects(
    experiment: Experiment,
    *,
    region: str,
    bucket: str,
    run: str,
    resume: str | None = None,
    base: Path | None = None,
) -> list[dict[str, Any]]:
    """The benchmark's Kubernetes objects under a Job name of their own, to be started at once.

    Args:
        experiment: with the benchmark as it is to run.
        region: the region of the cluster.
        bucket: where the run goes.
        run: id of the run; the end of the Job's name too, which makes it another Job than all before.
        resume: id of the interrupted run that it goes on with.
        base: folder that a relative path of prompts starts from; the current one by default.
    """
    import charts

    built = charts.build(experiment, region=region, bucket=bucket, base=base)
    items: list[dict[str, Any]] = built["llmperf"].to_json()
    for item in items:
        if item["kind"] == "Job":
            item["metadata"]["name"] = f"{item['metadata']['name']}-{run.lower()}"
            (container,) = item["spec"]["template"]["spec"]["containers"]
            container["env"].append({"name": "RUN", "value": run})
            if resume is not None:
                container["env"].append({"name": "RESUME", "value": resume})
    return items
