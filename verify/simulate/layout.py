"""The flat state of the compiled simulators, and how it is read back: Q, K (n, m_k each), q, k (m_k), V (n), V_mu (1), end to end."""

from __future__ import annotations

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
    bounds = np.cumsum([0, n * m, n * m, m, m, n, 1])
    place = log[:, 0].astype(np.int64)
    events = {}
    for name, shape, lo, hi in zip(QUANTITIES, shapes, bounds[:-1], bounds[1:], strict=True):
        chosen = np.flatnonzero((place >= lo) & (place < hi))
        index, time = place[chosen] - lo, log[chosen, 2]
        if name in PAIRS:
            index = (index % m) * n + index // m
        order = np.lexsort((index, time))
        events[name] = Events(shape, time[order] * unit, index[order], log[chosen[order], 1].astype(np.int8))
    return events
