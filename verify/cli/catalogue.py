"""Commands that look nothing up but the catalogue: list, explain, schema."""

from __future__ import annotations

from typing import Annotated

import typer
from rich import box
from rich.table import Table

from verify import condition
from verify import schema as shapes
from verify.claim.claim import Claim, all_claims, find
from verify.cli.console import out, print_json
from verify.cli.options import Json
from verify.errors import VerifyError
from verify.plan import SUITES
from verify.record import describe_claim
from verify.regime import get
from verify.summary import slack_factor


def list_claims(as_json: Json = False) -> None:
    """Every claim: label, kind, title, and where the paper states it.

    [dim]verify list · verify list --json[/dim]
    """
    claims = all_claims()
    if as_json:
        print_json({"schema": shapes.VERSION, "claims": [describe_claim(c, label) for c in claims for label in c.ids]})
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("id", no_wrap=True)
    table.add_column("kind", no_wrap=True)
    for column in ("title", "source"):
        table.add_column(column, overflow="fold")
    table.add_column("controls", justify="right")
    for c in claims:
        table.add_row(", ".join(c.ids), c.kind, c.title, c.source, str(len(c.controls)))
    out.print(table)
    out.print(f"{sum(len(c.ids) for c in claims)} labels, {len(claims)} claims. `verify explain ID` says more; `verify run ID` judges one.")


def explain(label: Annotated[str, typer.Argument(metavar="ID", help="A label, as in `verify list`.")]) -> None:
    """What a claim states, what is measured, what it leans on, and how it could come out false.

    [dim]verify explain 4.2[/dim]
    """
    c = find(label)
    parts = c.parts
    users = [x for d in all_claims() if set(d.depends_on) & set(c.ids) and d is not c for x in d.ids]
    out.print(f"[bold]{', '.join(c.ids)}[/bold]  {c.title}", soft_wrap=True)
    rows = [
        ("statement", parts["statement"]),
        ("kind", f"{c.kind}, judged {_where(c)}"),
        ("conditions", parts["conditions"]),
        ("measured", parts["measured"]),
        ("unit of margin", c.units),
        ("made finite", parts["made_finite"]),
        ("constants", ", ".join(f"{k} = {x}" for k, x in c.constants.items())),
        ("source", f"{parts['source']}  ({c.location})"),
        ("proof uses", ", ".join(c.depends_on)),
        ("used by", ", ".join(users)),
        ("lies", "; ".join(x.name for x in c.controls if not x.truth)),
        ("truths", "; ".join(x.name for x in c.controls if x.truth)),
        ("declared", "; ".join(f"{k}: {x[0]} ({x[1]})" for k, x in c.expected.items())),
    ]
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in rows:
        if text:
            table.add_row(name, text.replace("[", r"\["))
    out.print(table)
    if c.conditions:
        out.print(_slack_of(c))
    out.print(f"judge it: verify run {c.id} · one trial: verify replay {c.id} --seed 0 · its lies: verify controls {c.id}")


def _where(c: Claim) -> str:
    if c.rungs:
        return f"once, over {len(c.rungs)} rungs × {c.trials_per_rung} trials ({c.suite} suite)"
    if c.regime_free:
        return "once, by proof"
    return f"in {', '.join(c.home or SUITES['default'])}" + (" (full suite)" if c.suite == "full" else "")


def _slack_of(c: Claim) -> Table:
    names = SUITES["default"]
    table = Table("leans on", "inequality", *names, box=box.SIMPLE_HEAD, title="slack of Condition 3.1, as a factor", title_justify="left")
    for p in condition.PARTS:
        if p.id in c.conditions:
            table.add_row(f"{p.id} ({p.clause})", p.latex, *(slack_factor(p.slack(get(n))) for n in names))
    return table


def schema(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="list, run, controls, bench or probe; none: all.")] = None,
) -> None:
    """The JSON Schemas of everything that is written as JSON.

    [dim]verify schema run[/dim]
    """
    if name is None:
        print_json({"version": shapes.VERSION, "schemas": {n: shapes.json_schema(n) for n in shapes.SHAPES}})
    elif name in shapes.SHAPES:
        print_json(shapes.json_schema(name))
    else:
        raise VerifyError(f"unknown schema {name!r}; known: {', '.join(shapes.SHAPES)}")
