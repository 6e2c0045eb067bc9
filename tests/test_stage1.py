"""Stage I: values derived by hand from the piecewise-linear paths, and every planted lie."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lemmas import stage1
from verify import Trajectory, draw, get, simulate, simulate_trial, times


@pytest.fixture(scope="module")
def ladder() -> list[Trajectory]:
    r = get("ladder-33")
    short = r.change(horizon=1.05 * times.formula_times(r)[times.T2])
    return [simulate_trial(short, 0, seed) for seed in range(8)]


@pytest.fixture(scope="module")
def fig1() -> list[Trajectory]:
    r = get("fig1")
    return [simulate_trial(r.change(horizon=10 * r.eta, name="fig1"), 0, seed) for seed in range(8)]


def test_value_noise_ratio_is_the_straight_line(ladder: list[Trajectory]):
    """V_i(t) = V_i(0) + 2 l_i t, so the ratio at T_2 is known from the start alone."""
    for tr in ladder:
        at = tr.at(times.T2)
        expected = (tr.start.value_noise + 2 * tr.l1 * at.tau) / (2 * tr.regime.mean_l1 * at.tau)
        assert np.allclose(stage1.linear_ratio(at, tr.regime), expected, rtol=1e-9)


def test_linearity_margin_is_that_of_the_worst_end(ladder: list[Trajectory]):
    """The ratio is V_0/(2 l t) + l_i/l: monotone in t, so its extremes are at T_1 and at the end of the run."""
    for tr in ladder:
        ends = np.stack([stage1.linear_ratio(tr.at(t), tr.regime) for t in (tr.time(times.T1), tr.end)])
        assert stage1.value_noise_linear(tr).worst == pytest.approx(np.minimum((ends - 0.5) / 0.5, (2 - ends) / 2).min())


def test_deviation_at_the_end_is_that_of_the_norms(ladder: list[Trajectory]):
    for tr in ladder:
        detail = stage1.value_noise_concentrates(tr).detail
        assert detail["largest"] == pytest.approx(np.abs(tr.l1 / tr.regime.mean_l1 - 1).max(), rel=1e-3)


def test_signal_tolerance_follows_the_form_of_judging():
    assert stage1.signal_tolerance(get("fig1")) == 0.25
    assert stage1.signal_tolerance(get("ladder-33")) == 0.1


def test_noise_moves_in_stage_1_by_its_path_less_twice_the_wait(ladder: list[Trajectory]):
    """Until V_i exceeds V_mu (at tau_i) noise moves the other way: at T_1 it has moved by l_i |T_1 - 2 tau_i|.

    Pairs that turn within Stage I (opposite signs that meet zero, of probability 3e-5 each) are left out.
    """
    for tr in ladder:
        wait = np.maximum(0, tr.start.value_signal - tr.start.value_noise) / (2 * (tr.l1 - 1))
        smaller = np.minimum(np.abs(tr.start.query_noise), np.abs(tr.start.key_noise))
        steady = smaller > 10 * tr.l1 * tr.time(times.T1)
        moved = stage1.displacement(tr, tr.at(times.T1)) * smaller
        expected = np.broadcast_to(tr.l1 * np.abs(tr.time(times.T1) - 2 * wait), moved.shape)
        # differences of numbers 1e5 times as large: rounding leaves 1e-9 of them
        assert np.allclose(moved[steady], expected[steady], rtol=1e-3)


def test_moved_probability_agrees_with_counts_of_starts():
    """2,000 starts without simulation; binomial standard error 0.0051 at 0.055: 4 errors, false alarm 6e-5 (and 3 % model error)."""
    r = get("ladder-17")
    stated = stage1.moved_probability(r)
    assert stated == pytest.approx(0.0549, abs=5e-4)
    limit = times.formula_times(r)[times.T1] * r.mean_l1 / 0.1
    rng = np.random.default_rng(1)
    scale = r.sigma_0 * r.sigma_p * math.sqrt(r.s)
    hits = sum(np.abs(rng.standard_normal(2 * r.m_k * r.n)).min() * scale < limit for _ in range(2000))
    assert abs(hits / 2000 - stated) < 4 * 0.0051


def test_moved_probability_falls_with_the_value_width():
    r = get("ladder-17")
    wider = r.change(m_v=100 * r.m_v)
    assert stage1.moved_probability(wider) == pytest.approx(stage1.moved_probability(r) / 10, rel=0.05)
    assert stage1.moved_probability(get("fig1")) is None


def test_fig1_moves_too_far_in_stage_1(fig1: list[Trajectory]):
    """|Q_0| is of size σ_0‖ξ‖ = 0.004 and two steps move it by 0.0026: within p only where |Q_0| > 0.026, which does not occur."""
    for tr in fig1:
        assert stage1.noise_waits(tr).share < 0.01


@pytest.mark.parametrize(
    "claim", [stage1.value_noise_linear, stage1.value_noise_concentrates, stage1.value_signal_small, stage1.noise_waits]
)
def test_lies_are_caught(claim, ladder: list[Trajectory]):
    for control in claim.controls:
        assert sum(not claim(control.change(tr)).holds for tr in ladder) >= 5, control.name


def test_margins_do_not_depend_on_the_simulator():
    """η → 0: at h = 0.01 the discrete run ends within 5 η l_i of the flow, 2e-4 of V_i(T_2)."""
    r = get("ladder-17")
    t2 = times.formula_times(r)[times.T2]
    eta = 0.01 * r.sigma_0 * math.sqrt(math.pi / 2) / math.sqrt(r.s)
    flow = simulate_trial(r.change(horizon=t2), 0, 0)
    reduced = simulate(draw(r.change(horizon=t2, eta=eta, simulator="reduced"), 0, 0))
    for claim in (stage1.value_noise_linear, stage1.value_noise_concentrates):
        assert claim(flow).holds == claim(reduced).holds
    assert stage1.value_noise_concentrates(flow).margin == pytest.approx(stage1.value_noise_concentrates(reduced).margin, abs=0.02)
