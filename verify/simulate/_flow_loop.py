"""The main loop of the flow: choose a window, certify it or cut it at the first change of direction, record, go on.

The state is one vector: Q (n*m_k), K (n*m_k), q (m_k), k (m_k), V (n), V_mu. Entity e moves as B[e] + S[e] t until it turns.
While no neuron (q_s, k_s) turns, the samples do not feel each other: each advances by itself to its next turn, and a turn only
lowers the slack of the neurons' certificates.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from verify.simulate._compiled import entry
from verify.simulate._flow_kernel import (
    A_ROW,
    B_ROW,
    D_ROW,
    LARGEST,
    SIGN,
    TABLE_ROWS,
    WINDOW_ROWS,
    R,
    at,
    gap_polynomials,
    growth,
    lowest,
    neuron_certain,
    neuron_leaves,
    sum_series,
    widen,
)
from verify.simulate._flow_measure import eq_29, eq_30, eq_42
from verify.simulate._flow_pairs import GAP_CLOSES, NONE, next_of_sample

EPS_MIN = 1e-7  # below this relative width a window is no longer shortened but searched
HOLD = 1e-4  # relative time for which a sliding entity keeps its direction
MAX_IDLE = 50  # events per entity without progress in time
MAX_ROUNDS = 1_000_000  # rounds of the loop (a window is as long as 20), and 200 more per entity; sliding at m_k = 3 takes half
FAILED, STUCK = 1, 2
WINDOWS, HOLDS, STATUS, DOUBT_PAIRS, DOUBT_Q, DOUBT_K = range(6)


@njit
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


@njit
def cross(log, used, e, B, S, sides, t):
    """Record the zero of entity e on the linear piece that ends at t."""
    x = B[e] + S[e] * t
    now = 1.0 if x > 0.0 else (-1.0 if x < 0.0 else 0.0)
    if now != 0.0 and now != sides[e]:
        if sides[e] != 0.0:
            log = push(log, used, e, now, min(-B[e] / S[e], t))
        sides[e] = now
    return log


@njit
def turn(log, used, e, B, S, t):
    """Reverse entity e at t."""
    B[e] += 2 * S[e] * t
    S[e] = -S[e]
    return push(log, used, e, 1.0 if S[e] > 0.0 else -1.0, t)


@njit
def slides(last, hold, e, t):
    """Whether entity e turns at t right after its last turn, or at the end of a hold (Filippov sliding); it is held then."""
    again = (last[e] >= 0.0 and t - last[e] <= 1e-7 * t) or (hold[e] > 0.0 and t - hold[e] <= 0.5 * HOLD * t)
    last[e] = t
    if again:
        hold[e] = t * (1 + HOLD)
    return again


@njit
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


@njit
def certify(Q, SQ, K, SK, q, Sq, k, Sk, side, hold, a, h, out, cubic, F2, zeros, size_K, size_Q, slack, found):
    """Try to certify every neuron's direction on [a, a+h]. side, hold, slack: of q_s (m), then of k_s (m).

    slack: by how much each sum stays away from 0; inf where all its terms have one sign. found: neurons that are left open.
    Returns their number.
    """
    n, m = Q.shape
    sum_series(K, SK, k, Sk, a, h, out, D_ROW, F2, size_K)
    for j in range(m):
        s = side[j]
        slack[j] = lowest(s * F2[0, j], s * F2[1, j], s * F2[2, j], F2[3, j] + cubic[0], h)
        if (s > 0.0 and F2[4, j] > 0.0) or (s < 0.0 and F2[5, j] < 0.0):
            slack[j] = np.inf
    sum_series(Q, SQ, zeros, zeros, a, h, out, B_ROW, F2, size_Q)
    p0 = p1 = p2 = p3 = 0.0
    common = 0.0
    for i in range(n):
        p0 += out[A_ROW, i]
        p1 += out[A_ROW + 1, i]
        p2 += out[A_ROW + 2, i]
        p3 += out[A_ROW + 3, i]
        common += out[SIGN, i]
    for j in range(m):
        s = -side[m + j]
        x = q[j] + Sq[j] * a
        r = Sq[j]
        dev = F2[3, j] + p3 * max(abs(x), abs(x + r * h)) + cubic[1]
        f2 = s * (F2[2, j] + p2 * x + p1 * r)
        slack[m + j] = lowest(s * (F2[0, j] + p0 * x), s * (F2[1, j] + p1 * x + p0 * r), f2, dev, h)
        z = s * min(common * x, common * (x + r * h)) if s > 0.0 else s * max(common * x, common * (x + r * h))
        if abs(common) == n and z > 0.0 and ((s > 0.0 and F2[4, j] > 0.0) or (s < 0.0 and F2[5, j] < 0.0)):
            slack[m + j] = np.inf
    used = 0
    for e in range(2 * m):
        if hold[e] > a:
            slack[e] = np.inf
        elif not slack[e] > 0.0:
            found[used] = e
            used += 1
    return used


@njit
def withstands(query, j, Q, K, q, k, l1, gap, out, i, left, size_K, size_Q, size_q, slack, shared):
    """Whether the neurons' certificates outlast a turn of Q (query) or K of the pair (j, i), `left` before their window ends.

    Q, K, q, k: values of the pair. The turn moves one term of one sum, and u_i and w_i, hence the weights of sample i in all sums;
    slack and shared (what all D, all E may have lost together, and the least slack of a D, an E) are updated.
    """
    m = slack.shape[0] // 2
    moved = 2 * l1 * left
    du = 0.0 if query else (abs(q) + left) * moved
    dw = (abs(K - k) + (l1 + 1) * left) * moved if query else (abs(Q) + l1 * left) * moved
    dg = 0.25 * (du + dw) * (abs(gap) + 2 * abs(l1 - 1) * left)
    ka = growth(du + dg)
    kb = growth(dw + dg)
    shared[0] += (ka - 1) * out[D_ROW + LARGEST, i] * size_K[i]
    shared[1] += (kb - 1) * out[B_ROW + LARGEST, i] * size_Q[i] + (ka - 1) * out[A_ROW + LARGEST, i] * size_q
    out[D_ROW + LARGEST, i] *= ka
    out[A_ROW + LARGEST, i] *= ka
    out[B_ROW + LARGEST, i] *= kb
    if query:
        if slack[j] == np.inf or slack[m + j] == np.inf:  # the common sign of their terms may end here
            return False
        size_Q[i] += moved
        slack[m + j] -= moved * out[B_ROW + LARGEST, i]
        shared[3] = min(shared[3], slack[m + j])
    else:
        size_K[i] += moved
        slack[j] -= moved * out[D_ROW + LARGEST, i]
        shared[2] = min(shared[2], slack[j])
    return shared[2] > shared[0] and shared[3] > shared[1]


@entry()
def run(B, n, m, l1, grid, first, t3, eps_max, out, gaps, measured, t4_30, directions, zeros, counts):
    """Follow the flow to grid[-1]; returns the logs of turns and crossings, all other outputs are preallocated.

    B: the state at 0 (overwritten). first: the time below which windows are absolute, not relative. out (G, len(B)); gaps (2, G, n);
    measured (2,): T4-, T4+; t4_30 (m,); directions (len(B),): first signs; zeros (4,): ties at 0 by Q, K, q, k; counts (6,).
    """
    nm = n * m
    base = 2 * nm
    size = B.shape[0]
    end = grid[grid.shape[0] - 1]
    S = np.zeros(size)
    Q, K, q, k = B[:nm].reshape((n, m)), B[nm:base].reshape((n, m)), B[base : base + m], B[base + m : base + 2 * m]
    SQ, SK, Sq, Sk = S[:nm].reshape((n, m)), S[nm:base].reshape((n, m)), S[base : base + m], S[base + m : base + 2 * m]
    V = B[base + 2 * m : size - 1]
    sides = np.empty(size)  # of the values
    side = np.empty(base + 2 * m)  # of the predicates
    side_Q, side_K = side[:nm].reshape((n, m)), side[nm:base].reshape((n, m))
    last = np.full(base + 2 * m, -1.0)
    hold = np.zeros(base + 2 * m)
    hold_Q, hold_K = hold[:nm].reshape((n, m)), hold[nm:base].reshape((n, m))
    sb = np.empty(n)
    c = np.empty((n, 6))
    T, T2 = np.empty((TABLE_ROWS, n)), np.empty((TABLE_ROWS, n))
    win, win2 = np.empty((WINDOW_ROWS, n)), np.empty((WINDOW_ROWS, n))
    F2 = np.empty((6, m))
    F, r = np.empty(5), np.empty(5)
    cubic, shared = np.empty(2), np.empty(4)
    none = np.zeros(m)
    size_K, size_Q, spare = np.empty(n), np.empty(n), np.empty(n)
    hint = np.zeros(2, np.int64)  # the pair that last violated Eq. (42)
    slack = np.empty(2 * m)
    found = np.empty(2 * m, np.int64)
    due = np.ones(n, np.bool_)  # whose next turn is not known
    when, code, reach = np.zeros(n), np.empty(n, np.int64), np.full(n, eps_max)
    doubts = np.zeros(1, np.int64)
    turns, crossings = np.empty((4096, 3)), np.empty((4096, 3))
    n_turns, n_cross = np.zeros(1, np.int64), np.zeros(1, np.int64)
    for e in range(size):
        sides[e] = 1.0 if B[e] > 0.0 else (-1.0 if B[e] < 0.0 else 0.0)
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
    for i in range(n):
        gap_polynomials(Q[i], SQ[i], K[i], SK[i], q, Sq, k, Sk, c[i])
    a = 0.0
    start = 0.0
    seen = 0.0  # up to where the measured times have been looked for
    until = 0.0  # end of the neurons' window, certified where `valid`
    valid = False
    smooth = False  # whether the window ends at the first turn of any sample
    neuron = np.int64(-1)  # which neuron turns at its end
    size_q = 0.0
    eps = eps_max
    g = 0
    idle = 0
    failed = False
    rows_open = m
    rounds = 0
    while True:
        rounds += 1
        scale = max(a, first)
        bad = B[size - 1]
        for i in range(n):
            bad += c[i, 0] + c[i, 1] + c[i, 3] + c[i, 4] + V[i]
        if not math.isfinite(bad):
            counts[STATUS] = FAILED
            break
        for i in range(n):
            if due[i]:
                tb = min(a + reach[i] * scale, end)
                doubts[0] = 0
                when[i], code[i] = next_of_sample(
                    *(Q[i], SQ[i], K[i], SK[i], q, Sq, k, Sk, side_Q[i], side_K[i], hold_Q[i], hold_K[i], c[i]),
                    *(V[i] - B[size - 1], 2 * (l1[i] - 1), sb[i], a, tb, scale, r, doubts),
                )
                counts[DOUBT_PAIRS] += doubts[0]
                due[i] = False
                reach[i] = min(2 * reach[i], eps_max) if code[i] == NONE else max(reach[i] / 2, min(2 * (when[i] - a) / scale, eps_max))
        i = 0
        for x in range(n):
            if when[x] < when[i]:
                i = x
        if not valid:
            at(c, V, B[size - 1], l1, a, T)
            start = a
            h = min(eps * scale, end - a)
            for e in range(base, base + 2 * m):
                if a < hold[e] < a + h:
                    h = hold[e] - a
            neuron = np.int64(-1)
            smooth = False
            if when[i] > a:
                while True:
                    widen(c, T, l1, h, win, cubic)
                    n_open = certify(
                        *(Q, SQ, K, SK, q, Sq, k, Sk, side[base:], hold[base:], a, h, win, cubic, F2, none),
                        *(size_K, size_Q, slack, found),
                    )
                    if n_open <= 1 or h <= EPS_MIN * scale:
                        break
                    h /= 2
                eps = min(2 * h / scale, eps_max)
                until = a + h
                if n_open > 0:
                    until = min(until, when[i])
                    smooth = True
                for x in range(n_open):
                    e = found[x]
                    doubts[0] = 0
                    t = neuron_leaves(
                        *(e < m, e % m, side[base + e], Q, SQ, K, SK, q, Sq, k, Sk, c, V, B[size - 1], l1, a, until, scale),
                        *(T2, win2, cubic, F, doubts),
                    )
                    counts[DOUBT_Q if e < m else DOUBT_K] += doubts[0]
                    if t <= until:
                        until = t
                        neuron = base + e
                shared[0] = shared[1] = 0.0
                shared[2] = shared[3] = np.inf
                size_q = 0.0
                for j in range(m):
                    shared[2] = min(shared[2], slack[j])
                    shared[3] = min(shared[3], slack[m + j])
                    size_q = max(size_q, abs(q[j] + Sq[j] * a) + h)
                valid = True
                counts[WINDOWS] += 1
            else:
                until = a
        b = min(when[i], until)
        while g < grid.shape[0] and grid[g] <= b:
            t = grid[g]
            for e in range(size):
                out[g, e] = B[e] + S[e] * t
            for x in range(n):
                gaps[0, g, x] = c[x, 0] + t * (c[x, 1] + t * c[x, 2])
                gaps[1, g, x] = c[x, 3] + t * (c[x, 4] + t * c[x, 5])
            g += 1
        idle = 0 if b > a * (1 + 1e-13) else idle + 1
        a = b
        ending = a >= until
        if (ending or code[i] != NONE) and a > seen:
            if a > t3:
                x = max(seen, t3)
                if not failed:
                    t = eq_29(Q, SQ, q, Sq, c, x, a, scale)
                    if t <= a:
                        failed = True
                        measured[0] = t
                if failed and math.isnan(measured[1]):
                    measured[1] = eq_42(Q, SQ, q, Sq, c, max(x, measured[0]), a, scale, hint)
                if rows_open > 0:
                    rows_open -= eq_30(Q, SQ, q, Sq, c, V, B[size - 1], l1, x, a, scale, T2, win2, F2, F, none, spare, t4_30)
            seen = a
        if a >= end:
            break
        if idle > MAX_IDLE * size or rounds + 20 * counts[WINDOWS] > MAX_ROUNDS + 200 * size:
            measured[0] = a
            counts[STATUS] = STUCK
            break
        if when[i] <= a:
            due[i] = True
            if code[i] == GAP_CLOSES:  # V_i - V_mu changes its sign: every pair of sample i turns
                sb[i] = -sb[i]
                for x in range(2):
                    for e in range(x * nm + i * m, x * nm + (i + 1) * m):
                        crossings = cross(crossings, n_cross, e, B, S, sides, a)
                        turns = turn(turns, n_turns, e, B, S, a)
                valid = False
            elif code[i] != NONE:
                j = code[i] % m
                query = code[i] < m
                e = i * m + j if query else nm + i * m + j
                side[e] = -side[e]
                crossings = cross(crossings, n_cross, e, B, S, sides, a)
                turns = turn(turns, n_turns, e, B, S, a)
                counts[HOLDS] += slides(last, hold, e, a)
                if valid and (
                    smooth
                    or not withstands(
                        *(query, j, Q[i, j] + SQ[i, j] * a, K[i, j] + SK[i, j] * a, q[j] + Sq[j] * a, k[j] + Sk[j] * a, l1[i]),
                        *(V[i] - B[size - 1] + 2 * (l1[i] - 1) * a, win, i, until - a, size_K, size_Q, size_q, slack, shared),
                    )
                ):
                    valid = False
                    eps = min(eps, max(4 * (a - start) / scale, EPS_MIN))
            if code[i] != NONE:
                gap_polynomials(Q[i], SQ[i], K[i], SK[i], q, Sq, k, Sk, c[i])
        elif neuron >= 0:
            side[neuron] = -side[neuron]
            crossings = cross(crossings, n_cross, neuron, B, S, sides, a)
            turns = turn(turns, n_turns, neuron, B, S, a)
            counts[HOLDS] += slides(last, hold, neuron, a)
            for x in range(n):
                gap_polynomials(Q[x], SQ[x], K[x], SK[x], q, Sq, k, Sk, c[x])
                due[x] = True
        if ending:
            valid = False
    for e in range(size):
        crossings = cross(crossings, n_cross, e, B, S, sides, a)
    return turns[: n_turns[0]], crossings[: n_cross[0]]
