"""The limit eta -> 0 (claims.md R.5): sign-gradient flow in tau = eta*t, with every change of direction located or excluded."""

from __future__ import annotations

import numpy as np

from verify.errors import NumericError, RegimeError
from verify.simulate import _flow_loop
from verify.simulate.reduced import split_events
from verify.simulate.trajectory import QUANTITIES, Trajectory, grid_times, with_measured
from verify.start import Start
from verify.times import T3, formula_times

STEP = 1 / 32
"""Longest window, relative to tau; windows are shortened wherever a sign cannot be certified."""


def simulate(start: Start, *, step: float = STEP) -> Trajectory:
    """Follow the flow from `start` over the regime's horizon; the regime's eta plays no part.

    Args:
        step: longest window between two checks, relative to tau. Results do not depend on it beyond rounding.

    Raises:
        RegimeError: where the reduction is not exact (L > 2, supports that may overlap).
        NumericError: when a sign of NaN would be taken (`step` counts windows).
    """
    r = start.regime
    if r.L != 2 or r.supports != "disjoint":
        raise RegimeError(f"regime {r.name!r}: the flow is exact only for L=2 and disjoint supports; use simulator=full")
    n, m = r.n, r.m_k
    grid = grid_times(r)
    G = len(grid)
    times = formula_times(r)
    state = (start.query_noise.T, start.key_noise.T, start.query_signal, start.key_signal, start.value_noise)
    Q, K, q, k, V = (np.array(x, order="C") for x in state)
    out, out_q, out_v = np.empty((2, G, n, m)), np.empty((2, G, m)), np.empty((3, G, n + 1))
    measured, until = np.full(2, np.nan), np.full(m, np.nan)
    dirs, dirs_q, counts = np.empty((2, n, m)), np.empty((2, m)), np.zeros(16, np.int64)
    turns, crossings = _flow_loop.run(
        *(Q, K, q, k, V, np.array([start.value_signal]), start.l1.copy(), grid, float(grid[1]), times[T3], step),
        *(out, out_q, out_v, measured, until, dirs, dirs_q, counts),
    )
    windows, slides, status, kind = (int(x) for x in counts[12:])
    if status:
        raise NumericError(windows, QUANTITIES[kind] if kind >= 0 and status == 1 else "logits")
    return Trajectory(
        regime=r,
        simulator="flow",
        start=start,
        tau=grid,
        query_noise=out[0].swapaxes(1, 2),
        key_noise=out[1].swapaxes(1, 2),
        query_signal=out_q[0],
        key_signal=out_q[1],
        value_noise=out_v[0, :, :n],
        value_signal=out_v[0, :, n],
        gap_signal=out_v[1, :, :n],
        gap_noise=out_v[2, :, :n],
        turns=split_events(turns, 1.0, m, n),
        crossings=split_events(crossings, 1.0, m, n),
        initial_direction=dict(zip(QUANTITIES, (dirs[0].T, dirs[1].T, dirs_q[0], dirs_q[1], np.ones(n), np.ones(())), strict=True)),
        uncertain=dict(zip(QUANTITIES, map(int, counts[:6]), strict=True)),
        zero=dict(zip(QUANTITIES, map(int, counts[6:12]), strict=True)),
        times=with_measured(times, *map(float, measured)),
        noise_dominates_until=until,
        notes={"windows": windows, "sliding holds": slides},
    )
