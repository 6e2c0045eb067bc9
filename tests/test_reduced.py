"""The reduced simulator against a plain numpy loop of Eqs. (10)-(13), on random small regimes; invariances, faults, refusals."""

from __future__ import annotations

import math
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from verify import NumericError, Regime, RegimeError, Trajectory, draw, get
from verify.simulate import _kernel, reduced
from verify.simulate.reduced import Fault
from verify.simulate.trajectory import QUANTITIES
from verify.times import T3, formula_times

VALUES = (*QUANTITIES, "gap_signal", "gap_noise")


@dataclass
class Loop:
    """Eqs. (10)-(13) as they are written, one step after the other, everything kept; arrays (m_k, n)."""

    states: list[dict[str, Any]] = field(default_factory=list)
    directions: list[dict[str, Any]] = field(default_factory=list)
    decided: bool = True
    """Whether every sum was further from 0 than rounding, and no exponential near underflow: otherwise the loop proves nothing."""


def plain_loop(start: Any, steps: int) -> Loop:
    """Simulate with weights a_i, b_i formed from probabilities: fine while gaps and outputs are small."""
    eta, l = start.regime.eta, start.l1
    Q, K, q, k, V, Vm = (np.array(getattr(start, name), float) for name in QUANTITIES)
    loop = Loop()
    sigmoid = lambda x: 1 / (1 + np.exp(-x))  # noqa: E731
    for _ in range(steps + 1):
        gap_1, gap_2 = q @ k - q @ K, k @ Q - (Q * K).sum(0)
        s11, s21 = sigmoid(gap_1), sigmoid(gap_2)
        both_1, both_2 = s11 * sigmoid(-gap_1), s21 * sigmoid(-gap_2)
        output = (s11 + s21) * Vm + (2 - s11 - s21) * V
        g = sigmoid(-output)
        a, b = g * (V - Vm) * both_1, g * (V - Vm) * both_2
        lead, push = K - k[:, None], a * q[:, None] + b * Q
        sums = (a * lead).sum(1), -push.sum(1)
        sizes = (np.abs(a) * (np.abs(K) + np.abs(k)[:, None])).sum(1), (np.abs(a * q[:, None]) + np.abs(b * Q)).sum(1)
        parts = np.abs(a * q[:, None]) + np.abs(b * Q)
        loop.decided &= all((np.abs(x) > 1e-12 * y).all() for x, y in zip((*sums, push), (*sizes, parts), strict=True))
        loop.decided &= bool(max(np.abs(x).max() for x in (gap_1, gap_2, output)) < 200)
        if not loop.decided:
            return loop
        step = (np.sign(b * lead), np.sign(push), np.sign(sums[0]), np.sign(sums[1]), np.ones_like(V), np.ones(()))
        loop.states.append(dict(zip(VALUES, (*(x.copy() for x in (Q, K, q, k, V, Vm)), gap_1, gap_2), strict=True)))
        loop.states[-1]["ratio"] = both_1 / both_2
        loop.states[-1]["weights"] = both_1, both_2
        loop.directions.append(dict(zip(QUANTITIES, step, strict=True)))
        Q, K, q, k = (x + eta * c * d for x, c, d in zip((Q, K, q, k), (l, l, 1, 1), step, strict=False))
        V, Vm = V + 2 * eta * l, Vm + 2 * eta
    return loop


def events_of(loop: Loop, name: str, eta: float) -> tuple[list[tuple[int, int, int]], list[tuple[float, int, int]]]:
    """Turns (step, index, sign) and crossings (time in steps, index, sign) of one quantity, by looking at every entity at every step."""
    turns, crossings = [], []
    shape = np.shape(loop.states[0][name])
    for flat in range(int(np.prod(shape, dtype=int))):
        value = [float(np.ravel(s[name])[flat]) for s in loop.states]
        moves = [float(np.ravel(d[name])[flat]) for d in loop.directions[:-1]]
        turns += [(t, flat, int(moves[t])) for t in range(1, len(moves)) if moves[t] != moves[t - 1]]
        side = math.copysign(1, value[0])
        for t in range(1, len(value)):
            if value[t] * side < 0:
                side = -side
                crossings.append((t - 1 + value[t - 1] / (value[t - 1] - value[t]), flat, int(side)))
    return sorted(turns), sorted(crossings)


def measured_of(loop: Loop, step_t3: int) -> tuple[float, float, list[float]]:
    """T_4^-, T_4^+ (Eqs. 29, 42) and T_{4,s}^{(30)} in steps (nan where not reached), from their definitions."""
    noise = [np.abs(s["query_noise"]) for s in loop.states]
    signal = [s["ratio"] * np.abs(s["query_signal"])[:, None] for s in loop.states]
    late = range(step_t3, len(loop.states))
    fails = [t for t in late if not (noise[t] >= 2 * signal[t]).all()]
    minus = max(fails[0] - 1, step_t3) if fails else math.nan
    plus = next((t for t in late if fails and t >= fails[0] and (signal[t] >= 2 * noise[t]).all()), math.nan)
    until = []
    for s in range(len(loop.states[0]["query_signal"])):
        holds = []
        for t in late:
            a, b = loop.states[t]["weights"]
            holds.append(abs(b @ loop.states[t]["query_noise"][s]) >= 2 * a.sum() * abs(loop.states[t]["query_signal"][s]))
        first = holds.index(False) if False in holds else len(holds)
        until.append(math.nan if not holds else float(step_t3 + max(first - 1, 0)))
    return minus, plus, until


SMALL = st.builds(
    lambda n, m_k, s, h, c_0, m_v, t3: Regime(
        name="small",
        n=n,
        d=n * s + 1,
        s=s,
        sigma_p=1.0,
        m_k=m_k,
        m_v=m_v,
        sigma_0=c_0 / (s * math.sqrt(m_k)),
        eta=h * c_0 / (s * math.sqrt(m_k * s)),
        horizon=200 * h * c_0 / (s * math.sqrt(m_k * s)),
        readings={"T_3": t3},
    ),
    n=st.integers(1, 6),
    m_k=st.integers(1, 7),
    s=st.integers(5, 60),
    h=st.sampled_from([0.01, 0.05, 0.3]),
    c_0=st.sampled_from([0.1, 1.0, 2.0]),
    m_v=st.sampled_from([1, 100, 10**8]),
    t3=st.integers(0, 60),
)


@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(regime=SMALL, trial=st.integers(0, 10**6))
def test_equals_a_plain_loop_of_the_equations(regime: Regime, trial: int) -> None:
    start = draw(regime, 1, trial)
    tr, loop = reduced.simulate(start), plain_loop(start, 200)
    steps = np.rint(tr.tau / regime.eta).astype(int)
    assume(loop.decided)
    assert sum(tr.uncertain.values()) == sum(tr.zero.values()) == 0
    for name in VALUES:
        expected = np.array([loop.states[t][name] for t in steps])
        np.testing.assert_allclose(getattr(tr, name), expected, rtol=1e-10, atol=1e-12 * np.abs(expected).max())
    for name in QUANTITIES:
        turns, crossings = events_of(loop, name, regime.eta)
        got = tr.turns[name]
        assert list(zip(np.rint(got.tau / regime.eta).astype(int), got.index, got.sign, strict=True)) == turns
        np.testing.assert_array_equal(tr.initial_direction[name], loop.directions[0][name])
        got = tr.crossings[name]
        assert sorted(zip(got.index, got.sign, strict=True)) == sorted((i, s) for _, i, s in crossings)
        np.testing.assert_allclose(np.sort(got.tau) / regime.eta, [t for t, _, _ in crossings], rtol=1e-9, atol=1e-9)
    minus, plus, until = measured_of(loop, math.ceil(formula_times(regime)[T3] / regime.eta * (1 - 1e-12)))
    np.testing.assert_allclose([tr.time("T_4_minus"), tr.time("T_4_plus")], [minus * regime.eta, plus * regime.eta], rtol=1e-12)
    np.testing.assert_allclose(tr.noise_dominates_until, np.array(until) * regime.eta, rtol=1e-12)


def same(a: Trajectory, b: Trajectory) -> None:
    """Bit for bit."""
    for name in VALUES:
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    for name in QUANTITIES:
        for kind in ("turns", "crossings"):
            for part in ("tau", "index", "sign"):
                np.testing.assert_array_equal(getattr(getattr(a, kind)[name], part), getattr(getattr(b, kind)[name], part))
    np.testing.assert_equal(a.times, b.times)
    np.testing.assert_array_equal(a.noise_dominates_until, b.noise_dominates_until)


def short(trial: int) -> Trajectory:
    """150 steps of fig1."""
    return reduced.simulate(draw(get("fig1").change(horizon=150e-4), 0, trial))


def test_a_trial_does_not_depend_on_order_worker_or_a_log_that_filled_up(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = short(1)
    short(0)
    same(short(1), alone)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        same(pool.submit(short, 1).result(), alone)
    monkeypatch.setattr(reduced, "LOG_ROWS", 0)  # room for two steps at first
    same(short(1), alone)


def test_ties_rest_and_sums_within_rounding_are_counted() -> None:
    # Two samples that are each other's mirror: K_1 = -K_2, Q_1 = -Q_2 and equal V make both sums exactly 0 at the start (k = q = 0).
    r = Regime(name="tie", n=2, d=21, s=10, sigma_p=1.0, m_k=1, m_v=1, sigma_0=0.01, eta=1e-6, horizon=1e-6)
    base = draw(r, 0, 0)
    pair = np.array([[0.01, -0.01]])
    zero = np.zeros(1)
    tie = base.replace(
        l1=np.full(2, 8.0), query_noise=pair, key_noise=pair, query_signal=zero, key_signal=zero, value_noise=np.ones(2), value_signal=0.0
    )
    tr = reduced.simulate(tie)
    assert (tr.zero["query_signal"], tr.zero["key_signal"], tr.zero["query_noise"], tr.zero["key_noise"]) == (1, 1, 0, 0)
    assert (tr.query_signal == 0).all()
    assert (tr.key_signal == 0).all()
    # Moved by one unit in the last place, the sums are not 0, but within their rounding bound.
    near = tie.replace(query_noise=pair * [[1, 1 + 2**-52]], key_noise=pair * [[1, 1 + 2**-52]])
    tr = reduced.simulate(near)
    assert (tr.uncertain["query_signal"], tr.uncertain["key_signal"], tr.zero["query_signal"], tr.zero["key_signal"]) == (1, 1, 0, 0)
    # V_i = V_mu: no sample has a say, and nothing but the values moves in the first step.
    rest = reduced.simulate(tie.replace(value_noise=np.zeros(2)))
    assert [rest.zero[name] for name in QUANTITIES[:4]] == [2, 2, 1, 1]
    assert (rest.query_noise == rest.query_noise[0]).all()


def test_no_sign_of_fig1_is_zero_or_in_doubt() -> None:
    tr = reduced.simulate(draw(get("fig1"), 0, 0))
    assert set(tr.zero.values()) == {0}
    assert sum(tr.uncertain.values()) <= 2  # 2,000 steps, 4,200 signs each


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("quantity", QUANTITIES)
def test_a_broken_value_stops_the_trial_with_step_and_quantity(quantity: str, value: float) -> None:
    with pytest.raises(NumericError) as error:
        reduced.simulate(draw(get("fig1").change(horizon=20e-4), 0, 0), fault=Fault(5, quantity, value))
    assert (error.value.step, error.value.tensor) == (5, quantity)


@pytest.mark.parametrize(("change", "words"), [({"L": 3}, "L=2"), ({"supports": "independent"}, "disjoint"), ({"eta": 0.0}, "flow")])
def test_regimes_without_reduction_are_refused(change: dict[str, Any], words: str) -> None:
    start = draw(get("ladder-17").change(n=4, m_k=2, d=10**6, eta=1e-9), 0, 0)
    with pytest.raises(RegimeError, match=words):
        reduced.simulate(start.replace(regime=start.regime.change(**change)))


def test_one_specialisation_of_every_compiled_function() -> None:
    short(0)
    assert len(_kernel.run.signatures) == 1  # a second one would mean an array of another layout, and compiling twice


@pytest.mark.parametrize("scale", [0.125, 1.0, 8.0])
def test_calm_samples_are_only_a_shortcut(monkeypatch: pytest.MonkeyPatch, scale: float) -> None:
    """Every bit is the same if each sample is asked for turns and crossings at every step."""
    regime = get("fig1")
    start = draw(regime.change(eta=scale * regime.eta), 0, 3)
    run, calms = _kernel.run, []

    def restless(*given: Any) -> None:
        calm = next(x for x in given if np.shape(x) == (_kernel.CALM_ROWS, regime.n))
        calm[_kernel.CALM_NEXT] = math.inf if len(calms) == 1 else 0.0
        run(*given)
        calms.append(calm)

    monkeypatch.setattr(_kernel, "run", restless)
    quick, slow = reduced.simulate(start), reduced.simulate(start)
    assert calms[0][_kernel.CALM_UNTIL].min() > 0
    assert calms[1][_kernel.CALM_UNTIL].max() == 0
    same(quick, slow)
    assert (quick.zero, quick.uncertain) == (slow.zero, slow.uncertain)
