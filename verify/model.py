"""The two-layer transformer of Eq. (1), for any number of patches, as a torch module in float64."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Transformer(nn.Module):
    r"""$f(W,X) = F_1 - F_{-1}$, $F_j = \frac{1}{m_v}\sum_l \mathbf{1}^\top W_{V,j} X\,\mathrm{softmax}(X^\top W_K^\top W_Q x^{(l)})$.

    Parameters: W_Q, W_K (m_k, d); W_V (2, m_v, d), first index j = +1, -1. No 1/sqrt(m_k), no causal mask.
    """

    def __init__(self, W_Q: Tensor, W_K: Tensor, W_V: Tensor) -> None:
        super().__init__()
        # Coordinates lie outermost in memory: products with sparse patches then read whole rows.
        self.W_Q, self.W_K, self.W_V = (nn.Parameter(w.movedim(-1, 0).contiguous().movedim(0, -1)) for w in (W_Q, W_K, W_V))

    @property
    def v(self) -> Tensor:
        r"""$v = \overline{w}_{V,1} - \overline{w}_{V,-1}$ (d,): all that f sees of W_V."""
        mean = self.W_V.mean(1)
        return mean[0] - mean[1]

    def project(self, patches: Tensor, L: int) -> tuple[Tensor, Tensor, Tensor]:
        """Queries <w_{Q,s}, x^(l)> and keys (n, L, m_k), and values <v, x^(l)> (n, L), of patches (n*L, d), dense or sparse."""
        query, key, value = patches @ self.W_Q.T, patches @ self.W_K.T, patches @ self.v
        return query.reshape(-1, L, query.shape[1]), key.reshape(-1, L, key.shape[1]), value.reshape(-1, L)

    def logits(self, x: Tensor) -> Tensor:
        r"""$z_{la}$, shape (n, L, L): query patch l, key patch a."""
        query, key, _ = self.project(x.flatten(0, 1), x.shape[1])
        return query @ key.transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        """f (n,) of patches x (n, L, d)."""
        query, key, value = self.project(x.flatten(0, 1), x.shape[1])
        return output(query @ key.transpose(1, 2), value)

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        r"""$L_S = \frac1n\sum_i\log(1+e^{-y_if_i})$, a scalar; finite for any f."""
        return nn.functional.softplus(-y * self(x)).mean()


def output(logits: Tensor, value: Tensor) -> Tensor:
    """f (n,) from logits (n, L, L) and values (n, L)."""
    return (torch.softmax(logits, -1) @ value[:, :, None]).sum((1, 2))
