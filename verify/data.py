"""Definition 2.1 as torch tensors: one signal patch y*e_1 at a random position, the other patches sparse Gaussian noise."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from verify.errors import RegimeError
from verify.regime import MAX_ELEMENTS, Regime
from verify.start import noise_values, normals, stream


@dataclass(frozen=True)
class Data:
    r"""Training samples of one trial, float64. Patches come first: `x[i, l]` is the patch $x_i^{(l)}$.

    x (n, L, d); y (n,) labels in {-1, +1}; position (n,) of the signal patch $y_i\mu$, $\mu = e_1$ (coordinate 0 in code).
    """

    x: Tensor
    y: Tensor
    position: Tensor

    @property
    def noise_index(self) -> Tensor:
        """Positions of the noise patches in order, shape (n, L-1)."""
        n, L, _ = self.x.shape
        everywhere = torch.arange(L).expand(n, L)
        return everywhere[everywhere != self.position[:, None]].reshape(n, L - 1)

    @property
    def noise(self) -> Tensor:
        r"""The noise patches $\xi_i$ (without the label), shape (n, L-1, d)."""
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
        r"""y_i -> -y_i for the samples in `which` (n,), with the signal patch $y_i\mu$ following it and the noise kept."""
        sign = 1.0 - 2.0 * torch.as_tensor(which, dtype=self.y.dtype)
        x = self.x.clone()
        x[torch.arange(len(self.y)), self.position] *= sign[:, None]
        return replace(self, x=x, y=self.y * sign)


def draw_data(regime: Regime, root: int, trial: int) -> Data:
    """The training samples of a trial: the same noise values, hence norms, as the Start of (root, trial) has.

    Disjoint supports are Definition 2.1 conditioned on the event of Lemma C.1. The first noise patch is the Start's xi_i.

    Raises:
        RegimeError: if the tensors do not fit in memory, or s coordinates do not fit {2..d}.
    """
    n, L, d, s = regime.n, regime.L, regime.dim, regime.s
    if n * L * d > MAX_ELEMENTS:
        raise RegimeError(
            f"regime {regime.name!r}: n*L*d = {n * L * d} numbers do not fit in memory (limit {MAX_ELEMENTS:g}); use the reduced or flow simulator"
        )
    if s > d - 1:
        raise RegimeError(f"regime {regime.name!r}: s={s} coordinates do not fit {{2..d}}, d={d}; lower s")
    y = np.array([stream(root, trial, "labels", i).integers(2) * 2.0 - 1.0 for i in range(n)])
    position = np.array([stream(root, trial, "position", i).integers(L) for i in range(n)])
    x = np.zeros((n, L, d))
    x[np.arange(n), position, 0] = y
    support = supports(regime, root, trial)
    for patch in range(L - 1):
        values = noise_values(regime, root, trial) if patch == 0 else regime.sigma_p * normals(root, trial, f"noise_values_{patch}", n, s)
        place = np.where(patch < position, patch, patch + 1)
        x[np.arange(n)[:, None], place[:, None], support[patch]] = values
    return Data(torch.from_numpy(x), torch.from_numpy(y), torch.from_numpy(position))


def supports(regime: Regime, root: int, trial: int) -> np.ndarray:
    """Coordinates of every noise patch as indices in 1..d-1, shape (L-1, n, s): uniform, and pairwise disjoint or independent."""
    n, L, d, s = regime.n, regime.L, regime.dim, regime.s
    if regime.supports == "disjoint":
        # A prefix of one permutation, so that more samples extend the supports of fewer.
        free = stream(root, trial, "supports").permutation(d - 1)[: n * s * (L - 1)]
        return 1 + free.reshape(L - 1, n, s)
    draw = [[stream(root, trial, f"support_{p}", i).choice(d - 1, s, replace=False) for i in range(n)] for p in range(L - 1)]
    return 1 + np.array(draw)
