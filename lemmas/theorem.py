"""Theorem 3.2 and the order of the time scales: fast convergence of the training loss, large test loss (E.41, 3.2.1-3.2.3, T.order)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lemmas.events import reached
from lemmas.fresh import FRESH, Fresh, fresh_margin
from lemmas.stage3_time import with_t4_minus
from lemmas.stage4_end import loss_at
from verify import (
    NOT_OCCURRED,
    TRAJECTORY,
    Check,
    Trajectory,
    any_context,
    claim,
    everywhere,
    on_samples,
    slack_above,
    slack_below,
    slack_between,
    times,
)

FASTEST, SLOWEST = 2.3, 1.45


@claim(
    "T.order",
    "The time scales are ordered",
    source="Appendix E, time scales",
    conditions=["key_width", "noise_strength"],
    depends_on=["E.12", "E.21", "E.25", "E.36"],
    units="smallest log-ratio of successive times",
    expected={
        "fig1": ("REFUTED", "the windows collapse: T_3 by its formula is 670 steps, beyond 4T_4^-; T_4^+ exceeds 2T_4^- and T_attn < T"),
        "ladder-64-mk16": (
            "INCONCLUSIVE",
            "20 of 120 trials: stated for m_k ≥ 64; at m_k = 16 the signal takes over after 2T_4^- in one trial of six",
        ),
    },
)
def times_ordered(tr: Trajectory) -> Check:
    r"""$T_1<T_2^{\mathrm{SGN}}<T_2<T_3<T_4^-<T_4^+<2T_4^-<4T_4^-<T<T_{attn}$.

    Conditions: m_k ≥ 64, strong noise.
    Measured: the smallest log(next/previous) along the chain; positive holds.
    Made finite: all constants of the time scales are this project's; T from the predicted, the rest from the measured $T_4^-$.
    Source: Appendix E, definitions of the time scales.
    """
    if not reached(tr, times.T4_MINUS, times.T4_PLUS):
        return NOT_OCCURRED
    t4 = tr.time(times.T4_MINUS)
    chain = [tr.time(x) for x in (times.T1, times.T2_SGN, times.T2, times.T3)]
    chain += [t4, tr.time(times.T4_PLUS), 2 * t4, 4 * t4, tr.time(times.T_END), tr.time(times.T_ATTN)]
    steps = np.diff(np.log(chain))
    return everywhere("all", float(steps.min()), tau=chain[int(steps.argmin())])


@times_ordered.control("T_4^- reported ten times too late", regime="ladder-33")
def _(tr: Trajectory) -> Trajectory:
    return with_t4_minus(tr, 10 * tr.time(times.T4_MINUS))


@claim(
    "3.2.1",
    "Training loss is below ε at T",
    source="Theorem 3.2 (1)",
    conditions=["noise_strength"],
    depends_on=["E.41"],
    undefined=any_context,
)
def training_converges(tr: Trajectory) -> Check:
    r"""$L_S(T)\le\varepsilon$ at $T=\log(1/\varepsilon)/(\eta\sigma_ps)$.

    Conditions: strong noise.
    Measured: (log(1/L_S(T)) − log(1/ε))/log(1/ε); positive holds; ≥ 1 says L_S(T) ≤ ε² (`squared`).
    Made finite: ε := exp(−1.1(4+3θ_c) ηT_4^- σ_ps) from the predicted $T_4^-$ (by this project).
    Source: Theorem 3.2 (1).
    """
    if tr.time(times.T_END) > tr.end * (1 + 1e-9):
        return NOT_OCCURRED
    target = times.log_inverse_epsilon(tr.regime)
    log_loss = math.log(loss_at(tr, tr.time(times.T_END)))
    margin = (-log_loss - target) / target
    return everywhere("all", margin, tau=tr.time(times.T_END), tightness=-target / log_loss, squared=float(margin >= 1))


def without_noise(tr: Trajectory) -> Trajectory:
    """Control: value noise that does not grow."""
    return tr.replace(value_noise=tr.value_noise * 0.1)


training_converges.control("value noise at a tenth")(without_noise)


@claim(
    "E.41",
    "Training loss decays linearly: its logarithm falls at a constant rate",
    source="Lemma E.41",
    conditions=["noise_strength"],
    depends_on=["E.8", "E.40"],
)
def linear_convergence(tr: Trajectory) -> Check:
    r"""On $[T_4,T_{attn}]$: $\frac{1}{2\bar l\eta}\frac{d}{dt}\log L_S\in-[1.45,\,2.3]$.

    Conditions: strong noise.
    Measured: slack of the slope over each recorded interval to the band; positive holds; `slope` is the mean slope, `late` that after T_attn (−2 min l_i/l̄ in the limit, `late_limit`).
    Made finite: the band (by this project).
    Source: Lemma E.41.
    """
    a, b = tr.time(times.T4), tr.time(times.T_ATTN)
    if not math.isfinite(a) or not a < b <= tr.end * (1 + 1e-9):
        return NOT_OCCURRED
    speed = 2 * tr.regime.mean_l1
    inside = np.flatnonzero((tr.tau >= a * (1 - 1e-9)) & (tr.tau <= b * (1 + 1e-9)))
    if len(inside) < 2:
        return NOT_OCCURRED
    log_loss = tr.log_loss_at(inside)
    slope = np.diff(log_loss) / np.diff(tr.tau[inside]) / speed
    margin = slack_between(-slope, SLOWEST, FASTEST)
    worst = int(np.argmin(margin))
    late = np.flatnonzero(tr.tau > b)[-2:]
    after = float(np.diff(tr.log_loss_at(late))[0] / np.diff(tr.tau[late])[0] / speed) if len(late) > 1 else math.nan
    limit = -2 * float(tr.l1.min()) / tr.regime.mean_l1
    mean = float((log_loss[-1] - log_loss[0]) / (tr.tau[inside[-1]] - tr.tau[inside[0]]) / speed)
    detail: dict[str, Any] = {"slope": mean, "late": after, "late_limit": limit}
    return everywhere("all", float(margin[worst]), tau=tr.tau[inside[worst]], **detail)


linear_convergence.control("value noise at a tenth")(without_noise)


@claim(
    "3.2.2",
    "Test loss stays large: no benign generalization",
    source="Theorem 3.2 (2)",
    conditions=["initialization", "sparsity"],
    depends_on=["E.41", "C.1"],
    inputs=[TRAJECTORY, FRESH],
)
def test_loss_large(tr: Trajectory, fresh: Fresh) -> Check:
    r"""$L_{\mathcal D}(T)\ge0.1$ on fresh samples.

    Conditions: a small initialization, sparse noise (fresh supports are disjoint from the training ones).
    Measured: (L_D(T) − 0.1)/0.1 over fresh samples; positive holds; `loss` and `error` (0-1) are shown.
    Made finite: Θ(1) read as ≥ 0.1 (by this project); fresh noise is unseen and disjoint, so its inner products are Gaussian.
    Source: Theorem 3.2 (2).
    """
    if tr.time(times.T_END) > tr.end * (1 + 1e-9):
        return NOT_OCCURRED
    margin = fresh_margin(tr, fresh, tr.time(times.T_END))
    loss = float(np.mean(np.logaddexp(0, -margin)))
    return everywhere("all", float(slack_above(loss, 0.1)), tau=tr.time(times.T_END), loss=loss, error=float(np.mean(margin <= 0)))


@test_loss_large.control("the test set is the training set, softmax at 1/2", regime="ladder-33")
def _(tr: Trajectory, fresh: Fresh) -> tuple[Trajectory, Fresh]:
    at = tr.at(times.T_END)
    return tr, Fresh(fresh.query[:, : tr.regime.n], fresh.key[:, : tr.regime.n], fixed_value=at.value_noise)


@claim(
    "3.2.3",
    "Value noise is of order log(1/ε), value signal far below",
    source="Theorem 3.2 (3)",
    conditions=["noise_strength"],
    depends_on=["E.8", "E.41"],
    undefined=any_context,
    expected={
        "fig1": (
            "REFUTED",
            "75 of 120 trials: l_i spreads by 12 % at s = 40, so that more than 10 % of the samples fall below 1.4 of a mean of 1.6",
        ),
    },
)
def value_sizes(tr: Trajectory) -> Check:
    r"""$V_i(T)\ge1.4\log(1/\varepsilon)$ for all $i$, and $|V_\mu(T)|\le2.1\log(1/\varepsilon)/(\sigma_ps)$.

    Conditions: strong noise.
    Measured: (V_i − bound)/bound per sample; negative for all if the value signal exceeds its bound; positive holds; `signal` is |V_μ| over its bound.
    Made finite: 1.4 and 2.1 are the constants of claims.md, ε as in T (by this project).
    Source: Theorem 3.2 (3).
    """
    if tr.time(times.T_END) > tr.end * (1 + 1e-9):
        return NOT_OCCURRED
    at = tr.at(times.T_END)
    target = times.log_inverse_epsilon(tr.regime)
    noise = slack_above(at.value_noise, 1.4 * target)
    signal = float(slack_below(abs(at.value_signal), 2.1 * target / tr.regime.sigma_p_s))
    margin = np.minimum(noise, signal)
    check = everywhere(tr.regime.judged, margin, tau=at.tau, signal=1 - signal)
    return on_samples(check)


value_sizes.control("value noise at a tenth")(without_noise)


@value_sizes.control("value signal grows as fast as value noise")
def _(tr: Trajectory) -> Trajectory:
    return tr.replace(value_signal=tr.value_signal * tr.regime.mean_l1)
