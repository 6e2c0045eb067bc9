"""The exact reduction (R.1): SignGD on disjoint supports through its inner products alone, at finite eta."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verify.errors import NumericError, RegimeError
from verify.simulate import _kernel
from verify.simulate.layout import by_quantity, events_by_quantity, flat_state
from verify.simulate.trajectory import QUANTITIES, Trajectory, grid_steps, with_measured
from verify.start import Array, Start
from verify.times import T3, formula_times

LOG_ROWS = 1 << 15
"""Events for which there is room at first; a log that fills up is doubled and the run goes on."""


@dataclass(frozen=True)
class Fault:
    """A value written into the state just before step `step`, to test what a broken number does. `index` is flat in (m_k, n)."""

    step: int
    quantity: str
    value: float
    index: int = 0


def simulate(start: Start, *, fault: Fault | None = None) -> Trajectory:
    """Run the reduction from `start` over the regime's horizon.

    Raises:
        RegimeError: where the reduction is not exact (L > 2, supports that may overlap, eta = 0).
        NumericError: when a sign of NaN would be taken.
    """
    r = start.regime
    if not r.reducible:
        raise RegimeError(f"regime {r.name!r}: the reduced simulator is exact only for L=2 and disjoint supports; use simulator=full")
    if r.eta == 0:
        raise RegimeError(f"regime {r.name!r}: eta=0 is the limit; use simulator=flow, or give eta > 0")
    n, m = r.n, r.m_k
    grid = grid_steps(r)
    times = formula_times(r)
    state = flat_state(start)
    speeds = np.append(r.eta * start.l1, [r.eta, r.eta * max(1.0, start.l1.max())])
    increment = np.zeros(state.size)
    increment[-n - 1 :] = 2 * speeds[: n + 1]  # the values only rise
    clock = np.zeros(_kernel.CLOCK, np.int64)
    clock[[_kernel.T4_MINUS, _kernel.T4_PLUS]] = -1
    clock[_kernel.OPEN_30] = m
    until = np.column_stack([np.full(m, -1.0), np.zeros(m)])
    states, gaps, first = np.empty((len(grid), state.size)), np.empty((2, len(grid), n)), np.empty(state.size)
    logs = [np.empty((max(LOG_ROWS, 2 * state.size), 3)) for _ in range(2)]
    step_t3 = math.ceil(times[T3] / r.eta * (1 - 1e-12))
    views = (state, increment, np.sign(state), _rows(state, n, m), _rows(increment, n, m), *_views(state, n, m), *_views(increment, n, m))
    scratch = (np.empty((4, n)), np.empty((_kernel.SAMPLE_ROWS, n)), np.empty((2, m)), np.zeros((_kernel.CALM_ROWS, n)))
    while True:
        reach = float(np.abs(state).max())
        given: tuple[Any, ...] = (
            *views,
            *scratch,
            speeds,
            reach,
            grid,
            step_t3,
            _flat(fault, n, m),
            states,
            gaps,
            until,
            first,
            *logs,
            clock,
        )
        _kernel.run(*given)
        if clock[_kernel.STATUS] == _kernel.NOT_FINITE:
            bad = [name for name, x in by_quantity(state, n, m).items() if not np.isfinite(x).all()]
            raise NumericError(int(clock[_kernel.STEP]), bad[0] if bad else "logits")
        if clock[_kernel.GRID] == len(grid):  # not the step: a log may fill up just before the last record
            break
        logs = [np.concatenate([log, np.empty_like(log)]) for log in logs]
    turns, crossings = (
        events_by_quantity(log[: clock[used]], n, m, r.eta) for log, used in zip(logs, (_kernel.TURNS, _kernel.CROSSINGS), strict=True)
    )
    t4_minus, t4_plus = (t * r.eta if t >= 0 else math.nan for t in clock[[_kernel.T4_MINUS, _kernel.T4_PLUS]].tolist())
    values: dict[str, Any] = by_quantity(states, n, m)
    return Trajectory(
        regime=r,
        simulator="reduced",
        start=start,
        tau=np.asarray(grid * r.eta, np.float64),
        **values,
        gap_signal=gaps[0],
        gap_noise=gaps[1],
        turns=turns,
        crossings=crossings,
        initial_direction=by_quantity(np.sign(first), n, m),
        uncertain=_counts(clock[_kernel.UNCERTAIN :]),
        zero=_counts(clock[_kernel.ZERO :]),
        times=with_measured(times, t4_minus if clock[_kernel.FAILED] else math.nan, t4_plus),
        noise_dominates_until=np.where(until[:, 0] >= 0, until[:, 0] * r.eta, np.nan),
    )


def _rows(flat: Array, n: int, m: int) -> Array:
    """Everything but the values, a row per sample and noise, then q and k: (2n+2, m_k)."""
    return flat[: (2 * n + 2) * m].reshape(-1, m)


def _views(flat: Array, n: int, m: int) -> tuple[Array, ...]:
    """Q, K (n, m_k), q, k (m_k,), V with V_mu (1, n+1) of a flat vector, contiguous."""
    pairs = n * m
    q, k, values = np.split(flat[2 * pairs :], [m, 2 * m])
    return flat[:pairs].reshape(n, m), flat[pairs : 2 * pairs].reshape(n, m), q, k, values[None]


def _flat(fault: Fault | None, n: int, m: int) -> Array:
    """(step, place in the flat state, value); step -1 never comes."""
    if fault is None:
        return np.array([-1.0, 0.0, 0.0])
    places = by_quantity(np.arange(2 * n * m + 2 * m + n + 1), n, m)[fault.quantity]
    return np.array([fault.step, places.ravel()[fault.index], fault.value])


def _counts(four: NDArray[np.int64]) -> dict[str, int]:
    """Counts of signs by quantity; those of the values are never in doubt."""
    return dict.fromkeys(QUANTITIES, 0) | {name: int(x) for name, x in zip(QUANTITIES[:4], four[:4], strict=True)}
