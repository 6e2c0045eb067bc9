"""Stage II, first half: query and key noise align their signs (Lemma 4.2, E.1-E.3)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verify import (
    NOT_OCCURRED,
    Check,
    Snapshot,
    Trajectory,
    any_context,
    both,
    claim,
    constants,
    everywhere,
    same_sign,
    slack_below,
    steady,
    throughout,
    times,
    unit,
)

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


def equal_at_start(tr: Trajectory) -> Mask:
    """Pairs whose query and key noise begin with equal signs; shape (m_k, n)."""
    return np.sign(tr.query_noise[0]) == np.sign(tr.key_noise[0])


def near_tie(tr: Trajectory) -> Mask:
    r"""Pairs in which the signals decide: $|Q_0+K_0|\le|q_s(0)|+|k_s(0)|+2\eta T_2^{\mathrm{SGN}}$; shape (m_k, n).

    Query noise turns at $K=k_s$ and key noise at $Q\approx-q_s$, so the race is won by the sign of $Q_0+K_0+q_s-k_s$. Where claims
    are judged by shares no pair is excused: the share already allows for ties.
    """
    size = np.abs(tr.query_signal[0]) + np.abs(tr.key_signal[0]) + 2 * tr.time(times.T2_SGN)
    close = np.abs(tr.query_noise[0] + tr.key_noise[0]) <= size[:, None]
    return close if tr.regime.judged == "all" else np.zeros_like(close)


@claim(
    "4.2",
    "Query and key noise align their signs",
    source="Lemma 4.2, Appendix E.5",
    conditions=["sparsity", "noise_strength", "learning_rate"],
    depends_on=["E.1", "E.2", "E.3"],
    units="min(|Q|,|K|) in ηl_i, signed by agreement",
    undefined=any_context,
)
def signs_align(tr: Trajectory) -> Check:
    r"""At $T_2^{\mathrm{SGN}}$, $\operatorname{sgn}\langle w_{Q,s}, y_i\xi_i\rangle = \operatorname{sgn}\langle w_{K,s}, y_i\xi_i\rangle$ for all $s$, $i$.

    Conditions: sparsity and noise strength make the noise outrun the signal; a small learning rate excludes the two-cycle R.4.
    Measured: the smaller of |Q| and |K| in units of ηl_i, signed + where the signs agree; the margin is the worst pair's, > 0 holds.
    Made finite: $T_2^{\mathrm{SGN}}$ with $C_1=10$, $\delta=0.1$ (by this project).
    Source: Lemma 4.2, Appendix E.5.
    """
    at = tr.at(times.T2_SGN)
    margin = same_sign(tr, at.tau, ("query_noise", at.query_noise), ("key_noise", at.key_noise))
    return everywhere(tr.regime.judged, margin, tau=at.tau)


@signs_align.control("key noise mirrored")
def _(tr: Trajectory) -> Trajectory:
    return tr.replace(key_noise=-tr.key_noise)


def common_sign(tr: Trajectory, expected: Array) -> Array:
    r"""The smaller of |Q|, |K| at $T_2^{SGN}$ in units of ηl_i, positive iff both have the `expected` sign; shape (m_k, n)."""
    at = tr.at(times.T2_SGN)
    both_signed = np.minimum(expected * at.query_noise, expected * at.key_noise)
    return both_signed / unit(tr, "query_noise", at.tau)


@claim(
    "4.2.1",
    "Equal initial signs are kept",
    source="Lemma 4.2 (1)",
    conditions=["sparsity", "noise_strength", "learning_rate"],
    depends_on=["E.1", "E.2", "E.3"],
    undefined=any_context,
    units="min(|Q|,|K|) in ηl_i, signed by agreement with the initial sign",
    expected={"fig1": ("INCONCLUSIVE", "91.7 % of such pairs keep their sign, at the limit of 90 %: 17 of 120 trials are below it")},
)
def equal_signs_kept(tr: Trajectory) -> Check:
    r"""If $\operatorname{sgn}Q_{s,i}^{(0)}=\operatorname{sgn}K_{s,i}^{(0)}$, then both still have that sign at $T_2^{\mathrm{SGN}}$.

    Conditions: as for 4.2.
    Measured: the smaller of Q and K times the initial sign in units of ηl_i, per pair with equal initial signs; positive holds.
    Made finite: $T_2^{\mathrm{SGN}}$ with $C_1=10$, $\delta=0.1$ (by this project).
    Source: Lemma 4.2 (1).
    """
    margin = common_sign(tr, np.sign(tr.query_noise[0]))
    return everywhere(tr.regime.judged, margin, where=equal_at_start(tr), tau=tr.time(times.T2_SGN))


@equal_signs_kept.control("both noises mirrored after the start")
def _(tr: Trajectory) -> Trajectory:
    query, key = -tr.query_noise, -tr.key_noise
    query[0], key[0] = tr.query_noise[0], tr.key_noise[0]
    return tr.replace(query_noise=query, key_noise=key)


@claim(
    "4.2.2",
    "Opposite initial signs: the initially larger decides",
    source="Lemma 4.2 (2)",
    conditions=["sparsity", "noise_strength", "learning_rate"],
    depends_on=["E.1", "E.2", "E.3"],
    units="min(|Q|,|K|) in ηl_i, signed by agreement with sgn(Q_0+K_0)",
    expected={
        "fig1": ("REFUTED", "signals are not small against noise there: 74 % of the opposite pairs (83 % of all pairs) follow sgn(Q_0+K_0)")
    },
)
def larger_decides(tr: Trajectory) -> Check:
    r"""If $\operatorname{sgn}Q_{s,i}^{(0)}\ne\operatorname{sgn}K_{s,i}^{(0)}$, the common sign at $T_2^{\mathrm{SGN}}$ is $\operatorname{sgn}(Q_{s,i}^{(0)}+K_{s,i}^{(0)})$, and either sign has conditional probability $\tfrac12-O(\delta)$.

    Conditions: as for 4.2.
    Measured: the smaller of Q and K times sgn(Q_0+K_0) in units of ηl_i, per pair with opposite initial signs; and (share of either common sign − (½ − δ))/(½ − δ); positive holds. `rule` is the share of all opposite pairs that obey, `rule_all_pairs` that of all pairs, `excused` the share of ties.
    Made finite: O(δ) read as δ = 0.1; pairs in which the signals alone can decide are excused (not where claims are judged by shares); the exponent of their share is 4.2.2.trend (by this project).
    Source: Lemma 4.2 (2).
    """
    other, tie = ~equal_at_start(tr), near_tie(tr)
    if not other.any():
        return NOT_OCCURRED
    margin = common_sign(tr, np.sign(tr.query_noise[0] + tr.key_noise[0]))
    signs = np.sign(tr.at(times.T2_SGN).query_noise[other])
    rarer = min(float(np.mean(signs > 0)), float(np.mean(signs < 0)))
    detail = {"rule": float(np.mean(margin[other] > 0)), "rule_all_pairs": float(np.mean(margin > 0)), "rarer_sign": rarer}
    detail |= {"excused": float(np.mean(tie[other]))}
    obeyed = everywhere(tr.regime.judged, margin, where=other & ~tie, tau=tr.time(times.T2_SGN), **detail)
    half = 0.5 - constants.DELTA
    return both(obeyed, everywhere("all", (rarer - half) / half, tau=tr.time(times.T2_SGN)))


@larger_decides.control("initial query and key noise exchanged and mirrored", regime="ladder-33")
def _(tr: Trajectory) -> Trajectory:
    query, key = tr.query_noise.copy(), tr.key_noise.copy()
    query[0], key[0] = -tr.key_noise[0], -tr.query_noise[0]
    return tr.replace(query_noise=query, key_noise=key)


def value_wait(tr: Trajectory) -> Array:
    r"""$\tau_i=\max(0,V_\mu(0)-V_i(0))/(2\eta(l_i-1))$ in units of τ: how long value noise is below value signal; shape (n,)."""
    return np.maximum(0, tr.value_signal[0] - tr.value_noise[0]) / (2 * (tr.l1 - 1))


@claim(
    "E.1",
    "Opposite signs: the smaller noise crosses zero first, within its own time",
    source="Lemma E.1",
    conditions=["sparsity", "noise_strength", "learning_rate"],
    depends_on=["C.10", "C.13", "C.14", "E.14"],
    expected={
        "fig1": ("REFUTED", "signals are not small against noise there: the smaller noise crosses first and in time in 89.6 % of the pairs")
    },
)
def smaller_crosses_first(tr: Trajectory) -> Check:
    r"""If $\operatorname{sgn}Q_{s,i}^{(0)}\ne\operatorname{sgn}K_{s,i}^{(0)}$, the smaller of $|Q_{s,i}^{(0)}|$, $|K_{s,i}^{(0)}|$ crosses zero first, at $t\le\min(|Q^{(0)}|,|K^{(0)}|)/(\eta l_i)+2\tau_i$, where $\tau_i=\max(0,V_\mu^{(0)}-V_i^{(0)})/(2\eta(l_i-1))\le T_1$.

    Conditions: strong noise, small learning rate.
    Measured: per pair with opposite initial signs, the smaller of (other's first crossing − first crossing)/bound and (T_1 − τ_i)/T_1, or the slack of the first crossing to its bound where that is negative; positive holds.
    Made finite: the bound is attained, so 1e-9 of it and two steps (rounding of τ_i to steps) are allowed; pairs in which the signals alone can decide are excused (not where claims are judged by shares) (by this project).
    Source: Lemma E.1.
    """
    first = {name: tr.crossings[name].first_after(0.0) for name in ("query_noise", "key_noise")}
    query_smaller = np.abs(tr.query_noise[0]) < np.abs(tr.key_noise[0])
    smaller = np.where(query_smaller, first["query_noise"], first["key_noise"])
    larger = np.where(query_smaller, first["key_noise"], first["query_noise"])
    wait = value_wait(tr)
    bound = np.minimum(np.abs(tr.query_noise[0]), np.abs(tr.key_noise[0])) / tr.l1 + 2 * wait
    smaller, larger = np.minimum(smaller, tr.end), np.minimum(larger, tr.end)
    in_time = slack_below(smaller, bound * (1 + 1e-9) + 2 * tr.regime.eta)
    rest = np.minimum((larger - smaller) / bound, slack_below(wait, tr.time(times.T1)))
    margin = np.where(in_time > 0, rest, np.minimum(in_time, rest))
    where = ~equal_at_start(tr) & ~near_tie(tr)
    return everywhere(tr.regime.judged, margin, where=where, tau=smaller)


@smaller_crosses_first.control("crossings of query and key noise exchanged", regime="ladder-33")
def _(tr: Trajectory) -> Trajectory:
    swapped = {"query_noise": tr.crossings["key_noise"], "key_noise": tr.crossings["query_noise"]}
    return tr.replace(crossings=tr.crossings | swapped)


def _within(tr: Trajectory, at: Snapshot, delay: float) -> Any:
    r"""Slack of |Q| and |K| to their bounds, the smaller of both, per pair at each time. Units of the upper bound."""
    r = tr.regime
    tau = at.tau[..., None]
    low = r.sigma_p_s * (tau - delay) / math.sqrt(2)
    initial = 2 * math.sqrt(math.log(8 * r.m_k * r.n / constants.DELTA)) * r.sigma_0 * r.sigma_p * math.sqrt(r.s)
    high = initial + r.sigma_p_s * tau
    sizes = [np.abs(x) for x in (at.query_noise, at.key_noise)]
    return np.minimum((np.minimum(*sizes) - low) / high, slack_below(np.maximum(*sizes), high))


def _grow(tr: Trajectory, where: Mask) -> Check:
    """Once signs agree: both noises move away from zero at each step of (T2^SGN, T2)."""
    a, b = tr.time(times.T2_SGN), tr.time(times.T2)
    if not b > a:
        return NOT_OCCURRED
    sign = np.sign(tr.at(a).query_noise)
    return both(*(steady(tr, name, a, b, sign, where=where) for name in ("query_noise", "key_noise")))


@claim(
    "E.2",
    "Opposite initial signs: both noises grow linearly after they agree",
    source="Lemma E.2",
    conditions=["sparsity", "noise_strength", "learning_rate"],
    depends_on=["E.1", "C.4"],
)
def opposite_pairs_grow(tr: Trajectory) -> Check:
    r"""For $t\in[T_2^{\mathrm{SGN}},T_2]$ and pairs with opposite initial signs: $|Q|,|K|\ge\tfrac1{\sqrt2}\eta\sigma_ps(t-T_2^{\mathrm{SGN}})$ and $|Q|,|K|\le2\sqrt{\log(8m_kn/\delta)}\,\sigma_0\sigma_p\sqrt s+\eta\sigma_pst$, and both grow by $\eta l_i$ at each step.

    Conditions: as for 4.2.
    Measured: slack to both bounds in units of the upper one, and (first step in another direction − T_2)/T_2, per such pair; positive holds.
    Made finite: the bounds are explicit with $\delta=0.1$; growth is asked for from $T_2^{\mathrm{SGN}}$, since a noise that has just crossed zero still turns at the signal's value (by this project).
    Source: Lemma E.2.
    """
    where = ~equal_at_start(tr)
    a, b = tr.time(times.T2_SGN), tr.time(times.T2)
    return both(throughout(tr, a, b, lambda at: _within(tr, at, a), where=where), _grow(tr, where))


@claim(
    "E.3",
    "Equal initial signs: both noises grow linearly after Stage I",
    source="Lemma E.3",
    conditions=["sparsity", "noise_strength", "learning_rate"],
    depends_on=["E.1", "E.14", "C.4", "C.10"],
    expected={"fig1": ("INCONCLUSIVE", "92.7 % of such pairs obey at t = 10, near the limit of 90 %: 9 of 120 trials are below it")},
)
def equal_pairs_grow(tr: Trajectory) -> Check:
    r"""For $t\in[T_2^{\mathrm{SGN}},T_2]$ and pairs with equal initial signs: $|Q|,|K|\ge\tfrac1{\sqrt2}\eta\sigma_ps(t-2T_1)$ and $|Q|,|K|\le2\sqrt{\log(8m_kn/\delta)}\,\sigma_0\sigma_p\sqrt s+\eta\sigma_pst$, and both grow by $\eta l_i$ at each step.

    Conditions: as for 4.2.
    Measured: slack to both bounds in units of the upper one, and (first step in another direction − T_2)/T_2, per such pair; positive holds.
    Made finite: the bounds are explicit with $\delta=0.1$; $T_1$, $T_2^{\mathrm{SGN}}$, $T_2$ with $C_1=C_2=10$ (by this project).
    Source: Lemma E.3.
    """
    where = equal_at_start(tr)
    a, b = tr.time(times.T2_SGN), tr.time(times.T2)
    return both(throughout(tr, a, b, lambda at: _within(tr, at, 2 * tr.time(times.T1)), where=where), _grow(tr, where))


for _claim in (opposite_pairs_grow, equal_pairs_grow):

    @_claim.control("key noise at half its size", regime="ladder-33")
    def _(tr: Trajectory) -> Trajectory:
        return tr.replace(key_noise=tr.key_noise / 2)

    @_claim.control("query noise twice as large", regime="ladder-33")
    def _(tr: Trajectory) -> Trajectory:
        return tr.replace(query_noise=2 * tr.query_noise)
