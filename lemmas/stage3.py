"""Stage III: the majority vote fixes the signals' signs, and query and key signals become linear (Lemma 4.4, E.11-E.12, E.23-E.24)."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from lemmas.events import reached, value_at, vote, vote_signs
from verify import (
    NOT_OCCURRED,
    Check,
    Snapshot,
    Trajectory,
    claim,
    constants,
    everywhere,
    sigmoid,
    slack_below,
    slack_between,
    steady_margin,
    throughout,
    times,
)


def reversed_turns(tr: Trajectory, *quantities: str) -> Trajectory:
    """Control: the recorded directions of `quantities` turned round."""
    turns = {q: dataclasses.replace(tr.turns[q], sign=-tr.turns[q].sign) for q in quantities}
    first = {q: -tr.initial_direction[q] for q in quantities}
    return tr.replace(turns=tr.turns | turns, initial_direction=tr.initial_direction | first)


@claim(
    ("4.4.1", "E.11"),
    "Majority voting: the signals follow the sign of the summed noise",
    source="Lemma 4.4 (1), Lemma E.11",
    conditions=["sample_size", "noise_strength"],
    depends_on=["E.11", "E.5", "E.8", "E.14", "E.15"],
    units="(first wrong step − T_3)/T_3",
    expected={
        "fig1": (
            "INCONCLUSIVE",
            "near-ties: where D_s is small the sums change sign between T_2 = 10 and T_3 = 40, for 5-15 % of the neurons",
        )
    },
)
def majority_vote(tr: Trajectory) -> Check:
    r"""For $t\in[T_2,T_3]$ and every $s$ with $D_s\ge 1$: $\operatorname{sgn}\Delta\langle w_{Q,s},\mu\rangle=\operatorname{sgn}\sum_i\langle w_{K,s},y_i\xi_i\rangle(T_2)$ and $\operatorname{sgn}\Delta\langle w_{K,s},\mu\rangle=-\operatorname{sgn}\sum_i\langle w_{Q,s},y_i\xi_i\rangle(T_2)$.

    Conditions: many samples (a strict majority exists), strong noise (the sums outweigh the signals' own terms).
    Measured: how long each neuron's query and key signal keep moving with the vote, (first wrong step − T_3)/T_3; positive holds.
    Made finite: neurons with $D_s\ge1$ only, since at a tie there is no majority (by this project); $T_2$, $T_3$ with $C_2=C_3=10$.
    Source: Lemma 4.4 (1), Lemma E.11, Eqs. (10) and (12).
    """
    key_vote, query_vote = vote_signs(tr)
    a, b = tr.time(times.T2), tr.time(times.T3)
    q, wrong_q = steady_margin(tr, "query_signal", a, b, key_vote)
    k, wrong_k = steady_margin(tr, "key_signal", a, b, -query_vote)
    ties = int(np.sum(vote(tr) == 0))
    return everywhere(tr.regime.judged, np.minimum(q, k), where=vote(tr) >= 1, tau=np.minimum(wrong_q, wrong_k), ties=ties)


@majority_vote.control("signals move against the vote")
def _(tr: Trajectory) -> Trajectory:
    return reversed_turns(tr, "query_signal", "key_signal")


@majority_vote.control("key signal moves with the vote, not against it")
def _(tr: Trajectory) -> Trajectory:
    return reversed_turns(tr, "key_signal")


def _linear_band(tr: Trajectory) -> tuple[float, float]:
    return 1 - 1 / constants.C3 - 2 * tr.time(times.T2) / tr.time(times.T3), 1 + 1 / constants.C3


@claim(
    ("4.4.2", "E.12"),
    "Query and key signals become linear in t, with opposite signs",
    source="Lemma 4.4 (2), Lemma E.12, Eqs. (24)-(25)",
    conditions=["sample_size", "noise_strength"],
    depends_on=["E.12", "E.11", "E.5", "C.8", "E.7", "S.update"],
    expected={
        "fig1": (
            "REFUTED",
            "the windows collapse: T_3 = 40 steps is only 4 T_2, so the ratio has not settled; 18 % of the neurons are in the band",
        ),
    },
)
def signals_linear(tr: Trajectory) -> Check:
    r"""For $D_s\ge1$: $\langle w_{Q,s},\mu\rangle\operatorname{sgn}(\sum_iK_{s,i})/(\eta t)\in[1-1/C_3-2T_2/T_3,\,1+1/C_3]$ on $[T_3,T_4^-]$ (24), and the same for $-\langle w_{K,s},\mu\rangle\operatorname{sgn}(\sum_iQ_{s,i})$ on $[T_3,T_{4,s}^{(30)}]$ (25); hence opposite signs.

    Conditions: many samples, strong noise.
    Measured: the slack of the ratio to its band, over both signals and their windows, per neuron; positive holds.
    Made finite: the band from $C_3=10$ and $\delta=0.1$; neurons with $D_s\ge1$; sums taken at $T_2$ (by this project).
    Source: Lemma 4.4 (2), Lemma E.12, Eqs. (24), (25).
    """
    if not reached(tr, times.T4_MINUS) or tr.time(times.T4_MINUS) <= tr.time(times.T3):
        return NOT_OCCURRED
    key_vote, query_vote = vote_signs(tr)
    low, high = _linear_band(tr)
    until = np.where(np.isfinite(tr.noise_dominates_until), tr.noise_dominates_until, tr.time(times.T3))

    def margin(at: Snapshot) -> Any:
        q = slack_between(at.query_signal * key_vote / at.tau, low, high)
        k = slack_between(-at.key_signal * query_vote / at.tau, low, high)
        q = np.where(at.tau <= tr.time(times.T4_MINUS) * (1 + 1e-12), q, np.inf)
        return np.minimum(q, np.where(at.tau <= until, k, np.inf))

    last = slack_between(-value_at(tr, "key_signal", until) * query_vote / until, low, high)
    wide = throughout(tr, tr.time(times.T3), max(tr.time(times.T4_MINUS), float(until.max())), margin, where=vote(tr) >= 1)
    ends = everywhere(tr.regime.judged, last, where=vote(tr) >= 1, tau=until)
    return wide if not ends.occurred or wide.margin <= ends.margin else ends


@signals_linear.control("signals at half their speed")
def _(tr: Trajectory) -> Trajectory:
    return tr.replace(query_signal=tr.query_signal / 2, key_signal=tr.key_signal / 2)


@claim(
    "4.4.3",
    "Softmax outputs stay near 1/2 up to T_3",
    source="Lemma 4.4 (3)",
    conditions=["initialization"],
    depends_on=["E.14"],
)
def softmax_half(tr: Trajectory) -> Check:
    r"""For $t\le T_3$ and all $i$: $|s_{i,11}-\tfrac12|\le p$ and $|s_{i,21}-\tfrac12|\le p$.

    Conditions: a small initialization, since T_3 is proportional to it.
    Measured: (p − |s − ½|)/p of both softmax rows, per sample; positive holds.
    Made finite: o(1) read as p = 0.1; the trend is in c_0, quadratic (by this project).
    Source: Lemma 4.4 (3).
    """
    return near_half(tr, tr.time(times.T3), "gap_signal", "gap_noise")


def near_half(tr: Trajectory, end: float, *gaps: str) -> Check:
    """|s - 1/2| <= p up to `end` for the rows behind the named logit gaps."""

    def margin(at: Snapshot) -> Any:
        off = np.max([np.abs(sigmoid(getattr(at, gap)) - 0.5) for gap in gaps], axis=0)
        return slack_below(off, constants.P)

    return throughout(tr, 0.0, end, margin, samples=True)


@softmax_half.control("logit gaps shifted by one")
def _(tr: Trajectory) -> Trajectory:
    return tr.replace(gap_noise=tr.gap_noise - 1.0)


def _signal_steady(tr: Trajectory, quantity: str, sign: Any, end: Any) -> Check:
    a = tr.time(times.T3)
    margin, wrong = steady_margin(tr, quantity, a, end, sign)
    return everywhere(tr.regime.judged, margin, where=(vote(tr) >= 1) & ~np.isnan(margin), tau=wrong)


@claim(
    "E.23",
    "Query signal keeps moving with the vote until the noise stops dominating",
    source="Lemma E.23",
    conditions=["sample_size"],
    depends_on=["E.14", "E.15", "E.5", "E.12"],
    units="(first wrong step − T_4^-)/T_4^-",
)
def query_signal_steady(tr: Trajectory) -> Check:
    r"""On $[T_3,T_4^-]$, for $D_s\ge1$: $\langle w_{Q,s},\mu\rangle$ moves by $\eta\operatorname{sgn}\sum_iK_{s,i}(T_2)$ at each step.

    Conditions: many samples.
    Measured: (first step against the vote − T_4^-)/T_4^-, per neuron; positive holds.
    Made finite: $T_4^-$ measured by Eq. (29); neurons with $D_s\ge1$ (by this project).
    Source: Lemma E.23.
    """
    if not reached(tr, times.T4_MINUS):
        return NOT_OCCURRED
    return _signal_steady(tr, "query_signal", vote_signs(tr)[0], tr.time(times.T4_MINUS))


@query_signal_steady.control("query signal turned round")
def _(tr: Trajectory) -> Trajectory:
    return reversed_turns(tr, "query_signal")


@claim(
    "E.24",
    "Key signal keeps moving against the vote while noise dominates its gradient",
    source="Lemma E.24",
    conditions=["sample_size"],
    depends_on=["E.23"],
    units="(first wrong step − T_{4,s}^{(30)})/T_{4,s}^{(30)}",
    expected={
        "ladder-64-mk16": (
            "INCONCLUSIVE",
            "15 of 120 trials: at m_k = 16 single neurons turn up to 2 % before their T_{4,s}^{(30)}; the rate is near δ",
        ),
    },
)
def key_signal_steady(tr: Trajectory) -> Check:
    r"""On $[T_3,T_{4,s}^{(30)}]$, for $D_s\ge1$: $\langle w_{K,s},\mu\rangle$ moves by $-\eta\operatorname{sgn}\sum_iQ_{s,i}(T_2)$ at each step.

    Conditions: many samples.
    Measured: (first wrong step − $T_{4,s}^{(30)}$)/$T_{4,s}^{(30)}$, per neuron; positive holds.
    Made finite: the window ends at each neuron's own measured time of Eq. (30) (by this project: folding (30) into $T_4^-$ fails).
    Source: Lemma E.24, Eq. (30).
    """
    until = np.where(np.isfinite(tr.noise_dominates_until), tr.noise_dominates_until, tr.time(times.T3))
    return _signal_steady(tr, "key_signal", -vote_signs(tr)[1], until)


@key_signal_steady.control("key signal turned round")
def _(tr: Trajectory) -> Trajectory:
    return reversed_turns(tr, "key_signal")


@claim(
    "4.5.2",
    "Signal-signal softmax stays near 1/2 up to T_4^-",
    source="Lemma 4.5 (2)",
    conditions=["noise_strength"],
    depends_on=["E.21", "E.25", "E.14"],
)
def signal_row_half(tr: Trajectory) -> Check:
    r"""For $t\le T_4^-$ and all $i$: $|s_{i,11}-\tfrac12|\le p$.

    Conditions: strong noise, so that the signals are still small when the noise-signal softmax has decayed.
    Measured: (p − |s_{11} − ½|)/p per sample; positive holds.
    Made finite: o(1) read as p = 0.1; $T_4^-$ measured (by this project).
    Source: Lemma 4.5 (2), by E.14 (b).
    """
    if not reached(tr, times.T4_MINUS):
        return NOT_OCCURRED
    return near_half(tr, tr.time(times.T4_MINUS), "gap_signal")


@signal_row_half.control("signal row takes the noise row's place")
def _(tr: Trajectory) -> Trajectory:
    return tr.replace(gap_signal=tr.gap_noise)
