"""The third column: torch autograd in float64 on random instances, against a formula evaluated at the same weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import sympy as sp

from verify.symbolic.field import Field, evaluate
from verify.symbolic.forward import SymbolicModel

if TYPE_CHECKING:  # importing torch takes seconds and only a judged identity needs it
    import torch

INSTANCES = 12
ROUNDING = 1e-11
"""Relative to the largest gradient entry of the instance: float64 rounding, not a tolerance of the statement."""
SPREAD = 0.6
"""Standard deviation of the entries: logits of size 1, so that no softmax saturates."""

Values = dict[sp.Symbol, float]


@dataclass(frozen=True)
class Agreement:
    """Autograd against the paper's formula.

    `error`: largest |difference| / largest |gradient entry|, over instances. `signs`: entries with equal strict sign of `entries`
    whose autograd value exceeds the rounding level.
    """

    instances: int
    entries: int
    error: float
    signs: int

    @property
    def agrees(self) -> bool:
        """Whether values agree to rounding, and every sign does."""
        return self.error <= ROUNDING and self.signs == self.entries

    @property
    def text(self) -> str:
        """One line for the report."""
        return f"autograd: {self.instances} instances, largest relative error {self.error:.1e}, signs equal {self.signs} of {self.entries}"


def compare(
    field: Field,
    leaves: Iterable[sp.Symbol],
    formulas: Sequence[sp.Expr],
    gradient: Callable[[Values], Sequence[float]],
    *,
    instances: int = INSTANCES,
) -> Agreement:
    """Evaluate `formulas` and `gradient` at random weights.

    Args:
        leaves: weights and data that the gradient needs. formulas: rational expressions, one per gradient entry.
        gradient: maps the weights to the same entries by autograd.
    """
    symbols = sorted(field.closure(set(leaves).union(*(f.free_symbols for f in formulas))), key=str)
    worst, signs, entries = 0.0, 0, 0
    for seed in range(instances):
        rng = np.random.default_rng(seed)
        draws = rng.normal(0, SPREAD, len(symbols))
        values = {
            s: float(np.sign(x) if s in field.labels else abs(x) if s.is_positive else x) for s, x in zip(symbols, draws, strict=True)
        }
        values = field.floats(values)
        claimed = np.array([evaluate(f, values, float) for f in formulas], float)
        found = np.asarray(gradient(values), float)
        scale = float(np.abs(found).max())
        error = float(np.abs(found - claimed).max()) / scale if scale > 0 else math.inf
        worst = max(worst, error if math.isfinite(error) else math.inf)
        clear = np.abs(found) > ROUNDING * scale
        entries += int(clear.sum())
        signs += int((np.sign(found) == np.sign(claimed))[clear].sum())
    return Agreement(instances, entries, worst, signs)


def tensor(entries: Sequence[object], values: Values) -> torch.Tensor:
    """Nested lists of expressions as a float64 tensor that records gradients."""

    def numbers(node: object) -> object:
        return [numbers(x) for x in node] if isinstance(node, (list, tuple)) else evaluate(node, values, float)  # type: ignore[arg-type]

    import torch

    return torch.tensor(numbers(list(entries)), dtype=torch.float64, requires_grad=True)


@dataclass(frozen=True)
class Torch:
    """A SymbolicModel at given weights, in torch: leaves w_q, w_k (m_k, d), w_v (2, m_v, d) for j = 1, -1, x (n, L, d), y (n,)."""

    w_q: torch.Tensor
    w_k: torch.Tensor
    w_v: torch.Tensor
    x: torch.Tensor
    y: torch.Tensor

    @staticmethod
    def at(model: SymbolicModel, values: Values) -> Torch:
        """The model's weights and data with numbers in place of symbols."""
        stacks = (model.w_q, model.w_k, [model.w_v[1], model.w_v[-1]], model.x, model.y)
        return Torch(*(tensor(s, values) for s in stacks))

    def logits(self) -> torch.Tensor:
        """z[i, l, a], shape (n, L, L)."""
        return (self.x @ self.w_q.T) @ (self.x @ self.w_k.T).transpose(1, 2)

    def outputs(self, logits: torch.Tensor | None = None) -> torch.Tensor:
        """F_j(X_i), shape (n, 2) for j = 1, -1; from given logits (n, L, L) if any."""
        import torch

        attention = torch.softmax(self.logits() if logits is None else logits, dim=-1)
        attended = attention @ self.x  # row l: Σ_a s_la x^(a)
        return torch.einsum("jrc,ilc->ij", self.w_v, attended) / self.w_v.shape[1]

    def f(self) -> torch.Tensor:
        """f(X_i), shape (n,)."""
        out = self.outputs()
        return out[:, 0] - out[:, 1]

    def loss(self) -> torch.Tensor:
        """L_S."""
        import torch

        return torch.nn.functional.softplus(-self.y * self.f()).mean()


def gradient(scalar: torch.Tensor, leaf: torch.Tensor) -> list[float]:
    """Autograd's d scalar / d leaf, flattened in row-major order."""
    import torch

    return torch.autograd.grad(scalar, leaf)[0].flatten().tolist()
