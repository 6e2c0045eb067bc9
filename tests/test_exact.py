"""Exact probabilities against brute force, closed marginals and seeded Monte-Carlo."""

from __future__ import annotations

import math
from itertools import combinations, product

import numpy as np
import pytest
from scipy import special, stats

from verify.constants import ALPHA
from verify.stats import exact

INF = 1e9


def test_overlap_by_enumeration() -> None:
    subsets = list(combinations(range(7), 2))
    met = sum(len(set(a) | set(b) | set(c)) < 6 for a, b, c in product(subsets, repeat=3))
    assert exact.overlap(3, 2, 7) == pytest.approx(met / len(subsets) ** 3, rel=1e-12)
    assert exact.overlap(4, 2, 7) == 1.0


@pytest.mark.parametrize(("n", "s", "free"), [(5, 10, 600), (20, 40, 3999), (3, 4, 10**6)])
def test_overlap_is_the_hypergeometric_product(n: int, s: int, free: int) -> None:
    product_ = math.prod(math.comb(free - i * s, s) / math.comb(free, s) for i in range(n))
    assert 1 - exact.overlap(n, s, free) == pytest.approx(product_, rel=1e-9, abs=1e-15)


def test_overlap_keeps_its_digits_where_it_is_tiny() -> None:
    # 1 - product = n(n-1)s^2/(2 free) (1 + O(of itself) + O(s/free)).
    first_order = 33 * 32 * 1089**2 / (2 * (33**8 - 1))
    assert exact.overlap(33, 1089, 33**8 - 1) == pytest.approx(first_order, rel=first_order)
    assert exact.signal_touched(33, 1089, 33**8) == pytest.approx(33 * 1089 / 33**8, rel=1e-7)


def test_binomial_windows() -> None:
    assert exact.binomial_outside(4, 1, 3) == pytest.approx(2 / 16)
    assert exact.binomial_outside(20, 5, 15) == pytest.approx(2 * sum(math.comb(20, k) for k in range(5)) / 2**20)
    assert exact.split_evenly(20) == pytest.approx(math.comb(20, 10) / 2**20)
    assert exact.split_evenly(21) == 0.0
    assert all(exact.split_evenly(n) <= math.sqrt(2 / (math.pi * n)) for n in range(2, 400, 2))
    assert exact.more_than(1, 3, 0.5) == pytest.approx(0.5)


def test_half_normals() -> None:
    assert exact.half_normal_exceeds(1.96) == pytest.approx(2 * stats.norm.sf(1.96))
    assert exact.half_normal_exceeds(2.0, 3) == pytest.approx(1 - special.erf(math.sqrt(2)) ** 3)
    assert exact.half_normal_below(0.3, 2) == pytest.approx(1 - special.erfc(0.3 / math.sqrt(2)) ** 2)


@pytest.mark.parametrize("gap", [1e-6, 0.01, 0.4, 2.5])
def test_gap_of_half_normals_by_rotation_and_by_quadrature(gap: float) -> None:
    assert exact.half_normal_gap_below(gap) == pytest.approx(exact.half_normal_gap_below_by_quadrature(gap), rel=1e-9)
    # The density of |X|-|Y| at 0 is 1/sqrt(pi), hence 2 gap/sqrt(pi) to first order.
    assert exact.half_normal_gap_below(gap) <= 2 * gap / math.sqrt(math.pi)


@pytest.mark.parametrize("s", [24, 40, 289])
def test_joint_norms_have_the_right_marginals(s: int) -> None:
    window = (s / math.sqrt(2), float(s))
    assert exact.norms_outside(s, (0.0, INF), (s / 2, 1.5 * s)) == pytest.approx(exact.chi_square_outside(s, s / 2, 1.5 * s), abs=1e-11)
    assert exact.norms_outside(s, window, (0.0, INF)) == pytest.approx(exact.l1_difference_outside(s, 0, *window), abs=1e-11)


def test_joint_norms_by_monte_carlo() -> None:
    # The exact interval of 40,000 draws contains the right value but with probability 2 alpha = 2e-4; so for each of both below.
    s, draws = 40, 40_000
    x = np.random.default_rng(2).standard_normal((draws, s))
    l1, square = np.abs(x).sum(1), (x * x).sum(1)
    outside = (l1 < s / math.sqrt(2)) | (l1 > s) | (square < s / 2) | (square > 1.5 * s)
    p = exact.norms_outside(s, (s / math.sqrt(2), float(s)), (s / 2, 1.5 * s))
    assert exact.count_agrees(int(outside.sum()), draws, p)
    assert not exact.count_agrees(int(outside.sum()), draws, 1.1 * p)
    difference = l1[: draws // 2] - l1[draws // 2 :]
    q = exact.l1_difference_outside(s, s, -5.0, 9.0)
    assert exact.count_agrees(int(((difference < -5) | (difference > 9)).sum()), draws // 2, q)


def test_small_patches_are_refused() -> None:
    with pytest.raises(ValueError, match="Monte-Carlo"):
        exact.norms_outside(exact.LEAST_S - 1, (0.0, 1.0), (0.0, 1.0))


def test_noise_exceeds_by_its_student_law() -> None:
    # One inner product of scale ||x||_2, x in R^s: exceeds t sqrt(s) with E 2 Phi(-t sqrt(s)/R); by conditioning on the weight
    # instead, P(R^2 > t^2 s/Z^2).
    s, t = 7, 1.3
    z = np.linspace(1e-6, 12, 200_001)
    other = np.trapezoid(2 * stats.norm.pdf(z) * stats.chi2.sf(t * t * s / z**2, s), z)
    assert exact.noise_exceeds(t, 1, 1, s) == pytest.approx(float(other), rel=1e-6)
    assert exact.noise_exceeds(t, 1, 5, s) == pytest.approx(1 - (1 - float(other)) ** 5, rel=1e-6)


def test_counts_agree_with_their_own_probability() -> None:
    k = np.arange(121)
    for p in (0.001, 0.0951, 0.5, 0.988):
        wrong = np.array([not exact.count_agrees(int(v), 120, p) for v in k])
        assert stats.binom.pmf(k, 120, p) @ wrong <= 2 * ALPHA
