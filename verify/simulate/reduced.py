"""The exact reduction (R.1): SignGD on disjoint supports through its inner products alone, at finite eta."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from verify.errors import NumericError, RegimeError
from verify.simulate import _kernel
from verify.simulate.trajectory import QUANTITIES, Events, Trajectory, grid_steps, with_measured
from verify.start import Array, Start
from verify.times import T3, formula_times


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
    if r.L != 2 or r.supports != "disjoint":
        raise RegimeError(f"regime {r.name!r}: the reduced simulator is exact only for L=2 and disjoint supports; use simulator=full")
    if r.eta == 0:
        raise RegimeError(f"regime {r.name!r}: eta=0 is the limit; use simulator=flow, or give eta > 0")
    grid = grid_steps(r)
    times = formula_times(r)
    state = (start.query_noise.T, start.key_noise.T, start.query_signal, start.key_signal, start.value_noise)
    copies = [np.array(x, order="C") for x in state]
    f = fault or Fault(-1, QUANTITIES[0], 0.0)
    status, records, events, first, counts, measured = _kernel.run(
        *copies,
        float(start.value_signal),
        start.l1.copy(),
        r.eta,
        grid,
        math.ceil(times[T3] / r.eta * (1 - 1e-12)),
        f.step,
        QUANTITIES.index(f.quantity),
        f.index,
        f.value,
    )
    if status[0]:
        raise NumericError(status[1], QUANTITIES[status[2]] if status[2] >= 0 else "logits")
    t4_minus, t4_plus, t4_30 = measured
    step = lambda t: t * r.eta if t >= 0 else math.nan  # noqa: E731
    return assemble(
        start,
        "reduced",
        grid * r.eta,
        records,
        (events[0], events[1], r.eta),
        first,
        counts,
        with_measured(times, step(t4_minus), step(t4_plus)),
        np.where(t4_30 >= 0, t4_30 * r.eta, np.nan),
    )


def assemble(start: Start, simulator: str, tau: Array, records, events, first, counts, times: dict[str, float], until: Array) -> Trajectory:
    """Build the Trajectory from a kernel's arrays (neurons innermost there, samples innermost here)."""
    r = start.regime
    rQ, rK, rq, rk, rV, rVm, rz = records
    fQ, fK, fq, fk, _ = first
    turns, crossings, unit = events
    ones = np.ones(r.n)
    return Trajectory(
        regime=r,
        simulator=simulator,
        start=start,
        tau=tau,
        query_noise=rQ.swapaxes(1, 2),
        key_noise=rK.swapaxes(1, 2),
        query_signal=rq,
        key_signal=rk,
        value_noise=rV,
        value_signal=rVm,
        gap_signal=rz[:, 0] - rz[:, 1],
        gap_noise=rz[:, 2] - rz[:, 3],
        turns=split_events(turns, unit, r.m_k, r.n),
        crossings=split_events(crossings, unit, r.m_k, r.n),
        initial_direction=dict(zip(QUANTITIES, (fQ.T, fK.T, fq, fk, ones, np.ones(())), strict=True)),
        uncertain=dict(zip(QUANTITIES, map(int, counts[0]), strict=True)),
        zero=dict(zip(QUANTITIES, map(int, counts[1]), strict=True)),
        times=times,
        noise_dominates_until=until,
    )


def split_events(log: Array, unit: float, m_k: int, n: int) -> dict[str, Events]:
    """Kernel rows (kind, index, sign, time) -> Events by quantity, sorted by time (ties by index); pairs re-indexed to (m_k, n)."""
    shapes = ((m_k, n), (m_k, n), (m_k,), (m_k,), (n,), ())
    out = {}
    for kind, (name, shape) in enumerate(zip(QUANTITIES, shapes, strict=True)):
        rows = log[log[:, 0] == kind]
        index = rows[:, 1].astype(np.int64)
        if kind < 2:
            index = (index % m_k) * n + index // m_k
        order = np.lexsort((index, rows[:, 3]))
        out[name] = Events(shape, rows[order, 3] * unit, index[order], rows[order, 2].astype(np.int8))
    return out
