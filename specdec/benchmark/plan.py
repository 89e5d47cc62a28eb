"""The plan of a run: everything the client needs, independent of the layout of the experiment file."""

from __future__ import annotations

import hashlib
import json
import secrets
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from specdec.benchmark.client import Timeouts
from specdec.benchmark.endpoint import Endpoint, tls_context
from specdec.benchmark.fields import OWN
from specdec.benchmark.meeting import ALONE, Share
from specdec.benchmark.secrecy import Secrets
from specdec.catalog.models import same_model
from specdec.errors import BadInputError, Mistake
from specdec.experiment.loads import load_mistakes
from specdec.experiment.phases import phase_order, sequential_mistakes
from specdec.experiment.prompt_fit import fitting, require_fit
from specdec.prompts import sets as prompt_sets
from specdec.text import is_printable, shortened, without_secrets

if TYPE_CHECKING:
    from specdec.experiment.fields import Experiment
    from specdec.prompts.sets import Prompt
    from specdec.runs.manifest import MeasuredVariant

Api = Literal["chat", "completions"]
"""Which route is asked: ``/v1/chat/completions`` or ``/v1/completions``."""

Schedule = Literal["alternate", "concurrent", "sequential"]
"""``alternate``: variants take turns in blocks. ``concurrent``: all are loaded at once, as in the published
experiment. ``sequential``: one variant after the other, in phases (``specdec.experiment.phases``).
"""

Arrival = Literal["closed", "poisson", "constant"]
"""``closed``: a number of requests is kept in flight. The others send at a rate, whatever comes back."""


LONGEST_NAME = 200
"""Characters of the name of a target or model."""


def new_run_id(now: datetime | None = None) -> str:
    """A run id, ``YYYYmmddTHHMMSSZ-<6 hex>``: sorts by time, unique enough for machines that start in the
    same second.
    """
    return f"{(now or datetime.now(UTC)).strftime('%Y%m%dT%H%M%SZ')}-{secrets.token_hex(3)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One variant's endpoint.

    Attributes:
        variant: variant name.
        url: base URL, with or without ``/v1``.
        role: ``baseline`` or ``speculative``.
        model: name to ask for; None asks the server, which then must serve exactly one.
        mode, draft, window: of the variant, None for a baseline or where not known.
        engine: ``owned_by`` of the served model, filled in by the run.
        max_model_len: context that the server tells, filled in by the run.
        template: what it makes of a conversation, see ``room.template``; filled in by the run.
        expected: model that mode, draft and window are said of; a server of another model has none of them.
    """

    variant: str
    url: str
    role: Literal["baseline", "speculative"]
    model: str | None = None
    mode: str | None = None
    draft: str | None = None
    window: int | None = None
    engine: str | None = None
    expected: str | None = None
    max_model_len: int | None = None
    template: str | None = None

    def as_served(self, model: str, engine: str | None, max_model_len: int | None = None) -> Target:
        """The target with what the server says about itself. If it serves another model, what the experiment
        says of its variant is dropped.
        """
        served = replace(self, model=model, engine=engine, max_model_len=max_model_len)
        if self.expected is None or same_model(model, self.expected):
            return served
        return replace(served, mode=None, draft=None, window=None)

    @property
    def address(self) -> str:
        """The base URL as it may be shown and stored."""
        return without_secrets(self.url)

    def mistakes(self) -> Iterator[Mistake]:
        """What is wrong with it."""
        try:
            Endpoint.of(self.url)
        except ValueError as error:
            remedy = "Give a key with --api-key-env NAME" if "@" in self.url else "Use http://host:port"
            yield Mistake(f"target {self.variant}", self.address, f"is {error}", remedy)
        for what, name in (("name of a target", self.variant), ("model", self.model)):
            if name is not None and not (name.strip() and is_printable(name) and len(name) <= LONGEST_NAME):
                problem = (
                    f"is empty, longer than {LONGEST_NAME}, or contains line breaks or control characters"
                )
                yield Mistake(what, shortened(name, 60), problem, "Give it a plain name")

    def measured(self) -> MeasuredVariant:
        """What the manifest says of it."""
        return {
            "url": self.address,
            "role": self.role,
            "model": self.model,
            "mode": self.mode,
            "draft": self.draft,
            "window": self.window,
            "engine": self.engine,
            "max_model_len": self.max_model_len,
            "template": self.template,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One request that will be sent to every variant.

    Attributes:
        prompt, repeat: what pairs the variants' records.
        block: see ``RequestRecord``.
        warmup: see ``RequestRecord``.
        phase: see ``RequestRecord``.
        output_tokens: most tokens to generate.
        fixed_length: whether exactly that many are to come, end-of-sequence ignored.
        temperature: as sent.
    """

    prompt: Prompt
    repeat: int
    block: int
    output_tokens: int
    fixed_length: bool
    temperature: float
    warmup: bool = False
    phase: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A run, planned down to the last request.

    Attributes:
        run: run id.
        experiment: experiment name.
        configuration, configuration_hash: see ``RunManifest``.
        targets: the variants; the first is the baseline.
        prompts: what is asked.
        output_tokens: tokens every request generates unless its prompt says otherwise.
        concurrency: requests in flight per variant in a closed loop; size of a block in any case.
        repeats: times each prompt is sent to each variant.
        temperature: unless the prompt says otherwise.
        thinking: Qwen3 thinking mode to set; None says nothing about it.
        api, schedule, arrival: see their types.
        rate: requests per second and variant, for ``poisson`` and ``constant``.
        loads: instead of ``concurrency`` (closed loop) or ``rate``: each is measured ``repeats`` times,
            ascending and descending in turn. Ascending, without doubles.
        point_seconds: most seconds that one variant gets requests at one of the ``loads``.
        warmup: requests per variant before the measured ones.
        self_check: share of the blocks in which the baseline is measured a second time, against itself; see
            ``specdec.benchmark.self_check``.
        seconds: after which nothing more is begun but the first repeat of each prompt; None for all repeats.
        seed: fixes order, arrivals and, above temperature 0, sampling.
        ignore_eos: ask for exactly the output length.
        near_ties: ask for the log-probabilities of the two best tokens. Slows the server: for parity
            questions only.
        timeouts: deadlines of each request.
        headers: sent with every request, e.g. Authorization. Not stored.
        extra_body: fields added to every request, over those of the client.
        authorities: PEM file of further authorities whose certificates are trusted.
        insecure: trust any certificate.
        environment: added to the manifest's.
        share: which part of it this client sends.
        command: the command line that makes this plan again, without secrets; empty where none does.
    """

    run: str
    experiment: str
    configuration: dict[str, Any]
    configuration_hash: str
    targets: tuple[Target, ...]
    prompts: tuple[Prompt, ...]
    output_tokens: int = 600
    concurrency: int = 4
    repeats: int = 2
    temperature: float = 0.0
    thinking: bool | None = False
    api: Api = "chat"
    schedule: Schedule = "alternate"
    arrival: Arrival = "closed"
    rate: float | None = None
    loads: tuple[float, ...] = ()
    point_seconds: float = 3600.0
    warmup: int = 4
    self_check: float = 0.0
    seconds: float | None = None
    seed: int = 1
    ignore_eos: bool = True
    near_ties: bool = False
    timeouts: Timeouts = field(default_factory=Timeouts)
    headers: dict[str, str] = field(default_factory=dict[str, str], repr=False)
    extra_body: dict[str, Any] = field(default_factory=dict[str, Any])
    authorities: Path | None = None
    insecure: bool = False
    environment: dict[str, Any] = field(default_factory=dict[str, Any])
    share: Share = ALONE
    command: str = ""

    def __post_init__(self) -> None:
        mistakes = list(self._mistakes())
        if mistakes:
            raise BadInputError("run", mistakes)

    def _mistakes(self) -> list[Mistake]:
        mistakes: list[Mistake] = []
        for target in self.targets:
            mistakes.extend(target.mistakes())
        names = [target.variant for target in self.targets]
        mistakes.extend(
            Mistake("target", name, "is named twice", "Give each target its own name: --target NAME=URL")
            for name in sorted({name for name in names if names.count(name) > 1})
        )
        mistakes.extend(
            Mistake("--extra-body", name, "is set by the client itself", "Leave it out")
            for name in OWN
            if name in self.extra_body
        )
        if not self.targets:
            mistakes.append(Mistake("targets", [], "none given", "Name at least one"))
        if self.schedule == "sequential":
            mistakes.extend(sequential_mistakes(len(self.targets), self.loads))
        if not self.prompts:
            mistakes.append(Mistake("prompts", [], "none left", "Choose test cases that the prompt set has"))
        for name, least in (("output_tokens", 2), ("concurrency", 1), ("repeats", 1), ("warmup", 0)):
            value: int = getattr(self, name)
            if value < least:
                mistakes.append(Mistake(name, value, f"is less than {least}", f"Use {least} or more"))
        if not 0 <= self.temperature <= 2:
            mistakes.append(
                Mistake("temperature", self.temperature, "is not within 0 and 2", "Use 0 for greedy decoding")
            )
        mistakes.extend(self.share.mistakes())
        mistakes.extend(self._self_check_mistakes())
        mistakes.extend(load_mistakes("loads", self.loads, closed=self.arrival == "closed"))
        if self.arrival == "closed" and self.rate is not None:
            mistakes.append(
                Mistake(
                    "rate",
                    self.rate,
                    "has no meaning in a closed loop",
                    "Set arrival to poisson or constant, or leave it out",
                )
            )
        if self.arrival != "closed" and not self.loads and (self.rate is None or self.rate <= 0):
            mistakes.append(
                Mistake(
                    "rate",
                    self.rate,
                    f"is not a rate, and arrival is {self.arrival}",
                    "Give requests per second and variant",
                )
            )
        return mistakes

    def _self_check_mistakes(self) -> Iterator[Mistake]:
        if not 0 <= self.self_check <= 1:
            yield Mistake("self_check", self.self_check, "is no share", "Use 0 to 1; 0 switches it off")
        elif self.self_check and self.schedule != "alternate":
            problem = f"needs variants that take turns, and schedule is {self.schedule}"
            yield Mistake("self_check", self.self_check, problem, "Leave it out, or let variants alternate")

    @property
    def digest(self) -> str:
        """Of what all clients of a shared plan must have in common."""
        asked = [[p.id, p.test_case, p.text, p.output_tokens, p.temperature] for p in self.prompts]
        order = [self.seed, self.warmup, self.seconds, self.schedule, self.api, self.near_ties]
        targets = [[target.variant, target.address] for target in self.targets]
        return hash_of({"configuration": self.configuration, "said": [asked, order, targets]})

    @property
    def secrets(self) -> Secrets:
        """What the records and the manifest are never to hold."""
        queries = [urlsplit(target.url).query for target in self.targets]
        values = [part.partition("=")[2] or part for query in queries for part in query.split("&")]
        return Secrets([*self.headers.values(), *values])

    def tls(self) -> ssl.SSLContext:
        """Which certificates are trusted; see ``tls_context``."""
        return tls_context(self.authorities, insecure=self.insecure)

    @property
    def total(self) -> int:
        """Requests that this client sends in the run, warm-up included, those that only keep the load up left
        out.
        """
        from specdec.benchmark.load import measured_requests, own_requests, self_check_requests

        if self.share.together:
            return own_requests(self)
        if self.schedule == "sequential":
            return len(phase_order(len(self.targets), self.repeats)) * (self.warmup + len(self.prompts))
        checks = self_check_requests(self)
        again = checks + self.warmup if checks else 0
        return len(self.targets) * (self.warmup + measured_requests(self)) + again

    def at(self, load: float) -> Plan:
        """The same plan at one load."""
        if self.arrival == "closed":
            return replace(self, concurrency=int(load), loads=())
        return replace(self, rate=float(load), loads=())

    def job(self, prompt: Prompt, repeat: int, block: int) -> Job:
        """The measured request of one prompt and repeat."""
        return Job(
            prompt=prompt,
            repeat=repeat,
            block=block,
            output_tokens=prompt.output_tokens or self.output_tokens,
            fixed_length=self.ignore_eos,
            temperature=self.temperature if prompt.temperature is None else prompt.temperature,
        )

    @classmethod
    def from_experiment(
        cls,
        experiment: Experiment,
        urls: dict[str, str],
        *,
        run: str | None = None,
        base: Path | None = None,
        prompts: tuple[Prompt, ...] | None = None,
        environment: dict[str, Any] | None = None,
    ) -> Plan:
        """The exact lane of an experiment.

        Args:
            experiment: what to measure.
            urls: base URL per variant name. Variants without one are left out.
            run: run id; a new one by default.
            base: folder that a relative ``benchmark.prompts`` path starts from.
            prompts: to ask instead of the experiment's.
            environment: added to the manifest's.

        Raises:
            BadInputError: a URL for a variant that the experiment does not have, none at all, a wrong
                prompt file, or a prompt that the services cannot take.
        """
        names = [variant.name for variant in experiment.variants]
        unknown = [name for name in urls if name not in names]
        if unknown:
            raise BadInputError(
                "targets",
                [
                    Mistake("target", name, "is not a variant of the experiment", f"Use {', '.join(names)}")
                    for name in unknown
                ],
            )
        benchmark = experiment.benchmark
        if prompts is None:
            prompts = fitting(experiment, base=base)
        else:
            require_fit(prompts, experiment)
        closed = benchmark.arrival == "closed"
        concurrency = int(max(benchmark.loads)) if benchmark.loads and closed else benchmark.concurrency
        # A rehearsal says itself what its services really are.
        local = bool(environment and environment.keys() & {"engine", "emulated"})
        ordered = sorted(experiment.variants, key=lambda variant: variant.name != experiment.baseline.name)
        return cls(
            run=run or new_run_id(),
            experiment=experiment.name,
            configuration=experiment.resolved(),
            configuration_hash=experiment.configuration_hash(),
            targets=tuple(
                Target(
                    variant=variant.name,
                    url=urls[variant.name],
                    role="speculative" if variant.speculative else "baseline",
                    mode=variant.mode,
                    draft=variant.draft,
                    window=variant.window,
                    expected=None if local else experiment.serving.target,
                )
                for variant in ordered
                if variant.name in urls
            ),
            prompts=prompts,
            output_tokens=benchmark.output_tokens,
            concurrency=concurrency,
            repeats=benchmark.repeats,
            temperature=benchmark.temperature,
            thinking=benchmark.thinking,
            api=benchmark.api,
            schedule=benchmark.schedule,
            arrival=benchmark.arrival,
            rate=benchmark.rate,
            loads=benchmark.loads,
            point_seconds=benchmark.point_seconds,
            warmup=concurrency if benchmark.warmup is None else benchmark.warmup,
            self_check=benchmark.self_check_share,
            seed=benchmark.seed,
            timeouts=Timeouts(stall=benchmark.stall_seconds, total=benchmark.request_seconds),
            environment=environment or {},
        )

    def only(self, test_cases: tuple[str, ...]) -> Plan:
        """The same plan with the prompts of these test cases only.

        Raises:
            BadInputError: a test case that the prompt set does not have.
        """
        return replace(self, prompts=prompt_sets.of_test_cases(self.prompts, test_cases))


def hash_of(configuration: dict[str, Any]) -> str:
    """12 hex digits over plain data, as ``Experiment.configuration_hash`` makes them."""
    canonical = json.dumps(configuration, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()[:12]
