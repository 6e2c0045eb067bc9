"""Longer contexts (Appendix F.2, Figures 9-11): L > 2 patches, identical noise patches (F.2a), one dominant noise patch (F.2b)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from verify import TRAJECTORY, Check, Regime, Trajectory, claim, constants, get

Array = NDArray[np.float64]
TRIALS = 2


def _rung(name: str, **change: Any) -> Regime:
    """A longer context with half of fig1's samples, twice its step size, and its 2000 steps' length."""
    return get(name).change(n=10, eta=2e-4, horizon=0.2, simulator="reduced", **change)


IDENTICAL = [_rung("fig1-L3", identical=True), _rung("fig1-L5-2", identical=True)]
DOMINANT = [_rung("fig1-L3"), _rung("fig1-L5-2"), _rung("fig1-L10"), _rung("fig1-L3", dominance=4.0)]


def attention(tr: Trajectory, at: int = -1) -> Array:
    """Softmax outputs at one grid time: (n, L, L), patches in the order signal, noise of the largest l1, other noise."""
    assert tr.log_attention is not None, "two patches have no record of every softmax output"
    return np.exp(tr.log_attention[at])


def first_below(gap: Array, tau: Array, share: float) -> Array:
    """First time at which the signal mass of a row, given as log-odds (T, n), is below `share`; inf where it never is."""
    low = gap < np.log(share / (1 - share))
    return np.where(low.any(0), tau[low.argmax(0)], np.inf)


def decays_first(tr: Trajectory) -> float:
    """Share of samples whose noise row loses attention to the signal (to p of its initial share) before the signal row does."""
    initial = tr.regime.signal_patches / tr.regime.L
    noise, signal = (first_below(gap, tr.tau, constants.P * initial) for gap in (tr.gap_noise, tr.gap_signal))
    return float(np.mean(noise < signal))


def shares(tr: Trajectory) -> list[float]:
    """What F.2a measures of one trial: see its docstring."""
    k, L = tr.regime.signal_patches, tr.regime.L
    copies = attention(tr)[:, :, k:]
    total = copies.sum(-1)
    taken = float(np.mean((total > 1 - constants.P).all(1)))
    apart = float(np.abs(copies / total[:, :, None] * (L - k) - 1).max())
    initial = float(np.abs(attention(tr, 0)[:, :, :k].sum(-1) - k / L).max())
    return [taken, apart, initial, decays_first(tr)]


def winner(tr: Trajectory) -> list[float]:
    """What F.2b measures of one trial: see its docstring."""
    k = tr.regime.signal_patches
    rows = attention(tr)
    chosen = rows.argmax(-1)
    alone = ((chosen == chosen[:, :1]) & (rows.max(-1) > 1 - constants.P)).all(1) & (chosen[:, 0] >= k)
    sign = np.sign(tr.query_signal[-1])[:, None]
    aligned = (np.sign(tr.query_noise[-1]) == sign) & (np.sign(tr.key_noise[-1]) == sign)
    return [float(alone.mean()), float(aligned.mean()), float(np.mean(alone & (chosen[:, 0] == k))), decays_first(tr)]


def law(slack: list[float], detail: dict[str, Any]) -> Check:
    """Every rung's slack is positive."""
    worst = float(min(slack))
    return Check(holds=worst > 0, margin=worst, worst=worst, all_hold=worst > 0, share=float(np.mean(np.array(slack) > 0)), detail=detail)


def by_rung(measures: list[tuple[int, Any]]) -> list[Array]:
    """The measures of every rung that has any, as arrays (trials, numbers)."""
    return [np.array([m for rung, m in measures if rung == k], float) for k in sorted({rung for rung, _ in measures})]


def enough(share: float) -> float:
    """Slack of a share that must exceed 1-p, in units of p."""
    return (share - (1 - constants.P)) / constants.P


@claim(
    "F.2a",
    "Identical noise patches share the attention that one would take",
    source="Appendix F.2",
    kind="scaling",
    conditions=["noise_strength"],
    depends_on=["3.2.4"],
    rungs=IDENTICAL,
    trials_per_rung=TRIALS,
    suite="full",
    inputs=[TRAJECTORY],
    over="law",
    units="slack to p or 1-p",
    constants={"L": [r.L for r in IDENTICAL], "equal copies": 1e-9},
)
def identical_patches(measures: list[tuple[int, Any]], _regime: None = None) -> Check:
    r"""With $L>2$ patches whose noise patches are copies, every row begins at the shares of the patches, the noise rows leave the signal before
    the signal rows do ($s_{i,21}$ before $s_{i,11}$), and in the end all rows are on the copies, each with $1/\#\mathrm{copies}$.

    Conditions: strong noise; supports of different samples are disjoint.
    Measured: the smallest slack, over rungs, of: the share of samples with noise mass > 1-p in every row, and that of samples whose noise row
    decays first, over 1-p; the largest distance of an initial signal mass from its share, below p; copies alike to 1e-9. Positive holds.
    Made finite: fig1 with 10 samples, L = 3 and 5 (two signal patches), at τ = 0.2; decay to p of the initial share (by this project).
    Source: Appendix F.2.
    """
    slack, rows = [], []
    for found in by_rung(measures):
        taken, first = found[:, 0].mean(), found[:, 3].mean()
        apart, initial = found[:, 1].max(), found[:, 2].max()
        slack += [enough(taken), enough(first), (constants.P - initial) / constants.P, (1e-9 - apart) / 1e-9]
        rows.append([round(float(x), 6) for x in (taken, first, initial)])
    return law(slack, {"taken, noise row first, initial distance": rows})


identical_patches.measures(shares)


@identical_patches.control("independent noise patches", rungs=[r.change(identical=False) for r in IDENTICAL])
def _(measured: tuple[int, Any]) -> tuple[int, Any]:
    return measured


@claim(
    "F.2b",
    "One noise patch takes all attention",
    source="Appendix F.2, Figures 9-11",
    kind="scaling",
    conditions=["noise_strength"],
    depends_on=["3.2.4", "4.8.1"],
    rungs=DOMINANT,
    trials_per_rung=TRIALS,
    suite="full",
    inputs=[TRAJECTORY],
    over="law",
    units="(share - (1-p))/p",
    constants={"L, signal patches": [(r.L, r.signal_patches) for r in DOMINANT], "dominance": 4.0},
)
def one_patch_wins(measures: list[tuple[int, Any]], _regime: None = None) -> Check:
    r"""With $L>2$ patches and independent noise, in the end one noise patch of each sample has all attention, $s_{i,la}\to1$ for every query
    patch $l$ with the same $a$; the largest one has $\operatorname{sgn}Q_{s,i}=\operatorname{sgn}K_{s,i}=\operatorname{sgn}q_s$.

    Conditions: strong noise; disjoint supports.
    Measured: per rung, the share of samples in which one and the same noise patch has > 1-p of every row, and the share of (s,i) whose largest
    noise patch is aligned with the signal: the smallest (share - (1-p))/p; positive holds. Beside it the shares in which that patch is
    the one with the largest 1-norm, and in which the noise row decays before the signal row.
    Made finite: fig1 with 10 samples at τ = 0.2; L = 3, 5 (two signal patches), 10, and L = 3 with one patch four times as large (by this
    project).
    Source: Appendix F.2, Figures 9-11.
    """
    means = [found.mean(0) for found in by_rung(measures)]
    slack = [enough(x) for m in means for x in m[:2]]
    return law(slack, {"won, aligned, largest wins, noise row first": [[round(float(x), 4) for x in m] for m in means]})


one_patch_wins.measures(winner)


@one_patch_wins.control("identical noise patches", rungs=[r.change(identical=True, dominance=1.0) for r in DOMINANT])
def _(measured: tuple[int, Any]) -> tuple[int, Any]:
    return measured
