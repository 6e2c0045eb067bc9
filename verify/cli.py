"""The command line (thin slice)."""

from __future__ import annotations

import os
from pathlib import Path

import typer

from verify import runner, store
from verify.claim.claim import select
from verify.regime import get

app = typer.Typer()


@app.callback()
def _root() -> None: ...


@app.command()
def run(
    ids: list[str] = typer.Argument(None),
    regime: list[str] = typer.Option([]),
    seeds: int = 120,
    out: Path = Path("out"),
    jobs: int = os.cpu_count() or 1,
    resume: bool = False,
):
    made = runner.plan(select(ids or []), [get(r) for r in regime] or runner.suite_regimes("default"), seeds, 0, homes=not regime)
    rec = runner.run(made, out=out, jobs=jobs, resume=resume)
    store.write_atomic(out / "run.json", store.dumps(rec, 1))
    for r in rec["verdicts"]:
        print(r["id"], r["regime"], r["verdict"], r["n"], r["violations"], r["share"], r["margin"], r["witness"], r["reason"])
    print(rec["run"]["timing"])


def main() -> None:
    app()
