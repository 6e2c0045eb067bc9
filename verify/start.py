"""Where a trial begins: standard variates keyed by (root seed, trial, stream, index), scaled by the regime.

Full, reduced and flow, and neighbouring regimes, begin from one and the same start: a regime with more samples, neurons or
noise coordinates extends the draws of the smaller one, and a trial never depends on batch, worker or thread count.
"""

from __future__ import annotations

import dataclasses
import math
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verify.errors import RegimeError
from verify.regime import Regime

Array = NDArray[np.float64]
EXACT_COORDINATES = 20_000_000
"""Above this many noise coordinates per trial, (||xi||_1, ||xi||_2^2) is drawn from its central limit instead."""


def stream(root: int, trial: int, name: str, index: int = 0) -> np.random.Generator:
    """The generator of one stream; equal keys give equal numbers whatever else is drawn."""
    key = np.random.SeedSequence(entropy=(root, trial), spawn_key=(zlib.crc32(name.encode()), index))
    return np.random.Generator(np.random.PCG64(key))


def normals(root: int, trial: int, name: str, count: int, length: int) -> Array:
    """Standard normals, shape (count, length): row i comes from its own stream, so both extents may grow."""
    return np.stack([stream(root, trial, name, i).standard_normal(length) for i in range(count)])


@dataclass(frozen=True)
class Start:
    """Initial inner products of one trial, and the norms that set their speeds (claims.md section 2).

    Shapes (s neuron, i sample): query_noise, key_noise (m_k, n); query_signal, key_signal (m_k,);
    value_noise, l1, l2, labels (n,); value_signal scalar. Units: those of a weight times a datum.
    """

    regime: Regime
    root: int
    trial: int
    l1: Array
    l2: Array
    labels: Array
    query_noise: Array
    key_noise: Array
    query_signal: Array
    key_signal: Array
    value_noise: Array
    value_signal: float

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                value.setflags(write=False)

    def replace(self, **changes: Any) -> Start:
        """A copy with arrays replaced (for controls)."""
        return dataclasses.replace(self, **changes)


def noise_values(regime: Regime, root: int, trial: int) -> Array:
    """The non-zero noise coordinates, shape (n, s), before they are placed: N(0, sigma_p^2).

    Raises:
        RegimeError: if n*s is too large to hold.
    """
    if regime.n * regime.s > EXACT_COORDINATES:
        raise RegimeError(
            f"regime {regime.name!r}: n*s = {regime.n * regime.s} noise coordinates do not fit in memory; "
            "use the reduced or flow simulator, which need only their norms"
        )
    return regime.sigma_p * normals(root, trial, "noise_values", regime.n, regime.s)


def _norms(regime: Regime, root: int, trial: int) -> tuple[Array, Array]:
    n, s = regime.n, regime.s
    if n * s <= EXACT_COORDINATES:
        l1, l2 = np.empty(n), np.empty(n)
        for i in range(n):
            x = stream(root, trial, "noise_values", i).standard_normal(s)
            l1[i], l2[i] = np.abs(x).sum(), math.sqrt(x @ x)
        return regime.sigma_p * l1, regime.sigma_p * l2
    # |x| and x^2 have means sqrt(2/pi), 1, variances 1-2/pi, 2 and covariance sqrt(2/pi).
    c = math.sqrt(2 / math.pi)
    root_cov = np.linalg.cholesky(np.array([[1 - c * c, c], [c, 2.0]]))
    z = normals(root, trial, "noise_norms", n, 2) @ root_cov.T
    l1 = c * s + math.sqrt(s) * z[:, 0]
    return regime.sigma_p * l1, regime.sigma_p * np.sqrt(s + math.sqrt(s) * z[:, 1])


def draw(regime: Regime, root: int, trial: int) -> Start:
    """The start of trial `trial` in `regime`: exactly Gaussian given the norms (claims.md section 2).

    Q, K ~ N(0, sigma_0^2 ||xi_i||_2^2), q, k ~ N(0, sigma_0^2), V_i ~ N(0, 2 sigma_0^2 ||xi_i||^2/m_v), V_mu ~ N(0, 2 sigma_0^2/m_v).
    """
    n, m_k = regime.n, regime.m_k
    l1, l2 = _norms(regime, root, trial)
    value_scale = regime.sigma_0 * math.sqrt(2 / regime.m_v)
    return Start(
        regime=regime,
        root=root,
        trial=trial,
        l1=l1,
        l2=l2,
        labels=np.array([stream(root, trial, "labels", i).integers(2) * 2.0 - 1.0 for i in range(n)]),
        query_noise=np.ascontiguousarray((regime.sigma_0 * l2[:, None] * normals(root, trial, "query_noise", n, m_k)).T),
        key_noise=np.ascontiguousarray((regime.sigma_0 * l2[:, None] * normals(root, trial, "key_noise", n, m_k)).T),
        query_signal=regime.sigma_0 * normals(root, trial, "query_signal", 1, m_k)[0],
        key_signal=regime.sigma_0 * normals(root, trial, "key_signal", 1, m_k)[0],
        value_noise=value_scale * l2 * normals(root, trial, "value_noise", n, 1)[:, 0],
        value_signal=float(value_scale * normals(root, trial, "value_signal", 1, 1)[0, 0]),
    )
