"""Where a trial begins: standard variates keyed by (root seed, trial, stream, index), scaled by the regime.

Full, reduced and flow, and neighbouring regimes, begin from one and the same start: a regime with more samples, neurons or
noise coordinates extends the draws of the smaller one, and a trial never depends on batch, worker or thread count.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import zlib
from collections.abc import Iterator
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
    out = np.empty((count, length))
    for row, generator in zip(out, streams(root, trial, name, count), strict=True):
        generator.standard_normal(out=row)
    return out


# The constants of numpy's SeedSequence and PCG64, whose algorithms are frozen (numpy NEP 19).
_WORD, _WIDE = 2**32 - 1, 2**128 - 1
_MIX_L, _MIX_R = np.uint32(0xCA01F9DD), np.uint32(0x4973F715)
_PCG = 0x2360ED051FC65DA44385DF649FCCF645


@functools.cache
def _hash_constants(first: int, factor: int, skip: int, count: int) -> NDArray[np.uint32]:
    """Entries skip, ..., skip + count of the geometric sequence that a SeedSequence multiplies by."""
    return np.array([first * pow(factor, k, 2**32) & _WORD for k in range(skip, skip + count + 1)], np.uint32)


def _hash(values: NDArray[np.uint32], constants: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Column j of `values` hashed with the constants j and j + 1."""
    mixed = (values ^ constants[:-1]) * constants[1:]
    return mixed ^ (mixed >> np.uint32(16))


_OUT = _hash_constants(0x8B51F9DD, 0x58F38DED, 0, 8)


def streams(root: int, trial: int, name: str, count: int) -> Iterator[np.random.Generator]:
    """`stream(root, trial, name, i)` for i = 0, ..., count - 1, ten times faster; each is valid until the next is asked for.

    A SeedSequence mixes the words of its key one after the other, and the index is the last: so the first words are mixed once,
    the last one for all rows together, and one PCG64 is set to each row's state in turn.
    """
    if count == 1:
        yield stream(root, trial, name)
        return
    pool = np.random.SeedSequence(entropy=(root, trial), spawn_key=(zlib.crc32(name.encode()),)).pool
    words = max(4, sum(max(1, -(-key.bit_length() // 32)) for key in (root, trial)))
    index = np.arange(count, dtype=np.uint32)[:, None]
    # Mixed so far: 4 words, each of them into the 3 others, and every further word into all 4.
    mixed = pool * _MIX_L - _hash(index, _hash_constants(0x43B0D7E5, 0x931E8875, 16 + 4 * (words - 3), 4)) * _MIX_R
    mixed ^= mixed >> np.uint32(16)
    seeds = _hash(np.tile(mixed, 2), _OUT).astype(np.uint64)
    seeds = (seeds[:, ::2] | seeds[:, 1::2] << np.uint64(32)).tolist()
    bits = np.random.PCG64(0)
    generator, state = np.random.Generator(bits), bits.state
    for high, low, inc_high, inc_low in seeds:
        inc = (inc_high << 65 | inc_low << 1 | 1) & _WIDE
        state["state"] = {"state": ((inc + (high << 64 | low)) * _PCG + inc) & _WIDE, "inc": inc}
        bits.state = state
        yield generator


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


def noise_values(regime: Regime, root: int, trial: int, patch: int = 0) -> Array:
    """The non-zero coordinates of every sample's noise patch `patch`, shape (n, s), before they are placed: N(0, sigma_p^2).

    With `tail` they are Student's t of variance sigma_p^2: the same normals over the root of a chi-square. The first patch is
    `dominance` times as large.

    Raises:
        RegimeError: if n*s is too large to hold.
    """
    if regime.n * regime.s > EXACT_COORDINATES:
        raise RegimeError(
            f"regime {regime.name!r}: n*s = {regime.n * regime.s} noise coordinates do not fit in memory; "
            "use the reduced or flow simulator, which need only their norms"
        )
    name = f"noise_values_{patch}" if patch else "noise_values"
    values = regime.sigma_p * normals(root, trial, name, regime.n, regime.s)
    if regime.tail:
        freedom = 1 / regime.tail
        for row, generator in zip(values, streams(root, trial, f"{name}_tail", regime.n), strict=True):
            row *= np.sqrt((freedom - 2) / generator.chisquare(freedom, regime.s))
    return values if patch else regime.dominance * values


def _norms(regime: Regime, root: int, trial: int) -> tuple[Array, Array]:
    n, s = regime.n, regime.s
    if regime.tail:
        values = noise_values(regime, root, trial)
        return np.abs(values).sum(1), np.sqrt((values**2).sum(1))
    sigma = regime.dominance * regime.sigma_p
    if n * s <= EXACT_COORDINATES:
        l1, l2 = np.empty(n), np.empty(n)
        for i, generator in enumerate(streams(root, trial, "noise_values", n)):
            x = generator.standard_normal(s)
            l1[i], l2[i] = np.abs(x).sum(), math.sqrt(x @ x)
        return sigma * l1, sigma * l2
    # |x| and x^2 have means sqrt(2/pi), 1, variances 1-2/pi, 2 and covariance sqrt(2/pi).
    c = math.sqrt(2 / math.pi)
    root_cov = np.linalg.cholesky(np.array([[1 - c * c, c], [c, 2.0]]))
    z = normals(root, trial, "noise_norms", n, 2) @ root_cov.T
    l1 = c * s + math.sqrt(s) * z[:, 0]
    return sigma * l1, sigma * np.sqrt(s + math.sqrt(s) * z[:, 1])


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
        labels=np.array([g.integers(2) * 2.0 - 1.0 for g in streams(root, trial, "labels", n)]),
        query_noise=np.ascontiguousarray((regime.sigma_0 * l2[:, None] * normals(root, trial, "query_noise", n, m_k)).T),
        key_noise=np.ascontiguousarray((regime.sigma_0 * l2[:, None] * normals(root, trial, "key_noise", n, m_k)).T),
        query_signal=regime.sigma_0 * normals(root, trial, "query_signal", 1, m_k)[0],
        key_signal=regime.sigma_0 * normals(root, trial, "key_signal", 1, m_k)[0],
        value_noise=value_scale * l2 * normals(root, trial, "value_noise", n, 1)[:, 0],
        value_signal=float(value_scale * normals(root, trial, "value_signal", 1, 1)[0, 0]),
    )
