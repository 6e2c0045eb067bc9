"""Earlier runs in a few kilobytes each, and the difference between two runs."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field
from typing import Any

from reports import model

Record = dict[str, Any]
MOST = 20
"""Runs kept inside a page."""


def summarise(record: Record) -> Record:
    """What a later report needs of a run: {"cells": {"id@regime": [verdict, worst, median, low, high]}, "claims": {id: hash}, ...}.

    A summary is returned as it is, so that histories can be passed on.
    """
    if "cells" in record:
        return record
    run = record["run"]
    cells = {}
    for row in record["verdicts"]:
        interval = model.median_interval(row.get("margins")) or (None, None)
        margin = row.get("margin") or {}
        numbers = [None if x is None else float(f"{x:.4g}") for x in (margin.get("worst"), margin.get("median"), *interval)]
        cells[f"{row['id']}@{row['regime'] or ''}"] = [row["verdict"], *numbers]
    return {
        "started": (run.get("timing") or {}).get("started", ""),
        "fingerprint": run.get("fingerprint", ""),
        "seeds": run.get("seeds"),
        "root_seed": run.get("root_seed"),
        "tally": model.tally(model.claims_of(record)),
        "cells": cells,
        "claims": {i["id"]: _definition(i) for i in run.get("claims", [])},
    }


def _definition(info: Record) -> str:
    """Hash of what a claim states and how it is made finite: it changes exactly when the claim is redefined."""
    parts = [info.get(k) for k in ("statement", "measured", "made_finite", "constants", "kind")]
    return hashlib.sha256(json.dumps(parts, sort_keys=True, ensure_ascii=False).encode()).hexdigest()[:8]


def bounded(records: list[Record]) -> list[Record]:
    """The last `MOST` runs as summaries, oldest first; of equal neighbours one is kept."""
    out: list[Record] = []
    for made in map(summarise, records):
        if not out or out[-1] != made:
            out.append(made)
    return out[-MOST:]


def extract(html: str) -> list[Record]:
    """The history inside a page that `reports.render` made (for `previous` of the next one); [] if there is none."""
    match = re.search(r'<script type="application/json" id="history">(.*?)</script>', html, re.S)
    return json.loads(match[1]) if match else []


@dataclass
class Changes:
    """What differs between two runs; every list holds (claim id, regime or None, text)."""

    failing: list[tuple[str, str | None, str]] = field(default_factory=list)
    holding: list[tuple[str, str | None, str]] = field(default_factory=list)
    other: list[tuple[str, str | None, str]] = field(default_factory=list)
    moved: list[tuple[str, str | None, str]] = field(default_factory=list)
    redefined: list[str] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)

    @property
    def by_claim(self) -> dict[str, str]:
        """One word or two per claim, the gravest first."""
        out: dict[str, str] = {}
        for words, found in (
            ("newly failing", self.failing),
            ("newly holding", self.holding),
            ("verdict changed", self.other),
            ("margin moved", self.moved),
        ):
            for claim, _, _ in found:
                out.setdefault(claim, words)
        for claim in self.redefined:
            out.setdefault(claim, "redefined")
        for claim in self.added:
            out.setdefault(claim, "new")
        return out

    @property
    def any(self) -> bool:
        """Whether anything differs."""
        return bool(self.failing or self.holding or self.other or self.moved or self.redefined or self.added or self.removed)


def diff(old: Record, new: Record) -> Changes:
    """What changed from one run (record or summary) to another.

    A verdict change is "newly failing" if the new one is no longer PROVED/SUPPORTED but the old one was and the new one is REFUTED,
    DISPROVED, NUMERIC or ERROR. A margin has moved if the 99 % intervals of its median are disjoint.
    """
    old, new, out = summarise(old), summarise(new), Changes()
    for key in sorted(old["cells"].keys() & new["cells"].keys()):
        claim, _, regime = key.rpartition("@")
        (was, _, mid_a, low_a, high_a), (now, _, mid_b, low_b, high_b) = old["cells"][key], new["cells"][key]
        entry = (claim, regime or None, f"{was} → {now}")
        if was != now:
            if model.family(now) in ("fail", "error") and model.family(was) not in ("fail", "error"):
                out.failing.append(entry)
            elif model.family(now) in model.HOLDS:
                out.holding.append(entry)
            else:
                out.other.append(entry)
        elif None not in (low_a, low_b) and (high_a < low_b or high_b < low_a):
            out.moved.append((claim, regime or None, f"median margin {mid_a:g} → {mid_b:g}"))
    known, present = old["claims"], new["claims"]
    out.redefined = sorted(c for c in known.keys() & present.keys() if known[c] != present[c])
    out.added = sorted(present.keys() - known.keys())
    out.removed = sorted(known.keys() - present.keys())
    return out
