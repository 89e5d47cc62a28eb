"""How the spread of one test case is estimated with the help of the others.

Three or four prompts say little about their own spread. Test cases measured side by side share machine and
method, so the variance of each is drawn towards their common one, as far as the rows themselves agree on it:
empirical Bayes, "moderated t" (Smyth, Statistical Applications in Genetics and Molecular Biology 3, 2004,
section 6.2). If the rows disagree, they are drawn only a little.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, inf, log
from statistics import fmean, median, variance

from specdec.analysis.distributions import digamma, inverse_trigamma, trigamma
from specdec.analysis.pairing import LogRatio, prompt_means


@dataclass(frozen=True, slots=True)
class CommonSpread:
    """Prior of a variance.

    Attributes:
        variance: of the log ratios over prompts, common to the rows.
        degrees: degrees of freedom it is worth; 0 means that nothing is borrowed.
        most: degrees of freedom that all rows have together. No row can be worth more (the cap that limma
            puts on borrowed degrees), however well the rows happen to agree.
    """

    variance: float
    degrees: float
    most: float = inf

    def moderate(self, own: float, degrees: int) -> tuple[float, float]:
        """Moderated variance of a row and its degrees of freedom, from its own variance and degrees."""
        if self.degrees == inf:
            return self.variance, self.most
        total = self.degrees + degrees
        return (self.degrees * self.variance + degrees * own) / total, min(total, self.most)


NOTHING_COMMON = CommonSpread(0.0, 0.0)


def common_spread(rows: Sequence[Sequence[LogRatio]]) -> CommonSpread:
    """The prior that rows (see ``pairing.log_ratios``) agree on."""
    samples = [means for row in rows if len(means := prompt_means(row)) > 1]
    return prior([(variance(sample), len(sample) - 1) for sample in samples])


def prior(variances: Sequence[tuple[float, int]]) -> CommonSpread:
    """The prior that variances with their degrees of freedom (1 or more) agree on; ``NOTHING_COMMON`` with
    fewer than three.
    """
    if len(variances) < 3:
        return NOTHING_COMMON
    typical = median(own for own, _ in variances)
    if typical <= 0:
        return NOTHING_COMMON
    # A row without any spread would have a logarithm of minus infinity; the floor is the one limma uses.
    logs = [
        log(max(own, 1e-5 * typical)) - digamma(degrees / 2) + log(degrees / 2) for own, degrees in variances
    ]
    most = float(sum(degrees for _, degrees in variances))
    excess = variance(logs) - fmean(trigamma(degrees / 2) for _, degrees in variances)
    if excess <= 0:
        return CommonSpread(exp(fmean(logs)), inf, most)
    half_degrees = inverse_trigamma(excess)
    own = exp(fmean(logs) + digamma(half_degrees) - log(half_degrees))
    return CommonSpread(own, 2 * half_degrees, most)
