"""SignGD as a torch optimizer, and the closed form of the gradients' signs, taken in log space so that none underflows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from verify.errors import NumericError
from verify.model import Transformer, output

EPS = float(torch.finfo(torch.float64).eps)
SPARSE = 0.1
"""Below this share of non-zeros, patches are stored as a sparse matrix (same products, fewer zeros to add)."""
_LOWEST = -1e300  # stands for log 0 where log 0 - log 0 would be NaN


class SignGD(torch.optim.Optimizer):
    """W <- W - lr*sgn(grad), with sgn(0) = 0.

    Args:
        params: tensors or (name, tensor) pairs; names make errors readable.
        lr: the step size eta.

    Raises:
        NumericError: on a NaN gradient, with the step and the tensor's name. (torch.sign(nan) is 0, which would hide it.)
    """

    def __init__(self, params: Iterable[Any], lr: float) -> None:
        super().__init__(params, {"lr": lr})
        self.taken = 0

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        """One update; returns the closure's loss, if a closure is given."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            names = group.get("param_names", [f"parameter {k}" for k in range(len(group["params"]))])
            for name, weight in zip(names, group["params"], strict=True):
                if weight.grad is None:
                    continue
                # A sum is ten times faster than a search, and is NaN if any entry is (or if infinities cancel).
                if torch.isnan(weight.grad.sum()) and torch.isnan(weight.grad).any():
                    raise NumericError(self.taken, name)
                weight.add_(torch.sign(weight.grad), alpha=-group["lr"])
        self.taken += 1
        return loss


class Adam(torch.optim.Adam):
    """torch's Adam with epsilon = 0, where a step of 0/0 (no gradient so far) is 0."""

    def __init__(self, params: Iterable[Any], lr: float) -> None:
        super().__init__(params, lr=lr, eps=0.0)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        """One update; returns the closure's loss, if a closure is given."""
        weights = [w for group in self.param_groups for w in group["params"]]
        before = [w.clone() for w in weights]
        loss = super().step(closure)
        for weight, old in zip(weights, before, strict=True):
            if state := self.state.get(weight):
                weight.copy_(torch.where(state["exp_avg_sq"] == 0, old, weight))
        return loss


class ClosedForm:
    r"""Signs of the loss gradient from D.4-D.6 in pairwise form, for fixed samples x (n, L, d), y (n,).

    $\partial f/\partial w_{Q,s} = \sum_l\sum_{a<b} S_{la}S_{lb}(v_a-v_b)(k_a-k_b)\,x^{(l)}$ and
    $\partial f/\partial w_{K,s} = \sum_a\sum_l\sum_b S_{la}S_{lb}(v_a-v_b)\,q_l\,x^{(a)}$ have no cancellation between softmax outputs.
    Each (sample, patch) keeps the logarithm of its largest coefficient apart; a coordinate's sum is divided by the largest
    coefficient among the patches that touch it, so that no term which could decide the sign underflows.
    """

    def __init__(self, x: Tensor, y: Tensor) -> None:
        n, L, d = x.shape
        self.x, self.y = x, y
        flat = x.reshape(n * L, d)
        self.column, self.row = flat.T.nonzero(as_tuple=True)
        self.place = torch.stack([self.column, self.row])
        self.entries = flat[self.row, self.column]
        self.sparse = len(self.entries) < SPARSE * flat.numel()
        self.patches = flat.to_sparse() if self.sparse else flat
        pairs = [(a, b) for a in range(L) for b in range(a + 1, L)]
        self.first, self.second = (torch.tensor(t) for t in zip(*pairs, strict=True))
        # For every patch a, the pairs it belongs to and its sign in them.
        self.pairs_of = torch.tensor([[p for p, pair in enumerate(pairs) if a in pair] for a in range(L)])
        self.sign_in = torch.tensor([[1.0 if pair[0] == a else -1.0 for pair in pairs if a in pair] for a in range(L)], dtype=x.dtype)

    @torch.no_grad()
    def project(self, model: Transformer) -> tuple[Tensor, Tensor, Tensor]:
        """Queries and keys (n, L, m_k), values (n, L) of the samples."""
        return model.project(self.patches, self.x.shape[1])

    @torch.no_grad()
    def __call__(self, model: Transformer, projected: tuple[Tensor, Tensor, Tensor]) -> tuple[dict[str, Tensor], Doubt]:
        """Signs of dL/dW by parameter name, in the parameters' shapes, and which of them are within their rounding bound.

        Args:
            model: the weights. projected: what `project(model)` gives.
        """
        query, key, value = projected
        n, L, _ = query.shape
        logits = query @ key.transpose(1, 2)
        log_s = torch.log_softmax(logits, -1)
        gap = value[:, self.first] - value[:, self.second]
        log_g = torch.nn.functional.logsigmoid(-self.y * output(logits, value))
        # log of S_la S_lb |v_a - v_b|, and the sign of y(v_a - v_b), per (sample, query patch, pair)
        size = log_s[:, :, self.first] + log_s[:, :, self.second] + (gap.abs().log() + log_g[:, None])[:, None, :]
        size = size.clamp(min=_LOWEST)
        sign = (self.y[:, None] * gap.sign())[:, None, :]
        rounding = EPS * (query.shape[-1] + L + logits.abs().sum((1, 2)))[:, None, None]

        scale_q = size.amax(-1)
        part = sign * torch.exp(size - scale_q[..., None])
        difference = key[:, self.first] - key[:, self.second]
        coefficient_q = part @ difference
        doubt_q = _doubtful(coefficient_q, part.abs() @ difference.abs(), rounding)

        of_patch = size[:, :, self.pairs_of]
        scale_k = of_patch.amax((1, 3))
        part_k = ((self.sign_in * sign[:, :, self.pairs_of]) * torch.exp(of_patch - scale_k[:, None, :, None])).sum(-1).transpose(1, 2)
        coefficient_k = part_k @ query
        doubt_k = _doubtful(coefficient_k, part_k.abs() @ query.abs(), rounding)

        scale_v = (torch.logsumexp(log_s, 1) + log_g[:, None]).clamp(min=_LOWEST)
        by_coordinate = torch.sign(self._matrix(self._normalised(scale_v)) @ self.y.repeat_interleave(L))
        signs, unsure = {}, {}
        largest_key = key.abs()[:, self.first] + key.abs()[:, self.second]
        for name, coefficient, scale, bound in (
            ("W_Q", coefficient_q, scale_q, part.abs() @ largest_key),
            ("W_K", coefficient_k, scale_k, part_k.abs() @ query.abs()),
        ):
            weighted = self._normalised(scale)
            total = self._matrix(weighted) @ coefficient.reshape(n * L, -1)
            along = self.column == 0
            size = weighted[along].abs() @ bound.reshape(n * L, -1)[self.row[along]]
            unsure[name] = _doubtful(total[0], size, EPS * (n * L + 8))
            signs[name] = -torch.sign(total).T
        signs["W_V"] = torch.stack([-by_coordinate, by_coordinate], 1)[:, :, None].expand(-1, -1, model.W_V.shape[1]).movedim(0, -1)
        return signs, Doubt(doubt_q, doubt_k, unsure["W_Q"], unsure["W_K"])

    def _normalised(self, scale: Tensor) -> Tensor:
        """Entries of x, each times exp(scale of its patch - the largest scale among the patches that touch its coordinate)."""
        each = scale.flatten()[self.row]
        largest = torch.full(self.x.shape[-1:], _LOWEST, dtype=scale.dtype).scatter_reduce_(0, self.column, each, "amax")
        return self.entries * torch.exp(each - largest[self.column])

    def _matrix(self, entries: Tensor) -> Tensor:
        """The matrix (d, n*L) that has `entries` in the places of the non-zeros of x."""
        n, L, d = self.x.shape
        if self.sparse:
            return torch.sparse_coo_tensor(self.place, entries, (d, n * L), is_coalesced=True, check_invariants=False)
        out = torch.zeros((d, n * L), dtype=entries.dtype)
        out[self.column, self.row] = entries
        return out


@dataclass(frozen=True)
class Doubt:
    """Which signs lie within their rounding bound without being exact zeros.

    query, key (n, L, m_k): coefficients of a patch in the gradients of w_{Q,s}, w_{K,s}.
    query_first, key_first (m_k,): the gradients' first coordinate, along the signal mu.
    """

    query: Tensor
    key: Tensor
    query_first: Tensor
    key_first: Tensor


def _doubtful(value: Tensor, size: Tensor, rounding: Tensor | float) -> Tensor:
    return (value != 0) & (value.abs() <= rounding * size)
