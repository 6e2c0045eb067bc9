"""The compiled loop of the exact reduction (claims.md section 2, Eqs. (10)-(13)).

Written for LLVM's vectoriser and for a short compilation: every array is given, contiguous and float64; inner loops run over
neurons, hold one reduction or one store, and only *count* what is out of the ordinary (a turn, a doubtful sign, a crossing);
the few rows that have any are then gone through one by one.
"""

from __future__ import annotations

import math

import numpy as np

from verify.simulate._compiled import entry
from verify.simulate._kernel_samples import (
    CALM_NEXT,
    CALM_ROOM,
    CALM_ROWS,
    CALM_SIDE,
    CALM_UNTIL,
    CLOCK,
    CROSSINGS,
    FAILED,
    GRID,
    HIGH,
    LOW,
    OPEN_30,
    RATIO,
    SAMPLE_ROWS,
    STATUS,
    STEP,
    T4_MINUS,
    T4_PLUS,
    TURNS,
    UNCERTAIN,
    W_A,
    W_B,
    W_Q,
    ZERO,
    attend,
    foresee,
    measure,
    part,
    weigh,
)

__all__ = [
    "CALM_NEXT",
    "CALM_ROWS",
    "CALM_UNTIL",
    "CLOCK",
    "CROSSINGS",
    "FAILED",
    "NOT_FINITE",
    "OPEN_30",
    "SAMPLE_ROWS",
    "STATUS",
    "STEP",
    "T4_MINUS",
    "T4_PLUS",
    "TURNS",
]
__all__ += ["UNCERTAIN", "ZERO", "run"]
EPS = float(np.finfo(np.float64).eps)
NOT_FINITE = 1
ONLY = np.int64(0)  # the one row of V: as no literal type, `advance` is compiled once


@part
def add_sample(Q, K, table, i, sums):
    """Add a_i K_{s,i} and b_i Q_{s,i} to the two sums of each neuron; no fused products: terms that cancel give 0, and the signal rests."""
    wq = table[W_Q, i]
    wb = table[W_B, i]
    for j in range(Q.shape[1]):
        sums[0, j] += wq * K[i, j]
    for j in range(Q.shape[1]):
        sums[1, j] += wb * Q[i, j]


@part
def add_four(Q, K, table, i, sums):
    """`add_sample` for the samples i to i+3, in that order: the two sums are read and written once."""
    a, b, c, d = table[W_Q, i], table[W_Q, i + 1], table[W_Q, i + 2], table[W_Q, i + 3]
    for j in range(Q.shape[1]):
        sums[0, j] = sums[0, j] + a * K[i, j] + b * K[i + 1, j] + c * K[i + 2, j] + d * K[i + 3, j]
    a, b, c, d = table[W_B, i], table[W_B, i + 1], table[W_B, i + 2], table[W_B, i + 3]
    for j in range(Q.shape[1]):
        sums[1, j] = sums[1, j] + a * Q[i, j] + b * Q[i + 1, j] + c * Q[i + 2, j] + d * Q[i + 3, j]


@part
def sign(x):
    """sgn with sgn(0) = 0."""
    return 1.0 if x > 0 else (-1.0 if x < 0 else 0.0)


@part
def note(log, clock, counter, place, side, time):
    """Append an event to a log whose length the clock keeps."""
    row = clock[counter]
    log[row, 0] = place
    log[row, 1] = side
    log[row, 2] = time
    clock[counter] = row + 1


@part
def odd_pairs(Q, K, q, k, UQ, UK, i, sb, ratio, slack):
    """How many pairs of sample i turn, or have a sign in doubt: |a q + b Q| <= slack |Q| in units of b, times the speed."""
    count = 0
    for j in range(q.shape[0]):
        lead = sb * UQ[i, j] * (K[i, j] - k[j])
        push = sb * UK[i, j] * (ratio * q[j] + Q[i, j])
        count += 1 if (lead <= 0) | (push <= slack * abs(Q[i, j])) else 0
    return count


@part
def turn_pairs(Q, K, q, k, UQ, UK, i, sb, ratio, tol, speed, turns, clock):
    """New directions of sample i's pairs, Eqs. (11) and (13), with their turns, zero and uncertain signs."""
    n, m = Q.shape
    t = float(clock[STEP])
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


@part
def odd_neurons(sums, q, k, uq, uk, total_q, total_a, cut_q, cut_k):
    """How many neurons' signals turn, or have a sum within `cut` of 0 (which bounds the rounding of every such sum)."""
    count = 0
    for j in range(q.shape[0]):
        lead = uq[j] * (sums[0, j] - k[j] * total_q)
        push = -uk[j] * (q[j] * total_a + sums[1, j])
        count += 1 if (lead <= cut_q) | (push <= cut_k) else 0
    return count


@part
def turn_neurons(Q, K, q, k, UQ, UK, uq, uk, sums, table, total_q, total_a, tol, eta, turns, clock):
    """New directions of the signals, Eqs. (10) and (12), with their turns, zero and uncertain signs. Q, K have moved on by UQ, UK."""
    n, m = Q.shape
    t = float(clock[STEP])
    for j in range(m):
        lead = sums[0, j] - k[j] * total_q
        push = -(q[j] * total_a + sums[1, j])
        size_q = abs(k[j] * total_q)
        size_k = abs(q[j] * total_a)
        for i in range(n):
            size_q += abs(table[W_Q, i] * (K[i, j] - UK[i, j]))
            size_k += abs(table[W_B, i] * (Q[i, j] - UQ[i, j]))
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


@part
def advance(X, U, row):
    """X += U in one row; returns how many values reached or crossed 0."""
    count = 0
    for j in range(X.shape[1]):
        before = X[row, j]
        after = before + U[row, j]
        X[row, j] = after
        count += 1 if before * after <= 0 else 0
    return count


@part
def glide(Q, K, UQ, UK, i):
    """`advance` for both rows of a calm sample."""
    for j in range(Q.shape[1]):
        Q[i, j] += UQ[i, j]
        K[i, j] += UK[i, j]


@part
def note_crossings(X, U, side, row, base, crossings, clock):
    """Record the crossings of one row after `advance`: exact times on the segment from t to t+1. base: place of its first value."""
    for j in range(X.shape[1]):
        if X[row, j] * side[base + j] > 0:
            continue
        after = sign(X[row, j])
        if after != 0.0 and after != side[base + j]:
            where = 1.0 - X[row, j] / U[row, j] if U[row, j] != 0.0 else 0.0
            note(crossings, clock, CROSSINGS, base + j, after, clock[STEP] + min(max(where, 0.0), 1.0))
            side[base + j] = after


@part
def step_pairs(rows, moves, side, Q, K, q, k, V, UQ, UK, z, table, sums, calm, speeds, turns, crossings, clock):
    """One step of all pairs, Eqs. (11) and (13), sample by sample while its rows are in the cache; on the way the sums of (10), (12)."""
    n, m = Q.shape
    t = clock[STEP]
    for j in range(m):
        sums[0, j] = 0.0
        sums[1, j] = 0.0
    for i in range(n):
        if i >= n - n % 4:
            add_sample(Q, K, table, i, sums)
        elif i % 4 == 0:
            add_four(Q, K, table, i, sums)
        sb = sign(V[0, i] - V[0, n])
        ratio = table[RATIO, i]
        if t < calm[CALM_UNTIL, i] and sb == calm[CALM_SIDE, i] and calm[LOW, i] <= ratio <= calm[HIGH, i]:
            glide(Q, K, UQ, UK, i)
            continue
        tol = EPS * (m + abs(z[0, i]) + abs(z[1, i]) + abs(z[2, i]) + abs(z[3, i]))
        # |pull + Q| <= tol (|pull| + |Q|) implies |pull + Q| <= 4 tol |Q|
        odd = odd_pairs(Q, K, q, k, UQ, UK, i, sb, ratio, 4 * tol * speeds[i])
        if odd > 0:
            turn_pairs(Q, K, q, k, UQ, UK, i, sb, ratio, tol, speeds[i], turns, clock)
        if advance(rows, moves, i) > 0:
            note_crossings(rows, moves, side, i, i * m, crossings, clock)
        if advance(rows, moves, n + i) > 0:
            note_crossings(rows, moves, side, n + i, (n + i) * m, crossings, clock)
        if odd == 0 and t >= calm[CALM_NEXT, i] and 100 * tol < CALM_ROOM:
            foresee(Q, K, q, k, UQ, UK, i, sb, ratio, speeds[i], speeds[n], calm, t)


@part
def step_signals(rows, moves, side, Q, K, q, k, UQ, UK, uq, uk, table, sums, speeds, reach, turns, crossings, clock):
    """One step of the signals, Eqs. (10) and (12), after that of the pairs. `reach` bounds every |inner product|."""
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
    tol = EPS * (n + 8)
    cut = 4 * tol * reach * speeds[n]
    if odd_neurons(sums, q, k, uq, uk, total_q, total_a, cut * size_q, cut * size_k) > 0:
        turn_neurons(Q, K, q, k, UQ, UK, uq, uk, sums, table, total_q, total_a, tol, speeds[n], turns, clock)
    for row in range(2 * n, 2 * n + 2):
        if advance(rows, moves, row) > 0:
            note_crossings(rows, moves, side, row, row * m, crossings, clock)


@entry(error_model="numpy")
def run(
    X,
    U,
    side,
    rows,
    moves,
    Q,
    K,
    q,
    k,
    V,
    UQ,
    UK,
    uq,
    uk,
    UV,
    z,
    table,
    sums,
    calm,
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

    X, U, side (N,): the flat state (`layout`), its increment per step, and the last strict sign of each value. Views of X and U:
    rows, moves (2n+2, m_k), all but the values; Q, K, UQ, UK (n, m_k); q, k, uq, uk (m_k,); V, UV (1, n+1), the last V_mu.
    z (4, n), table (9, n), sums (2, m_k): scratch; calm (5, n): zeros. speeds (n+2,): eta l_i, eta, the largest of them. reach: bounds |X| at step 0.
    grid: steps to record, into states (G, N) and gaps (2, G, n). fault: step, place, value. until (m_k, 2), first (N,), turns,
    crossings (rows: place, sign, time in steps), clock: results.
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
            calm[:] = 0.0
        total = attend(Q, K, q, k, z)
        for i in range(n + 1):
            total += V[0, i]
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
        step_pairs(rows, moves, side, Q, K, q, k, V, UQ, UK, z, table, sums, calm, speeds, turns, crossings, clock)
        bound = reach + (t + 1) * speeds[n + 1]
        step_signals(rows, moves, side, Q, K, q, k, UQ, UK, uq, uk, table, sums, speeds, bound, turns, crossings, clock)
        if t == 0:
            for p in range(X.shape[0]):
                first[p] = U[p]
        if advance(V, UV, ONLY) > 0:
            note_crossings(V, UV, side, ONLY, pairs + 2 * m, crossings, clock)
        clock[STEP] = t + 1
