"""The compiled loop of the exact reduction (claims.md section 2, Eqs. (10)-(13)).

Written for LLVM's vectoriser and for a short compilation: every array is given, contiguous and float64; inner loops run over
neurons, hold one reduction or one store, and only *count* what is out of the ordinary (a turn, a doubtful sign, a crossing);
the few rows that have any are then gone through one by one.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

EPS = float(np.finfo(np.float64).eps)
CLIP = 690.0  # exp(690) is finite, and no ratio of inner products reaches it
_FAST = {"reassoc", "nsz", "contract"}  # lets sums over neurons vectorise; NaN and infinities keep their meaning

# Rows of the per-sample table (8, n): s11 s12 = P_A exp(X_A) and s21 s22 = P_B exp(X_B) never underflow; RATIO is their quotient;
# W_Q = a_i in units of the largest a; W_A, W_B = a_i, b_i in units of the largest of all a and b.
RATIO, X_A, X_B, P_A, P_B, W_Q, W_A, W_B = range(8)
SAMPLE_ROWS = 8

# The clock: where a run stands, and what it has counted.
STEP, GRID, TURNS, CROSSINGS, FAILED, T4_MINUS, T4_PLUS, OPEN_30, STATUS = range(9)
UNCERTAIN, ZERO = 9, 13  # by quantity: Q, K, q, k
CLOCK = 17
RUNNING, NOT_FINITE = 0, 1


@njit(cache=True, fastmath=_FAST)
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


@njit(cache=True)
def weigh(z, V, table):
    """Fill the per-sample table from the logits and the values V (n+1; the last is V_mu)."""
    n = z.shape[1]
    top_a = -np.inf
    top = -np.inf
    for i in range(n):
        u = z[0, i] - z[1, i]
        w = z[2, i] - z[3, i]
        eu = math.exp(-abs(u))
        ew = math.exp(-abs(w))
        hu = 1 / (1 + eu)
        hw = 1 / (1 + ew)
        attention = (hu if u > 0 else eu * hu) + (hw if w > 0 else ew * hw)
        margin = attention * V[n] + (2 - attention) * V[i]
        # g_i = exp(-max(margin, 0)) / (1 + exp(-|margin|))
        common = (V[i] - V[n]) / (1 + math.exp(-abs(margin)))
        drop = max(margin, 0.0)
        table[X_A, i] = -abs(u)
        table[X_B, i] = -abs(w)
        table[P_A, i] = hu * hu
        table[P_B, i] = hw * hw
        table[RATIO, i] = math.exp(min(max(abs(w) - abs(u), -CLIP), CLIP)) * (hu * hu) / (hw * hw)
        table[W_Q, i] = common
        table[W_A, i] = drop
        if common != 0.0:
            top_a = max(top_a, -abs(u) - drop)
            top = max(top, max(-abs(u), -abs(w)) - drop)
    share = math.exp(top_a - top) if top > -np.inf else 0.0
    for i in range(n):
        common = table[W_Q, i]
        drop = table[W_A, i]
        if common == 0.0:  # V_i = V_mu: the sample has no say
            table[W_Q, i] = 0.0
            table[W_A, i] = 0.0
            table[W_B, i] = 0.0
        else:
            wq = common * table[P_A, i] * math.exp(table[X_A, i] - drop - top_a)
            table[W_Q, i] = wq
            table[W_A, i] = wq * share
            table[W_B, i] = common * table[P_B, i] * math.exp(table[X_B, i] - drop - top)


@njit(cache=True)
def weighted_sum(X, table, row, sums, which):
    """sums[which, s] = sum_i table[row, i] X[i, s], without fused products, so that terms that cancel give 0 and the signal rests."""
    n, m = X.shape
    for j in range(m):
        sums[which, j] = 0.0
    for i in range(n):
        w = table[row, i]
        for j in range(m):
            sums[which, j] += w * X[i, j]


@njit(cache=True)
def sign(x):
    """sgn with sgn(0) = 0."""
    return 1.0 if x > 0 else (-1.0 if x < 0 else 0.0)


@njit(cache=True)
def note(log, clock, counter, place, side, time):
    """Append an event to a log whose length the clock keeps."""
    row = clock[counter]
    log[row, 0] = place
    log[row, 1] = side
    log[row, 2] = time
    clock[counter] = row + 1


@njit(cache=True)
def odd_pairs(Q, K, q, k, UQ, UK, i, sb, ratio, slack):
    """How many pairs of sample i turn, or have a sign in doubt: |a q + b Q| <= slack |Q| in units of b, times the speed."""
    count = 0
    for j in range(q.shape[0]):
        lead = sb * UQ[i, j] * (K[i, j] - k[j])
        push = sb * UK[i, j] * (ratio * q[j] + Q[i, j])
        count += 1 if (lead <= 0) | (push <= slack * abs(Q[i, j])) else 0
    return count


@njit(cache=True)
def turn_pairs(Q, K, q, k, UQ, UK, i, sb, ratio, tol, speed, turns, clock):
    """New directions of sample i's pairs, Eqs. (11) and (13), with their turns, zero and uncertain signs."""
    n, m = Q.shape
    t = clock[STEP]
    for j in range(m):
        pull = ratio * q[j]
        lead = sb * (K[i, j] - k[j])
        push = sb * (pull + Q[i, j])
        if UQ[i, j] * lead > 0 and UK[i, j] * push > 4 * tol * speed * abs(Q[i, j]):
            continue  # as in odd_pairs
        dq = sign(lead)
        dk = sign(push)
        if dq == 0.0:
            clock[ZERO] += 1
        if dk == 0.0:
            clock[ZERO + 1] += 1
        elif abs(push) <= tol * (abs(pull) + abs(Q[i, j])):
            clock[UNCERTAIN + 1] += 1
        if dq != sign(UQ[i, j]):
            if t > 0:
                note(turns, clock, TURNS, i * m + j, dq, t)
            UQ[i, j] = dq * speed
        if dk != sign(UK[i, j]):
            if t > 0:
                note(turns, clock, TURNS, n * m + i * m + j, dk, t)
            UK[i, j] = dk * speed


@njit(cache=True)
def odd_neurons(sums, q, k, uq, uk, total_q, total_a, cut_q, cut_k):
    """How many neurons' signals turn, or have a sum within `cut` of 0 (which bounds the rounding of every such sum)."""
    count = 0
    for j in range(q.shape[0]):
        lead = uq[j] * (sums[0, j] - k[j] * total_q)
        push = -uk[j] * (q[j] * total_a + sums[1, j])
        count += 1 if (lead <= cut_q) | (push <= cut_k) else 0
    return count


@njit(cache=True)
def turn_neurons(Q, K, q, k, uq, uk, sums, table, total_q, total_a, tol, eta, turns, clock):
    """New directions of the signals, Eqs. (10) and (12), with their turns, zero and uncertain signs."""
    n, m = Q.shape
    t = clock[STEP]
    for j in range(m):
        lead = sums[0, j] - k[j] * total_q
        push = -(q[j] * total_a + sums[1, j])
        size_q = abs(k[j] * total_q)
        size_k = abs(q[j] * total_a)
        for i in range(n):
            size_q += abs(table[W_Q, i] * K[i, j])
            size_k += abs(table[W_B, i] * Q[i, j])
        if lead == 0.0:
            clock[ZERO + 2] += 1
        elif abs(lead) <= tol * size_q:
            clock[UNCERTAIN + 2] += 1
        if push == 0.0:
            clock[ZERO + 3] += 1
        elif abs(push) <= tol * size_k:
            clock[UNCERTAIN + 3] += 1
        if sign(lead) != sign(uq[j]):
            if t > 0:
                note(turns, clock, TURNS, 2 * n * m + j, sign(lead), t)
            uq[j] = sign(lead) * eta
        if sign(push) != sign(uk[j]):
            if t > 0:
                note(turns, clock, TURNS, 2 * n * m + m + j, sign(push), t)
            uk[j] = sign(push) * eta


@njit(cache=True)
def advance(X, U, lo, hi):
    """X += U on [lo, hi); returns how many values reached or crossed 0."""
    count = 0
    for p in range(lo, hi):
        before = X[p]
        after = before + U[p]
        X[p] = after
        count += 1 if before * after <= 0 else 0
    return count


@njit(cache=True)
def note_crossings(X, U, side, lo, hi, crossings, clock):
    """Record the crossings in [lo, hi) after `advance`: exact times on the segment from t to t+1."""
    for p in range(lo, hi):
        if X[p] * side[p] > 0:
            continue
        after = sign(X[p])
        if after != 0.0 and after != side[p]:
            where = 1.0 - X[p] / U[p] if U[p] != 0.0 else 0.0
            note(crossings, clock, CROSSINGS, p, after, clock[STEP] + min(max(where, 0.0), 1.0))
            side[p] = after


@njit(cache=True)
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


@njit(cache=True)
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


@njit(cache=True)
def measure(Q, q, table, sums, until, step_t3, clock):
    """T_4^-, T_4^+ and T_{4,s}^{(30)}, while they are open."""
    if clock[FAILED] == 0:
        if dominates(Q, q, table, True):
            clock[T4_MINUS] = clock[STEP]
        else:
            clock[FAILED] = 1
            if clock[T4_MINUS] < 0:
                clock[T4_MINUS] = clock[STEP]
    if clock[FAILED] == 1 and clock[T4_PLUS] < 0 and dominates(Q, q, table, False):
        clock[T4_PLUS] = clock[STEP]
    if clock[OPEN_30] > 0:
        follow_30(Q, q, table, sums, until, step_t3, clock)


@njit(cache=True)
def turn(Q, K, q, k, V, UQ, UK, uq, uk, z, table, sums, speeds, reach, turns, clock):
    """The directions of one step, Eqs. (10)-(13). `reach` bounds every |inner product|; speeds (n+1) are eta l_i, and eta."""
    n, m = Q.shape
    total_q = 0.0
    total_a = 0.0
    size_q = 0.0
    size_k = 0.0
    for i in range(n):
        total_q += table[W_Q, i]
        total_a += table[W_A, i]
        size_q += abs(table[W_Q, i])
        size_k += abs(table[W_A, i]) + abs(table[W_B, i])
    weighted_sum(K, table, W_Q, sums, 0)
    weighted_sum(Q, table, W_B, sums, 1)
    tol = EPS * (n + 8)
    cut = 4 * tol * reach * speeds[n]
    if odd_neurons(sums, q, k, uq, uk, total_q, total_a, cut * size_q, cut * size_k) > 0:
        turn_neurons(Q, K, q, k, uq, uk, sums, table, total_q, total_a, tol, speeds[n], turns, clock)
    for i in range(n):
        sb = sign(V[i] - V[n])
        r = table[RATIO, i]
        tol = EPS * (m + abs(z[0, i]) + abs(z[1, i]) + abs(z[2, i]) + abs(z[3, i]))
        # |pull + Q| <= tol (|pull| + |Q|) implies |pull + Q| <= 4 tol |Q|
        if odd_pairs(Q, K, q, k, UQ, UK, i, sb, r, 4 * tol * speeds[i]) > 0:
            turn_pairs(Q, K, q, k, UQ, UK, i, sb, r, tol, speeds[i], turns, clock)


@njit(cache=True)
def run(
    X,
    U,
    side,
    Q,
    K,
    q,
    k,
    V,
    UQ,
    UK,
    uq,
    uk,
    z,
    table,
    sums,
    speeds,
    reach,
    grid,
    step_t3,
    fault,
    states,
    gaps,
    until,
    first,
    turns,
    crossings,
    clock,
):
    """Simulate in place until the last grid step, a value that is not finite, or a full log.

    X, U, side (N,): the flat state (`layout`), its increment per step, and the last strict sign of each value; Q, K, q, k, V, UQ,
    UK, uq, uk are views of X and U. z (4, n), table (8, n), sums (2, m_k): scratch. speeds (n+2,): eta l_i, eta, the largest of
    them. reach: bounds |X| at step 0. grid: steps to record, into states (G, N) and gaps (2, G, n). fault: step, place, value.
    until (m_k, 2), first (N,), turns, crossings (rows: place, sign, time in steps), clock: results.
    """
    n, m = Q.shape
    pairs = 2 * n * m
    last = grid[grid.shape[0] - 1]
    room = pairs + 2 * m + n + 1
    while turns.shape[0] - clock[TURNS] >= room and crossings.shape[0] - clock[CROSSINGS] >= room:
        t = clock[STEP]
        if t == fault[0]:
            X[int(fault[1])] = fault[2]
            reach += abs(fault[2])
        total = attend(Q, K, q, k, z)
        for i in range(n + 1):
            total += V[i]
        if not math.isfinite(total):
            clock[STATUS] = NOT_FINITE
            return
        weigh(z, V, table)
        if t == grid[clock[GRID]]:
            for p in range(X.shape[0]):
                states[clock[GRID], p] = X[p]
            for i in range(n):
                gaps[0, clock[GRID], i] = z[0, i] - z[1, i]
                gaps[1, clock[GRID], i] = z[2, i] - z[3, i]
            clock[GRID] += 1
        if t >= step_t3:
            measure(Q, q, table, sums, until, step_t3, clock)
        if t == last:
            return
        turn(Q, K, q, k, V, UQ, UK, uq, uk, z, table, sums, speeds, reach + t * speeds[n + 1], turns, clock)
        if t == 0:
            for p in range(X.shape[0]):
                first[p] = U[p]
        for row in range(2 * n + 2):
            if advance(X, U, row * m, row * m + m) > 0:
                note_crossings(X, U, side, row * m, row * m + m, crossings, clock)
        if advance(X, U, pairs + 2 * m, X.shape[0]) > 0:
            note_crossings(X, U, side, pairs + 2 * m, X.shape[0], crossings, clock)
        clock[STEP] = t + 1
