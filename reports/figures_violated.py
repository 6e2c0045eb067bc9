"""Figures 3-5 (non-orthogonal, non-sparse) and 9-11 (longer contexts): one trial of each regime drawn, two trials read.

Fig.5.value is ours: what becomes of the value signal where the noise has a part along the signal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from reports.figures import BLUE, GREEN, ORANGE, STYLE, as_text, keep, svg_of
from verify import Trajectory, get, sigmoid, simulate_trial

Array = NDArray[np.float64]
Progress = Callable[[int, int], None] | None
SEEDS = 2
STEP = 1e-4
"""Times t are in steps of fig1. Longer contexts take two of them at once, for 10 samples, as the claims F.2 do."""
STEPS = 2000
REGIMES = {
    "Fig.3": ("fig1-overlapping", "Figure 3: non-orthogonal sparse data"),
    "Fig.4": ("fig1-dense-orthogonal", "Figure 4: orthogonal non-sparse data"),
    "Fig.5": ("fig1-dense", "Figure 5: non-orthogonal non-sparse data"),
    "Fig.9": ("fig1-L3", "Figure 9: longer context, L = 3"),
    "Fig.10": ("fig1-L5-2", "Figure 10: longer context, L = 5 with two signal patches"),
    "Fig.11": ("fig1-L10", "Figure 11: longer context, L = 10"),
}
"""Regime and title by figure. The paper's settings of Figures 9-11 are not known: L and the signal patches are ours."""
Reading = tuple[str, str, Callable[[Trajectory], float]]


def sign_agreement(tr: Trajectory, t: float) -> float:
    """Share of pairs (s, i) whose query and key noise have the same sign at step t."""
    at = tr.recorded(tr.index(t * STEP))
    return float(np.mean(np.sign(at.query_noise) == np.sign(at.key_noise)))


def vote(tr: Trajectory, t: float) -> float:
    """Share of neurons whose query signal at step 200 has the sign of the summed key noise at step t."""
    total = tr.key_noise[tr.index(t * STEP)].sum(-1)
    return float(np.mean(np.sign(tr.query_signal[tr.index(200 * STEP)]) == np.sign(total)))


def linearity(tr: Trajectory) -> float:
    """Smallest R^2, over samples, of value noise against a straight line in time over the run, all times counting alike."""
    even = np.linspace(0, tr.end, 200)
    return min(float(np.corrcoef(even, np.interp(even, tr.tau, v))[0, 1] ** 2) for v in tr.value_noise.T)


def decay(tr: Trajectory, gap: str) -> float:
    """First step at which a row's attention to the signal is below 0.2 of its initial share (two patches: 0.1) in all samples."""
    share = 0.2 * tr.regime.signal_patches / tr.regime.L
    low = (sigmoid(getattr(tr, gap)) < share).all(axis=1)
    return float(tr.tau[low.argmax()] / STEP) if low.any() else float("nan")


def signal_row_then(tr: Trajectory) -> float:
    """Mean attention of the signal row to the signal when the noise row has left it, over its initial value."""
    t = decay(tr, "gap_noise")
    at = sigmoid(tr.gap_signal[tr.index(t * STEP)]).mean() if np.isfinite(t) else np.nan
    return float(at / sigmoid(tr.gap_signal[0]).mean())


def aligned(tr: Trajectory) -> float:
    """Share of pairs with the signs of Q, K and q equal and that of k opposite at the end."""
    sign = np.sign(tr.query_signal[-1])[:, None]
    equal = (np.sign(tr.query_noise[-1]) == sign) & (np.sign(tr.key_noise[-1]) == sign)
    return float(np.mean(equal & (np.sign(tr.key_signal[-1])[:, None] == -sign)))


def won(tr: Trajectory) -> float:
    """Share of samples in which the noise patch of the largest 1-norm has more than 0.95 of every row at the end."""
    assert tr.log_attention is not None
    return float(np.mean(np.exp(tr.log_attention[-1][:, :, tr.regime.signal_patches]).min(axis=1) > 0.95))


DATA: tuple[Reading, ...] = (
    ("query and key noise agree in sign at t = 10", "signs align in Stage II", lambda tr: sign_agreement(tr, 10)),
    ("query and key noise agree in sign at t = 40", "kept in Stage III", lambda tr: sign_agreement(tr, 40)),
    ("query signal follows the vote of t = 40", "majority voting", lambda tr: vote(tr, 40)),
    ("value noise: R² of a straight line", "linear", linearity),
)
DECAY: tuple[Reading, ...] = (
    ("noise row leaves the signal (t)", "first", lambda tr: decay(tr, "gap_noise")),
    ("signal row leaves the signal (t)", "later", lambda tr: decay(tr, "gap_signal")),
    ("signal row then, over its initial value", "near 1", signal_row_then),
    (f"signs of Q, K, q equal, k opposite at t = {STEPS}", "all", aligned),
)
CONTEXT: tuple[Reading, ...] = (("one noise patch has > 0.95 of every row", "all samples, the patch varies between samples", won),)


def readings(trs: Sequence[Trajectory]) -> list[list[str]]:
    """Rows (what, published, ours) of the trials of one regime."""
    kinds = (*DATA, *DECAY) if trs[0].regime.L == 2 else (*DECAY, *CONTEXT)
    rows = []
    for what, published, measure in kinds:
        values = [measure(tr) for tr in trs]
        rows.append([what, published, f"{np.mean(values):.4g} ({min(values):.4g} to {max(values):.4g})"])
    return rows


def simulated(name: str, progress: Progress = None) -> list[Trajectory]:
    """The trials behind a figure."""
    regime, _ = REGIMES[name]
    base = get(regime).change(horizon=STEPS * STEP, name=regime)
    if base.L > 2:
        base = base.change(n=10, eta=2 * STEP, name=regime)
    trs = []
    for seed in range(SEEDS):
        trs.append(simulate_trial(base, 0, seed))
        if progress:
            progress(seed + 1, SEEDS)
    return trs


def _softmax(ax: Axes, tr: Trajectory) -> None:
    t = tr.tau / STEP
    for gap, colour, style, label in (("gap_signal", GREEN, "-", "signal row"), ("gap_noise", ORANGE, "--", "noise row")):
        s = sigmoid(getattr(tr, gap))
        ax.fill_between(t, s.min(axis=1), s.max(axis=1), color=colour, alpha=0.2, lw=0)
        ax.plot(t, s.mean(axis=1), style, color=colour, label=label)
    ax.set(title="attention to the signal", xlabel="t (steps)", ylabel="softmax output", ylim=(0, None))
    ax.legend(frameon=False, fontsize=8)


def _second(ax: Axes, tr: Trajectory) -> None:
    t = tr.tau / STEP
    if tr.log_attention is None:
        neuron = int(np.flatnonzero(tr.query_signal[tr.index(200 * STEP)] > 0)[0])
        ax.plot(t, tr.query_noise[:, neuron], color=BLUE, lw=0.7)
        ax.plot(t, tr.key_noise[:, neuron], color=ORANGE, lw=0.7, ls="--")
        handles = [Line2D([], [], color=c, ls=s) for c, s in ((BLUE, "-"), (ORANGE, "--"))]
        ax.legend(handles, ["query noise", "key noise"], frameon=False, fontsize=8)
        ax.set(title=f"neuron {neuron}", xlabel="t (steps)", ylabel="inner product")
        return
    k = tr.regime.signal_patches
    rows = np.exp(tr.log_attention[:, 0, 0])
    ax.plot(t, rows[:, :k], color=GREEN)
    ax.plot(t, rows[:, k], "--", color=ORANGE, lw=2)
    ax.plot(t, rows[:, k + 1 :], ":", color=BLUE)
    handles = [Line2D([], [], color=c, ls=s) for c, s in ((GREEN, "-"), (ORANGE, "--"), (BLUE, ":"))]
    ax.legend(handles, ["signal patches", "largest noise patch", "other noise patches"], frameon=False, fontsize=8)
    ax.set(title="signal row of sample 0", xlabel="t (steps)", ylabel="softmax output")


def draw(name: str, out: Path, progress: Progress = None) -> tuple[list[Path], str]:
    """Draw one of REGIMES into `out`, beside its published readings."""
    trs = simulated(name, progress)
    _, title = REGIMES[name]
    with mpl.rc_context(STYLE):
        figure = Figure((8.4, 3.0), layout="constrained")
        left, right = figure.subplots(1, 2)
        _softmax(left, trs[0])
        _second(right, trs[0])
        svg = svg_of(figure)
    if trs[0].regime.L == 2:
        published = "Our theoretical results hold empirically in those data settings."
    else:
        published = "One noise patch takes all attention, the same for every row; which one varies between samples."
    columns = ("what", "published reading", f"ours (mean of {SEEDS} seeds, range)")
    rows = readings(trs)
    return keep(out, name, title, svg, published, columns, rows), as_text(f"{title}\npublished: {published}", columns, rows)
