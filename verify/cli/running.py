"""Commands on whole runs: run, report, diff."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import typer

from verify import store
from verify.claim import verdict as v
from verify.claim.claim import select
from verify.cli.console import Interrupted, out, progress_bar, warn
from verify.cli.options import MOST_ROOT, MOST_SEEDS, Ids, Jobs, Regimes, Root, Settings, settings, whole, workers
from verify.cli.tables import show
from verify.errors import RecordError
from verify.junit import junit
from verify.plan import Plan, plan, suite_claims, suite_regimes
from verify.regime import get
from verify.runner import kept
from verify.runner import run as run_plan
from verify.schema import BenchmarkRow, ControlRow, FigureRow, MatrixRecord, ProbeResult
from verify.summary import summary

Record = dict[str, Any]
EXTRAS: dict[str, Any] = {
    "controls": list[ControlRow],
    "matrix": MatrixRecord,
    "probes": list[ProbeResult],
    "figures": list[FigureRow],
    "bench": list[BenchmarkRow],
}
"""Files DIR/NAME.json that a report shows when they are there: what other commands printed with --json."""
DEFAULT_OUT = Path("reports/out/last")


def run(
    ids: Ids = None,
    suite: Annotated[Literal["default", "full"], typer.Option(help="Which claims and regimes, where none are named.")] = "default",
    regime: Regimes = None,
    seeds: Annotated[int, typer.Option("--seeds", metavar="N", help="Trials per regime; 88 without a violation support a claim.")] = 120,
    root_seed: Root = 0,
    set_: Settings = None,
    out_dir: Annotated[Path, typer.Option("--out", metavar="DIR", help="Gets run.json, index.html, junit.xml, summary.md.")] = DEFAULT_OUT,
    jobs: Jobs = None,
    resume: Annotated[bool, typer.Option("--resume", help="Use the finished trials of an interrupted run in DIR.")] = False,
    fail_on: Annotated[Literal["refuted"] | None, typer.Option("--fail-on", help="Exit with 1 if any verdict is that.")] = None,
) -> int:
    """Simulate, derive, count and judge claims.

    [dim]verify run · verify run 4.2 4.4.1 --seeds 200 · verify run 4.2 --regime fig1 --set eta=2e-4 --out /tmp/o · verify run --resume[/dim]
    """
    whole("--seeds", seeds, 1, MOST_SEEDS)
    whole("--root-seed", root_seed, 0, MOST_ROOT)
    count = workers(jobs)
    made = _plan(ids or [], suite, regime or [], seeds, root_seed, set_ or [])
    store.claim_directory(out_dir)
    if not resume and (ignored := len(kept(made, out_dir))):
        warn(f"{ignored} finished trials in {out_dir} are ignored and will be replaced; --resume would use them")
    with progress_bar("judging") as bar:
        try:
            record = run_plan(made, out=out_dir, jobs=count, resume=resume, progress=bar)
        except KeyboardInterrupt:
            finished = len(kept(made, out_dir))
            again = shlex.join(["verify", *(a for a in sys.argv[1:] if a != "--resume"), "--resume"])
            raise Interrupted(f"interrupted; {finished} of {len(made.tasks)} trials are kept in {out_dir}. Go on with: {again}") from None
    store.write_atomic(out_dir / store.RUN, store.dumps(record, 1) + "\n")
    show(record)
    page = write_reports(out_dir, record)
    refuted = [r for r in record["verdicts"] if r["verdict"] in v.FAILS]
    timing = record["run"]["timing"]
    out.print(f"{timing['wall_s']:.1f} s on {count} workers, {timing['cpu_s']:.1f} s of work", markup=False)
    out.print(str(page.resolve()), markup=False, soft_wrap=True)
    return 1 if fail_on and refuted else 0


def _plan(ids: list[str], suite: str, regimes: list[str], seeds: int, root: int, changes: list[str]) -> Plan:
    claims = select(ids) if ids else suite_claims(select([]), suite)
    words = ["verify", "run", *ids, "--suite", suite] if suite != "default" else ["verify", "run", *ids]
    for name, values in (("--regime", regimes), ("--set", changes)):
        words += [w for value in values for w in (name, value)]
    words += ["--seeds", str(seeds)] + (["--root-seed", str(root)] if root else [])
    chosen = [get(r) for r in regimes] or suite_regimes(suite)
    return plan(claims, chosen, seeds, root, homes=not regimes, settings=settings(changes), command=shlex.join(words))


def write_reports(directory: Path, record: Record) -> Path:
    """index.html, junit.xml and summary.md beside run.json; returns the page's path."""
    store.write_atomic(directory / store.JUNIT, junit(record))
    store.write_atomic(directory / store.SUMMARY, summary(record))
    from reports import extract, render

    page = directory / store.PAGE
    try:
        previous = extract(page.read_text(encoding="utf-8")) if page.exists() else []
        for earlier in previous:
            msgspec.convert(earlier, dict[str, Any])
    except (OSError, ValueError):
        warn(f"{page} cannot be read: its history of earlier runs is lost")
        previous = []
    store.write_atomic(page, render(record, previous=previous, extras=_extras(directory)))
    return page


def _extras(directory: Path) -> Record:
    """What lies beside run.json, by name; a file of another shape is left out with a warning, so that it cannot end a long run."""
    extras: Record = {}
    for name, shape in EXTRAS.items():
        path = directory / f"{name}.json"
        if not path.exists():
            continue
        try:
            data = store.read_json(path)
            # A command prints {"controls": [...]}, the page wants the rows.
            rows = data.get({"bench": "benchmarks"}.get(name, name), data) if isinstance(data, dict) else data
            msgspec.convert(rows, shape)
        except (RecordError, msgspec.ValidationError) as error:
            warn(f"{path} is left out of the page: {error}")
            continue
        extras[name] = rows
    return extras


def report(directory: Annotated[Path, typer.Argument(metavar="DIR", help="A directory that `verify run` wrote.")]) -> int:
    """Write index.html, junit.xml and summary.md again from run.json (and controls.json, bench.json, … if they are there).

    [dim]verify controls --json > DIR/controls.json; verify report DIR[/dim]
    """
    from jinja2 import TemplateError

    record = store.read_run(directory)
    try:
        page = write_reports(directory, record)
    except (ArithmeticError, AttributeError, LookupError, TemplateError, TypeError, ValueError) as error:
        raise RecordError(f"{directory / store.RUN} cannot be shown: {type(error).__name__}: {error}; was it edited by hand?") from None
    out.print(str(page.resolve()), markup=False, soft_wrap=True)
    return 0


def diff(
    before: Annotated[Path, typer.Argument(metavar="DIR_A", help="The earlier run.")],
    after: Annotated[Path, typer.Argument(metavar="DIR_B", help="The later run.")],
) -> int:
    """What changed from one run to another: newly failing or holding, margins that moved beyond their interval, redefined claims.

    Exit status 1 if something newly fails. [dim]verify diff reports/out/last /tmp/o[/dim]
    """
    from reports import diff as compare

    changes = compare(store.read_run(before), store.read_run(after))
    listed = (
        ("newly failing", "red", changes.failing),
        ("newly holding", "green", changes.holding),
        ("verdict changed", "yellow", changes.other),
        ("margin moved", "cyan", changes.moved),
    )
    for title, style, entries in listed:
        for label, regime, text in entries:
            out.print(f"[{style}]{title:16}[/{style}]", end="")
            out.print(f"{label}{f' in {regime}' if regime else ''}: {text}", markup=False, soft_wrap=True)
    for title, labels in (("redefined", changes.redefined), ("new", changes.added), ("gone", changes.removed)):
        if labels:
            out.print(f"{title:16}{', '.join(labels)}", markup=False, soft_wrap=True)
    if not changes.any:
        out.print("nothing differs")
    return 1 if changes.failing else 0
