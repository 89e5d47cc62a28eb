"""The default engine: llama.cpp with a 135M model; speculation by look-up in the context, or with a draft
model.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import importlib.util
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specdec.errors import EnvironmentFault
from specdec.forecast import weights
from specdec.forecast.lookup import matched_tokens
from specdec.forecast.shipped import MODEL, PACKAGE, PACKAGED_FORM, packaged
from specdec.rehearsal.engines import Progress, Service
from specdec.rehearsal.engines.llamacpp_server import MATCHED_TOKENS
from specdec.rehearsal.engines.processes import Launch, Servers

if TYPE_CHECKING:
    from specdec.experiment.fields import Variant

_START_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Setup:
    """How the servers run; the same for all variants, apart from the draft.

    Attributes:
        form: of the target's weights.
        draft_model: whether proposals come from a draft model, and not from look-up in the context.
        draft: GGUF file of the draft model; None for the target's own weights as the package has them (Q4_1).
        slots: requests that a server decodes together.
        threads: of each server.
        context: longest prompt plus output, tokens; by default the experiment's own.
    """

    form: weights.Form = "f16"
    draft_model: bool = False
    draft: Path | None = None
    slots: int = 1
    threads: int = 1
    context: int = 1024


LOOK_UP = Setup()
DRAFT_MODEL = Setup(form="f32", draft_model=True, slots=8, threads=2, context=512)
"""Where a draft model gains, and stops gaining as more requests are in flight: both need the compute of two
cores, and a target whose step waits for its weights.
"""


_LOOK_UP_LIMIT = (
    "Proposals come from look-up in the text so far (n-gram), not from a draft model: they cost nothing to"
    " make, so the price of a draft model is not in these numbers."
)
_DRAFT_LIMIT = (
    "The draft model is the target's own weights in four bits: beside its target it agrees more often, and"
    " costs more, than a draft of a twentieth of the size."
)


class LlamaCpp:
    """See the module. A variant's mode and draft model cannot run here; its window can, and does.

    Args:
        cache: folder that keeps the weights.
        ports: for the servers, in the order of the variants; free ones by default.
        outlive: whether the servers stay when this process ends.
        setup: see ``Setup``.
    """

    name = "llama.cpp"

    def __init__(
        self, *, cache: Path, ports: Sequence[int] = (), outlive: bool = False, setup: Setup = LOOK_UP
    ) -> None:
        self._cache = cache
        self._ports = tuple(ports)
        self._servers = Servers(outlive=outlive)
        self._setup = setup
        self._weights: weights.Weights | None = None
        self.limits: tuple[str, ...] = (
            _DRAFT_LIMIT if setup.draft_model else _LOOK_UP_LIMIT,
            (
                f"A 135M model decodes on CPU threads, {setup.threads} per server: the times say nothing"
                " about the accelerator. Which prompts gain, and that the text stays the same, carries over."
            ),
            f"Requests in flight at a time: {setup.slots} at most.",
        )

    def check(self) -> None:
        """See ``Engine``."""
        for module, package in (("xllamacpp", "xllamacpp"), ("gguf", "gguf")):
            if importlib.util.find_spec(module) is None:
                raise EnvironmentFault(f"The package {package} is not installed", remedy="Run: uv sync")
        packaged()
        for port in self._ports:
            require_free(port)

    def prepare(self, on_progress: Progress) -> None:
        """See ``Engine``."""
        self._weights = weights.ready(self._cache, self._setup.form, on_progress)

    def start(self, variants: Sequence[Variant], logs: Path, on_progress: Progress) -> tuple[Service, ...]:
        """See ``Engine``."""
        model = self._weights or weights.ready(self._cache, self._setup.form, on_progress)
        self._weights = model
        ports = [*self._ports, *[0] * len(variants)]
        launches = [
            Launch(
                name=variant.name,
                command=command(
                    model.path,
                    port=port,
                    window=variant.window if variant.speculative else None,
                    setup=self._setup,
                ),
            )
            for variant, port in zip(variants, ports, strict=False)
        ]
        services: list[Service] = []
        for variant, (_, url, pid) in zip(
            variants, self._servers.start(launches, logs, seconds=_START_SECONDS), strict=True
        ):
            on_progress(f"{variant.name} answers at {url}")
            plain = Service(variant=variant.name, url=url, model=MODEL, pid=pid)
            window = variant.window if variant.speculative else None
            services.append(plain if window is None else self._speculative(plain, window))
        return tuple(services)

    def _speculative(self, plain: Service, window: int) -> Service:
        if self._setup.draft_model:
            return dataclasses.replace(
                plain,
                mode="draft",
                draft=self._setup.draft.stem if self._setup.draft else f"{MODEL} ({PACKAGED_FORM})",
                window=window,
            )
        source = f"look-up of the last {matched_tokens(window, MATCHED_TOKENS)} tokens in the context"
        return dataclasses.replace(plain, mode="ngram", draft=source, window=window)

    def watch(self) -> None:
        """See ``Engine``."""
        self._servers.watch()

    def facts(self) -> dict[str, Any]:
        """See ``Engine``."""
        return {
            "name": self.name,
            "package": f"xllamacpp {importlib.metadata.version('xllamacpp')}",
            "weights": (
                f"{MODEL} from {PACKAGE} {importlib.metadata.version(PACKAGE)}, as"
                f" {weights.FORMS[self._setup.form]}"
            ),
            "weights_sha256": self._weights.sha256 if self._weights else None,
            "speculation": (
                f"draft model: the same weights, {(self._setup.draft or packaged()).name}"
                if self._setup.draft_model
                else f"ngram_simple: what followed the last {MATCHED_TOKENS} tokens before, fewer for a"
                " smaller window"
            ),
            "threads": self._setup.threads,
            "slots": self._setup.slots,
        }

    def stop(self) -> None:
        """See ``Engine``."""
        self._servers.stop()


def command(
    model: Path, *, port: int, window: int | None, setup: Setup = LOOK_UP, alias: str = MODEL
) -> tuple[str, ...]:
    """The command of one server; the variants' differ in window and draft alone.

    Args:
        model: GGUF file of the target.
        port: to serve on; 0 takes a free one.
        window: most tokens proposed per step; None decodes plainly.
        setup: see ``Setup``.
        alias: name the model is served under.
    """
    drafted = window is not None and setup.draft_model
    return (
        *(sys.executable, "-m", "specdec.rehearsal.engines.llamacpp_server"),
        *("--model", str(model), "--alias", alias, "--port", str(port)),
        *("--context", str(setup.context), "--threads", str(setup.threads), "--slots", str(setup.slots)),
        *(("--window", str(window)) if window else ()),
        *(("--fused-attention",) if setup.draft_model else ()),
        *(("--draft", str(setup.draft or packaged())) if drafted else ()),
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
