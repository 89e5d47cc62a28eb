"""The real CDK command against the embedded account: every call bounded in time, watched, and ended with its
children.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from specdec.errors import EnvironmentFault, SpecdecError
from specdec.rehearsal.emulator import ACCOUNT, CHECKOUT, EmbeddedAws

Progress = Callable[[str, int | None, int | None], None]
"""Told what is being done now and, where known, how many resources of how many are done."""

_POLL_SECONDS = 0.5
_SYNTH_SECONDS = 180.0
_BOOTSTRAP_SECONDS = 180.0
_STACK_SECONDS = 600.0
"""Limits that only a hang reaches: the whole deployment takes about ten seconds on two idle cores."""


class CdkError(SpecdecError):
    """A CDK command failed. The message names the resources that failed and why."""


@dataclass(frozen=True, slots=True)
class StackInfo:
    """One stack of the cloud assembly.

    Attributes:
        name: stack name.
        region: where it goes.
        resources: how many resources its template has; 0 where that is not known.
    """

    name: str
    region: str
    resources: int

    def __str__(self) -> str:
        # The bootstrap stack, alone, has one name in every region.
        return self.name if self.name.endswith(self.region) else f"{self.name} in {self.region}"


@dataclass(frozen=True, slots=True)
class Failure:
    """One resource that CloudFormation could not make, change or delete."""

    stack: StackInfo
    resource: str
    kind: str
    reason: str

    def __str__(self) -> str:
        return f"{self.stack}: {self.resource} ({self.kind}): {self.reason}"


def _quiet(detail: str, done: int | None, total: int | None) -> None:
    pass


class Cdk:
    """Bootstraps, deploys, compares and destroys one CDK app in the embedded account.

    Args:
        aws: the running embedded account.
        experiment_path: experiment file the app reads.
        out_dir: where the cloud assembly, logs and the CDK's own home go.
        app: command that synthesizes; the product's app by default.
        context: further ``-c`` values for the app.
    """

    def __init__(
        self,
        aws: EmbeddedAws,
        experiment_path: Path,
        out_dir: Path,
        *,
        app: Sequence[str] = (sys.executable, "-O", "app.py"),
        context: dict[str, str] | None = None,
    ) -> None:
        self._aws = aws
        self._out = out_dir.resolve()
        self._app = subprocess.list2cmdline(app)
        self._context = {"experiment": str(experiment_path.resolve()), **(context or {})}
        self._assembly = self._out / "assembly"
        self._out.mkdir(parents=True, exist_ok=True)

    def synth(self, on_progress: Progress = _quiet) -> None:
        """Runs the app and keeps its cloud assembly, which all other calls then use.

        Raises:
            CdkError: the app fails; the message is its own.
        """
        on_progress("synthesizing the stacks", None, None)
        context = [part for name, value in self._context.items() for part in ("--context", f"{name}={value}")]
        self._run(
            "synth",
            ["synth", "--quiet", "--app", self._app, "--output", str(self._assembly), *context],
            _SYNTH_SECONDS,
        )
        self.__dict__.pop("stacks", None)

    @cached_property
    def stacks(self) -> tuple[StackInfo, ...]:
        """The stacks of the cloud assembly, synthesized if they are not yet."""
        if not (self._assembly / "manifest.json").exists():
            self.synth()
        manifest = json.loads((self._assembly / "manifest.json").read_text(encoding="utf-8"))
        stacks: list[StackInfo] = []
        for identity, artifact in manifest["artifacts"].items():
            if artifact["type"] == "aws:cloudformation:stack":
                properties = artifact["properties"]
                template = json.loads(
                    (self._assembly / properties["templateFile"]).read_text(encoding="utf-8")
                )
                region = artifact["environment"].rsplit("/", 1)[-1]
                stacks.append(
                    StackInfo(properties.get("stackName", identity), region, len(template["Resources"]))
                )
        return tuple(stacks)

    def bootstrap(self, regions: Sequence[str], on_progress: Progress = _quiet) -> None:
        """Makes the CDK's own bucket and roles in all regions, side by side.

        Raises:
            CdkError: a region cannot be bootstrapped.
        """
        on_progress(f"bootstrapping {', '.join(regions)}", None, None)
        arguments = ["bootstrap", *(f"aws://{ACCOUNT}/{region}" for region in regions), "--app", ""]
        stacks = tuple(StackInfo("CDKToolkit", region, 0) for region in regions)
        self._run("bootstrap", arguments, _BOOTSTRAP_SECONDS * len(regions), on_progress, stacks)
        on_progress("bootstrapped", len(regions), len(regions))

    def deploy(self, on_progress: Progress = _quiet) -> dict[str, dict[str, str]]:
        """Creates or updates every stack.

        Returns:
            Outputs by stack name and output name.

        Raises:
            CdkError: a resource failed. The stack is left as CloudFormation left it; ``destroy`` cleans up.
        """
        outputs = self._out / "outputs.json"
        arguments = ["deploy", "--all", "--require-approval", "never", "--outputs-file", str(outputs)]
        self._run("deploy", [*arguments, *self._from_assembly()], self._limit(), on_progress, self.stacks)
        return json.loads(outputs.read_text(encoding="utf-8")) if outputs.exists() else {}

    def diff(self) -> bool:
        """Whether any deployed stack differs from what the app says.

        Raises:
            CdkError: the comparison itself failed.
        """
        log = self._run("diff", ["diff", "--fail", *self._from_assembly()], self._limit(), accept=(0, 1))
        for line in log.read_text(encoding="utf-8").splitlines():
            if "Number of stacks with differences:" in line:
                return line.rsplit(":", 1)[1].strip() != "0"
        raise CdkError(f"cdk diff came to no result:\n{_tail(log)}", remedy=f"The whole output is in {log}")

    def destroy(self, on_progress: Progress = _quiet) -> None:
        """Deletes every stack. One that does not exist is not an error.

        Raises:
            CdkError: a resource cannot be deleted.
        """
        self._run(
            "destroy",
            ["destroy", "--all", "--force", *self._from_assembly()],
            self._limit(),
            on_progress,
            self.stacks,
        )
        left = [stack for stack in self.stacks if self._status(stack) is not None]
        if left:
            # The command ends with 0 for a stack that DELETE_FAILED once it was told to go on.
            raise CdkError(
                f"cdk destroy left {', '.join(stack.name for stack in left)}", remedy=f"See {self._out}"
            )

    def _from_assembly(self) -> list[str]:
        _ = self.stacks
        return ["--app", str(self._assembly)]

    def _limit(self) -> float:
        return _STACK_SECONDS * max(1, len(self.stacks))

    def _command(self) -> list[str]:
        node = shutil.which("node", path=self._aws.environment()["PATH"])
        cdk = CHECKOUT / "node_modules" / "aws-cdk" / "bin" / "cdk"
        if node is None:
            raise EnvironmentFault("Node is not installed", remedy="Install the project's packages: uv sync")
        if not cdk.exists():
            raise EnvironmentFault(
                f"The CDK command is not installed ({cdk} is absent)", remedy="Run: uv run npm ci"
            )
        return [node, str(cdk)]

    def _environment(self) -> dict[str, str]:
        home = self._out / "home"
        home.mkdir(exist_ok=True)
        region = self.stacks[0].region if (self._assembly / "manifest.json").exists() else "us-east-1"
        return self._aws.environment(region) | {
            # The CDK remembers which key belongs to which account; another emulator's memory would be wrong
            # here.
            "CDK_HOME": str(home),
            "CDK_VALIDATION": "false",
            "CDK_DISABLE_VERSION_CHECK": "1",
            "CDK_DISABLE_CLI_TELEMETRY": "true",
            "NO_COLOR": "1",
            "CI": "false",
        }

    def _run(
        self,
        title: str,
        arguments: Sequence[str],
        seconds: float,
        on_progress: Progress = _quiet,
        stacks: Sequence[StackInfo] = (),
        *,
        accept: Sequence[int] = (0,),
    ) -> Path:
        """Runs one CDK command to its end and gives back its log.

        Raises:
            CdkError: it failed or took too long.
        """
        log = self._out / f"{title}.log"
        watch = _Watch(self._aws, stacks)
        deadline = time.monotonic() + seconds
        command = [*self._command(), *arguments, "--no-notices", "--progress", "events"]
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                cwd=CHECKOUT,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_end_with_parent,
            )
            try:
                while _still_running(process):
                    if time.monotonic() > deadline:
                        raise CdkError(
                            f"cdk {arguments[0]} did not end within {seconds:.0f} s:\n{_tail(log)}",
                            remedy=f"The whole output is in {log}",
                        )
                    watch.report(on_progress)
            finally:
                _end_group(process)
        watch.report(on_progress)
        if process.returncode not in accept:
            failures = watch.failures()
            what = "\n".join(f"  - {failure}" for failure in failures) or _tail(log)
            raise CdkError(f"cdk {arguments[0]} failed:\n{what}", remedy=f"The whole output is in {log}")
        if total := sum(stack.resources for stack in stacks):
            on_progress("done", total, total)
        return log

    def _status(self, stack: StackInfo) -> str | None:
        cloudformation = self._aws.session(stack.region).client("cloudformation")
        try:
            status: str = cloudformation.describe_stacks(StackName=stack.name)["Stacks"][0]["StackStatus"]
        except cloudformation.exceptions.ClientError:
            return None
        return None if status == "DELETE_COMPLETE" else status


class _Watch:
    """Follows stacks through their events, from now on."""

    def __init__(self, aws: EmbeddedAws, stacks: Sequence[StackInfo]) -> None:
        self._stacks = stacks
        # By stack and not by name: the bootstrap stacks of all regions have the same one.
        self._clients = {stack: aws.session(stack.region).client("cloudformation") for stack in stacks}
        self._ids: dict[StackInfo, str] = {}
        self._seen = {event["EventId"] for stack in stacks for event in self._events(stack)}
        self._latest: dict[tuple[StackInfo, str], dict[str, Any]] = {}
        self._failed: dict[str, Failure] = {}

    def _events(self, stack: StackInfo) -> list[dict[str, Any]]:
        """Events of a stack, oldest first; by id once that is known, since a deleted stack has no name any
        more.
        """
        client = self._clients[stack]
        try:
            events: list[dict[str, Any]] = client.describe_stack_events(
                StackName=self._ids.get(stack, stack.name)
            )["StackEvents"]
        except client.exceptions.ClientError:
            return []
        if events:
            self._ids[stack] = events[0]["StackId"]
        return events[::-1]

    def report(self, on_progress: Progress) -> None:
        """Reads what is new and says how far the stacks are."""
        if not self._stacks:
            return
        doing = ""
        for stack in self._stacks:
            for event in self._events(stack):
                if event["EventId"] in self._seen:
                    continue
                self._seen.add(event["EventId"])
                resource, status = str(event["LogicalResourceId"]), str(event["ResourceStatus"])
                if status.endswith("_FAILED"):
                    self._failed[event["EventId"]] = Failure(
                        stack,
                        resource,
                        str(event["ResourceType"]),
                        _in_one_line(str(event.get("ResourceStatusReason", ""))),
                    )
                if resource != stack.name:
                    self._latest[stack, resource] = event
                    doing = f"{stack}: {resource}"
        total = sum(stack.resources for stack in self._stacks)
        done = sum(
            str(event["ResourceStatus"]).endswith(("_COMPLETE", "_SKIPPED"))
            for event in self._latest.values()
        )
        if doing or done:
            known = (min(done, total), total) if total else (None, None)
            on_progress(doing or "waiting for CloudFormation", *known)

    def failures(self) -> list[Failure]:
        """What failed, without what was only cancelled because something else failed; the stacks themselves
        if nothing in them did.
        """
        failures = [failure for failure in self._failed.values() if "cancelled" not in failure.reason.lower()]
        return [failure for failure in failures if failure.kind != "AWS::CloudFormation::Stack"] or failures


_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


def _end_with_parent() -> None:
    # Of the cases in which ``finally`` does not run: this process is killed. Linux only, prctl(2).
    if sys.platform == "linux":
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _in_one_line(reason: str) -> str:
    """A reason without the stack trace that the CDK's own functions append."""
    lines = [line.strip() for line in reason.splitlines()]
    return "; ".join(line for line in lines if line and not line.startswith("at ")) or "no reason given"


def _still_running(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(_POLL_SECONDS)
    except subprocess.TimeoutExpired:
        return True
    return False


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Ends a command and everything it started; does nothing to one that has ended by itself."""
    if process.poll() is not None:
        return
    for number, patience in ((signal.SIGTERM, 3.0), (signal.SIGKILL, 10.0)):
        try:
            os.killpg(process.pid, number)
            process.wait(patience)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue
        return


def _tail(log: Path, lines: int = 12) -> str:
    text = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return "\n".join(f"  {line}" for line in text[-lines:])
