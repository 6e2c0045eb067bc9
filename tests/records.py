"""Synthetic run records of any size, for tests of the report (the report is a function of records, whoever wrote them)."""

from __future__ import annotations

import math
import random
from typing import Any

Record = dict[str, Any]
REGIMES = ("fig1", "ladder-33", "ladder-65", "ladder-129", "ladder-64-mk16")
KINDS = ("identity", "analytic", "probabilistic", "dynamics", "dynamics", "dynamics", "scaling", "experiment")
SECTIONS = [
    "summary",
    "how",
    "condition",
    "graph",
    "claims",
    "cards",
    "necessity",
    "boundaries",
    "figures",
    "changes",
    "health",
    "glossary",
]
"""Sections of the page, in order."""
STATEMENT = r"For $t\ge T_{%d}$ and all $i$: $|\langle w_{Q,s},y_i\boldsymbol{\xi}_i\rangle|\le\tfrac12\bar l\eta t$ with probability at least $1-\delta$."
LONG = r"a long formula: $\sum_{i=1}^n\left|\langle w_{Q,s},y_i\boldsymbol{\xi}_i\rangle-\langle w_{K,s},y_i\boldsymbol{\xi}_i\rangle\right|\le\frac{\delta\sigma_0}{n m_k}\sqrt{2\log(4m_kn/\delta)}+\frac{\sigma_p\sqrt s}{n}$"


def regime(name: str) -> Record:
    """The description of a regime as the run record has it."""
    return {
        "name": name, "n": 20, "d": 4000, "s": 40, "sigma_p": 0.4, "m_k": 100, "m_v": 100, "sigma_0": 0.0016, "eta": 1e-4, "L": 2,
        "simulator": "reduced", "judged": "share" if name == "fig1" else "all", "note": "A synthetic regime.", "hash": "0" * 12, "end": 0.2,
        "times": {"T_1": 2e-4, "T_2_SGN": 9e-4, "T_2": 1e-3, "T_3": 4e-3, "T_4_minus_predicted": 0.014, "T": 0.074, "T_attn": 0.055},
        "slack": {"dimension": -3.7, "noise_strength": 1.2, "learning_rate": None},
    }  # fmt: skip


def curve(rng: random.Random, points: int = 48) -> Record:
    """Margins over time with a dip in the middle."""
    tau = [1e-4 * 2000 ** (k / (points - 1)) for k in range(points)]
    middle = [round(1 + math.cos(k / 4) + rng.random() / 5, 4) for k in range(points)]
    spread = [round(0.2 + rng.random() / 5, 4) for _ in range(points)]
    low, high = ([round(m + s * d, 4) for m, s in zip(middle, spread, strict=True)] for d in (-1, 1))
    return {"tau": tau, "low": low, "median": middle, "high": high, "worst": [round(x - 0.3, 4) for x in low], "worst_seed": 7}


def row(label: str, where: str | None, verdict: str, seeds: int, rng: random.Random, expected: str = "SUPPORTED") -> Record:
    """One verdict row with every field that the report reads."""
    free = where is None
    margins = [round(rng.gauss(0.5, 0.3), 4) for _ in range(seeds)]
    bad = sum(m <= 0 for m in margins)
    return {
        "id": label, "regime": where, "verdict": verdict, "reason": "", "n": 0 if free else seeds, "violations": 0 if free else bad,
        "bound": None if free else {"low": 0.01, "high": 0.2}, "delta": None if free else 0.1, "share": None if free else 0.97,
        "margin": {"worst": None if free else min(margins), "median": None if free else 0.5}, "tightness": None if free else 0.4,
        "witness": {"seed": None if free else 7, "tau": None if free else 0.01, "t": None if free else 100.0, "s": 3, "i": 4},
        "expected": {"verdict": expected, "reason": ""}, "ancestors": {"hold": True, "first_failing": None}, "same_as": [],
    } | ({} if free else {
        "all_pairs": {"violations": bad, "worst": min(margins)}, "judged": "share", "margins": margins, "curve": curve(rng),
        "detail": {"ratio": {"median": 0.8, "min": 0.7, "max": 0.9}}, "exact": None, "occurred": seeds, "trials": seeds,
    })  # fmt: skip


def make(claims: int = 12, regimes: int = 2, seeds: int = 24, key: int = 0) -> Record:
    """A record of `claims` claims, of which an eighth are identities and an eighth inequalities; deterministic in `key`."""
    rng = random.Random(key)
    names = list(REGIMES[:regimes])
    infos: list[Record] = []
    rows: list[Record] = []
    for k in range(claims):
        kind, label = KINDS[k % len(KINDS)], f"E.{k}"
        infos.append({
            "id": label, "same_as": [], "title": f"Claim number {k} on T_4^- and T_2", "statement": STATEMENT % (k % 9), "kind": kind,
            "conditions_text": LONG if k % 5 == 3 else r"many noise coordinates, $\sigma_p\sqrt s$ large", "conditions": ["dimension"], "units": "slack ratio",
            "measured": "the slack ratio of the worst pair; positive holds.", "made_finite": "within a factor 2 (by this project).",
            "source": f"Lemma E.{k}", "location": f"lemmas/stage{1 + k % 4}.py:{10 + k}", "constants": {"p": 0.1}, "controls": ["a lie"],
            "truths": [], "depends_on": sorted({f"E.{k // 2}", f"E.{k // 3}"} - {label}) if k else [], "over": "trial",
        })  # fmt: skip
        if kind in ("identity", "analytic"):
            rows.append(row(label, None, "PROVED", 0, rng, "PROVED"))
            continue
        for name in names:
            verdict = rng.choice(["SUPPORTED"] * 5 + ["REFUTED", "INCONCLUSIVE", "VACUOUS"])
            rows.append(row(label, name, verdict, seeds, rng, "REFUTED" if verdict == "REFUTED" and k % 2 else "SUPPORTED"))
    run = {
        "regimes": [regime(n) for n in names], "seeds": seeds, "root_seed": 0, "constants": {"p": 0.1, "δ": 0.1, "θ_c": 0.25},
        "condition": [
            {"id": "dimension", "clause": "C31.1", "latex": r"d \ge n^4", "parameter": "d"},
            {"id": "noise_strength", "clause": "C31.2", "latex": r"\sigma_p \ge d^{-1/4} n^3", "parameter": "sigma_p"},
            {"id": "learning_rate", "clause": "C31.5", "latex": r"\eta \le \delta\sigma_0 s^{-1/2}/(n m_k)", "parameter": "eta"},
        ],
        "versions": {"python": "3.11.7", "torch": "2.13.0"}, "fingerprint": f"{key:016x}", "claims": infos, "command": "verify run",
        "timing": {"started": f"2026-01-{1 + key % 28:02d}T00:00:00Z", "wall_s": 12.5, "cpu_s": 20.0, "jobs": 2, "resumed_tasks": 0},
    }  # fmt: skip
    return {"schema": 1, "run": run, "verdicts": rows}


PARTS = {
    "dimension": ("C31.1", "d={:.0f}", 1e6), "sparsity": ("C31.1", "s={:.0f}", 30), "noise_strength": ("C31.2", "sigma_p={:g}", 33),
    "initialization": ("C31.3", "sigma_0={:g}", 1e-9), "supports": ("Definition 2.1", "overlap={:g}", 0.01), "context": ("Definition 2.1", "L={:.0f}", 2),
}  # fmt: skip
LADDER = (2.0, 8.0, 64.0)


def point(label: str, part: str, factor: float, verdict: str) -> Record:
    """One judged strength of a matrix cell: 111 trials support, 5 of 5 refute, 200 leave it open."""
    n, bad, interval = {"SUPPORTED": (111, 0, [0.0, 0.0796]), "REFUTED": (5, 5, [0.158, 1.0])}.get(verdict, (200, 17, [0.0321, 0.178]))
    reason = "undecided after the cap of 200 trials" if verdict == "INCONCLUSIVE" else ""
    change = PARTS[part][1].format(PARTS[part][2] * factor)
    command = f"verify run {label} --regime ladder-33 --set {change} --seeds {n}"
    return {
        "factor": None if PARTS[part][0] == "Definition 2.1" else factor, "verdict": verdict, "n": n, "violations": bad, "interval": interval,
        "reason": reason, "change": change, "command": command,
    }  # fmt: skip


def matrix(labels: list[str], parts: list[str] | None = None, key: int = 0) -> Record:
    """A necessity matrix of these claims with every kind of cell; deterministic in `key`."""
    rng, parts = random.Random(key), parts or list(PARTS)
    strengths: list[Record] = [
        {"part": "", "clause": "", "base": "ladder-33", "factor": None, "change": "ladder-33", "regime": regime("ladder-33")}
    ]
    strengths += [
        {"part": p, "clause": PARTS[p][0], "base": "ladder-33", "regime": regime("ladder-33")} | {k: point("", p, f, "")[k] for k in ("factor", "change")}
        for p in parts for f in LADDER
    ]  # fmt: skip
    cells: list[Record] = []
    for label in labels:
        for p in parts:
            result = rng.choice(
                ["needed", "needed", "not needed", "not needed", "not needed", "undecided", "not defined", "false at the base"]
            )
            at = rng.randrange(3)
            judged = {
                "needed": ["SUPPORTED"] * at + ["REFUTED"],
                "not needed": ["SUPPORTED"] * 3,
                "undecided": ["SUPPORTED"] * at + ["INCONCLUSIVE"],
            }
            points = [point(label, p, f, v) for f, v in zip(LADDER, judged.get(result, ["NOT RUN"]), strict=False)]
            last = points[-1] if result in ("needed", "not needed") else points[0] | {"factor": None, "change": ""}
            reason = {"not defined": "one patch only", "false at the base": "violated in 5 of 5 trials at the base"}.get(result, "")
            cells.append({
                "claim": label, "part": p, "clause": PARTS[p][0], "base": "ladder-33", "result": result, "declared": rng.random() < 0.4,
                "held": points[-2]["factor"] if len(points) > 1 else None, "reason": reason, "points": points,
            } | {k: last[k] for k in ("factor", "change", "n", "violations", "interval", "command")})  # fmt: skip
    odd = next((c for c in cells if c["result"] == "needed" and not c["declared"]), cells[0])
    finding = {
        "kind": "needed but not declared", "claim": odd["claim"], "others": [], "part": odd["part"], "interval": odd["interval"],
        "text": f"{odd['claim']} needs the clause on {odd['part']}, which it does not name: 5 of 5 trials violate it.", "command": odd["command"],
    }  # fmt: skip
    return {"schema": 1, "base": "ladder-33", "root_seed": 0, "strengths": strengths, "cells": cells, "findings": [finding]}


def extras() -> Record:
    """What the other commands write beside a record, in small."""
    points = [
        {"values": {"sigma_p": 0.01 * 2**k}, "verdict": v, "n": n, "violations": bad, "reason": ""}
        for k, (v, n, bad) in enumerate([("REFUTED", 5, 5)] * 2 + [("REFUTED", 98, 27)] + [("SUPPORTED", 111, 0)] * 4)
    ]
    grid = [
        {"values": {"s": 40 * a, "m_k": 16 * b}, "verdict": "SUPPORTED" if a > b else "REFUTED", "n": 111 if a > b else 5, "violations": 0 if a > b else 5}
        for a in range(1, 6) for b in range(1, 6)
    ]  # fmt: skip
    theory = [{"part": "noise_strength", "clause": "C31.2", "value": 0.3}]
    return {
        "controls": [
            {"claim": "E.3", "name": "mirrored", "verdict": "REFUTED", "caught": True, "truth": False},
            {"claim": "E.4", "name": "doubled", "verdict": "SUPPORTED", "caught": False, "truth": False},
        ],
        "matrix": matrix(["E.3", "E.4", "E.5", "E.11"]),
        "probes": [
            {"claim": "E.3", "regime": "fig1", "verdicts": points, "interval": [0.04, 0.08], "boundary": [0.057], "delta": 0.1, "theory": theory, "text": "holds down to sigma_p = 0.08"},
            {"claim": "E.4", "regime": "fig1", "verdicts": grid, "interval": [], "boundary": []},
        ],
        "figures": [{
            "name": "Tab.2", "title": "Sign classes", "svg": "<svg xmlns='http://www.w3.org/2000/svg' width='40' height='20'><rect width='40' height='20'/></svg>",
            "published": "990, 17, 16, 977", "command": "verify figure Tab.2", "table": {"columns": ["class", "ours", "published"], "rows": [["K+Q+", 484.2, 486]]},
        }],
        "bench": [{"name": "fig1_reduced_vs_torch", "median_s": 0.02, "baseline": "torch", "ratio": 1500.0}],
    }  # fmt: skip
