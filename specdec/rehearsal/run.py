"""The rehearsal: the whole experiment on this machine, every step by the code that AWS will see.

Configuration, stack, deployment into an embedded AWS account, two services that really infer, measurement,
metrics and records published and read back, verdict, destruction, and a look for leftovers.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specdec import atomic, console
from specdec.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, EnvironmentFault, SpecdecError
from specdec.rehearsal import kept, local, over_load, packages
from specdec.rehearsal.emulator import CHECKOUT, EmbeddedAws
from specdec.rehearsal.settings import Outcome, Settings, environment_of, plan_of

if TYPE_CHECKING:
    from specdec.benchmark.plan import Plan
    from specdec.experiment.fields import Variant
    from specdec.rehearsal.cdk import Cdk
    from specdec.rehearsal.engines import Engine, Service
    from specdec.runs.manifest import RunManifest


def rehearse(settings: Settings, engine: Engine) -> Outcome:
    """Carries the rehearsal out. Whatever happens, nothing that was started here stays, unless ``keep`` asks
    for it.

    Raises:
        SpecdecError: a phase failed; what was measured until then is kept.
        KeyboardInterrupt: Ctrl-C before the measurement. During it, the outcome has the status for it.
    """
    return Rehearsal(settings, engine).run()


class _Account:
    """The embedded account in the shape of a boto3 session, as far as this product uses one."""

    def __init__(self, aws: EmbeddedAws) -> None:
        self._aws = aws

    def client(self, service: str, *, region_name: str, config: object = None) -> Any:
        del config  # patience with AWS: nothing here is that far away
        return self._aws.session(region_name).client(service)


class Rehearsal:
    """One rehearsal: its phases in order, and the cleaning after each of them."""

    def __init__(self, settings: Settings, engine: Engine) -> None:
        self._settings = settings
        self._experiment = settings.experiment
        self._region = settings.experiment.regions[0]
        self._engine = engine
        self._outcome = Outcome()
        self._outputs: dict[str, dict[str, str]] = {}

    def run(self) -> Outcome:
        """See ``rehearse``."""
        local.require_test_cases(self._experiment, self._settings.path.parent, self._settings.test_cases)
        with ExitStack() as cleaning:
            state = Path(tempfile.mkdtemp(prefix="specdec-rehearsal-"))
            cleaning.enter_context(self._scratch(state))
            with self._phase("checking this machine") as step:
                self._check(step)
            weights = self._in_background(cleaning)
            aws = EmbeddedAws(state / "aws", outlive=self._settings.keep)
            cleaning.callback(lambda: None if self._outcome.kept else aws.stop())
            cleaning.callback(lambda: None if self._outcome.kept else self._engine.stop())
            cdk = self._deploy(aws, state)
            with self._phase("making the model ready") as step:
                self._await(weights, step)
            services: tuple[Service, ...] = ()
            # First, so that the run that `specdec report` finds by itself is the experiment's.
            manifest = self._measure_over_load(state, cleaning)
            if manifest is None or manifest.status == "complete":
                services = self._serve(state)
                manifest = self._measure(services)
                if manifest.status == "complete":
                    self._publish(aws)
                self._report()
            if self._settings.keep and manifest.status == "complete":
                self._keep(aws, services, state)
            else:
                self._engine.stop()
                self._destroy(aws, cdk)
        self._conclude(manifest)
        return self._outcome

    def _measure_over_load(self, state: Path, cleaning: ExitStack) -> RunManifest | None:
        """A draft model at two loads, with servers of its own; None where it is left out."""
        from specdec.report import write

        engine, variants = self._settings.load_engine, over_load.variants(self._experiment)
        if engine is None or not variants:
            return None
        cleaning.callback(engine.stop)
        with self._phase("starting a draft model's services") as step:
            engine.prepare(step.update)
            services = engine.start(variants, state / "load-servers", step.update)
        plan = over_load.plan_of(self._experiment, services, environment_of(self._settings, engine))
        manifest = self._carry_out(plan, engine)
        engine.stop()
        self._foresee(engine)
        with self._phase("judging over load"):
            self._outcome.over_load = write(self._folder)
        return manifest

    @contextmanager
    def _phase(self, title: str) -> Generator[console.Progress]:
        started = time.monotonic()
        try:
            with console.progress(title) as step:
                yield step
        finally:
            self._outcome.seconds[title] = round(time.monotonic() - started, 1)

    def _check(self, step: console.Progress) -> None:
        runs = self._settings.runs
        try:
            runs.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=runs):
                pass
        except OSError as error:
            raise atomic.unwritable(
                runs, error, remedy="Name another folder with --out, or allow writing there"
            ) from None
        free = shutil.disk_usage(self._settings.runs).free
        if free < _RUN_BYTES:
            raise EnvironmentFault(
                f"No space for a run in {self._settings.runs}: {free >> 20} MB are free, {_RUN_BYTES >> 20}"
                " MB are needed",
                remedy="Free some space, or name a folder on another disk with --out",
            )
        self._engine.check()
        if not packages.present(CHECKOUT):
            step.update("installing the CDK command")
            packages.install(CHECKOUT, dict(os.environ), self._settings.runs / "npm-ci.log", step.update)

    def _in_background(self, cleaning: ExitStack) -> Future[None]:
        """Makes the weights while CloudFormation is busy; nothing is measured yet."""
        pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="weights")
        stopping = threading.Event()

        def note(_: str) -> None:
            if stopping.is_set():
                raise KeyboardInterrupt

        def end() -> None:
            stopping.set()
            pool.shutdown(wait=True, cancel_futures=True)

        cleaning.callback(end)
        return pool.submit(self._engine.prepare, note)

    def _await(self, weights: Future[None], step: console.Progress) -> None:
        while not weights.done():
            step.update("writing the weights as 16-bit floats; once per machine")
            time.sleep(0.1)
        weights.result()

    def _deploy(self, aws: EmbeddedAws, state: Path) -> Cdk:
        from specdec.rehearsal.cdk import Cdk

        cdk = Cdk(aws, self._settings.path, state / "cdk")
        with self._phase("synthesizing the stack") as step:
            cdk.synth(step.update)
        with self._phase("starting the embedded AWS account"):
            aws.start()
        regions = list(dict.fromkeys(stack.region for stack in cdk.stacks))
        with self._phase("bootstrapping it for the CDK") as step:
            cdk.bootstrap(regions, step.update)
        with self._phase(f"deploying {', '.join(stack.name for stack in cdk.stacks)}") as step:
            self._outputs = cdk.deploy(step.update)
        return cdk

    def _serve(self, state: Path) -> tuple[Service, ...]:
        with self._phase(f"starting the services ({self._engine.name})") as step:
            return self._engine.start(self._variants(), state / "servers", step.update)

    def _variants(self) -> tuple[Variant, ...]:
        return tuple(
            sorted(
                self._experiment.variants, key=lambda variant: variant.name != self._experiment.baseline.name
            )
        )

    def _measure(self, services: Sequence[Service]) -> RunManifest:
        return self._carry_out(plan_of(self._settings, services, self._engine), self._engine)

    def _carry_out(self, plan: Plan, engine: Engine) -> RunManifest:
        from specdec.benchmark.course import RunEvent
        from specdec.benchmark.run import run
        from specdec.benchmark.standing import Standing

        standing = Standing(self._experiment.baseline.name)
        folder = self._settings.runs / plan.run
        self._outcome.folder = folder
        with self._phase(f"measuring into {folder}") as step:

            def show(event: RunEvent) -> None:
                standing.add(event.record)
                step.update(f"{event.done}/{event.total}, {event.message}{standing}")

            manifest = run(plan, folder, on_event=show)
            step.outcome = manifest.status
        if manifest.status == "failed":
            self._blame(manifest, engine)
        return manifest

    def _blame(self, manifest: RunManifest, engine: Engine) -> None:
        """Raises the reason a run failed: first of all, a server that ended."""
        records = f"The records until then are in {self._outcome.folder}"
        try:
            engine.watch()
        except SpecdecError as died:
            raise SpecdecError(f"The measurement failed: {died}", remedy=records) from None
        raise SpecdecError(f"The measurement failed: {manifest.problem}", remedy=records)

    def _publish(self, aws: EmbeddedAws) -> None:
        from specdec.publish import cloudwatch
        from specdec.runs import bucket as run_bucket

        folder = self._folder
        session = aws.session(self._region)
        with self._phase("publishing metrics and records, and reading them back") as step:
            client, name = session.client("cloudwatch"), self._experiment.name
            step.update("metrics to CloudWatch")
            sent = cloudwatch.publish(folder, client, experiment=name)
            back = cloudwatch.read_back(folder, client, experiment=name)
            if not sent or back.differences:
                shown = "; ".join(str(difference) for difference in back.differences[:3])
                raise SpecdecError(
                    f"CloudWatch does not give back what was published: {shown or 'no datum was sent'}"
                )
            bucket = self._outputs[self._experiment.stack_name(self._region)]["Bucket"]
            s3 = session.client("s3")
            step.update("records to S3")
            run_bucket.upload(folder, s3, bucket)
            with tempfile.TemporaryDirectory() as scratch:
                # The download checks the records against the digest in the manifest.
                run_bucket.download(folder.name, s3, bucket, Path(scratch))
        console.say(
            f"  {back.compared} metric series with {back.samples} values agree; records in s3://{bucket}"
            " agree"
        )

    @property
    def _folder(self) -> Path:
        if self._outcome.folder is None:
            raise SpecdecError("nothing was measured")
        return self._outcome.folder

    def _foresee(self, engine: Engine) -> None:
        """Only of what this product's own engine served is the draft known to the last token."""
        from specdec.rehearsal.foreseen import foresee

        if engine.name != "llama.cpp":
            return
        with self._phase("forecasting from the baseline's texts") as step:
            equal, compared = foresee(self._folder, base=self._settings.path.parent, on_progress=step.update)
        console.say(f"  tokens per step came out as forecast in {equal} of {compared} requests")

    def _report(self) -> None:
        from specdec.report import write

        self._foresee(self._engine)
        with self._phase("judging"):
            self._outcome.report = write(self._folder)

    def _destroy(self, aws: EmbeddedAws, cdk: Cdk) -> None:
        from specdec.deployed.clients import Clients
        from specdec.preflight import leftovers

        account = _Account(aws)
        with self._phase("destroying the stack, looking for leftovers") as step:
            cdk.destroy(step.update)
            step.update("looking for leftovers")
            left = [
                leftover
                for stack in cdk.stacks
                for leftover in leftovers.find(self._experiment, stack.region, Clients(account, stack.region))
            ]
        strays = [leftover for leftover in left if leftover.kept is None]
        if strays:
            raise SpecdecError(
                "left behind: " + ", ".join(f"{leftover.kind} {leftover.name}" for leftover in strays)
            )
        for leftover in left:
            console.say(f"  kept on purpose: {leftover.kind} {leftover.name} ({leftover.kept})")

    def _keep(self, aws: EmbeddedAws, services: Sequence[Service], state: Path) -> None:
        processes = [kept.described(f"{s.variant} service", s.url, s.pid, state) for s in services if s.pid]
        if aws.pid is not None:
            processes.append(kept.described("embedded AWS", aws.endpoint, aws.pid, state))
        kept.write(processes)
        self._outcome.kept = processes

    def _conclude(self, manifest: RunManifest) -> None:
        complete = {"complete": EXIT_OK, "interrupted": EXIT_INTERRUPTED, "failed": EXIT_FAILED}
        self._outcome.status = complete[manifest.status]

    @contextmanager
    def _scratch(self, state: Path) -> Generator[None]:
        """Removes the scratch folder at the end, unless what is in it runs on or its logs explain a
        failure.
        """
        try:
            yield
        except Exception:
            raise
        except BaseException:
            shutil.rmtree(state, ignore_errors=True)
            raise
        if not self._outcome.kept:
            shutil.rmtree(state, ignore_errors=True)


_RUN_BYTES = 256 << 20
