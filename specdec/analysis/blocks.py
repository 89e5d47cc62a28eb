"""What the requests of a block share: a disturbed minute, a fresh connection, a busy neighbour.

A disturbance affects all pairs of a block alike, so the spread between prompts does not show it. Its variance
is estimated from how blocks differ beyond what their pairs differ by chance (analysis of variance for
unbalanced data, Henderson's method 3: Searle, Casella and McCulloch, Variance Components, 1992, section 5.5),
pooled over the rows that are read together, since they ran on one machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from specdec.analysis.moderation import prior
from specdec.analysis.pairing import LogRatio

Floats = NDArray[np.float64]

_ROUNDING = 1e-9

_DENSE = 512
"""Blocks up to which the table of their products is decomposed: with 2,500 blocks of 5,000 prompts, a large
run of one test case, tables take hundreds of megabytes."""

_SOLVED = 1e-24
"""Square of the share of a residual at which an equation counts as solved."""


@dataclass(frozen=True, slots=True)
class BlockSpread:
    """Variance between blocks, of the logarithm of a ratio.

    Attributes:
        variance: of one block's disturbance, what pairs differ by chance taken off.
        uncertainty: standard error of ``variance`` over the square root of 2, so that an estimate of known
            degrees of freedom has ``variance / sqrt(degrees)``.
        most: the same with nothing taken off: too large on average, but sure already with few blocks.
        most_uncertainty: as ``uncertainty``, of ``most``.
        degrees: degrees of freedom between blocks.

    An interval from either one holds, so the narrower of the two is used.
    """

    variance: float
    uncertainty: float
    most: float
    most_uncertainty: float
    degrees: float


def block_spread(rows: Sequence[Sequence[LogRatio]]) -> BlockSpread | None:
    """The variance between blocks that rows agree on; None where no row has two blocks that can be told
    apart, so that nothing is known.

    Args:
        rows: the pairs of each row; rows of one variant and one baseline, so that no pair stands twice.
    """
    parts = [part for row in rows if (part := _partition(row)) is not None]
    apart = len({pair.block for row in rows for pair in row}) - 1
    counted = sum(part.block_degrees for part in parts)
    if not parts or apart < 1:
        return None
    chance = _errors(parts)
    # A noisy row says little about blocks: each weighs as its mean squares are sure. The blocks' own part in
    # these is not known before the first round.
    first, *_ = _pool(parts, chance, 0.0)
    estimate, between, weights, shares = _pool(parts, chance, first)
    # Blocks that all rows share, as in an open loop, are not counted once for each of them.
    repeated = max(1.0, counted / apart)
    # Each row's part in the sum, as expected and as seen: a row that outweighs the others is worth no more
    # than its own degrees of freedom.
    alike = between**2 * sum(share**2 / part.block_degrees for share, part in zip(shares, parts, strict=True))
    unlike = sum(
        (weight * part.between) ** 2 / (part.block_degrees + 2)
        for weight, part in zip(weights, parts, strict=True)
    )
    shown = repeated * max(alike, unlike)
    expected = sum(
        (weight * part.block_degrees * error) ** 2 / degrees
        for weight, part, (error, degrees) in zip(weights, parts, chance, strict=True)
    )
    degrees = counted / repeated
    return BlockSpread(estimate, sqrt(shown + expected), between, sqrt(shown), degrees)


def _pool(
    parts: Sequence[_Partition], chance: Sequence[tuple[float, float]], assumed: float
) -> tuple[float, float, list[float], list[float]]:
    """Variance between blocks, the same with nothing taken off for chance, each row's weight in both, and the
    part of the sum that it is expected to bring.
    """
    squares = [
        error + part.size / part.block_degrees * assumed
        for part, (error, _) in zip(parts, chance, strict=True)
    ]
    raw = [1 / square**2 if square > 0 else 1.0 for square in squares]
    size = sum(weight * part.size for weight, part in zip(raw, parts, strict=True))
    weights = [weight / size for weight in raw]
    between = sum(weight * part.between for weight, part in zip(weights, parts, strict=True))
    by_chance = sum(
        weight * part.block_degrees * error
        for weight, part, (error, _) in zip(weights, parts, chance, strict=True)
    )
    brought = [
        weight * part.block_degrees * square
        for weight, part, square in zip(weights, parts, squares, strict=True)
    ]
    shares = [own / sum(brought) if sum(brought) else 1 / len(brought) for own in brought]
    return max(0.0, between - by_chance), between, weights, shares


def _errors(parts: Sequence[_Partition]) -> list[tuple[float, float]]:
    """Each row's variance by chance with its degrees of freedom, steadied by the others."""
    known = [(part.error / part.error_degrees, part.error_degrees) for part in parts if part.error_degrees]
    common = prior(known)
    degrees = sum(own for _, own in known)
    pooled = sum(variance * own for variance, own in known) / degrees if degrees else 0.0
    return [
        common.moderate(part.error / part.error_degrees, part.error_degrees)
        if part.error_degrees
        else (pooled, float(max(1, degrees)))
        for part in parts
    ]


def shared_share(row: Sequence[LogRatio]) -> float:
    """Factor of the variance between blocks in the variance of a row's mean that the spread between its
    prompts does not show already: 0 where no block holds two prompts, ``1 / blocks`` where every block holds
    all.
    """
    blocks, weights, prompts = _weights(row)
    if prompts < 2:
        return 1.0
    columns = np.bincount(blocks, weights)
    own = float((columns**2).sum()) / prompts**2
    seen = float((weights**2).sum() - (columns**2).sum() / prompts) / (prompts * (prompts - 1))
    return own - seen if own - seen > _ROUNDING else 0.0


@dataclass(frozen=True, slots=True)
class _Partition:
    between: float
    block_degrees: int
    error: float
    error_degrees: int
    size: float


def _partition(row: Sequence[LogRatio]) -> _Partition | None:
    """Sums of squares of one row: between blocks after prompts, and the rest; None with one block."""
    values = np.asarray([pair.value for pair in row])
    blocks = tuple(_numbered([pair.block for pair in row]))
    if len(set(blocks)) < 2:
        return None
    # Prompts that never change their block tell nothing about blocks once they are taken out.
    for others in (_numbered([pair.prompt for pair in row]), [0] * len(row)):
        part = _between(values, blocks, tuple(others))
        if part is not None:
            return part
    return None


def _between(values: Floats, blocks: tuple[int, ...], others: tuple[int, ...]) -> _Partition | None:
    design = _design(blocks, others) if max(blocks) < _DENSE else _large_design(blocks, others)
    if not design.rank:
        return None
    means = np.bincount(others, values) / np.bincount(others)
    rest = values - means[np.asarray(others)]
    sums: Floats = np.bincount(blocks, rest).astype(np.float64)
    between = design.between(sums)
    return _Partition(
        between=between,
        block_degrees=design.rank,
        error=max(0.0, float(np.square(rest).sum()) - between),
        error_degrees=len(values) - (max(others) + 1) - design.rank,
        size=design.trace,
    )


@dataclass(frozen=True, slots=True)
class _Design:
    """Which pairs lie in which block, the others' means taken out.

    Attributes:
        sizes, vectors: eigenvalues above 0 and eigenvectors of the products of the blocks' columns: as many
            as there are blocks, where a decomposition of the columns would have as many as there are pairs.
        trace: sum of the columns' squares.
    """

    sizes: Floats
    vectors: Floats
    trace: float

    @property
    def rank(self) -> int:
        """Blocks that can be told apart, less those that the others' means take out."""
        return len(self.sizes)

    def between(self, sums: Floats) -> float:
        """Sum of squares that the blocks explain, from the sums of what is left in each."""
        return float((np.square(self.vectors.T @ sums) / self.sizes).sum())


@dataclass(frozen=True, slots=True)
class _LargeDesign:
    """The same without a table: the products are applied, pair by pair.

    Attributes:
        blocks, others: of each pair.
        in_block, in_other: pairs of each block and of each other.
        rank, trace: see ``_Design``.
    """

    blocks: NDArray[np.int64]
    others: NDArray[np.int64]
    in_block: Floats
    in_other: Floats
    rank: int
    trace: float

    def between(self, sums: Floats) -> float:
        """See ``_Design``. Solved by conjugate gradients (Hestenes and Stiefel, 1952): the products are those
        of a graph whose links are the others, and the sums of each connected part are 0.
        """
        solution, rest, direction = np.zeros_like(sums), sums.copy(), sums.copy()
        size = first = float(sums @ sums)
        for _ in range(2 * len(sums)):
            if size <= _SOLVED * first:
                break
            image = self._times(direction)
            step = size / float(direction @ image)
            solution += step * direction
            rest -= step * image
            before, size = size, float(rest @ rest)
            direction = rest + size / before * direction
        return float(sums @ solution)

    def _times(self, vector: Floats) -> Floats:
        means = np.bincount(self.others, vector[self.blocks]) / self.in_other
        image: Floats = self.in_block * vector - np.bincount(self.blocks, means[self.others])
        return image


@lru_cache(maxsize=64)
def _large_design(blocks: tuple[int, ...], others: tuple[int, ...]) -> _LargeDesign:
    block, other = np.asarray(blocks), np.asarray(others)
    in_block, in_other = (np.bincount(each).astype(np.float64) for each in (block, other))
    cells, counts = np.unique(other * len(in_block) + block, return_counts=True)
    shared = float((counts**2 / in_other[cells // len(in_block)]).sum())
    return _LargeDesign(
        blocks=block,
        others=other,
        in_block=in_block,
        in_other=in_other,
        rank=len(in_block) - _parts(blocks, others),
        trace=float(len(blocks)) - shared,
    )


def _parts(blocks: Sequence[int], others: Sequence[int]) -> int:
    """Connected parts of the graph that links each block with the others that it has pairs of."""
    parents: dict[tuple[str, int], tuple[str, int]] = {}

    def root(node: tuple[str, int]) -> tuple[str, int]:
        while (parent := parents.setdefault(node, node)) != node:
            parents[node] = parents[parent]
            node = parent
        return node

    for block, other in zip(blocks, others, strict=True):
        parents[root(("block", block))] = root(("other", other))
    return sum(node == parent for node, parent in parents.items())


@lru_cache(maxsize=64)
def _design(blocks: tuple[int, ...], others: tuple[int, ...]) -> _Design:
    """Kept, since every metric of a row has the same one."""
    counts = np.zeros((max(others) + 1, max(blocks) + 1))
    np.add.at(counts, (others, blocks), 1)
    products = np.diag(counts.sum(axis=0)) - counts.T @ (counts / counts.sum(axis=1, keepdims=True))
    sizes, vectors = np.linalg.eigh(products)
    known = sizes > _ROUNDING
    return _Design(sizes[known], vectors[:, known], float(np.trace(products)))


def _numbered(labels: Sequence[object]) -> list[int]:
    """Labels as 0, 1, 2, ... in the order they appear."""
    known = {label: place for place, label in enumerate(dict.fromkeys(labels))}
    return [known[label] for label in labels]


def _weights(row: Sequence[LogRatio]) -> tuple[NDArray[np.int64], Floats, int]:
    """Share of a prompt's pairs in a block, for each prompt and each block that it has pairs in: the blocks,
    the shares, and the number of prompts. As a table this would be as large as all prompts times all blocks.
    """
    prompts = np.asarray(_numbered([pair.prompt for pair in row]))
    blocks = np.asarray(_numbered([pair.block for pair in row]))
    size = int(blocks.max()) + 1
    cells, counts = np.unique(prompts * size + blocks, return_counts=True)
    return cells % size, counts / np.bincount(prompts)[cells // size], int(prompts.max()) + 1
