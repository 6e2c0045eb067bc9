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
        self.W_Q, self.W_K, self.W_V = nn.Parameter(W_Q), nn.Parameter(W_K), nn.Parameter(W_V)

    @property
    def v(self) -> Tensor:
        r"""$v = \overline{w}_{V,1} - \overline{w}_{V,-1}$ (d,): all that f sees of W_V."""
        mean = self.W_V.mean(1)
        return mean[0] - mean[1]

    def columns(self, index: Tensor) -> Transformer:
        """The same weights on the coordinates `index` alone (a copy)."""
        return Transformer(*(w.detach()[..., index].clone() for w in (self.W_Q, self.W_K, self.W_V)))

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries <w_{Q,s}, x^(l)> and keys (n, L, m_k), and values <v, x^(l)> (n, L), of patches x (n, L, d)."""
        flat = x.reshape(-1, x.shape[-1])
        shape = (*x.shape[:-1], -1)
        return (flat @ self.W_Q.T).reshape(shape), (flat @ self.W_K.T).reshape(shape), (flat @ self.v).reshape(x.shape[:-1])

    def logits(self, x: Tensor) -> Tensor:
        r"""$z_{la}$, shape (n, L, L): query patch l, key patch a."""
        query, key, _ = self.project(x)
        return query @ key.transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        """f (n,) of patches x (n, L, d)."""
        query, key, value = self.project(x)
        return output(query @ key.transpose(1, 2), value)

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        r"""$L_S = \frac1n\sum_i\log(1+e^{-y_if_i})$, a scalar; finite for any f."""
        return nn.functional.softplus(-y * self(x)).mean()


def output(logits: Tensor, value: Tensor) -> Tensor:
    """f (n,) from logits (n, L, L) and values (n, L)."""
    return (torch.softmax(logits, -1) @ value[:, :, None]).sum((1, 2))
