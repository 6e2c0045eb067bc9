"""The third column: torch autograd in float64 on random instances, against a formula evaluated at the same weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import sympy as sp

from verify.symbolic.field import Field, evaluate, symbols_of
from verify.symbolic.forward import SymbolicModel

if TYPE_CHECKING:  # importing torch takes seconds and only a judged identity needs it
    import torch

    from verify.model import Transformer

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
    up_to_scale: bool = False,
    instances: int = INSTANCES,
) -> Agreement:
    """Evaluate `formulas` and `gradient` at random weights.

    Args:
        leaves: weights and data that the gradient needs. formulas: rational expressions, one per gradient entry.
        gradient: maps the weights to the same entries by autograd.
        up_to_scale: the formulas claim the gradient up to a positive factor (per instance) only.
    """
    symbols = sorted(field.closure(set(leaves) | symbols_of(*formulas)), key=str)
    rng = np.random.default_rng(0)
    draws = {s: rng.normal(0, SPREAD, instances) for s in symbols}
    values = field.floats({s: np.sign(x) if s in field.labels else np.abs(x) if s.is_positive else x for s, x in draws.items()})
    memo: dict[sp.Basic, object] = {}
    claims = np.stack([np.broadcast_to(evaluate(f, values, float, memo), instances) for f in formulas], axis=1)
    worst, signs, entries = 0.0, 0, 0
    for k, claimed in enumerate(claims):
        found = np.asarray(gradient({s: float(v[k]) for s, v in values.items()}), float)
        if up_to_scale:
            claimed = claimed * np.linalg.norm(found) / np.linalg.norm(claimed)
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


def instance(model: SymbolicModel, values: Values) -> tuple[Transformer, torch.Tensor, torch.Tensor]:
    """The engine's own module at the weights of a SymbolicModel, with patches x (n, L, d) and labels y (n,)."""
    from verify.model import Transformer

    w_q, w_k, w_v, x, y = (tensor(s, values) for s in (model.w_q, model.w_k, [model.w_v[1], model.w_v[-1]], model.x, model.y))
    return Transformer(w_q.detach(), w_k.detach(), w_v.detach()), x, y


def gradient(scalar: torch.Tensor, leaf: torch.Tensor) -> list[float]:
    """Autograd's d scalar / d leaf, flattened in row-major order."""
    import torch

    return torch.autograd.grad(scalar, leaf)[0].flatten().tolist()
