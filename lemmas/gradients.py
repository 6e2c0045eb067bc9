"""Appendix D, the gradients of the outputs: softmax Jacobian, values and logits (D.1-D.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import sympy as sp

from verify import Proof, claim, value
from verify.symbolic import (
    Agreement,
    Case,
    FreeLogits,
    Lumped,
    SoftmaxRow,
    Terms,
    compare,
    free_logits,
    gradient,
    instance,
    model_terms,
    prove_identity,
    symbolic_model,
    tensor,
)

SIZES = (2, 3)
"""L with every entry a symbol; general L by lumping."""


@dataclass(frozen=True)
class Formula:
    """A formula of the paper: LaTeX, and the summand as a function of what it speaks of."""

    latex: str
    term: Callable[..., sp.Expr]

    def mutated(self, change: Callable[..., sp.Expr]) -> Formula:
        """The same formula with `change(term, *arguments)` in place of term(*arguments)."""
        term = self.term
        return replace(self, term=lambda *arguments: change(term, *arguments))


def flipped(formula: Formula) -> Formula:
    """The sign reversed."""
    return formula.mutated(lambda term, *at: -term(*at))


def doubled(formula: Formula) -> Formula:
    """A factor of 2 too many."""
    return formula.mutated(lambda term, *at: 2 * term(*at))


def lumps() -> list[tuple[str, Lumped]]:
    """The summands for general L: distinct patches, and one patch as query and key."""
    return [("general L, l≠a", Lumped(same=False)), ("general L, l=a", Lumped(same=True))]


# --- D.1 ---------------------------------------------------------------------------------------------------------------------------


def softmax_jacobian() -> Formula:
    """The paper's D.1: term(s, a, b)."""
    return Formula(
        r"\frac{\partial \operatorname{softmax}(z)_a}{\partial z_b} = s_a(\delta_{ab} - s_b)",
        lambda s, a, b: s[a] * (int(a == b) - s[b]),
    )


def _jacobian_cases(formula: Formula) -> Iterator[Case]:
    rows = [(f"L={size}", SoftmaxRow(size)) for size in SIZES] + [("general L", SoftmaxRow(2, lump=True))]
    for name, row in rows:
        for a in range(len(row.s)):
            for b in range(len(row.s)):
                yield Case(f"{name}, ∂s_{a + 1}/∂z_{b + 1}", row.field.diff(row.s[a], row.z[b]), formula.term(row.s, a, b), row.field)


def _jacobian_by_torch(formula: Formula, size: int) -> Agreement:
    import torch

    row = SoftmaxRow(size)
    claimed = [formula.term(row.s, a, b) for a in range(size) for b in range(size)]
    softmax = lambda z: torch.softmax(z, 0)  # noqa: E731

    def autograd(values: dict[sp.Symbol, float]) -> list[float]:
        return torch.autograd.functional.jacobian(softmax, tensor(row.z, values)).flatten().tolist()  # type: ignore[union-attr]

    return compare(row.field, row.z, claimed, autograd)


@claim("D.1", "The Jacobian of the softmax", source="Appendix D, softmax derivative", kind="identity", inputs=[value(softmax_jacobian)])
def jacobian_of_softmax(formula: Formula) -> Proof:
    r"""$\frac{\partial \operatorname{softmax}(z)_a}{\partial z_b} = s_a(\delta_{ab} - s_b)$ for every $L$.

    Conditions: none.
    Measured: the numerator of (SymPy's derivative − the formula) in $E_a = e^{z_a}$; 0 proves, an exact point with another value disproves.
    Made finite: nothing; L = 2, 3 in full, general L with the other terms lumped into $R = \sum_{c\neq a,b}E_c$.
    Source: Appendix D, softmax derivative.
    """
    shown = SoftmaxRow(1, lump=True)
    return prove_identity(
        _jacobian_cases(formula),
        lambda: [_jacobian_by_torch(formula, size) for size in (*SIZES, 7)],
        paper=formula.latex,
        derivative=(r"\frac{\partial s_1}{\partial z_1}", sp.factor(shown.field.diff(shown.s[0], shown.z[0]))),
    )


jacobian_of_softmax.control("sign reversed")(flipped)
jacobian_of_softmax.control("factor 2")(doubled)


@jacobian_of_softmax.control("index swapped: s_b for s_a")
def _(formula: Formula) -> Formula:
    return formula.mutated(lambda term, s, a, b: s[b] * (int(a == b) - s[b]))


@jacobian_of_softmax.control("diagonal only")
def _(formula: Formula) -> Formula:
    return formula.mutated(lambda term, s, a, b: term(s, a, b) if a == b else sp.Integer(0))


# --- derivatives of the outputs ----------------------------------------------------------------------------------------------------


def total(formula: Formula, terms: Terms, patches: int, *more: int) -> sp.Expr:
    """Σ_{l,a} term(terms, l, a, ...)."""
    return sp.Add(*(formula.term(terms, l, a, *more) for l in range(patches) for a in range(patches)))


def entries(rows: Sequence[Sequence[sp.Symbol]]) -> Iterator[tuple[int, int, sp.Symbol]]:
    """(neuron, coordinate, weight) of a weight matrix."""
    return ((s, c, w) for s, row in enumerate(rows) for c, w in enumerate(row))


def value_gradient() -> Formula:
    """The paper's D.2: the summand term(terms, l, a, c)."""
    return Formula(
        r"\frac{\partial F_j}{\partial w_{V,j,r}} = \frac{1}{m_v}\sum_l\sum_a s_{la}x^{(a)}",
        lambda t, l, a, c: t.s(l, a) * t.x(a, c) / t.m_v,
    )


def _value_cases(formula: Formula) -> Iterator[Case]:
    for size in SIZES:
        model = symbolic_model(size)
        for j in (1, -1):
            for _, c, w in entries(model.w_v[j]):
                claimed = total(formula, model_terms(model, j=j), size, c)
                yield Case(f"L={size}, ∂F_{j}/∂{w}", model.field.diff(model.output(0, j), w), claimed, model.field)
    for name, lump in lumps():
        derived = lump.field.diff(lump.row, lump.w_v)
        yield Case(name, derived, formula.term(lump.terms(), lump.l, lump.a, 0), lump.field)


def _value_by_torch(formula: Formula, size: int) -> Agreement:
    model = symbolic_model(size)
    claimed = [total(formula, model_terms(model, j=1), size, c) for _, c, _ in entries(model.w_v[1])]

    def autograd(values: dict[sp.Symbol, float]) -> list[float]:
        net, x, _ = instance(model, values)
        return gradient(net(x)[0], net.W_V)[: len(claimed)]  # f depends on w_{V,1} through F_1 alone

    return compare(model.field, model.leaves, claimed, autograd)


@claim("D.2", "The gradient of the value weights", source="Appendix D, value gradient", kind="identity", inputs=[value(value_gradient)])
def gradient_of_values(formula: Formula) -> Proof:
    r"""$\frac{\partial F_j}{\partial w_{V,j,r}} = \frac{1}{m_v}\sum_l\sum_a s_{la}x^{(a)}$, the same for all $r$.

    Conditions: none.
    Measured: the numerator of (SymPy's derivative of Eq. (1) − the formula); 0 proves, an exact point with another value disproves.
    Made finite: nothing; L = 2, 3 in full, general L, $m_v$ and d by lumping.
    Source: Appendix D, value gradient.
    """
    lump = Lumped(same=False)
    return prove_identity(
        _value_cases(formula),
        lambda: [_value_by_torch(formula, size) for size in SIZES],
        paper=formula.latex,
        derivative=(r"\frac{\partial}{\partial w_{V,c}}\frac{E_a u_a + U}{E_a + R}", lump.field.diff(lump.row, lump.w_v)),
    )


gradient_of_values.control("sign reversed")(flipped)
gradient_of_values.control("factor 2")(doubled)


@gradient_of_values.control("index swapped: the query's patch")
def _(formula: Formula) -> Formula:
    return formula.mutated(lambda term, t, l, a, c: t.s(l, a) * t.x(l, c) / t.m_v)


@gradient_of_values.control("index swapped: s_al for s_la")
def _(formula: Formula) -> Formula:
    return formula.mutated(lambda term, t, l, a, c: t.s(a, l) * t.x(a, c) / t.m_v)


@dataclass(frozen=True)
class LogitFormula(Formula):
    """D.3 with its form for two patches: pair(terms, l, a) at L = 2."""

    pair: Callable[..., sp.Expr] = lambda *_: sp.Integer(0)


def logit_gradient() -> LogitFormula:
    """The paper's D.3: the entry term(terms, l, a), and for L=2 ± s_{l1}s_{l2}⟨w̄, x⁽¹⁾ − x⁽²⟩."""
    return LogitFormula(
        r"\frac{\partial F_j}{\partial z_{la}} = s_{la}\left(\langle \bar w_{V,j},x^{(a)}\rangle"
        r" - \sum_b s_{lb}\langle \bar w_{V,j},x^{(b)}\rangle\right)",
        lambda t, l, a: t.s(l, a) * (t.u(a) - t.mean(l)),
        lambda t, l, a: (-1) ** a * t.s(l, 0) * t.s(l, 1) * (t.u(0) - t.u(1)),
    )


def _logit_cases(formula: LogitFormula) -> Iterator[Case]:
    for size in SIZES:
        model = free_logits(size)
        for j in (1, -1):
            terms, output = model_terms(model, j=j), model.output(0, j)
            for l in range(size):
                for a in range(size):
                    derived = model.field.diff(output, model.logit(0, l, a))
                    name = f"L={size}, ∂F_{j}/∂z_{l + 1}{a + 1}"
                    yield Case(name, derived, formula.term(terms, l, a), model.field)
                    if size == 2:
                        yield Case(f"{name} (two patches)", derived, formula.pair(terms, l, a), model.field)
    lump = Lumped(same=False, free_logit=True)
    yield Case("general L", lump.field.diff(lump.row, lump.z), formula.term(lump.terms(), lump.l, lump.a), lump.field)


def _logit_by_torch(term: Callable[..., sp.Expr], size: int) -> Agreement:
    model: FreeLogits = free_logits(size)
    claimed = [term(model_terms(model, j=1), l, a) for l in range(size) for a in range(size)]

    from verify.model import output

    def autograd(values: dict[sp.Symbol, float]) -> list[float]:
        logits = tensor([[[model.logit(0, l, a) for a in range(size)] for l in range(size)]], values)
        net, x, _ = instance(model, values)
        return gradient(output(logits, x @ net.W_V[0].mean(0))[0], logits)

    return compare(model.field, model.leaves, claimed, autograd)


@claim(
    "D.3",
    "The gradient with respect to a logit",
    source="Appendix D, logit gradient",
    kind="identity",
    depends_on=["D.1"],
    inputs=[value(logit_gradient)],
)
def gradient_of_logits(formula: LogitFormula) -> Proof:
    r"""$\frac{\partial F_j}{\partial z_{la}} = s_{la}(\langle \bar w_{V,j},x^{(a)}\rangle - \sum_b s_{lb}\langle \bar w_{V,j},x^{(b)}\rangle)$;
    for $L=2$ this is $\pm s_{l1}s_{l2}\langle \bar w_{V,j}, x^{(1)}-x^{(2)}\rangle$, + for $a=1$.

    Conditions: none.
    Measured: the numerator of (SymPy's derivative of Eq. (1) with free logits − the formula); 0 proves, an exact point disproves.
    Made finite: nothing; L = 2, 3 in full, general L lumped into $R = \sum_{c\neq a}E_c$, $U = \sum_{c\neq a}E_c u_c$.
    Source: Appendix D, logit gradient.
    """
    model = free_logits(2)
    first = model.field.diff(model.output(0, 1), model.logit(0, 0, 0))
    return prove_identity(
        _logit_cases(formula),
        lambda: [*(_logit_by_torch(formula.term, size) for size in SIZES), _logit_by_torch(formula.pair, 2)],
        paper=formula.latex,
        derivative=(r"\frac{\partial F_1}{\partial z_{11}}\Big|_{L=2}", sp.factor(first)),
    )


gradient_of_logits.control("sign reversed")(flipped)
gradient_of_logits.control("factor 2")(doubled)


@gradient_of_logits.control("index swapped: s_al for s_la")
def _(formula: LogitFormula) -> Formula:
    return formula.mutated(lambda term, t, l, a: t.s(a, l) * (t.u(a) - t.mean(l)))


@gradient_of_logits.control("two patches: the sign of the second logit")
def _(formula: LogitFormula) -> LogitFormula:
    pair = formula.pair
    return replace(formula, pair=lambda t, l, a: pair(t, l, 0))
