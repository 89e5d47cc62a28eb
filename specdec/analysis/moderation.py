"""What the spread of one test case may learn from the others.

Three or four prompts say little about their own spread. Test cases measured side by side share machine and
method, so the variance of each is drawn towards their common one, as far as the rows themselves agree on it:
empirical Bayes, "moderated t" (Smyth, Statistical Applications in Genetics and Molecular Biology 3, 2004,
section 6.2). Rows that disagree get little of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, inf, log
from statistics import fmean, median, variance

from specdec.analysis.distributions import digamma, inverse_trigamma, trigamma

_MANY = 10_000


@dataclass(frozen=True, slots=True)
class CommonSpread:
    """Prior of a variance.

    Attributes:
        variance: of the log ratios over prompts, common to the rows.
        degrees: degrees of freedom it is worth; 0 means that nothing is borrowed.
    """

    variance: float
    degrees: float

    def moderate(self, own: float, degrees: int) -> tuple[float, float]:
        """Moderated variance of a row and its degrees of freedom, from its own variance and degrees."""
        if self.degrees == inf:
            return self.variance, _MANY
        total = self.degrees + degrees
        return (self.degrees * self.variance + degrees * own) / total, total


NOTHING_COMMON = CommonSpread(0.0, 0.0)


def common_spread(rows: Sequence[Mapping[tuple[str, str], Sequence[float]]]) -> CommonSpread:
    """The prior that rows of clusters (see ``pairing.log_ratios``) agree on; ``NOTHING_COMMON`` with fewer
    than three rows of two prompts and more.
    """
    samples = [[fmean(values) for values in row.values()] for row in rows if len(row) > 1]
    if len(samples) < 3:
        return NOTHING_COMMON
    variances = [variance(sample) for sample in samples]
    typical = median(variances)
    if typical <= 0:
        return NOTHING_COMMON
    halves = [(len(sample) - 1) / 2 for sample in samples]
    # A row without any spread would have a logarithm of minus infinity; the floor is the one limma uses.
    logs = [
        log(max(own, 1e-5 * typical)) - digamma(half) + log(half)
        for own, half in zip(variances, halves, strict=True)
    ]
    excess = variance(logs) - fmean(trigamma(half) for half in halves)
    if excess <= 0:
        return CommonSpread(exp(fmean(logs)), inf)
    half_degrees = inverse_trigamma(excess)
    return CommonSpread(exp(fmean(logs) + digamma(half_degrees) - log(half_degrees)), 2 * half_degrees)
