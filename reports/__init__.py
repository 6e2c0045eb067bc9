"""The dashboard: one self-contained HTML file, a pure function of run records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reports.history import Changes, diff, extract, summarise
from reports.mathml import FormulaError

__all__ = ["Changes", "FormulaError", "diff", "extract", "render", "summarise"]


def render(record: dict[str, Any], *, previous: Sequence[dict[str, Any]] = (), extras: dict[str, Any] | None = None) -> str:
    """One HTML file from a run record. Equal arguments give equal bytes.

    Args:
        record: run.json as a dict.
        previous: earlier runs, oldest first: records, summaries (`summarise`), or what `extract` finds in an earlier page.
        extras: what other commands wrote, each optional:
            "controls": rows of `verify controls --json`; "matrix": the record of `verify matrix`; "probes": records of `verify probe`;
            "figures": [{"name", "title", "svg", "published", "command", "table": {"columns", "rows"}}]; "bench": rows of `verify bench`.

    Raises:
        FormulaError: naming the claim, if a formula has an unknown macro or is malformed.
    """
    from reports.page import build

    return build(record, list(previous), extras or {})
