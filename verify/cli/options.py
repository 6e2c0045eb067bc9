"""Options that several commands share, and their limits."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from verify.errors import RegimeError, VerifyError
from verify.regime import Regime, get, parse_setting

MOST_SEEDS = 100_000
MOST_JOBS = 64
MOST_ROOT = 2**63 - 1

Ids = Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Labels of claims, as in `verify list`; none: all of the suite.")]
Regimes = Annotated[
    list[str] | None,
    typer.Option("--regime", metavar="NAME|FILE.toml", help="A preset (fig1, ladder-N, ladder-64-mk16, trap) or a TOML file; repeatable."),
]
Settings = Annotated[list[str] | None, typer.Option("--set", metavar="key=value", help="Change a parameter of every regime; repeatable.")]
Root = Annotated[int, typer.Option("--root-seed", metavar="R", help="Root of all random streams.")]
Jobs = Annotated[int | None, typer.Option("--jobs", metavar="J", help="Worker processes (default: one per core).", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Print nothing but JSON.")]


def whole(name: str, value: int, low: int, high: int) -> int:
    """The value, if it lies in [low, high].

    Raises:
        VerifyError: naming the option and its range.
    """
    if not low <= value <= high:
        raise VerifyError(f"{name} {value}: want a whole number from {low} to {high}")
    return value


def workers(jobs: int | None) -> int:
    """The number of processes. Raises VerifyError for fewer than one."""
    return whole("--jobs", jobs if jobs is not None else min(os.cpu_count() or 1, MOST_JOBS), 1, MOST_JOBS)


def settings(texts: Sequence[str] | None) -> dict[str, Any]:
    """The --set options as one mapping.

    Raises:
        RegimeError: for an unknown key, a wrong form, or a key that is given twice.
    """
    out: dict[str, Any] = {}
    for text in texts or []:
        key, value = parse_setting(text)
        if key in out:
            raise RegimeError(f"--set {key} is given twice")
        if key == "name":
            raise RegimeError("--set name: a changed regime is named after the change; write a TOML file to name one")
        out[key] = value
    return out


def changed(name: str, change: dict[str, Any]) -> Regime:
    """The regime `name` with parameters changed."""
    regime = get(name)
    return regime.change(**change) if change else regime
