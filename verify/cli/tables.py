"""Tables of a run record for the terminal."""

from __future__ import annotations

from collections import Counter
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from verify.claim import verdict as v
from verify.cli.console import number, out, verdict_text
from verify.merge import met
from verify.summary import slack_factor

Record = dict[str, Any]
UNDECIDED = (v.INCONCLUSIVE, v.UNPROVEN, v.NOT_RUN)


def condition_table(run: Record) -> Table:
    """Condition 3.1 with the slack of every inequality in every regime of the run."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title="Condition 3.1: slack as a factor (constant 1)", title_justify="left")
    table.add_column("clause")
    table.add_column("part")
    for regime in run["regimes"]:
        table.add_column(Text(regime["name"]), justify="right")
    for part in run["condition"]:
        cells = [slack_factor(r["slack"][part["id"]]) for r in run["regimes"]]
        table.add_row(part["clause"], part["id"], *(Text(c, style="red" if "broken" in c else "") for c in cells))
    return table


def verdict_table(rows: list[Record]) -> Table:
    """Verdicts, one line per claim and regime; k of n are violations of trials that count."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, expand=True)
    for name, where in (
        ("id", "left"),
        ("regime", "left"),
        ("verdict", "left"),
        ("k of n", "right"),
        ("worst", "right"),
        ("median", "right"),
    ):
        table.add_column(name, justify=where, no_wrap=True)  # type: ignore[arg-type]
    table.add_column("as declared?", overflow="ellipsis", no_wrap=True, ratio=1)
    for row in rows:
        if row["same_as"] and not _first(row, rows):
            continue
        margin = row["margin"]
        labels = ", ".join([row["id"], *row["same_as"]])
        count = f"{row['violations']} of {row['n']}" if row["n"] else "–"
        table.add_row(
            labels,
            Text(row["regime"] or "–"),
            verdict_text(row["verdict"]),
            count,
            number(margin["worst"]),
            number(margin["median"]),
            _expectation(row),
        )
    return table


def _first(row: Record, rows: list[Record]) -> bool:
    """Whether this is the first of the rows that one object with several labels has in a regime."""
    twins = {row["id"], *row["same_as"]}
    return next(r["id"] for r in rows if r["id"] in twins and r["regime"] == row["regime"]) == row["id"]


def _expectation(row: Record) -> Text:
    declared = met(row)
    if declared is None:
        return Text(row["reason"], style="dim")
    wanted = row["expected"]["verdict"]
    if not declared and row["verdict"] in UNDECIDED:
        return Text(f"? {wanted} declared; {row['reason']}", style="yellow")
    if not declared:
        return Text(f"✘ {wanted} declared; {row['reason']}", style="bold red")
    return Text("✔" if wanted in v.HOLDS else f"✔ declared: {row['expected']['reason']}", style="green" if wanted in v.HOLDS else "dim")


def show(record: Record) -> None:
    """Print a whole record: condition, verdicts, counts."""
    rows = record["verdicts"]
    if record["run"]["regimes"]:
        out.print(condition_table(record["run"]))
    out.print(verdict_table(rows))
    counts = Counter(r["verdict"] for r in rows)
    unmet = [r for r in rows if met(r) is False]
    open_ones = sum(r["verdict"] in UNDECIDED for r in unmet)
    text = ", ".join(f"{counts[x]} {x}" for x in v.VERDICTS if counts[x])
    undecided = f" ({open_ones} of them undecided)" if open_ones else ""
    out.print(f"{len(rows)} verdicts: {text}. {len(unmet)} not as declared{undecided}.", markup=False, soft_wrap=True)
