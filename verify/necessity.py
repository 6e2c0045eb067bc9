"""From verdicts along a ladder of strengths to cells (needed, not needed, undecided), and to what a reader would not expect."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from verify import condition
from verify.claim import graph
from verify.claim import verdict as v
from verify.claim.claim import all_claims
from verify.strengths import DEFINITION

if TYPE_CHECKING:
    from verify.matrix import Stream

Cell = dict[str, Any]
NEEDED, NOT_NEEDED, UNDECIDED = "needed", "not needed", "undecided"
UNDEFINED, FALSE_AT_BASE = "not defined", "false at the base"
INSIDE = 1 + 1e-9
"""Factors up to here meet the clause."""
RESULTS = (NEEDED, NOT_NEEDED, UNDECIDED, UNDEFINED, FALSE_AT_BASE)


def cells_of(streams: Sequence[Stream]) -> tuple[list[Cell], list[dict[str, Any]]]:
    """One cell per claim and part, by claim in order of registration; and the findings."""
    at_base = {(s.claim.id, s.strength.base): s for s in streams if not s.strength.part}
    rungs: dict[str, dict[str, list[Stream]]] = {}
    for s in streams:
        if s.strength.part:
            rungs.setdefault(s.claim.id, {}).setdefault(s.strength.part, []).append(s)
    cells = [cell(at_base[name, ladder[0].strength.base], ladder) for name, parts in rungs.items() for ladder in parts.values()]
    above, claims = graph.ancestors(all_claims()), {c.id: c for c in all_claims()}
    for c in cells:
        c["inherited"] = any(c["part"] in claims[name].conditions for name in above[c["claim"]])
    return cells, findings(cells)


def cell(base: Stream, ladder: Sequence[Stream]) -> Cell:
    """The cell of one claim and one part: `base` is its stream in the base regime, `ladder` those of the rungs, weakest first."""
    strength, claim = ladder[0].strength, base.claim
    points = [s.point() for s in ladder]
    start = base.point()
    if strength.clause != DEFINITION:
        slack = condition.part(strength.part).slack(base.strength.regime)
        if slack < 0:  # the base is itself a rung
            start["factor"] = _factor(base, strength.part)
            points.insert(0, start)
    result, decisive, held, reason = _decide(start, points)
    return {
        "claim": claim.id,
        "part": strength.part,
        "clause": strength.clause,
        "base": base.strength.base,
        "result": result,
        "factor": decisive["factor"] if decisive else None,
        "held": held["factor"] if held else None,
        "change": decisive["change"] if decisive else "",
        "declared": strength.part in claim.conditions,
        "n": (decisive or start)["n"],
        "violations": (decisive or start)["violations"],
        "interval": (decisive or start)["interval"],
        "reason": reason,
        "command": (decisive or start)["command"],
        "points": points,
    }


def _factor(base: Stream, part: str) -> float:
    return math.exp(-condition.part(part).slack(base.strength.regime))


def _decide(start: Cell, points: Sequence[Cell]) -> tuple[str, Cell | None, Cell | None, str]:
    """(result, the deciding point, the last point that held before it, reason)."""
    if start["verdict"] == v.REFUTED:
        return FALSE_AT_BASE, None, None, f"violated in {start['violations']} of {start['n']} trials at the base"
    if start["verdict"] != v.SUPPORTED:
        result = UNDEFINED if start["verdict"] == v.NOT_RUN else UNDECIDED
        return result, None, None, f"{start['verdict']} at the base: {start['reason']}"
    run = [p for p in points if p["verdict"] != v.NOT_RUN]
    if not run:
        return UNDEFINED, None, None, points[0]["reason"]
    held = None
    for k, point in enumerate(run):
        if point["verdict"] == v.REFUTED:
            again = [p for p in run[k + 1 :] if p["verdict"] == v.SUPPORTED]
            note = f"holds again at {again[-1]['change']}" if again else ""
            return NEEDED, point, held, "; ".join(filter(None, [point["reason"], note]))
        if point["verdict"] == v.SUPPORTED:
            held = point
    if held is not None and held["factor"] is not None and held["factor"] <= INSIDE:
        return UNDECIDED, None, held, f"supported at {held['change']}, where the clause is met; nothing was decided outside it"
    beyond = run[run.index(held) + 1 :] if held else run
    note = "; ".join(f"{p['verdict']} at {p['change']}: {p['reason']}" for p in beyond)
    if held is None or beyond:
        return UNDECIDED, None, held, note
    return NOT_NEEDED, held, held, held["reason"]


def findings(cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """What a reader of the paper would not expect, one entry per kind and part, the claim with the clearest numbers first."""
    outside = [c for c in cells if c["factor"] is not None and c["factor"] > INSIDE]
    kinds = {
        "refuted inside the clause": [c for c in cells if c["result"] == NEEDED and c["factor"] is not None and c["factor"] <= INSIDE],
        "refuted where a clause is broken that it does not name": [
            c for c in outside if c["result"] == NEEDED and not (c["declared"] or c["inherited"])
        ],
        "named but not needed": [c for c in outside if c["result"] == NOT_NEEDED and c["declared"]],
        "survives outside the definition": [c for c in cells if c["result"] == NOT_NEEDED and c["clause"] == DEFINITION],
    }
    out = []
    for kind, chosen in kinds.items():
        for name in dict.fromkeys(c["part"] for c in chosen):
            out.append(_finding(kind, name, [c for c in chosen if c["part"] == name]))
    return out


def _finding(kind: str, name: str, chosen: Sequence[Cell]) -> dict[str, Any]:
    """The sentence on the clearest of the cells `chosen`; the others are listed with their factors."""
    best = max(chosen, key=lambda c: c["interval"][0] if c["result"] == NEEDED else -c["interval"][1])
    others = [c for c in chosen if c is not best]
    where = name.replace("_", " ")
    inequality = f" ({condition.part(name).text})" if best["clause"] != DEFINITION else ""
    low, high = best["interval"]
    counts = f"{best['violations']} of {best['n']} trials violate it at {best['change']}"
    if low == high:
        counts = f"its exact violation probability is {low:.3g} at {best['change']}"
    reach = f", a factor {best['factor']:.3g} outside" if best["factor"] is not None and best["factor"] > INSIDE else ""
    text = {
        "refuted inside the clause": f"{best['claim']} is refuted although the clause on {where}{inequality} is met with constant 1: {counts}",
        "refuted where a clause is broken that it does not name": (
            f"{best['claim']} is refuted where the clause on {where}{inequality} is broken, which neither it nor its proof names: {counts}{reach}"
        ),
        "named but not needed": f"{best['claim']} names the clause on {where}{inequality} and still holds where it is broken: {counts}{reach}",
        "survives outside the definition": f"{best['claim']} holds outside the paper's data ({where}): {counts}",
    }[kind]
    if others:
        listed = (f"{c['claim']} (×{c['factor']:.3g})" if c["factor"] is not None else c["claim"] for c in others)
        text += f". Likewise {', '.join(listed)}"
    return {
        "kind": kind,
        "part": name,
        "claim": best["claim"],
        "others": [c["claim"] for c in others],
        "text": text + ".",
        "interval": best["interval"],
        "command": best["command"],
    }
