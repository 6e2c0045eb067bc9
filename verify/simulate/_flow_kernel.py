"""The compiled loop of the flow (claims.md R.5): windows between events, every sign in them certified by an enclosure or located.

Between turns an inner product is X(t) = B + S t and a logit gap is a quadratic polynomial, so nothing is ever integrated: a
window (a, b] is accepted when no direction can change inside it, else it ends at the first change. Arrays are (n, m_k).
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

CLIP = 690.0  # exp(690) is finite, and no ratio of inner products reaches it
QN, KN, QS, KS, VN, VS = 0, 1, 2, 3, 4, 5
TINY = 1e-10  # relative width to which an event of a smooth predicate is located
HOLD = 1e-4  # relative time for which a sliding entity keeps its direction
_FAST = {"reassoc", "nsz", "contract"}


@njit(cache=True, inline="always")
def log_sech(x):
    """log of sigmoid(x)*sigmoid(-x): never underflows."""
    return -abs(x) - 2 * math.log1p(math.exp(-abs(x)))


@njit(cache=True, inline="always")
def bounded_exp(x):
    """exp, kept finite and positive."""
    return math.exp(min(max(x, -CLIP), CLIP))


@njit(cache=True)
def push(log, used, kind, index, sign, tau):
    """Append one event, doubling the buffer when it is full. Rows: kind, index, sign, time."""
    if used[0] == log.shape[0]:
        bigger = np.empty((2 * log.shape[0], 4))
        bigger[: log.shape[0]] = log
        log = bigger
    row = used[0]
    log[row, 0] = kind
    log[row, 1] = index
    log[row, 2] = sign
    log[row, 3] = tau
    used[0] += 1
    return log


@njit(cache=True, fastmath=_FAST)
def gap_polynomials(BQ, SQ, BK, SK, Bq, Sq, Bk, Sk, out):
    """Coefficients in t of one sample's u = z_11 - z_12 = sum q(k-K) (out[:3]) and w = z_21 - z_22 = sum Q(k-K) (out[3:])."""
    u0 = u1 = u2 = w0 = w1 = w2 = 0.0
    for j in range(BQ.shape[0]):
        d0 = Bk[j] - BK[j]
        d1 = Sk[j] - SK[j]
        u0 += Bq[j] * d0
        u1 += Bq[j] * d1 + Sq[j] * d0
        u2 += Sq[j] * d1
        w0 += BQ[j] * d0
        w1 += BQ[j] * d1 + SQ[j] * d0
        w2 += SQ[j] * d1
    out[0] = u0
    out[1] = u1
    out[2] = u2
    out[3] = w0
    out[4] = w1
    out[5] = w2


@njit(cache=True, inline="always")
def quadratic_range(c0, c1, c2, ta, tb):
    """(min, max) of c0 + c1 t + c2 t^2 on [ta, tb]."""
    xa = c0 + ta * (c1 + ta * c2)
    xb = c0 + tb * (c1 + tb * c2)
    lo = min(xa, xb)
    hi = max(xa, xb)
    if c2 != 0.0:
        v = -c1 / (2 * c2)
        if ta < v < tb:
            xv = c0 + v * (c1 + v * c2)
            lo = min(lo, xv)
            hi = max(hi, xv)
    return lo, hi


@njit(cache=True, inline="always")
def log_sech_range(lo, hi):
    """(min, max) of log_sech for an argument in [lo, hi]."""
    far = max(abs(lo), abs(hi))
    near = 0.0 if lo <= 0.0 <= hi else min(abs(lo), abs(hi))
    return log_sech(far), log_sech(near)


@njit(cache=True, inline="always")
def sigmoid(x):
    """Logistic function without overflow."""
    return 1 / (1 + math.exp(-x)) if x > -CLIP else 0.0


@njit(cache=True, inline="always")
def log_logistic(x):
    """log g = -log(1 + e^x)."""
    return -x - math.log1p(math.exp(-x)) if x > 0 else -math.log1p(math.exp(x))


@njit(cache=True)
def ratio_range(c, ta, tb):
    """Range of R = s11 s12/(s21 s22) of the sample with gap polynomials c on [ta, tb]."""
    ulo, uhi = quadratic_range(c[0], c[1], c[2], ta, tb)
    wlo, whi = quadratic_range(c[3], c[4], c[5], ta, tb)
    alo, ahi = log_sech_range(ulo, uhi)
    blo, bhi = log_sech_range(wlo, whi)
    return bounded_exp(alo - bhi), bounded_exp(ahi - blo)


@njit(cache=True)
def enclose(c, BV, BVm, l1, ta, tb, W):
    """Enclose the weights of all samples on [ta, tb], up to one common positive factor at each time.

    Rows of W: 0, 1 = range of R; 2, 3 = a_i over the largest a at ta, and its largest deviation on [ta, tb];
    4, 5 and 6, 7 = the same for a_i and b_i over the largest of both. (All without the sign of V_i - V_mu.)
    """
    n = BV.shape[0]
    mean_a = 0.0
    mean_b = 0.0
    for i in range(n):
        mean_a += abs(BV[i] - BVm + 2 * (l1[i] - 1) * ta)
        mean_b += abs(BV[i] - BVm + 2 * (l1[i] - 1) * tb)
    mean_a = math.log(max(mean_a, 1e-300))
    mean_b = math.log(max(mean_b, 1e-300))
    top_a = -np.inf
    top = -np.inf
    for i in range(n):
        ulo, uhi = quadratic_range(c[i, 0], c[i, 1], c[i, 2], ta, tb)
        wlo, whi = quadratic_range(c[i, 3], c[i, 4], c[i, 5], ta, tb)
        alo, ahi = log_sech_range(ulo, uhi)
        blo, bhi = log_sech_range(wlo, whi)
        W[0, i] = bounded_exp(alo - bhi)
        W[1, i] = bounded_exp(ahi - blo)
        # y f = (s11 + s21) V_mu + (s12 + s22) V_i, in which both values grow
        va = BV[i] + 2 * l1[i] * ta
        vb = BV[i] + 2 * l1[i] * tb
        ma = BVm + 2 * ta
        mb = BVm + 2 * tb
        slo = sigmoid(ulo) + sigmoid(wlo)
        shi = sigmoid(uhi) + sigmoid(whi)
        m1 = min(slo * ma + (2 - slo) * va, shi * ma + (2 - shi) * va)
        m2 = max(slo * mb + (2 - slo) * vb, shi * mb + (2 - shi) * vb)
        glo = log_logistic(m2)
        ghi = log_logistic(m1)
        da = math.log(max(abs(va - ma), 1e-300)) - mean_a
        db = math.log(max(abs(vb - mb), 1e-300)) - mean_b
        lo = glo + min(da, db)
        hi = ghi + max(da, db)
        # the value at ta
        u = c[i, 0] + ta * (c[i, 1] + ta * c[i, 2])
        w = c[i, 3] + ta * (c[i, 4] + ta * c[i, 5])
        s = sigmoid(u) + sigmoid(w)
        now = log_logistic(s * ma + (2 - s) * va) + da
        W[2, i] = now + log_sech(u)
        W[3, i] = lo + alo
        W[4, i] = hi + ahi
        W[5, i] = now + log_sech(w)
        W[6, i] = lo + blo
        W[7, i] = hi + bhi
        top_a = max(top_a, W[2, i])
        top = max(top, W[2, i], W[5, i])
    for i in range(n):
        xa = bounded_exp(W[2, i] - top_a)
        scale = top_a - top
        dev = max(bounded_exp(W[4, i] - top_a) - xa, xa - bounded_exp(W[3, i] - top_a), 0.0)
        xb = bounded_exp(W[5, i] - top)
        dev_b = max(bounded_exp(W[7, i] - top) - xb, xb - bounded_exp(W[6, i] - top), 0.0)
        shrink = bounded_exp(scale)
        W[2, i] = xa
        W[3, i] = dev
        W[4, i] = xa * shrink
        W[5, i] = dev * shrink
        W[6, i] = xb
        W[7, i] = dev_b


@njit(cache=True, fastmath=_FAST)
def undecided_pairs(BQ, SQ, side, qa, qb, ta, tb, rlo, rhi):
    """How many pairs of one sample may have Q + R q leave their side on [ta, tb]: linear in t and in R, so four corners decide."""
    bad = 0
    for j in range(BQ.shape[0]):
        xa = BQ[j] + SQ[j] * ta
        xb = BQ[j] + SQ[j] * tb
        low = min(side[j] * (xa + rlo * qa[j]), side[j] * (xa + rhi * qa[j]))
        low = min(low, side[j] * (xb + rlo * qb[j]), side[j] * (xb + rhi * qb[j]))
        bad += 1 if low <= 0.0 else 0
    return bad


@njit(cache=True)
def pair_leaves(BQ, SQ, Bq, Sq, side, c, ta, tb, scale, doubts):
    """First time in (ta, tb] at which Q + R q has left its side (located to TINY*scale), or inf. doubts[0] counts touches."""
    t0 = ta
    step = tb - ta
    while t0 < tb:
        t1 = min(t0 + step, tb)
        rlo, rhi = ratio_range(c, t0, t1)
        xa = BQ + SQ * t0
        xb = BQ + SQ * t1
        qa = Bq + Sq * t0
        qb = Bq + Sq * t1
        low = min(min(side * (xa + rlo * qa), side * (xa + rhi * qa)), min(side * (xb + rlo * qb), side * (xb + rhi * qb)))
        if low > 0.0:
            t0 = t1
            step *= 2
        elif t1 - t0 <= TINY * scale:
            rlo, rhi = ratio_range(c, t1, t1)
            if side * (xb + rlo * qb) <= 0.0:
                return t1
            doubts[0] += 1
            t0 = t1
            step *= 2
        else:
            step = (t1 - t0) / 2
    return np.inf


@njit(cache=True, fastmath=_FAST)
def sum_ranges(B, S, W0, W1, sb, ta, tb, xa, xb, dev):
    """Per neuron: sum_i sb_i W0_i X_i at both ends, and a bound on what the deviations W1 of the weights add in between."""
    n, m = B.shape
    for j in range(m):
        xa[j] = 0.0
        xb[j] = 0.0
        dev[j] = 0.0
    for i in range(n):
        w = sb[i] * W0[i]
        d = W1[i]
        for j in range(m):
            x = B[i, j] + S[i, j] * ta
            y = B[i, j] + S[i, j] * tb
            xa[j] += w * x
            xb[j] += w * y
            dev[j] += d * max(abs(x), abs(y))


@njit(cache=True)
def neuron_margin(kind, j, BQ, SQ, BK, SK, Bq, Sq, Bk, Sk, sb, W, ta, tb):
    """Enclosure of one neuron's predicate on [ta, tb]: (value at ta, value at tb with the weights of ta, deviation).

    A predicate whose terms all have one sign throughout has deviation 0, whatever the weights.
    """
    n = BQ.shape[0]
    xa = 0.0
    xb = 0.0
    dev = 0.0
    lo = np.inf
    hi = -np.inf
    qa = Bq[j] + Sq[j] * ta
    qb = Bq[j] + Sq[j] * tb
    ka = Bk[j] + Sk[j] * ta
    kb = Bk[j] + Sk[j] * tb
    for i in range(n):
        if kind == QS:
            ya = sb[i] * (BK[i, j] + SK[i, j] * ta - ka)
            yb = sb[i] * (BK[i, j] + SK[i, j] * tb - kb)
            xa += W[2, i] * ya
            xb += W[2, i] * yb
            dev += W[3, i] * max(abs(ya), abs(yb))
            lo = min(lo, ya, yb)
            hi = max(hi, ya, yb)
        else:
            ya = -sb[i] * (BQ[i, j] + SQ[i, j] * ta)
            yb = -sb[i] * (BQ[i, j] + SQ[i, j] * tb)
            za = -sb[i] * qa
            zb = -sb[i] * qb
            xa += W[6, i] * ya + W[4, i] * za
            xb += W[6, i] * yb + W[4, i] * zb
            dev += W[7, i] * max(abs(ya), abs(yb)) + W[5, i] * max(abs(za), abs(zb))
            lo = min(lo, ya, yb, za, zb)
            hi = max(hi, ya, yb, za, zb)
    if lo > 0.0 or hi < 0.0:
        dev = 0.0
    return xa, xb, dev


@njit(cache=True)
def neuron_leaves(kind, j, side, BQ, SQ, BK, SK, Bq, Sq, Bk, Sk, sb, c, BV, BVm, l1, W, ta, tb, scale, doubts):
    """First time in (ta, tb] at which neuron j's predicate has left its side (located to TINY*scale), or inf."""
    t0 = ta
    step = tb - ta
    while t0 < tb:
        t1 = min(t0 + step, tb)
        enclose(c, BV, BVm, l1, t0, t1, W)
        xa, xb, dev = neuron_margin(kind, j, BQ, SQ, BK, SK, Bq, Sq, Bk, Sk, sb, W, t0, t1)
        if min(side * xa, side * xb) > dev:
            t0 = t1
            step *= 2
        elif t1 - t0 <= TINY * scale:
            enclose(c, BV, BVm, l1, t1, t1, W)
            xa, xb, dev = neuron_margin(kind, j, BQ, SQ, BK, SK, Bq, Sq, Bk, Sk, sb, W, t1, t1)
            if side * xa <= 0.0:
                return t1
            doubts[0] += 1
            t0 = t1
            step *= 2
        else:
            step = (t1 - t0) / 2
    return np.inf


@njit(cache=True)
def next_linear(BK, SK, Bk, Sk, side, hold, now, gap0, gap1, sb):
    """(time, pair) of one sample's next zero of K - k; pair -1 for the zero of V_i - V_mu = gap0 + gap1 t."""
    best = np.inf
    who = -2
    for j in range(BK.shape[0]):
        r = SK[j] - Sk[j]
        if side[j] * r < 0.0:
            t = max(-(BK[j] - Bk[j]) / r, now, hold[j])
            if t < best:
                best = t
                who = j
    if sb * gap1 < 0.0:
        t = max(-gap0 / gap1, now)
        if t <= best:
            best = t
            who = -1
    return best, who


@njit(cache=True)
def slides(last, hold, e, t):
    """Filippov sliding: entity e turns at t right after its last turn, or at the end of a hold. Then it is held for HOLD*t."""
    again = (last[e] >= 0.0 and t - last[e] < 1e-7 * t) or (hold[e] > 0.0 and t - hold[e] < 0.5 * HOLD * t)
    last[e] = t
    if again:
        hold[e] = t * (1 + HOLD)
    return again


@njit(cache=True)
def cross(log, used, kind, e, B, S, side, t):
    """Record the zero of entity e on the linear piece that ends at t."""
    x = B[e] + S[e] * t
    now = 1.0 if x > 0.0 else (-1.0 if x < 0.0 else 0.0)
    if now != 0.0 and now != side[e]:
        if side[e] != 0.0:
            log = push(log, used, kind, e, now, min(-B[e] / S[e], t) if S[e] != 0.0 else t)
        side[e] = now
    return log


@njit(cache=True, inline="always")
def bend(B, S, e, slope, t):
    """Continue entity e from t on with another slope."""
    B[e] += (S[e] - slope) * t
    S[e] = slope
