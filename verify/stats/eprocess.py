"""Anytime-valid verdicts: a truncated-beta e-process, so that a probe may look after every trial and stop when it knows.

For each theta > delta the likelihood ratio of theta against delta is a supermartingale under every rate <= delta; a mixture of
them over a Beta(a, b) truncated to (delta, 1) is therefore an e-process against "rate <= delta", and the mirror image over
(0, delta) one against "rate > delta". By Ville's inequality either crosses 1/alpha with probability at most alpha, whenever one stops.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

from scipy import special, stats

from verify.constants import ALPHA, DELTA

PRIOR = (1.0, 1.0)
"""Uniform before truncation: five violations out of five refute, 111 trials without one support (delta = 0.1, alpha = 1e-4)."""


def log_e(violations: Any, n: Any, delta: float, *, above: bool) -> Any:
    """log of the e-value against "rate <= delta" (above) or against "rate >= delta" (not above); counts may be arrays.

    An incomplete beta function that underflows gives -inf, never a floor: no evidence is the safe side of an e-value.
    """
    a, b = PRIOR[0] + violations, PRIOR[1] + n - violations
    tail = stats.beta.logsf if above else stats.beta.logcdf
    likelihood = violations * math.log(delta) + (n - violations) * math.log1p(-delta)
    return special.betaln(a, b) - special.betaln(*PRIOR) + tail(delta, a, b) - tail(delta, *PRIOR) - likelihood


@cache
def _log_e(violations: int, n: int, delta: float, above: bool) -> float:
    return float(log_e(violations, n, delta, above=above))


@dataclass
class EProcess:
    """Counts of one stream of trials and the verdict that may be read at any time.

    The verdict is latched: once an e-value has crossed 1/alpha it stands, whatever comes later.
    """

    delta: float = DELTA
    alpha: float = ALPHA
    n: int = 0
    violations: int = 0
    verdict: str = "INCONCLUSIVE"

    def add(self, holds: bool) -> str:
        """Count one trial and return the verdict so far."""
        self.n += 1
        self.violations += not holds
        if self.verdict == "INCONCLUSIVE":
            limit = -math.log(self.alpha)
            if _log_e(self.violations, self.n, self.delta, True) >= limit:
                self.verdict = "REFUTED"
            elif _log_e(self.violations, self.n, self.delta, False) >= limit:
                self.verdict = "SUPPORTED"
        return self.verdict


def interval(violations: int, n: int, alpha: float = ALPHA) -> tuple[float, float]:
    """Confidence sequence for the violation rate: the rates that neither e-value rejects; valid whenever one stops (level 1 - 2 alpha)."""
    if n == 0:
        return 0.0, 1.0
    limit = -math.log(alpha)
    inside = violations / n

    def edge(outside: float, above: bool) -> float:
        rejected, kept = outside, inside
        if not log_e(violations, n, min(max(rejected, 1e-12), 1 - 1e-12), above=above) >= limit:
            return outside
        for _ in range(50):
            middle = (rejected + kept) / 2
            if log_e(violations, n, middle, above=above) >= limit:
                rejected = middle
            else:
                kept = middle
        return rejected

    low = edge(0.0, True) if violations else 0.0
    high = edge(1.0, False) if violations < n else 1.0
    return float(low), float(high)
