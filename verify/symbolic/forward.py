"""The forward pass of Eq. (1) and its loss in SymPy, every entry a symbol: what all gradients are derived from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import sympy as sp

from verify.symbolic.field import Field, symbols_of

Vector = Sequence[sp.Expr]


@dataclass(frozen=True)
class Shape:
    """Sizes: L patches, m_k query/key neurons, m_v value neurons per output sign, d coordinates, n samples."""

    patches: int = 2
    m_k: int = 2
    m_v: int = 2
    d: int = 2
    n: int = 1


def dot(a: Sequence[sp.Expr], b: Sequence[sp.Expr]) -> sp.Expr:
    """Σ_c a_c b_c."""
    return sp.Add(*(p * q for p, q in zip(a, b, strict=True)))


class SymbolicModel:
    """F_j(W, X_i) = (1/m_v) Σ_l 1ᵀ W_{V,j} X_i softmax(X_iᵀ W_Kᵀ W_Q x_i^{(l)}), f = F_1 - F_{-1}, and L_S over n samples.

    Indices count from 0 in code, from 1 in symbol names. `patches` may prescribe the entries x[i][l][c] (disjoint supports);
    by default each is a symbol. Softmax works on symbols E_{i,la} = e^{z_{i,la}} and never on exp(·).
    """

    def __init__(self, shape: Shape, patches: Sequence[Sequence[Vector]] | None = None, field: Field | None = None) -> None:
        self.shape, self.field = shape, field or Field()
        coordinates = range(1, shape.d + 1)

        def symbols(*names: str) -> list[list[sp.Symbol]]:
            return [[sp.Symbol(f"{name},{c}}}", real=True) for c in coordinates] for name in names]

        self.w_q = symbols(*(f"w_{{Q,{s}" for s in range(1, shape.m_k + 1)))
        self.w_k = symbols(*(f"w_{{K,{s}" for s in range(1, shape.m_k + 1)))
        self.w_v = {j: symbols(*(f"w_{{V,{j},{r}" for r in range(1, shape.m_v + 1))) for j in (1, -1)}
        free = [symbols(*(f"x_{{{i}}}^{{{l}" for l in range(1, shape.patches + 1))) for i in range(1, shape.n + 1)]
        self.x: Sequence[Sequence[Vector]] = patches or free
        self.y = [self.field.label(f"y_{i}") for i in range(1, shape.n + 1)]
        self.e: list[list[list[sp.Expr]]] = [
            [
                [self.field.exponential(f"E_{{{i + 1},{l + 1}{a + 1}}}", self.logit(i, l, a)) for a in range(shape.patches)]
                for l in range(shape.patches)
            ]
            for i in range(shape.n)
        ]

    @property
    def leaves(self) -> set[sp.Symbol]:
        """All weights, data and labels."""
        rows = [*self.w_q, *self.w_k, *self.w_v[1], *self.w_v[-1], *(patch for sample in self.x for patch in sample), self.y]
        return symbols_of(*(entry for row in rows for entry in row))

    def logit(self, i: int, l: int, a: int) -> sp.Expr:
        """z_{i,la} = Σ_s ⟨w_{Q,s}, x_i^{(l)}⟩⟨w_{K,s}, x_i^{(a)}⟩."""
        pairs = zip(self.w_q, self.w_k, strict=True)
        return sp.Add(*(dot(q, self.x[i][l]) * dot(k, self.x[i][a]) for q, k in pairs))

    def softmax(self, i: int, l: int, a: int) -> sp.Expr:
        """s_{i,la}."""
        return self.e[i][l][a] / sp.Add(*self.e[i][l])

    def output(self, i: int, j: int) -> sp.Expr:
        """F_j(W, X_i)."""
        rows = range(self.shape.patches)
        attended = [
            sp.Add(*(dot(w, self.x[i][a]) * self.softmax(i, l, a) for a in rows))  # (W_{V,j} X softmax)_r, summed by 1ᵀ
            for l in rows
            for w in self.w_v[j]
        ]
        return sp.Add(*attended) / self.shape.m_v

    @cached_property
    def outputs(self) -> list[sp.Expr]:
        """f(W, X_i) per sample."""
        return [self.output(i, 1) - self.output(i, -1) for i in range(self.shape.n)]

    @cached_property
    def boltzmann(self) -> list[sp.Expr]:
        """B_i = e^{-y_i f_i} per sample; g_i = B_i/(1+B_i) is the absolute loss derivative."""
        return [self.field.exponential(f"B_{i + 1}", -y * f) for i, (y, f) in enumerate(zip(self.y, self.outputs, strict=True))]

    def g(self, i: int) -> sp.Expr:
        """g_i = 1/(1+e^{y_i f_i})."""
        return self.boltzmann[i] / (1 + self.boltzmann[i])

    @cached_property
    def loss(self) -> sp.Expr:
        """L_S = (1/n) Σ_i log(1 + e^{-y_i f_i})."""
        return sp.Add(*(sp.log(1 + b) for b in self.boltzmann)) / self.shape.n

    def v(self) -> Vector:
        """v = mean_r w_{V,1,r} - mean_r w_{V,-1,r}."""
        return [p - q for p, q in zip(self.value_mean(1), self.value_mean(-1), strict=True)]

    def value_mean(self, j: int) -> Vector:
        """w̄_{V,j} = mean_r w_{V,j,r}."""
        return [sp.Add(*column) / self.shape.m_v for column in zip(*self.w_v[j], strict=True)]


class FreeLogits(SymbolicModel):
    """The same model with each logit z_{i,la} a symbol of its own, for derivatives with respect to the logits."""

    def logit(self, i: int, l: int, a: int) -> sp.Symbol:
        """z_{i,la}."""
        return sp.Symbol(f"z_{{{i + 1},{l + 1}{a + 1}}}", real=True)


class SoftmaxRow:
    """softmax(z) of L logits; with `lump`, one more summand R > 0 in the denominator stands for any number of further terms."""

    def __init__(self, size: int, lump: bool = False) -> None:
        self.field = Field()
        self.z = [sp.Symbol(f"z_{a + 1}", real=True) for a in range(size)]
        self.e = [self.field.exponential(f"E_{a + 1}", z) for a, z in enumerate(self.z)]
        total = sp.Add(*self.e, *([sp.Symbol("R", positive=True)] if lump else []))
        self.s = [e / total for e in self.e]


@cache
def free_logits(patches: int) -> FreeLogits:
    """One sample, L patches, free logits."""
    return FreeLogits(Shape(patches=patches))


@cache
def symbolic_model(patches: int, n: int = 1) -> SymbolicModel:
    """The model with all entries symbols, L patches, n samples and widths of 2; derived once per process."""
    return SymbolicModel(Shape(patches=patches, n=n))


@cache
def disjoint_model(support: int = 2) -> SymbolicModel:
    """Two samples, L=2: patches y_i μ and ξ_i with disjoint supports of `support` symbols each, μ = e_1.

    Sample 1 has its signal patch first, sample 2 last (the position is random in Definition 2.1).
    """
    shape = Shape(d=1 + 2 * support, n=2)
    field = Field()
    samples = []
    for i in range(2):
        signal: Vector = [field.label(f"y_{i + 1}"), *[sp.Integer(0)] * (2 * support)]
        noise: list[sp.Expr] = [sp.Integer(0)] * (1 + 2 * support)
        for c in support_of(i, support):
            noise[c] = sp.Symbol(f"\\xi_{{{i + 1},{c + 1}}}", real=True)
        samples.append([signal, noise] if i == 0 else [noise, signal])
    return SymbolicModel(shape, samples, field)


def support_of(i: int, support: int = 2) -> range:
    """Coordinates of ξ_i in `disjoint_model`."""
    return range(1 + i * support, 1 + (i + 1) * support)
