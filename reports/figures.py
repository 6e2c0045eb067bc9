"""Figures and tables of the paper, ours next to the published reading: `verify figure NAME`.

Each function simulates (this module alone of `reports` does), draws an SVG into `out`, adds itself to `out`/figures.json, from
which a report shows it, and returns the paths with a text for the terminal.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from lemmas.experiments import PATTERNS, table_2
from verify import Trajectory, get, sigmoid, simulate_trial
from verify.store import dumps, write_atomic

Progress = Callable[[int, int], None] | None
Drawn = tuple[list[Path], str]
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#555555"  # Okabe-Ito, told apart in grey by line style as well
SEEDS = 8
STYLE: dict[Any, Any] = {
    "svg.hashsalt": "signgd-lemmas",
    "svg.fonttype": "none",
    "font.size": 9,
    "font.family": "sans-serif",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.4,
}


def svg_of(figure: Figure) -> str:
    """The figure as SVG text without a date: equal data give equal bytes."""
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return text.getvalue()


def keep(out: Path, name: str, title: str, svg: str, published: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[Path]:
    """Write NAME.svg, and enter the figure into figures.json."""
    drawing = out / f"{name.replace('.', '_')}.svg"
    write_atomic(drawing, svg)
    index = out / "figures.json"
    known: list[dict[str, Any]] = []
    if index.exists():
        known = [f for f in json.loads(index.read_text(encoding="utf-8")) if f["name"] != name]
    inline = svg[svg.index("<svg") :]
    entry: dict[str, Any] = {"name": name, "title": title, "svg": inline, "published": published, "command": f"verify figure {name}"}
    entry["table"] = {"columns": list(columns), "rows": [[str(x) for x in row] for row in rows]}
    write_atomic(index, dumps(sorted([*known, entry], key=lambda f: f["name"])))
    return [drawing]


def as_text(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A plain aligned table."""
    cells = [list(map(str, columns)), *[list(map(str, row)) for row in rows]]
    widths = [max(len(row[c]) for row in cells) for c in range(len(columns))]
    lines = ["  ".join(x.ljust(w) for x, w in zip(row, widths, strict=True)).rstrip() for row in cells]
    return "\n".join([title, *lines])


def tab_2(out: Path, progress: Progress = None, seeds: int = 200) -> Drawn:
    """Table 2: pairs by sign pattern at t = 0 (rows) and t = 10 (columns), published and ours."""
    table = table_2(seeds)
    if progress:
        progress(1, 1)
    names = [p.replace("−", "-") for p in PATTERNS]
    rows = [
        [
            f"{names[a]} -> {names[b]}",
            int(table.published[a, b]),
            f"{table.mean[a, b]:.1f} ± {table.deviation[a, b]:.1f}",
            f"[{max(table.low[a, b], 0):.0f}, {table.high[a, b]:.0f}]",
            f"{table.position[a, b]:.3f}",
        ]
        for a in range(4)
        for b in range(4)
    ]
    columns = ["pattern at t=0 -> t=10", "published", f"ours ({seeds} seeds)", "central 99 %", "share of ours below"]
    with mpl.rc_context(STYLE):
        figure = Figure((7.2, 3.4), layout="constrained")
        ax = figure.subplots()
        x = np.arange(16)
        mean, low, high = (np.asarray(v).ravel() for v in (table.mean, table.low, table.high))
        ax.vlines(x, np.maximum(low, 0.3), high, color=BLUE, lw=5, alpha=0.35, label="ours: central 99 %")
        ax.plot(x, np.maximum(mean, 0.3), "_", color=BLUE, ms=12, mew=2, label="ours: mean")
        ax.plot(x, np.maximum(table.published.ravel(), 0.3), "x", color=ORANGE, ms=7, mew=1.8, label="published (0 drawn at 0.3)")
        ax.set_yscale("log")
        ax.set_xticks(x, [row[0].replace(" -> ", "\n") for row in rows], fontsize=6)
        ax.set_ylabel("pairs (s, i) of 2000")
        ax.legend(frameon=False, fontsize=8, loc="upper center", ncols=3, bbox_to_anchor=(0.5, 1.14))
        svg = svg_of(figure)
    published = "Table 2: counts of the 2000 pairs (s, i) by sign class at t = 0 and t = 10; columns sum to 990, 17, 16, 977."
    title = "Table 2: sign classes of query and key noise at the start and at t = 10"
    return keep(out, "Tab.2", title, svg, published, columns, rows), as_text(title, columns, rows)


READINGS = ("what", "published reading", f"ours (median of {SEEDS} seeds, range)")


def _spread(values: Sequence[float], unit: str = "") -> str:
    v = np.asarray(values, float)
    return f"{np.median(v):.3g}{unit} ({v.min():.3g} to {v.max():.3g})"


def _readings(trs: Sequence[Trajectory]) -> list[list[str]]:
    eta = trs[0].regime.eta

    def at(tr: Trajectory, t: float, gap: str) -> Any:
        return sigmoid(getattr(tr, gap)[tr.index(t * eta)])

    return [
        ["noise-signal softmax s_21 at t = 150, largest", "near 0", _spread([at(tr, 150, "gap_noise").max() for tr in trs])],
        ["signal-signal softmax s_11 at t = 150, mean", "near 1/2", _spread([at(tr, 150, "gap_signal").mean() for tr in trs])],
        ["key noise: last change of sign (t)", "before query noise", _spread([tr.crossings["key_noise"].tau.max() / eta for tr in trs])],
        ["query noise: last change of sign (t)", "after key noise", _spread([tr.crossings["query_noise"].tau.max() / eta for tr in trs])],
        ["training loss at t = 900", "small", _spread([float(np.exp(tr.log_loss[tr.index(900 * eta)])) for tr in trs])],
    ]


def _early_panels(left: Axes, right: Axes) -> None:
    """(a) key noise and (b) value noise over the first two steps, resolved by eta = 1e-7."""
    fine = simulate_trial(get("fig1").change(eta=1e-7, horizon=2e-4), 0, 0)
    t = fine.tau / 1e-4
    left.plot(t, fine.key_noise[:, :4].reshape(len(t), -1)[:, ::4], color=BLUE, lw=0.7)
    left.set(title="(a) key noise", xlabel="t (in steps of η = 1e-4)", ylabel="⟨w_K, yξ⟩")
    right.plot(t, fine.value_noise, color=BLUE, lw=0.6, alpha=0.6)
    right.plot(t, fine.value_noise.mean(axis=1), color=ORANGE, lw=2, label="mean over samples")
    right.set(title="(b) value noise", xlabel="t (in steps of η = 1e-4)", ylabel="⟨v, yξ⟩")
    right.legend(frameon=False, fontsize=8)


def _softmax_panel(ax: Axes, tr: Trajectory, last: float) -> None:
    t = tr.tau / tr.regime.eta
    for gap, colour, style, name in (("gap_signal", GREEN, "-", "s_11 signal-signal"), ("gap_noise", ORANGE, "--", "s_21 noise-signal")):
        s = sigmoid(getattr(tr, gap))
        ax.fill_between(t, s.min(axis=1), s.max(axis=1), color=colour, alpha=0.2, lw=0)
        ax.plot(t, s.mean(axis=1), style, color=colour, label=name)
    ax.set(title="(c) softmax outputs", xlabel="t (steps)", ylabel="attention to signal", xlim=(0, last), ylim=(0, 0.55))
    ax.legend(frameon=False, fontsize=8)


def _neuron_panel(ax: Axes, tr: Trajectory, last: float) -> None:
    neuron = int(np.flatnonzero(tr.query_signal[tr.index(0.02)] > 0)[0])
    t = tr.tau / tr.regime.eta
    scale = tr.l1.mean()
    ax.plot(t, tr.query_noise[:, neuron], color=BLUE, lw=0.7, ls="-")
    ax.plot(t, tr.key_noise[:, neuron], color=ORANGE, lw=0.7, ls="--")
    ax.plot(t, tr.query_signal[:, neuron] * scale, color="black", lw=2, ls=":")
    ax.axhline(0, color=GREY, lw=0.5)
    ax.set(title=f"(d) neuron {neuron}, positive query signal", xlabel="t (steps)", ylabel="inner product", xlim=(0, last))
    handles = [Line2D([], [], color=c, ls=s) for c, s in ((BLUE, "-"), (ORANGE, "--"), ("black", ":"))]
    ax.legend(handles, ["query noise", "key noise", f"query signal × {scale:.3g}"], frameon=False, fontsize=8)


def _figure_1(out: Path, name: str, title: str, last: float, progress: Progress, stages: bool) -> Drawn:
    trs = []
    for seed in range(SEEDS):
        trs.append(simulate_trial(get("fig1"), 0, seed))
        if progress:
            progress(seed + 1, SEEDS)
    with mpl.rc_context(STYLE):
        figure = Figure((8.4, 5.6), layout="constrained")
        axes = figure.subplots(2, 2)
        _early_panels(axes[0, 0], axes[0, 1])
        _softmax_panel(axes[1, 0], trs[0], last)
        _neuron_panel(axes[1, 1], trs[0], last)
        if stages:
            for ax in axes[1]:
                for t, stage in ((2, "I"), (10, "II"), (40, "III"), (last, "IV")):
                    ax.axvline(t, color=GREY, lw=0.5, ls=":")
                    ax.annotate(stage, (t, 1), xycoords=("data", "axes fraction"), ha="right", va="top", fontsize=7, color=GREY)
                ax.set_xscale("log")
                ax.set_xlim(1, last)
        svg = svg_of(figure)
    rows = _readings(trs)
    published = (
        "Key noise stays at its initial value for t in [0, 2] while mean value noise becomes linear; s_21 is near 0 at t = 150 while s_11 is "
        "near 1/2; unaligned key noise turns first, query noise later, all aligned by the end. Stages: I 0-2, II 2-10, III 10-40, IV 40-2000."
    )
    return keep(out, name, title, svg, published, READINGS, rows), as_text(f"{title}\npublished: {published}", READINGS, rows)


def fig_1(out: Path, progress: Progress = None) -> Drawn:
    """Figure 1: early noise, softmax outputs to t = 900, one neuron."""
    return _figure_1(out, "Fig.1", "Figure 1: the four stages at a glance", 900, progress, stages=False)


def fig_17(out: Path, progress: Progress = None) -> Drawn:
    """Figure 17: the same with the stages marked on a logarithmic axis."""
    return _figure_1(out, "Fig.17", "Figure 17: the four stages, marked", 2000, progress, stages=True)


def fig_18(out: Path, progress: Progress = None) -> Drawn:
    """Figure 18: every quantity over the full horizon."""
    trs = []
    for seed in range(SEEDS):
        trs.append(simulate_trial(get("fig1"), 0, seed))
        if progress:
            progress(seed + 1, SEEDS)
    tr = trs[0]
    t = tr.tau / tr.regime.eta
    panels = (
        ("value noise", tr.value_noise, "⟨v, yξ⟩"),
        ("value signal", tr.value_signal[:, None], "⟨v, μ⟩"),
        ("query noise", tr.query_noise[:, ::10].reshape(len(t), -1)[:, ::4], "⟨w_Q, yξ⟩"),
        ("key noise", tr.key_noise[:, ::10].reshape(len(t), -1)[:, ::4], "⟨w_K, yξ⟩"),
        ("query signal", tr.query_signal, "⟨w_Q, μ⟩"),
        ("key signal", tr.key_signal, "⟨w_K, μ⟩"),
        ("training loss", np.exp(tr.log_loss)[:, None], "L_S"),
    )
    with mpl.rc_context(STYLE):
        figure = Figure((8.4, 9.6), layout="constrained")
        axes = figure.subplots(4, 2).ravel()
        for ax, (name, values, unit) in zip(axes, panels, strict=False):
            ax.plot(t, values, color=BLUE, lw=0.5, alpha=0.7)
            ax.set(title=name, xlabel="t (steps)", ylabel=unit, xlim=(0, 2000))
        axes[6].set_yscale("log")
        _softmax_panel(axes[7], tr, 2000)
        axes[7].set_title("softmax outputs")
        svg = svg_of(figure)
    rows = _readings(trs)
    title = "Figure 18: every quantity over 2000 steps"
    published = "Every inner product is linear but for the turns of unaligned noise; attention to signal dies in both rows; the loss falls linearly."
    return keep(out, "Fig.18", title, svg, published, READINGS, rows), as_text(f"{title}\npublished: {published}", READINGS, rows)


def _violated(name: str) -> Callable[..., Drawn]:
    def drawn(out: Path, progress: Progress = None) -> Drawn:
        from reports.figures_violated import draw

        return draw(name, out, progress)

    return drawn


def _value_signal(out: Path, progress: Progress = None) -> Drawn:
    from reports.figures_value import draw

    return draw(out, progress)


FIGURES: dict[str, Callable[..., Drawn]] = {
    "Tab.2": tab_2,
    "Fig.1": fig_1,
    **{name: _violated(name) for name in ("Fig.3", "Fig.4", "Fig.5", "Fig.9", "Fig.10", "Fig.11")},
    "Fig.5.value": _value_signal,
    "Fig.17": fig_17,
    "Fig.18": fig_18,
}
"""Every figure and table, by the paper's name."""
