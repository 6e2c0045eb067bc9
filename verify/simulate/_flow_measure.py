"""The measured times of the flow: first failure of Eq. (29), of Eq. (30) per neuron, and first hold of Eq. (42), to 1e-10."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from verify.simulate._flow_kernel import (
    A_ROW,
    B_ROW,
    SIGN,
    TINY,
    TU,
    TW,
    U1,
    W1,
    U,
    W,
    add_signal,
    at,
    clipped_exp,
    lowest,
    neuron_series,
    safe_step,
    sum_series,
    weigh,
)


@njit
def log_sech(x):
    """log of sigmoid(x)*sigmoid(-x): never underflows."""
    return -abs(x) - 2 * math.log1p(math.exp(-abs(x)))


@njit
def ratio(c, t):
    """R = s11 s12/(s21 s22) at t, of the sample with gap polynomials c."""
    return clipped_exp(log_sech(c[0] + t * (c[1] + t * c[2])) - log_sech(c[3] + t * (c[4] + t * c[5])))


@njit
def ratio_bound(c, t, h):
    """Upper bound of R on [t, t+h]: |log_sech'| <= 1."""
    du = (abs(c[1] + 2 * t * c[2]) + abs(c[2]) * h) * h
    dw = (abs(c[4] + 2 * t * c[5]) + abs(c[5]) * h) * h
    return ratio(c, t) * clipped_exp(du + dw)


@njit
def pair_fails(Q, SQ, q, Sq, c, ta, tb, scale):
    """First time in [ta, tb] with |Q| < 2 R |q| for one pair, located to TINY*scale, or inf."""
    t = ta
    h = tb - ta
    if abs(Q + SQ * t) < 2 * ratio(c, t) * abs(q + Sq * t):
        return t
    while t < tb:
        h = min(h, tb - t)
        x = Q + SQ * t
        y = x + SQ * h
        near = min(abs(x), abs(y)) if x * y > 0 else 0.0
        z = q + Sq * t
        if near >= 2 * ratio_bound(c, t, h) * max(abs(z), abs(z + Sq * h)):
            t = tb if h >= tb - t else t + h
            h *= 2
        elif h <= TINY * scale:
            t = min(t + h, tb)
            if abs(Q + SQ * t) < 2 * ratio(c, t) * abs(q + Sq * t):
                return t
            h *= 2
        else:
            h /= 2
    return np.inf


@njit
def eq_29(Q, SQ, q, Sq, c, ta, tb, scale):
    """First time in [ta, tb] at which Eq. (29), |Q| >= 2 R |q| for all s and i, fails; inf if it holds throughout."""
    n, m = Q.shape
    best = np.inf
    h = tb - ta
    for i in range(n):
        high = 2 * ratio_bound(c[i], ta, h)
        for j in range(m):
            x = Q[i, j] + SQ[i, j] * ta
            y = x + SQ[i, j] * h
            near = min(abs(x), abs(y)) if x * y > 0 else 0.0
            z = q[j] + Sq[j] * ta
            if near < high * max(abs(z), abs(z + Sq[j] * h)):
                best = min(best, pair_fails(Q[i, j], SQ[i, j], q[j], Sq[j], c[i], ta, min(tb, best), scale))
    return best


@njit
def noise_remains(Q, SQ, q, Sq, c, t, h, hint):
    """Whether some pair surely violates Eq. (42) on all of [t, t+h]: 2|Q| > R|q|. hint: the pair to try first, kept up to date."""
    n, m = Q.shape
    for x in range(-1, n):
        i = hint[0] if x < 0 else x
        high = ratio_bound(c[i], t, h)
        for j in range(hint[1] if x < 0 else 0, hint[1] + 1 if x < 0 else m):
            y = Q[i, j] + SQ[i, j] * t
            z = y + SQ[i, j] * h
            p = q[j] + Sq[j] * t
            if y * z > 0 and 2 * min(abs(y), abs(z)) > high * max(abs(p), abs(p + Sq[j] * h)):
                hint[0] = i
                hint[1] = j
                return True
    return False


@njit
def eq_42(Q, SQ, q, Sq, c, ta, tb, scale, hint):
    """First time in [ta, tb] at which Eq. (42), R|q| >= 2|Q| for all s and i, holds (to TINY*scale); nan if it does not."""
    t = ta
    h = tb - ta
    while t < tb:
        h = min(h, tb - t)
        if noise_remains(Q, SQ, q, Sq, c, t, h, hint):
            t = tb if h >= tb - t else t + h
            h *= 2
        elif h <= TINY * scale:
            t = min(t + h, tb)
            if not noise_remains(Q, SQ, q, Sq, c, t, 0.0, hint):
                return t
            h *= 2
        else:
            h /= 2
    return np.nan


@njit
def attention(c, T, h, out):
    """Taylor rows (A_ROW, B_ROW) of s11 s12 and s21 s22 over one common factor on a window of length h, from the table at its start."""
    n = c.shape[0]
    top = -np.inf
    for i in range(n):
        top = max(top, -abs(T[U, i]), -abs(T[W, i]))
    rate = 0.0
    total = 0.0
    for i in range(n):
        out[SIGN, i] = 1.0
        out[A_ROW, i] = clipped_exp(-abs(T[U, i]) - top) * ((1 + abs(T[TU, i])) / 2) ** 2
        out[B_ROW, i] = clipped_exp(-abs(T[W, i]) - top) * ((1 + abs(T[TW, i])) / 2) ** 2
        total += out[B_ROW, i]
        rate -= out[B_ROW, i] * T[TW, i] * T[W1, i]
    rate = rate / total if total > 0 else 0.0
    for i in range(n):
        u2 = 2 * abs(c[i, 2])
        w2 = 2 * abs(c[i, 5])
        ca = 0.5 * (abs(T[U1, i]) + u2 * h) ** 2 + u2
        cb = 0.5 * (abs(T[W1, i]) + w2 * h) ** 2 + w2
        weigh(out, A_ROW, i, out[A_ROW, i], -T[TU, i] * T[U1, i] - rate, ca, 1.0, 0.0, h)
        weigh(out, B_ROW, i, out[B_ROW, i], -T[TW, i] * T[W1, i] - rate, cb, 1.0, 0.0, h)


@njit
def row_slack(b0, b1, b2, dev, a0, a1, a2, dev_a, h, G):
    """Whether |b| > |a| on a window of length h, from Taylor rows of b = sum s21 s22 Q and a = 2 q sum s11 s12: b -+ a keep one sign.

    If not, G[0] is the step to try next, and G[1] > 0 says that it holds at the end of this one, up to the remainder.
    """
    side = 1.0 if b0 >= 0.0 else -1.0
    G[0] = h
    G[1] = np.inf
    sure = True
    for sign in (side, -side):
        g0, g1, g2 = side * (b0 + sign * a0), side * (b1 + sign * a1), side * (b2 + sign * a2)
        if not lowest(g0, g1, g2, dev + dev_a, h) > 0.0:
            sure = False
            G[0] = min(G[0], safe_step(g0, g1, g2, dev + dev_a, h))
        G[1] = min(G[1], g0 + h * (g1 + h * g2))
    return sure


@njit
def row_leaves(Q, SQ, q, Sq, c, V, Vm, l1, ta, tb, scale, T, out, F, G):
    """First time in [ta, tb] at which Eq. (30) fails for one neuron (Q, SQ its column), located to TINY*scale, or inf."""
    t = ta
    h = tb - ta
    while t < tb:
        h = min(h, tb - t)
        at(c, V, Vm, l1, t, T)
        attention(c, T, h, out)
        neuron_series(Q, SQ, 0.0, 0.0, t, h, out, B_ROW, F)
        b0, b1, b2, dev = F[0], F[1], F[2], F[3]
        for x in range(4):
            F[x] = 0.0
        add_signal(F, 2 * q, 2 * Sq, t, h, out)
        if row_slack(b0, b1, b2, dev, F[0], F[1], F[2], F[3], h, G):
            t = tb if h >= tb - t else t + h
            h *= 8
        elif h <= TINY * scale:
            if G[1] <= 0.0:
                return t
            t = min(t + h, tb)
            h *= 2
        else:
            h = max(G[0], TINY * scale)
    return np.inf


@njit
def eq_30(Q, SQ, q, Sq, c, V, Vm, l1, ta, tb, scale, T, out, F2, F, none, size, until):
    """Set until[s] to the first time in [ta, tb] at which Eq. (30), |sum s21 s22 Q| >= 2|q| sum s11 s12, fails for neuron s.

    Returns how many were set.
    """
    failed = 0
    h = tb - ta
    G = np.empty(2)
    at(c, V, Vm, l1, ta, T)
    attention(c, T, h, out)
    sum_series(Q, SQ, none, none, ta, h, out, B_ROW, F2, size)
    p0 = p1 = p2 = p3 = 0.0
    for i in range(c.shape[0]):
        p0 += 2 * out[A_ROW, i]
        p1 += 2 * out[A_ROW + 1, i]
        p2 += 2 * out[A_ROW + 2, i]
        p3 += 2 * out[A_ROW + 3, i]
    for j in range(q.shape[0]):
        if math.isnan(until[j]):
            x = q[j] + Sq[j] * ta
            r = Sq[j]
            dev = p3 * max(abs(x), abs(x + r * h))
            if not row_slack(F2[0, j], F2[1, j], F2[2, j], F2[3, j], p0 * x, p1 * x + p0 * r, p2 * x + p1 * r, dev, h, G):
                t = row_leaves(Q[:, j], SQ[:, j], q[j], Sq[j], c, V, Vm, l1, ta, tb, scale, T, out, F, G)
                if t <= tb:
                    until[j] = t
                    failed += 1
    return failed
