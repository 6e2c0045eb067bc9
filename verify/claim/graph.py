"""The proof graph: an edge a <- b where the proof of a uses b; acyclic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from graphlib import TopologicalSorter

from verify.claim.claim import Claim
from verify.claim.verdict import HOLDS


def order(claims: Iterable[Claim]) -> list[str]:
    """Claim ids, parents before children.

    Raises:
        graphlib.CycleError: if the proof graph has a cycle.
    """
    claims = list(claims)
    first = {label: c.id for c in claims for label in c.ids}
    graph = {c.id: [first[p] for p in c.depends_on if p in first and first[p] != c.id] for c in claims}
    return list(TopologicalSorter(graph).static_order())


def ancestors(claims: Iterable[Claim]) -> dict[str, list[str]]:
    """All ancestors of each claim (first labels), parents before children."""
    claims = list(claims)
    first = {label: c.id for c in claims for label in c.ids}
    sequence = order(claims)
    rank = {name: r for r, name in enumerate(sequence)}
    by_id = {c.id: c for c in claims}
    above: dict[str, set[str]] = {}
    for name in sequence:
        parents = {first[p] for p in by_id[name].depends_on if p in first and first[p] != name}
        above[name] = parents.union(*(above[p] for p in parents))
    return {name: sorted(found, key=rank.__getitem__) for name, found in above.items()}


def status(above: Iterable[str], verdicts: Mapping[str, str]) -> dict[str, bool | str | None]:
    """Whether all ancestors hold: {"hold": True | False | None (some were not judged), "first_failing": id or None}."""
    unknown = False
    for name in above:
        verdict = verdicts.get(name)
        if verdict is None or verdict == "NOT RUN":
            unknown = True
        elif verdict not in HOLDS:
            return {"hold": False, "first_failing": name}
    return {"hold": None if unknown else True, "first_failing": None}
