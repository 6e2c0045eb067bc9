"""The command `verify probe`: where a claim stops being true, with the band in which nobody knows."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich import box
from rich.table import Table

from verify.claim.claim import Claim, find
from verify.cli.console import Interrupted, number, out, print_json, progress_bar, verdict_text
from verify.cli.options import MOST_ROOT, Json, Root, Settings, changed, settings, whole
from verify.cli.single import first_regime
from verify.errors import VerifyError
from verify.probe import Budget, Point, bisect, claim_oracle, in_words, parse_axis, sobol_map, theory_boundary
from verify.regime import Regime
from verify.schema import VERSION

MOST_TRIALS = 1_000_000


def probe(
    label: Annotated[str, typer.Argument(metavar="ID", help="A label, as in `verify list`.")],
    vary: Annotated[list[str], typer.Option("--vary", metavar="key=lo:hi[:log]", help="One key: bisection; two: a Sobol map.")],
    regime: Annotated[
        str | None, typer.Option("--regime", metavar="NAME|FILE.toml", help="Start from (default: the claim's first).")
    ] = None,
    set_: Settings = None,
    budget: Annotated[int, typer.Option("--budget", metavar="N", help="Trials in all; then it ends, undecided where it is.")] = 4000,
    seconds: Annotated[float, typer.Option("--seconds", help="Seconds in all.")] = 600.0,
    root_seed: Root = 0,
    as_json: Json = False,
) -> int:
    """Vary one or two parameters and find where the claim breaks, each point judged until an anytime-valid verdict.

    [dim]verify probe 4.2 --vary sigma_p=0.01:1:log --regime fig1 · verify probe 4.2 --vary eta=1e-5:1e-2:log --vary m_k=8:128 --json[/dim]
    """
    whole("--budget", budget, 1, MOST_TRIALS)
    whole("--root-seed", root_seed, 0, MOST_ROOT)
    if not 0 < seconds < 1e7:
        raise VerifyError(f"--seconds {seconds:g}: want a positive number of seconds")
    axes = [parse_axis(text) for text in vary]
    if len(axes) > 2 or len({axis.key for axis in axes}) < len(axes):
        raise VerifyError("--vary: want one key, or two different ones")
    claim = find(label)
    if claim.regime_free or claim.over == "law":
        raise VerifyError(f"{claim.id} is not judged trial by trial in a regime, so there is nothing to probe")
    change = settings(set_)
    base = changed(regime, change) if regime else first_regime(claim, change)
    try:
        found = _probe(claim, base, axes, Budget(budget, seconds), root_seed)
    except KeyboardInterrupt:
        raise Interrupted("interrupted; nothing was written") from None
    words = ["verify", "probe", label, *(w for text in vary for w in ("--vary", text)), *(["--regime", regime] if regime else [])]
    words += [w for text in set_ or [] for w in ("--set", text)] + ["--budget", str(budget), "--seconds", f"{seconds:g}"]
    found["command"] = shlex.join(words + (["--root-seed", str(root_seed)] if root_seed else []))
    if as_json:
        print_json(found)
    else:
        _show(found)
    return 0


def _probe(claim: Claim, base: Regime, axes: list[Any], budget: Budget, root: int) -> dict[str, Any]:
    oracle = claim_oracle(claim, base, root)
    delta = claim.bound(base)
    found: dict[str, Any] = {"schema": VERSION, "claim": claim.id, "regime": base.name, "root_seed": root, "delta": delta}
    with progress_bar("trials") as bar:

        def progress(_: Point) -> None:
            bar(budget.spent, budget.trials)

        if len(axes) == 2:
            points = sobol_map(oracle, axes, delta, budget, seed=root, progress=progress)
            found |= {"boundary": [], "interval": [], "theory": [], "text": budget.left()}
        else:
            boundary = bisect(oracle, axes[0], delta, budget, progress=progress)
            points, theory = boundary.points, theory_boundary(base, axes[0])
            found |= {
                "boundary": [] if boundary.estimate is None else [boundary.estimate],
                "interval": list(boundary.interval or []),
                "theory": theory,
                "text": in_words(boundary, theory),
            }
    return found | {"verdicts": [asdict(p) for p in points], "trials": budget.spent}


def _show(found: dict[str, Any]) -> None:
    keys = list(found["verdicts"][0]["values"]) if found["verdicts"] else []
    table = Table(*keys, "verdict", "violations", "", box=box.SIMPLE_HEAD)
    for p in found["verdicts"]:
        counts = f"{p['violations']} of {p['n']}"
        table.add_row(*(number(p["values"][k]) for k in keys), verdict_text(p["verdict"]), counts, p["reason"].replace("[", r"\["))
    out.print(f"{found['claim']} from {found['regime']}, {found['trials']} trials", markup=False)
    out.print(table)
    if found["text"]:
        out.print(found["text"], markup=False, soft_wrap=True)
