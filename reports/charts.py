"""Small SVG charts in pure Python: deterministic, a few kilobytes each, coloured by the page's style sheet."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from markupsafe import Markup, escape

from verify.notation import text

Scale = Callable[[float], float]
WIDTH, HEIGHT = 360, 200
LEFT, RIGHT, TOP, BOTTOM = 46, 10, 34, 36
_SUPER = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number(x: float | None, digits: int = 3) -> str:
    """A number as people read it: 3 significant digits, a true minus, powers of ten where they are shorter."""
    if x is None or not math.isfinite(x):
        return "–" if x is None or math.isnan(x) else "∞" if x > 0 else "−∞"
    if x == 0:
        return "0"
    exponent = math.floor(math.log10(abs(x)))
    if -4 <= exponent < 6:
        shown = f"{x:.{max(0, digits - 1 - exponent)}f}"
        if "." in shown:
            shown = shown.rstrip("0").rstrip(".")
        return ("0" if shown in ("-0", "") else shown).replace("-", "−")
    if abs(round(x / 10**exponent, digits - 1)) >= 10:
        exponent += 1
    mantissa = f"{x / 10**exponent:.{digits - 1}f}".rstrip("0").rstrip(".")
    return (
        f"{mantissa}·10{str(exponent).translate(_SUPER)}".replace("-", "−", 1)
        if x < 0
        else f"{mantissa}·10{str(exponent).translate(_SUPER)}"
    )


def _decade(x: float) -> str:
    e = round(math.log10(x))
    return f"10{str(e).translate(_SUPER)}" if not -2 <= e <= 3 else number(x)


def nice_ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers that cover [low, high]."""
    if not high > low:
        return [low]
    raw = (high - low) / max(1, count - 1)
    size = 10 ** math.floor(math.log10(raw))
    step = next(s * size for s in (1, 2, 2.5, 5, 10) if s * size >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [0.0 if k == 0 else k * step for k in range(first, last + 1)]


def log_ticks(low: float, high: float) -> tuple[list[float], list[float]]:
    """(labelled, minor) ticks of a log axis: decades, or 1-2-5 where there is less than one and a half."""
    a, b = math.floor(math.log10(low)), math.ceil(math.log10(high))
    decades = [10.0**k for k in range(a, b + 1)]
    inside = [t for t in decades if low * 0.999 <= t <= high * 1.001]
    fine = [m * 10.0**k for k in range(a, b + 1) for m in range(1, 10) if low <= m * 10.0**k <= high]
    if len(inside) < 2:
        inside = [t for t in fine if round(t / 10 ** math.floor(math.log10(t) + 1e-9)) in (1, 2, 5)]
    step = max(1, math.ceil(len(inside) / 7))
    return inside[::step], fine if b - a <= 6 else []


class Margins:
    """A vertical scale for margins: linear, or linear near zero and logarithmic beyond (asinh) where they span decades."""

    def __init__(self, values: Sequence[float], low: float, high: float) -> None:
        """`low`, `high`: the positions of the ends (pixels)."""
        finite = [v for v in values if math.isfinite(v)] or [0.0]
        lo, hi = min(0.0, *finite), max(0.0, *finite)
        size = sorted(abs(v) for v in finite)
        typical = size[len(size) // 2]
        self.signed_log = (max(-lo, hi) > 25 * max(typical, 1e-12) and max(-lo, hi) > 0) or max(-lo, hi) > 200
        self.unit = max(10 ** math.floor(math.log10(max(typical, max(-lo, hi) * 1e-4, 1e-12))), 1e-12)
        if lo == hi == 0:
            hi = 1.0
        if self.signed_log:
            self.ticks = self._signed_ticks(lo, hi)
            lo, hi = min(lo, *self.ticks), max(hi, *self.ticks)
        else:
            pad = 0.06 * (hi - lo)
            lo, hi = (lo - pad if lo < 0 else lo), (hi + pad if hi > 0 else hi)
            self.ticks = [t for t in nice_ticks(lo, hi) if lo <= t <= hi]
        self.low, self.high = lo, hi
        self._a, self._b = self._warp(lo), self._warp(hi)
        self._ends = low, high

    def _signed_ticks(self, lo: float, hi: float) -> list[float]:
        out = [0.0]
        for sign, end in ((1, hi), (-1, -lo)):
            k, found = math.log10(self.unit), []
            while 10**k < end * 1.0001:
                found.append(sign * 10.0**k)
                k += 1
            out += found[:: max(1, math.ceil(len(found) / 3))]
        return sorted(out)

    def _warp(self, x: float) -> float:
        return math.asinh(x / self.unit) if self.signed_log else x

    def __call__(self, x: float) -> float:
        share = (self._warp(min(max(x, self.low), self.high)) - self._a) / (self._b - self._a)
        return self._ends[0] + share * (self._ends[1] - self._ends[0])


def coordinate(x: float) -> str:
    return f"{x:.1f}".rstrip("0").rstrip(".")


def path(points: Sequence[tuple[float, float] | None]) -> str:
    out, pen = [], False
    for p in points:
        if p is None:
            pen = False
            continue
        out.append(f"{'L' if pen else 'M'}{coordinate(p[0])} {coordinate(p[1])}")
        pen = True
    return "".join(out)


def frame(label: str, width: int, height: int, body: list[str], css: str) -> Markup:
    head = f'<svg class="chart {css}" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label)}">'
    return Markup(head + "".join(body) + "</svg>")


def label(x: float, y: float, words: str, anchor: str = "middle", css: str = "") -> str:
    kind = f' class="{css}"' if css else ""
    return f'<text x="{coordinate(x)}" y="{coordinate(y)}" text-anchor="{anchor}"{kind}>{escape(words)}</text>'


def _y_axis(scale: Margins, x0: float, x1: float, name: str, bottom: float) -> list[str]:
    out = [label(4, 11, name, "start", "name")]
    for tick in scale.ticks:
        y = scale(tick)
        out.append(f'<path class="{"zero" if tick == 0 else "grid"}" d="M{coordinate(x0)} {coordinate(y)}H{coordinate(x1)}"/>')
        out.append(label(x0 - 5, y + 3.5, number(tick), "end"))
    if scale.low < 0:
        out.insert(
            0,
            f'<rect class="below" x="{coordinate(x0)}" y="{coordinate(scale(0))}" width="{coordinate(x1 - x0)}" height="{coordinate(bottom - scale(0))}"/>',
        )
    return out


def _margin_name(units: str, scale: Margins) -> str:
    words = f"margin ({units}{', signed log scale' if scale.signed_log else ''})"
    if len(words) <= 56:
        return words
    return "margin (unit: see “Measured”" + (", signed log scale)" if scale.signed_log else ")")


def log_axis(low: float, high: float, x: Scale, y: float, name: str, width: int) -> list[str]:
    major, minor = log_ticks(low, high)
    out = [f'<path class="axis" d="M{coordinate(x(low))} {coordinate(y)}H{coordinate(x(high))}"/>']
    out += [f'<path class="axis" d="M{coordinate(x(t))} {coordinate(y)}v3"/>' for t in minor if t not in major]
    for t in major:
        out.append(f'<path class="axis" d="M{coordinate(x(t))} {coordinate(y)}v6"/>')
        out.append(
            label(min(max(x(t), 12), width - 14), y + 17, _decade(t) if math.isclose(t, 10.0 ** round(math.log10(t))) else number(t))
        )
    return [*out, label((x(low) + x(high)) / 2, y + 31, name, css="name")]


def curve_chart(curve: dict, times: dict[str, float | None], units: str) -> Markup:
    """Margin over time: median, 5-95 % band, worst seed; named times marked; log axis in tau.

    Args:
        curve: {"tau", "low", "median", "high", "worst", "worst_seed"} of the record. times: named times in tau.
    """
    tau = curve["tau"]
    kept = [k for k in range(len(tau)) if any(curve[key][k] is not None for key in ("median", "worst"))]
    if len(kept) < 2:
        return Markup()
    low, high = tau[kept[0]], tau[kept[-1]]
    series = {key: [curve[key][k] for k in kept] for key in ("low", "median", "high", "worst")}
    x0, x1, y0, y1 = LEFT, WIDTH - RIGHT, HEIGHT - BOTTOM, TOP
    a, b = math.log(low), math.log(high)

    def x(t: float) -> float:
        return x0 + (math.log(t) - a) / (b - a) * (x1 - x0)

    y = Margins([v for row in series.values() for v in row if v is not None], y0, y1)
    body = _y_axis(y, x0, x1, _margin_name(units, y), y0)
    body += _stage_marks(times, low, high, x, y0, y1, x1)
    at = [x(tau[k]) for k in kept]
    upper = [(p, y(v)) for p, v in zip(at, series["high"], strict=True) if v is not None]
    lower = [(p, y(v)) for p, v in zip(at, series["low"], strict=True) if v is not None]
    if upper and lower:
        body.append(f'<path class="band" d="{path([*upper, *reversed(lower)])}Z"/>')
    for key in ("median", "worst"):
        line = [None if v is None else (p, y(v)) for p, v in zip(at, series[key], strict=True)]
        body.append(f'<path class="{key}" d="{path(line)}"/>')
    body += log_axis(low, high, x, y0, "τ = ηt (log scale)", WIDTH)
    words = f"Margin over time from τ = {number(low)} to {number(high)}; lowest value of the worst seed {number(min((v for v in series['worst'] if v is not None), default=None))}"
    return frame(words, WIDTH, HEIGHT, body, "curve")


def _stage_marks(times: dict[str, float | None], low: float, high: float, x: Scale, y0: float, y1: float, x1: float) -> list[str]:
    inside = sorted(((t, name) for name, t in times.items() if t is not None and low <= t <= high), key=lambda p: p[0])
    out, ends = [], [-1e9, -1e9]
    for t, name in inside:
        out.append(f'<path class="stage" d="M{coordinate(x(t))} {coordinate(y0)}V{coordinate(y1)}"/>')
        words = {"T_4_minus_predicted": "T₄⁻ pred."}.get(name, text(name))
        half = 3.4 * len(words)
        centre = min(max(x(t), half + 2), x1 - half + 8)
        row = next((r for r in (0, 1) if centre - half > ends[r] + 3), None)
        if row is not None:
            ends[row] = centre + half
            out.append(label(centre, y1 - 3 - 11 * row, words, css="stagename"))
    return out


def histogram(margins: Sequence[float | None], units: str) -> Markup:
    """How many seeds have which margin; violations (0 and below) are hatched."""
    values = [m for m in margins if m is not None and math.isfinite(m)]
    if len(values) < 2:
        return Markup()
    width, height, top, bottom = WIDTH, 150, 20, 36
    x0, x1, y0 = LEFT, WIDTH - RIGHT, height - bottom
    scale = Margins(values, x0, x1)
    pixel = [scale(v) for v in values]
    zero = scale(0)
    bins = 24
    size = (x1 - x0) / bins
    # The edge between bins falls on zero, so that no bar mixes violations with passes.
    shift = (zero - x0) % size
    counts: dict[int, int] = {}
    for p, v in zip(pixel, values, strict=True):
        k = math.floor((p - x0 - shift) / size)
        k = min(k, round((zero - x0 - shift) / size) - 1) if v <= 0 else max(k, round((zero - x0 - shift) / size))
        counts[k] = counts.get(k, 0) + 1
    most = max(counts.values())
    body = [label(4, 11, "seeds", "start", "name")]
    for share in (0.5, 1.0):
        y = y0 - share * (y0 - top)
        body.append(f'<path class="grid" d="M{coordinate(x0)} {coordinate(y)}H{coordinate(x1)}"/>')
        if share == 1 or most % 2 == 0:
            body.append(label(x0 - 5, y + 3.5, number(share * most), "end"))
    first_hold = round((zero - x0 - shift) / size)
    for k in sorted(counts):
        left = max(x0 + shift + k * size, x0)
        right = min(x0 + shift + (k + 1) * size, x1)
        tall = counts[k] / most * (y0 - top)
        css = "bar" if k >= first_hold else "bar bad"
        body.append(
            f'<rect class="{css}" x="{coordinate(left + 0.5)}" y="{coordinate(y0 - tall)}" width="{coordinate(max(right - left - 1, 1))}" height="{coordinate(tall)}"/>'
        )
    body.append(f'<path class="zero" d="M{coordinate(zero)} {coordinate(y0)}V{coordinate(top - 4)}"/>')
    body.append(f'<path class="axis" d="M{coordinate(x0)} {coordinate(y0)}H{coordinate(x1)}"/>')
    last = -1e9
    for tick in scale.ticks:
        words = number(tick)
        at = scale(tick)
        if at - 3.2 * len(words) > last:
            body.append(f'<path class="axis" d="M{coordinate(at)} {coordinate(y0)}v5"/>')
            body.append(label(at, y0 + 17, words))
            last = at + 3.2 * len(words) + 4
    body.append(label((x0 + x1) / 2, y0 + 31, _margin_name(units, scale), css="name"))
    bad = sum(v <= 0 for v in values)
    return frame(f"Histogram of {len(values)} margins; {bad} at or below zero", width, height, body, "hist")
