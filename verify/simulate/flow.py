"""The limit eta -> 0 (claims.md R.5): sign-gradient flow in tau = eta*t, with every change of direction located or excluded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verify.errors import NumericError, RegimeError, VerifyError
from verify.simulate import _flow_loop
from verify.simulate.layout import by_quantity, events_by_quantity, flat_state
from verify.simulate.trajectory import QUANTITIES, Trajectory, grid_times, with_measured
from verify.start import Start
from verify.times import T3, formula_times

STEP = 1 / 8
"""Longest window, relative to tau; windows are shortened wherever a sign cannot be certified."""


def simulate(start: Start, *, step: float = STEP) -> Trajectory:
    """Follow the flow from `start` over the regime's horizon; the regime's eta plays no part.

    Args:
        step: longest window between two checks, relative to tau. Results do not depend on it beyond rounding.

    Raises:
        RegimeError: where the reduction is not exact (L > 2, supports that may overlap).
        NumericError: when a sign of NaN would be taken (`step` counts windows).
        VerifyError: if directions turn without end at one time.
    """
    r = start.regime
    if not r.reducible:
        raise RegimeError(f"regime {r.name!r}: the flow is exact only for L=2 and disjoint supports; use simulator=full")
    n, m = r.n, r.m_k
    grid = grid_times(r)
    times = formula_times(r)
    state = flat_state(start)
    out, gaps = np.empty((len(grid), state.size)), np.empty((2, len(grid), n))
    measured, until = np.full(2, np.nan), np.full(m, np.nan)
    directions, zeros, counts = np.empty(state.size), np.zeros(4, np.int64), np.zeros(6, np.int64)
    turns, crossings = _flow_loop.run(
        *(state, n, m, start.l1.copy(), grid, grid[1] / 100, times[T3], float(step)),
        *(out, gaps, measured, until, directions, zeros, counts),
    )
    if counts[_flow_loop.STATUS] == _flow_loop.STUCK:
        raise VerifyError(
            f"regime {r.name!r}, trial {start.trial}: the flow turns without end near tau = {measured[0]:.4g}; try simulator=reduced"
        )
    if counts[_flow_loop.STATUS]:
        bad = [name for name, x in by_quantity(state, n, m).items() if not np.isfinite(x).all()]
        raise NumericError(int(counts[_flow_loop.WINDOWS]), bad[0] if bad else "logits")
    values: dict[str, Any] = by_quantity(out, n, m)
    return Trajectory(
        regime=r,
        simulator="flow",
        start=start,
        tau=grid,
        **values,
        gap_signal=gaps[0],
        gap_noise=gaps[1],
        turns=events_by_quantity(turns, n, m),
        crossings=events_by_quantity(crossings, n, m),
        initial_direction=by_quantity(directions, n, m),
        uncertain=_by_quantity([0, *counts[_flow_loop.DOUBT_PAIRS :]]),
        zero=_by_quantity(zeros),
        times=with_measured(times, *map(float, measured)),
        noise_dominates_until=until,
        notes={"windows": int(counts[_flow_loop.WINDOWS]), "sliding holds": int(counts[_flow_loop.HOLDS])},
    )


def _by_quantity(counts: Sequence[int] | NDArray[np.int64]) -> dict[str, int]:
    """Counts for the pairs and neurons; the values' signs are never in doubt."""
    return dict.fromkeys(QUANTITIES, 0) | {name: int(x) for name, x in zip(QUANTITIES, counts, strict=False)}
