"""summary.md from a run record: what a CI job page shows, at most 60 KB."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from verify.claim import verdict as v
from verify.merge import met

LIMIT = 60_000
"""Bytes; job pages cut or reject longer ones."""
_ROOM = 200


def summary(record: dict[str, Any]) -> str:
    """The record as Markdown: verdict line, Condition 3.1, then rows in the order of interest; rows that do not fit are counted."""
    run, rows = record["run"], record["verdicts"]
    counts = Counter(r["verdict"] for r in rows)
    unmet = [r for r in rows if met(r) is False]
    lines = [
        "# Theory verification",
        "",
        f"**{sum(counts[x] for x in v.HOLDS)} of {len(rows)} verdicts hold**: "
        + ", ".join(f"{counts[x]} {x}" for x in v.VERDICTS if counts[x])
        + f". {len(unmet)} differ from what is declared.",
        "",
        f"`{_code(run.get('command') or 'verify run')}` · {run['seeds']} seeds · fingerprint {run['fingerprint']}",
        "",
        *_condition(run),
    ]
    groups = (
        ("Differ from what is declared", unmet),
        ("Do not hold, as declared", [r for r in rows if r["verdict"] not in v.HOLDS and met(r) is True]),
        ("Do not hold, nothing declared", [r for r in rows if r["verdict"] not in v.HOLDS and met(r) is None]),
        ("Hold", [r for r in rows if r["verdict"] in v.HOLDS and met(r) is not False]),
    )
    size = sum(len(x.encode()) + 1 for x in lines)
    left_out = 0
    for title, found in groups:
        head = [
            "",
            f"## {title} ({len(found)})",
            "",
            "| id | regime | verdict | violations | worst | median | why |",
            "|---|---|---|---|---|---|---|",
        ]
        for row in found:
            new = [*head, _row(row)]
            cost = sum(len(x.encode()) + 1 for x in new)
            if left_out or size + cost > LIMIT - _ROOM:
                left_out += 1
                continue
            lines += new
            size += cost
            head = []
    if left_out:
        lines += ["", f"… and {left_out} more rows in run.json."]
    return "\n".join(lines) + "\n"


def _condition(run: dict[str, Any]) -> list[str]:
    regimes = run["regimes"]
    if not regimes:
        return []
    names = " | ".join(_cell(r["name"], 60) for r in regimes)
    lines = [f"| Condition 3.1, slack as a factor | {names} |", "|---|" + "---|" * len(regimes)]
    for part in run["condition"]:
        cells = " | ".join(slack_factor(r["slack"].get(part["id"])) for r in regimes)
        lines.append(f"| {part['clause']} {part['id']} | {cells} |")
    return lines


def slack_factor(slack: float | None) -> str:
    """A slack (log-ratio; null = infinite) as the factor by which an inequality is kept or broken."""
    if slack is None or math.isinf(slack):
        return "∞"
    return f"{'' if slack >= 0 else '✘ broken '}×{math.exp(min(abs(slack), 690)):.3g}"


def _row(r: dict[str, Any]) -> str:
    why = r["reason"] or (r["expected"] or {}).get("reason", "")
    numbers = [f"{x:.3g}" if x is not None else "–" for x in (r["margin"]["worst"], r["margin"]["median"])]
    cells = [r["id"], r["regime"] or "–", r["verdict"], f"{r['violations']} of {r['n']}", *numbers, why]
    return "| " + " | ".join(_cell(str(c), 160) for c in cells) + " |"


def _cell(text: str, width: int) -> str:
    """Plain text for one cell of a Markdown table."""
    flat = " ".join(str(text).split()).replace("\\", "\\\\")
    for raw, safe in (("|", "\\|"), ("<", "&lt;"), ("`", "'")):
        flat = flat.replace(raw, safe)
    return flat if len(flat) <= width else f"{flat[: width - 1]}…"


def _code(text: str) -> str:
    return " ".join(text.split()).replace("`", "'")[:400]
