"""The main loop of the flow: choose a window, certify it or cut it at the first change of direction, record, go on."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from verify.simulate._flow_kernel import (
    KN,
    KS,
    QN,
    QS,
    TINY,
    VN,
    VS,
    bend,
    cross,
    enclose,
    gap_polynomials,
    log_sech,
    neuron_leaves,
    neuron_margin,
    next_linear,
    pair_leaves,
    push,
    ratio_range,
    slides,
    sum_ranges,
    undecided_pairs,
)

EPS_MIN = 1e-6  # below this relative width a window is no longer shortened but searched
LATE, STUCK = 2, 3  # status codes besides 0 (done) and 1 (not finite)


@njit(cache=True)
def noise_fails(BQ, SQ, Bq, Sq, c, ta, tb, scale):
    """Eq. (29) for one sample: first time in [ta, tb] with |Q| < 2 R |q| for some neuron, located to TINY*scale, or inf."""
    best = np.inf
    rlo, rhi = ratio_range(c, ta, tb)
    for j in range(BQ.shape[0]):
        t0 = ta
        step = min(tb, best) - ta
        high = rhi
        while t0 <= min(tb, best):
            t1 = min(t0 + step, tb)
            xa = BQ[j] + SQ[j] * t0
            xb = BQ[j] + SQ[j] * t1
            near = min(abs(xa), abs(xb)) if xa * xb > 0 else 0.0
            q = max(abs(Bq[j] + Sq[j] * t0), abs(Bq[j] + Sq[j] * t1))
            if near >= 2 * high * q:
                if t1 >= tb:
                    break
                t0 = t1
                step *= 2
            elif t1 - t0 <= TINY * scale:
                lo, hi = ratio_range(c, t1, t1)
                if abs(xb) < 2 * lo * abs(Bq[j] + Sq[j] * t1):
                    best = min(best, t1)
                    break
                if t1 >= tb:
                    break
                t0 = t1
                step *= 2
            else:
                step = (t1 - t0) / 2
            lo, high = ratio_range(c, t0, min(t0 + step, tb))
    return best


@njit(cache=True)
def signal_dominates(BQ, SQ, Bq, Sq, c, t):
    """Eq. (42) at time t: R |q| >= 2 |Q| for all s, i."""
    n, m = BQ.shape
    for i in range(n):
        r, _ = ratio_range(c[i], t, t)
        for j in range(m):
            if r * abs(Bq[j] + Sq[j] * t) < 2 * abs(BQ[i, j] + SQ[i, j] * t):
                return False
    return True


@njit(cache=True)
def signal_row_holds(BQ, SQ, Bq, Sq, c, t, only, W, holds):
    """Eq. (30) at time t per neuron (or for neuron `only`): |sum_i s21 s22 Q| >= 2 |q| sum_i s11 s12."""
    n, m = BQ.shape
    top = -np.inf
    for i in range(n):
        W[0, i] = log_sech(c[i, 0] + t * (c[i, 1] + t * c[i, 2]))
        W[1, i] = log_sech(c[i, 3] + t * (c[i, 4] + t * c[i, 5]))
        top = max(top, W[0, i], W[1, i])
    total = 0.0
    for i in range(n):
        total += math.exp(W[0, i] - top)
        W[1, i] = math.exp(W[1, i] - top)
    for j in range(m):
        if only < 0 or j == only:
            s = 0.0
            for i in range(n):
                s += W[1, i] * (BQ[i, j] + SQ[i, j] * t)
            holds[j] = abs(s) >= 2 * total * abs(Bq[j] + Sq[j] * t)


@njit(cache=True)
def run(Q, K, q, k, V, Vm, l1, grid, first, t3, eps_max, out, out_q, out_v, measured, t4_30, dirs, dirs_q, counts):
    """Follow the flow to grid[-1]. All outputs but the event logs are preallocated.

    Q, K (n, m); q, k (m,); V, l1 (n,); Vm (1,): state at 0, overwritten. first: the scale below which windows are absolute.
    out (2, G, n, m) Q, K; out_q (2, G, m) q, k; out_v (3, G, n+1) V (and V_mu last), u, w; measured (2,) T4-, T4+;
    dirs (2, n, m), dirs_q (2, m): first directions; counts (16,): uncertain[6], zero[6], windows, sliding holds, status, kind.
    """
    n, m = Q.shape
    end = grid[-1]
    B = (Q.reshape(-1), K.reshape(-1), q, k, V, Vm)
    sb = np.ones(n)
    SQ = np.zeros((n, m))
    SK = np.zeros((n, m))
    Sq = np.zeros(m)
    Sk = np.zeros(m)
    S = (SQ.reshape(-1), SK.reshape(-1), Sq, Sk, 2 * l1, np.full(1, 2.0))
    value_side = (np.sign(B[0]), np.sign(B[1]), np.sign(q), np.sign(k), np.sign(V), np.sign(Vm))
    side_Q = np.ones((n, m))
    side_K = np.ones((n, m))
    side_q = np.ones(m)
    side_k = np.ones(m)
    last = (np.full(n * m, -1.0), np.full(n * m, -1.0), np.full(m, -1.0), np.full(m, -1.0))
    hold = (np.zeros(n * m), np.zeros(n * m), np.zeros(m), np.zeros(m))
    hold_Q = hold[0].reshape((n, m))
    turns = np.empty((4096, 4))
    crossings = np.empty((8192, 4))
    n_turns = np.zeros(1, np.int64)
    n_cross = np.zeros(1, np.int64)
    c = np.empty((n, 6))
    W = np.empty((8, n))
    W1 = np.empty((8, n))
    D = np.empty((6, m))
    lin_t = np.empty(n)
    lin_j = np.empty(n, np.int64)
    doubts = np.zeros(1, np.int64)
    open_neurons = np.empty(2 * m, np.int64)
    qa = np.empty(m)
    qb = np.empty(m)
    holds = np.ones(m, np.bool_)
    failed = False
    rows_open = m
    # directions at 0
    for i in range(n):
        sb[i] = 1.0 if V[i] >= Vm[0] else -1.0
        gap_polynomials(Q[i], SQ[i], K[i], SK[i], q, Sq, k, Sk, c[i])
    enclose(c, V, Vm[0], l1, 0.0, 0.0, W)
    for j in range(m):
        x, _, _ = neuron_margin(QS, j, Q, SQ, K, SK, q, Sq, k, Sk, sb, W, 0.0, 0.0)
        y, _, _ = neuron_margin(KS, j, Q, SQ, K, SK, q, Sq, k, Sk, sb, W, 0.0, 0.0)
        counts[6 + QS] += 1 if x == 0.0 else 0
        counts[6 + KS] += 1 if y == 0.0 else 0
        side_q[j] = -1.0 if x < 0.0 else 1.0
        side_k[j] = -1.0 if y < 0.0 else 1.0
        for i in range(n):
            x = K[i, j] - k[j]
            y = Q[i, j] + W[0, i] * q[j]
            counts[6 + QN] += 1 if x == 0.0 else 0
            counts[6 + KN] += 1 if y == 0.0 else 0
            side_Q[i, j] = -1.0 if x < 0.0 else 1.0
            side_K[i, j] = -1.0 if y < 0.0 else 1.0
    for j in range(m):
        Sq[j] = side_q[j]
        Sk[j] = side_k[j]
        dirs_q[0, j] = Sq[j]
        dirs_q[1, j] = Sk[j]
    for i in range(n):
        for j in range(m):
            dirs[0, i, j] = sb[i] * side_Q[i, j]
            dirs[1, i, j] = sb[i] * side_K[i, j]
            SQ[i, j] = l1[i] * dirs[0, i, j]
            SK[i, j] = l1[i] * dirs[1, i, j]
    stale = n  # which sample's polynomials and linear event are out of date (n: all of them)
    a = 0.0
    eps = eps_max
    g = 0
    idle = 0
    while True:
        for i in range(n):
            if stale == n or stale == i:
                gap_polynomials(Q[i], SQ[i], K[i], SK[i], q, Sq, k, Sk, c[i])
                gap0 = V[i] - Vm[0]
                lin_t[i], lin_j[i] = next_linear(K[i], SK[i], k, Sk, side_Q[i], hold_Q[i], a, gap0, 2 * (l1[i] - 1), sb[i])
        stale = -1
        scale = max(a, first)
        b = min(a + eps * scale, end)
        if a < t3 < b:
            b = t3
        kind = -1
        who = np.int64(0)
        i = np.argmin(lin_t)
        if lin_t[i] <= b:
            b = lin_t[i]
            kind = QN if lin_j[i] >= 0 else VN
            who = i * m + lin_j[i] if lin_j[i] >= 0 else i
        linear = kind >= 0
        for j in range(m):
            for x in (hold[2][j], hold[3][j]):
                if a < x < b:
                    b = x
                    kind = -1
        if b > a:
            enclose(c, V, Vm[0], l1, a, b, W)
            if not math.isfinite(W.sum()):
                counts[14] = 1
                counts[15] = find_bad(Q, K, q, k, V, Vm)
                break
            for j in range(m):
                qa[j] = q[j] + Sq[j] * a
                qb[j] = q[j] + Sq[j] * b
            pairs = 0
            for i in range(n):
                pairs += undecided_pairs(Q[i], SQ[i], side_K[i], qa, qb, a, b, W[0, i], W[1, i])
            # neurons whose sums may vanish in the window
            n_open = 0
            sum_ranges(K, SK, W[2], W[3], sb, a, b, D[0], D[1], D[2])
            sum_ranges(Q, SQ, W[6], W[7], sb, a, b, D[3], D[4], D[5])
            total_q = 0.0
            dev_q = 0.0
            total_a = 0.0
            dev_a = 0.0
            for i in range(n):
                total_q += sb[i] * W[2, i]
                dev_q += W[3, i]
                total_a += sb[i] * W[4, i]
                dev_a += W[5, i]
            for j in range(m):
                ka = k[j] + Sk[j] * a
                kb = k[j] + Sk[j] * b
                low = min(side_q[j] * (D[0, j] - ka * total_q), side_q[j] * (D[1, j] - kb * total_q))
                if low <= D[2, j] + dev_q * max(abs(ka), abs(kb)) and hold[2][j] <= a:
                    xa, xb, dev = neuron_margin(QS, j, Q, SQ, K, SK, q, Sq, k, Sk, sb, W, a, b)
                    if min(side_q[j] * xa, side_q[j] * xb) <= dev:
                        open_neurons[n_open] = j
                        n_open += 1
                low = min(-side_k[j] * (D[3, j] + qa[j] * total_a), -side_k[j] * (D[4, j] + qb[j] * total_a))
                if low <= D[5, j] + dev_a * max(abs(qa[j]), abs(qb[j])) and hold[3][j] <= a:
                    xa, xb, dev = neuron_margin(KS, j, Q, SQ, K, SK, q, Sq, k, Sk, sb, W, a, b)
                    if min(side_k[j] * xa, side_k[j] * xb) <= dev:
                        open_neurons[n_open] = m + j
                        n_open += 1
            if (n_open > 2 or pairs > 8) and b - a > EPS_MIN * scale:
                eps = max((b - a) / scale / 2, EPS_MIN)
                counts[13] += 0
                continue
            for x in range(n_open):
                j = open_neurons[x] % m
                which = QS if open_neurons[x] < m else KS
                side = side_q[j] if which == QS else side_k[j]
                doubts[0] = 0
                t = neuron_leaves(which, j, side, Q, SQ, K, SK, q, Sq, k, Sk, sb, c, V, Vm[0], l1, W1, a, b, scale, doubts)
                if a - last[which][j] > 1e-6 * a or last[which][j] < 0:
                    counts[which] += doubts[0]
                if t <= b:
                    b = t
                    kind = which
                    who = np.int64(j)
            if pairs > 0:
                for i in range(n):
                    if undecided_pairs(Q[i], SQ[i], side_K[i], qa, qb, a, b, W[0, i], W[1, i]) > 0:
                        for j in range(m):
                            side = side_K[i, j]
                            xa = Q[i, j] + SQ[i, j] * a
                            xb = Q[i, j] + SQ[i, j] * b
                            low = min(side * (xa + W[0, i] * qa[j]), side * (xa + W[1, i] * qa[j]))
                            low = min(low, side * (xb + W[0, i] * qb[j]), side * (xb + W[1, i] * qb[j]))
                            if low > 0.0:
                                continue
                            e = i * m + j
                            if hold[1][e] > a:
                                if hold[1][e] < b:
                                    b = hold[1][e]
                                    kind = -1
                                continue
                            doubts[0] = 0
                            t = pair_leaves(Q[i, j], SQ[i, j], q[j], Sq[j], side, c[i], a, b, scale, doubts)
                            if a - last[1][e] > 1e-6 * a or last[1][e] < 0:
                                counts[KN] += doubts[0]
                            if t <= b:
                                b = t
                                kind = KN
                                who = np.int64(e)
                        for j in range(m):
                            qb[j] = q[j] + Sq[j] * b
        counts[12] += 1
        # the window (a, b] is certified: record
        while g < grid.shape[0] and grid[g] <= b:
            record(grid[g], g, Q, SQ, K, SK, q, Sq, k, Sk, V, Vm[0], l1, c, out, out_q, out_v)
            g += 1
        if b >= t3:
            if not failed:
                t = np.inf
                for i in range(n):
                    t = min(t, noise_fails(Q[i], SQ[i], q, Sq, c[i], max(a, t3), min(b, t), scale))
                if t <= b:
                    failed = True
                    measured[0] = t if t > t3 * (1 + 2 * TINY) else t3
            if failed and math.isnan(measured[1]) and signal_dominates(Q, SQ, q, Sq, c, b):
                lo = max(a, measured[0])
                hi = b
                if signal_dominates(Q, SQ, q, Sq, c, lo):
                    hi = lo
                while hi - lo > TINY * scale:
                    t = (lo + hi) / 2
                    if signal_dominates(Q, SQ, q, Sq, c, t):
                        hi = t
                    else:
                        lo = t
                measured[1] = hi
            if rows_open > 0:
                signal_row_holds(Q, SQ, q, Sq, c, b, -1, W1, holds)
                for j in range(m):
                    if math.isnan(t4_30[j]) and not holds[j]:
                        lo = max(a, t3)
                        hi = b
                        while hi - lo > TINY * scale:
                            t = (lo + hi) / 2
                            signal_row_holds(Q, SQ, q, Sq, c, t, j, W1, holds)
                            if holds[j]:
                                lo = t
                            else:
                                hi = t
                        t4_30[j] = lo
                        rows_open -= 1
        idle = 0 if b > a * (1 + 1e-13) else idle + 1
        if idle > 50 * (n * m + 100):
            counts[14] = STUCK
            break
        if kind < 0 or linear and kind in (QN, VN):
            eps = min(2 * eps, eps_max)
        else:
            eps = min(max(eps / 2, 2 * (b - a) / scale), eps_max)
        a = b
        if a >= end:
            break
        if kind < 0:
            continue
        # turn
        if kind == VN:
            stale = who
            sb[who] = -sb[who]
            for j in range(m):
                e = who * m + j
                for x in (QN, KN):
                    crossings = cross(crossings, n_cross, x, e, B[x], S[x], value_side[x], a)
                    bend(B[x], S[x], e, -S[x][e], a)
                    turns = push(turns, n_turns, x, e, np.sign(S[x][e]), a)
            continue
        crossings = cross(crossings, n_cross, kind, who, B[kind], S[kind], value_side[kind], a)
        if slides(last[kind], hold[kind], who, a):
            counts[13] += 1
        if kind == QN:
            stale = who // m
            side_Q[stale, who % m] *= -1
        elif kind == KN:
            stale = who // m
            side_K[stale, who % m] *= -1
        else:
            stale = n
            if kind == QS:
                side_q[who] *= -1
            else:
                side_k[who] *= -1
        bend(B[kind], S[kind], who, -S[kind][who], a)
        turns = push(turns, n_turns, kind, who, np.sign(S[kind][who]), a)
    for kind in range(6):
        for e in range(B[kind].shape[0]):
            crossings = cross(crossings, n_cross, kind, e, B[kind], S[kind], value_side[kind], a)
    return turns[: n_turns[0]], crossings[: n_cross[0]]


@njit(cache=True)
def record(t, g, Q, SQ, K, SK, q, Sq, k, Sk, V, Vm, l1, c, out, out_q, out_v):
    """Write the state at time t into row g of the outputs of `run`."""
    n, m = Q.shape
    for i in range(n):
        for j in range(m):
            out[0, g, i, j] = Q[i, j] + SQ[i, j] * t
            out[1, g, i, j] = K[i, j] + SK[i, j] * t
        out_v[0, g, i] = V[i] + 2 * l1[i] * t
        out_v[1, g, i] = c[i, 0] + t * (c[i, 1] + t * c[i, 2])
        out_v[2, g, i] = c[i, 3] + t * (c[i, 4] + t * c[i, 5])
    out_v[0, g, n] = Vm + 2 * t
    for j in range(m):
        out_q[0, g, j] = q[j] + Sq[j] * t
        out_q[1, g, j] = k[j] + Sk[j] * t


@njit(cache=True)
def find_bad(Q, K, q, k, V, Vm):
    """Which part of the state is not finite (its code), or -1 when a logit overflowed from finite parts."""
    if not np.isfinite(Q.sum()):
        return QN
    if not np.isfinite(K.sum()):
        return KN
    if not np.isfinite(q.sum()):
        return QS
    if not np.isfinite(k.sum()):
        return KS
    if not np.isfinite(V.sum()):
        return VN
    if not math.isfinite(Vm[0]):
        return VS
    return -1
