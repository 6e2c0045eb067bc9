"""The command `verify controls`: every planted lie, and whether it was caught."""

from __future__ import annotations

from rich import box
from rich.table import Table

from verify.claim.claim import select
from verify.cli.console import Interrupted, out, print_json, progress_bar, verdict_text
from verify.cli.options import Ids, Jobs, Json, workers
from verify.controls import judge_controls
from verify.schema import VERSION


def controls(ids: Ids = None, as_json: Json = False, jobs: Jobs = None) -> int:
    """Feed every planted lie to its claim's own check: it must be REFUTED or DISPROVED within 8 trials. A truth must be SUPPORTED.

    [dim]verify controls 4.2 · verify controls --json > reports/out/last/controls.json[/dim]
    """
    count = workers(jobs)
    chosen = select(ids or [])
    with progress_bar("planting lies") as bar:
        try:
            rows = judge_controls(chosen, jobs=count, progress=bar)
        except KeyboardInterrupt:
            raise Interrupted("interrupted; nothing was written") from None
    if as_json:
        print_json({"schema": VERSION, "controls": rows})
        return 0
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("claim", "planted", "regime", "verdict", "violations", ""):
        table.add_column(name, overflow="fold")
    for row in rows:
        good = "supported" if row["truth"] else "caught"
        result = f"[green]✔ {good}[/green]" if row["caught"] else f"[bold red]✘ not {good}[/bold red]"
        name = ("truth: " if row["truth"] else "") + row["name"]
        text = f"{row['violations']} of {row['n']}" if row["n"] else "–"
        table.add_row(row["claim"], name.replace("[", r"\["), row["regime"] or "–", verdict_text(row["verdict"]), text, result)
    out.print(table)
    for row in rows:
        if not row["caught"]:
            out.print(f"{row['claim']}, {row['name']}: {row['reason']}", markup=False, soft_wrap=True)
    lies, truths = ([r for r in rows if r["truth"] is kind] for kind in (False, True))
    out.print(
        f"{sum(r['caught'] for r in lies)} of {len(lies)} lies caught, {sum(r['caught'] for r in truths)} of {len(truths)} truths supported"
    )
    return 0
