"""Verdicts are derived from counts, proofs and fits; nobody types one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from verify import stats
from verify.claim.check import Check, Fit, Proof

PROVED, DISPROVED, UNPROVEN = "PROVED", "DISPROVED", "UNPROVEN"
SUPPORTED, REFUTED, INCONCLUSIVE = "SUPPORTED", "REFUTED", "INCONCLUSIVE"
VACUOUS, NUMERIC, ERROR, NOT_RUN = "VACUOUS", "NUMERIC", "ERROR", "NOT RUN"
VERDICTS = (PROVED, SUPPORTED, INCONCLUSIVE, UNPROVEN, VACUOUS, NUMERIC, ERROR, NOT_RUN, REFUTED, DISPROVED)
HOLDS = (PROVED, SUPPORTED)
FAILS = (REFUTED, DISPROVED)


@dataclass(frozen=True)
class Outcome:
    """A verdict with the numbers it was derived from."""

    verdict: str
    n: int = 0
    violations: int = 0
    low: float | None = None
    high: float | None = None
    reason: str = ""


def from_proof(proof: Proof) -> Outcome:
    """PROVED, DISPROVED or UNPROVEN."""
    verdict = {True: PROVED, False: DISPROVED, None: UNPROVEN}[proof.proved]
    return Outcome(verdict, reason=proof.witness or "; ".join(proof.steps))


def from_fit(fit: Fit) -> Outcome:
    """SUPPORTED if the interval lies within theory +- tolerance, REFUTED if disjoint from it, else INCONCLUSIVE."""
    lo, hi = fit.theory - fit.tolerance, fit.theory + fit.tolerance
    if not all(map(math.isfinite, (fit.estimate, fit.low, fit.high))):
        return Outcome(NUMERIC, reason="the fit is not finite")
    if lo <= fit.low and fit.high <= hi:
        verdict = SUPPORTED
    elif fit.high < lo or hi < fit.low:
        verdict = REFUTED
    else:
        verdict = INCONCLUSIVE
    text = f"fitted {fit.estimate:.4g}, 99% interval [{fit.low:.4g}, {fit.high:.4g}], theory {fit.theory:g} ± {fit.tolerance:g}"
    return Outcome(verdict, low=fit.low, high=fit.high, reason=text)


def from_law(check: Check, n: int) -> Outcome:
    """A check over all trials at once."""
    if check.numeric:
        return Outcome(NUMERIC, n=n, reason=check.numeric)
    if not check.occurred:
        return Outcome(VACUOUS, n=n, reason="the conditioning event did not occur")
    verdict = INCONCLUSIVE if check.undecided else SUPPORTED if check.holds else REFUTED
    return Outcome(verdict, n=n, violations=int(not check.holds))


def from_counts(
    holds: Sequence[bool],
    occurred: Sequence[bool],
    delta: float,
    numeric: str = "",
    exact: float | None = None,
    trivial: str | None = None,
) -> Outcome:
    """The verdict of a claim judged trial by trial.

    Args:
        holds, occurred: per trial; trials in which the event did not occur are not counted.
        delta: allowed violation probability (the claim's own; 0.1 for trajectories).
        numeric: a numeric flag of any trial; never a pass.
        exact: the exact violation probability, where there is a closed form: it decides where the counts do not.
        trivial: why the stated bound says nothing, if so.
    """
    counted = [h for h, o in zip(holds, occurred, strict=True) if o]
    n, violations = len(counted), len(counted) - sum(counted)
    if numeric:
        return Outcome(NUMERIC, n, violations, reason=numeric)
    if delta >= 1:
        return Outcome(VACUOUS, n, violations, 0.0, 1.0, f"the stated bound is trivial: it allows a violation probability of {delta:.3g}")
    if trivial:
        return Outcome(VACUOUS, n, violations, 0.0, 1.0, trivial)
    low, high = (stats.lower_bound(violations, n), stats.upper_bound(violations, n)) if n else (0.0, 1.0)
    verdict = stats.decide(violations, n, delta)
    if exact is not None:
        by_exact = SUPPORTED if exact <= delta else REFUTED
        text = f"exact violation probability {exact:.6g}, allowed {delta:.6g}"
        if not low <= exact <= high or verdict not in (INCONCLUSIVE, by_exact):
            return Outcome(
                ERROR,
                n,
                violations,
                low,
                high,
                f"{text}, but {violations} of {n} simulated: the closed form or the simulation is wrong",
            )
        return Outcome(by_exact, n, violations, low, high, text)
    if verdict != INCONCLUSIVE:
        return Outcome(verdict, n, violations, low, high)
    need = stats.trials_for_support(delta)
    if n < need <= len(holds):
        return Outcome(
            VACUOUS,
            n,
            violations,
            low,
            high,
            f"the conditioning event occurred in {n} of {len(holds)} trials; support needs {need}",
        )
    more = stats.trials_to_decide(violations, n, delta)
    text = f"about {more} trials would decide" if more else "no affordable number of trials would decide: the rate is near the limit"
    return Outcome(INCONCLUSIVE, n, violations, low, high, text)


def combined(values: Sequence[float]) -> dict[str, float | None]:
    """Worst and median of the finite margins."""
    finite = np.asarray([v for v in values if v is not None and math.isfinite(v)], float)
    if finite.size == 0:
        return {"worst": None, "median": None}
    return {"worst": float(finite.min()), "median": float(np.median(finite))}


def clean(value: Any) -> Any:
    """Plain data for JSON: numpy scalars unwrapped, non-finite floats as None."""
    if type(value) is float:
        return value if math.isfinite(value) else None
    if value is None or type(value) in (int, bool, str):
        return value
    if isinstance(value, dict):
        return {str(k): clean(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [clean(v) for v in value]
    if isinstance(value, np.ndarray):
        return clean(value.tolist())
    if isinstance(value, np.generic):
        return clean(value.item())
    return value
