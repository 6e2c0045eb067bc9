"""The limit eta -> 0 (claims.md R.5): sign-gradient flow in tau = eta*t, with every change of direction located or excluded."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from verify.errors import NumericError, RegimeError, VerifyError
from verify.simulate import _flow_loop
from verify.simulate.trajectory import PAIRS, QUANTITIES, Events, Trajectory, grid_times, with_measured
from verify.start import Array, Start
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
    parts = (start.query_noise.T, start.key_noise.T, start.query_signal, start.key_signal, start.value_noise, start.value_signal)
    state = np.concatenate([np.ravel(x) for x in parts])
    out, gaps = np.empty((len(grid), state.size)), np.empty((2, len(grid), n))
    measured, until = np.full(2, np.nan), np.full(m, np.nan)
    directions, zeros, counts = np.empty(state.size), np.zeros(4, np.int64), np.zeros(6, np.int64)
    turns, crossings = _flow_loop.run(
        *(state, n, m, start.l1.copy(), grid, grid[1] / 100, times[T3], float(step)),
        *(out, gaps, measured, until, directions, zeros, counts),
    )
    if counts[_flow_loop.STATUS] == _flow_loop.STUCK:
        raise VerifyError(f"regime {r.name!r}, trial {start.trial}: the flow turns without end at one time; try simulator=reduced")
    if counts[_flow_loop.STATUS]:
        bad = [name for name, x in _split(state, n, m).items() if not np.isfinite(x).all()]
        raise NumericError(int(counts[_flow_loop.WINDOWS]), bad[0] if bad else "logits")
    values = _split(out, n, m)
    return Trajectory(
        regime=r,
        simulator="flow",
        start=start,
        tau=grid,
        query_noise=values["query_noise"],
        key_noise=values["key_noise"],
        query_signal=values["query_signal"],
        key_signal=values["key_signal"],
        value_noise=values["value_noise"],
        value_signal=values["value_signal"],
        gap_signal=gaps[0],
        gap_noise=gaps[1],
        turns=_events(turns, n, m),
        crossings=_events(crossings, n, m),
        initial_direction=_split(directions, n, m),
        uncertain=_by_quantity([0, *counts[_flow_loop.DOUBT_PAIRS :]]),
        zero=_by_quantity(zeros),
        times=with_measured(times, *map(float, measured)),
        noise_dominates_until=until,
        notes={"windows": int(counts[_flow_loop.WINDOWS]), "sliding holds": int(counts[_flow_loop.HOLDS])},
    )


def _split(flat: Array, n: int, m: int) -> dict[str, Array]:
    """The kernel's state vectors (..., 2 n m_k + 2 m_k + n + 1) by quantity, shapes as in `Trajectory`."""
    lead = flat.shape[:-1]
    ends = np.cumsum([n * m, n * m, m, m, n])
    parts = dict(zip(QUANTITIES, np.split(flat, ends, axis=-1), strict=True))
    for name in PAIRS:
        parts[name] = parts[name].reshape(*lead, n, m).swapaxes(-1, -2)
    return parts | {"value_signal": parts["value_signal"][..., 0]}


def _events(log: Array, n: int, m: int) -> dict[str, Events]:
    """Rows (entity, sign, time) by quantity, in order of time (ties by index); pairs re-indexed to (m_k, n)."""
    shapes = ((m, n), (m, n), (m,), (m,), (n,), ())
    bounds = np.cumsum([0, n * m, n * m, m, m, n, 1])
    events = {}
    for name, shape, lo, hi in zip(QUANTITIES, shapes, bounds, bounds[1:], strict=False):
        rows = log[(log[:, 0] >= lo) & (log[:, 0] < hi)]
        index = rows[:, 0].astype(np.int64) - lo
        if name in PAIRS:
            index = (index % m) * n + index // m
        order = np.lexsort((index, rows[:, 2]))
        events[name] = Events(shape, rows[order, 2], index[order], rows[order, 1].astype(np.int8))
    return events


def _by_quantity(counts: Sequence[int] | NDArray[np.int64]) -> dict[str, int]:
    """Counts for the pairs and neurons; the values' signs are never in doubt."""
    return dict.fromkeys(QUANTITIES, 0) | {name: int(x) for name, x in zip(QUANTITIES, counts, strict=False)}
