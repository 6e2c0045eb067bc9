"""What may be wrong with the harness itself: statements that test nothing, arithmetic that failed, lies that passed, slow claims."""

from __future__ import annotations

from typing import Any

from reports.model import Claim, family, met

Entry = tuple[str, str | None, str]
SLOW = 10.0
"""Seconds of work beyond which a claim is listed as slow."""


def health(claims: list[Claim], run: dict[str, Any], controls: list[dict[str, Any]]) -> list[tuple[str, str, list[Entry]]]:
    """(title, sentence where there is none, entries); an entry is (claim, regime, words)."""
    rows = [(c.id, r) for c in claims for r in c.rows if r["id"] == c.id]

    def reasons(*verdicts: str) -> list[Entry]:
        return [(name, r["regime"], str(r.get("reason") or r["verdict"].lower())) for name, r in rows if r["verdict"] in verdicts]

    caught: list[Entry] = [
        (x["claim"], x.get("regime"), f"{'truth not supported' if x.get('truth') else 'lie not caught'}: {x['name']} ({x['verdict']})")
        for x in controls
        if not x["caught"]
    ]
    bare: list[Entry] = [(c.id, None, "has no control") for c in claims if not c.info.get("controls")]
    seconds = (run.get("timing") or {}).get("claims") or {}
    slow: list[Entry] = [(name, None, f"{t:.1f} s") for name, t in sorted(seconds.items(), key=lambda x: -x[1]) if t >= SLOW]
    signs: list[Entry] = [
        ("", regime, f"{quantity.replace('_', ' ')}: {counts.get('uncertain', 0)} uncertain, {counts.get('zero', 0)} zero")
        for regime, found in sorted((run.get("signs") or {}).items())
        for quantity, counts in sorted(found.items())
        if counts.get("uncertain") or counts.get("zero")
    ]
    undeclared: list[Entry] = [
        (name, r["regime"], f"{r['verdict']}, declared {r['expected']['verdict']}")
        for name, r in rows
        if met(r) is False and family(r["verdict"]) != "open"
    ]
    controls_title = "Controls not caught" if controls else "Controls (not run with this record; see verify controls)"
    return [
        ("Not as declared", "Every verdict is the declared one, or undecided.", undeclared),
        (controls_title, "Every planted lie was caught." if controls else "No result of verify controls lies beside this record.", caught),
        ("Claims without a control", "Every claim has one.", bare),
        ("Numeric flags", "No NaN and no lost sign.", reasons("NUMERIC")),
        ("Errors", "No check raised an exception.", reasons("ERROR")),
        ("Vacuous", "Every statement was tested by events that occurred.", reasons("VACUOUS")),
        ("Uncertain or zero signs", "None recorded.", signs),
        ("Slow claims", f"None recorded beyond {SLOW:g} s.", slow),
    ]
