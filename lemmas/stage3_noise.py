"""Stage III, noise side: growth of query and key noise while the softmax outputs leave 1/2 (E.14-E.19)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lemmas.events import reached
from lemmas.stage3 import reversed_turns
from verify import (
    NOT_OCCURRED,
    TRAJECTORY,
    Check,
    Regime,
    Snapshot,
    Trajectory,
    both,
    claim,
    constants,
    custom,
    same_sign,
    sigmoid,
    slack_below,
    slack_between,
    steady,
    throughout,
    times,
)


def stage_three(tr: Trajectory) -> tuple[float, float] | None:
    """[T_3, T4-] in tau; None where it is empty."""
    a, b = tr.time(times.T3), tr.time(times.T4_MINUS)
    return (a, b) if math.isfinite(b) and b > a else None


def initial_noise_bound(r: Regime) -> float:
    r"""$B = 2\sqrt{\log(8m_kn/\delta)}\,\sigma_0\sigma_p\sqrt s$, the bound of C.8 on query and key noise."""
    return 2 * math.sqrt(math.log(8 * r.m_k * r.n / constants.DELTA)) * r.sigma_0 * r.sigma_p * math.sqrt(r.s)


def initial_signal_bound(r: Regime) -> float:
    r"""$\beta_\mu = \sqrt{2\log(8m_k/\delta)}\,\sigma_0$, the bound of C.8 on query and key signal."""
    return math.sqrt(2 * math.log(8 * r.m_k / constants.DELTA)) * r.sigma_0


@claim(
    "E.14",
    "Softmax outputs leave 1/2 no faster than quadratically in the time",
    source="Lemma E.14",
    conditions=["initialization", "noise_strength"],
    depends_on=["C.8", "S.update"],
)
def softmax_quadratic(tr: Trajectory) -> Check:
    r"""For $t\le T_4^-$: (a) $|s_{i,21}-\tfrac12|\le x^2/4$ with $x=\sqrt{m_k}(\eta\sigma_pst+B+\eta t+\beta_\mu)$; (b) $|s_{i,11}-\tfrac12|\le\tfrac14m_k(\eta t+\beta_\mu)(\eta\sigma_pst+B+\eta t+\beta_\mu)$.

    Conditions: a small initialization; strong noise.
    Measured: (bound − |s − ½|)/bound for both rows, per sample; positive holds; `largest` is the largest |s − ½|/bound.
    Made finite: the statement is explicit; $B$ and $\beta_\mu$ are those of C.8 with $\delta=0.1$ (by this project).
    Source: Lemma E.14.
    """
    if not reached(tr, times.T4_MINUS):
        return NOT_OCCURRED
    r = tr.regime
    b, beta = initial_noise_bound(r), initial_signal_bound(r)

    def margin(at: Snapshot) -> Any:
        noise = r.sigma_p_s * at.tau + b + at.tau + beta
        row_noise = slack_below(np.abs(sigmoid(at.gap_noise) - 0.5), r.m_k * noise**2 / 4)
        row_signal = slack_below(np.abs(sigmoid(at.gap_signal) - 0.5), r.m_k * (at.tau + beta) * noise / 4)
        return np.minimum(row_noise, row_signal)

    return throughout(tr, 0.0, tr.time(times.T4_MINUS), margin, samples=True)


@softmax_quadratic.control("noise row takes the signal row's place")
def _(tr: Trajectory) -> Trajectory:
    return tr.replace(gap_signal=tr.gap_noise)


@claim(
    "E.15",
    "Loss derivatives stay near 1/2 up to the end of sign alignment",
    source="Lemma E.15",
    conditions=["key_width"],
    depends_on=["E.8", "E.14"],
    inputs=[TRAJECTORY, custom(lambda regime, root, trial: constants.P)],
    constants={"p": constants.P},
    expected={
        name: ("REFUTED", f"needs m_k ≥ 1600·log(σ_p s) = {need}; here m_k = {m_k}. The trend in m_k is E.15.trend")
        for name, need, m_k in (
            ("fig1", "4436", 100),
            ("ladder-33", "16783", 64),
            ("ladder-65", "20037", 64),
            ("ladder-129", "23327", 64),
            ("ladder-64-mk16", "19963", 16),
        )
    },
)
def loss_derivative_half(tr: Trajectory, tolerance: float) -> Check:
    r"""For $t\le(4+3\theta_c)T_4^-$ and all $i$: $|g_i-\tfrac12|\le p$.

    Conditions: very many neurons, so that alignment ends before the output has grown.
    Measured: (p − |g_i − ½|)/p per sample; positive holds.
    Made finite: o(1) read as p = 0.1, $\theta_c=0.25$ (by this project); the trend is in m_k, slope −1/2.
    Source: Lemma E.15.
    """
    if not reached(tr, times.T4):
        return NOT_OCCURRED

    def margin(at: Snapshot) -> Any:
        return slack_below(np.abs(sigmoid(-margin_of(at)) - 0.5), tolerance)

    return throughout(tr, 0.0, tr.time(times.T4), margin, samples=True)


def margin_of(at: Snapshot) -> Any:
    r"""$y_if_i$ at one time, shape (n,)."""
    attention = sigmoid(at.gap_signal) + sigmoid(at.gap_noise)
    return attention * at.value_signal + (2 - attention) * at.value_noise


@loss_derivative_half.truth("tolerance weakened from 0.1 to 0.4999", regime="ladder-33")
def _(tr: Trajectory, tolerance: float) -> tuple[Trajectory, float]:
    return tr, 0.4999


@loss_derivative_half.control("value noise ten times as large, at the weakened tolerance", regime="ladder-33")
def _(tr: Trajectory, tolerance: float) -> tuple[Trajectory, float]:
    return tr.replace(value_noise=10 * tr.value_noise), 0.4999


def _value_linear(tr: Trajectory, a: float, b: float) -> Check:
    def margin(at: Snapshot) -> Any:
        return slack_between(at.value_noise / (2 * tr.l1 * at.tau), 0.5, 2.0)

    grows = steady(tr, "value_noise", a, b, 1.0, samples=True)
    return both(grows, throughout(tr, a, b, margin, samples=True))


@claim("E.16", "Value noise stays linear up to T_4^-", source="Lemma E.16", depends_on=["E.8"], conditions=["learning_rate"])
def value_linear(tr: Trajectory) -> Check:
    r"""On $[T_3,T_4^-]$, $V_i$ grows by $2\eta\|\xi_i\|_1$ at each step and $V_i/(2\eta\|\xi_i\|_1t)\in[\tfrac12,2]$, for all $i$.

    Conditions: none beyond Definition 2.1.
    Measured: slack of the ratio to [½, 2], and of the time of the first other step to T_4^-; positive holds.
    Made finite: linear read as within a factor 2 of $2\eta\|\xi_i\|_1t$ and growing at each step (by this project).
    Source: Lemma E.16.
    """
    stage = stage_three(tr)
    return _value_linear(tr, *stage) if stage else NOT_OCCURRED


@value_linear.control("value noise four times as large")
def _(tr: Trajectory) -> Trajectory:
    return tr.replace(value_noise=4 * tr.value_noise)


def _grows(tr: Trajectory, quantity: str) -> Check:
    stage = stage_three(tr)
    if stage is None:
        return NOT_OCCURRED
    return steady(tr, quantity, *stage, np.sign(getattr(tr.at(stage[0]), quantity)))


@claim(
    "E.17",
    "Query noise grows at each step of Stage III",
    source="Lemma E.17",
    conditions=["noise_strength"],
    depends_on=["E.16", "C.10", "E.9"],
    units="(first wrong step − T_4^-)/T_4^-",
)
def query_noise_grows(tr: Trajectory) -> Check:
    r"""On $[T_3,T_4^-]$, $|\langle w_{Q,s},y_i\xi_i\rangle|$ grows by $\eta\|\xi_i\|_1$ at each step, for all $s$, $i$.

    Conditions: strong noise (key noise outweighs key signal).
    Measured: (first step in the other direction − T_4^-)/T_4^- per pair; positive holds.
    Made finite: $T_3$ with $C_3=10$, $T_4^-$ measured (by this project).
    Source: Lemma E.17.
    """
    return _grows(tr, "query_noise")


@query_noise_grows.control("query noise turned round")
def _(tr: Trajectory) -> Trajectory:
    return reversed_turns(tr, "query_noise")


@claim(
    "E.18",
    "Key noise grows at each step of Stage III",
    source="Lemma E.18",
    conditions=["noise_strength"],
    depends_on=["E.16", "E.9", "C.4"],
    units="(first wrong step − T_4^-)/T_4^-",
)
def key_noise_grows(tr: Trajectory) -> Check:
    r"""On $[T_3,T_4^-]$, $|\langle w_{K,s},y_i\xi_i\rangle|$ grows by $\eta\|\xi_i\|_1$ at each step, for all $s$, $i$.

    Conditions: strong noise.
    Measured: (first step in the other direction − T_4^-)/T_4^- per pair; positive holds.
    Made finite: $T_3$ with $C_3=10$, $T_4^-$ measured (by this project).
    Source: Lemma E.18.
    """
    return _grows(tr, "key_noise")


@key_noise_grows.control("key noise turned round")
def _(tr: Trajectory) -> Trajectory:
    return reversed_turns(tr, "key_noise")


@claim(
    "E.19",
    "Query and key noise keep equal signs through Stage III",
    source="Lemma E.19",
    conditions=["noise_strength"],
    depends_on=["E.17", "E.18"],
    units="min(|Q|,|K|) in ηl_i, signed by agreement",
)
def signs_stay_equal(tr: Trajectory) -> Check:
    r"""On $[T_3,T_4^-]$, $\operatorname{sgn}\langle w_{Q,s},y_i\xi_i\rangle=\operatorname{sgn}\langle w_{K,s},y_i\xi_i\rangle$ for all $s$, $i$.

    Conditions: strong noise.
    Measured: the smaller of |Q| and |K| in ηl_i, signed + where the signs agree, per pair; positive holds.
    Made finite: $T_3$ with $C_3=10$, $T_4^-$ measured (by this project).
    Source: Lemma E.19.
    """
    stage = stage_three(tr)
    if stage is None:
        return NOT_OCCURRED
    return throughout(tr, *stage, lambda at: same_sign(tr, at.tau, ("query_noise", at.query_noise), ("key_noise", at.key_noise)))


@signs_stay_equal.control("key noise mirrored")
def _(tr: Trajectory) -> Trajectory:
    return tr.replace(key_noise=-tr.key_noise)
