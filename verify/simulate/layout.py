"""The flat state of the compiled simulators, and how it is read back: Q, K (n, m_k each), q, k (m_k), V (n), V_mu (1), end to end."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verify.simulate.trajectory import PAIRS, QUANTITIES, Events
from verify.start import Array, Start


def flat_state(start: Start) -> Array:
    """The start as one vector of 2 n m_k + 2 m_k + n + 1 values; neurons lie innermost, for SIMD."""
    parts = (start.query_noise.T, start.key_noise.T, start.query_signal, start.key_signal, start.value_noise, start.value_signal)
    return np.concatenate([np.ravel(x) for x in parts])


def by_quantity(flat: NDArray[Any], n: int, m: int) -> dict[str, NDArray[Any]]:
    """State vectors (..., 2 n m_k + 2 m_k + n + 1) by quantity, as views with the shapes of `Trajectory`."""
    lead = flat.shape[:-1]
    ends = np.cumsum([n * m, n * m, m, m, n])
    parts = dict(zip(QUANTITIES, np.split(flat, ends, axis=-1), strict=True))
    for name in PAIRS:
        parts[name] = parts[name].reshape(*lead, n, m).swapaxes(-1, -2)
    return parts | {"value_signal": parts["value_signal"][..., 0]}


def events_by_quantity(log: Array, n: int, m: int, unit: float = 1.0) -> dict[str, Events]:
    """Rows (place in the flat state, sign, time in `unit`) by quantity, in order of time (ties by index)."""
    shapes = ((m, n), (m, n), (m,), (m,), (n,), ())
    bounds = np.cumsum([0, n * m, n * m, m, m, n, 1]).tolist()
    index = _index_of_place(n, m)[log[:, 0].astype(np.int64)]
    # The log is in order of time but for events of one step: a stable sort by time is quick, and so is one by index inside a time.
    order = np.argsort(log[:, 2], kind="stable")
    instant = np.cumsum(np.diff(log[order, 2], prepend=0.0) != 0)
    order = order[np.argsort(instant * bounds[-1] + index[order], kind="stable")]
    index, tau, sign = index[order], log[order, 2] * unit, log[order, 1].astype(np.int8)
    events = {}
    for name, shape, lo, hi in zip(QUANTITIES, shapes, bounds[:-1], bounds[1:], strict=True):
        chosen = np.flatnonzero((index >= lo) & (index < hi))
        events[name] = Events(shape, tau[chosen], index[chosen] - lo, sign[chosen])
    return events


@functools.lru_cache(8)
def _index_of_place(n: int, m: int) -> NDArray[np.int64]:
    """Where each value of the flat state stands when the quantities are laid end to end with the shapes of `Trajectory`."""
    places = by_quantity(np.arange(2 * n * m + 2 * m + n + 1), n, m)
    out = np.empty(2 * n * m + 2 * m + n + 1, np.int64)
    out[np.concatenate([np.ravel(x) for x in places.values()])] = np.arange(out.size)
    return out
