"""Where claims break: the picture of a probe (one key, or two) and the necessity matrix, from what `verify probe` and `verify matrix` wrote."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from markupsafe import Markup

from reports.charts import LEFT, RIGHT, TOP, WIDTH, coordinate, frame, label, log_axis, log_ticks, nice_ticks, number
from reports.model import family
from verify.notation import text

Record = dict[str, Any]


def keys_of(probe: Record) -> list[str]:
    """The varied keys, in order of the first judged point."""
    points = probe.get("verdicts") or []
    return list(points[0]["values"]) if points else []


def probe_chart(probe: Record) -> Markup:
    """Judged points of a probe over its one or two keys; "" where fewer than two were judged."""
    points, keys = probe.get("verdicts") or [], keys_of(probe)
    if len(points) < 2 or len(keys) not in (1, 2):
        return Markup()
    return _strip(probe, points, keys[0]) if len(keys) == 1 else _map(points, keys)


def _scale(values: list[float], start: float, end: float) -> tuple[Callable[[float], float], float, float, bool]:
    lo, hi = min(values), max(values)
    log = lo > 0 and hi / lo > 20
    if hi == lo:
        hi = lo + 1

    def at(v: float) -> float:
        share = math.log(v / lo) / math.log(hi / lo) if log else (v - lo) / (hi - lo)
        return start + share * (end - start)

    return at, lo, hi, log


def _mark(x: float, y: float, verdict: str) -> str:
    kind = family(verdict)
    return (
        f'<svg class="mark g-{kind}" x="{coordinate(x - 5)}" y="{coordinate(y - 5)}" width="10" height="10" viewBox="0 0 12 12">'
        f'<use href="#glyph-{kind}"/></svg>'
    )


def _x_axis(at: Callable[[float], float], lo: float, hi: float, log: bool, y: float, name: str) -> list[str]:
    if log:
        return log_axis(lo, hi, at, y, f"{name} (log scale)", WIDTH)
    body = [f'<path class="axis" d="M{coordinate(at(lo))} {coordinate(y)}H{coordinate(at(hi))}"/>']
    for tick in nice_ticks(lo, hi):
        body += [f'<path class="axis" d="M{coordinate(at(tick))} {coordinate(y)}v5"/>', label(at(tick), y + 17, number(tick))]
    return [*body, label((at(lo) + at(hi)) / 2, y + 31, name, css="name")]


def _strip(probe: Record, points: list[Record], key: str) -> Markup:
    height, base = 120, 78
    x0, x1 = 18, WIDTH - 18
    at, lo, hi, log = _scale([float(p["values"][key]) for p in points], x0, x1)
    body = []
    interval = probe.get("interval")
    if interval and len(interval) == 2 and None not in interval:
        left, right = (at(min(max(float(v), lo), hi)) for v in interval)
        body.append(f'<rect class="band" x="{coordinate(left)}" y="24" width="{coordinate(max(right - left, 2))}" height="{base - 24}"/>')
        body.append(label(min(max((left + right) / 2, 60), WIDTH - 60), 12, "measured boundary", css="name"))
    for t in probe.get("theory") or []:
        if lo <= t["value"] <= hi:
            body.append(f'<path class="theory" d="M{coordinate(at(t["value"]))} 30V{base}"/>')
            body.append(label(min(max(at(t["value"]), 45), WIDTH - 45), 24, f"{t.get('clause', '')} slack 0", css="stagename"))
    for p in points:
        body.append(_mark(at(float(p["values"][key])), 54, p["verdict"]))
    body += _x_axis(at, lo, hi, log, base, text(key))
    return frame(f"{len(points)} judged values of {key} from {number(lo)} to {number(hi)}", WIDTH, height, body, "probe")


def _map(points: list[Record], keys: list[str]) -> Markup:
    height = 320
    x0, x1, y0, y1 = LEFT, WIDTH - RIGHT, height - 40, TOP
    at_x, lo, hi, log = _scale([float(p["values"][keys[0]]) for p in points], x0 + 8, x1 - 8)
    at_y, low, high, tall = _scale([float(p["values"][keys[1]]) for p in points], y0 - 8, y1 + 8)
    body = [label(4, 11, text(keys[1]) + (" (log scale)" if tall else ""), "start", "name")]
    for tick in log_ticks(low, high)[0] if tall else nice_ticks(low, high):
        body += [f'<path class="grid" d="M{x0} {coordinate(at_y(tick))}H{x1}"/>', label(x0 - 5, at_y(tick) + 3.5, number(tick), "end")]
    for p in points:
        body.append(_mark(at_x(float(p["values"][keys[0]])), at_y(float(p["values"][keys[1]])), p["verdict"]))
    body += _x_axis(at_x, lo, hi, log, y0, text(keys[0]))
    return frame(f"Map of {len(points)} judged points over {keys[0]} and {keys[1]}", WIDTH, height, body, "probe")


def matrix_table(matrix: Record | None) -> Record | None:
    """{"columns": clauses, "rows": [(claim, {clause: cell})]} of a necessity matrix, in the order of its cells; None without one."""
    cells = (matrix or {}).get("cells") or []
    if not cells:
        return None
    columns = list(dict.fromkeys(str(c.get("clause") or c.get("part")) for c in cells))
    rows: dict[str, dict[str, Record]] = {}
    for cell in cells:
        rows.setdefault(cell["claim"], {})[str(cell.get("clause") or cell.get("part"))] = cell
    return {"columns": columns, "rows": list(rows.items()), "base": (matrix or {}).get("base", "")}


def what_breaks(matrix: Record | None) -> dict[str, str]:
    """Per claim, the clauses that it was found to need."""
    out: dict[str, list[str]] = {}
    for cell in (matrix or {}).get("cells") or []:
        if cell.get("result") == "needed":
            out.setdefault(cell["claim"], []).append(str(cell.get("clause") or cell.get("part")))
    return {claim: ", ".join(clauses) for claim, clauses in out.items()}
