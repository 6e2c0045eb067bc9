"""The full simulator: equal to the exact reduction on disjoint supports, right in law elsewhere, and stopped by a NaN."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import stats

from verify import NumericError, Regime, RegimeError, Trajectory, draw
from verify import regime as regimes
from verify.data import draw_data
from verify.simulate import full, reduced
from verify.simulate.reduced import Fault
from verify.simulate.trajectory import QUANTITIES

SMALL = Regime(name="small", n=6, d=400, s=20, sigma_p=0.5, m_k=8, m_v=5, sigma_0=0.02, eta=2e-4, horizon=0.02)


def difference(a: Trajectory, b: Trajectory) -> float:
    """Largest absolute difference of all values and logit gaps; every turn, crossing, first direction and count must be equal."""
    for name in QUANTITIES:
        np.testing.assert_array_equal(a.initial_direction[name], b.initial_direction[name])
        for events in ("turns", "crossings"):
            x, y = getattr(a, events)[name], getattr(b, events)[name]
            np.testing.assert_array_equal(x.index, y.index)
            np.testing.assert_array_equal(x.sign, y.sign)
            np.testing.assert_allclose(x.tau, y.tau, rtol=0, atol=1e-12)
    assert a.zero == b.zero
    assert a.times.keys() == b.times.keys()
    for name, time in a.times.items():
        np.testing.assert_equal(time, b.times[name])
    np.testing.assert_array_equal(a.noise_dominates_until, b.noise_dominates_until)
    return max(float(np.abs(getattr(a, q) - getattr(b, q)).max()) for q in (*QUANTITIES, "gap_signal", "gap_noise"))


@pytest.mark.parametrize("trial", range(5))
def test_full_equals_reduced_over_300_steps_of_fig1(trial: int) -> None:
    start = draw(regimes.get("fig1").change(horizon=0.03), 0, trial)
    a, b = full.simulate(start), reduced.simulate(start)
    assert difference(a, b) <= 1e-12
    assert sum(len(a.turns[q].tau) for q in QUANTITIES) > 1000
    assert math.isfinite(a.times["T_4_minus"])
    assert math.isfinite(a.times["T_4_plus"])
    assert np.isfinite(a.noise_dominates_until).all()


@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(
    n=st.integers(1, 6),
    s=st.integers(1, 8),
    spare=st.integers(0, 5),
    m_k=st.integers(1, 9),
    m_v=st.integers(1, 5),
    sigma_p=st.floats(0.1, 3),
    sigma_0=st.floats(1e-3, 0.3),
    eta=st.floats(1e-4, 1e-2),
    trial=st.integers(0, 1000),
)
def test_full_equals_reduced_in_any_small_regime(
    n: int, s: int, spare: int, m_k: int, m_v: int, sigma_p: float, sigma_0: float, eta: float, trial: int
) -> None:
    r = Regime(name="any", n=n, d=1 + n * s + spare, s=s, sigma_p=sigma_p, m_k=m_k, m_v=m_v, sigma_0=sigma_0, eta=eta, horizon=40 * eta)
    start = draw(r, 0, trial)
    assert difference(full.simulate(start), reduced.simulate(start)) <= 1e-11


def test_no_update_is_lost_in_2000_steps_of_fig1() -> None:
    tr = reduced.simulate(draw(regimes.get("fig1"), 0, 0))
    assert tr.regime.steps == 2000
    assert tr.zero == dict.fromkeys(QUANTITIES, 0)
    for name in QUANTITIES:
        assert (np.abs(tr.initial_direction[name]) == 1).all()
        assert (np.abs(tr.turns[name].sign) == 1).all()


def test_autograd_follows_the_closed_form_at_small_gaps() -> None:
    start = draw(regimes.get("fig1").change(horizon=0.006), 0, 1)
    closed, auto = full.simulate(start), full.simulate(start, gradient="autograd")
    assert np.abs(closed.gap_noise).max() < 25
    assert difference(closed, auto) <= 1e-12


def test_weights_off_the_samples_never_move_and_change_nothing() -> None:
    start = draw(SMALL, 0, 0)
    data = draw_data(SMALL, 0, 0)
    model = full.complete(start, data)
    before = {name: w.detach().clone() for name, w in model.named_parameters()}
    on_all = full.train(start, model, data)
    off = torch.ones(400, dtype=torch.bool)
    off[data.touched] = False
    for name, w in model.named_parameters():
        assert torch.equal(w.detach()[..., off], before[name][..., off])
        assert (w.detach()[..., ~off] != before[name][..., ~off]).all()
    assert difference(on_all, full.simulate(start)) <= 1e-13


def test_weights_complete_the_start_exactly_on_disjoint_supports() -> None:
    start = draw(SMALL, 0, 3)
    data = draw_data(SMALL, 0, 3)
    model = full.complete(start, data)
    folded = data.y[:, None] * data.noise[:, 0]
    close = lambda x, y: np.testing.assert_allclose(x.detach().numpy(), y, rtol=0, atol=1e-15)  # noqa: E731
    close(model.W_Q @ folded.T, start.query_noise)
    close(model.W_K @ folded.T, start.key_noise)
    close(model.W_Q[:, 0], start.query_signal)
    close(model.W_K[:, 0], start.key_signal)
    close(folded @ model.v, start.value_noise)
    close(model.v[0], start.value_signal)


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"supports": "independent", "s": 60},
        {"supports": "independent", "d": 60, "s": 59},
        {"supports": "independent", "n": 50, "d": 40, "s": 39},
    ],
    ids=["disjoint", "overlapping", "dense", "more samples than dimensions"],
)
def test_completed_weights_are_iid_gaussian(change: dict) -> None:
    # Per matrix: a Kolmogorov-Smirnov test of the entries, and a chi-square of the inner products with the samples whitened by
    # the Gram matrix. Nine p-values below 1e-6: a false alarm has probability 1e-5 per case.
    r = SMALL.change(m_k=100, m_v=50, **change)
    data = draw_data(r, 0, 0)
    model = full.complete(draw(r, 0, 0), data)
    rows = torch.cat([data.y[:, None] * data.noise[:, 0], torch.eye(1, r.dim, dtype=torch.float64)])
    level, basis = torch.linalg.eigh(rows @ rows.T)
    kept = level > 1e-9 * level.max()
    whiten = rows.T @ (basis[:, kept] / level[kept].sqrt())
    for w in (model.W_Q, model.W_K, model.W_V.reshape(100, -1)):
        z = w.detach() / r.sigma_0
        assert stats.kstest(z.numpy().ravel(), "norm").pvalue > 1e-6
        along = z @ whiten
        tail = stats.chi2.cdf(float((along**2).sum()), along.numel())
        assert 1e-6 < tail < 1 - 1e-6
        assert abs(float((along.mean(0) ** 2).sum()) * len(z) - along.shape[1]) < 6 * math.sqrt(2 * along.shape[1]) + 20


def test_overlapping_supports_record_what_the_weights_are() -> None:
    r = SMALL.change(supports="independent", s=100)
    start = draw(r, 0, 0)
    tr = full.simulate(start)
    assert not tr.exact
    np.testing.assert_array_equal(tr.start.query_noise, tr.query_noise[0])
    np.testing.assert_allclose(tr.start.l1, start.l1, rtol=1e-14)
    assert np.corrcoef(tr.start.query_noise.ravel(), start.query_noise.ravel())[0, 1] > 0.9
    with pytest.raises(RegimeError, match="use simulator=full"):
        reduced.simulate(start)


@pytest.mark.parametrize("simulate", [full.simulate, reduced.simulate], ids=["full", "reduced"])
@pytest.mark.parametrize("quantity", QUANTITIES)
def test_a_nan_at_step_5_stops_the_trial_with_step_and_tensor(simulate, quantity: str) -> None:
    with pytest.raises(NumericError) as error:
        simulate(draw(SMALL, 0, 0), fault=Fault(5, quantity, math.nan))
    assert (error.value.step, error.value.tensor) == (5, quantity)
    assert f"step 5 in {quantity}" in str(error.value)


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_a_finite_fault_sets_one_inner_product_and_is_followed_alike(quantity: str) -> None:
    fault = Fault(5, quantity, 0.05, 0 if quantity == "value_signal" else 3)
    start = draw(SMALL, 0, 0)
    a, b = full.simulate(start, fault=fault), reduced.simulate(start, fault=fault)
    at = a.index(5 * SMALL.eta)
    assert getattr(a, quantity)[at].ravel()[fault.index] == pytest.approx(0.05, rel=1e-12)
    for name in QUANTITIES:
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("fig1", {"eta": 0.0, "simulator": "flow", "readings": {}}, "eta=0 is the limit"),
        ("ladder-33", {"eta": 1e-9}, "not fit in memory"),
    ],
)
def test_regimes_it_cannot_run_are_refused(name: str, change: dict, words: str) -> None:
    with pytest.raises(RegimeError, match=words):
        full.simulate(draw(regimes.get(name).change(**change), 0, 0))


def test_torch_threads_are_left_as_they_were() -> None:
    before = torch.get_num_threads()
    full.simulate(draw(SMALL.change(horizon=4e-4), 0, 0))
    assert torch.get_num_threads() == before
