"""Judging one trial: trajectories simulated once per (regime, trial), shared by all claims, then dropped."""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from verify.claim.check import Check, Fit, Proof
from verify.claim.claim import Claim, Control, Input
from verify.claim.verdict import clean
from verify.errors import NumericError, RegimeError
from verify.regime import Regime
from verify.simulate import Trajectory, simulate
from verify.start import draw
from verify.times import end_of_run, formula_times

CURVE_POINTS = 48


class Trial:
    """The inputs of one trial, made on demand and kept until the trial is dropped."""

    def __init__(self, regime: Regime, root: int, seed: int) -> None:
        self.regime, self.root, self.seed = regime, root, seed
        self._made: dict[Any, Any] = {}
        self.making = 0.0
        """Processor seconds spent on making inputs: they belong to the trial, not to the claim that asked first."""

    def get(self, recipe: Input) -> Any:
        """The input that `recipe` describes. A failure is remembered and raised again for every claim that asks."""
        key = (recipe.kind, recipe.simulator or self.regime.simulator, recipe.change, recipe.make)
        if key not in self._made:
            began = time.process_time()
            try:
                self._made[key] = self._make(recipe)
            except Exception as error:
                self._made[key] = error
            self.making += time.process_time() - began
        made = self._made[key]
        if isinstance(made, Exception):
            raise made
        return made

    @cached_property
    def curve_times(self) -> np.ndarray:
        """`curve_times` of the trial's regime."""
        return curve_times(self.regime)

    def signs(self) -> dict[str, dict[str, int]]:
        """Uncertain and zero signs over the trajectories made so far, by quantity; only those that occurred."""
        found: dict[str, dict[str, int]] = {}
        for made in self._made.values():
            if isinstance(made, Trajectory):
                for kind, counts in (("uncertain", made.uncertain), ("zero", made.zero)):
                    for quantity, count in counts.items():
                        if count:
                            mine = found.setdefault(quantity, {"uncertain": 0, "zero": 0})
                            mine[kind] += count
        return found

    def _make(self, recipe: Input) -> Any:
        if recipe.kind == "value":
            assert recipe.make is not None
            return recipe.make()
        regime = self.regime.change(**dict(recipe.change)) if recipe.change else self.regime
        if recipe.kind == "custom":
            assert recipe.make is not None
            return recipe.make(regime, self.root, self.seed)
        start = draw(regime, self.root, self.seed)
        return start if recipe.kind == "start" else simulate(start, recipe.simulator)


def inputs_of(claim: Claim, trial: Trial | None) -> list[Any]:
    """The arguments of a claim's check (values need no trial)."""
    if trial is None:
        return [recipe.make() for recipe in claim.inputs if recipe.make is not None]
    return [trial.get(recipe) for recipe in claim.inputs]


def changed(control: Control, inputs: Sequence[Any]) -> list[Any]:
    """The inputs with a control's lie in place of what it changes."""
    lie = control.change(*inputs)
    return list(lie) if isinstance(lie, tuple) else [lie]


def judge_trial(claim: Claim, trial: Trial, control: Control | None = None) -> dict[str, Any]:
    """Judge one claim on one trial; returns the plain record of `record_of`, a numeric flag, or an error text.

    For a law the record holds the trial's measure instead.
    """
    try:
        arguments = inputs_of(claim, trial)
        if control is not None:
            arguments = changed(control, arguments)
        if claim.over == "law":
            assert claim.measure is not None, f"law {claim.id} has no measure"
            return {"measure": clean(claim.measure(*arguments))}
        return record_of(claim.function(*arguments), trial)
    except NumericError as error:
        return {"numeric": str(error), "holds": False, "occurred": True}
    except RegimeError as error:
        return {"not_run": str(error)}
    except Exception as error:
        if interrupted(error):
            raise KeyboardInterrupt from None
        return {"error": f"{type(error).__name__}: {error}", "where": traceback.format_exc(limit=-2)}


def interrupted(error: BaseException | None) -> bool:
    """Whether an error is a Ctrl-C that compiled code has wrapped into SystemErrors."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__
    return error is not None


def record_of(check: Check, trial: Trial) -> dict[str, Any]:
    """A Check as plain data, its curve resampled to the regime's common times."""
    record: dict[str, Any] = {"holds": check.holds, "margin": check.margin, "share": check.share, "worst": check.worst}
    record |= {"all_hold": check.all_hold, "witness": [check.witness.tau, check.witness.s, check.witness.i]}
    record |= {"occurred": check.occurred}
    if check.numeric:
        record["numeric"] = check.numeric
    if check.tightness is not None:
        record["tightness"] = check.tightness
    if check.detail:
        record["detail"] = check.detail
    if check.curve is not None and check.occurred:
        tau, margin = (np.asarray(x, float) for x in check.curve)
        common = trial.curve_times
        inside = (common >= tau[0] * (1 - 1e-9)) & (common <= tau[-1] * (1 + 1e-9))
        path = np.interp(common, tau, margin).tolist()
        record["curve"] = [float(f"{m:.5g}") if ok else None for m, ok in zip(path, inside.tolist(), strict=True)]
    return clean(record)


def curve_times(regime: Regime) -> np.ndarray:
    """The common times at which margins over time are kept."""
    end = end_of_run(regime)
    first = min(t for t in [*formula_times(regime).values(), end] if math.isfinite(t) and t > 0)
    return np.geomspace(first / 2, end, CURVE_POINTS)


def judge_free(claim: Claim, control: Control | None = None) -> Proof:
    """Judge an identity or inequality."""
    arguments = inputs_of(claim, None)
    return claim.function(*(changed(control, arguments) if control else arguments))


def judge_law(claim: Claim, measures: list[Any], regime: Regime | None) -> Check | Fit:
    """Judge a law on all its trials' measures (for a scaling claim: (rung index, measure) pairs)."""
    return claim.function(measures, regime)
