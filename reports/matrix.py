"""The necessity matrix as the page shows it: clause × claim, the points behind each cell, and what contradicts the claims' own declarations."""

from __future__ import annotations

import math
from typing import Any

from reports.charts import number
from reports.model import anchor

Record = dict[str, Any]

WORDS = {
    "supports": "overlapping noise",
    "density": "dense noise",
    "orthogonal": "dense orthogonal noise",
    "context": "more than two patches",
}
"""What is broken where it is no inequality of Condition 3.1."""
RESULTS = {
    "needed": "is refuted at the factor shown",
    "not needed": "holds up to the factor shown, the largest that was tried",
    "undecided": "the trials did not decide, or the strongest rung said nothing",
    "false at the base": "is refuted before anything is changed",
    "not defined": "the statement makes no sense there",
}
SYMBOLS = {
    "dimension": "d", "sparsity": "s", "noise_strength": "σₚ", "value_width": "mᵥ", "key_width": "mₖ", "initialization": "σ₀",
    "sample_size": "n", "learning_rate": "η", "supports": "overlap", "density": "dense", "orthogonal": "dense, orthogonal", "context": "L\u00a0>\u00a02",
}  # fmt: skip
"""A clause by the parameter that breaks it, where there is room for a few letters only."""
CELL: Record = {
    "part": "", "clause": "", "result": "undecided", "factor": None, "held": None, "declared": False, "n": None, "violations": None,
    "interval": None, "reason": "", "change": "", "command": "", "points": [],
}  # fmt: skip
"""What a cell reads like where the record says nothing (earlier shapes had claim, clause, result and factor)."""
POINT: Record = {"factor": None, "verdict": "", "n": None, "violations": None, "interval": None, "reason": "", "change": ""}
FINDING: Record = {"kind": "", "claim": "", "part": "", "text": "", "interval": None, "command": ""}


def words(part: str) -> str:
    """A clause's name as people read it."""
    return WORDS.get(part, part.replace("_", " "))


def times(factor: float | None) -> str:
    """A strength as "×8"; "" where there is none."""
    return "" if factor is None else f"×\u202f{number(factor)}"


def at(cell: Record) -> str:
    """Where a cell was decided: the factor, or the change where no inequality measures it."""
    return times(cell["factor"]) or str(cell["change"])


def _cell(cell: Record) -> Record:
    made = CELL | cell
    made["part"] = str(made["part"] or made["clause"])
    made["words"] = words(made["part"])
    made["anchor"] = f"need-{anchor(str(made['claim']))}-{anchor(made['part'])}"
    made["css"] = str(made["result"]).replace(" ", "-")
    made["at"] = at(made) if made["result"] in ("needed", "not needed") else ""
    made["points"] = [POINT | p for p in made["points"] or []]
    made["sentence"] = _sentence(made)
    return made


def _sentence(cell: Record) -> str:
    out = str(cell["result"])
    if cell["at"]:
        out += f": breaks at {cell['at']}" if cell["result"] == "needed" else f": holds up to {cell['at']}"
    if cell["n"]:
        out += f", {cell['violations']} of {cell['n']} violated"
    if cell["interval"]:
        low, high = cell["interval"]
        out += f", rate in [{number(low)}, {number(high)}]"
    if cell["result"] == "needed" and cell["held"] is not None:
        out += f"; still held at {times(cell['held'])}"
    return out


def view(matrix: Record | None) -> Record | None:
    """Columns (clauses, in the order of the strengths), rows (claims), findings; None without a cell.

    Every cell of every shape the command ever wrote has the keys of `CELL`, and "words", "at", "anchor", "css", "sentence".
    """
    found = (matrix or {}).get("cells") or []
    if not matrix or not found:
        return None
    strengths = matrix.get("strengths") or []
    cells = [_cell(c) for c in found]
    clauses = {s["part"]: s.get("clause", "") for s in strengths if s["part"]}  # "" is a regime that nothing was broken in
    for c in cells:
        clauses.setdefault(c["part"], c["clause"] if c["clause"] != c["part"] else "")
    rows: dict[str, dict[str, Record]] = {}
    for c in cells:
        rows.setdefault(str(c["claim"]), {})[c["part"]] = c
    columns = [
        {
            "part": part,
            "clause": clause,
            "words": words(part),
            "strengths": [(s["factor"], str(s.get("change", ""))) for s in strengths if s["part"] == part],
        }
        for part, clause in clauses.items()
    ]
    return {
        "base": matrix.get("base", ""),
        "root_seed": matrix.get("root_seed"),
        "columns": columns,
        "rows": list(rows.items()),
        "counts": {r: sum(c["result"] == r for c in cells) for r in dict.fromkeys([*RESULTS, *(str(c["result"]) for c in cells)])},
        "findings": [_finding(FINDING | f) for f in matrix.get("findings") or []],
        "spent": str(matrix.get("spent") or ""),
    }


def _finding(finding: Record) -> Record:
    """The claim stands before the text as a link, so that the text need not begin with it."""
    words, name = str(finding["text"]), str(finding["claim"])
    return finding | {"text": words.removeprefix(name).lstrip() if words.startswith(f"{name} ") else words}


def of_claim(shown: Record | None, labels: list[str]) -> dict[str, list[Record]]:
    """A claim's cells by result, the needed ones with the smallest factor first; {} where the matrix does not have the claim."""
    rows = dict(shown["rows"]) if shown else {}
    cells = [c for label in labels for c in rows.get(label, {}).values()]
    cells.sort(key=lambda c: math.inf if c["factor"] is None else c["factor"] if c["result"] == "needed" else 0)
    out: dict[str, list[Record]] = {}
    for c in cells:
        out.setdefault(c["result"], []).append(c)
    return out


def what_breaks(needs: dict[str, list[Record]]) -> str:
    """What breaks a claim, in few letters, the most fragile first: "σₚ ×8, s ×64"."""
    return ", ".join(f"{SYMBOLS.get(c['part'], c['words'])}\u00a0{times(c['factor'])}".strip() for c in needs.get("needed", []))
