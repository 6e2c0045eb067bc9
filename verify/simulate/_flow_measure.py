"""The measured times of the flow: first failure of Eq. (29), of Eq. (30) per neuron, and first hold of Eq. (42), to 1e-10."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from verify.simulate._flow_kernel import TINY, clipped_exp


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
def signal_dominates(Q, SQ, q, Sq, c, t):
    """Eq. (42) at t: R |q| >= 2 |Q| for all s and i."""
    n, m = Q.shape
    for i in range(n):
        r = ratio(c[i], t)
        for j in range(m):
            if r * abs(q[j] + Sq[j] * t) < 2 * abs(Q[i, j] + SQ[i, j] * t):
                return False
    return True


@njit(cache=True)
def Eq42(Q, SQ, q, Sq, c, ta, tb, scale):
    """First time in [ta, tb] at which Eq. (42) holds, given that it holds at tb; nan if it does not."""
    if not signal_dominates(Q, SQ, q, Sq, c, tb):
        return np.nan
    if signal_dominates(Q, SQ, q, Sq, c, ta):
        return ta
    while tb - ta > TINY * scale:
        t = (ta + tb) / 2
        if signal_dominates(Q, SQ, q, Sq, c, t):
            tb = t
        else:
            ta = t
    return tb


@njit(cache=True)
def row_holds(Q, SQ, q, Sq, j, t, T):
    """Eq. (30) at t for neuron j, with s11 s12 and s21 s22 (over one common factor) in rows 0 and 1 of T."""
    total = 0.0
    x = 0.0
    for i in range(Q.shape[0]):
        total += T[0, i]
        x += T[1, i] * (Q[i, j] + SQ[i, j] * t)
    return abs(x) >= 2 * total * abs(q[j] + Sq[j] * t)


@njit(cache=True)
def attention(c, t, T):
    """s11 s12 and s21 s22 of every sample at t over their largest, into rows 0 and 1 of T."""
    top = -np.inf
    n = c.shape[0]
    for i in range(n):
        T[0, i] = log_sech(c[i, 0] + t * (c[i, 1] + t * c[i, 2]))
        T[1, i] = log_sech(c[i, 3] + t * (c[i, 4] + t * c[i, 5]))
        top = max(top, T[0, i], T[1, i])
    for i in range(n):
        T[0, i] = math.exp(T[0, i] - top)
        T[1, i] = math.exp(T[1, i] - top)


@njit(cache=True)
def Eq30(Q, SQ, q, Sq, c, ta, tb, scale, T, until):
    """Set until[s] to the first time in [ta, tb] at which Eq. (30) fails for neuron s; returns how many were set."""
    failed = 0
    attention(c, tb, T)
    for j in range(q.shape[0]):
        if math.isnan(until[j]) and not row_holds(Q, SQ, q, Sq, j, tb, T):
            lo = ta
            hi = tb
            while hi - lo > TINY * scale:
                t = (lo + hi) / 2
                attention(c, t, T)
                if row_holds(Q, SQ, q, Sq, j, t, T):
                    lo = t
                else:
                    hi = t
            until[j] = lo
            failed += 1
            attention(c, tb, T)
    return failed
