"""Stage IV, first half: from T4- to the flip of unaligned key noise (Lemmas 4.6, 4.7 (1); E.27, E.31-E.36)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from lemmas.events import aligned_share, event_g, excused, reached, signal_sign, unaligned, vote
from lemmas.stage3 import reversed_turns
from lemmas.stage3_time import with_t4_minus
from verify import (
    NOT_OCCURRED,
    TRAJECTORY,
    Check,
    Events,
    Regime,
    Trajectory,
    both,
    claim,
    constants,
    custom,
    everywhere,
    on_samples,
    steady,
    times,
)

EARLY, LATE = 2 - constants.THETA_C, 2 + constants.THETA_C


def binomial_centre(r: Regime) -> float:
    r"""Share of neurons aligned per sample, $\tfrac12+1/\sqrt{2\pi n}$: a sample votes for itself (correction of ours)."""
    return 0.5 + 1 / math.sqrt(2 * math.pi * r.n)


@claim(
    "E.27",
    "About half of the neurons are aligned with each sample",
    source="Lemma E.27",
    conditions=["sample_size", "key_width"],
    depends_on=["E.6", "E.9", "E.11"],
    inputs=[TRAJECTORY, custom(lambda regime, root, trial: binomial_centre(regime))],
    expected={
        "fig1": ("REFUTED", "votes are dependent at fig1 (E.6.independence): the mean share is 0.69-0.73, not 0.589"),
        "ladder-65": ("INCONCLUSIVE", "2 of 120 trials: about 133 would decide; the Hoeffding radius is nearly attained"),
    },
)
def half_aligned(tr: Trajectory, centre: float) -> Check:
    r"""At $T_4^-$, for all $i$: $\big|\#\{s:\operatorname{sgn}Q_{s,i}=\operatorname{sgn}q_s\}-m_k(\tfrac12+\tfrac1{\sqrt{2\pi n}})\big|\le\sqrt{m_k\log(2n/\delta)/2}$.

    Conditions: many neurons; the majority decides the signal's sign.
    Measured: (radius − |count − centre|)/radius per sample; positive holds; `mean_share` is the mean of α_i.
    Made finite: explicit Hoeffding radius with δ = 0.1; the centre is not m_k/2, since a sample votes for itself (correction by this project).
    Source: Lemma E.27.
    """
    if not reached(tr, times.T4_MINUS):
        return NOT_OCCURRED
    m_k = tr.regime.m_k
    radius = math.sqrt(m_k * math.log(2 * tr.regime.n / constants.DELTA) / 2)
    share = aligned_share(tr)
    margin = (radius - np.abs(share * m_k - m_k * centre)) / radius
    return on_samples(everywhere(tr.regime.judged, margin, tau=tr.time(times.T4_MINUS), mean_share=float(share.mean())))


@half_aligned.control("centre m_k/2, as the paper has it", regime="ladder-17-mk512")
def _(tr: Trajectory, centre: float) -> tuple[Trajectory, float]:
    return tr, 0.5


@half_aligned.control("one sample's query noise set to the signals' signs")
def _(tr: Trajectory, centre: float) -> tuple[Trajectory, float]:
    j = tr.index(tr.time(times.T4_MINUS))
    noise = tr.query_noise.copy()
    noise[max(j - 1, 0) : j + 1] = np.abs(noise[max(j - 1, 0) : j + 1]) * signal_sign(tr)
    return tr.replace(query_noise=noise), centre


def _between(tr: Trajectory) -> tuple[float, float]:
    return tr.time(times.T4_MINUS), tr.time(times.T4_PLUS)


GROWTH_UNITS = "(first wrong step − end of window)/end"


def growth(tr: Trajectory, quantity: str, a: float, b: float, *, aligned: bool, toward: bool = True, needs_g: bool = False) -> Check:
    """Noise of aligned or unaligned pairs moves toward (or away from) the sign of q_s(T4-) at each step of (a, b)."""
    if not reached(tr, times.T4_MINUS) or not (math.isfinite(a) and math.isfinite(b)) or (needs_g and excused(tr)):
        return NOT_OCCURRED
    other = unaligned(tr, quantity)
    sign = signal_sign(tr) * (1 if toward else -1)
    g = float(event_g(tr))
    return steady(tr, quantity, a, b, sign, where=~other if aligned else other, g=g)


@claim(
    "E.31",
    "Aligned query noise keeps growing between T_4^- and T_4^+",
    source="Lemma E.31",
    conditions=["noise_strength"],
    depends_on=["E.27", "E.29", "E.12", "E.17", "E.18", "E.19"],
    units=GROWTH_UNITS,
)
def aligned_query_grows(tr: Trajectory) -> Check:
    r"""On $[T_4^-,T_4^+]$: $\langle w_{Q,s},y_i\xi_i\rangle$ moves by $\eta l_i\operatorname{sgn}q_s$ at each step, for all aligned pairs.

    Conditions: strong noise.
    Measured: (first other step − T_4^+)/T_4^+ per aligned pair; positive holds.
    Made finite: aligned = equal signs of Q and q_s at the measured $T_4^-$; $T_4^+$ by Eq. (42) (by this project).
    Source: Lemma E.31.
    """
    return growth(tr, "query_noise", *_between(tr), aligned=True)


@claim(
    "E.32",
    "Aligned key noise keeps growing between T_4^- and T_4^+",
    source="Lemma E.32",
    conditions=["noise_strength"],
    depends_on=["E.27", "E.29", "E.12", "E.17", "E.18", "E.19"],
    units=GROWTH_UNITS,
    expected={
        "ladder-64-mk16": (
            "INCONCLUSIVE",
            "2 of 120 trials: pairs of tied neurons (D_s = 0) whose small key noise turns; 133 trials would decide",
        ),
    },
)
def aligned_key_grows(tr: Trajectory) -> Check:
    r"""On $[T_4^-,T_4^+]$: $\langle w_{K,s},y_i\xi_i\rangle$ moves by $\eta l_i\operatorname{sgn}q_s$ at each step, for all aligned pairs.

    Conditions: strong noise.
    Measured: (first other step − T_4^+)/T_4^+ per aligned pair; positive holds.
    Made finite: aligned = equal signs of K and q_s at the measured $T_4^-$ (by this project).
    Source: Lemma E.32.
    """
    return growth(tr, "key_noise", *_between(tr), aligned=True)


@claim(
    "E.33",
    "Unaligned query noise keeps growing away between T_4^- and T_4^+",
    source="Lemma E.33",
    conditions=["noise_strength", "key_width"],
    depends_on=["E.27", "E.29", "E.12", "E.17", "E.18", "E.19"],
    units=GROWTH_UNITS,
    expected={
        "fig1": (
            "INCONCLUSIVE",
            "2 of 120 trials: T_4^+ is 1.7-2.2 T_4^- there, so that unaligned query noise may turn before it; 133 trials would decide",
        ),
        "ladder-64-mk16": (
            "VACUOUS",
            "G occurs in 7 of 120 trials at m_k = 16 (it needs m_k ≥ 9.5 log(2n/δ) = 68); no violation where it did",
        ),
    },
)
def unaligned_query_grows(tr: Trajectory) -> Check:
    r"""Given G, on $[T_4^-,T_4^+]$: $\langle w_{Q,s},y_i\xi_i\rangle$ moves by $-\eta l_i\operatorname{sgn}q_s$ at each step, for all unaligned pairs.

    Conditions: strong noise; enough neurons for G.
    Measured: (first other step − T_4^+)/T_4^+ per unaligned pair; positive holds.
    Made finite: judged given G (not where claims are judged by shares); `g` is the share of trials with G (by this project).
    Source: Lemma E.33.
    """
    return growth(tr, "query_noise", *_between(tr), aligned=False, toward=False, needs_g=True)


@claim(
    "E.34",
    "Query signal keeps moving between T_4^- and T_4^+",
    source="Lemma E.34",
    conditions=["sample_size"],
    depends_on=["E.27", "E.29", "E.12", "E.17", "E.18", "E.19"],
    units=GROWTH_UNITS,
)
def query_signal_grows(tr: Trajectory) -> Check:
    r"""On $[T_4^-,T_4^+]$, for $D_s\ge1$: $\langle w_{Q,s},\mu\rangle$ moves by $\eta\operatorname{sgn}q_s(T_4^-)$ at each step.

    Conditions: many samples.
    Measured: (first other step − T_4^+)/T_4^+ per neuron; positive holds.
    Made finite: neurons with $D_s\ge1$ (by this project).
    Source: Lemma E.34.
    """
    if not reached(tr, times.T4_MINUS, times.T4_PLUS):
        return NOT_OCCURRED
    return steady(tr, "query_signal", *_between(tr), signal_sign(tr)[:, 0], where=vote(tr) >= 1)


@claim(
    "E.35",
    "Value noise stays linear between T_4^- and T_4^+",
    source="Lemma E.35",
    depends_on=["E.27", "E.29", "E.12", "E.17", "E.18", "E.19"],
)
def value_noise_linear(tr: Trajectory) -> Check:
    r"""On $[T_4^-,T_4^+]$, $V_i$ grows by $2\eta\|\xi_i\|_1$ at each step, for all $i$.

    Conditions: none beyond Definition 2.1.
    Measured: (first other step − T_4^+)/T_4^+ per sample; positive holds.
    Made finite: windows from the measured times (by this project).
    Source: Lemma E.35.
    """
    if not reached(tr, times.T4_MINUS, times.T4_PLUS):
        return NOT_OCCURRED
    return steady(tr, "value_noise", *_between(tr), 1.0, samples=True)


def _plant(target: Any, name: str, *quantities: str) -> None:
    @target.control(name)
    def _(tr: Trajectory) -> Trajectory:
        return reversed_turns(tr, *quantities)


_plant(aligned_query_grows, "query noise turned round", "query_noise")
_plant(aligned_key_grows, "key noise turned round", "key_noise")
_plant(unaligned_query_grows, "query noise turned round", "query_noise")
_plant(query_signal_grows, "query signal turned round", "query_signal")
_plant(value_noise_linear, "value noise turned round", "value_noise")


@claim(
    "E.36",
    "Signal takes over soon after T_4^-, and unaligned key noise turns",
    source="Lemma E.36, Eq. (43)",
    conditions=["noise_strength", "key_width"],
    depends_on=["E.27", "E.29", "E.12"],
    expected={
        "fig1": ("REFUTED", "T_4^+/T_4^- is 1.7-2.2 at fig1"),
        "ladder-64-mk16": (
            "VACUOUS",
            "G occurs in 7 of 120 trials at m_k = 16 (it needs m_k ≥ 9.5 log(2n/δ) = 68); no violation where it did",
        ),
    },
)
def signal_takes_over(tr: Trajectory) -> Check:
    r"""Given G: $T_4^+\le(1+\theta_c)T_4^-$ (43), and on $[T_4^+,(2-\theta_c)T_4^-]$ unaligned key noise moves by $\eta l_i\operatorname{sgn}q_s$ at each step.

    Conditions: strong noise; enough neurons for G.
    Measured: slack of $T_4^+/T_4^-$ to 1.25, and (first other step − end)/end per unaligned pair; positive holds; `ratio` is $T_4^+/T_4^-$.
    Made finite: $\theta_c=0.25$; judged given G (by this project).
    Source: Lemma E.36, Eq. (43).
    """
    if not reached(tr, times.T4_MINUS, times.T4_PLUS) or excused(tr):
        return NOT_OCCURRED
    t4, plus = _between(tr)
    bound = (1 + constants.THETA_C) * t4
    over = everywhere("all", (bound - plus) / bound, tau=plus, ratio=plus / t4)
    turn = growth(tr, "key_noise", plus, EARLY * t4, aligned=False, needs_g=True)
    return both(over, turn)


_plant(signal_takes_over, "key noise turned round", "key_noise")


@signal_takes_over.control("T_4^- reported a third too early")
def _(tr: Trajectory) -> Trajectory:
    return with_t4_minus(tr, tr.time(times.T4_MINUS) / 1.5)


def first_flip(tr: Trajectory, quantity: str) -> Any:
    """First zero of the noise after T4-, per pair; inf where there is none in the run."""
    return tr.crossings[quantity].first_after(tr.time(times.T4_MINUS))


def moved_events(tr: Trajectory, quantity: str, clock: Callable[[Any], Any]) -> Trajectory:
    """Control: the recorded zeros of a quantity at other times."""
    old = tr.crossings[quantity]
    tau = clock(old.tau)
    order = np.argsort(tau, kind="stable")
    return tr.replace(crossings=tr.crossings | {quantity: Events(old.shape, tau[order], old.index[order], old.sign[order])})


@claim(
    "4.6.1",
    "Unaligned key noise keeps its sign until (2−θ_c)T_4^-",
    source="Lemma 4.6 (1)",
    conditions=["noise_strength"],
    depends_on=["E.29"],
    units="(first crossing − (2−θ_c)T_4^-)/((2−θ_c)T_4^-)",
)
def key_flips_not_early(tr: Trajectory) -> Check:
    r"""No unaligned pair's $\langle w_{K,s},y_i\xi_i\rangle$ ($\operatorname{sgn}K\ne\operatorname{sgn}q$ at $T_4^-$) has crossed zero before $(2-\theta_c)T_4^-$.

    Conditions: strong noise.
    Measured: (first crossing − $(2-\theta_c)T_4^-$) over that time, per unaligned pair; positive holds; `first` is the earliest crossing in $T_4^-$.
    Made finite: $\theta_c=0.25$, measured $T_4^-$ (by this project).
    Source: Lemma 4.6 (1).
    """
    if not reached(tr, times.T4_MINUS):
        return NOT_OCCURRED
    t4, mask = tr.time(times.T4_MINUS), unaligned(tr, "key_noise")
    flip = np.minimum(first_flip(tr, "key_noise"), tr.end)
    first = float(flip[mask].min() / t4) if mask.any() else math.nan
    return everywhere(tr.regime.judged, (flip - EARLY * t4) / (EARLY * t4), where=mask, tau=flip, first=first)


@key_flips_not_early.control("crossings recorded at 0.75 of their times", regime="ladder-33")
def _(tr: Trajectory) -> Trajectory:
    return moved_events(tr, "key_noise", lambda tau: 0.75 * tau)


@claim(
    "4.6.2",
    "All unaligned key noise has flipped by (2+θ_c)T_4^-",
    source="Lemma 4.6 (2)",
    conditions=["noise_strength", "key_width"],
    depends_on=["E.38", "E.39"],
    units="((2+θ_c)T_4^- − first crossing)/((2+θ_c)T_4^-)",
    expected={
        "fig1": ("REFUTED", "the last key noise crosses at 2.2-3.75 T_4^-: signal takes over late at fig1"),
        "ladder-33": (
            "REFUTED",
            "69 of 120 trials: the last key noise crosses at up to 2.35 T_4^- at n = 33, where norms spread by 2.3 %; from n = 65 on none is late",
        ),
        "ladder-64-mk16": (
            "VACUOUS",
            "G occurs in 7 of 120 trials at m_k = 16 (it needs m_k ≥ 9.5 log(2n/δ) = 68); no violation where it did",
        ),
    },
)
def key_flips_in_time(tr: Trajectory) -> Check:
    r"""Given G, each unaligned pair's $\langle w_{K,s},y_i\xi_i\rangle$ has crossed zero by $(2+\theta_c)T_4^-$.

    Conditions: strong noise; enough neurons for G.
    Measured: ($(2+\theta_c)T_4^-$ − first crossing) over that time, per unaligned pair; positive holds; `last` is the latest crossing in $T_4^-$.
    Made finite: $\theta_c=0.25$; judged given G (by this project).
    Source: Lemma 4.6 (2).
    """
    return flips_by(tr, "key_noise", LATE)


def flips_by(tr: Trajectory, quantity: str, multiple: float) -> Check:
    """Given G, every unaligned pair has crossed zero by `multiple` of T4-."""
    if not reached(tr, times.T4_MINUS) or excused(tr):
        return NOT_OCCURRED
    t4, mask = tr.time(times.T4_MINUS), unaligned(tr, quantity)
    flip = first_flip(tr, quantity)
    last = float(np.minimum(flip, tr.end)[mask].max() / t4) if mask.any() else math.nan
    margin = np.maximum((multiple * t4 - flip) / (multiple * t4), -1e6)  # a pair that never flips: finite and very negative
    return everywhere(tr.regime.judged, margin, where=mask, tau=np.minimum(flip, tr.end), last=last, g=float(event_g(tr)))


@key_flips_in_time.control("crossings recorded at 1.25 of their times")
def _(tr: Trajectory) -> Trajectory:
    return moved_events(tr, "key_noise", lambda tau: 1.25 * tau)


@claim(
    "4.7.1",
    "Unaligned query noise keeps growing away until (2−θ_c)T_4^-",
    source="Lemma 4.7 (1)",
    conditions=["noise_strength"],
    depends_on=["E.33"],
    units=GROWTH_UNITS,
)
def query_keeps_away(tr: Trajectory) -> Check:
    r"""On $[T_4^-,(2-\theta_c)T_4^-]$ each unaligned pair's $\langle w_{Q,s},y_i\xi_i\rangle$ moves by $-\eta l_i\operatorname{sgn}q_s$ at each step.

    Conditions: strong noise.
    Measured: (first other step − $(2-\theta_c)T_4^-$) over that time, per unaligned pair; positive holds.
    Made finite: $\theta_c=0.25$, measured $T_4^-$ (by this project).
    Source: Lemma 4.7 (1).
    """
    t4 = tr.time(times.T4_MINUS)
    return growth(tr, "query_noise", t4, EARLY * t4, aligned=False, toward=False)


_plant(query_keeps_away, "query noise turned round", "query_noise")
