"""The main loop of the flow: choose a window, certify it or cut it at the first change of direction, record, go on.

The state is one vector: Q (n*m_k), K (n*m_k), q (m_k), k (m_k), V (n), V_mu. Entity e moves as B[e] + S[e] t until it turns.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from verify.simulate._flow_kernel import (
    A_ROW,
    B_ROW,
    D_ROW,
    RHI,
    RLO,
    TABLE_ROWS,
    WINDOW_ROWS,
    R,
    W,
    at,
    gap_polynomials,
    neuron_certain,
    neuron_leaves,
    next_linear,
    pair_leaves,
    positive,
    sum_series,
    undecided_pairs,
    widen,
)
from verify.simulate._flow_measure import Eq29, Eq30, Eq42

EPS_MIN = 1e-7  # below this relative width a window is no longer shortened but searched
HOLD = 1e-4  # relative time for which a sliding entity keeps its direction
MAX_IDLE = 50  # events per entity without progress in time
FAILED, STUCK = 1, 2
WINDOWS, HOLDS, STATUS, DOUBT_PAIRS, DOUBT_Q, DOUBT_K, RETRIES, SEARCHES = range(8)


@njit(cache=True)
def push(log, used, e, sign, t):
    """Append one event, doubling the buffer when it is full. Rows: entity, sign after, time."""
    row = used[0]
    if row == log.shape[0]:
        bigger = np.empty((2 * row, 3))
        for x in range(row):
            for y in range(3):
                bigger[x, y] = log[x, y]
        log = bigger
    log[row, 0] = e
    log[row, 1] = sign
    log[row, 2] = t
    used[0] = row + 1
    return log


@njit(cache=True)
def cross(log, used, e, B, S, sides, t):
    """Record the zero of entity e on the linear piece that ends at t."""
    x = B[e] + S[e] * t
    now = 1.0 if x > 0.0 else (-1.0 if x < 0.0 else 0.0)
    if now != 0.0 and now != sides[e]:
        if sides[e] != 0.0:
            log = push(log, used, e, now, min(-B[e] / S[e], t))
        sides[e] = now
    return log


@njit(cache=True)
def turn(log, used, e, B, S, t):
    """Reverse entity e at t."""
    B[e] += 2 * S[e] * t
    S[e] = -S[e]
    return push(log, used, e, 1.0 if S[e] > 0.0 else -1.0, t)


@njit(cache=True)
def slides(last, hold, e, t):
    """Whether entity e turns at t right after its last turn, or at the end of a hold (Filippov sliding); it is held then."""
    again = (last[e] >= 0.0 and t - last[e] <= 1e-7 * t) or (hold[e] > 0.0 and t - hold[e] <= 0.5 * HOLD * t)
    last[e] = t
    if again:
        hold[e] = t * (1 + HOLD)
    return again


@njit(cache=True)
def first_sides(Q, K, q, k, sb, T, side, F, zeros, out, cubic):
    """Sides of all predicates at t = 0, before anything has moved (all speeds are 0); ties count as + and are counted in zeros."""
    n, m = Q.shape
    nm = n * m
    still = np.zeros((n, m))
    rest = np.zeros(m)
    for j in range(m):
        for i in range(n):
            x = K[i, j] - k[j]
            y = Q[i, j] + T[R, i] * q[j]
            side[i * m + j] = -1.0 if x < 0.0 else 1.0
            side[nm + i * m + j] = -1.0 if y < 0.0 else 1.0
            zeros[0] += 1 if x == 0.0 else 0
            zeros[1] += 1 if y == 0.0 else 0
        for query in (True, False):
            neuron_certain(query, j, 1.0, Q, still, K, still, q, rest, k, rest, 0.0, 1e-100, out, cubic, F)
            side[2 * nm + j + (0 if query else m)] = -1.0 if F[0] < 0.0 else 1.0
            zeros[2 if query else 3] += 1 if F[0] == 0.0 else 0


@njit(cache=True)
def open_neurons(Q, SQ, K, SK, q, Sq, k, Sk, side, hold, base, a, h, out, cubic, F2, F, found):
    """Neurons whose sum might vanish on [a, a+h]; found lists j for q_s, m+j for k_s. Returns their number."""
    m = q.shape[0]
    n = Q.shape[0]
    used = 0
    sum_series(K, SK, k, Sk, a, h, out, D_ROW, F2)
    for j in range(m):
        e = side[base + j]
        if (
            not positive(e * F2[0, j], e * F2[1, j], e * F2[2, j], F2[3, j] + cubic[0], h)
            and hold[base + j] <= a
            and not neuron_certain(True, j, e, Q, SQ, K, SK, q, Sq, k, Sk, a, h, out, cubic, F)
        ):
            found[used] = j
            used += 1
    sum_series(Q, SQ, np.zeros(m), np.zeros(m), a, h, out, B_ROW, F2)
    p0 = p1 = p2 = p3 = 0.0
    for i in range(n):
        p0 += out[A_ROW, i]
        p1 += out[A_ROW + 1, i]
        p2 += out[A_ROW + 2, i]
        p3 += out[A_ROW + 3, i]
    for j in range(m):
        e = -side[base + m + j]
        x = q[j] + Sq[j] * a
        s = Sq[j]
        f0 = e * (F2[0, j] + p0 * x)
        f1 = e * (F2[1, j] + p1 * x + p0 * s)
        f2 = e * (F2[2, j] + p2 * x + p1 * s)
        dev = F2[3, j] + p3 * max(abs(x), abs(x + s * h)) + cubic[1]
        if (
            not positive(f0, f1, f2, dev, h)
            and hold[base + m + j] <= a
            and not neuron_certain(False, j, -e, Q, SQ, K, SK, q, Sq, k, Sk, a, h, out, cubic, F)
        ):
            found[used] = m + j
            used += 1
    return used


@njit(cache=True)
def run(B, n, m, l1, grid, first, t3, eps_max, out, gaps, measured, t4_30, directions, zeros, counts):
    """Follow the flow to grid[-1]; returns the logs of turns and crossings, all other outputs are preallocated.

    B: the state at 0 (overwritten). first: the time below which windows are absolute, not relative. out (G, len(B)); gaps (2, G, n);
    measured (2,): T4-, T4+; t4_30 (m,); directions (len(B),): first signs; zeros (4,): ties at 0 by Q, K, q, k; counts (8,).
    """
    nm = n * m
    base = 2 * nm
    size = B.shape[0]
    S = np.empty(size)
    Q, K, q, k = B[:nm].reshape((n, m)), B[nm:base].reshape((n, m)), B[base : base + m], B[base + m : base + 2 * m]
    SQ, SK, Sq, Sk = S[:nm].reshape((n, m)), S[nm:base].reshape((n, m)), S[base : base + m], S[base + m : base + 2 * m]
    V = B[base + 2 * m : size - 1]
    sides = np.empty(size)  # of the values
    side = np.empty(base + 2 * m)  # of the predicates
    side_Q = side[:nm].reshape((n, m))
    side_K = side[nm:base].reshape((n, m))
    last = np.full(base + 2 * m, -1.0)
    hold = np.zeros(base + 2 * m)
    hold_Q = hold[:nm].reshape((n, m))
    sb = np.empty(n)
    c = np.empty((n, 6))
    T = np.empty((TABLE_ROWS, n))
    T2 = np.empty((TABLE_ROWS, n))
    win = np.empty((WINDOW_ROWS, n))
    win2 = np.empty((WINDOW_ROWS, n))
    F2 = np.empty((4, m))
    F = np.empty(4)
    cubic = np.empty(2)
    found = np.empty(2 * m, np.int64)
    lin_t = np.empty(n)
    lin_j = np.empty(n, np.int64)
    qa = np.empty(m)
    qb = np.empty(m)
    doubts = np.zeros(1, np.int64)
    turns = np.empty((4096, 3))
    crossings = np.empty((4096, 3))
    n_turns = np.zeros(1, np.int64)
    n_cross = np.zeros(1, np.int64)
    for e in range(size):
        sides[e] = 1.0 if B[e] > 0.0 else (-1.0 if B[e] < 0.0 else 0.0)
        S[e] = 0.0
    for i in range(n):
        sb[i] = 1.0 if V[i] >= B[size - 1] else -1.0
        gap_polynomials(Q[i], SQ[i], K[i], SK[i], q, Sq, k, Sk, c[i])
    at(c, V, B[size - 1], l1, 0.0, T)
    widen(c, T, l1, 1e-100, win, cubic)
    first_sides(Q, K, q, k, sb, T, side, F, zeros, win, cubic)
    for e in range(size):
        i = e % nm // m if e < base else e - base - 2 * m
        directions[e] = sb[i] * side[e] if e < base else (side[e] if e < base + 2 * m else 1.0)
        S[e] = directions[e] * (l1[i] if e < base else (1.0 if e < base + 2 * m else (2 * l1[i] if e < size - 1 else 2.0)))
    stale = n  # the sample whose gaps and linear event are out of date (n: all of them)
    a = 0.0
    eps = eps_max
    g = 0
    idle = 0
    failed = False
    rows_open = m
    fresh = True  # whether the table T is not yet that of time a
    while True:
        for i in range(n):
            if stale in (n, i):
                gap_polynomials(Q[i], SQ[i], K[i], SK[i], q, Sq, k, Sk, c[i])
                lin_t[i], lin_j[i] = next_linear(K[i], SK[i], k, Sk, side_Q[i], hold_Q[i], a, V[i] - B[size - 1], 2 * (l1[i] - 1), sb[i])
        stale = -1
        scale = max(a, first)
        b = min(a + eps * scale, end_of(grid))
        if a < t3 < b:
            b = t3
        event = -1
        for i in range(n):
            if lin_t[i] <= b:
                b = lin_t[i]
                event = i * m + lin_j[i] if lin_j[i] >= 0 else base + 2 * m + i
        linear = event >= 0
        for e in range(base, base + 2 * m):
            if a < hold[e] < b:
                b = hold[e]
                event = -1
        if b > a:
            h = b - a
            if fresh:
                at(c, V, B[size - 1], l1, a, T)
                fresh = False
                bad = 0.0
                for i in range(n):
                    bad += T[R, i] + T[W, i] + V[i]
                if not math.isfinite(bad):
                    counts[STATUS] = FAILED
                    break
            widen(c, T, l1, h, win, cubic)
            for j in range(m):
                qa[j] = q[j] + Sq[j] * a
                qb[j] = q[j] + Sq[j] * b
            pairs = 0
            for i in range(n):
                pairs += undecided_pairs(Q[i], SQ[i], side_K[i], qa, qb, a, b, win[RLO, i], win[RHI, i])
            n_open = open_neurons(Q, SQ, K, SK, q, Sq, k, Sk, side, hold, base, a, h, win, cubic, F2, F, found)
            if (n_open > 1 or pairs > 8) and h > EPS_MIN * scale:
                eps = h / scale / 2
                counts[RETRIES] += 1
                continue
            for x in range(n_open):
                e = base + found[x]
                doubts[0] = 0
                t = neuron_leaves(
                    *(found[x] < m, found[x] % m, side[e], Q, SQ, K, SK, q, Sq, k, Sk, c, V, B[size - 1], l1, a, b, scale),
                    *(T2, win2, cubic, F, doubts),
                )
                counts[SEARCHES] += 1
                counts[DOUBT_Q if found[x] < m else DOUBT_K] += doubts[0]
                if t <= b:
                    b = t
                    event = e
            if pairs > 0:
                for i in range(n):
                    for j in range(m):
                        s = side_K[i, j]
                        x = Q[i, j] + SQ[i, j] * a
                        y = Q[i, j] + SQ[i, j] * (a + h)
                        low = min(s * (x + win[RLO, i] * qa[j]), s * (x + win[RHI, i] * qa[j]))
                        if min(low, min(s * (y + win[RLO, i] * qb[j]), s * (y + win[RHI, i] * qb[j]))) > 0.0:
                            continue
                        e = nm + i * m + j
                        if hold[e] > a:
                            if hold[e] < b:
                                b = hold[e]
                                event = -1
                            continue
                        doubts[0] = 0
                        t = pair_leaves(Q[i, j], SQ[i, j], q[j], Sq[j], s, c[i], a, b, scale, doubts)
                        counts[SEARCHES] += 1
                        counts[DOUBT_PAIRS] += doubts[0]
                        if t <= b:
                            b = t
                            event = e
        counts[WINDOWS] += 1
        # the window (a, b] is certified
        while g < grid.shape[0] and grid[g] <= b:
            t = grid[g]
            for e in range(size):
                out[g, e] = B[e] + S[e] * t
            for i in range(n):
                gaps[0, g, i] = c[i, 0] + t * (c[i, 1] + t * c[i, 2])
                gaps[1, g, i] = c[i, 3] + t * (c[i, 4] + t * c[i, 5])
            g += 1
        if b >= t3:
            if not failed:
                t = Eq29(Q, SQ, q, Sq, c, max(a, t3), b, scale)
                if t <= b:
                    failed = True
                    measured[0] = t
            if failed and math.isnan(measured[1]):
                measured[1] = Eq42(Q, SQ, q, Sq, c, max(a, measured[0]), b, scale)
            if rows_open > 0:
                rows_open -= Eq30(Q, SQ, q, Sq, c, V, B[size - 1], l1, max(a, t3), b, scale, T2, win2, F, t4_30)
        idle = 0 if b > a * (1 + 1e-13) else idle + 1
        if idle > MAX_IDLE * size:
            counts[STATUS] = STUCK
            break
        if event < 0 or (linear and (event < nm or event >= base + 2 * m)):
            eps = min(2 * eps, eps_max)
        else:
            eps = min(max(eps / 2, 2 * (b - a) / scale), eps_max)
        fresh = fresh or b > a
        a = b
        if a >= end_of(grid):
            break
        if event < 0:
            continue
        fresh = True
        if event >= base + 2 * m:  # V_i - V_mu changes its sign: every pair of sample i turns
            stale = event - base - 2 * m
            sb[stale] = -sb[stale]
            for x in range(2):
                for e in range(x * nm + stale * m, x * nm + (stale + 1) * m):
                    crossings = cross(crossings, n_cross, e, B, S, sides, a)
                    turns = turn(turns, n_turns, e, B, S, a)
            continue
        stale = event % nm // m if event < base else n
        side[event] = -side[event]
        crossings = cross(crossings, n_cross, event, B, S, sides, a)
        turns = turn(turns, n_turns, event, B, S, a)
        if slides(last, hold, event, a):
            counts[HOLDS] += 1
    for e in range(size):
        crossings = cross(crossings, n_cross, e, B, S, sides, a)
    return turns[: n_turns[0]], crossings[: n_cross[0]]


@njit(cache=True)
def end_of(grid):
    """The last time of the run."""
    return grid[grid.shape[0] - 1]
