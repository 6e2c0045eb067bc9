"""What the paper's gradient formulas speak of (softmax outputs, inner products, patches), read off a model or off a lumped summand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import sympy as sp

from verify.symbolic.field import Field
from verify.symbolic.forward import SymbolicModel, dot


@dataclass(frozen=True)
class Terms:
    """For one sample and one neuron; patches l (query), a (key) and coordinates c count from 0.

    s(l,a): softmax output. u(a): the value projection of patch a (⟨w̄_{V,j},x^{(a)}⟩ or ⟨v,x^{(a)}⟩). mean(l) = Σ_b s_{lb} u(b).
    query(l) = ⟨w_Q,x^{(l)}⟩, key(a) = ⟨w_K,x^{(a)}⟩, x(l,c): entry of a patch. g: loss derivative; y: label; j: output sign.
    """

    s: Callable[[int, int], sp.Expr]
    u: Callable[[int], sp.Expr]
    mean: Callable[[int], sp.Expr]
    query: Callable[[int], sp.Expr]
    key: Callable[[int], sp.Expr]
    x: Callable[[int, int], sp.Expr]
    m_v: sp.Expr
    g: sp.Expr
    y: sp.Expr
    j: sp.Expr


def model_terms(model: SymbolicModel, i: int = 0, neuron: int = 0, j: int | None = None, *, loss: bool = False) -> Terms:
    """The terms of sample i in a full model. u projects on w̄_{V,j}, or on v if j is None; g is there if `loss`."""
    direction = model.v() if j is None else model.value_mean(j)
    u = [dot(direction, patch) for patch in model.x[i]]
    return Terms(
        s=lambda l, a: model.softmax(i, l, a),
        u=lambda a: u[a],
        mean=lambda l: sp.Add(*(model.softmax(i, l, b) * u[b] for b in range(model.shape.patches))),
        query=lambda l: dot(model.w_q[neuron], model.x[i][l]),
        key=lambda a: dot(model.w_k[neuron], model.x[i][a]),
        x=lambda l, c: model.x[i][l][c],
        m_v=sp.Integer(model.shape.m_v),
        g=model.g(i) if loss else sp.Integer(1),
        y=model.y[i],
        j=sp.Integer(j or 1),
    )


class Lumped:
    """The summand of one (query l, key a) for *general* L, m_k, m_v, d, n: all that does not carry the index is one symbol.

    Row l of f is (E_a u_a + U)/(E_a + R) with R = Σ_{c≠a} E_c and U = Σ_{c≠a} E_c u_c; z_a = ⟨w_Q,x^{(l)}⟩⟨w_K,x^{(a)}⟩ + ζ (ζ: the other
    neurons), each inner product = w x + (the other coordinates); u_a = (w_V x_a + ω)/m_v (ω: other coordinates and neurons r).
    By the chain rule a gradient is the sum over (l, a) of its derivatives through E_a alone (through u_a alone for w_V), so the
    identity of this summand is the identity for every L. `same`: l = a, where both inner products hold one patch.
    `free_logit`: z_a is a symbol of its own.
    """

    def __init__(self, same: bool, free_logit: bool = False) -> None:
        self.field = Field()
        real = self._real
        self.l, self.a = (0, 0) if same else (0, 1)
        self.w_q, self.w_k, self.w_v = real("w_{Q,c}"), real("w_{K,c}"), real("w_{V,c}")
        x_a = real("x^{a}_c")
        x_l = x_a if same else real("x^{l}_c")
        self._x = {self.l: x_l, self.a: x_a}
        self.m_v, self.n = sp.Symbol("m_v", positive=True), sp.Symbol("n", positive=True)
        self.j, self.y = self.field.label("j"), self.field.label("y")
        self._query = self.w_q * x_l + real("\\rho_Q")
        self._key = self.w_k * x_a + real("\\rho_K")
        self.z = real("z_a")
        self.e = self.field.exponential("E_a", self.z if free_logit else self._query * self._key + real("\\zeta"))
        self.rest, self.rest_values = sp.Symbol("R", positive=True), real("U")
        self._u = (self.w_v * x_a + real("\\omega")) / self.m_v
        self.row = (self.e * self._u + self.rest_values) / (self.e + self.rest)
        self.boltzmann = self.field.exponential("B", -self.y * (self.j * self.row + real("f_0")))
        self.loss = sp.log(1 + self.boltzmann) / self.n

    def terms(self) -> Terms:
        """The terms of this summand; an index that it does not carry gives a symbol of its own."""
        l, a = self.l, self.a
        return Terms(
            s=lambda p, q: self.e / (self.e + self.rest) if (p, q) == (l, a) else sp.Symbol(f"s_{{{p},{q}}}", positive=True),
            u=lambda q: self._u if q == a else self._real(f"u_{q}"),
            mean=lambda p: self.row if p == l else self._real(f"\\bar u_{p}"),
            query=lambda p: self._query if p == l else self._real(f"Q_{p}"),
            key=lambda q: self._key if q == a else self._real(f"K_{q}"),
            x=lambda p, c: self._x[p],
            m_v=self.m_v,
            g=self.boltzmann / (1 + self.boltzmann),
            y=self.y,
            j=self.j,
        )

    @staticmethod
    def _real(name: str) -> sp.Symbol:
        return sp.Symbol(name, real=True)
