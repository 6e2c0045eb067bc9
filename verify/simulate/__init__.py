"""The simulators behind one call: full (torch, the truth), reduced (exact, finite eta), flow (the limit eta -> 0), gram (for GD)."""

from __future__ import annotations

from typing import Any

from verify.errors import RegimeError
from verify.regime import Regime
from verify.simulate.trajectory import Events, Snapshot, Trajectory
from verify.start import Start, draw

__all__ = ["Events", "Snapshot", "Trajectory", "simulate", "simulate_trial"]


def simulate(start: Start, simulator: str | None = None, **options: Any) -> Trajectory:
    """Simulate from `start` with the named simulator (default: the regime's own).

    `options` are the simulator's own keyword arguments, such as `fault`.

    Raises:
        RegimeError: for an unknown simulator, or one that is not exact in this regime.
        NumericError: when a sign of NaN would be taken.
    """
    name = simulator or start.regime.simulator
    if name == "reduced":
        if not start.regime.reducible:
            from verify.simulate import collapsed

            return collapsed.simulate(start, **options)
        from verify.simulate import reduced

        return reduced.simulate(start, **options)
    if name == "flow":
        from verify.simulate import flow

        return flow.simulate(start, **options)
    if name == "full":
        from verify.simulate import full

        return full.simulate(start, **options)
    if name == "gram":
        from verify.simulate import gram

        return gram.simulate(start, **options)
    raise RegimeError(f"unknown simulator {name!r}; known: full, reduced, flow, gram")


def simulate_trial(regime: Regime, root: int, trial: int, simulator: str | None = None) -> Trajectory:
    """Draw the start of `trial` and simulate it."""
    return simulate(draw(regime, root, trial), simulator)
