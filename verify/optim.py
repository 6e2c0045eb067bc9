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
                if torch.isnan(weight.grad).any():
                    raise NumericError(self.taken, name)
                weight.add_(torch.sign(weight.grad), alpha=-group["lr"])
        self.taken += 1
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
        self.row, self.column = flat.nonzero(as_tuple=True)
        self.entries = flat[self.row, self.column]
        pairs = [(a, b) for a in range(L) for b in range(a + 1, L)]
        self.first, self.second = (torch.tensor(t) for t in zip(*pairs, strict=True))
        # For every patch a, the pairs it belongs to and its sign in them.
        self.pairs_of = torch.tensor([[p for p, pair in enumerate(pairs) if a in pair] for a in range(L)])
        self.sign_in = torch.tensor([[1.0 if pair[0] == a else -1.0 for pair in pairs if a in pair] for a in range(L)], dtype=x.dtype)

    @torch.no_grad()
    def __call__(self, model: Transformer, projected: tuple[Tensor, Tensor, Tensor] | None = None) -> tuple[dict[str, Tensor], Doubt]:
        """Signs of dL/dW by parameter name, in the parameters' shapes, and which of them are within their rounding bound.

        Args:
            model: the weights. projected: `model.project(x)`, if it is known already.
        """
        query, key, value = projected or model.project(self.x)
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
        by_coordinate = torch.sign(self.y.repeat_interleave(L) @ self._normalised(scale_v))
        signs, unsure = {}, {}
        largest_key = key.abs()[:, self.first] + key.abs()[:, self.second]
        for name, coefficient, scale, bound in (
            ("W_Q", coefficient_q, scale_q, part.abs() @ largest_key),
            ("W_K", coefficient_k, scale_k, part_k.abs() @ query.abs()),
        ):
            weighted = self._normalised(scale)
            total = coefficient.reshape(n * L, -1).T @ weighted
            first = weighted[:, 0]
            unsure[name] = _doubtful(total[:, 0], first.abs() @ bound.reshape(n * L, -1), EPS * (n * L + 8))
            signs[name] = -torch.sign(total)
        signs["W_V"] = torch.stack([-by_coordinate, by_coordinate])[:, None, :].expand(model.W_V.shape)
        return signs, Doubt(doubt_q, doubt_k, unsure["W_Q"], unsure["W_K"])

    def _normalised(self, scale: Tensor) -> Tensor:
        """x (n*L, d), each entry times exp(scale of its patch - the largest scale among the patches that touch its coordinate)."""
        rows, d = scale.numel(), self.x.shape[-1]
        each = scale.reshape(rows)[self.row]
        largest = torch.full((d,), _LOWEST, dtype=scale.dtype).scatter_reduce_(0, self.column, each, "amax")
        out = torch.zeros((rows, d), dtype=scale.dtype)
        out[self.row, self.column] = self.entries * torch.exp(each - largest[self.column])
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
