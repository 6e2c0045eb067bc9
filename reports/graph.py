"""The proof graph as inline SVG: shape by kind, border = own verdict, fill = with all ancestors, glyphs and patterns besides colour."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup, escape

from reports.charts import coordinate
from reports.layout import NODE_HEIGHT, layered
from reports.model import HOLDS, Claim, anchor

H = NODE_HEIGHT / 2
SHAPES = {
    "identity": "rectangle",
    "analytic": "hexagon",
    "probabilistic": "pill",
    "dynamics": "rounded box",
    "scaling": "parallelogram",
    "experiment": "arrow",
}


def outline(kind: str, width: float) -> str:
    """SVG path of a node's shape, centred on the origin."""
    w = width / 2
    if kind == "identity":
        return f"M{-w:g} {-H:g}H{w:g}V{H:g}H{-w:g}Z"
    if kind == "analytic":
        return f"M{-w:g} 0L{8 - w:g} {-H:g}H{w - 8:g}L{w:g} 0L{w - 8:g} {H:g}H{8 - w:g}Z"
    if kind == "scaling":
        return f"M{7 - w:g} {-H:g}H{w:g}L{w - 7:g} {H:g}H{-w:g}Z"
    if kind == "experiment":
        return f"M{-w:g} {-H:g}H{w - 9:g}L{w:g} 0L{w - 9:g} {H:g}H{-w:g}Z"
    r = H if kind == "probabilistic" else 5
    inner, side = 2 * (w - r), 2 * (H - r)
    return (
        f"M{r - w:g} {-H:g}h{inner:g}a{r:g} {r:g} 0 0 1 {r:g} {r:g}v{side:g}a{r:g} {r:g} 0 0 1 {-r:g} {r:g}"
        f"h{-inner:g}a{r:g} {r:g} 0 0 1 {-r:g} {-r:g}v{-side:g}a{r:g} {r:g} 0 0 1 {r:g} {-r:g}Z"
    )


def state(claim: Claim, regime: str | None) -> tuple[str, str]:
    """(own, fill) of a claim; `regime` None means the worst over all regimes.

    own: family of the verdict. fill: "ok" it and all ancestors hold, "broken" it holds but an ancestor does not, "bad" it fails,
    "unknown" else.
    """
    rows = [r for r in claim.rows if regime is None or r["regime"] in (None, regime)]
    shown = Claim(claim.info, claim.ids, rows)
    own = shown.family
    if own in ("fail", "error"):
        return own, "bad"
    if own in HOLDS:
        return own, {True: "ok", False: "broken", None: "unknown"}[shown.ancestors_hold]
    return own, "unknown"


def _smooth(line: Sequence[tuple[float, float]]) -> str:
    out = [f"M{coordinate(line[0][0])} {coordinate(line[0][1])}"]
    for (xa, ya), (xb, yb) in itertools.pairwise(line):
        if abs(ya - yb) < 0.5:
            out.append(f"L{coordinate(xb)} {coordinate(yb)}")
        else:
            half = (xa + xb) / 2
            out.append(f"C{coordinate(half)} {coordinate(ya)} {coordinate(half)} {coordinate(yb)} {coordinate(xb)} {coordinate(yb)}")
    return "".join(out)


def draw(claims: Sequence[Claim], names: Sequence[str]) -> dict[str, Any]:
    """{"svg": Markup, "data": for the page's script, "order": [(claim, depth)] for the list, "alone": claims without any edge}."""
    joined = [c for c in claims if c.parents or c.children]
    alone = [c for c in claims if not (c.parents or c.children)]
    parents = {c.id: c.parents for c in joined}
    widths = {c.id: max(48.0, 6.6 * len(c.id) + 30) for c in joined}
    made = layered(parents, widths)
    views = [None, *names]
    by_id = {c.id: c for c in joined}
    body = []
    for c in joined:
        for p in c.parents:
            drawn = made.edges.get((p, c.id))
            line = drawn or [
                (made.nodes[p][0] + widths[p] / 2, made.nodes[p][1]),
                (made.nodes[c.id][0] - widths[c.id] / 2, made.nodes[c.id][1]),
            ]
            css = "edge" if drawn else "edge implied"
            body.append(f'<path class="{css}" data-a="{escape(p)}" data-b="{escape(c.id)}" d="{_smooth(line)}"/>')
    for column in made.ranks:
        body += [_node(by_id[name], made.nodes[name], widths[name], made.depth[name]) for name in column]
    w, h = made.width + 8, made.height + 8
    head = f'<svg class="proof" viewBox="-4 -4 {coordinate(w)} {coordinate(h)}" width="{coordinate(w)}" height="{coordinate(h)}" role="group" aria-label="Proof graph: {len(joined)} claims, from what is proved first on the left to Theorem 3.2 on the right">'
    order = sorted(joined, key=lambda c: made.depth[c.id])
    return {
        "svg": Markup(head + "".join(body) + "</svg>") if joined else Markup(),
        "data": {
            "views": ["worst of all regimes", *names],
            "nodes": {
                c.id: {
                    "parents": c.parents,
                    "depth": made.depth[c.id],
                    "title": str(c.info.get("title", "")),
                    "kind": c.kind,
                    "anchor": anchor(c.id),
                    "states": [list(state(c, v)) for v in views],
                }
                for c in joined
            },
        },
        "order": [(c, made.depth[c.id], state(c, None)) for c in order],
        "alone": alone,
    }


def _node(claim: Claim, at: tuple[float, float], width: float, depth: int) -> str:
    own, fill = state(claim, None)
    words = f"{' = '.join(claim.ids)}: {claim.info.get('title', '')} ({claim.kind}; {_verdicts(claim)})"
    shape = outline(claim.kind, width)
    x = -width / 2 + 10
    return (
        f'<a class="node n-{own} f-{fill}" href="#claim-{anchor(claim.id)}" data-id="{escape(claim.id)}" data-depth="{depth}" '
        f'aria-label="{escape(words)}" transform="translate({coordinate(at[0])} {coordinate(at[1])})"><title>{escape(words)}</title>'
        f'<path class="base" d="{shape}"/><path class="shape" d="{shape}"/>'
        f'<use href="#glyph-{own}" x="{coordinate(x)}" y="-4.5" width="9" height="9"/>'
        f'<text x="{coordinate(x + 13)}" y="4">{escape(claim.id)}</text></a>'
    )


def _verdicts(claim: Claim) -> str:
    own = [r for r in claim.rows if r["id"] == claim.id]
    return ", ".join(f"{r['regime']}: {r['verdict']}" if r["regime"] else str(r["verdict"]) for r in own) or "never tested"


def legend() -> list[tuple[str, str, Markup]]:
    """(kind, shape in words, small SVG) of every kind."""
    box = '<svg class="proof legend" viewBox="-23 -13 46 26" width="46" height="26" aria-hidden="true"><path class="shape" d="{}"/></svg>'
    return [(kind, words, Markup(box.format(outline(kind, 44)))) for kind, words in SHAPES.items()]
