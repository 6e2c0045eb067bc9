"""Enclosures for the flow (claims.md R.5): on a short window, can a sign change, and if so when first?

Between turns an inner product is linear in t and a logit gap quadratic, so every predicate is a second-order Taylor polynomial
F0 + F1 x + F2 x^2 in x = t - ta plus a remainder of at most D (x/h)^2 on the window [ta, ta+h]. Arrays are (n, m_k).
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

CLIP = 690.0  # exp(690) is finite, and no ratio of inner products reaches it
TINY = 1e-10  # relative width to which an event of a smooth predicate is located
_FAST = {"reassoc", "nsz", "contract"}

# Rows of the table of `at` (values at ta), per sample, and of `widen` (what they give on a window): three blocks of five for the
# sums D (of q_s) and E (of k_s; noise part, signal part): weights of F0, F1, F2 and of the remainder, and the largest weight.
U, U1, W, W1, TU, TW, R, GAP, WD, WA, WB, LA, LB, M1 = range(14)
# As np.int64 they are no literal types, so that a function which takes a row is compiled once.
D_ROW, B_ROW, A_ROW, SIGN = np.int64(0), np.int64(5), np.int64(10), np.int64(15)  # SIGN: of V_i - V_mu inside the window
LARGEST = 4
TABLE_ROWS, WINDOW_ROWS = 14, 16


@njit
def clipped_exp(x):
    """exp, kept finite and positive."""
    return math.exp(min(max(x, -CLIP), CLIP))


@njit(fastmath=_FAST)
def gap_polynomials(Q, SQ, K, SK, q, Sq, k, Sk, out):
    """Coefficients in t of one sample's u = z_11 - z_12 = sum q(k-K) (out[:3]) and w = z_21 - z_22 = sum Q(k-K) (out[3:])."""
    u0 = u1 = u2 = w0 = w1 = w2 = 0.0
    for j in range(Q.shape[0]):
        d0 = k[j] - K[j]
        d1 = Sk[j] - SK[j]
        u0 += q[j] * d0
        u1 += q[j] * d1 + Sq[j] * d0
        u2 += Sq[j] * d1
        w0 += Q[j] * d0
        w1 += Q[j] * d1 + SQ[j] * d0
        w2 += SQ[j] * d1
    out[0] = u0
    out[1] = u1
    out[2] = u2
    out[3] = w0
    out[4] = w1
    out[5] = w2


@njit
def at(c, V, Vm, l1, t, T):
    """Fill the table T with the values at t: gaps, their derivatives, R = s11 s12/(s21 s22), and the weights g s11 s12 (g s21 s22)
    over (about) the largest, with the derivatives of their logarithms. The factor V_i - V_mu is kept apart, as GAP."""
    n = V.shape[0]
    top_a = -np.inf
    top = -np.inf
    for i in range(n):
        u = c[i, 0] + t * (c[i, 1] + t * c[i, 2])
        w = c[i, 3] + t * (c[i, 4] + t * c[i, 5])
        u1 = c[i, 1] + 2 * t * c[i, 2]
        w1 = c[i, 4] + 2 * t * c[i, 5]
        eu = math.exp(-abs(u))
        ew = math.exp(-abs(w))
        su = 1 / (1 + eu) if u >= 0 else eu / (1 + eu)
        sw = 1 / (1 + ew) if w >= 0 else ew / (1 + ew)
        v = V[i] + 2 * l1[i] * t
        gap = v - Vm - 2 * t
        margin = 2 * v - (su + sw) * gap  # y f = (s11 + s21) V_mu + (s12 + s22) V_i
        slope = 4 * l1[i] - (eu / (1 + eu) ** 2 * u1 + ew / (1 + ew) ** 2 * w1) * gap - (su + sw) * 2 * (l1[i] - 1)
        em = math.exp(-abs(margin))
        log_g1 = -slope / (1 + em) if margin >= 0 else -slope * em / (1 + em)
        T[U, i] = u
        T[U1, i] = u1
        T[W, i] = w
        T[W1, i] = w1
        T[TU, i] = (1 - eu) / (1 + eu) if u >= 0 else (eu - 1) / (1 + eu)
        T[TW, i] = (1 - ew) / (1 + ew) if w >= 0 else (ew - 1) / (1 + ew)
        T[R, i] = clipped_exp(abs(w) - abs(u)) * ((1 + ew) / (1 + eu)) ** 2
        T[GAP, i] = gap
        T[M1, i] = slope
        T[LA, i] = log_g1 - T[TU, i] * u1
        T[LB, i] = log_g1 - T[TW, i] * w1
        T[WA, i] = -abs(u) - max(margin, 0.0)
        T[WB, i] = -abs(w) - max(margin, 0.0)
        T[WD, i] = 1 / (1 + em)
        top_a = max(top_a, T[WA, i])
        top = max(top, T[WA, i], T[WB, i])
    for i in range(n):
        # (1 + e^-|u|) = 2/(1 + |tanh(u/2)|)
        fa = T[WD, i] * ((1 + abs(T[TU, i])) / 2) ** 2
        fb = T[WD, i] * ((1 + abs(T[TW, i])) / 2) ** 2
        T[WD, i] = fa * clipped_exp(T[WA, i] - top_a)
        T[WA, i] = fa * clipped_exp(T[WA, i] - top)
        T[WB, i] = fb * clipped_exp(T[WB, i] - top)


@njit
def growth(x):
    """Upper bound of e^x for x >= 0."""
    return 1 + x + x * x if x < 1 else clipped_exp(x)


@njit
def weigh(out, row, i, weight, rate, curvature, gap, gap1, h):
    """Rows of weight*e^{rate x + ...}*(gap + gap1 x), where the rest of the exponent is at most curvature x^2/2.

    Returns the size of the third-order term at h.
    """
    x = abs(rate) * h + 0.5 * curvature * h * h
    most = weight * max(abs(gap), abs(gap + gap1 * h))
    out[row, i] = weight * gap
    out[row + 1, i] = weight * (gap1 + rate * gap)
    out[row + 2, i] = weight * rate * gap1
    out[row + 3, i] = most * (0.5 * curvature * h * h + 0.5 * x * x * growth(x))
    out[row + LARGEST, i] = most * growth(x)
    return abs(weight * rate * gap1) * h**3


@njit
def widen(c, T, l1, h, out, cubic):
    """From the table at ta: the weights of the two sums' Taylor polynomials on [ta, ta+h].

    cubic[0], cubic[1]: bounds of the third-order terms of the sums D and E. One common factor e^{rate x} is divided out of each.
    """
    n = l1.shape[0]
    total_d = 0.0
    rate_d = 0.0
    total_e = 0.0
    rate_e = 0.0
    for i in range(n):
        d = T[WD, i] * abs(T[GAP, i])
        a = T[WA, i] * abs(T[GAP, i])
        b = T[WB, i] * abs(T[GAP, i]) * l1[i]
        total_d += d
        rate_d += d * T[LA, i]
        total_e += a + b
        rate_e += a * T[LA, i] + b * T[LB, i]
    rate_d = rate_d / total_d if total_d > 0 else 0.0
    rate_e = rate_e / total_e if total_e > 0 else 0.0
    cubic[0] = 0.0
    cubic[1] = 0.0
    for i in range(n):
        u2 = 2 * abs(c[i, 2])
        w2 = 2 * abs(c[i, 5])
        du = (abs(T[U1, i]) + 0.5 * u2 * h) * h
        dw = (abs(T[W1, i]) + 0.5 * w2 * h) * h
        tu = min(1.0, (abs(T[U, i]) + du) / 2)  # bounds |tanh(u/2)|, the slope of log s11 s12
        tw = min(1.0, (abs(T[W, i]) + dw) / 2)
        # second derivatives: |sigmoid''| <= 0.0963, |log_sech''| <= u'^2/2 + tanh |u''|, |log g''| <= margin'^2/4 + |margin''|
        up = abs(T[U1, i]) + u2 * h
        wp = abs(T[W1, i]) + w2 * h
        gap = T[GAP, i]
        gap1 = 2 * (l1[i] - 1)
        m2 = (0.0963 * (up * up + wp * wp) + 0.25 * (u2 + w2)) * max(abs(gap), abs(gap + gap1 * h)) + 0.5 * (up + wp) * abs(gap1)
        cg = 0.25 * (abs(T[M1, i]) + m2 * h) ** 2 + m2
        ca = cg + 0.5 * up * up + tu * u2
        cb = cg + 0.5 * wp * wp + tw * w2
        out[SIGN, i] = 1.0 if gap + 0.5 * h * gap1 >= 0.0 else -1.0
        cubic[0] += weigh(out, D_ROW, i, T[WD, i], T[LA, i] - rate_d, ca, gap, gap1, h) * (l1[i] + 1)
        cubic[1] += weigh(out, B_ROW, i, T[WB, i], T[LB, i] - rate_e, cb, gap, gap1, h) * l1[i]
        cubic[1] += weigh(out, A_ROW, i, T[WA, i], T[LA, i] - rate_e, ca, gap, gap1, h)


@njit
def lowest(f0, f1, f2, dev, h):
    """Minimum of F0 + F1 x + F2 x^2 - D (x/h)^2 over x in [0, h]."""
    a = f2 - dev / (h * h)
    low = min(f0, f0 + h * (f1 + h * a))
    if a > 0.0 and 0.0 < -f1 < 2 * a * h:
        low = min(low, f0 - f1 * f1 / (4 * a))
    return low


@njit
def safe_step(f0, f1, f2, dev, h):
    """Just short of the first zero of F0 + F1 x + F2 x^2 - D (x/h)^2, at most 0.9 h: the next window to try."""
    a = f2 - dev / (h * h)
    x = h
    disc = f1 * f1 - 4 * a * f0
    if f0 > 0.0 and disc >= 0.0:
        z = -0.5 * (f1 + math.copysign(math.sqrt(disc), f1))
        if z != 0.0 and f0 / z > 0.0:
            x = min(x, f0 / z)
        if a != 0.0 and z / a > 0.0:
            x = min(x, z / a)
    elif f0 <= 0.0:
        x = 0.0
    return 0.999 * x if x < 0.9 * h else 0.9 * h


@njit(fastmath=_FAST)
def sum_series(B, S, b, s, t, h, out, row, F, size):
    """Taylor rows of sum_i weight_i(t) (B_i - b)(t) for all neurons: F[0..2] coefficients, F[3] bound of the remainder.

    F[4], F[5]: smallest and largest SIGN_i (B_i - b) on the window. size[i]: the largest |B_i - b| of sample i.
    """
    n, m = B.shape
    for j in range(m):
        F[0, j] = 0.0
        F[1, j] = 0.0
        F[2, j] = 0.0
        F[3, j] = 0.0
        F[4, j] = np.inf
        F[5, j] = -np.inf
    for i in range(n):
        p0 = out[row, i]
        p1 = out[row + 1, i]
        p2 = out[row + 2, i]
        p3 = out[row + 3, i]
        sign = out[SIGN, i]
        most = 0.0
        for j in range(m):
            r = S[i, j] - s[j]
            y = B[i, j] - b[j] + r * t
            z = y + r * h
            large = max(abs(y), abs(z))
            F[0, j] += p0 * y
            F[1, j] += p1 * y + p0 * r
            F[2, j] += p2 * y + p1 * r
            F[3, j] += p3 * large
            F[4, j] = min(F[4, j], min(sign * y, sign * z))
            F[5, j] = max(F[5, j], max(sign * y, sign * z))
            most = max(most, large)
        size[i] = most


@njit
def neuron_series(B, S, b, s, t, h, out, row, F):
    """`sum_series` for one neuron: B, S are its column. Returns whether all terms have one sign on the window (then 1 or -1)."""
    lo = np.inf
    hi = -np.inf
    for x in range(4):
        F[x] = 0.0
    for i in range(B.shape[0]):
        r = S[i] - s
        y = B[i] - b + r * t
        F[0] += out[row, i] * y
        F[1] += out[row + 1, i] * y + out[row, i] * r
        F[2] += out[row + 2, i] * y + out[row + 1, i] * r
        F[3] += out[row + 3, i] * max(abs(y), abs(y + r * h))
        y *= out[SIGN, i]
        r *= out[SIGN, i]
        lo = min(lo, y, y + r * h)
        hi = max(hi, y, y + r * h)
    return 1.0 if lo > 0.0 else (-1.0 if hi < 0.0 else 0.0)


@njit(fastmath=_FAST)
def add_signal(F, q, s, t, h, out):
    """Add sum_i a_i(t) q(t) to the Taylor row of one neuron. Returns the sign that all its terms share, or 0."""
    x = q + s * t
    p0 = p1 = p2 = p3 = 0.0
    up = 0
    for i in range(out.shape[1]):
        p0 += out[A_ROW, i]
        p1 += out[A_ROW + 1, i]
        p2 += out[A_ROW + 2, i]
        p3 += out[A_ROW + 3, i]
        up += 1 if out[SIGN, i] > 0.0 else 0
    F[0] += p0 * x
    F[1] += p1 * x + p0 * s
    F[2] += p2 * x + p1 * s
    F[3] += p3 * max(abs(x), abs(x + s * h))
    if x * (x + s * h) <= 0.0 or 0 < up < out.shape[1]:
        return 0.0
    return math.copysign(1.0, x) if up > 0 else -math.copysign(1.0, x)


@njit
def neuron_certain(query, j, side, Q, SQ, K, SK, q, Sq, k, Sk, t, h, out, cubic, F):
    """How neuron j's predicate (query: sum a(K-k); else -sum(a q + b Q)) keeps its side on [t, t+h].

    2: all its terms share that side; 1: by its Taylor polynomial, which goes to F times the side; 0: it may not.
    """
    if query:
        common = neuron_series(K[:, j], SK[:, j], k[j], Sk[j], t, h, out, D_ROW, F)
        F[3] += cubic[0]
    else:
        common = neuron_series(Q[:, j], SQ[:, j], 0.0, 0.0, t, h, out, B_ROW, F)
        other = add_signal(F, q[j], Sq[j], t, h, out)
        common = -common if common == other else 0.0
        F[3] += cubic[1]
        side = -side
    for x in range(3):
        F[x] *= side
    if common == (side if query else -side):
        return 2
    return 1 if lowest(F[0], F[1], F[2], F[3], h) > 0.0 else 0


@njit
def neuron_leaves(query, j, side, Q, SQ, K, SK, q, Sq, k, Sk, c, V, Vm, l1, ta, tb, scale, T, out, cubic, F, doubts):
    """First time in (ta, tb] at which neuron j's predicate has left its side (located to TINY*scale), or inf."""
    t = ta
    h = tb - ta
    while t < tb:
        h = min(h, tb - t)
        at(c, V, Vm, l1, t, T)
        widen(c, T, l1, h, out, cubic)
        if neuron_certain(query, j, side, Q, SQ, K, SK, q, Sq, k, Sk, t, h, out, cubic, F) > 0:
            t = tb if h >= tb - t else t + h
            h *= 8
        elif h <= TINY * scale:
            t = min(t + h, tb)
            if F[0] + h * (F[1] + h * F[2]) <= 0.0:
                return t
            doubts[0] += 1
            h *= 2
        else:
            h = max(safe_step(F[0], F[1], F[2], F[3], h), TINY * scale)
    return np.inf
