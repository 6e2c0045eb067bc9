"""Exact (Clopper-Pearson) verdicts on violation counts."""

from __future__ import annotations

import math

from scipy import stats

from verify.constants import ALPHA


def lower_bound(violations: int, n: int, alpha: float = ALPHA) -> float:
    """One-sided exact lower confidence bound of a violation rate at error probability alpha."""
    return float(stats.beta.ppf(alpha, violations, n - violations + 1)) if violations else 0.0


def upper_bound(violations: int, n: int, alpha: float = ALPHA) -> float:
    """One-sided exact upper confidence bound of a violation rate at error probability alpha."""
    return float(stats.beta.ppf(1 - alpha, violations + 1, n - violations)) if violations < n else 1.0


def decide(violations: int, n: int, delta: float, alpha: float = ALPHA) -> str:
    """SUPPORTED iff the upper bound is <= delta, REFUTED iff the lower bound is > delta, else INCONCLUSIVE."""
    if n and upper_bound(violations, n, alpha) <= delta:
        return "SUPPORTED"
    if n and lower_bound(violations, n, alpha) > delta:
        return "REFUTED"
    return "INCONCLUSIVE"


def trials_for_support(delta: float, violations: int = 0, alpha: float = ALPHA) -> int:
    """Smallest n that supports a rate <= delta with that many violations (delta = 0.1: 88 for none, 113 for one)."""
    if delta <= 0:
        return 2**63
    if violations == 0:
        return math.ceil(math.log(alpha) / math.log1p(-delta)) if delta < 1 else 1
    lo, hi = violations, max(violations + 1, math.ceil(20 * (violations + 10) / delta))
    while lo < hi:
        mid = (lo + hi) // 2
        lo, hi = (lo, mid) if upper_bound(violations, mid, alpha) <= delta else (mid + 1, hi)
    return lo


def trials_to_decide(violations: int, n: int, delta: float, alpha: float = ALPHA, cap: int = 10**6) -> int | None:
    """About how many trials in all would decide if the rate stayed as observed; None if more than `cap`."""
    rate = violations / n if n else 0.0
    size = max(n, 8)
    while size <= cap:
        if decide(round(rate * size), size, delta, alpha) != "INCONCLUSIVE":
            return size
        size = math.ceil(size * 1.05) + 1
    return None
