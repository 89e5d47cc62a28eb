"""Numbers that take as little memory as they can: a large run has millions."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import overload


class Packed(Sequence[float]):
    """Floats at 8 bytes each, equal to the tuple of the same floats, which takes 32 for each.

    Args:
        values: to keep.
    """

    __slots__ = ("_values",)

    def __init__(self, values: Iterable[float]) -> None:
        self._values = array("d", values)

    @overload
    def __getitem__(self, index: int) -> float: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[float]: ...
    def __getitem__(self, index: int | slice) -> float | Sequence[float]:
        return self._values[index]

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[float]:
        return iter(self._values)

    def __eq__(self, other: object) -> bool:
        return tuple(self) == (tuple(other) if isinstance(other, Packed) else other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))
