"""Stage IV, second half: everything aligns (Lemmas 4.7 (2), 4.8; E.38-E.42)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lemmas.events import event_g, excused, reached, signal_sign, unaligned
from lemmas.stage3 import reversed_turns
from lemmas.stage3_noise import margin_of
from lemmas.stage4 import GROWTH_UNITS, LATE, flips_by, growth, moved_events
from verify import (
    NOT_OCCURRED,
    TRAJECTORY,
    Check,
    Snapshot,
    Trajectory,
    both,
    claim,
    constants,
    custom,
    everywhere,
    on_samples,
    sigmoid,
    slack_above,
    slack_below,
    steady,
    throughout,
    times,
    unit,
)

LOG2 = math.log(2)


def _log_products(at: Snapshot) -> tuple[Any, Any]:
    """log(s_11 s_12) and log(s_21 s_22) per sample, without forming probabilities."""
    u, w = np.abs(at.gap_signal), np.abs(at.gap_noise)
    return -u - 2 * np.log1p(np.exp(-u)), -w - 2 * np.log1p(np.exp(-w))


@claim(
    "E.38",
    "From T_4^+ on signal dominates and everything moves toward alignment",
    source="Lemma E.38",
    conditions=["noise_strength", "key_width"],
    depends_on=["E.36", "E.27", "E.29"],
    units=GROWTH_UNITS + "; dominance in log units",
    expected={
        "ladder-64-mk16": (
            "VACUOUS",
            "G occurs in 7 of 120 trials at m_k = 16 (it needs m_k ≥ 9.5 log(2n/δ) = 68); no violation where it did",
        ),
    },
)
def moves_to_alignment(tr: Trajectory) -> Check:
    r"""Given G, on $[T_4^+,(4+3\theta_c)T_4^-]$: aligned noise, $q_s$ and $-k_s$ move with $\operatorname{sgn}q_s$ at each step, unaligned key noise too, the signal keeps dominating (42), and $V_i$ is linear.

    Conditions: strong noise; enough neurons for G.
    Measured: the smallest margin of the parts: (first other step − T_4)/T_4, and log of s_{11}s_{12}|q_s| over 2 s_{21}s_{22}|Q|; positive holds.
    Made finite: $\theta_c=0.25$; judged given G (by this project).
    Source: Lemma E.38.
    """
    if not reached(tr, times.T4_MINUS, times.T4_PLUS) or excused(tr):
        return NOT_OCCURRED
    a, b = tr.time(times.T4_PLUS), tr.time(times.T4)
    sign = signal_sign(tr)[:, 0]

    def dominates(at: Snapshot) -> Any:
        row_signal, row_noise = _log_products(at)
        with np.errstate(divide="ignore"):
            ratio = np.abs(at.query_noise)
            np.subtract(np.log(np.abs(at.query_signal))[..., None], np.log(ratio, out=ratio), out=ratio)
        ratio += (row_signal - row_noise)[..., None, :]
        ratio -= LOG2
        return ratio

    return both(
        growth(tr, "query_noise", a, b, aligned=True),
        growth(tr, "key_noise", a, b, aligned=True),
        growth(tr, "key_noise", a, b, aligned=False),
        steady(tr, "query_signal", a, b, sign),
        steady(tr, "key_signal", a, b, -sign),
        steady(tr, "value_noise", a, b, 1.0, samples=True),
        throughout(tr, a * (1 + 1e-6), b, dominates),  # (42) is an equality at T4+ itself, located to 1e-9
    )


@moves_to_alignment.control("key noise turned round")
def _(tr: Trajectory) -> Trajectory:
    return reversed_turns(tr, "key_noise")


@moves_to_alignment.control("key signal moves with the query signal")
def _(tr: Trajectory) -> Trajectory:
    return reversed_turns(tr, "key_signal")


@claim(
    "E.39",
    "Flipped key noise is already of the order of θ_c T_4^- at (2+θ_c)T_4^-",
    source="Lemma E.39",
    conditions=["noise_strength", "key_width"],
    depends_on=["E.36", "E.38"],
    inputs=[TRAJECTORY, custom(lambda regime, root, trial: constants.THETA_C / 3)],
    constants={"θ_c/3": constants.THETA_C / 3},
    units="slack ratio",
    expected={
        "fig1": ("REFUTED", "unaligned key noise has not flipped by (2+θ_c)T_4^- at fig1"),
        "ladder-33": ("REFUTED", "stated for n ≥ 65: at n = 33 some key noise has not even flipped by then (4.6.2)"),
        "ladder-65": (
            "REFUTED",
            "36 of 120 trials although n ≥ 65: the latest sample, of small l_i, flips at up to 2.20 T_4^-; none of 44 trials at n = 129",
        ),
        "ladder-64-mk16": ("VACUOUS", "G occurs in 7 of 120 trials at m_k = 16; 5 of these 7 violate it"),
    },
)
def flipped_key_size(tr: Trajectory, share: float) -> Check:
    r"""Given G, at $t=(2+\theta_c)T_4^-$: $\operatorname{sgn}(q_s)\langle w_{K,s},y_i\xi_i\rangle\ge\tfrac{\theta_c}{3}\,\eta l_iT_4^-$ for all unaligned pairs.

    Conditions: strong noise; enough neurons for G; n ≥ 65.
    Measured: (value − bound)/bound per unaligned pair; positive holds; `smallest` is the smallest value in ηl_iT_4^-.
    Made finite: $\theta_c/3$, since $\theta_c/2$ is false (by this project); stated for n ≥ 65.
    Source: Lemma E.39.
    """
    if not reached(tr, times.T4_MINUS) or excused(tr):
        return NOT_OCCURRED
    t4, mask = tr.time(times.T4_MINUS), unaligned(tr, "key_noise")
    size = signal_sign(tr) * tr.at(LATE * t4).key_noise / (tr.l1 * t4)
    smallest = float(size[mask].min()) if mask.any() else math.nan
    return everywhere(tr.regime.judged, slack_above(size, share), where=mask, tau=LATE * t4, smallest=smallest)


@flipped_key_size.control("θ_c/2 in place of θ_c/3", regime="ladder-89")
def _(tr: Trajectory, share: float) -> tuple[Trajectory, float]:
    return tr, constants.THETA_C / 2


@flipped_key_size.control("key noise mirrored", regime="ladder-129")
def _(tr: Trajectory, share: float) -> tuple[Trajectory, float]:
    return tr.replace(key_noise=-tr.key_noise), share


@claim(
    "4.7.2",
    "All unaligned query noise has flipped by (4+3θ_c)T_4^-",
    source="Lemma 4.7 (2)",
    conditions=["noise_strength", "key_width"],
    depends_on=["E.38", "E.39"],
    units="((4+3θ_c)T_4^- − first crossing)/((4+3θ_c)T_4^-)",
    expected={
        "fig1": ("REFUTED", "key noise flips late (4.6.2), so query noise still moves away at (2+θ_c)T_4^-"),
        "ladder-33": (
            "REFUTED",
            "69 of 120 trials: where key noise flips late (4.6.2), query noise still moves away at (2+θ_c)T_4^-; all have crossed by T_4",
        ),
        "ladder-64-mk16": (
            "VACUOUS",
            "G occurs in 7 of 120 trials at m_k = 16 (it needs m_k ≥ 9.5 log(2n/δ) = 68); no violation where it did",
        ),
    },
)
def query_flips_in_time(tr: Trajectory) -> Check:
    r"""Given G, from $(2+\theta_c)T_4^-$ on each unaligned pair's $\langle w_{Q,s},y_i\xi_i\rangle$ moves by $\eta l_i\operatorname{sgn}q_s$ at each step, and has crossed zero by $(4+3\theta_c)T_4^-$.

    Conditions: strong noise; enough neurons for G.
    Measured: ($(4+3\theta_c)T_4^-$ − first crossing) over that time, and (first other step − T_4)/T_4, per unaligned pair; positive holds; `last` is the latest crossing in $T_4^-$.
    Made finite: $\theta_c=0.25$; judged given G (by this project).
    Source: Lemma 4.7 (2).
    """
    t4 = tr.time(times.T4_MINUS)
    return both(
        flips_by(tr, "query_noise", times.LAST),
        growth(tr, "query_noise", LATE * t4, times.LAST * t4, aligned=False, needs_g=True),
    )


@query_flips_in_time.control("crossings recorded at 1.25 of their times")
def _(tr: Trajectory) -> Trajectory:
    return moved_events(tr, "query_noise", lambda tau: 1.25 * tau)


@claim(
    ("4.8.1", "E.40"),
    "From T_4 on all signs are aligned",
    source="Lemma 4.8 (1), Lemma E.40",
    conditions=["noise_strength", "key_width"],
    depends_on=["E.40", "4.6.2", "4.7.2"],
    undefined=lambda r: (
        None
        if r.L == 2
        else f"T_4 is a multiple of T_4^-, which Eq. (29) defines by the softmax outputs of one signal and one noise patch, L = 2 "
        f"(given L = {r.L}); F.2b judges the alignment of the largest noise patch at the end"
    ),
    units="smallest of |Q|, |K| in ηl_i and |q|, |k| in η, signed by alignment",
    expected={
        "fig1": ("REFUTED", "T_4 = 460-550 steps: 71-83 % of the pairs are aligned by then, all by t = 2000"),
        "ladder-64-mk16": (
            "VACUOUS",
            "G occurs in 7 of 120 trials at m_k = 16 (it needs m_k ≥ 9.5 log(2n/δ) = 68); no violation where it did",
        ),
    },
)
def all_aligned(tr: Trajectory) -> Check:
    r"""Given G, for $t\ge T_4=(4+3\theta_c)T_4^-$: $\operatorname{sgn}Q_{s,i}=\operatorname{sgn}K_{s,i}=\operatorname{sgn}q_s=-\operatorname{sgn}k_s$ for all $s$, $i$.

    Conditions: strong noise; enough neurons for G.
    Measured: the smallest of |Q|, |K| (in ηl_i), |q|, |k| (in η), signed + where aligned, per pair over [T_4, end]; positive holds.
    Made finite: $T_4$ from the measured $T_4^-$; judged given G (by this project).
    Source: Lemma 4.8 (1), Lemma E.40.
    """
    if not reached(tr, times.T4) or tr.time(times.T4) > tr.end or excused(tr):
        return NOT_OCCURRED

    def margin(at: Snapshot) -> Any:
        sign = np.sign(at.query_signal)
        noise, signal = unit(tr, "key_noise", at.tau), unit(tr, "key_signal", at.tau)
        pairs = sign[..., None] * at.query_noise
        np.minimum(pairs, sign[..., None] * at.key_noise, out=pairs)
        pairs /= noise
        ends = np.minimum(sign * at.query_signal, -sign * at.key_signal) / signal
        return np.minimum(pairs, ends[..., None], out=pairs)

    check = throughout(tr, tr.time(times.T4), tr.end, margin)
    check.detail["g"] = float(event_g(tr))
    return check


@all_aligned.control("key signal mirrored")
def _(tr: Trajectory) -> Trajectory:
    return tr.replace(key_signal=-tr.key_signal)


@all_aligned.control("one sample's key noise mirrored", regime="ladder-33")
def _(tr: Trajectory) -> Trajectory:
    noise = tr.key_noise.copy()
    noise[:, :, 0] *= -1
    return tr.replace(key_noise=noise)


@claim(
    "4.8.2",
    "Training loss is still of order one at T_4",
    source="Lemma 4.8 (2)",
    conditions=["key_width"],
    depends_on=["E.15"],
    inputs=[TRAJECTORY, custom(lambda regime, root, trial: 0.1)],
    constants={"L_S(T_4) ≥": 0.1},
    expected={
        name: ("REFUTED", f"needs m_k ≥ 50·log(σ_p s) = {need}; here m_k = {m_k}. The trend in m_k is 4.8.2.trend")
        for name, need, m_k in (
            ("fig1", 139, 100),
            ("ladder-33", 525, 64),
            ("ladder-65", 626, 64),
            ("ladder-129", 729, 64),
            ("ladder-64-mk16", 624, 16),
        )
    },
)
def loss_large(tr: Trajectory, bound: float) -> Check:
    r"""$L_S(T_4)\ge0.1$.

    Conditions: very many neurons.
    Measured: (L_S(T_4) − 0.1)/0.1; positive holds; `loss` is L_S(T_4).
    Made finite: Θ(1) read as ≥ 0.1; $T_4$ from the measured $T_4^-$ (by this project).
    Source: Lemma 4.8 (2).
    """
    if not reached(tr, times.T4) or tr.time(times.T4) > tr.end:
        return NOT_OCCURRED
    loss = loss_at(tr, tr.time(times.T4))
    return everywhere("all", float(slack_above(loss, bound)), tau=tr.time(times.T4), loss=loss)


def loss_at(tr: Trajectory, tau: float) -> float:
    r"""$L_S$ at any time; with more than two patches, or wrong labels, at the first recorded time not before it."""
    if tr.output_margin is not None:
        return float(np.exp(tr.log_loss_at(np.array([tr.index(tau)]))[0]))
    return float(np.mean(np.logaddexp(0, -margin_of(tr.at(tau)))))


@loss_large.truth("threshold weakened from 0.1 to 0.0001", regime="ladder-33")
def _(tr: Trajectory, bound: float) -> tuple[Trajectory, float]:
    return tr, 1e-4


@loss_large.control("value noise ten times as large, at the weakened threshold", regime="ladder-33")
def _(tr: Trajectory, bound: float) -> tuple[Trajectory, float]:
    return tr.replace(value_noise=10 * tr.value_noise), 1e-4


@claim(
    ("3.2.4", "E.42"),
    "At T_attn both softmax rows have left 1/2: noise takes the attention",
    source="Theorem 3.2 (4), Lemma E.42",
    conditions=["noise_strength"],
    depends_on=["E.42", "E.40"],
)
def attention_to_noise(tr: Trajectory) -> Check:
    r"""At $T_{attn}$: $s_{i,11}\le p$ and $s_{i,21}\le p$ for all $i$.

    Conditions: strong noise.
    Measured: (p − s)/p for the larger of both, per sample; positive holds.
    Made finite: o(1) read as p = 0.1; $T_{attn}$ with C = 1.3 (by this project).
    Source: Theorem 3.2 (4), Lemma E.42.
    """
    tau = tr.time(times.T_ATTN)
    if not math.isfinite(tau) or tau > tr.end * (1 + 1e-9):
        return NOT_OCCURRED
    at = tr.at(tau)
    attention = np.maximum(sigmoid(at.gap_signal), sigmoid(at.gap_noise))
    return on_samples(everywhere(tr.regime.judged, slack_below(attention, constants.P), tau=tau))


@attention_to_noise.control("query signal mirrored")
def _(tr: Trajectory) -> Trajectory:
    return tr.replace(query_signal=-tr.query_signal, gap_signal=-tr.gap_signal)
