"""The flow against closed forms, against its own enclosures, against the reduced simulator, and against halved windows."""

import math

import numpy as np
import pytest
from scipy.special import expit

from verify import NumericError, RegimeError, draw, simulate, simulate_trial, times
from verify.regime import get
from verify.simulate import _flow_kernel as kernel
from verify.simulate import _flow_pairs as pairs
from verify.simulate import flow


@pytest.fixture(scope="module")
def tr():
    return simulate_trial(get("ladder-17"), 0, 0)


def pairs_of(log):
    """Events ordered by entity, then time."""
    order = np.lexsort((log.tau, log.index))
    return log.index[order], log.sign[order], log.tau[order]


# -- closed forms -------------------------------------------------------------------------------------------------------


def one_pair(query, key, q, k, V=1e-9, l1=8.0):
    """A trial of one pair whose logits stay below 1e-12, so that R = 1 and both softmax rows stay at 1/2."""
    regime = get("fig1").change(n=1, m_k=1, eta=0.0, readings={}, simulator="flow", horizon=1e-7)
    start = draw(regime, 0, 0)
    arrays = {"query_noise": query, "key_noise": key}
    arrays = {name: np.full((1, 1), x) for name, x in arrays.items()} | {"query_signal": np.array([q]), "key_signal": np.array([k])}
    return flow.simulate(start.replace(**arrays, l1=np.array([l1]), value_noise=np.array([V]), value_signal=0.0))


def test_the_smaller_of_query_and_key_noise_turns_the_larger():
    # Q > 0 > K, |K| < |Q|: K rises at l, Q falls at l until K = k, where Q turns. k falls at 1, since Q + q > 0.
    # q follows K - k: it falls until then, and turns at the same moment.
    l, Q, K, q, k = 8.0, 3e-8, -1e-8, 1e-9, 2e-9
    tr = one_pair(Q, K, q, k, l1=l)
    meet = (k - K) / (l + 1)
    assert pairs_of(tr.turns["query_noise"])[1:] == (np.array([1]), pytest.approx([meet], rel=1e-9))
    assert tr.turns["query_signal"].tau == pytest.approx([meet], rel=1e-9)
    assert len(tr.turns["key_noise"].tau) == len(tr.turns["key_signal"].tau) == 0
    assert tr.crossings["key_noise"].tau == pytest.approx([-K / l], rel=1e-12)
    assert tr.crossings["key_signal"].tau == pytest.approx([k], rel=1e-12)
    end = tr.end
    assert tr.query_noise[-1, 0, 0] == pytest.approx(Q - l * meet + l * (end - meet), rel=1e-12)
    assert tr.query_signal[-1, 0] == pytest.approx(q - meet + (end - meet), rel=1e-12)
    assert tr.at(0.3 * end).key_noise[0, 0] == pytest.approx(K + l * 0.3 * end, rel=1e-12)


def test_a_negative_value_gap_mirrors_the_motion_until_it_closes():
    # V < V_mu: every sign is reversed until V - V_mu = V + 2(l-1)t reaches 0. Q, K > 0 large: both fall, then rise.
    l, V = 8.0, -2e-8
    tr = one_pair(5e-7, 6e-7, 1e-9, 1e-9, V=V, l1=l)
    closes = -V / (2 * (l - 1))
    for name in ("query_noise", "key_noise"):
        assert tr.initial_direction[name][0, 0] == -1
        assert pairs_of(tr.turns[name])[1:] == (np.array([1]), pytest.approx([closes], rel=1e-12))
    assert tr.crossings["value_noise"].tau == pytest.approx([-V / (2 * l)], rel=1e-12)


# -- enclosures ---------------------------------------------------------------------------------------------------------


def random_state(rng, n=5, m=6):
    """A state at t = 1 with logit gaps of order one to ten and any directions."""
    l1 = rng.uniform(3, 9, n)
    slope = lambda *shape: rng.choice([-1.0, 1.0], shape)  # noqa: E731
    S = [slope(n, m) * l1[:, None], slope(n, m) * l1[:, None], slope(m), slope(m)]
    scale = 10 ** rng.uniform(-2, 0.5)
    B = [scale * rng.normal(size=x.shape) - x for x in S]
    B[0] *= rng.uniform(0.5, 2)
    V, Vm = rng.normal(size=n) * 5, rng.normal()
    V[V + 2 * l1 < Vm + 2] += 20
    c = np.empty((n, 6))
    for i in range(n):
        kernel.gap_polynomials(B[0][i], S[0][i], B[1][i], S[1][i], B[2], S[2], B[3], S[3], c[i])
    return l1, B, S, V, Vm, c


def neuron_predicate(query, j, state, t):
    """sum_i a_i (K - k), or -sum_i (a_i q + b_i Q), straight from the definitions."""
    l1, B, S, V, Vm, _ = state
    Q, K, q, k = (b + s * t for b, s in zip(B, S, strict=True))
    u, w = ((q - 0 * Q) * (k - K)).sum(1), (Q * (k - K)).sum(1)
    s11, s21 = 1 / (1 + np.exp(-u)), 1 / (1 + np.exp(-w))
    v, vm = V + 2 * l1 * t, Vm + 2 * t
    g = 1 / (1 + np.exp((s11 + s21) * vm + (2 - s11 - s21) * v))
    a, b = g * (v - vm) * s11 * (1 - s11), g * (v - vm) * s21 * (1 - s21)
    return (a * (K[:, j] - k[j])).sum() if query else -(a * q[j] + b * Q[:, j]).sum()


def test_the_remainder_bounds_what_the_taylor_polynomial_leaves_out():
    # One common factor e^{phi(t)} is divided out of every sum, so signs are compared: wherever |polynomial| exceeds the
    # remainder the sign must be that of the sum itself. Both signs must also occur often enough for this to mean something.
    rng = np.random.default_rng(7)
    compared = 0
    for _ in range(100):
        state = random_state(rng)
        l1, B, S, V, Vm, c = state
        h = 10 ** rng.uniform(-4, -1)
        T, win, cubic, F = np.empty((kernel.TABLE_ROWS, 5)), np.empty((kernel.WINDOW_ROWS, 5)), np.empty(2), np.empty(4)
        kernel.at(c, V, Vm, l1, 1.0, T)
        kernel.widen(c, T, l1, h, win, cubic)
        for query in (True, False):
            for j in range(6):
                (Q, K, q, k), (SQ, SK, Sq, Sk) = B, S
                certain = kernel.neuron_certain(query, j, 1.0, Q, SQ, K, SK, q, Sq, k, Sk, 1.0, h, win, cubic, F)
                for x in np.linspace(h / 4, h, 4):
                    true = neuron_predicate(query, j, state, 1 + x)
                    value = F[0] + x * (F[1] + x * F[2])
                    if certain:
                        assert true > 0
                    if abs(value) > F[3] * (x / h) ** 2:
                        assert np.sign(true) == np.sign(value)
                        compared += 1
    assert compared > 3_000


def test_the_range_of_R_contains_it():
    rng = np.random.default_rng(8)
    for _ in range(200):
        _l1, _B, _S, _V, _Vm, c = random_state(rng)
        h = 10 ** rng.uniform(-3, 0)
        window = np.empty((5, 5))
        for i in range(5):
            pairs.ratio_window(c[i], 1.0, h, window[i])
        for t in np.linspace(1, 1 + h, 9):
            u, w = c[:, 0] + t * (c[:, 1] + t * c[:, 2]), c[:, 3] + t * (c[:, 4] + t * c[:, 5])
            log_r = -np.abs(u) - 2 * np.log1p(np.exp(-np.abs(u))) + np.abs(w) + 2 * np.log1p(np.exp(-np.abs(w)))
            assert (np.log(window[:, 3]) <= log_r + 1e-12).all()
            assert (log_r <= np.log(window[:, 4]) + 1e-12).all()


def test_the_first_change_of_a_pair_is_found():
    rng = np.random.default_rng(9)
    found = 0
    for _ in range(200):
        _l1, B, S, _V, _Vm, c = random_state(rng)
        t = np.linspace(1, 1.5, 20_001)
        u, w = c[0, 0] + t * (c[0, 1] + t * c[0, 2]), c[0, 3] + t * (c[0, 4] + t * c[0, 5])
        R = (np.cosh(w / 2) / np.cosh(u / 2)) ** 2
        e = B[0][0, 0] + S[0][0, 0] * t + R * (B[2][0] + S[2][0] * t)
        side = np.sign(e[0])
        left = np.flatnonzero(side * e <= 0)
        hit = pairs.pair_leaves(B[0][0, 0], S[0][0, 0], B[2][0], S[2][0], side, c[0], 1.0, 1.5, 1.0, np.empty(5), np.zeros(1, np.int64))
        if len(left):
            found += 1
            assert t[left[0] - 1] - 1e-9 <= hit <= t[left[0]] + 1e-9
        else:
            assert hit == math.inf or np.min(side * e) < 1e-3 * np.abs(e).max()  # a dip between two of the 20,001 times
    assert found > 30


# -- whole trajectories -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["fig1", "ladder-17"])
def test_halving_the_window_moves_no_event(name):
    start = draw(get(name), 0, 1)
    a, b = flow.simulate(start), flow.simulate(start, step=flow.STEP / 2)
    for kind in ("turns", "crossings"):
        for quantity, events in getattr(a, kind).items():
            first, second = pairs_of(events), pairs_of(getattr(b, kind)[quantity])
            assert np.array_equal(first[0], second[0])
            assert np.array_equal(first[1], second[1])
            np.testing.assert_allclose(first[2], second[2], rtol=1e-8)
    assert a.times == pytest.approx(b.times, rel=1e-8)
    np.testing.assert_allclose(a.noise_dominates_until, b.noise_dominates_until, rtol=1e-8)
    assert sum(a.uncertain.values()) == 0


def test_values_follow_from_start_and_turns(tr):
    for name in ("query_noise", "key_noise", "query_signal", "key_signal"):
        path = tr.start.__dict__[name] + tr.speed(name) * tr._signed_time(name, 0.0, tr.end)
        np.testing.assert_allclose(getattr(tr, name)[-1], path, atol=1e-12 * tr.l1.max() * tr.end)
    np.testing.assert_allclose(tr.value_noise[-1], tr.start.value_noise + 2 * tr.l1 * tr.end, rtol=1e-14)
    Q, K, q, k = (getattr(tr, x)[-1] for x in ("query_noise", "key_noise", "query_signal", "key_signal"))
    np.testing.assert_allclose(tr.gap_noise[-1], (Q * (k[:, None] - K)).sum(0), rtol=1e-10)
    np.testing.assert_allclose(tr.gap_signal[-1], (q[:, None] * (k[:, None] - K)).sum(0), rtol=1e-10)


def test_directions_are_the_signs_of_the_definition(tr):
    # at 60 times over the whole run, away from turns: Eqs. (10)-(13) evaluated directly
    state = None
    for tau in np.geomspace(tr.tau[2], 0.999 * tr.end, 60):
        at = tr.at(tau)
        state = (at.query_noise, at.key_noise, at.query_signal[:, None], at.key_signal[:, None])
        Q, K, q, k = state
        log_a = -np.abs(at.gap_signal) - 2 * np.log1p(np.exp(-np.abs(at.gap_signal)))
        log_b = -np.abs(at.gap_noise) - 2 * np.log1p(np.exp(-np.abs(at.gap_noise)))
        sb = np.sign(at.value_noise - at.value_signal)
        ratio = np.exp(np.clip(log_a - log_b, -600, 600))
        assert np.array_equal(tr.direction("query_noise", tau), sb * np.sign(K - k))
        assert np.array_equal(tr.direction("key_noise", tau), sb * np.sign(ratio * q + Q))
        s11, s21 = expit(at.gap_signal), expit(at.gap_noise)
        margin = (s11 + s21) * at.value_signal + (2 - s11 - s21) * at.value_noise
        log_g = -np.logaddexp(0, margin) + np.log(np.abs(at.value_noise - at.value_signal))
        a, b = sb * np.exp(log_g + log_a - (log_g + log_a).max()), np.maximum(log_g + log_a, log_g + log_b)
        top = b.max()
        ae, be = sb * np.exp(log_g + log_a - top), sb * np.exp(log_g + log_b - top)
        assert np.array_equal(tr.direction("query_signal", tau), np.sign((a * (K - k)).sum(1)))
        assert np.array_equal(tr.direction("key_signal", tau), -np.sign((ae * q + be * Q).sum(1)))


def test_measured_times_are_where_the_equations_switch(tr):
    def noise_slack(at):
        r = np.exp(log_ratio(at))
        return (np.abs(at.query_noise) - 2 * r * np.abs(at.query_signal)[:, None]).min()

    def signal_slack(at):
        r = np.exp(log_ratio(at))
        return (r * np.abs(at.query_signal)[:, None] - 2 * np.abs(at.query_noise)).min()

    def log_ratio(at):
        ls = lambda x: -np.abs(x) - 2 * np.log1p(np.exp(-np.abs(x)))  # noqa: E731
        return ls(at.gap_signal) - ls(at.gap_noise)

    minus, plus = tr.time(times.T4_MINUS), tr.time(times.T4_PLUS)
    assert noise_slack(tr.at(minus * (1 - 1e-7))) > 0 > noise_slack(tr.at(minus * (1 + 1e-7)))
    assert signal_slack(tr.at(plus * (1 + 1e-7))) > 0 > signal_slack(tr.at(plus * (1 - 1e-7)))
    for s in range(0, tr.regime.m_k, 8):
        t = tr.noise_dominates_until[s]
        sides = []
        for at in (tr.at(t * (1 - 1e-7)), tr.at(t * (1 + 1e-7))):
            s11, s21 = 1 / (1 + np.exp(-at.gap_signal)), 1 / (1 + np.exp(-at.gap_noise))
            total = (s11 * (1 - s11)).sum() * abs(at.query_signal[s])
            sides.append(abs((s21 * (1 - s21) * at.query_noise[s]).sum()) - 2 * total)
        assert sides[0] > 0 > sides[1]


def test_the_learning_rate_plays_no_part():
    start = draw(get("fig1"), 0, 2)
    other = start.replace(regime=start.regime.change(eta=5e-5, readings={k: 2 * v for k, v in start.regime.readings.items()}))
    a, b = simulate(start, "flow"), simulate(other, "flow")
    for name in ("query_noise", "key_noise", "query_signal", "key_signal"):
        np.testing.assert_allclose(pairs_of(a.turns[name])[2], pairs_of(b.turns[name])[2], rtol=1e-8, atol=1e-9 * 1e-4)


def test_sliding_key_noise_stays_on_its_surface():
    # Sample 30 of this trial has 3 aligned neurons of 16: its key noise slides on a q + b Q = 0 (claims.md, laggards), so the
    # sign flips at every hold (1e-4 of the time) and R |q|/|Q| may leave 1 only by what w moves in one hold.
    tr = simulate_trial(get("ladder-64-mk16"), 0, 0)
    assert tr.notes["sliding holds"] > 1000
    events = tr.turns["key_noise"]
    count = np.bincount(events.index, minlength=16 * 64)
    s, i = divmod(int(count.argmax()), 64)
    mine = events.tau[events.index == count.argmax()]
    inside = np.linspace(mine[10], mine[-10], 50)
    ratios = []
    for tau in inside:
        at = tr.at(tau)
        u, w = at.gap_signal[i], at.gap_noise[i]
        ratios.append((np.cosh(w / 2) / np.cosh(u / 2)) ** 2 * -at.query_signal[s] / at.query_noise[s, i])
    assert np.median(np.abs(np.log(ratios))) < 0.01


@pytest.mark.parametrize("name", ["query_noise", "key_noise", "query_signal", "key_signal", "value_noise"])
def test_a_nan_stops_the_trial(name):
    start = draw(get("ladder-17"), 0, 0)
    broken = getattr(start, name).copy()
    broken.flat[3] = np.nan
    with pytest.raises(NumericError, match=f"in {name}"):
        simulate(start.replace(**{name: broken}))


@pytest.mark.parametrize(("change", "word"), [({"L": 3}, "L=2"), ({"supports": "independent"}, "disjoint")])
def test_regimes_without_an_exact_reduction_are_refused(change, word):
    with pytest.raises(RegimeError, match=word):
        simulate(draw(get("fig1").change(**change), 0, 0), "flow")
