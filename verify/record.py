"""The descriptive part of a run record: regimes with the slack of every clause, versions, constants, claims."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from verify import condition, constants, store
from verify.claim.claim import Claim
from verify.claim.verdict import clean
from verify.regime import Regime
from verify.times import end_of_run, formula_times

if TYPE_CHECKING:
    from verify.plan import Plan


def describe_regime(regime: Regime) -> dict[str, Any]:
    """A regime as plain data, with named times (tau) and slacks of Condition 3.1 (null = infinite)."""
    return clean(
        regime.to_dict()
        | {"hash": regime.hash, "times": formula_times(regime), "end": end_of_run(regime), "slack": condition.slacks(regime)}
    )


def describe_claim(claim: Claim, label: str) -> dict[str, Any]:
    """A claim's static description, one per label (the row of `verify list --json`)."""
    parts = claim.parts
    return clean(
        {
            "id": label,
            "same_as": [x for x in claim.ids if x != label],
            "title": claim.title,
            "statement": parts["statement"],
            "conditions_text": parts["conditions"],
            "measured": parts["measured"],
            "made_finite": parts["made_finite"],
            "kind": claim.kind,
            "source": claim.source,
            "location": claim.location,
            "depends_on": list(claim.depends_on),
            "conditions": list(claim.conditions),
            "controls": [c.name for c in claim.controls if not c.truth],
            "truths": [c.name for c in claim.controls if c.truth],
            "units": claim.units,
            "constants": claim.constants,
            "over": claim.over,
            "home": list(claim.home),
            "suite": claim.suite,
            "expected": {k: {"verdict": x[0], "reason": x[1]} for k, x in claim.expected.items()},
            "rungs": [r.name for r in claim.rungs],
        }
    )


def describe_run(made: Plan) -> dict[str, Any]:
    """Everything about a run but its verdicts and its timing."""
    return {
        "regimes": [describe_regime(r) for r in made.regimes],
        "command": made.command,
        "seeds": made.seeds,
        "root_seed": made.root,
        "constants": constants.OURS,
        "condition": [{"id": p.id, "clause": p.clause, "latex": p.latex, "parameter": p.parameter} for p in condition.PARTS],
        "versions": store.versions(),
        "fingerprint": store.fingerprint(),
        "claims": [describe_claim(c, label) for c in made.claims for label in c.ids],
    }
