"""From outcomes of trials to rows of the run record (one row per id and regime)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from verify.claim import graph
from verify.claim import verdict as v
from verify.claim.check import Fit
from verify.claim.claim import Claim
from verify.judge import curve_times, judge_law
from verify.regime import Regime

Row = dict[str, Any]


def _rows(claim: Claim, regime: Regime | None, outcome: v.Outcome, **fields: Any) -> list[Row]:
    expected = claim.expects(regime)
    base: Row = {
        "regime": regime.name if regime else None,
        "verdict": outcome.verdict,
        "reason": outcome.reason,
        "n": outcome.n,
        "violations": outcome.violations,
        "bound": None if outcome.low is None else {"low": outcome.low, "high": outcome.high},
        "delta": None,
        "share": None,
        "margin": {"worst": None, "median": None},
        "witness": {"seed": None, "tau": None, "t": None, "s": None, "i": None},
        "tightness": None,
        "expected": None if expected is None else {"verdict": expected[0], "reason": expected[1]},
    }
    return [v.clean({"id": label, "same_as": [x for x in claim.ids if x != label]} | base | fields) for label in claim.ids]


def met(row: Row) -> bool | None:
    """Whether a row's verdict is the declared one; None where nothing is declared."""
    return None if row["expected"] is None else row["verdict"] == row["expected"]["verdict"]


def free_row(claim: Claim, outcome: dict[str, Any]) -> list[Row]:
    """Rows of an identity or inequality."""
    if "error" in outcome:
        return _rows(claim, None, v.Outcome(v.ERROR, reason=outcome["error"]))
    verdict = {True: v.PROVED, False: v.DISPROVED, None: v.UNPROVEN}[outcome["proved"]]
    text = outcome["witness"] or "; ".join(outcome["steps"])
    return _rows(claim, None, v.Outcome(verdict, reason=text), steps=outcome["steps"], detail=outcome["detail"])


def not_run_row(claim: Claim, regime: Regime, reason: str) -> list[Row]:
    """Rows of a claim that declares that its statement makes no sense in a regime: that is then what is expected."""
    return _rows(claim, regime, v.Outcome(v.NOT_RUN, reason=reason), expected={"verdict": v.NOT_RUN, "reason": reason})


def _trouble(outcomes: Sequence[dict[str, Any]]) -> v.Outcome | None:
    for seed, outcome in enumerate(outcomes):
        if "error" in outcome:
            return v.Outcome(v.ERROR, n=len(outcomes), reason=f"seed {seed}: {outcome['error']}")
    for outcome in outcomes:
        if "not_run" in outcome:
            return v.Outcome(v.NOT_RUN, reason=outcome["not_run"])
    for seed, outcome in enumerate(outcomes):
        if outcome.get("numeric"):
            return v.Outcome(v.NUMERIC, n=len(outcomes), reason=f"seed {seed}: {outcome['numeric']}")
    return None


def law_row(claim: Claim, regime: Regime | None, measured: list[tuple[int, int, dict[str, Any]]]) -> list[Row]:
    """Rows of a law: its check sees every measure at once, as (rung, measure) pairs for a scaling claim."""
    outcomes = [o for _, _, o in measured]
    if trouble := _trouble(outcomes):
        return _rows(claim, regime, trouble)
    values = [(rung, o["measure"]) for rung, _, o in measured] if claim.rungs else [o["measure"] for o in outcomes]
    try:
        result = judge_law(claim, values, regime)
    except Exception as error:
        return _rows(claim, regime, v.Outcome(v.ERROR, reason=f"{type(error).__name__}: {error}"))
    if isinstance(result, Fit):
        fit = {"estimate": result.estimate, "low": result.low, "high": result.high, "theory": result.theory}
        fit |= {"tolerance": result.tolerance, "points": result.points}
        outcome = v.from_fit(result)
        distance = result.tolerance - max(abs(result.low - result.theory), abs(result.high - result.theory))
        margin = {"worst": distance / result.tolerance, "median": 1 - abs(result.estimate - result.theory) / result.tolerance}
        return _rows(claim, regime, outcome, n=len(values), fit=fit, margin=margin, detail=result.detail)
    outcome = v.from_law(result, len(values))
    margin = {"worst": result.worst if np.isfinite(result.worst) else result.margin, "median": result.margin}
    return _rows(claim, regime, outcome, share=result.share, margin=margin, tightness=result.tightness, detail=result.detail)


def trial_row(claim: Claim, regime: Regime, outcomes: list[dict[str, Any]]) -> list[Row]:
    """Rows of a claim judged trial by trial."""
    if trouble := _trouble(outcomes):
        return _rows(claim, regime, trouble)
    delta = claim.bound(regime)
    holds, occurred = [o["holds"] for o in outcomes], [o["occurred"] for o in outcomes]
    outcome = v.from_counts(holds, occurred, delta, exact=claim.exact(regime), trivial=claim.trivial(regime))
    counted = [(seed, o) for seed, o in enumerate(outcomes) if o["occurred"]]
    if not counted:
        return _rows(claim, regime, outcome, delta=delta, occurred=0, trials=len(outcomes))
    margins = [_number(o["margin"]) for _, o in counted]
    worst_seed, worst = min(counted, key=lambda x: (x[1]["holds"], _number(x[1]["margin"]), x[0]))
    tau, s, i = worst["witness"]
    witness = {"seed": worst_seed, "tau": tau, "t": tau / regime.eta if tau is not None and regime.eta else None, "s": s, "i": i}
    tight = [o["tightness"] for _, o in counted if o.get("tightness") is not None]
    return _rows(
        claim,
        regime,
        outcome,
        delta=delta,
        occurred=len(counted),
        trials=len(outcomes),
        share=float(np.mean([o["share"] for _, o in counted])),
        all_pairs={
            "violations": sum(not o["all_hold"] for _, o in counted),
            "worst": min(_number(o["worst"]) for _, o in counted),
        },
        judged=regime.judged,
        margin=v.combined(margins),
        margins=[float(f"{m:.5g}") for m in margins],
        witness=witness,
        tightness=float(np.median(tight)) if tight else None,
        exact=claim.exact(regime),
        curve=_curve(regime, counted),
        detail=_details([o.get("detail", {}) for _, o in counted]),
    )


def _number(value: float | None) -> float:
    return float("-inf") if value is None else float(value)


def _curve(regime: Regime, counted: list[tuple[int, dict[str, Any]]]) -> dict[str, Any] | None:
    rows = [(seed, o) for seed, o in counted if o.get("curve")]
    if not rows:
        return None
    stack = np.array([[np.nan if x is None else x for x in o["curve"]] for _, o in rows])
    seen = ~np.isnan(stack).all(axis=0)
    if not seen.any():
        return None
    worst_seed, worst = min(rows, key=lambda x: (_number(x[1]["margin"]), x[0]))
    quantiles = np.full((3, stack.shape[1]), np.nan)
    quantiles[:, seen] = np.nanquantile(stack[:, seen], [0.05, 0.5, 0.95], axis=0)
    short = [[None if np.isnan(x) else float(f"{x:.5g}") for x in row] for row in quantiles]
    times = [float(f"{t:.6g}") for t in curve_times(regime)]
    return {
        "tau": times,
        "low": short[0],
        "median": short[1],
        "high": short[2],
        "worst": worst["curve"],
        "worst_seed": worst_seed,
    }


def _details(details: list[dict[str, Any]]) -> dict[str, Any]:
    """Median and extremes over trials of every number that a check shows beside its verdict."""
    out: dict[str, Any] = {}
    for key in sorted({k for d in details for k in d}):
        values = [d[key] for d in details if isinstance(d.get(key), (int, float)) and not isinstance(d.get(key), bool)]
        if values:
            out[key] = {"median": float(np.median(values)), "min": float(min(values)), "max": float(max(values))}
        else:
            out[key] = next(d[key] for d in details if key in d)
    return out


def with_ancestors(rows: list[Row], claims: Sequence[Claim]) -> list[Row]:
    """Attach the proof status: whether every ancestor holds in the same regime (regime-free ancestors count everywhere)."""
    from verify.claim.claim import all_claims

    first = {label: c.id for c in all_claims() for label in c.ids}
    above = graph.ancestors(all_claims())
    free = {first[r["id"]]: r["verdict"] for r in rows if r["regime"] is None}
    elsewhere: dict[str, dict[str, str]] = {}
    for r in rows:
        if r["regime"] is not None:
            elsewhere.setdefault(r["regime"], {})[first[r["id"]]] = r["verdict"]
    for r in rows:
        known = free | elsewhere.get(r["regime"] or "", {})
        r["ancestors"] = graph.status(above[first[r["id"]]], known)
    return rows
