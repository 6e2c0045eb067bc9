"""The compiled loop of the exact reduction (claims.md section 2, Eqs. (10)-(13)). Arrays are (n, m_k): neurons lie innermost, for SIMD."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

EPS = float(np.finfo(np.float64).eps)
CLIP = 690.0  # exp(690) is finite, and no ratio of inner products reaches it
QN, KN, QS, KS, VN, VS = 0, 1, 2, 3, 4, 5
_FAST = {"reassoc", "nsz", "contract"}  # lets sums over neurons vectorise; NaN and infinities keep their meaning


@njit(cache=True, inline="always")
def log_sech(x):
    """log of sigmoid(x)*sigmoid(-x): never underflows."""
    return -abs(x) - 2 * math.log1p(math.exp(-abs(x)))


@njit(cache=True)
def push(log, used, step, kind, index, sign, where):
    """Append one event, doubling the buffer when it is full. Rows: kind, index, sign, time in steps."""
    if used == log.shape[0]:
        bigger = np.empty((2 * log.shape[0], 4))
        bigger[:used] = log
        log = bigger
    log[used, 0] = kind
    log[used, 1] = index
    log[used, 2] = sign
    log[used, 3] = step + where
    return log, used + 1


@njit(cache=True, fastmath=_FAST)
def logits(Q, K, q, k, z):
    """z[0] = z_11; rows 1..3 of z[1:] hold z_12, z_21, z_22 per sample. Sums over neurons."""
    n, m = Q.shape
    s = 0.0
    for j in range(m):
        s += q[j] * k[j]
    for i in range(n):
        a = 0.0
        b = 0.0
        c = 0.0
        for j in range(m):
            a += q[j] * K[i, j]
            b += Q[i, j] * k[j]
            c += Q[i, j] * K[i, j]
        z[0, i] = s
        z[1, i] = a
        z[2, i] = b
        z[3, i] = c


@njit(cache=True, fastmath=_FAST)
def weights(z, V, Vm, la, lb, ratio, wq, wa, wb):
    """Per sample: log(s11 s12), log(s21 s22), their ratio, and the weights a_i, b_i over the largest of them.

    wq is a_i over the largest a; wa, wb are a_i, b_i over the largest of all a and b. Returns the three scales' spread.
    """
    n = V.shape[0]
    top_a = -np.inf
    top = -np.inf
    for i in range(n):
        u = z[0, i] - z[1, i]
        w = z[2, i] - z[3, i]
        la[i] = log_sech(u)
        lb[i] = log_sech(w)
        ratio[i] = math.exp(min(max(la[i] - lb[i], -CLIP), CLIP))
        su = 1 / (1 + math.exp(-u)) if u > -CLIP else 0.0
        sw = 1 / (1 + math.exp(-w)) if w > -CLIP else 0.0
        margin = (su + sw) * Vm + (2 - su - sw) * V[i]
        gap = abs(V[i] - Vm)
        log_g = -margin - math.log1p(math.exp(-margin)) if margin > 0 else -math.log1p(math.exp(margin))
        common = log_g + (math.log(gap) if gap > 0 else -np.inf)
        wa[i] = common + la[i]
        wb[i] = common + lb[i]
        top_a = max(top_a, wa[i])
        top = max(top, wa[i], wb[i])
    for i in range(n):
        sb = 1.0 if V[i] > Vm else (-1.0 if V[i] < Vm else 0.0)
        if sb == 0.0:
            wq[i] = 0.0
            wa[i] = 0.0
            wb[i] = 0.0
        else:
            wq[i] = sb * math.exp(wa[i] - top_a)
            wa[i] = sb * math.exp(wa[i] - top)
            wb[i] = sb * math.exp(wb[i] - top)


@njit(cache=True, fastmath=_FAST)
def pair_directions(Qi, Ki, q, k, ratio, sb, new_q, new_k, old_q, old_k, tol):
    """Directions of one sample's pairs. Returns (turned, doubtful, zero): counts that are 0 in the common case."""
    m = Qi.shape[0]
    turned = 0
    doubtful = 0
    zero = 0
    for j in range(m):
        d = sb * (Ki[j] - k[j])
        rq = ratio * q[j]
        e = sb * (rq + Qi[j])
        dq = 1.0 if d > 0 else (-1.0 if d < 0 else 0.0)
        dk = 1.0 if e > 0 else (-1.0 if e < 0 else 0.0)
        new_q[j] = dq
        new_k[j] = dk
        turned += 1 if (dq != old_q[j]) | (dk != old_k[j]) else 0
        doubtful += 1 if abs(e) <= tol * (abs(rq) + abs(Qi[j])) else 0
        zero += 1 if (dq == 0.0) | (dk == 0.0) else 0
    return turned, doubtful, zero


@njit(cache=True, fastmath=_FAST)
def weighted_sum(X, w, out):
    """out[s] = sum_i w[i] X[i, s]."""
    n, m = X.shape
    for j in range(m):
        out[j] = 0.0
    for i in range(n):
        wi = w[i]
        if wi != 0.0:
            for j in range(m):
                out[j] += wi * X[i, j]


@njit(cache=True)
def signal_directions(Q, K, q, k, wq, wa, wb, sum_k, sum_q, new_q, new_k, tol, counts):
    """Directions of q_s and k_s, Eqs. (10) and (12); counts[0..3] += uncertain q, k and zero q, k."""
    n, m = Q.shape
    total_wq = wq.sum()
    total_wa = wa.sum()
    for j in range(m):
        d = sum_k[j] - k[j] * total_wq
        e = -(q[j] * total_wa + sum_q[j])
        size_d = abs(k[j] * total_wq)
        size_e = abs(q[j] * total_wa)
        for i in range(n):
            size_d += abs(wq[i] * K[i, j])
            size_e += abs(wb[i] * Q[i, j])
        if d == 0.0:
            counts[2] += 1
        elif abs(d) <= tol * size_d:
            counts[0] += 1
        if e == 0.0:
            counts[3] += 1
        elif abs(e) <= tol * size_e:
            counts[1] += 1
        new_q[j] = 1.0 if d > 0 else (-1.0 if d < 0 else 0.0)
        new_k[j] = 1.0 if e > 0 else (-1.0 if e < 0 else 0.0)


@njit(cache=True, fastmath=_FAST)
def dominance(Q, q, ratio, noise_side):
    """Eq. (29) (noise_side) or Eq. (42): for all s, i, |Q| >= 2 r|q|, or r|q| >= 2|Q|, r = s11 s12/(s21 s22)."""
    n, m = Q.shape
    bad = 0
    for i in range(n):
        r = ratio[i]
        if noise_side:
            for j in range(m):
                bad += 1 if abs(Q[i, j]) < 2 * r * abs(q[j]) else 0
        else:
            for j in range(m):
                bad += 1 if r * abs(q[j]) < 2 * abs(Q[i, j]) else 0
        if bad > 0:
            return False
    return True


@njit(cache=True)
def signal_row_holds(Q, q, la, lb, holds):
    """Eq. (30) per neuron: |sum_i s21 s22 Q| >= 2 |q| sum_i s11 s12."""
    n, m = Q.shape
    top = max(la.max(), lb.max())
    total = 0.0
    for i in range(n):
        total += math.exp(la[i] - top)
    for j in range(m):
        s = 0.0
        for i in range(n):
            s += math.exp(lb[i] - top) * Q[i, j]
        holds[j] = abs(s) >= 2 * total * abs(q[j])


@njit(cache=True, fastmath=_FAST)
def advance(X, step, direction):
    """X += step*direction for one sample; returns how many values changed their sign."""
    crossed = 0
    for j in range(X.shape[0]):
        before = X[j]
        after = before + step * direction[j]
        X[j] = after
        crossed += 1 if ((before < 0) != (after < 0)) | (after == 0.0) | (before == 0.0) else 0
    return crossed


@njit(cache=True)
def log_crossings(log, used, X, step, direction, sides, t, kind, base):
    """Record the crossings of one row after `advance`: exact times on the segment from t to t+1."""
    for j in range(X.shape[0]):
        after = X[j]
        side = 1.0 if after > 0 else (-1.0 if after < 0 else 0.0)
        if side != 0.0 and side != sides[j]:
            where = 1.0 - abs(after) / step if direction[j] != 0.0 else 0.0
            log, used = push(log, used, t, kind, base + j, side, min(max(where, 0.0), 1.0))
            sides[j] = side
    return log, used


@njit(cache=True)
def log_turns(log, used, old, new, t, kind, base):
    """Record the entries of a row whose direction changed, and overwrite the old directions."""
    for j in range(old.shape[0]):
        if old[j] != new[j]:
            if t > 0:
                log, used = push(log, used, t, kind, base + j, new[j], 0.0)
            old[j] = new[j]
    return log, used


@njit(cache=True)
def run(Q, K, q, k, V, Vm, l1, eta, grid, step_t3, inject_step, inject_kind, inject_index, inject_value):
    """Simulate in place up to grid[-1] steps.

    Q, K (n, m_k); q, k (m_k,); V, l1 (n,). Returns (status, step, tensor), records on the grid, events, first directions,
    counts (uncertain, zero) by quantity, and the measured steps (T4-, T4+, T_{4,s}^{(30)}), -1 where not reached.
    """
    n, m = Q.shape
    G = grid.shape[0]
    rQ = np.empty((G, n, m))
    rK = np.empty((G, n, m))
    rq = np.empty((G, m))
    rk = np.empty((G, m))
    rV = np.empty((G, n))
    rVm = np.empty(G)
    rz = np.empty((G, 4, n))
    turns = np.empty((4096, 4))
    crossings = np.empty((8192, 4))
    n_turns = 0
    n_cross = 0
    dQ = np.zeros((n, m))
    dK = np.zeros((n, m))
    dq = np.zeros(m)
    dk = np.zeros(m)
    first_Q = np.zeros((n, m))
    first_K = np.zeros((n, m))
    first_q = np.zeros(m)
    first_k = np.zeros(m)
    side_Q = np.sign(Q)
    side_K = np.sign(K)
    side_q = np.sign(q)
    side_k = np.sign(k)
    side_V = np.sign(V)
    side_Vm = np.sign(np.array([Vm]))
    new_Q = np.empty(m)
    new_K = np.empty(m)
    new_q = np.empty(m)
    new_k = np.empty(m)
    z = np.empty((4, n))
    la = np.empty(n)
    lb = np.empty(n)
    ratio = np.empty(n)
    wq = np.empty(n)
    wa = np.empty(n)
    wb = np.empty(n)
    sum_k = np.empty(m)
    sum_q = np.empty(m)
    ones_n = np.ones(n)
    one = np.ones(1)
    uncertain = np.zeros(6, np.int64)
    zero = np.zeros(6, np.int64)
    counts = np.zeros(4, np.int64)
    holds = np.zeros(m, np.bool_)
    t4_30 = np.full(m, -1.0)
    open_30 = np.ones(m, np.bool_)
    all_closed = False
    t4_minus = -1.0
    t4_plus = -1.0
    failed = False
    next_grid = 0
    last = grid[G - 1]
    status = 0
    bad_step = -1
    bad_kind = -1
    t = 0
    while True:
        if t == inject_step:
            if inject_kind == QN:
                Q[inject_index % n, inject_index // n] = inject_value
            elif inject_kind == KN:
                K[inject_index % n, inject_index // n] = inject_value
            elif inject_kind == QS:
                q[inject_index] = inject_value
            elif inject_kind == KS:
                k[inject_index] = inject_value
            elif inject_kind == VN:
                V[inject_index] = inject_value
            else:
                Vm = inject_value
        logits(Q, K, q, k, z)
        weights(z, V, Vm, la, lb, ratio, wq, wa, wb)
        check = wq.sum() + wb.sum() + wa.sum() + V.sum() + Vm
        if not math.isfinite(check):
            status = 1
            bad_step = t
            bad_kind = find_bad(Q, K, q, k, V, Vm)
            break
        if t == grid[next_grid]:
            rQ[next_grid] = Q
            rK[next_grid] = K
            rq[next_grid] = q
            rk[next_grid] = k
            rV[next_grid] = V
            rVm[next_grid] = Vm
            rz[next_grid] = z
            next_grid += 1
        if t >= step_t3:
            if not failed:
                if dominance(Q, q, ratio, True):
                    t4_minus = t
                else:
                    failed = True
                    if t4_minus < 0:
                        t4_minus = t
            if failed and t4_plus < 0 and dominance(Q, q, ratio, False):
                t4_plus = t
            if not all_closed:
                signal_row_holds(Q, q, la, lb, holds)
                all_closed = True
                for j in range(m):
                    if open_30[j]:
                        if holds[j]:
                            t4_30[j] = t
                            all_closed = False
                        else:
                            open_30[j] = False
                            if t4_30[j] < 0:
                                t4_30[j] = step_t3
        if t == last:
            break
        # directions, Eqs. (10)-(13)
        weighted_sum(K, wq, sum_k)
        weighted_sum(Q, wb, sum_q)
        for i in range(4):
            counts[i] = 0
        tol_sum = EPS * (n + 8)
        signal_directions(Q, K, q, k, wq, wa, wb, sum_k, sum_q, new_q, new_k, tol_sum, counts)
        uncertain[QS] += counts[0]
        uncertain[KS] += counts[1]
        zero[QS] += counts[2]
        zero[KS] += counts[3]
        for i in range(n):
            sb = 1.0 if V[i] > Vm else (-1.0 if V[i] < Vm else 0.0)
            tol = EPS * (m + abs(z[0, i]) + abs(z[1, i]) + abs(z[2, i]) + abs(z[3, i]))
            turned, doubtful, zeros = pair_directions(Q[i], K[i], q, k, ratio[i], sb, new_Q, new_K, dQ[i], dK[i], tol)
            if doubtful > 0:
                for j in range(m):
                    e = ratio[i] * q[j] + Q[i, j]
                    if e != 0.0 and abs(e) <= tol * (abs(ratio[i] * q[j]) + abs(Q[i, j])):
                        uncertain[KN] += 1
            if zeros > 0:
                for j in range(m):
                    zero[QN] += 1 if new_Q[j] == 0.0 else 0
                    zero[KN] += 1 if new_K[j] == 0.0 else 0
            if turned > 0 or t == 0:
                turns, n_turns = log_turns(turns, n_turns, dQ[i], new_Q, t, QN, i * m)
                turns, n_turns = log_turns(turns, n_turns, dK[i], new_K, t, KN, i * m)
        turns, n_turns = log_turns(turns, n_turns, dq, new_q, t, QS, 0)
        turns, n_turns = log_turns(turns, n_turns, dk, new_k, t, KS, 0)
        if t == 0:
            first_Q[:] = dQ
            first_K[:] = dK
            first_q[:] = dq
            first_k[:] = dk
        # the update, with crossings on the way
        for i in range(n):
            step = eta * l1[i]
            if advance(Q[i], step, dQ[i]) > 0:
                crossings, n_cross = log_crossings(crossings, n_cross, Q[i], step, dQ[i], side_Q[i], t, QN, i * m)
            if advance(K[i], step, dK[i]) > 0:
                crossings, n_cross = log_crossings(crossings, n_cross, K[i], step, dK[i], side_K[i], t, KN, i * m)
        if advance(q, eta, dq) > 0:
            crossings, n_cross = log_crossings(crossings, n_cross, q, eta, dq, side_q, t, QS, 0)
        if advance(k, eta, dk) > 0:
            crossings, n_cross = log_crossings(crossings, n_cross, k, eta, dk, side_k, t, KS, 0)
        for i in range(n):
            if advance(V[i : i + 1], 2 * eta * l1[i], one) > 0:
                crossings, n_cross = log_crossings(crossings, n_cross, V[i : i + 1], 2 * eta * l1[i], one, side_V[i : i + 1], t, VN, i)
        before = Vm
        Vm = Vm + 2 * eta
        if before <= 0 < Vm and side_Vm[0] <= 0:
            crossings, n_cross = push(crossings, n_cross, t, VS, 0, 1.0, 1.0 - Vm / (2 * eta))
            side_Vm[0] = 1.0
        t += 1
    records = (rQ, rK, rq, rk, rV, rVm, rz)
    first = (first_Q, first_K, first_q, first_k, ones_n)
    events = (turns[:n_turns], crossings[:n_cross])
    measured = (t4_minus if failed else -1.0, t4_plus, t4_30)
    return (status, bad_step, bad_kind), records, events, first, (uncertain, zero), measured


@njit(cache=True)
def find_bad(Q, K, q, k, V, Vm):
    """Which state is not finite (its code), or -1 when a logit overflowed from finite states."""
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
    if not math.isfinite(Vm):
        return VS
    return -1
