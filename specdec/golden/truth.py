"""The oracle: what the golden server plans for a request, and what it really did, in numbers.

It shares no code with the client or the metrics, so that a mistake there cannot cancel itself out here.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Literal

Convention = Literal["textbook", "nxdi-fused"]
"""How many tokens a window of k can yield per step: k + 1, or k as in NxD Inference's fused speculation."""


@dataclass(frozen=True, slots=True)
class Uniform:
    """Every step yields ``low`` to ``high`` tokens, each number equally likely."""

    low: int
    high: int

    def draw(self, chosen: random.Random) -> int:
        """Tokens of one step."""
        return chosen.randint(self.low, self.high)

    @property
    def mean(self) -> float:
        """Expected tokens per step."""
        return (self.low + self.high) / 2

    @property
    def drafted(self) -> int:
        """Proposals verified per step."""
        return self.high - 1


@dataclass(frozen=True, slots=True)
class Speculation:
    """Each proposal is accepted with probability ``acceptance`` given that those before it were.

    Source of the expectation: Leviathan et al., Fast Inference from Transformers via Speculative Decoding,
    equation 1, with the number of usable proposals that the convention gives.
    """

    acceptance: float
    window: int
    convention: Convention = "textbook"

    def draw(self, chosen: random.Random) -> int:
        """Tokens of one step: the accepted run and the one the target adds."""
        tokens = 1
        while tokens <= self.drafted and chosen.random() < self.acceptance:
            tokens += 1
        return tokens

    @property
    def mean(self) -> float:
        """Expected tokens per step: ``(1 - a^(d + 1)) / (1 - a)`` with d usable proposals."""
        if self.acceptance == 1:
            return self.drafted + 1
        return (1 - self.acceptance ** (self.drafted + 1)) / (1 - self.acceptance)

    @property
    def drafted(self) -> int:
        """Proposals verified per step."""
        return self.window if self.convention == "textbook" else self.window - 1


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the engine.

    Attributes:
        time: seconds after the request was read at which it ends.
        tokens: it yields.
    """

    time: float
    tokens: int


def steps(
    tokens: int,
    *,
    ttft: float,
    step: float,
    first: int,
    per_step: Uniform | Speculation,
    seed: int,
    jitter: float = 0.0,
) -> list[Step]:
    """The steps that yield ``tokens`` tokens: prefill with ``first`` of them at ``ttft``, then one step every
    ``step`` seconds.

    The last step is cut to the length asked for. ``jitter`` varies each step's length uniformly by that
    share, both ways.
    """
    chosen = random.Random(seed)
    planned = [Step(ttft, min(first, tokens))]
    left = tokens - planned[0].tokens
    time = ttft
    while left > 0:
        time += step * (1 + jitter * (2 * chosen.random() - 1))
        count = min(per_step.draw(chosen), left)
        planned.append(Step(time, count))
        left -= count
    return planned


def batch_tpot(sequences: float, *, step: float, batch_step: float, tokens_per_step: float) -> float:
    """Seconds per token with so many sequences in service all the time: ``(step + batch_step (n - 1)) /
    tokens_per_step``.
    """
    return (step + batch_step * (sequences - 1)) / tokens_per_step


def crossing(
    plain: tuple[float, float], drafted: tuple[float, float], tokens_per_step: float
) -> float | None:
    """Sequences at which a plain server and a speculative one take the same time per token.

    Both times per token are straight lines in the number of sequences, so that there is one such point, or
    none.

    Args:
        plain: ``step`` and ``batch_step`` of the plain server, seconds.
        drafted: the same of the speculative one.
        tokens_per_step: of the speculative one.

    Returns:
        None where the lines are parallel, or meet below one sequence.
    """
    steeper = plain[1] - drafted[1] / tokens_per_step
    ahead = drafted[0] / tokens_per_step - plain[0]
    if steeper == 0 or ahead / steeper < 0:
        return None
    return 1 + ahead / steeper


@dataclass(slots=True)
class Truth:
    """What the server did for one request. Times are ``perf_counter`` of this machine.

    Attributes:
        request: 0-based, in order of arrival.
        read: when the last bytes of the request came, by the kernel where it tells.
        admitted: when it was taken into service; the time until then is its wait.
        writes: when each step's tokens were handed to the socket, with the number of tokens.
        asked: tokens asked for.
        fault: fault that was played, or None.
        ended: when the response was whole, or None.
    """

    request: int
    read: float
    asked: int
    fault: str | None = None
    writes: list[tuple[float, int]] = field(default_factory=list[tuple[float, int]])
    ended: float | None = None
    admitted: float | None = None

    @property
    def queued(self) -> float:
        """Seconds it waited for its place."""
        return 0.0 if self.admitted is None else self.admitted - self.read

    @property
    def ttft(self) -> float | None:
        """Seconds to the first token."""
        return self.writes[0][0] - self.read if self.writes else None

    @property
    def tokens(self) -> int:
        """Tokens sent."""
        return sum(count for _, count in self.writes)

    @property
    def tpot(self) -> float | None:
        """Seconds per token after the first step's: time of all later steps over their tokens."""
        later = sum(count for _, count in self.writes[1:])
        return (self.writes[-1][0] - self.writes[0][0]) / later if later else None

    @property
    def tokens_per_step(self) -> float | None:
        """Tokens per step after the first."""
        later = self.writes[1:]
        return sum(count for _, count in later) / len(later) if later else None

    @property
    def e2e(self) -> float | None:
        """Seconds to the last token."""
        return self.writes[-1][0] - self.read if self.writes else None

    def summary(self) -> dict[str, float | int | str | None]:
        """As plain data."""
        return {
            "request": self.request,
            "fault": self.fault,
            "asked_tokens": self.asked,
            "tokens": self.tokens,
            "steps": len(self.writes),
            "read_at": self.read,
            "queued_s": self.queued,
            "ttft_s": self.ttft,
            "tpot_s": self.tpot,
            "tokens_per_step": self.tokens_per_step,
            "e2e_s": self.e2e,
        }
