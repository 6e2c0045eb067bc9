"""Exponents with intervals: the slope of log measured (or log measured/predicted) against log x, over rungs of a ladder."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import stats

from verify.claim.check import Fit

CONFIDENCE = 0.99
"""Two-sided confidence of the interval (design.md section 3)."""


def fit_exponent(
    x: Sequence[float],
    y_by_rung: Sequence[Sequence[float]],
    theory: float,
    tolerance: float = 0.1,
    predicted: Sequence[float] | None = None,
) -> Fit:
    """Least-squares exponent of y in x with a 99 % t-interval.

    The slope is fitted to the logarithm of each rung's mean, so that a trial may measure 0. Its standard error comes from the
    scatter of trials within rungs (delta method, Welch-Satterthwaite degrees of freedom); where the rungs leave the straight
    line by more than that scatter explains (F-test at 1 %), it comes from their distances to the line: a curved law then pays
    for its curvature. One trial per rung leaves only the second way.

    Args:
        x: the driving variable per rung, positive. y_by_rung: measured values, one sequence of trials per rung.
        theory: the exponent that is claimed, of y (of y/predicted if given). tolerance: half-width of what counts as agreement.
        predicted: known factors (logarithms, say) per rung, divided out before the fit.

    Returns:
        A Fit; its points are (x, median of y, the claimed law with the best constant) per rung. NaN, or a rung whose mean is
        not positive, gives a Fit that is not finite, hence the verdict NUMERIC.

    Raises:
        ValueError: for fewer than two different x, unequal lengths, an empty rung, or two rungs with one trial each.
    """
    known = np.ones(len(x)) if predicted is None else np.asarray(predicted, float)
    rungs = [np.asarray(y, float) for y in y_by_rung]
    counts = np.array([y.size for y in rungs])
    if not len(x) == len(rungs) == known.size or len(set(x)) < 2 or counts.min() < 1:
        raise ValueError(
            f"want the same number (at least two, different) of x, non-empty rungs and predictions; got {len(x)}, {counts}, {known.size}"
        )
    if len(x) == 2 and counts.max() == 1:
        raise ValueError("two rungs with one trial each leave no interval; give more trials or more rungs")
    means = np.array([y.mean() for y in rungs])
    medians = [float(np.median(y)) for y in rungs]
    log_x = np.log(np.asarray(x, float))
    with np.errstate(invalid="ignore", divide="ignore"):
        log_y = np.log(means / known)
    if not np.isfinite(log_y).all():
        points = tuple((float(a), m, math.nan) for a, m in zip(x, medians, strict=True))
        return Fit(math.nan, math.nan, math.nan, theory, tolerance, points)

    centred = log_x - log_x.mean()
    weights = centred / (centred @ centred)
    slope = float(weights @ log_y)
    residual = log_y - log_y.mean() - slope * centred
    half, source = _half_width(rungs, means, weights, residual)
    constant = math.exp(float(np.mean(log_y - theory * log_x)))
    law = constant * known * np.exp(theory * log_x)
    points = tuple((float(a), m, float(b)) for a, m, b in zip(x, medians, law, strict=True))
    detail = {"constant": constant, "interval_from": source, "largest_residual": float(np.abs(residual).max())}
    return Fit(slope, slope - half, slope + half, theory, tolerance, points, detail)


def _half_width(rungs: Sequence[np.ndarray], means: np.ndarray, weights: np.ndarray, residual: np.ndarray) -> tuple[float, str]:
    """Half-width of the slope's interval and where it comes from: the scatter of "trials", or the residuals of "rungs"."""
    level = (1 + CONFIDENCE) / 2
    by_trials = by_rungs = None
    if min(y.size for y in rungs) > 1:
        # Var(log mean) = Var(y)/(N mean^2) to first order.
        parts = np.array([w**2 * y.var(ddof=1) / (y.size * m**2) for w, y, m in zip(weights, rungs, means, strict=True)])
        free = np.array([y.size - 1 for y in rungs])
        variance = float(parts.sum())
        freedom = variance**2 / float((parts**2 / free).sum()) if variance else float(free.sum())
        by_trials = (variance, freedom)
    if len(rungs) > 2:
        freedom = len(rungs) - 2
        by_rungs = (float(residual @ residual) / freedom * float(weights @ weights), float(freedom))
    if by_trials and by_rungs:
        curved = by_rungs[0] > by_trials[0] * stats.f.ppf(CONFIDENCE, by_rungs[1], by_trials[1])
        chosen, source = (by_rungs, "rungs") if curved else (by_trials, "trials")
    else:
        chosen, source = (by_trials, "trials") if by_trials else (by_rungs, "rungs")
    assert chosen is not None
    return float(stats.t.ppf(level, chosen[1])) * math.sqrt(chosen[0]), source
