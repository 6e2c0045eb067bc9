"""The next turn of one sample of the flow: zeros of K - k and V_i - V_mu (linear) and of a_i q + b_i Q (smooth), while no neuron turns."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from verify.simulate._flow_kernel import TINY, clipped_exp, growth, lowest, safe_step

NONE, GAP_CLOSES = -2, -1  # codes of `next_of_sample` besides s (turn of Q) and m+s (turn of K)
HUGE = 1e100
_FAST = {"reassoc", "nsz", "contract"}


@njit
def ratio_window(c, t, h, out):
    """R and its logarithmic derivative at t, and on [t, t+h] bounds of that derivative's slope and of R (below, above), into out."""
    u = c[0] + t * (c[1] + t * c[2])
    w = c[3] + t * (c[4] + t * c[5])
    u1 = c[1] + 2 * t * c[2]
    w1 = c[4] + 2 * t * c[5]
    eu = math.exp(-abs(u))
    ew = math.exp(-abs(w))
    du = (abs(u1) + abs(c[2]) * h) * h
    dw = (abs(w1) + abs(c[5]) * h) * h
    tu = min(1.0, (abs(u) + du) / 2)  # bounds |tanh(u/2)|, the slope of log s11 s12
    tw = min(1.0, (abs(w) + dw) / 2)
    x = tu * du + tw * dw
    out[0] = clipped_exp(abs(w) - abs(u)) * ((1 + ew) / (1 + eu)) ** 2
    out[1] = math.copysign((1 - ew) / (1 + ew), w) * w1 - math.copysign((1 - eu) / (1 + eu), u) * u1
    out[2] = 0.5 * (abs(u1) + 2 * abs(c[2]) * h) ** 2 + 0.5 * (abs(w1) + 2 * abs(c[5]) * h) ** 2 + 2 * (tu * abs(c[2]) + tw * abs(c[5]))
    out[3] = out[0] * (1 - x if x < 0.5 else clipped_exp(-x))
    out[4] = out[0] * growth(x)


@njit
def corner(Q, SQ, q, Sq, side, ta, tb, rlo, rhi):
    """Lower bound of side*(Q + R q) on [ta, tb] for R in [rlo, rhi]: linear in t and in R, so four corners decide."""
    xa = Q + SQ * ta
    xb = Q + SQ * tb
    qa = q + Sq * ta
    qb = q + Sq * tb
    low = min(side * (xa + rlo * qa), side * (xa + rhi * qa))
    return min(low, min(side * (xb + rlo * qb), side * (xb + rhi * qb)))


@njit(fastmath=_FAST)
def any_undecided(Q, SQ, q, Sq, side, ta, tb, rlo, rhi):
    """Whether some pair of one sample may have Q + R q leave its side on [ta, tb]."""
    low = np.inf
    for j in range(Q.shape[0]):
        low = min(low, corner(Q[j], SQ[j], q[j], Sq[j], side[j], ta, tb, rlo, rhi))
    return not low > 0.0


@njit
def pair_leaves(Q, SQ, q, Sq, side, c, ta, tb, scale, r, doubts):
    """First time in (ta, tb] at which side*(Q + R q) <= 0 (located to TINY*scale), or inf. doubts[0] counts touches."""
    t = ta
    h = tb - ta
    while t < tb:
        h = min(h, tb - t)
        ratio_window(c, t, h, r)
        x = q + Sq * t
        w = 1.0 if r[0] < HUGE else 1 / r[0]  # the sign alone matters, and the squares of its terms must not overflow
        big = r[0] * w
        f0 = side * (w * (Q + SQ * t) + big * x)
        f1 = side * (w * SQ + big * (Sq + r[1] * x))
        f2 = side * big * r[1] * Sq
        z = abs(r[1]) * h + 0.5 * r[2] * h * h
        dev = big * (0.5 * r[2] * h * h + 0.5 * z * z * growth(z)) * max(abs(x), abs(x + Sq * h))
        if lowest(f0, f1, f2, dev, h) > 0.0:
            t = tb if h >= tb - t else t + h
            h *= 8
        elif h <= TINY * scale:
            t = min(t + h, tb)
            if side * (Q + SQ * t + r[0] * clipped_exp(r[1] * h) * (q + Sq * t)) <= 0.0:
                return t
            doubts[0] += 1
            h *= 2
        else:
            h = max(safe_step(f0, f1, f2, dev, h), TINY * scale)
    return np.inf


@njit
def next_linear(K, SK, k, Sk, side, hold, now, gap0, gap1, sb):
    """(time, neuron) of one sample's next zero of K - k; neuron -1 for the zero of V_i - V_mu = gap0 + gap1 t; inf if none."""
    best = np.inf
    who = -1
    for j in range(K.shape[0]):
        r = SK[j] - Sk[j]
        if side[j] * r < 0.0:
            t = max((k[j] - K[j]) / r, now, hold[j])
            if t < best:
                best = t
                who = j
    if sb * gap1 < 0.0:
        t = max(-gap0 / gap1, now)
        if t <= best:
            best = t
            who = -1
    return best, who


@njit
def next_of_sample(Q, SQ, K, SK, q, Sq, k, Sk, side_Q, side_K, hold_Q, hold_K, c, gap0, gap1, sb, ta, tb, scale, r, doubts):
    """(time, code) of the first turn of one sample in [ta, tb] while no neuron turns; (end of what was searched, NONE) if none."""
    code = NONE
    t, j = next_linear(K, SK, k, Sk, side_Q, hold_Q, ta, gap0, gap1, sb)
    if t <= tb:
        tb = t
        code = j
    if tb > ta:
        ratio_window(c, ta, tb - ta, r)
        rlo, rhi = r[3], r[4]
        if any_undecided(Q, SQ, q, Sq, side_K, ta, tb, rlo, rhi):
            for j in range(Q.shape[0]):
                if corner(Q[j], SQ[j], q[j], Sq[j], side_K[j], ta, tb, rlo, rhi) > 0.0:
                    continue
                if hold_K[j] > ta:
                    if hold_K[j] < tb:
                        tb = hold_K[j]
                        code = NONE
                    continue
                t = pair_leaves(Q[j], SQ[j], q[j], Sq[j], side_K[j], c, ta, tb, scale, r, doubts)
                if t <= tb:
                    tb = t
                    code = Q.shape[0] + j
    return tb, code
