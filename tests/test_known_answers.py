"""Where the theory is known to survive its violations, and where it is known to break (issue 4; experiments.md)."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lemmas import longer_context
from verify import Trajectory, draw, get, simulate, times
from verify.claim.claim import find
from verify.condition import part
from verify.judge import Trial, judge_trial
from verify.regime import Regime

NON_ORTHOGONAL_OR_DENSE = ("fig1-overlapping", "fig1-dense-orthogonal", "fig1-dense")


def holds(label: str, regime: Regime, trials: int = 3) -> list[bool]:
    """Whether a claim holds in each of a few trials."""
    records = [judge_trial(find(label), Trial(regime, 0, seed)) for seed in range(trials)]
    assert all(r.keys() & {"holds"} and r["occurred"] for r in records), records
    return [r["holds"] for r in records]


@pytest.mark.parametrize("name", NON_ORTHOGONAL_OR_DENSE)
def test_signs_align_on_non_orthogonal_and_dense_data(name: str) -> None:
    # Measured: .981 to .985 of the pairs at t = 10 (sparse), .922 to .932 (orthogonal dense), .925 to .935 (dense); .9 are asked for.
    assert all(holds("4.2", get(name).change(horizon=1.1e-3)))


@pytest.mark.parametrize("name", NON_ORTHOGONAL_OR_DENSE)
def test_the_noise_row_leaves_the_signal_first_there(name: str) -> None:
    # Ten samples, twice the step size: 300 steps are 600 of the preset. Measured: t_21, t_11 = 146, 486 (sparse), 114, 386
    # (orthogonal dense), 116, 398 (dense).
    tr = simulate(draw(get(name).change(n=10, eta=2e-4, horizon=0.06), 0, 0))
    noise, signal = (_first_below(gap, tr) for gap in (tr.gap_noise, tr.gap_signal))
    assert noise < 0.6 * signal < math.inf


def _first_below(gap: np.ndarray, tr: Trajectory) -> float:
    """First time at which every sample's softmax output is below 0.1."""
    low = (gap < math.log(1 / 9)).all(1)
    return float(tr.tau[low.argmax()]) if low.any() else math.inf


def test_one_noise_patch_wins_in_95_of_100_samples_of_longer_contexts() -> None:
    # Measured: 20, 19 and 19 of 20 samples at tau = .15; the largest noise patch each time, and its row leaves the signal first.
    won = []
    for name in ("fig1-L3", "fig1-L5-2", "fig1-L10"):
        r = get(name).change(m_k=30, eta=5e-4, horizon=0.15, simulator="reduced")
        alone, _, largest, noise_row_first = longer_context.winner(simulate(draw(r, 0, 0)))
        assert alone == largest
        assert noise_row_first == 1
        won.append(alone)
    assert np.mean(won) >= 0.95


def test_a_step_of_a_tenth_of_sigma_0_over_root_s_breaks_4_2_at_the_rate_of_the_two_cycle() -> None:
    # 6 x 33 x 64 pairs; rate h/(2 sqrt(pi)) = .0225, of relative order h = .08 exact; a count has deviation 17 of 285.
    # Measured: 298 trapped, 285 predicted, 311 with the next term h^2/pi.
    base = get("ladder-33")
    eta = 0.1 * base.sigma_0 / math.sqrt(base.s)
    end = times.formula_times(base)[times.T2_SGN]
    r = base.change(eta=eta, simulator="reduced", horizon=1.05 * end)
    assert not any(holds("4.2", r))
    trapped = 0
    for trial in range(6):
        tr = simulate(draw(r, 0, trial))
        at = tr.recorded(tr.index(end))  # at a step: in the middle of one, a trapped pair may agree
        trapped += int((np.sign(at.query_noise) != np.sign(at.key_noise)).sum())
    pairs = 6 * r.n * r.m_k
    h = 0.1 * math.sqrt(2 / math.pi)
    predicted = pairs * h / (2 * math.sqrt(math.pi))
    assert abs(trapped - predicted) < 5 * math.sqrt(predicted) + h * predicted


def test_even_n_equal_to_m_k_breaks_e_6_and_odd_n_does_not() -> None:
    # A vote of 64 is tied with probability .099, so that some of 64 neurons is but for .901^64 = .1 %.
    # Measured: 4, 6 and 6 of 64 neurons tied.
    assert not any(holds("E.6", get("ladder-64")))
    assert all(holds("E.6", get("ladder-65")))


def test_weak_noise_breaks_c_10_and_the_kept_signs_and_then_4_2() -> None:
    # At sigma_p sqrt(s) = 1 a signal is as large as a noise inner product, but still slower by sigma_p s = 33: signs agree at
    # T_2^SGN, only not always as they began (.80 to .84 of the pairs). At 0.3 they no longer agree for all pairs (.989 do).
    base = get("ladder-33")
    short = 1.06 * times.formula_times(base)[times.T2_SGN]
    weak, weaker = (base.change(sigma_p=x / math.sqrt(base.s), horizon=short) for x in (1.0, 0.3))
    assert part("noise_strength").slack(weaker) < part("noise_strength").slack(weak) < part("noise_strength").slack(base) - 6
    assert not any(holds("C.10", weak))
    assert not any(holds("4.2.1", weak))
    assert all(holds("4.2", weak))
    assert not any(holds("4.2", weaker))


def test_one_value_row_breaks_4_1_3_and_not_4_8_1() -> None:
    # Measured: in Stage I no pair's noise stays within p of where it began (the worst moves 10^5 times as far); yet from T_4 on all
    # pairs are aligned, the worst by .04 and .08 of the unit.
    r = get("ladder-33").change(m_v=1)
    assert not any(holds("4.1.3", r, 2))
    assert all(holds("4.8.1", r, 2))
