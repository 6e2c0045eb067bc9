"""Fresh samples without materialising d: unseen disjoint noise meets Gaussian weights that training never touched."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verify import Regime, Snapshot, Trajectory, custom, normals, sigmoid

SAMPLES = 256
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Fresh:
    """Standard variates of N fresh samples: `query`, `key` (m_k, N), `value` (N,), squared norms' variates `norm` (N,).

    `fixed_value` (N,) replaces <v, y xi> outright (for controls).
    """

    query: Array
    key: Array
    value: Array | None = None
    norm: Array | None = None
    fixed_value: Array | None = None


def draw_fresh(regime: Regime, root: int, trial: int, samples: int = SAMPLES) -> Fresh:
    """Draw the variates of `samples` fresh samples; keyed like every stream."""
    rows = {name: normals(root, trial, f"fresh_{name}", 1, samples * size)[0] for name, size in _sizes(regime).items()}
    shape = (regime.m_k, samples)
    return Fresh(rows["query"].reshape(shape), rows["key"].reshape(shape), rows["value"], rows["norm"])


def _sizes(regime: Regime) -> dict[str, int]:
    return {"query": regime.m_k, "key": regime.m_k, "value": 1, "norm": 1}


FRESH = custom(draw_fresh)


def fresh_gaps(at: Snapshot, regime: Regime, fresh: Fresh) -> tuple[Array, Array, Array]:
    r"""Logit gaps of both rows, and $\langle v,y\xi\rangle$, on the fresh samples at one time; shape (N,) each.

    Given $\|\xi\|_2$ the inner products with untouched weights are N(0, σ_0²‖ξ‖²) and N(0, 2σ_0²‖ξ‖²/m_v).
    """
    count = fresh.query.shape[1]
    spread = np.zeros(count) if fresh.norm is None else fresh.norm
    norm = regime.sigma_p * np.sqrt(np.maximum(regime.s + math.sqrt(2 * regime.s) * spread, 0.0))  # chi-square by its limit
    query, key = regime.sigma_0 * norm * fresh.query, regime.sigma_0 * norm * fresh.key
    signal = at.query_signal @ at.key_signal - at.query_signal @ key
    noise = at.key_signal @ query - (query * key).sum(axis=0)
    if fresh.fixed_value is not None:
        return signal, noise, fresh.fixed_value
    assert fresh.value is not None
    return signal, noise, regime.sigma_0 * math.sqrt(2 / regime.m_v) * norm * fresh.value


def fresh_margin(tr: Trajectory, fresh: Fresh, tau: float) -> Any:
    r"""$yf$ on the fresh samples at time `tau`, shape (N,)."""
    at = tr.at(tau)
    signal, noise, value = fresh_gaps(at, tr.regime, fresh)
    attention = sigmoid(signal) + sigmoid(noise)
    return attention * at.value_signal + (2 - attention) * value
