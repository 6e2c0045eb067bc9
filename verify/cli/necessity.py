"""The command `verify matrix`: which clause does which claim need?"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.table import Table

from verify import necessity, store
from verify.claim.claim import select
from verify.cli.console import Interrupted, number, out, print_json, progress_bar, warn
from verify.cli.options import MOST_ROOT, Ids, Jobs, Json, Root, whole, workers
from verify.cli.running import DEFAULT_OUT, write_reports
from verify.errors import VerifyError
from verify.matrix import judged
from verify.matrix import matrix as make
from verify.strengths import BASE, DEFAULT_PARTS, PARTS

GLYPHS = {
    necessity.NEEDED: ("✘", "red"),
    necessity.NOT_NEEDED: ("●", "green"),
    necessity.UNDECIDED: ("?", "yellow"),
    necessity.UNDEFINED: ("–", "dim"),
    necessity.FALSE_AT_BASE: ("○", "magenta"),
}
FILE = "matrix.json"


def matrix(
    ids: Ids = None,
    part: Annotated[list[str] | None, typer.Option("--part", metavar="NAME", help="One row of clauses, or `all`; repeatable.")] = None,
    budget: Annotated[int, typer.Option("--budget", metavar="N", help="Trials in all; then it ends, undecided where it is.")] = 20_000,
    seconds: Annotated[float, typer.Option("--seconds", help="Seconds in all.")] = 900.0,
    root_seed: Root = 0,
    out_dir: Annotated[Path, typer.Option("--out", metavar="DIR", help="Gets matrix.json; a report there is written again.")] = DEFAULT_OUT,
    jobs: Jobs = None,
    as_json: Json = False,
) -> int:
    """Break one inequality of Condition 3.1 at a time, at a ladder of strengths, and see which claims still hold.

    needed: refuted at the factor shown · not needed: supported up to that factor, the largest that is tried · undecided: says why.
    The base, ladder-33, breaks n ≥ m_k⁴ itself, as every affordable regime does. Finished trials
    are kept in DIR and used again as long as neither the regime nor the source has changed. Overlapping noise (supports),
    dense orthogonalised noise (orthogonal) and more than two patches (context) take longer and are asked for by name.

    [dim]verify matrix · verify matrix 4.2 4.8.1 --part noise_strength · verify matrix --seconds 120[/dim]
    """
    whole("--budget", budget, 1, 10_000_000)
    whole("--root-seed", root_seed, 0, MOST_ROOT)
    if not 0 < seconds < 1e7:
        raise VerifyError(f"--seconds {seconds:g}: want a positive number of seconds")
    if unknown := [p for p in part or [] if p not in (*PARTS, "all")]:
        raise VerifyError(f"--part {unknown[0]}: want one of {', '.join(PARTS)}, all")
    parts = PARTS if "all" in (part or []) else part or DEFAULT_PARTS
    chosen = select(ids or [])
    if not judged(chosen):
        raise VerifyError(f"{', '.join(c.id for c in chosen)}: not judged trial by trial in {BASE}, so no clause can be broken")
    if left_out := [c.id for c in chosen if c not in judged(chosen)] if ids else []:
        warn(f"{', '.join(left_out)}: not judged trial by trial in {BASE}, left out")
    count = workers(jobs)
    store.claim_directory(out_dir)
    with progress_bar("trials") as bar:
        try:
            options: dict[str, Any] = {"parts": parts, "root": root_seed, "trials": budget, "seconds": seconds}
            made = make(chosen, **options, jobs=count, out=out_dir, progress=bar)
        except KeyboardInterrupt:
            again = shlex.join(["verify", *sys.argv[1:]])
            raise Interrupted(f"interrupted; finished trials are kept in {out_dir}. Go on with: {again}") from None
    store.write_atomic(out_dir / FILE, store.dumps(made, 1) + "\n")
    if (out_dir / store.RUN).exists():
        write_reports(out_dir, store.read_run(out_dir))
    if as_json:
        print_json(made)
    else:
        _show(made)
        out.print(str((out_dir / FILE).resolve()), markup=False, soft_wrap=True)
    return 0


def _show(made: dict[str, Any]) -> None:
    names = list(dict.fromkeys(c["part"] for c in made["cells"]))
    table = Table("claim", *(n.replace("_", " ") for n in names), box=box.SIMPLE_HEAD, pad_edge=False)
    rows: dict[str, dict[str, str]] = {}
    for c in made["cells"]:
        glyph, style = GLYPHS[c["result"]]
        factor = f" ×{number(c['factor'])}" if c["factor"] is not None else ""
        rows.setdefault(c["claim"], {})[c["part"]] = f"[{style}]{glyph}[/{style}]{factor}{'*' if c['declared'] else ''}"
    for claim, cells in rows.items():
        table.add_row(claim, *(cells.get(n, "") for n in names))
    out.print(table)
    out.print(" · ".join(f"{glyph} {result}" for result, (glyph, _) in GLYPHS.items()) + " · * named by the claim", markup=False)
    for f in made["findings"]:
        low, high = f["interval"]
        out.print(f"{f['kind']}: {f['text']} Rate in [{low:.3g}, {high:.3g}].\n    {f['command']}", markup=False, soft_wrap=True)
    if made["spent"]:
        out.print(f"ended early: {made['spent']}; the same call goes on from here", markup=False)
