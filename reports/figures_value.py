"""Fig.5.value (ours): the value signal where dense noise has a part along the signal, told apart by the side of that part."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy import stats

from lemmas.fresh import draw_fresh, fresh_gaps
from reports.figures import BLUE, GREY, ORANGE, STYLE, as_text, keep, svg_of
from verify import Regime, Trajectory, get, sigmoid, simulate_trial
from verify.data import draw_touched
from verify.pool import execute

Array = NDArray[np.float64]
SEEDS = 40
STEP = 1e-4
REGIME = get("fig1-dense").change(on_signal=1.0, eta=2 * STEP, horizon=0.16, name="fig1-dense, coordinate 1 included")
END = round(REGIME.horizon / STEP)
CONFIDENCE = 0.99


@dataclass(frozen=True)
class Outcome:
    r"""One trial: lean, the sum of $y_i\xi_{i,1}$; the value signal over time; when the signal row left the signal; the 0-1 error.

    tau, value (T,) on the grid; left: first tau at which every $s_{i,11}<0.1$ (nan: never); error: on unseen disjoint noise, at the end.
    """

    lean: float
    tau: Array
    value: Array
    left: float
    error: float

    @property
    def turned(self) -> bool:
        """Whether the value signal falls at the end, after having risen."""
        return bool(self.value[-1] < self.value[-2])


def lean(regime: Regime, trial: int) -> float:
    r"""$\sum_iy_i\xi_{i,1}$: the side of the signal on which the noise lies."""
    data, _ = draw_touched(regime, 0, trial)
    return float((data.y * data.noise[:, 0, 0]).sum())


def unseen_error(tr: Trajectory) -> float:
    """0-1 error at the end on noise that shares no coordinate with the samples, nor with the signal."""
    at = tr.recorded(len(tr.tau) - 1)
    signal, noise, value = fresh_gaps(at, tr.regime, draw_fresh(tr.regime, 0, tr.seed))
    attention = sigmoid(signal) + sigmoid(noise)
    return float(np.mean(attention * at.value_signal + (2 - attention) * value <= 0))


def outcome(regime: Regime, trial: int) -> Outcome:
    """Simulate one trial and read it."""
    tr = simulate_trial(regime, 0, trial)
    gone = (sigmoid(tr.gap_signal) < 0.1).all(axis=1)
    left = float(tr.tau[gone.argmax()]) if gone.any() else float("nan")
    return Outcome(lean(regime, trial), tr.tau, tr.value_signal, left, unseen_error(tr))


def _one(trial: int) -> Outcome:
    return outcome(REGIME, trial)


def rows(found: Sequence[Outcome]) -> list[list[str]]:
    """Rows (side of the noise, turned value signals of trials with their interval, when they turned, share with error > 1/2)."""
    out = []
    for name, mine in (("< 0", [o for o in found if o.lean < 0]), ("> 0", [o for o in found if o.lean > 0])):
        count = sum(o.turned for o in mine)
        low, high = stats.binomtest(count, len(mine)).proportion_ci(CONFIDENCE, method="exact") if mine else (0.0, 1.0)
        peak = [o.tau[o.value.argmax()] / STEP for o in mine if o.turned]
        turn = f"{np.median(peak):.0f} ({min(peak):.0f} to {max(peak):.0f})" if peak else "never"
        bad = sum(o.error > 0.5 for o in mine)
        out.append([f"Σ yξ_1 {name}", f"{count} of {len(mine)}", f"[{low:.3f}, {high:.3f}]", turn, f"{bad} of {len(mine)}"])
    return out


def draw(out: Path, progress: Callable[[int, int], None] | None = None) -> tuple[list[Path], str]:
    """Draw the value signal of every trial into `out`, and count the reversals."""
    found: dict[int, Outcome] = {}

    def done(trial: int, result: Outcome) -> None:
        found[trial] = result
        if progress:
            progress(len(found), SEEDS)

    execute(range(SEEDS), os.cpu_count() or 1, done, _one)
    ordered = [found[trial] for trial in range(SEEDS)]
    with mpl.rc_context(STYLE):
        figure = Figure((7.2, 3.4), layout="constrained")
        ax = figure.subplots()
        for o in ordered:
            ax.plot(o.tau / STEP, o.value, color=ORANGE if o.lean < 0 else BLUE, ls="--" if o.lean < 0 else "-", lw=0.8)
        ax.axhline(0, color=GREY, lw=0.6)
        ax.axvline(np.nanmedian([o.left for o in ordered]) / STEP, color=GREY, ls=":")
        ax.set(xlabel="t (steps of η = 1e-4); dotted: the signal row has left the signal", ylabel="⟨v, μ⟩")
        ax.plot([], [], "--", color=ORANGE, label="Σ yξ_1 < 0")
        ax.plot([], [], color=BLUE, label="Σ yξ_1 > 0")
        ax.legend(frameon=False, fontsize=8)
        svg = svg_of(figure)
    title = "Figure 5, value signal: dense noise with a part along the signal"
    published = "Our theoretical results hold empirically in those data settings (of which the value signal grows at every step)."
    columns = ("side of the noise", "value signal falls", "99 % interval", "since t", f"0-1 error > 1/2 at t = {END}")
    table = rows(ordered)
    return keep(out, "Fig.5.value", title, svg, published, columns, table), as_text(f"{title}\npublished: {published}", columns, table)
