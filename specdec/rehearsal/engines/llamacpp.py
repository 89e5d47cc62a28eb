"""The default engine: llama.cpp with a 135M model on one CPU thread per server; speculation by look-up in the
context.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import importlib.util
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specdec.errors import EnvironmentFault
from specdec.rehearsal.engines import Progress, Service, weights
from specdec.rehearsal.engines.llamacpp_server import MATCHED_TOKENS, matched_tokens
from specdec.rehearsal.engines.processes import Launch, Servers

if TYPE_CHECKING:
    from specdec.experiment.fields import Variant

_START_SECONDS = 60.0
_CONTEXT = 1024
"""Longest prompt plus output, tokens: the experiment's own default."""
_THREADS = 1
"""Per server. Threads of one step wait for each other at every layer: on two cores, with a second one and
anything else running, some tokens took ten times as long."""


class LlamaCpp:
    """See the module. A variant's mode and draft model cannot run here; its window can, and does.

    Args:
        cache: folder that keeps the weights.
        ports: for the servers, in the order of the variants; free ones by default.
        outlive: whether the servers stay when this process ends.
    """

    name = "llama.cpp"
    limits: tuple[str, ...] = (
        (
            "Proposals come from look-up in the text so far (n-gram), not from a draft model: they cost"
            " nothing to make, so the price of a draft model is not in these numbers."
        ),
        (
            "One CPU thread decodes a 135M model: the times say nothing about the accelerator. "
            "Which prompts gain, and that the text stays the same, is what carries over."
        ),
        "One request is in flight at a time.",
    )

    def __init__(self, *, cache: Path, ports: Sequence[int] = (), outlive: bool = False) -> None:
        self._cache = cache
        self._ports = tuple(ports)
        self._servers = Servers(outlive=outlive)
        self._weights: weights.Weights | None = None

    def check(self) -> None:
        """See ``Engine``."""
        for module, package in (("xllamacpp", "xllamacpp"), ("gguf", "gguf")):
            if importlib.util.find_spec(module) is None:
                raise EnvironmentFault(f"The package {package} is not installed", remedy="Run: uv sync")
        weights.packaged()
        for port in self._ports:
            require_free(port)

    def prepare(self, on_progress: Progress) -> None:
        """See ``Engine``."""
        self._weights = weights.half_precision(self._cache, on_progress)

    def start(self, variants: Sequence[Variant], logs: Path, on_progress: Progress) -> tuple[Service, ...]:
        """See ``Engine``."""
        model = self._weights or weights.half_precision(self._cache, on_progress)
        self._weights = model
        ports = [*self._ports, *[0] * len(variants)]
        launches = [
            Launch(
                name=variant.name,
                command=command(
                    model.path, port=port, window=variant.window if variant.speculative else None
                ),
            )
            for variant, port in zip(variants, ports, strict=False)
        ]
        services: list[Service] = []
        for variant, (_, url, pid) in zip(
            variants, self._servers.start(launches, logs, seconds=_START_SECONDS), strict=True
        ):
            on_progress(f"{variant.name} answers at {url}")
            plain = Service(variant=variant.name, url=url, model=weights.MODEL, pid=pid)
            window = variant.window if variant.speculative else None
            services.append(
                plain
                if window is None
                else dataclasses.replace(plain, mode="ngram", draft=_draft(window), window=window)
            )
        return tuple(services)

    def watch(self) -> None:
        """See ``Engine``."""
        self._servers.watch()

    def facts(self) -> dict[str, Any]:
        """See ``Engine``."""
        return {
            "name": self.name,
            "package": f"xllamacpp {importlib.metadata.version('xllamacpp')}",
            "weights": (
                f"{weights.MODEL} from {weights.PACKAGE} {importlib.metadata.version(weights.PACKAGE)}, as"
                " 16-bit floats"
            ),
            "weights_sha256": self._weights.sha256 if self._weights else None,
            "speculation": (
                f"ngram_simple: what followed the last {MATCHED_TOKENS} tokens before, fewer for a smaller"
                " window"
            ),
            "threads": _THREADS,
        }

    def stop(self) -> None:
        """See ``Engine``."""
        self._servers.stop()


def _draft(window: int) -> str:
    return f"look-up of the last {matched_tokens(window)} tokens in the context"


def command(model: Path, *, port: int, window: int | None) -> tuple[str, ...]:
    """The command of one server; the two variants' differ in the window alone."""
    return (
        *(sys.executable, "-m", "specdec.rehearsal.engines.llamacpp_server"),
        *("--model", str(model), "--alias", weights.MODEL, "--port", str(port)),
        *("--context", str(_CONTEXT), "--threads", str(_THREADS)),
        *(("--window", str(window)) if window else ()),
    )


def require_free(port: int) -> None:
    """Raises EnvironmentFault if something listens on this port of 127.0.0.1."""
    with socket.socket() as probe:
        # As a server would: a port whose last connection is still fading counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise EnvironmentFault(
                f"Port {port} of 127.0.0.1 cannot be used: {error.strerror}",
                remedy="End what listens there, or name another port",
            ) from None
