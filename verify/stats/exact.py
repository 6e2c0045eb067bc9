"""Exact probabilities behind the verdicts of Appendix C: hypergeometric products, binomial windows, norms of Gaussian patches,
extremes of half-normals. Noise is in units of sigma_p, weights in units of sigma_0.

Every function returns the probability that a statement fails. Sums of independent terms with a closed characteristic function
are integrated over a box by their Fourier series, which errs only by the mass outside the period and by truncation (both far
below 1e-10 here).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import integrate, special, stats

from verify.constants import ALPHA
from verify.stats.binomial import lower_bound, upper_bound

HALF_NORMAL_MEAN = math.sqrt(2 / math.pi)
HALF_NORMAL_VARIANCE = 1 - 2 / math.pi
LEAST_S = 24
"""Fewest coordinates for `norms_outside`: with fewer the characteristic function decays too slowly for its grid."""


def count_agrees(violations: int, n: int, probability: float, alpha: float = ALPHA) -> bool:
    """Whether a Monte-Carlo count lies within the exact two-sided binomial interval of `probability`.

    A correct count is rejected with probability at most 2 alpha.
    """
    return lower_bound(violations, n, alpha) <= probability <= upper_bound(violations, n, alpha)


@lru_cache
def overlap(n: int, s: int, free: int) -> float:
    """P(n uniform s-subsets of `free` coordinates are not pairwise disjoint) = 1 - prod_i C(free-is, s)/C(free, s)."""
    if n * s > free:
        return 1.0
    j = np.arange(s, dtype=float)
    return float(-math.expm1(sum(np.log1p(-i * s / (free - j)).sum() for i in range(1, n))))


def signal_touched(n: int, s: int, d: int) -> float:
    """P(one of n uniform s-subsets of d coordinates contains coordinate 1) = 1 - (1-s/d)^n."""
    return -math.expm1(n * math.log1p(-s / d))


def binomial_outside(n: int, low: float, high: float) -> float:
    """P(Bin(n, 1/2) < low or > high)."""
    return float(stats.binom.cdf(math.ceil(low) - 1, n, 0.5) + stats.binom.sf(math.floor(high), n, 0.5))


def split_evenly(n: int) -> float:
    """P(Bin(n, 1/2) = n/2): C(n, n/2)/2^n for even n, 0 for odd n."""
    return 0.0 if n % 2 else float(stats.binom.pmf(n // 2, n, 0.5))


def more_than(failures: int, n: int, probability: float) -> float:
    """P(Bin(n, probability) > failures)."""
    return float(stats.binom.sf(failures, n, probability))


# --- extremes of Gaussians ---------------------------------------------------------------------------------------------------------


def half_normal_exceeds(threshold: float, count: int = 1) -> float:
    """P(max of `count` half-normals > threshold)."""
    return float(-np.expm1(count * np.log1p(-2 * stats.norm.sf(threshold))))


def half_normal_below(threshold: float, count: int = 1) -> float:
    """P(min of `count` half-normals < threshold)."""
    return float(-np.expm1(count * np.log1p(-special.erf(threshold / math.sqrt(2)))))


def half_normal_gap_below(gap: float, count: int = 1) -> float:
    """P(min of `count` gaps ||X|-|Y|| of standard normals < gap).

    ||X|-|Y|| = sqrt(2) min(|U|, |V|) for the independent standard normals U, V = (X-Y)/sqrt(2), (X+Y)/sqrt(2), so that one
    gap exceeds g with probability (1 - erf(g/2))^2; `half_normal_gap_below_by_quadrature` says the same without the rotation.
    """
    return float(-np.expm1(2 * count * np.log1p(-special.erf(gap / 2))))


def half_normal_gap_below_by_quadrature(gap: float) -> float:
    """P(||X|-|Y|| < gap) as the integral over |X| = x of P(x-gap < |Y| < x+gap)."""

    def inner(x: float) -> float:
        return float(stats.halfnorm.pdf(x) * (stats.halfnorm.cdf(x + gap) - stats.halfnorm.cdf(x - gap)))

    below, _ = integrate.quad(inner, 0, gap, epsabs=0, epsrel=1e-12)
    above, _ = integrate.quad(inner, gap, gap + 40, epsabs=0, epsrel=1e-12, limit=400)
    return below + above


@lru_cache
def noise_exceeds(threshold: float, count: int, n: int, s: int) -> float:
    r"""P(for one of n patches, the max of `count` inner products |<w, xi_i>| exceeds threshold * sqrt(s)).

    Given the patch they are half-normal of scale $\|\xi_i\|_2$, and $\|\xi_i\|_2^2$ is chi-square with s degrees of freedom:
    one integral per patch, and the patches are independent (disjoint supports).
    """

    def inner(x: float) -> float:
        return float(stats.chi2.pdf(x, s)) * half_normal_exceeds(threshold * math.sqrt(s / x), count)

    spread = math.sqrt(2 * s)
    edges = [max(0.0, s - 9 * spread), s, s + 9 * spread, s + 40 * spread + 200]
    one = sum(integrate.quad(inner, a, b, epsabs=1e-16, epsrel=1e-10, limit=200)[0] for a, b in itertools.pairwise(edges))
    return float(-math.expm1(n * math.log1p(-min(one, 1.0)))) if one < 1 else 1.0


# --- norms of a Gaussian patch -----------------------------------------------------------------------------------------------------


def _moment(u: ArrayLike, v: ArrayLike = 0.0) -> NDArray[np.complex128]:
    """E exp(i u |x| + i v x^2) of a standard normal x: w(u/sqrt(2(1-2iv)))/sqrt(1-2iv), w the Faddeeva function."""
    root = np.sqrt(1 - 2j * np.asarray(v))
    return special.wofz(np.asarray(u) / (math.sqrt(2) * root)) / root


def _box_integrals(omega: NDArray[np.floating], low: float, high: float) -> NDArray[np.complex128]:
    """Integral of exp(-i omega x) over [low, high]."""
    middle, half = (low + high) / 2, (high - low) / 2
    return np.asarray(2 * half * np.exp(-1j * omega * middle) * np.sinc(omega * half / math.pi), complex)


def _first_small(size: Callable[[float], float], tolerance: float = 1e-13) -> float:
    """A frequency beyond which the decreasing `size` is below the tolerance."""
    omega = 1e-6
    while size(omega) > tolerance:
        omega *= 1.2
    return omega


@lru_cache
def l1_difference_outside(plus: int, minus: int, low: float, high: float) -> float:
    """P(sum of `plus` half-normals minus sum of `minus` half-normals is outside [low, high])."""
    centre = HALF_NORMAL_MEAN * (plus - minus)
    half = 12 * math.sqrt(HALF_NORMAL_VARIANCE * (plus + minus)) + 12
    top = _first_small(lambda u: float(abs(_moment(u)) ** (plus + minus)))
    omega = math.pi / half * np.arange(-math.ceil(top * half / math.pi), math.ceil(top * half / math.pi) + 1)
    phi = _moment(omega) ** plus * np.conj(_moment(omega)) ** minus * np.exp(-1j * omega * centre)
    low, high = max(low - centre, -half), min(high - centre, half)
    if low >= high:
        return 1.0
    return max(0.0, 1 - (phi * _box_integrals(omega, low, high)).sum().real / (2 * half))


@lru_cache
def norms_outside(s: int, l1: tuple[float, float], square: tuple[float, float]) -> float:
    r"""P(not: l1[0] <= |x|_1 <= l1[1] and square[0] <= |x|_2^2 <= square[1]) for x standard normal in R^s.

    A two-dimensional Fourier series of the joint law of the two norms (they are far from independent).

    Raises:
        ValueError: for s below LEAST_S.
    """
    if s < LEAST_S:
        raise ValueError(f"s={s}: the series needs s >= {LEAST_S}; use Monte-Carlo")
    centres = HALF_NORMAL_MEAN * s, float(s)
    halves = 12 * math.sqrt(HALF_NORMAL_VARIANCE * s), 12 * math.sqrt(2 * s) + 60
    # |E exp(iu|x|+ivx^2)| decays slowest where the phase is stationary, u = -2v|x| with |x| of order 1: scan that ridge.
    ridge = np.linspace(0, 3, 61)
    top_v = _first_small(lambda v: float(np.abs(_moment(-2 * v * ridge, v)).max() ** s))
    top_u = _first_small(lambda u: float(np.abs(_moment(u, np.append(-u / (2 * ridge[1:]), 0.0))).max() ** s))
    grids = [
        math.pi / half * np.arange(-math.ceil(top * half / math.pi), math.ceil(top * half / math.pi) + 1)
        for top, half in zip((top_u, top_v), halves, strict=True)
    ]
    inside = []
    for (low, high), centre, half, omega in zip((l1, square), centres, halves, grids, strict=True):
        low, high = max(low - centre, -half), min(high - centre, half)
        if low >= high:
            return 1.0
        inside.append(_box_integrals(omega, low, high) / (2 * half))
    total = 0.0
    for u, weight in zip(grids[0], inside[0], strict=True):
        phi = _moment(u, grids[1]) ** s * np.exp(-1j * (u * centres[0] + grids[1] * centres[1]))
        total += float((weight * (phi @ inside[1])).real)
    return max(0.0, 1 - total)


def chi_square_outside(s: int, low: float, high: float) -> float:
    """P(a chi-square variable with s degrees of freedom is outside [low, high])."""
    return float(stats.chi2.cdf(low, s) + stats.chi2.sf(high, s))
