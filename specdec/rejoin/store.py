"""What was followed, one line a text, beside the records of its run."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specdec.errors import BadInputError, Mistake
from specdec.rejoin.walk import Swap, Walk

REJOINED = "rejoined.jsonl"

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Followed:
    """One text that was followed.

    Attributes:
        variant: whose text.
        against: the baseline it is compared with; ``variant`` itself where the baseline's own text was
            followed.
        test_case, prompt, repeat: which request.
        reference: address of the server that it was followed on.
        scorer: whether that is another server than the baseline's, so that either side's text is followed.
        walk: how it fared.
    """

    variant: str
    against: str
    test_case: str
    prompt: str
    repeat: int
    reference: str
    scorer: bool
    walk: Walk


def append(folder: Path, followed: Followed, *, hide: Callable[[Any], Any] = lambda plain: plain) -> None:
    """Keeps one line; flushed, so that nothing is lost when the check is ended.

    Args:
        folder: of the run.
        followed: to keep.
        hide: takes secrets out of plain data, since a server may repeat a key.
    """
    plain = hide({"schema": SCHEMA, **dataclasses.asdict(followed)})
    with (folder / REJOINED).open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(plain, ensure_ascii=True, allow_nan=False) + "\n")


def read(folder: Path) -> tuple[Followed, ...]:
    """All that was followed of a run, the latest of each text; empty where nothing was.

    Raises:
        BadInputError: a line is not one of ours.
    """
    path = folder / REJOINED
    if not path.exists():
        return ()
    latest: dict[tuple[str, ...], Followed] = {}
    for followed in _lines(path):
        key = followed.variant, followed.against, followed.test_case, followed.prompt, str(followed.repeat)
        latest[key] = followed
    return tuple(latest.values())


def _lines(path: Path) -> Iterator[Followed]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            raw: dict[str, Any] = json.loads(line)
            if raw.pop("schema") != SCHEMA:
                raise ValueError(f"not of schema {SCHEMA}")
            own: dict[str, Any] = raw.pop("walk")
            walk = Walk(own["tokens"], tuple(Swap(**swap) for swap in own["swaps"]))
            yield Followed(walk=walk, **raw)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BadInputError(
                "run",
                [
                    Mistake(
                        REJOINED,
                        f"{path}:{number}",
                        f"is broken: {error}",
                        "Delete the file and follow the texts again",
                    )
                ],
            ) from None
