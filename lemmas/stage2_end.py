"""Stage II, second half: what has grown by T_2, and the sums over samples that decide the vote (Lemma 4.3, E.5, E.7, E.9)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lemmas.events import reached, vote
from lemmas.stage3 import near_half, reversed_turns
from verify import (
    NOT_OCCURRED,
    Check,
    Events,
    Snapshot,
    Trajectory,
    both,
    claim,
    everywhere,
    slack_above,
    slack_below,
    slack_between,
    steady,
    throughout,
    times,
)

Array = NDArray[np.float64]
NOISES = ("query_noise", "key_noise")
FADING = (
    "where D_s = 1 the initial values leave a sum of √n/(10√(2 log(8m_kn/δ))) times the bound, which grows with n "
    "(4.3.3.trend; 0.06, 0.06, 0.19, 0.45 of trials fail at n = 33, 65, 129, 257); with C_2 = 20 none does"
)


@claim(
    "4.3.1",
    "At T_2 query and key noise are linear in t",
    source="Lemma 4.3 (1)",
    conditions=["sparsity"],
    depends_on=["E.2", "E.3"],
    expected={
        "fig1": ("REFUTED", "ten steps do not outgrow the initial noise: 75 % of the pairs (82 % of the single noises) are within [½, 3/2]")
    },
)
def noise_linear(tr: Trajectory) -> Check:
    r"""At $T_2$, $|\langle w_{Q,s},y_i\xi_i\rangle|,|\langle w_{K,s},y_i\xi_i\rangle|=\Theta(\eta\sigma_pst)$, read as within $[\tfrac12,\tfrac32]$ of $\bar l\eta t$, for all $s$, $i$.

    Conditions: enough noise coordinates; $T_2$ long enough for the initial values to be forgotten.
    Measured: slack of |Q|/(l̄ηt) and |K|/(l̄ηt) to [½, 3/2], the smaller, per pair; positive holds; `smallest`, `largest` are the extreme ratios.
    Made finite: Θ read as [½, 3/2] of $\bar l\eta t$, $T_2$ with $C_2=10$ (by this project).
    Source: Lemma 4.3 (1).
    """
    at = tr.at(times.T2)
    ratio = np.abs(np.stack([at.query_noise, at.key_noise])) / (tr.regime.mean_l1 * at.tau)
    extremes: dict[str, Any] = {"smallest": float(ratio.min()), "largest": float(ratio.max())}
    return everywhere(tr.regime.judged, slack_between(ratio, 0.5, 1.5).min(axis=0), tau=at.tau, **extremes)


@noise_linear.control("key noise at half its size", regime="ladder-33")
def _(tr: Trajectory) -> Trajectory:
    return tr.replace(key_noise=tr.key_noise / 2)


@claim(
    "4.3.2",
    "Softmax outputs stay near 1/2 up to T_2",
    source="Lemma 4.3 (2)",
    conditions=["initialization"],
    depends_on=["E.14"],
)
def softmax_half_stage2(tr: Trajectory) -> Check:
    r"""For $t\le T_2$ and all $i$: $|s_{i,11}-\tfrac12|=o(1)$ and $|s_{i,21}-\tfrac12|=o(1)$, read as $\le p$.

    Conditions: a small initialization.
    Measured: (p − |s − ½|)/p of both softmax rows, the worst time of [0, T_2], per sample; positive holds.
    Made finite: o(1) read as p = 0.1 (by this project); the exponent in s is 4.3.2.trend.
    Source: Lemma 4.3 (2).
    """
    return near_half(tr, tr.time(times.T2), "gap_signal", "gap_noise")


@softmax_half_stage2.control("logit gaps shifted by one")
def _(tr: Trajectory) -> Trajectory:
    return tr.replace(gap_noise=tr.gap_noise - 1.0)


def update_sums(tr: Trajectory, quantity: str, a: float, b: float) -> tuple[Array, Array]:
    r"""$\sum_i l_i\operatorname{sgn}\Delta$ just after `a`, and its smallest value on [a, b) in the direction it has there; shape (m_k,)."""
    events, n = tr.turns[quantity], tr.regime.n
    direction = tr.direction(quantity, a)
    base = direction @ tr.l1
    inside = (events.tau > a) & (events.tau < b)
    tau, index, sign = events.tau[inside], events.index[inside], events.sign[inside].astype(float)
    by_pair = np.lexsort((tau, index))
    tau, index, sign = tau[by_pair], index[by_pair], sign[by_pair]
    before = np.concatenate([[0.0], sign[:-1]])
    opens = np.diff(index, prepend=-1) != 0
    before[opens] = direction.ravel()[index[opens]]
    neuron, change = index // n, (sign - before) * tr.l1[index % n]
    by_neuron = np.lexsort((tau, neuron))
    tau, neuron, change = tau[by_neuron], neuron[by_neuron], change[by_neuron]
    total = np.cumsum(change)
    opens = np.flatnonzero(np.diff(neuron, prepend=-1) != 0)
    offset = np.zeros(len(base))
    offset[neuron[opens]] = total[opens] - change[opens]
    running = base[neuron] + total - offset[neuron]
    # several pairs may turn at one step: only the sum after the last of them is the sum of an update
    last = np.append((np.diff(tau) > 0) | (np.diff(neuron) > 0), True)[: len(tau)]
    lowest = np.abs(base)
    np.minimum.at(lowest, neuron[last], np.sign(base[neuron[last]]) * running[last])
    return base, lowest


@claim(
    "E.5",
    "Updates of the summed noise keep their sign, and their size is the majority's",
    source="Lemma E.5 (1), (2)",
    conditions=["sample_size", "sparsity"],
    depends_on=["E.2", "E.3", "E.6", "C.5"],
    expected={
        "fig1": (
            "REFUTED",
            "s = 40 is below the 4πn log(2/δ)/D_s² = 188 of C.5 at D_s = 2: (1) holds for 98 % of the neurons, (2) for 82 %",
        )
    },
)
def sums_steady(tr: Trajectory) -> Check:
    r"""(1) $\operatorname{sgn}\sum_i\Delta Q_{s,i}$ and $\operatorname{sgn}\sum_i\Delta K_{s,i}$ are constant on $[T_2^{\mathrm{SGN}},T_4^-]$; (2) $|\sum_i\Delta Q_{s,i}|,|\sum_i\Delta K_{s,i}|\in[\tfrac12,\tfrac32]\,\bar l\eta D_s$.

    Conditions: many samples (a majority), many noise coordinates (C.5).
    Measured: per neuron with $D_s\ge1$, the smaller of (1) the smallest sum of updates in its first direction over its first size, (2) slack to [½, 3/2]; positive holds; `part_1`, `part_2` are the worst neurons' margins.
    Made finite: neurons with $D_s\ge1$; (2) at $T_2$; the bounds of C.5 (by this project). Part (3) is 4.3.3.
    Source: Lemma E.5 (1), (2).
    """
    if not reached(tr, times.T4_MINUS):
        return NOT_OCCURRED
    a, t2, b = (tr.time(x) for x in (times.T2_SGN, times.T2, times.T4_MINUS))
    d = vote(tr)
    lowest = [low / np.abs(base) for base, low in (update_sums(tr, x, a, b) for x in NOISES)]
    sizes = [np.abs(tr.direction(x, t2) @ tr.l1) / (tr.regime.mean_l1 * np.maximum(d, 1)) for x in NOISES]
    margins = {"part_1": np.min(lowest, axis=0), "part_2": slack_between(np.array(sizes), 0.5, 1.5).min(axis=0)}
    parts = [everywhere(tr.regime.judged, x, where=d >= 1, tau=a) for x in margins.values()]
    detail: dict[str, Any] = {name: part.worst for name, part in zip(margins, parts, strict=True)}
    return everywhere(tr.regime.judged, np.min(list(margins.values()), axis=0), where=d >= 1, tau=a, **detail)


@sums_steady.control("query noise turned round for the second half of the samples", regime="ladder-33")
def _(tr: Trajectory) -> Trajectory:
    first = tr.initial_direction["query_noise"].copy()
    old = tr.turns["query_noise"]
    late = old.index % tr.regime.n >= tr.regime.n // 2
    first[:, tr.regime.n // 2 :] *= -1
    turns = Events(old.shape, old.tau, old.index, np.where(late, -old.sign, old.sign))
    return tr.replace(turns=tr.turns | {"query_noise": turns}, initial_direction=tr.initial_direction | {"query_noise": first})


@claim(
    "4.3.3",
    "Summed query and key noise are carried by the majority from T_2 on",
    source="Lemma 4.3 (3), Lemma E.5 (3)",
    conditions=["sample_size", "sparsity"],
    depends_on=["E.5"],
    expected={
        "fig1": ("REFUTED", "ten steps do not outgrow the initial noise: 75 % of the neurons"),
        "ladder-33": ("INCONCLUSIVE", f"7 of 120 trials: {FADING}"),
        "ladder-65": ("INCONCLUSIVE", f"6-8 % of trials: {FADING}"),
        "ladder-129": ("INCONCLUSIVE", f"19 % of trials: {FADING}"),
    },
)
def sums_grow(tr: Trajectory) -> Check:
    r"""For $t\ge T_2$ and all $s$: $|\sum_iQ_{s,i}|,|\sum_iK_{s,i}|\ge\tfrac12\bar l\eta tD_s$.

    Conditions: many samples (a clear majority), many noise coordinates (C.5).
    Measured: slack of the smaller sum to its lower bound, the worst time of [T_2, T_4^-], per neuron with $D_s\ge1$; positive holds.
    Made finite: neurons with $D_s\ge1$; up to $T_4^-$; $T_2$ with $C_2=10$ (by this project).
    Source: Lemma 4.3 (3), Lemma E.5 (3).
    """
    if not reached(tr, times.T4_MINUS):
        return NOT_OCCURRED
    d = vote(tr)
    bound = np.maximum(d, 1) * tr.regime.mean_l1 / 2

    def margin(at: Snapshot) -> Any:
        smaller = np.minimum(np.abs(at.query_noise.sum(axis=-1)), np.abs(at.key_noise.sum(axis=-1)))
        return slack_above(smaller / at.tau, bound)

    return throughout(tr, tr.time(times.T2), tr.time(times.T4_MINUS), margin, where=d >= 1)


def later_t2(tr: Trajectory) -> Trajectory:
    """T_2 with C_2 = 20 instead of 10."""
    return tr.replace(times=tr.times | {times.T2: 2 * tr.time(times.T2)})


@sums_grow.truth("T_2 twice as late (C_2 = 20)", regime="ladder-33")
def _(tr: Trajectory) -> Trajectory:
    return later_t2(tr)


@sums_grow.control("the mean over samples taken out of the query noise, at C_2 = 20", regime="ladder-33")
def _(tr: Trajectory) -> Trajectory:
    return later_t2(tr.replace(query_noise=tr.query_noise - tr.query_noise.mean(axis=2, keepdims=True)))


@claim(
    ("4.3.4", "E.7"),
    "Query and key signals hardly move in Stage II",
    source="Lemma 4.3 (4), Lemma E.7",
    conditions=["sparsity"],
    depends_on=["S.update"],
)
def signals_wait(tr: Trajectory) -> Check:
    r"""For $t\le T_2$ and all $s$: $|\langle w_{Q,s},\mu\rangle^{(t)}-\langle w_{Q,s},\mu\rangle^{(0)}|\le\eta T_2$ and the same for the key signal, while $\eta T_2/\sigma_0=10\sqrt{2\log(8m_kn/\delta)}/\sqrt s\to0$.

    Conditions: many noise coordinates, so that Stage II ends soon.
    Measured: (ηT_2 − |q(t) − q(0)|)/(ηT_2), the smaller of query and key, the worst time of [0, T_2], per neuron; positive holds; `T_2_over_sigma_0` is ηT_2/σ_0.
    Made finite: the bound is attained by a signal that never turns, so 1e-9 of it is allowed for rounding; the exponent −1/2 in s is 4.3.4.trend (by this project).
    Source: Lemma 4.3 (4), Lemma E.7.
    """
    t2 = tr.time(times.T2)

    def margin(at: Snapshot) -> Any:
        query, key = at.query_signal - tr.query_signal[0], at.key_signal - tr.key_signal[0]
        return slack_below(np.maximum(np.abs(query), np.abs(key)), t2 * (1 + 1e-9))

    return throughout(tr, 0.0, t2, margin, T_2_over_sigma_0=t2 / tr.regime.sigma_0)


@signals_wait.control("query and key signals move at twice their speed")
def _(tr: Trajectory) -> Trajectory:
    faster = {x: 2 * getattr(tr, x) - getattr(tr, x)[0] for x in ("query_signal", "key_signal")}
    return tr.replace(**faster)


@claim(
    "E.9",
    "Query and key noise keep growing with their sign from T_2 on",
    source="Lemma E.9",
    conditions=["noise_strength", "sparsity"],
    depends_on=["E.14", "E.15", "E.2", "E.3"],
    units="(first wrong step − T_4^-)/T_4^-",
)
def noise_keeps_growing(tr: Trajectory) -> Check:
    r"""On $[T_2,T_4^-]$, $|\langle w_{Q,s},y_i\xi_i\rangle|$ and $|\langle w_{K,s},y_i\xi_i\rangle|$ grow by $\eta\|\xi_i\|_1$ at each step and keep their sign, for all $s$, $i$.

    Conditions: strong noise.
    Measured: (first step in another direction − T_4^-)/T_4^- against the sign at T_2, the smaller of query and key, per pair; positive holds.
    Made finite: $T_2$ with $C_2=10$, $T_4^-$ measured by Eq. (29) (by this project).
    Source: Lemma E.9.
    """
    if not reached(tr, times.T4_MINUS):
        return NOT_OCCURRED
    at, until = tr.at(times.T2), tr.time(times.T4_MINUS)
    return both(*(steady(tr, x, at.tau, until, np.sign(getattr(at, x))) for x in NOISES))


@noise_keeps_growing.control("key noise turned round")
def _(tr: Trajectory) -> Trajectory:
    return reversed_turns(tr, "key_noise")
