"""Definition 2.1 and its violations as torch tensors: signal patches y*e_1 at random positions, the other patches noise."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from verify.errors import RegimeError
from verify.regime import MAX_ELEMENTS, Regime
from verify.start import noise_values, stream


@dataclass(frozen=True)
class Data:
    r"""Training samples of one trial, float64. Patches come first: `x[i, l]` is the patch $x_i^{(l)}$.

    x (n, L, d); y (n,) labels in {-1, +1}; is_signal (n, L), which patches are $y_i\mu$, $\mu = e_1$ (coordinate 0 in code).
    mislabelled (n,): samples whose signal patches are $-y_i\mu$.
    """

    x: Tensor
    y: Tensor
    is_signal: Tensor
    mislabelled: Tensor

    @property
    def position(self) -> Tensor:
        """Position of the first signal patch, shape (n,)."""
        return self.is_signal.to(torch.int8).argmax(1)

    @property
    def noise_index(self) -> Tensor:
        """Positions of the noise patches in order, shape (n, P): P = L-1 with one signal patch."""
        n, L = self.is_signal.shape
        return torch.arange(L).expand(n, L)[~self.is_signal].reshape(n, -1)

    @property
    def noise(self) -> Tensor:
        r"""The noise patches $\xi_i$ (without the label), shape (n, P, d)."""
        return self.x[torch.arange(len(self.y))[:, None], self.noise_index]

    @property
    def touched(self) -> Tensor:
        """Coordinates that are non-zero in some patch, sorted, as indices; coordinate 0 is among them."""
        return (self.x != 0).any(0).any(0).nonzero()[:, 0]

    def columns(self, index: Tensor) -> Data:
        """The same samples on the coordinates `index` alone."""
        return replace(self, x=self.x[:, :, index].contiguous())

    def mirrored(self, which: ArrayLike) -> Data:
        """(X_i, y_i) -> (-X_i, -y_i) for the samples in the mask `which` (n,); R.3 says that nothing changes."""
        sign = 1.0 - 2.0 * torch.as_tensor(which, dtype=self.y.dtype)
        return replace(self, x=self.x * sign[:, None, None], y=self.y * sign)

    def relabelled(self, which: ArrayLike) -> Data:
        r"""y_i -> -y_i for the samples in `which` (n,), with the signal patches $y_i\mu$ following it and the noise kept."""
        sign = 1.0 - 2.0 * torch.as_tensor(which, dtype=self.y.dtype)
        return replace(self, x=self.x * torch.where(self.is_signal, sign[:, None], 1.0)[:, :, None], y=self.y * sign)


def draw_data(regime: Regime, root: int, trial: int) -> Data:
    """The training samples of a trial: the same noise values, hence norms, as the Start of (root, trial) has.

    Disjoint supports are Definition 2.1 conditioned on the event of Lemma C.1. The first noise patch is the Start's xi_i.

    Raises:
        RegimeError: if the tensors do not fit in memory, or s coordinates do not fit {2..d}.
    """
    _fits(regime, regime.dim)
    data, coordinates = draw_touched(regime, root, trial)
    x = torch.zeros((*data.x.shape[:2], regime.dim), dtype=torch.float64)
    x[:, :, coordinates] = data.x
    return replace(data, x=x)


def draw_touched(regime: Regime, root: int, trial: int) -> tuple[Data, Tensor]:
    """The same samples on the coordinates that some patch touches, and those coordinates (sorted; 0, the signal's, is the first).

    Raises:
        RegimeError: as `draw_data`, where even these do not fit in memory.
    """
    n, L, d, s = regime.n, regime.L, regime.dim, regime.s
    if s > d - 1:
        raise RegimeError(f"regime {regime.name!r}: s={s} coordinates do not fit {{2..d}}, d={d}; lower s")
    if d > MAX_ELEMENTS and regime.supports == "disjoint":
        raise RegimeError(
            f"regime {regime.name!r}: a permutation of d = {d} coordinates does not fit in memory (limit {MAX_ELEMENTS:g}); "
            "use the reduced or flow simulator"
        )
    support = supports(regime, root, trial)
    coordinates, column = np.unique(np.append(support, 0), return_inverse=True)
    _fits(regime, len(coordinates))
    y = np.array([stream(root, trial, "labels", i).integers(2) * 2.0 - 1.0 for i in range(n)])
    wrong = np.array([stream(root, trial, "label_noise", i).random() < regime.label_noise for i in range(n)])
    is_signal = np.zeros((n, L), bool)
    for i in range(n):
        first = int(stream(root, trial, "position", i).integers(L))
        more = stream(root, trial, "more_positions", i).permutation(np.delete(np.arange(L), first))[: regime.signal_patches - 1]
        is_signal[i, [first, *more]] = True
    x = np.zeros((n, L, len(coordinates)))
    x[is_signal, 0] = np.repeat(np.where(wrong, -y, y), regime.signal_patches)
    place = np.nonzero(~is_signal)[1].reshape(n, -1)
    noise = np.zeros((len(support), n, len(coordinates)))
    for patch, where in enumerate(column[:-1].reshape(support.shape)):
        noise[patch, np.arange(n)[:, None], where] = noise_values(regime, root, trial, 0 if regime.identical else patch)
    if regime.orthogonal:
        noise = _orthogonalised(noise)
    x[np.arange(n)[:, None], place] = noise.swapaxes(0, 1)
    return Data(*map(torch.from_numpy, (x, y, is_signal, wrong))), torch.from_numpy(coordinates)


def _fits(regime: Regime, columns: int) -> None:
    if regime.n * regime.L * columns > MAX_ELEMENTS:
        raise RegimeError(
            f"regime {regime.name!r}: n*L*d = {regime.n * regime.L * columns} numbers do not fit in memory (limit {MAX_ELEMENTS:g}); "
            "use the reduced or flow simulator"
        )


def _orthogonalised(noise: np.ndarray) -> np.ndarray:
    """Gram-Schmidt over all patches in order, each with its norm and side kept. Noise has no part along mu to begin with."""
    rows = noise.reshape(-1, noise.shape[-1])[:, 1:]
    basis, triangle = np.linalg.qr(rows.T)
    out = np.zeros_like(noise)  # exactly 0 along mu: sign descent would follow a rounding error there
    out[..., 1:] = (basis * np.sign(np.diag(triangle)) * np.linalg.norm(rows, axis=1)).T.reshape(*noise.shape[:-1], -1)
    return out


def supports(regime: Regime, root: int, trial: int) -> np.ndarray:
    """Coordinates of every noise patch as indices in 0..d-1, shape (P, n, s), P = L-1 with one signal patch.

    Uniform on 1..d-1, and pairwise disjoint, or disjoint but for the first round(overlap*s), or independent; with probability
    `on_signal` the last one is the signal's, 0. Supports of identical patches are the same.
    """
    n, d, s, patches = regime.n, regime.dim, regime.s, regime.L - regime.signal_patches
    distinct = 1 if regime.identical else patches
    if regime.supports == "disjoint":
        # A prefix of one permutation, so that more samples extend the supports of fewer.
        shared = round(regime.overlap * s)
        free = 1 + stream(root, trial, "supports").permutation(d - 1)[: shared + distinct * n * (s - shared)]
        own = free[shared:].reshape(distinct, n, s - shared)
        out = np.concatenate([np.broadcast_to(free[:shared], (distinct, n, shared)), own], -1)
    else:
        draw = [[stream(root, trial, f"support_{p}", i).choice(d - 1, s, replace=False) for i in range(n)] for p in range(distinct)]
        out = 1 + np.array(draw)
    if regime.on_signal:
        meets = [[stream(root, trial, f"on_signal_{p}", i).random() < regime.on_signal for i in range(n)] for p in range(distinct)]
        out[np.array(meets), -1] = 0
    return np.repeat(out, patches // distinct, axis=0)
