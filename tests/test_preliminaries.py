"""Appendix C and E.6 three ways: exact probability, Monte-Carlo count, stated bound. Seeds are fixed (root 0).

A correct exact probability is rejected by a count with probability at most 2 alpha = 2e-4; the 42 comparisons below together
raise a false alarm with probability below 0.9 %.
"""

from __future__ import annotations

import math
from functools import cache
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from lemmas import preliminaries, preliminaries_scales, preliminaries_start, preliminaries_vote
from verify import draw, get, stream
from verify.claim.claim import find
from verify.judge import Trial, judge_trial
from verify.merge import trial_row
from verify.regime import c11_threshold
from verify.stats import exact

IDS = ["C.1", "C.2", "C.3", "C.4", "C.5", "C.6", "C.7", "C.8", "C.10", "C.11", "C.12", "C.13", "C.14", "E.6", "E.6.2"]
FIG1 = get("fig1")
REGIMES = {
    "fig1": FIG1,
    "n=16,s=200": FIG1.change(n=16, s=200, m_k=8),
    "ladder-9": get("ladder-9-mk16"),
    "n=4": FIG1.change(n=4, m_k=8),
    "wide start": FIG1.change(n=4, m_k=8, sigma_0=0.1),
}
TRIALS = 200


@cache
def rows(name: str, *labels: str) -> dict[str, dict]:
    """The rows of the claims (all, if none is named) in one regime."""
    regime = REGIMES[name]
    claims = [find(i) for i in labels or IDS]
    outcomes: dict[str, list] = {c.id: [] for c in claims}
    for seed in range(TRIALS):
        trial = Trial(regime, 0, seed)
        for c in claims:
            outcomes[c.id].append(judge_trial(c, trial))
    return {c.id: trial_row(c, regime, outcomes[c.id])[0] for c in claims}


@pytest.mark.parametrize("name", ["fig1", "n=16,s=200", "ladder-9"])
@pytest.mark.parametrize("label", IDS)
def test_exact_probability_count_and_bound_agree(label: str, name: str) -> None:
    row = rows(name)[label]
    assert row["tightness"] is not None
    probability = row["exact"]
    if probability is None:
        assert label == "C.13"
        assert row["violations"] == 0
        return
    assert exact.count_agrees(row["violations"], TRIALS, probability)
    expected = "VACUOUS" if row["delta"] >= 1 else "SUPPORTED" if probability <= row["delta"] else "REFUTED"
    assert row["verdict"] == expected


def test_verdicts_where_the_statement_fails_or_says_nothing() -> None:
    assert rows("fig1")["C.1"]["verdict"] == "VACUOUS"
    assert rows("n=4", "C.3")["C.3"]["verdict"] == "REFUTED"
    assert rows("n=4", "C.3")["C.3"]["exact"] == pytest.approx(2 / 16)
    assert rows("n=16,s=200")["C.4"]["verdict"] == "REFUTED"
    assert rows("fig1")["C.4"]["verdict"] == "REFUTED"
    wide = rows("wide start", "C.13")["C.13"]
    assert wide["verdict"] == "VACUOUS"
    assert "contains [0, 1]" in wide["reason"]


def test_known_values() -> None:
    assert 1 - rows("fig1")["C.4"]["exact"] == pytest.approx(0.012, abs=5e-4)
    square = 1 - exact.chi_square_outside(40, 20, 60)
    assert square**20 == pytest.approx(0.60, abs=5e-3)
    # The lower bound on the l2 norm follows from the one on the l1 norm, so the l1 norm and the upper l2 bound decide.
    s = 40
    both = exact.norms_outside(s, *preliminaries.norm_windows(s))
    assert both == pytest.approx(exact.norms_outside(s, (s / math.sqrt(2), float(s)), (0.0, 1.5 * s)), abs=1e-11)
    # min of N half-normals at C.9's bound x = delta/N: 1-(1-x)^N -> 1-exp(-delta).
    for label in ("C.12", "C.14"):
        assert rows("fig1")[label]["exact"] == pytest.approx(1 - math.exp(-0.1), rel=1e-4)
        assert rows("fig1")[label]["exact"] <= 0.1


def test_the_constant_of_c4() -> None:
    # Chernoff: log E exp(-u|x|) - (-u/sqrt 2) is least at rate .01195, so 4n tails of exp(-s rate) need s = log(4n/delta)/rate.
    u = np.linspace(0, 1, 100_001)
    rate = -np.min(u / math.sqrt(2) + np.log(2 * stats.norm.sf(u)) + u * u / 2)
    assert rate == pytest.approx(0.01195, abs=1e-5)
    assert 1 / rate <= 84 < 1 / rate + 1
    for n in (20, 64, 500):
        s = math.ceil(84 * math.log(4 * n / 0.1))
        assert n * exact.norms_outside(s, *preliminaries.norm_windows(s)) <= 0.1
    assert 37 <= smallest_constant(20) <= smallest_constant(4096) <= 71


def smallest_constant(n: int) -> float:
    """Least C for which s = C log(4n/delta) makes C.4 hold with probability 1 - delta."""
    low, high = 30, 2000
    while low < high:
        s = (low + high) // 2
        if -math.expm1(n * math.log1p(-exact.l1_difference_outside(s, 0, s / math.sqrt(2), float(s)))) <= 0.1:
            high = s
        else:
            low = s + 1
    return low / math.log(40 * n)


def test_sums_for_several_differences() -> None:
    starts = [draw(FIG1, 0, seed) for seed in range(TRIALS)]
    for k in (1, 2, 3, 5):
        violations = sum(not 0.5 <= preliminaries.difference_ratio(start, k) <= 1.5 for start in starts)
        assert exact.count_agrees(violations, TRIALS, preliminaries.difference_exact(FIG1, k))


def test_sums_are_judged_at_the_least_admissible_difference() -> None:
    for regime in (FIG1, get("ladder-33"), get("ladder-65")):
        k, plus, minus = preliminaries.compared_sets(regime)
        assert plus - minus == k
        assert regime.n - 1 <= plus + minus <= regime.n
        needed = 4 * math.pi * regime.n * math.log(20)
        assert regime.s >= needed / k**2
        assert k == 1 or regime.s < needed / (k - 1) ** 2


def test_scales_along_the_ladder() -> None:
    ratio = lambda r: preliminaries_scales.signal_and_noise(r).floor / preliminaries_scales.signal_and_noise(r).ceiling  # noqa: E731
    assert ratio(get("ladder-16-mk16")) == pytest.approx(0.012, abs=5e-4)
    assert ratio(get("ladder-128-mk16")) == pytest.approx(0.094, abs=5e-4)
    assert ratio(get("ladder-1370-mk16")) == pytest.approx(1, abs=5e-3)
    for n in (16, 128):
        regime = get(f"ladder-{n}-mk16")
        needed = preliminaries_scales.stage_one_and_noise(regime).detail["m_v_needed"]
        assert needed == pytest.approx(c11_threshold(n, 16), rel=1e-9)
    assert c11_threshold(16, 16) == pytest.approx(5e10, rel=0.06)
    assert c11_threshold(128, 16) == pytest.approx(4e12, rel=0.06)


def test_maxima_by_inversion_have_the_law_of_maxima() -> None:
    # Kolmogorov-Smirnov at 1e-4, fixed seed.
    rng = np.random.default_rng(3)
    drawn = preliminaries_start.half_normal_maximum(6, stream(0, 0, "test").random(4000))
    assert stats.ks_2samp(drawn, np.abs(rng.standard_normal((4000, 6))).max(axis=1)).pvalue > 1e-4
    # 1e15 rows: the median m of the maximum solves 2 Phi(-m) = log 2/1e15.
    median = preliminaries_start.half_normal_maximum(10**15, np.array([0.5]))[0]
    assert 2 * stats.norm.sf(median) == pytest.approx(math.log(2) / 1e15, rel=1e-6)


def test_supports_are_drawn_without_their_dimension() -> None:
    drawn = preliminaries.supports_beside_signal(get("ladder-33"), 0, 0)
    assert drawn.coordinates.shape == (33, 33**2)
    assert all(np.unique(row).size == row.size for row in drawn.coordinates)
    assert drawn.coordinates.min() >= 2
    assert 33**8 / 2 < drawn.coordinates.max() <= 33**8
    full = FIG1.change(n=1, s=10, d=11)
    assert set(preliminaries.supports_beside_signal(full, 0, 0).coordinates[0]) == set(range(2, 12))
    assert set(preliminaries.supports_anywhere(full, 0, 0).coordinates[0]) < set(range(1, 12))


@pytest.mark.parametrize("count", [1, 2, 4, 5])
def test_subsets_are_uniform(count: int) -> None:
    # Chi-square over all subsets of 5 integers, 4,000 draws: a false alarm at 1e-4 per case.
    rng = np.random.default_rng(count)
    drawn = [tuple(preliminaries.distinct(rng, 5, count).tolist()) for _ in range(4000)]
    subsets = list(combinations(range(5), count))
    counts = [drawn.count(subset) for subset in subsets]
    assert sum(counts) == 4000
    assert len(subsets) == 1 or stats.chisquare(counts).pvalue > 1e-4


def test_beyond_64_bits_supports_are_not_drawn() -> None:
    assert find("C.1").undefined(get("ladder-259-mk16")) is not None
    assert find("C.1").undefined(get("ladder-129")) is None


def test_the_vote_by_parity() -> None:
    odd, even = FIG1.change(n=21, judged="all"), FIG1.change(judged="all")
    assert preliminaries_vote.unlucky(odd) == 0.0
    tie = math.comb(20, 10) / 2**20
    assert preliminaries_vote.unlucky(even) == pytest.approx(1 - (1 - tie) ** 100)
    assert preliminaries_vote.unlucky(FIG1) == pytest.approx(stats.binom.sf(10, 100, tie))
    # Even n needs 8 m_k^2/(pi delta^2): a union bound with the Stirling tie probability; enough at m_k = 2.
    n = 2 * math.ceil(4 * 2**2 / (math.pi * 0.1**2))
    assert preliminaries_vote.unlucky(FIG1.change(n=n, m_k=2, s=1, judged="all")) <= 0.1
