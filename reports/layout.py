"""A layered layout of a directed acyclic graph: longest-path ranks, barycentre ordering, even spacing. Deterministic."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter

Edge = tuple[str, str]
NODE_HEIGHT, GAP, LANE = 24, 9, 7
"""Height of a node, free space between nodes, and the height of a lane in which a long edge passes a rank."""
SWEEPS = 24


@dataclass(frozen=True)
class Layout:
    """Node centres and edge polylines, in pixels from the top left; `ranks` lists the nodes of each rank from top to bottom."""

    width: float
    height: float
    nodes: dict[str, tuple[float, float]]
    edges: dict[Edge, list[tuple[float, float]]]
    depth: dict[str, int]
    ranks: list[list[str]]


def reduced(parents: Mapping[str, Sequence[str]]) -> set[Edge]:
    """Edges (parent, child) that no longer path implies (the transitive reduction)."""
    above: dict[str, set[str]] = {}
    for node in TopologicalSorter(dict(parents)).static_order():
        direct = parents.get(node, ())
        above[node] = set(direct).union(*(above[p] for p in direct))
    return {(p, node) for node, direct in parents.items() for p in direct if not any(p in above[q] for q in direct if q != p)}


def ranks_of(parents: Mapping[str, Sequence[str]]) -> tuple[dict[str, int], dict[str, int]]:
    """(depth, rank): depth is the longest path from a root; a root's rank is pulled next to its first child."""
    depth: dict[str, int] = {}
    for node in TopologicalSorter(dict(parents)).static_order():
        depth[node] = 1 + max((depth[p] for p in parents.get(node, ())), default=-1)
    rank = dict(depth)
    for node in parents:
        if not parents[node]:
            below = [rank[c] for c, direct in parents.items() if node in direct]
            rank[node] = min(below, default=1) - 1
    return depth, rank


def layered(parents: Mapping[str, Sequence[str]], widths: Mapping[str, float], width: float = 1110) -> Layout:
    """Lay out a graph from left to right.

    Args:
        parents: node -> its parents, in a fixed order. widths: width of each node in pixels. width: what the ranks should fill, if their
            number allows a reasonable space between them.
    """
    depth, rank = ranks_of(parents)
    columns: list[list[str]] = [[] for _ in range(1 + max(rank.values(), default=0))]
    for node in parents:
        columns[rank[node]].append(node)
    chains: dict[Edge, list[str]] = {}
    links: dict[str, list[str]] = {node: [] for node in parents}  # neighbours in the next rank
    back: dict[str, list[str]] = {node: [] for node in parents}
    for a, b in sorted(reduced(parents), key=lambda e: (rank[e[0]], rank[e[1]], *e)):
        chain = [a]
        for r in range(rank[a] + 1, rank[b]):
            lane = f"\0{a}\0{b}\0{r}"
            columns[r].append(lane)
            links[lane], back[lane] = [], []
            chain.append(lane)
        chains[a, b] = [*chain, b]
        for one, two in zip(chains[a, b], chains[a, b][1:], strict=False):
            links[one].append(two)
            back[two].append(one)
    _order(columns, links, back)
    y = _place(columns, links, back)
    wides = [max((widths.get(n, 0) for n in column), default=0) for column in columns]
    gap = min(max((width - sum(wides)) / max(1, len(columns) - 1), 24), 46)
    x, left = {}, 0.0
    span: list[tuple[float, float]] = []
    for column, wide in zip(columns, wides, strict=True):
        for node in column:
            x[node] = left + wide / 2
        span.append((left, left + wide))
        left += wide + gap
    top = min(y.values(), default=0) - NODE_HEIGHT / 2
    edges = {}
    for (a, b), chain in chains.items():
        line = [(x[a] + widths[a] / 2, y[a] - top)]
        for lane in chain[1:-1]:
            r = int(lane.rpartition("\0")[2])
            line += [(span[r][0], y[lane] - top), (span[r][1], y[lane] - top)]
        edges[a, b] = [*line, (x[b] - widths[b] / 2, y[b] - top)]
    height = max(y.values(), default=0) - top + NODE_HEIGHT / 2
    nodes = {n: (x[n], y[n] - top) for n in parents}
    return Layout(left - gap, height, nodes, edges, depth, [[n for n in c if n in parents] for c in columns])


def _order(columns: list[list[str]], links: Mapping[str, list[str]], back: Mapping[str, list[str]]) -> None:
    best, fewest = [list(c) for c in columns], _crossings(columns, links)
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for column in columns[1:] if down else reversed(columns[:-1]):
            near = back if down else links
            place = {n: k for c in columns for k, n in enumerate(c)}
            now = {n: k for k, n in enumerate(column)}
            column.sort(key=lambda n: (sum(place[m] for m in near[n]) / len(near[n]) if near[n] else now[n], now[n]))
        crossings = _crossings(columns, links)
        if crossings < fewest:
            best, fewest = [list(c) for c in columns], crossings
    for column, order in zip(columns, best, strict=True):
        column[:] = order


def _crossings(columns: Sequence[Sequence[str]], links: Mapping[str, list[str]]) -> int:
    total = 0
    for one, two in itertools.pairwise(columns):
        place = {n: k for k, n in enumerate(two)}
        ends = [p for n in one for p in sorted(place[m] for m in links[n])]
        seen: list[int] = []
        for end in ends:  # inversions: earlier ends that lie strictly beyond this one
            at = bisect_right(seen, end)
            total += len(seen) - at
            seen.insert(at, end)
    return total


def _size(node: str) -> float:
    return LANE if node.startswith("\0") else NODE_HEIGHT + GAP


def _place(columns: list[list[str]], links: Mapping[str, list[str]], back: Mapping[str, list[str]]) -> dict[str, float]:
    """Vertical centres: every rank keeps its order and its spacing, and each node comes as near to its neighbours as that allows."""
    y: dict[str, float] = {}
    for column in columns:
        at = -sum(map(_size, column)) / 2
        for node in column:
            y[node] = at + _size(node) / 2
            at += _size(node)
    for sweep in range(SWEEPS):
        for column in columns if sweep % 2 == 0 else reversed(columns):
            wish = []
            for node in column:
                near = [y[m] for m in (*back[node], *links[node])]
                wish.append(sum(near) / len(near) if near else y[node])
            for node, value in zip(column, _spread(wish, [_size(n) for n in column]), strict=True):
                y[node] = value
    return y


def _spread(wish: list[float], size: list[float]) -> list[float]:
    """The positions nearest to `wish` (least squares) that keep order and distances: pool adjacent violators."""
    offset, at = [], 0.0
    for k, s in enumerate(size):
        at += (size[k - 1] + s) / 2 if k else 0
        offset.append(at)
    blocks: list[tuple[float, int]] = []  # (mean, members) of wish - offset
    for w, o in zip(wish, offset, strict=True):
        mean, members = w - o, 1
        while blocks and blocks[-1][0] > mean:
            before, count = blocks.pop()
            mean = (mean * members + before * count) / (members + count)
            members += count
        blocks.append((mean, members))
    flat = [mean for mean, members in blocks for _ in range(members)]
    return [f + o for f, o in zip(flat, offset, strict=True)]
