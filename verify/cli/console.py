"""What the terminal shows: results on stdout, progress and warnings on stderr, verdicts by glyph besides colour."""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from verify.claim import verdict as v

WIDE = 150
"""Columns where the output is no terminal (a file or a pipe does not wrap)."""


def _console(stream: TextIO, **options: Any) -> Console:
    width = None if stream.isatty() or "COLUMNS" in os.environ else WIDE
    return Console(highlight=False, width=width, **options)


out = _console(sys.stdout)
err = _console(sys.stderr, stderr=True)

STYLES = {
    v.PROVED: ("■", "green"),
    v.SUPPORTED: ("●", "green"),
    v.INCONCLUSIVE: ("?", "yellow"),
    v.UNPROVEN: ("?", "yellow"),
    v.VACUOUS: ("○", "yellow"),
    v.NUMERIC: ("!", "magenta"),
    v.ERROR: ("!", "magenta"),
    v.NOT_RUN: ("–", "dim"),
    v.REFUTED: ("✘", "red"),
    v.DISPROVED: ("✘", "red"),
}
BARS = "▁▂▃▄▅▆▇█"


class Interrupted(Exception):
    """Ctrl-C during long work; the text says how to go on (exit status 130)."""


def verdict_text(verdict: str) -> Text:
    """A verdict with its glyph, coloured."""
    glyph, style = STYLES.get(verdict, ("!", "magenta"))
    return Text(f"{glyph} {verdict}", style=style)


def say(text: str) -> None:
    """One line on stderr."""
    err.print(text, soft_wrap=True, markup=False)


def warn(text: str) -> None:
    """One line of warning on stderr."""
    say(f"warning: {text}")


def fail(text: str) -> int:
    """Print an error on stderr, shortened to a few lines, and return exit status 2."""
    lines = [line for line in text.splitlines() if line.strip()] or ["unknown error"]
    say("error: " + "\n".join(line if len(line) <= 1000 else f"{line[:1000]} …" for line in lines[:4]))
    return 2


def print_json(data: Any) -> None:
    """JSON and nothing else on stdout."""
    sys.stdout.write(json.dumps(data, ensure_ascii=False, allow_nan=False, indent=1) + "\n")


def number(x: float | None) -> str:
    """Three significant digits; an en dash where there is none."""
    return "–" if x is None or not math.isfinite(x) else f"{x:.3g}"


def spark(values: list[float | None], width: int = 60) -> str:
    """A line of block characters from the smallest to the largest finite value; blank where there is none."""
    step = max(1, math.ceil(len(values) / width))
    chunks = [[x for x in values[k : k + step] if x is not None and math.isfinite(x)] for k in range(0, len(values), step)]
    lows = [min(c) if c else None for c in chunks]
    finite = [x for x in lows if x is not None]
    if not finite:
        return ""
    low, span = min(finite), max(finite) - min(finite)
    return "".join(" " if x is None else BARS[min(7, int(8 * (x - low) / span))] if span else BARS[3] for x in lows)


@contextlib.contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on stderr (nothing where stderr is no terminal): yields the function to call with (done, total)."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
