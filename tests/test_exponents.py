"""Exponents: exact on power laws, honest about curvature, covered by the stated interval."""

from __future__ import annotations

import math

import numpy as np
import pytest

from verify import fit_exponent
from verify.claim.verdict import from_fit

X = [1.0, 2.0, 4.0, 8.0, 16.0]


def test_exact_power_law_has_no_width() -> None:
    fit = fit_exponent(X, [[3 * x**-0.5] * 4 for x in X], -0.5)
    assert fit.estimate == pytest.approx(-0.5, abs=1e-12)
    assert fit.high - fit.low < 1e-9
    assert fit.detail["constant"] == pytest.approx(3)
    assert [p[2] for p in fit.points] == pytest.approx([3 * x**-0.5 for x in X])
    assert from_fit(fit).verdict == "SUPPORTED"
    assert from_fit(fit_exponent(X, [[3 * x**-0.5] * 4 for x in X], -0.75)).verdict == "REFUTED"


def test_predicted_factors_are_divided_out() -> None:
    known = [math.log(10 * x) for x in X]
    measured = [[2 * k * x**0.25] for k, x in zip(known, X, strict=True)]
    assert fit_exponent(X, measured, 0.25, predicted=known).estimate == pytest.approx(0.25, abs=1e-12)
    assert fit_exponent(X, measured, 0.25).estimate > 0.4


def test_interval_covers_at_its_confidence() -> None:
    # 400 repetitions at true coverage 0.99: fewer than 384 covered has probability 1e-6 (binomial); the skew of the scatter
    # (log-normal, sigma 0.3) moves the coverage by far less than the 0.03 in between.
    rng = np.random.default_rng(1)
    fits = [fit_exponent(X, [x**0.5 * np.exp(0.3 * rng.standard_normal(8)) for x in X], 0.5) for _ in range(400)]
    assert sum(fit.low <= 0.5 <= fit.high for fit in fits) >= 384


def test_curved_laws_pay_for_their_curvature() -> None:
    # Trials without scatter would give an interval of width zero around the mean exponent.
    curved = [[x**0.5 * (1 + x / 40)] * 8 for x in X]
    fit = fit_exponent(X, curved, 0.5)
    assert fit.detail["interval_from"] == "rungs"
    assert fit.high - fit.low > 0.05
    slopes = np.diff(np.log([y[0] for y in curved])) / np.diff(np.log(X))
    assert slopes.min() < fit.estimate < slopes.max()


def test_trials_may_measure_zero_but_rungs_may_not() -> None:
    counts = [[0, 2, 1, 1], [2, 2, 2, 2], [4, 3, 5, 4]]
    assert fit_exponent([1, 2, 4], counts, 1.0).estimate == pytest.approx(1.0, abs=1e-12)
    for bad in ([[0.0], [1.0], [2.0]], [[1.0], [math.nan], [2.0]]):
        assert from_fit(fit_exponent([1, 2, 4], bad, 1.0)).verdict == "NUMERIC"


@pytest.mark.parametrize(("x", "y"), [([1], [[1, 2]]), ([1, 2], [[1], [2]]), ([1, 1], [[1, 2], [1, 2]]), ([1, 2], [[1, 2], []])])
def test_too_little_to_fit_is_refused(x: list[float], y: list[list[float]]) -> None:
    with pytest.raises(ValueError, match=r"rungs|want"):
        fit_exponent(x, y, 1.0)
