"""Calibration of verdicts on counts: by exact binomial sums, no simulation."""

from __future__ import annotations

import bisect

import numpy as np
import pytest
from scipy import stats

from verify.constants import ALPHA, DELTA
from verify.stats import decide, lower_bound, trials_for_support, trials_to_decide, upper_bound

SIZES = [*range(1, 60), *range(60, 301, 10), 88, 113, 120]


def verdicts(n: int, delta: float) -> dict[str, np.ndarray]:
    """Which violation counts of n trials give which verdict: masks over 0..n (both bounds grow with the count)."""
    counts = range(n + 1)
    supported = bisect.bisect_left(counts, True, key=lambda k: decide(k, n, delta) != "SUPPORTED")
    refuted = bisect.bisect_left(counts, True, key=lambda k: decide(k, n, delta) == "REFUTED")
    k = np.arange(n + 1)
    return {"SUPPORTED": k < supported, "REFUTED": k >= refuted}


def test_verdicts_are_monotone_in_the_count() -> None:
    order = {"SUPPORTED": 0, "INCONCLUSIVE": 1, "REFUTED": 2}
    for n in (5, 88, 120):
        given = [order[decide(k, n, DELTA)] for k in range(n + 1)]
        assert given == sorted(given)


@pytest.mark.parametrize("delta", [0.01, DELTA, 0.2])
def test_error_probabilities_are_at_most_alpha(delta: float) -> None:
    above = np.append(delta + 1e-12, np.linspace(delta, 1, 40)[1:])
    below = np.append(np.linspace(0, delta, 40)[:-1], delta)
    worst = {"SUPPORTED": 0.0, "REFUTED": 0.0}
    for n in SIZES:
        masks = verdicts(n, delta)
        k = np.arange(n + 1)
        for name, rates in (("SUPPORTED", above), ("REFUTED", below)):
            errors = stats.binom.pmf(k[:, None], n, rates[None]).T @ masks[name]
            worst[name] = max(worst[name], float(errors.max()))
    assert worst["SUPPORTED"] <= ALPHA * (1 + 1e-9)
    assert worst["REFUTED"] <= ALPHA * (1 + 1e-9)
    # Not by never deciding: at delta = 0.1 both verdicts come close to spending their alpha for some n.
    if delta == DELTA:
        assert min(worst.values()) > ALPHA / 2


@pytest.mark.parametrize("n", [1, 7, 40, 120, 300])
def test_bounds_invert_the_binomial_tails(n: int) -> None:
    for k in range(n + 1):
        low, high = lower_bound(k, n), upper_bound(k, n)
        assert 0 <= low <= k / n <= high <= 1
        if k:
            assert stats.binom.sf(k - 1, n, low) == pytest.approx(ALPHA, rel=1e-6)
        if k < n:
            assert stats.binom.cdf(k, n, high) == pytest.approx(ALPHA, rel=1e-6)


def test_trials_that_support_needs() -> None:
    # Zero violations support a rate <= 0.1 once 0.9^n <= 1e-4, that is n >= 87.4; one violation once 0.9^n + n 0.1 0.9^(n-1) <= 1e-4.
    assert trials_for_support(DELTA) == 88
    assert trials_for_support(DELTA, 1) == 113
    for violations in range(4):
        n = trials_for_support(DELTA, violations)
        assert decide(violations, n, DELTA) == "SUPPORTED"
        assert decide(violations, n - 1, DELTA) != "SUPPORTED"
    assert trials_for_support(0.0) > 10**18


def test_five_violations_of_five_refute() -> None:
    # 0.1^n < 1e-4 strictly needs n = 5: at n = 4 the lower bound is 0.1 itself.
    assert decide(5, 5, DELTA) == "REFUTED"
    assert decide(3, 3, DELTA) == "INCONCLUSIVE"


def test_trials_to_decide_decides_at_the_observed_rate() -> None:
    n = trials_to_decide(3, 40, DELTA)
    assert n is not None
    assert decide(round(3 / 40 * n), n, DELTA) != "INCONCLUSIVE"
    assert trials_to_decide(12, 120, DELTA) is None  # the rate is the limit itself
