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
    neuron_series,
    positive,
    safe_step,
    weigh,
)


@njit(cache=True)
def log_sech(x):
    """log of sigmoid(x)*sigmoid(-x): never underflows."""
    return -abs(x) - 2 * math.log1p(math.exp(-abs(x)))


@njit(cache=True)
def ratio(c, t):
    """R = s11 s12/(s21 s22) at t, of the sample with gap polynomials c."""
    return clipped_exp(log_sech(c[0] + t * (c[1] + t * c[2])) - log_sech(c[3] + t * (c[4] + t * c[5])))


@njit(cache=True)
def ratio_bound(c, t, h):
    """Upper bound of R on [t, t+h]: |log_sech'| <= 1."""
    du = (abs(c[1] + 2 * t * c[2]) + abs(c[2]) * h) * h
    dw = (abs(c[4] + 2 * t * c[5]) + abs(c[5]) * h) * h
    return ratio(c, t) * clipped_exp(du + dw)


@njit(cache=True)
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


@njit(cache=True)
def Eq29(Q, SQ, q, Sq, c, ta, tb, scale):
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


@njit(cache=True)
def noise_remains(Q, SQ, q, Sq, c, t, h):
    """Whether some pair surely violates Eq. (42) on all of [t, t+h]: 2|Q| > R|q|."""
    n, m = Q.shape
    for i in range(n):
        high = ratio_bound(c[i], t, h)
        for j in range(m):
            x = Q[i, j] + SQ[i, j] * t
            y = x + SQ[i, j] * h
            z = q[j] + Sq[j] * t
            if x * y > 0 and 2 * min(abs(x), abs(y)) > high * max(abs(z), abs(z + Sq[j] * h)):
                return True
    return False


@njit(cache=True)
def Eq42(Q, SQ, q, Sq, c, ta, tb, scale):
    """First time in [ta, tb] at which Eq. (42), R|q| >= 2|Q| for all s and i, holds (to TINY*scale); nan if it does not."""
    t = ta
    h = tb - ta
    while t < tb:
        h = min(h, tb - t)
        if noise_remains(Q, SQ, q, Sq, c, t, h):
            t = tb if h >= tb - t else t + h
            h *= 2
        elif h <= TINY * scale:
            t = min(t + h, tb)
            if not noise_remains(Q, SQ, q, Sq, c, t, 0.0):
                return t
            h *= 2
        else:
            h /= 2
    return np.nan


@njit(cache=True)
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


@njit(cache=True)
def row_holds(Q, SQ, q, Sq, j, t, h, out, F, G):
    """Whether Eq. (30) surely holds for neuron j on [t, t+h], as sum s21 s22 Q -+ 2 q sum s11 s12 > 0 (or both reversed).

    Otherwise G[0] is the step to try next and G[1] > 0 says that it holds at the end of this one, up to the remainder.
    """
    neuron_series(Q[:, j], SQ[:, j], 0.0, 0.0, t, h, out, B_ROW, F)
    side = 1.0 if F[0] >= 0.0 else -1.0
    G[0] = h
    G[1] = np.inf
    sure = True
    f0, f1, f2, dev = side * F[0], side * F[1], side * F[2], F[3]
    for x in range(4):
        F[x] = 0.0
    add_signal(F, 2 * q[j], 2 * Sq[j], t, h, out)
    for sign in (1.0, -1.0):
        g0, g1, g2, d = f0 + sign * F[0], f1 + sign * F[1], f2 + sign * F[2], dev + F[3]
        if not positive(g0, g1, g2, d, h):
            sure = False
            G[0] = min(G[0], safe_step(g0, g1, g2, d, h))
        G[1] = min(G[1], g0 + h * (g1 + h * g2))
    return sure


@njit(cache=True)
def Eq30(Q, SQ, q, Sq, c, V, Vm, l1, ta, tb, scale, T, out, F, until):
    """Set until[s] to the first time in [ta, tb] at which Eq. (30), |sum s21 s22 Q| >= 2|q| sum s11 s12, fails for neuron s.

    Returns how many were set; each is located to TINY*scale.
    """
    failed = 0
    G = np.empty(2)
    at(c, V, Vm, l1, ta, T)
    attention(c, T, tb - ta, out)
    for j in range(q.shape[0]):
        if not math.isnan(until[j]) or (tb > ta and row_holds(Q, SQ, q, Sq, j, ta, tb - ta, out, F, G)):
            continue
        t = ta
        h = tb - ta
        while t < tb:
            h = min(h, tb - t)
            at(c, V, Vm, l1, t, T)
            attention(c, T, h, out)
            if row_holds(Q, SQ, q, Sq, j, t, h, out, F, G):
                t = tb if h >= tb - t else t + h
                h *= 8
            elif h <= TINY * scale:
                if G[1] <= 0.0:
                    until[j] = t
                    failed += 1
                    break
                t = min(t + h, tb)
                h *= 2
            else:
                h = max(G[0], TINY * scale)
        at(c, V, Vm, l1, ta, T)
        attention(c, T, tb - ta, out)
    return failed
