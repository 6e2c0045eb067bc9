"""Commands on one thing: replay of a trial, a figure, the benchmarks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich import box
from rich.table import Table

from verify.claim.check import Check
from verify.claim.claim import Claim, find
from verify.cli.console import number, out, print_json, progress_bar, spark, verdict_text
from verify.cli.options import MOST_ROOT, MOST_SEEDS, Json, Root, Settings, changed, settings, whole
from verify.errors import VerifyError
from verify.judge import Trial, inputs_of, judge_free
from verify.plan import SUITES
from verify.regime import Regime
from verify.schema import VERSION

CURVE_ROWS = 12


def replay(
    label: Annotated[str, typer.Argument(metavar="ID", help="A label, as in `verify list`.")],
    seed: Annotated[int, typer.Option("--seed", metavar="S", help="The trial's number.")],
    regime: Annotated[str | None, typer.Option("--regime", metavar="NAME|FILE.toml", help="Where (default: the claim's first).")] = None,
    set_: Settings = None,
    root_seed: Root = 0,
) -> int:
    """One trial of a claim: margin over time, the worst (t, s, i), the share of pairs.

    [dim]verify replay 4.2 --seed 17 --regime ladder-33[/dim]
    """
    whole("--seed", seed, 0, MOST_SEEDS - 1)
    whole("--root-seed", root_seed, 0, MOST_ROOT)
    c = find(label)
    change = settings(set_)
    if c.kind in ("identity", "analytic"):
        _replay_proof(c)
    elif c.rungs:
        _replay_rungs(c, root_seed, seed)
    else:
        where = changed(regime, change) if regime else first_regime(c, change)
        _replay_trial(c, Trial(where, root_seed, seed))
    return 0


def first_regime(c: Claim, change: dict[str, Any]) -> Regime:
    """The first regime of the default suite, or home, in which the claim makes sense."""
    regimes = [changed(name, change) for name in c.home or SUITES["default"]]
    return next((r for r in regimes if c.undefined(r) is None), regimes[0])


def _replay_proof(c: Claim) -> None:
    proof = judge_free(c)
    out.print(f"{c.id} has no trials: it is decided once", markup=False)
    out.print(verdict_text({True: "PROVED", False: "DISPROVED", None: "UNPROVEN"}[proof.proved]))
    for text in (*proof.steps, proof.witness):
        if text:
            out.print(f"  {text}", markup=False, soft_wrap=True)


def _replay_rungs(c: Claim, root: int, seed: int) -> None:
    assert c.measure is not None
    table = Table("rung", "measured", box=box.SIMPLE_HEAD)
    for rung in c.rungs:
        table.add_row(rung.name.replace("[", r"\["), _short(c.measure(*inputs_of(c, Trial(rung, root, seed)))))
    out.print(f"{c.id}, seed {seed}: what this trial contributes to the law", markup=False)
    out.print(table)


def _replay_trial(c: Claim, trial: Trial) -> None:
    r = trial.regime
    if reason := c.undefined(r):
        raise VerifyError(f"{c.id} makes no sense in {r.name}: {reason}")
    out.print(f"{c.id}  {c.title}\nregime {r.name}, seed {trial.seed}, root seed {trial.root}", markup=False, soft_wrap=True)
    arguments = inputs_of(c, trial)
    if c.over == "law":
        assert c.measure is not None
        out.print(f"what this trial contributes to the law: {_short(c.measure(*arguments))}", markup=False, soft_wrap=True)
        return
    check = c.function(*arguments)
    if not check.occurred:
        out.print("the conditioning event did not occur in this trial: it does not count", markup=False)
        return
    _show_check(check, r, c.units)


def _show_check(check: Check, r: Regime, units: str) -> None:
    form = "all" if r.judged == "all" else "a share of at least 1-p"
    out.print(("[green]● holds[/green]" if check.holds else "[red]✘ violated[/red]") + f" ({form} of the pairs, neurons or samples)")
    if check.numeric:
        out.print(f"numeric flag: {check.numeric}", markup=False)
    w = check.witness
    step = number(w.tau / r.eta) if w.tau is not None and r.eta else "–"
    rows = [
        ("margin", f"{number(check.margin)}  ({units})"),
        ("share that satisfies it", f"{100 * check.share:.4g} %"),
        ("all of them", f"{'yes' if check.all_hold else 'no'}, worst margin {number(check.worst)}"),
        ("worst at", f"τ = {number(w.tau)}, t = {step}, s = {_index(w.s)}, i = {_index(w.i)}"),
        *((name.replace("_", " "), _short(x)) for name, x in check.detail.items()),
    ]
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in rows:
        table.add_row(name, text.replace("[", r"\["))
    out.print(table)
    if check.curve is not None:
        _show_curve(*check.curve, r)


def _show_curve(tau: Any, margin: Any, r: Regime) -> None:
    tau, margin = np.asarray(tau, float), np.asarray(margin, float)
    out.print(f"\nmargin of the worst pair, τ = {number(tau[0])} … {number(tau[-1])}, {number(np.min(margin))} … {number(np.max(margin))}:")
    out.print(spark(margin.tolist()), markup=False)
    table = Table("τ", *(["t"] if r.eta else []), "margin", box=box.SIMPLE_HEAD)
    worst = int(np.argmin(margin))
    chosen = sorted({*np.linspace(0, len(tau) - 1, min(CURVE_ROWS, len(tau))).astype(int).tolist(), worst})
    for k in chosen:
        cells = [number(tau[k]), *([number(tau[k] / r.eta)] if r.eta else []), number(margin[k]) + ("  ← worst" if k == worst else "")]
        table.add_row(*cells)
    out.print(table)


def _index(x: int | None) -> str:
    return "–" if x is None else str(x)


def _short(x: Any) -> str:
    text = np.array2string(np.asarray(x), precision=4, threshold=20) if isinstance(x, (list, tuple, np.ndarray)) else x
    return number(text) if isinstance(text, float) else str(text)


def figure(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Tab.2, Fig.1, …; none: the list.")] = None,
    out_dir: Annotated[Path, typer.Option("--out", metavar="DIR", help="Gets the drawing.")] = Path("reports/out/figures"),
) -> int:
    """A figure or table of the paper, ours next to the published reading.

    [dim]verify figure Tab.2[/dim]
    """
    from reports.figures import FIGURES

    if name is None:
        for known in FIGURES:
            out.print(known, markup=False)
        return 0
    if name not in FIGURES:
        raise VerifyError(f"unknown figure {name!r}; known: {', '.join(FIGURES)}")
    with progress_bar(name) as bar:
        paths, text = FIGURES[name](out_dir, bar)
    out.print(text, markup=False, soft_wrap=True)
    for path in paths:
        out.print(str(Path(path).resolve()), markup=False, soft_wrap=True)
    return 0


def bench(as_json: Json = False) -> int:
    """The benchmarks: median time of each, and how many times faster than its baseline.

    [dim]verify bench --json[/dim]
    """
    from verify.bench import run_benchmarks

    with progress_bar("benchmarks") as bar:
        rows = run_benchmarks(bar)
    if as_json:
        print_json({"schema": VERSION, "benchmarks": rows})
        return 0
    table = Table("benchmark", "median", "baseline", "ratio", "note", box=box.SIMPLE_HEAD)
    for row in rows:
        baseline = f"{row['baseline']:.4g} s" if row["baseline"] else "–"
        ratio = f"× {row['ratio']:.4g}" if row["ratio"] else "–"
        table.add_row(row["name"], f"{row['median_s']:.4g} s", baseline, ratio, str(row.get("note", "")))
    out.print(table)
    return 0
