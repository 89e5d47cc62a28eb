"""What ``specdec bench`` makes of ``--load``, ``--rate``, ``--arrival`` and ``--concurrency``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from specdec import console
from specdec.errors import BadInputError, Mistake

if TYPE_CHECKING:
    from specdec.benchmark.plan import Plan


def say_what_queues(plan: Plan) -> None:
    """Says which loads exceed what a variant decodes together, if its experiment tells.

    An experiment that asks for them is refused; a command line may want to see the queue.
    """
    serving: dict[str, Any] = plan.configuration.get("serving") or {}
    if plan.arrival != "closed" or "max_num_seqs" not in serving:
        return
    variants: list[dict[str, Any]] = plan.configuration.get("variants") or []
    least = min(int(own.get("max_num_seqs") or serving["max_num_seqs"]) for own in [{}, *variants])
    above = [load for load in plan.loads or (plan.concurrency,) if load > least]
    if above:
        console.say(
            f"more in flight than the {least} sequences (max_num_seqs) that a variant decodes together:"
            f" {_listed(tuple(above))}; the rest wait, so TTFT there includes the queue"
        )


MOST_REPEATS = 1000
"""Of a run that ends by the clock."""


def changes(given: dict[str, Any]) -> dict[str, Any]:
    """What ``--load``, ``--rate``, ``--arrival``, ``--concurrency`` and ``--minutes`` change in a plan.

    Raises:
        BadInputError: two of them contradict each other.
    """
    loads, rates, arrival, minutes = given["loads"], given["rates"], given["arrival"], given["minutes"]
    contradictions = [
        ("--minutes", None if minutes is None else (minutes,), "--repeats", given["repeats"]),
        ("--load", loads if loads and len(loads) > 1 else None, "--minutes", minutes),
        ("--rate", rates if rates and len(rates) > 1 else None, "--minutes", minutes),
        ("--load", loads, "--concurrency", given["concurrency"]),
        ("--load", loads, "--rate", rates),
        ("--rate", rates, "--arrival", "closed" if arrival == "closed" else None),
        ("--load", loads, "--arrival", None if arrival == "closed" else arrival),
    ]
    mistakes = [
        Mistake(option, _listed(values), f"contradicts {other} {value}", "Give one of them")
        for option, values, other, value in contradictions
        if values is not None and value is not None
    ]
    if mistakes:
        raise BadInputError("command line", mistakes)
    timed = {} if minutes is None else {"seconds": minutes * 60, "repeats": MOST_REPEATS}
    return timed | _of_load(given, loads, rates, arrival)


def _of_load(
    given: dict[str, Any],
    loads: tuple[float, ...] | None,
    rates: tuple[float, ...] | None,
    arrival: str | None,
) -> dict[str, Any]:
    if rates is not None:
        several = _ascending("--rate", rates)
        single = several[0] if len(several) == 1 else None
        return {
            "arrival": arrival or "poisson",
            "rate": single,
            "loads": several if single is None else (),
        }
    if loads is not None:
        several = _ascending("--load", loads)
        return {
            "arrival": "closed",
            "rate": None,
            "concurrency": int(several[-1]),
            "loads": several if len(several) > 1 else (),
        }
    return {"loads": ()} if given["concurrency"] is not None else {}


def _ascending(option: str, values: tuple[float, ...]) -> tuple[float, ...]:
    ascending = tuple(sorted(set(values)))
    if values != ascending:
        console.say(f"{option} {_listed(values)} is measured as {_listed(ascending)}")
    return ascending


def _listed(values: tuple[float, ...]) -> str:
    return ",".join(f"{value:g}" for value in values)
