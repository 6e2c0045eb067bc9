"""The plot of a ladder: measured and predicted values per rung, both axes logarithmic where the values allow it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from reports.charts import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, coordinate, frame, label, log_axis, log_ticks, nice_ticks, number, path


def fit_chart(points: Sequence[Sequence[float]], fit: dict[str, Any]) -> Markup:
    """Points (x, measured, predicted) of a fit; "" if fewer than two are finite."""
    kept = [p for p in points if all(v is not None and math.isfinite(v) for v in p[:3]) and p[0] > 0]
    if len(kept) < 2 or kept[0][0] == kept[-1][0]:
        return Markup()
    xs = [p[0] for p in kept]
    ys = [v for p in kept for v in p[1:3]]
    log = min(ys) > 0
    lo, hi = min(ys), max(ys)
    lo, hi = (lo / 1.3, hi * 1.3) if log else (lo - 0.1 * (hi - lo or 1), hi + 0.1 * (hi - lo or 1))
    x_lo, x_hi = min(xs) / 1.15, max(xs) * 1.15
    x0, x1, y0, y1 = LEFT, WIDTH - RIGHT, HEIGHT - BOTTOM, TOP

    def x(v: float) -> float:
        return x0 + math.log(v / x_lo) / math.log(x_hi / x_lo) * (x1 - x0)

    def y(v: float) -> float:
        share = math.log(v / lo) / math.log(hi / lo) if log else (v - lo) / (hi - lo)
        return y0 - share * (y0 - y1)

    body = [label(4, 11, "measured" + (" (log scale)" if log else ""), "start", "name")]
    for tick in log_ticks(lo, hi)[0] if log else nice_ticks(lo, hi):
        at = coordinate(y(tick))
        body += [f'<path class="grid" d="M{x0} {at}H{x1}"/>', label(x0 - 5, y(tick) + 3.5, number(tick), "end")]
    body.append(f'<path class="theory" d="{path([(x(p[0]), y(p[2])) for p in kept])}"/>')
    body += [f'<circle class="point" cx="{coordinate(x(p[0]))}" cy="{coordinate(y(p[1]))}" r="3.5"/>' for p in kept]
    body += log_axis(x_lo, x_hi, x, y0, f"{fit.get('x_label') or 'the ladder’s variable'} (log scale)", WIDTH)
    words = f"{len(kept)} rungs: measured values as dots, the prediction as a dashed line; estimate {number(fit.get('estimate'))}"
    return frame(words, WIDTH, HEIGHT, body, "fit")
