"""From a run record to what the page shows: claims with their rows, categories, counts, sections. Plain data, no HTML."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

Row = dict[str, Any]

# verdict -> (family, word). A family has one colour, one glyph, one pattern.
FAMILIES = {
    "PROVED": "proved",
    "SUPPORTED": "hold",
    "INCONCLUSIVE": "open",
    "UNPROVEN": "open",
    "VACUOUS": "vacuous",
    "NUMERIC": "error",
    "ERROR": "error",
    "NOT RUN": "none",
    "REFUTED": "fail",
    "DISPROVED": "fail",
}
HOLDS = ("proved", "hold")

# Categories compare a verdict with what the claim declares; the order is that of precedence for a claim with several verdicts.
CATEGORIES = {
    "unexpected": "differ from what was declared",
    "failing": "fail, nothing declared",
    "declared": "fail as declared",
    "undecided": "undecided",
    "holds": "hold",
    "untested": "never tested",
}

SECTIONS = (
    ("prelim", "Preliminaries", "Appendix C"),
    ("half_normal", "Preliminaries", "Appendix C"),
    ("gradients", "Gradients and updates", "Appendix D"),
    ("updates", "Gradients and updates", "Appendix D"),
    ("reduction", "The exact reduction", "this project, R"),
    ("stage1", "Stage I", "Section 4, Appendix E"),
    ("stage2", "Stage II", "Section 4, Appendix E"),
    ("stage3", "Stage III", "Section 4, Appendix E"),
    ("stage4", "Stage IV", "Section 4, Appendix E"),
    ("theorem", "Theorem 3.2", "Section 3, Appendix E"),
    ("extensions", "Extensions", "Appendix F"),
    ("trends", "Trends along ladders", "this project"),
    ("experiments", "Experiments", "Section 5, Appendix B"),
)


def family(verdict: str) -> str:
    """The family of a verdict; an unknown verdict counts as an error."""
    return FAMILIES.get(verdict, "error")


def category(row: Row) -> str:
    """How a verdict compares with the expectation declared beside the claim."""
    kind = family(row["verdict"])
    want = family(row["expected"]["verdict"]) if row.get("expected") else None
    if kind == "none":
        return "untested"
    if kind in HOLDS:
        return "holds" if want is None or want in HOLDS else "unexpected"
    if kind == "fail":
        return "failing" if want is None else "declared" if want == "fail" else "unexpected"
    if kind == "error":
        return "undecided" if want == "error" else "unexpected"
    return "undecided"


def met(row: Row) -> bool | None:
    """Whether the verdict is the declared one; None where nothing was declared or nothing was run."""
    if not row.get("expected") or family(row["verdict"]) == "none":
        return None
    return row["verdict"] == row["expected"]["verdict"]


@dataclass
class Claim:
    """One claim of the record with all its labels, its verdict rows and its place in the proof graph (first labels)."""

    info: dict[str, Any]
    ids: list[str]
    rows: list[Row] = field(default_factory=list)
    parents: list[str] = field(default_factory=list)
    children: list[str] = field(default_factory=list)
    section: str = "other"

    @property
    def id(self) -> str:
        """The first label."""
        return self.ids[0]

    @property
    def kind(self) -> str:
        """identity, analytic, probabilistic, dynamics, scaling or experiment."""
        return str(self.info.get("kind", "dynamics"))

    @property
    def category(self) -> str:
        """The foremost category among its verdicts."""
        found = {category(r) for r in self.rows}
        return next((c for c in CATEGORIES if c in found), "untested")

    @property
    def family(self) -> str:
        """The family of its worst verdict."""
        order = ("fail", "error", "open", "vacuous", "hold", "proved", "none")
        found = {family(r["verdict"]) for r in self.rows}
        return next((f for f in order if f in found), "none")

    @property
    def ancestors_hold(self) -> bool | None:
        """Whether every ancestor holds in every regime judged; None where some were not judged."""
        states = [r.get("ancestors", {}).get("hold") for r in self.rows]
        return False if False in states else None if None in states or not states else True

    @property
    def worst_row(self) -> Row | None:
        """The row with the smallest worst margin."""
        rows = [r for r in self.rows if r.get("margin", {}).get("worst") is not None]
        return min(rows, key=lambda r: r["margin"]["worst"], default=None)


def verdict_in(claim: Claim, regime: str | None) -> str | None:
    """The claim's verdict in a regime (or its regime-free one); None if it was not judged there."""
    return next((r["verdict"] for r in claim.rows if r["regime"] in (None, regime)), None)


def anchor(label: str) -> str:
    """A label as an HTML id that needs no escaping: other characters become their code points."""
    return "".join(c if c.isascii() and (c.isalnum() or c in ".-_") else f"~{ord(c):x}" for c in label)


TEXTS = ("title", "statement", "conditions_text", "measured", "made_finite", "source", "location", "units")
LISTS = ("same_as", "depends_on", "conditions", "controls", "truths")
BARE: dict[str, Any] = dict.fromkeys(TEXTS, "") | {k: [] for k in LISTS} | {"constants": {}, "kind": "dynamics"}
"""What a claim's description reads like where the record says nothing."""


def claims_of(record: Row) -> list[Claim]:
    """The record's claims, one per object (labels of one object are joined), in order; rows without a description get a bare one."""
    infos = [BARE | info for info in record["run"].get("claims") or []]
    known = {i["id"] for i in infos}
    infos += [BARE | {"id": i, "title": i} for i in dict.fromkeys(r["id"] for r in record["verdicts"]) if i not in known]
    first: dict[str, str] = {}
    claims: dict[str, Claim] = {}
    for info in infos:
        if info["id"] in first:
            continue
        labels = [info["id"], *info.get("same_as", [])]
        claims[info["id"]] = Claim(info, labels, section=_section(info))
        first.update(dict.fromkeys(labels, info["id"]))
    for row in record["verdicts"]:
        if row["id"] in claims:
            claims[row["id"]].rows.append(row)
    for claim in claims.values():
        claim.parents = list(dict.fromkeys(first[p] for p in claim.info.get("depends_on", []) if p in first and first[p] != claim.id))
        for parent in claim.parents:
            claims[parent].children.append(claim.id)
    return list(claims.values())


def _section(info: dict[str, Any]) -> str:
    module = str(info.get("location", "")).rpartition("/")[2].partition(".py")[0]
    return next((title for stem, title, _ in SECTIONS if module.startswith(stem)), "Other claims")


def sections(claims: list[Claim]) -> list[tuple[str, str, list[Claim]]]:
    """(title, place in the paper, claims) in the order of the paper."""
    places = {title: place for _, title, place in SECTIONS}
    titles = [*places, "Other claims"]
    found = [(t, places.get(t, ""), [c for c in claims if c.section == t]) for t in titles]
    return [f for f in found if f[2]]


def regimes_of(record: Row) -> list[str]:
    """Regime names in the order of the run, then others that appear in rows."""
    named = [r["name"] for r in record["run"].get("regimes", [])]
    return list(dict.fromkeys([*named, *(r["regime"] for r in record["verdicts"] if r["regime"] is not None)]))


def tally(claims: list[Claim]) -> dict[str, int]:
    """Claims by category."""
    return {c: sum(x.category == c for x in claims) for c in CATEGORIES}


def tally_rows(rows: list[Row]) -> dict[str, int]:
    """Verdicts by category."""
    found = [category(r) for r in rows]
    return {c: found.count(c) for c in CATEGORIES}


def command(run: dict[str, Any]) -> str:
    """The command that reproduces a run (presets by name; a changed regime by its --set).

    The record does not name the suite, so the regimes and claims are given one by one only where they are few.
    """
    if run.get("command"):
        return str(run["command"])
    words = ["verify run"]
    names = list(dict.fromkeys(i["id"] for i in run.get("claims", []) if not i.get("same_as") or i["id"] < min(i["same_as"])))
    if 0 < len(names) <= 6:
        words += names
    for name in (r["name"] for r in run.get("regimes", [])):
        base, _, change = str(name).partition("[")
        words.append(f"--regime {base}")
        if change:
            words += [f"--set {c}" for c in change.rstrip("]").split(",")]
    words.append(f"--seeds {run.get('seeds')}")
    if run.get("root_seed"):
        words.append(f"--root-seed {run['root_seed']}")
    return " ".join(words)


def replay(row: Row) -> str | None:
    """The command that shows a row's worst trial."""
    seed = row.get("witness", {}).get("seed")
    if seed is None:
        return None
    base, _, change = str(row["regime"]).partition("[")
    sets = "".join(f" --set {c}" for c in change.rstrip("]").split(",")) if change else ""
    return f"verify replay {row['id']} --seed {seed} --regime {base}{sets}"


@lru_cache(maxsize=64)
def _median_rank(n: int, confidence: float) -> int:
    """The largest k such that order statistics k and n - 1 - k (from 0) enclose the median with this confidence; -1 if none does."""
    tail, k = 0.0, -1
    while tail + math.comb(n, k + 1) / 2**n <= (1 - confidence) / 2:
        k += 1
        tail += math.comb(n, k) / 2**n
    return k


def median_interval(margins: list[float | None] | None, confidence: float = 0.99) -> tuple[float, float] | None:
    """Distribution-free interval of the median from its order statistics; None for fewer than 9 finite margins."""
    values = sorted(m for m in margins or [] if m is not None and math.isfinite(m))
    n = len(values)
    k = _median_rank(n, confidence) if n >= 9 else -1
    return (values[k], values[n - 1 - k]) if k >= 0 else None
