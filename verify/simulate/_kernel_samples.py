"""Per-sample part of the compiled reduction: logits, softmax products, weights, and the measured times T_4^-, T_4^+, T_{4,s}^{(30)}."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

CLIP = 690.0  # exp(690) is finite, and no ratio of inner products reaches it
# Never called from Python, hence without wrappers; x/0 is infinite.
_OPTIONS = {"error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
part = njit(**_OPTIONS)
ordered_part = njit(**_OPTIONS, fastmath={"nnan", "nsz"})  # minima vectorise
sums_part = njit(**_OPTIONS, fastmath={"reassoc", "nsz", "contract"})  # sums vectorise; NaN and infinities keep their meaning

# Rows of the per-sample table (9, n): s11 s12 = P_A exp(X_A) and s21 s22 = P_B exp(X_B) never underflow; RATIO is their quotient;
# W_Q = a_i in any units; W_A, W_B = a_i, b_i in common units; g_i = exp(-DROP) up to a factor in [1/2, 1].
RATIO, X_A, X_B, P_A, P_B, W_Q, W_A, W_B, DROP = range(9)
SAMPLE_ROWS = 9
FAR = 600.0  # exponents up to which products of probabilities are formed as they are

# Rows of the calm table (5, n): a sample whose V_i - V_mu has the sign CALM_SIDE, and RATIO between LOW and HIGH, neither turns nor
# crosses 0 in any pair before step CALM_UNTIL. Before step CALM_NEXT it is not asked again.
CALM_UNTIL, CALM_NEXT, LOW, HIGH, CALM_SIDE = range(5)
CALM_ROWS = 5
CALM_STEPS = 256.0  # longest calm
CALM_TRY = 8.0  # a shorter calm is not worth its price
CALM_WAIT = 24.0  # steps until the next try then
CALM_BAND = 8.0  # how far RATIO may move either way
CALM_ROOM = 1e-9  # room for rounding, far above that of any sign in doubt

# The clock: where a run stands, and what it has counted. As np.int64 a place is no literal type, and who takes one is compiled once.
STEP, GRID, TURNS, CROSSINGS, FAILED, T4_MINUS, T4_PLUS, OPEN_30, STATUS = (np.int64(place) for place in range(9))
UNCERTAIN, ZERO = 9, 13  # by quantity: Q, K, q, k
CLOCK = 17


@sums_part
def attend(Q, K, q, k, z):
    """Logits z_11, z_12, z_21, z_22 (the rows of z) of every sample. Returns their sum, which is finite iff all are."""
    n, m = Q.shape
    same = 0.0
    for j in range(m):
        same += q[j] * k[j]
    total = 0.0
    for i in range(n):
        a = 0.0
        b = 0.0
        c = 0.0
        for j in range(m):
            a += q[j] * K[i, j]
            b += Q[i, j] * k[j]
            c += Q[i, j] * K[i, j]
        z[0, i] = same
        z[1, i] = a
        z[2, i] = b
        z[3, i] = c
        total += same + a + b + c
    return total


@part
def weigh(z, V, table):
    """Fill the per-sample table from the logits and the values V (1, n+1; the last is V_mu)."""
    n = z.shape[1]
    far = False
    for i in range(n):
        u = z[0, i] - z[1, i]
        w = z[2, i] - z[3, i]
        eu = math.exp(-abs(u))
        ew = math.exp(-abs(w))
        hu = 1 / (1 + eu)
        hw = 1 / (1 + ew)
        attention = (hu if u > 0 else eu * hu) + (hw if w > 0 else ew * hw)
        margin = attention * V[0, n] + (2 - attention) * V[0, i]
        em = math.exp(-abs(margin))
        # g_i (V_i - V_mu) = common exp(-drop)
        common = (V[0, i] - V[0, n]) / (1 + em)
        drop = margin if margin > 0 else 0.0
        g = common * (em if margin > 0 else 1.0)
        table[X_A, i] = -abs(u)
        table[X_B, i] = -abs(w)
        table[P_A, i] = hu * hu
        table[P_B, i] = hw * hw
        table[RATIO, i] = eu * hu * hu / (ew * hw * hw)
        table[W_Q, i] = g * (eu * hu * hu)
        table[W_A, i] = common
        table[W_B, i] = g * (ew * hw * hw)
        table[DROP, i] = drop
        far = far or abs(u) + drop > FAR or abs(w) + drop > FAR
    if far:
        weigh_far(table)
    else:
        for i in range(n):
            table[W_A, i] = table[W_Q, i]


@part
def weigh_far(table):
    """The ratios and weights where their factors underflow, in units of the largest weight."""
    n = table.shape[1]
    top_a = -np.inf
    top = -np.inf
    for i in range(n):
        a = table[X_A, i] - table[DROP, i]
        b = table[X_B, i] - table[DROP, i]
        if table[W_A, i] != 0.0:  # where V_i = V_mu the sample has no say
            top_a = a if a > top_a else top_a
            top = b if b > top else top
    top = top_a if top_a > top else top
    for i in range(n):
        gap = min(max(table[X_A, i] - table[X_B, i], -CLIP), CLIP)
        table[RATIO, i] = math.exp(gap) * table[P_A, i] / table[P_B, i]
        common = table[W_A, i]
        if common == 0.0:
            table[W_Q, i] = 0.0
            table[W_B, i] = 0.0
        else:
            wq = common * table[P_A, i] * math.exp(table[X_A, i] - table[DROP, i] - top_a)
            table[W_Q, i] = wq
            table[W_A, i] = wq * math.exp(top_a - top)
            table[W_B, i] = common * table[P_B, i] * math.exp(table[X_B, i] - table[DROP, i] - top)


@part
def dominates(Q, q, table, by_noise):
    """Eq. (29) (by_noise) or Eq. (42): for all s, i, |Q| >= 2 r|q|, or r|q| >= 2|Q|, with r = s11 s12/(s21 s22)."""
    n, m = Q.shape
    for i in range(n):
        r = table[RATIO, i]
        bad = 0
        for j in range(m):
            noise = abs(Q[i, j])
            signal = r * abs(q[j])
            bad += 1 if (noise < 2 * signal if by_noise else signal < 2 * noise) else 0
        if bad > 0:
            return False
    return True


@part
def follow_30(Q, q, table, sums, until, step_t3, clock):
    """Eq. (30) per neuron, |sum_i s21 s22 Q| >= 2 |q| sum_i s11 s12: until[s] = (last step it held, whether it has failed since)."""
    n, m = Q.shape
    top = -np.inf
    for i in range(n):
        top = max(top, table[X_A, i], table[X_B, i])
    total = 0.0
    for i in range(n):
        total += table[P_A, i] * math.exp(table[X_A, i] - top)
    for j in range(m):
        sums[0, j] = 0.0
    for i in range(n):
        w = table[P_B, i] * math.exp(table[X_B, i] - top)
        for j in range(m):
            sums[0, j] += w * Q[i, j]
    left = 0
    for j in range(m):
        if until[j, 1] == 0.0:
            if abs(sums[0, j]) >= 2 * total * abs(q[j]):
                until[j, 0] = clock[STEP]
                left += 1
            else:
                until[j, 1] = 1.0
                if until[j, 0] < 0:
                    until[j, 0] = step_t3
    clock[OPEN_30] = left


@part
def measure(Q, q, table, sums, until, step_t3, clock):
    """T_4^-, T_4^+ and T_{4,s}^{(30)}, while they are open."""
    if clock[FAILED] == 0:
        if dominates(Q, q, table, clock[FAILED] == 0):  # no literal True: compiled once for both equations
            clock[T4_MINUS] = clock[STEP]
        else:
            clock[FAILED] = 1
            if clock[T4_MINUS] < 0:
                clock[T4_MINUS] = clock[STEP]
    if clock[FAILED] == 1 and clock[T4_PLUS] < 0 and dominates(Q, q, table, clock[FAILED] == 0):
        clock[T4_PLUS] = clock[STEP]
    if clock[OPEN_30] > 0:
        follow_30(Q, q, table, sums, until, step_t3, clock)


@ordered_part
def calm_steps(Q, K, q, k, UQ, UK, i, sb, low, high, speed, eta):
    """For how many steps no pair of sample i turns or crosses 0, with RATIO in [low, high]; and whether high may be infinite.

    Q, K are one step ahead of q, k. Each distance to a turn, times the speed, is divided by the most that it can lose per step.
    """
    steps = CALM_STEPS
    agree = np.inf
    unit = speed * eta
    room = CALM_ROOM * speed
    far = CALM_STEPS * speed
    for j in range(q.shape[0]):
        a = sb * UQ[i, j]
        b = sb * UK[i, j]
        lead = a * (K[i, j] - k[j]) - unit - room * (abs(K[i, j]) + abs(k[j]) + far)
        steps = min(steps, lead / max(unit - a * UK[i, j], 1e-300))
        pull = b * q[j]
        agree = min(agree, pull - 2 * CALM_STEPS * unit)
        ratio = low if pull > 0 else high
        push = b * Q[i, j] + ratio * (pull - unit) - room * (abs(Q[i, j]) + far)
        steps = min(steps, push / max(ratio * unit - b * UQ[i, j], 1e-300))
        steps = min(steps, (pull - unit) / unit if pull > 0 else CALM_STEPS)
        out_q = UQ[i, j] * Q[i, j]
        out_k = UK[i, j] * K[i, j]
        steps = min(steps, CALM_STEPS if out_q > 0 else -out_q / (speed * speed))
        steps = min(steps, CALM_STEPS if out_k > 0 else -out_k / (speed * speed))
    return steps, agree > 0


@part
def foresee(Q, K, q, k, UQ, UK, i, sb, ratio, speed, eta, calm, t):
    """After step t of sample i: how long it will be calm, into the table."""
    low = ratio / CALM_BAND
    high = ratio * CALM_BAND
    steps, agree = calm_steps(Q, K, q, k, UQ, UK, i, sb, low, high, speed, eta)
    steps = math.floor(0.99 * steps - 2)
    if steps >= CALM_TRY:
        calm[CALM_UNTIL, i] = t + 1 + steps
        calm[LOW, i] = low
        calm[HIGH, i] = np.inf if agree else high
        calm[CALM_SIDE, i] = sb
    else:
        calm[CALM_NEXT, i] = t + 1 + CALM_WAIT
