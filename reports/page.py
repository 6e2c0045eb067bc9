"""Assembles the page: view objects and charts into the templates. A pure function of run records."""

from __future__ import annotations

import base64
import json
import math
import re
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from reports import boundaries, charts, graph, history, ladder, mathml, matrix, model
from reports.health import health
from verify import notation

TEMPLATES = Path(__file__).parent / "templates"
Record = dict[str, Any]
RUN: Record = {"timing": {}, "versions": {}, "constants": {}, "condition": [], "seeds": None, "root_seed": 0, "fingerprint": ""}
EXTRAS: Record = {"controls": [], "matrix": None, "probes": [], "figures": [], "bench": []}


def _environment() -> Environment:
    env = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    env.filters |= {
        "num": charts.number,
        "anchor": model.anchor,
        "share": share,
        "factor": factor,
        "family": model.family,
        "times": matrix.times,
    }
    env.globals |= {
        "prose": mathml.prose,
        "formula": mathml.formula,
        "plain": mathml.plain,
        "category": model.category,
        "met": model.met,
        "replay": model.replay,
        "source_url": source_url,
        "verdict_in": model.verdict_in,
        "symbol_text": notation.text,
        "embed": embed,
        "asset": lambda name: Markup((TEMPLATES / name).read_text(encoding="utf-8")),
    }
    return env


def embed(data: Any) -> Markup:
    """JSON for a <script type="application/json">: no character that could end the element or start a comment."""
    text = json.dumps(data, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for raw in ("<", ">", "&", "\u2028", "\u2029"):
        text = text.replace(raw, f"\\u{ord(raw):04x}")
    return Markup(text)


def share(x: float | None) -> str:
    """A share as per cent; never rounds up to 100 nor down to 0."""
    if x is None:
        return "–"
    shown = 100 * x
    if 99.9 < shown < 100:
        return f"{math.floor(shown * 1000) / 1000:g} %"
    return "< 0.1 %" if 0 < shown < 0.1 else f"{shown:.1f}".rstrip("0").rstrip(".") + " %"


def factor(slack: float | None) -> str:
    """A log-ratio as the factor by which a clause is kept or broken."""
    if slack is None:
        return "∞"
    return "× " + charts.number(float(f"{math.exp(min(abs(slack), 690)):.2g}"))


def _units(info: dict[str, Any]) -> str:
    """Units as plain text for an axis: formulas become their symbols."""
    named = {"\\eta": "η", "\\tau": "τ", "\\xi": "ξ", "\\|": "‖", "\\mu": "μ"}
    text = str(info.get("units") or "slack ratio").replace("$", "")
    for macro, character in named.items():
        text = text.replace(macro, character)
    return re.sub(r"_\{?(\w)\}?", lambda m: {"i": "ᵢ", "s": "ₛ"}.get(m[1], f"_{m[1]}"), text)


def _panel(row: Record, claim: model.Claim, regimes: dict[str, Record]) -> dict[str, Any]:
    times = regimes.get(row["regime"] or "", {}).get("times", {})
    units = _units(claim.info)
    fit, detail = row.get("fit"), row.get("detail") or {}
    return {
        "row": row,
        "curve": charts.curve_chart(row["curve"], times, units) if row.get("curve") else "",
        "histogram": charts.histogram(row["margins"], units) if row.get("margins") else "",
        "fit": ladder.fit_chart(fit["points"], fit) if fit and fit.get("points") else "",
        "median_interval": model.median_interval(row.get("margins")),
        "detail": _detail(
            {k: v for k, v in detail.items() if k not in ("paper", "sympy", "torch", "torch_agrees", "torch_error", "cases", "exact")}
        ),
        "columns": {k: detail.get(k) for k in ("paper", "sympy", "torch")} if detail.get("paper") else None,
        "cases": detail.get("cases") or [],
        "inline": {k.replace("_", " "): words for k, v in detail.items() if (words := _inline(v))},
        "tables": [{"name": k.replace("_", " "), "rows": v} for k, v in sorted(detail.items()) if _is_table(v)],
    }


def _inline(value: Any) -> str:
    """A list of numbers, or a small dict of numbers, on one line."""
    if isinstance(value, list) and all(isinstance(x, (int, float)) for x in value):
        return ", ".join(charts.number(x) for x in value)
    if isinstance(value, dict) and not {"median", "min", "max"} <= value.keys():
        found = [(k, x) for k, x in value.items() if isinstance(x, (int, float)) and not isinstance(x, bool)]
        return ", ".join(f"{k.replace('_', ' ')} {charts.number(x)}" for k, x in found)
    return ""


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(x, list) and x and not isinstance(x[0], (list, dict)) for x in value)


def _detail(detail: dict[str, Any]) -> list[tuple[str, dict[str, Any] | None, Any]]:
    """(name, {"median", "min", "max"} or None, other value) of every number a check shows beside its verdict."""
    out: list[tuple[str, dict[str, Any] | None, Any]] = []
    for name, value in sorted(detail.items()):
        summary = value if isinstance(value, dict) and {"median", "min", "max"} <= value.keys() else None
        out.append((name.replace("_", " "), summary, value))
    return out


def _figure(figure: Record) -> Record:
    """A figure with every key present; its SVG becomes an image, in which nothing can run."""
    image = "data:image/svg+xml;base64," + base64.b64encode(figure["svg"].encode()).decode() if figure.get("svg") else ""
    return {"name": "", "title": "", "published": "", "ours": "", "command": "", "table": None} | figure | {"image": image}


def source_url(run: Record, location: str) -> str:
    """Where a line such as lemmas/stage2.py:12 can be read on the web; "" unless the record names a repository there."""
    place = re.fullmatch(r"([\w./-]+\.py):(\d+)", location)
    home = str(run.get("repository") or "").rstrip("/").removesuffix(".git")
    if place is None or not re.fullmatch(r"https://[\w.-]+(/[\w.~-]+)+", home):
        return ""
    return f"{home}/blob/{run.get('commit') or 'HEAD'}/{place[1]}#L{place[2]}"


def _probe(probe: Record) -> Record:
    """A probe with its chart, its sentence and its command."""
    return {
        "data": {"claim": "", "regime": "", "verdicts": []} | probe,
        "axes": boundaries.keys_of(probe),
        "chart": boundaries.probe_chart(probe),
        "text": boundaries.sentence(probe),
        "command": boundaries.command(probe),
    }


def _table_rows(claims: list[model.Claim], regimes: list[str], changes: dict[str, str]) -> list[dict[str, Any]]:
    out = []
    for rank, claim in enumerate(claims):
        row = claim.worst_row
        by_regime = {r["regime"]: r for r in claim.rows}
        tight = [r["tightness"] for r in claim.rows if r.get("tightness") is not None]
        states = [model.met(r) for r in claim.rows]
        out.append(
            {
                "claim": claim,
                "rank": rank,
                "free": by_regime.get(None),
                "cells": [by_regime.get(name) for name in regimes],
                "row": row,
                "tightness": max(tight, default=None),
                "met": False if False in states else True if True in states else None,
                "change": changes.get(claim.id, ""),
            }
        )
    return out


def context(record: Record, previous: list[Record], extras: Record) -> dict[str, Any]:
    """Everything the templates need."""
    run, extras = RUN | record["run"], EXTRAS | extras
    sections = model.sections(model.claims_of(record))
    claims = [c for _, _, members in sections for c in members]
    names = model.regimes_of(record)
    described = {r["name"]: r for r in run.get("regimes", [])}
    past = history.bounded([*previous, record])
    changes = history.diff(past[-2], past[-1]) if len(past) > 1 else None
    by_claim: dict[str, list[Record]] = {}
    for control in extras["controls"]:
        by_claim.setdefault(control["claim"], []).append(control)
    drawn = graph.draw(claims, names)
    shown = matrix.view(extras["matrix"])
    needs = {c.id: matrix.of_claim(shown, c.ids) for c in claims}
    cards = {
        c.id: {
            "panels": [_panel(r, c, described) for r in c.rows],
            "controls": [x for label in c.ids for x in by_claim.get(label, [])],
        }
        for c in claims
    }
    return {
        "run": run,
        "claims": claims,
        "by_id": {c.id: c for c in claims},
        "labels": {label for c in claims for label in c.ids},
        "sections": sections,
        "regimes": [{"name": n, "slack": {}} | described.get(n, {}) for n in names],
        "names": names,
        "tally": model.tally(claims),
        "tallies": [(n, model.tally_rows([r for r in record["verdicts"] if r["regime"] == n])) for n in [None, *names]],
        "categories": model.CATEGORIES,
        "command": model.command(run),
        "cards": cards,
        "table": _table_rows(claims, names, changes.by_claim if changes else {}),
        "extras": extras,
        "history": past,
        "changes": changes,
        "symbols": list(notation.by_group()),
        "graph_svg": drawn["svg"],
        "graph_data": drawn["data"],
        "graph_order": drawn["order"],
        "graph_alone": drawn["alone"],
        "graph_legend": graph.legend(),
        "needs": needs,
        "breaks": {name: matrix.what_breaks(found) for name, found in needs.items()},
        "matrix": shown,
        "results": matrix.RESULTS,
        "probes": [_probe(p) for p in extras["probes"]],
        "figures": [_figure(f) for f in extras["figures"]],
        "health": health(claims, run, extras["controls"]),
    }


def build(record: Record, previous: list[Record], extras: Record) -> str:
    """The page as one HTML text."""
    return _environment().get_template("page.html.j2").render(context(record, previous, extras))
