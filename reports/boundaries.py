"""Where a claim breaks: the picture of a probe over one key or two, and the command that made it, from what `verify probe` wrote."""

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


def _rate(p: Record) -> float:
    return p["violations"] / p["n"] if p.get("n") else 0.0


def _strip(probe: Record, points: list[Record], key: str) -> Markup:
    """One key: the share of trials violated at each judged value, the band of the measured boundary, the theory's own boundary."""
    height = 210
    x0, x1, y0, y1 = LEFT, WIDTH - RIGHT, height - 40, 46
    at, lo, hi, log = _scale([float(p["values"][key]) for p in points], x0 + 8, x1 - 8)

    def y(rate: float) -> float:
        return y0 - 8 - rate * (y0 - y1 - 16)

    body = [label(4, 11, "share of trials that violate it", "start", "name")]
    interval = probe.get("interval")
    if interval and len(interval) == 2 and None not in interval:
        left, right = (at(min(max(float(v), lo), hi)) for v in interval)
        body.append(f'<rect class="band" x="{coordinate(left)}" y="{y1}" width="{coordinate(max(right - left, 2))}" height="{y0 - y1}"/>')
        body.append(label(min(max((left + right) / 2, x0 + 50), x1 - 50), y1 - 4, "measured boundary", css="stagename"))
    delta = probe.get("delta")
    for tick in (0.0, 0.5, 1.0):
        body += [f'<path class="grid" d="M{x0} {coordinate(y(tick))}H{x1}"/>', label(x0 - 5, y(tick) + 3.5, number(tick), "end")]
    if delta:
        body.append(f'<path class="allowed" d="M{x0} {coordinate(y(delta))}H{x1}"/>')
        body.append(label(x1, y(delta) - 4, f"allowed: δ = {number(delta)}", "end", "stagename"))
    inside = sorted((t for t in probe.get("theory") or [] if lo <= t["value"] <= hi), key=lambda t: t["value"])
    for row, t in enumerate(inside):
        body.append(f'<path class="theory" d="M{coordinate(at(t["value"]))} {y1}V{y0}"/>')
        words = f"{t.get('clause', '')} kept exactly"
        body.append(label(min(max(at(t["value"]), x0 + 45), x1 - 45), y1 - 16 - 11 * (row % 2), words, css="stagename"))
    body += [_mark(at(float(p["values"][key])), y(_rate(p)), p["verdict"]) for p in points]
    body += _x_axis(at, lo, hi, log, y0, text(key))
    return frame(f"{len(points)} judged values of {key} from {number(lo)} to {number(hi)}", WIDTH, height, body, "probe")


def _nearest(x: float, y: float, marks: list[tuple[float, float, str]]) -> str:
    """The family of the verdict judged nearest to a place of the picture."""
    return family(min(marks, key=lambda m: math.dist((x, y), m[:2]))[2])


COLUMNS, ROWS = 36, 28
"""Cells of the shading of a map."""


def _map(points: list[Record], keys: list[str]) -> Markup:
    """Two keys: every judged point, each place shaded like the point nearest to it."""
    height = 320
    x0, x1, y0, y1 = LEFT, WIDTH - RIGHT, height - 40, TOP
    at_x, lo, hi, log = _scale([float(p["values"][keys[0]]) for p in points], x0 + 8, x1 - 8)
    at_y, low, high, tall = _scale([float(p["values"][keys[1]]) for p in points], y0 - 8, y1 + 8)
    marks = [(at_x(float(p["values"][keys[0]])), at_y(float(p["values"][keys[1]])), p["verdict"]) for p in points]
    body = [label(4, 11, text(keys[1]) + (" (log scale)" if tall else ""), "start", "name")]
    wide, high_cell = (x1 - x0) / COLUMNS, (y0 - y1) / ROWS
    for r in range(ROWS):
        middle = y1 + (r + 0.5) * high_cell
        kinds = [_nearest(x0 + (c + 0.5) * wide, middle, marks) for c in range(COLUMNS)]
        start = 0
        for c in range(1, COLUMNS + 1):
            if c == COLUMNS or kinds[c] != kinds[start]:
                box = (x0 + start * wide, y1 + r * high_cell, (c - start) * wide, high_cell + 0.3)
                x, y, w, h = map(coordinate, box)
                body.append(f'<rect class="t-{kinds[start]}" x="{x}" y="{y}" width="{w}" height="{h}"/>')
                start = c
    for tick in log_ticks(low, high)[0] if tall else nice_ticks(low, high):
        body += [f'<path class="axis" d="M{x0} {coordinate(at_y(tick))}h-4"/>', label(x0 - 7, at_y(tick) + 3.5, number(tick), "end")]
    body += [_mark(*m) for m in marks]
    body += _x_axis(at_x, lo, hi, log, y0, text(keys[0]))
    return frame(f"Map of {len(points)} judged points over {keys[0]} and {keys[1]}", WIDTH, height, body, "probe")


def command(probe: Record) -> str:
    """The command that repeats a probe; "" where an earlier record does not tell (two keys: the ends of a Sobol set are not judged)."""
    if probe.get("command"):
        return str(probe["command"])
    keys = keys_of(probe)
    if len(keys) != 1 or not probe.get("regime"):
        return ""
    values = sorted(float(p["values"][keys[0]]) for p in probe["verdicts"])
    low, high = values[0], values[-1]
    log = ":log" if low > 0 and any(math.isclose(v, math.sqrt(low * high), rel_tol=1e-6) for v in values) else ""
    return f"verify probe {probe['claim']} --vary {keys[0]}={low:g}:{high:g}{log} --regime {probe['regime']}"


def sentence(probe: Record) -> str:
    """What was found, with the varied keys as symbols, as a sentence."""
    words = str(probe.get("text") or "")
    for key in keys_of(probe):
        words = words.replace(key, text(key))
    words = words[:1].upper() + words[1:]
    return words if not words or words.endswith(".") else words + "."
