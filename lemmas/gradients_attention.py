"""Appendix D, the gradients of the query and key weights (D.4, D.5)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import sympy as sp

from lemmas.gradients import SIZES, Formula, doubled, entries, flipped, lumps, total
from verify import Proof, claim, value
from verify.symbolic import (
    Agreement,
    Case,
    Lumped,
    SymbolicModel,
    compare,
    gradient,
    instance,
    model_terms,
    prove_identity,
    symbolic_model,
)


def query_gradient() -> Formula:
    """The paper's D.4: the summand term(terms, l, a, c)."""
    return Formula(
        r"\frac{\partial f}{\partial w_{Q,s}} = \sum_{l,a} s_{la}\left(\langle v,x^{(a)}\rangle - \sum_b s_{lb}\langle v,x^{(b)}\rangle\right)"
        r"\langle w_{K,s},x^{(a)}\rangle x^{(l)}",
        lambda t, l, a, c: t.s(l, a) * (t.u(a) - t.mean(l)) * t.key(a) * t.x(l, c),
    )


def key_gradient() -> Formula:
    """The paper's D.5: the summand term(terms, l, a, c)."""
    return Formula(
        r"\frac{\partial f}{\partial w_{K,s}} = \sum_{l,a} s_{la}\left(\langle v,x^{(a)}\rangle - \sum_b s_{lb}\langle v,x^{(b)}\rangle\right)"
        r"\langle w_{Q,s},x^{(l)}\rangle x^{(a)}",
        lambda t, l, a, c: t.s(l, a) * (t.u(a) - t.mean(l)) * t.query(l) * t.x(a, c),
    )


def _weights(model: SymbolicModel | Lumped, which: str) -> Sequence[Sequence[sp.Symbol]]:
    weights = getattr(model, which)
    return [[weights]] if isinstance(weights, sp.Symbol) else weights


def _attention_cases(formula: Formula, which: str) -> Iterator[Case]:
    for size in SIZES:
        model = symbolic_model(size)
        for s, c, w in entries(_weights(model, which)):
            claimed = total(formula, model_terms(model, neuron=s), size, c)
            yield Case(f"L={size}, ∂f/∂{w}", model.field.diff(model.outputs[0], w), claimed, model.field)
    for name, lump in lumps():
        yield Case(name, _through_logit(lump, which), formula.term(lump.terms(), lump.l, lump.a, 0), lump.field)


def _through_logit(lump: Lumped, which: str) -> sp.Expr:
    return lump.field.diff(lump.row, _weights(lump, which)[0][0])


def _attention_by_torch(formula: Formula, which: str, size: int) -> Agreement:
    model = symbolic_model(size)
    claimed = [total(formula, model_terms(model, neuron=s), size, c) for s, c, _ in entries(_weights(model, which))]

    def autograd(values: dict[sp.Symbol, float]) -> list[float]:
        net, x, _ = instance(model, values)
        return gradient(net(x)[0], getattr(net, which.upper()))

    return compare(model.field, model.leaves, claimed, autograd)


def _prove_attention(formula: Formula, which: str, letter: str) -> Proof:
    return prove_identity(
        _attention_cases(formula, which),
        lambda: [_attention_by_torch(formula, which, size) for size in SIZES],
        paper=formula.latex,
        derivative=(
            rf"\frac{{\partial}}{{\partial w_{{{letter},c}}}}\frac{{E_a u_a + U}}{{E_a + R}}",
            sp.factor(_through_logit(Lumped(same=False), which)),
        ),
    )


@claim(
    "D.4",
    "The gradient of the query weights",
    source="Appendix D, query gradient",
    kind="identity",
    depends_on=["D.3"],
    inputs=[value(query_gradient)],
)
def gradient_of_queries(formula: Formula) -> Proof:
    r"""$\frac{\partial f}{\partial w_{Q,s}} = \sum_{l,a} s_{la}(\langle v,x^{(a)}\rangle - \sum_b s_{lb}\langle v,x^{(b)}\rangle)
    \langle w_{K,s},x^{(a)}\rangle x^{(l)}$.

    Conditions: none.
    Measured: the numerator of (SymPy's derivative of Eq. (1) − the formula); 0 proves, an exact point with another value disproves.
    Made finite: nothing; L = 2, 3 in full, general L, $m_k$, $m_v$ and d by lumping, for $l\neq a$ and $l=a$.
    Source: Appendix D, query gradient.
    """
    return _prove_attention(formula, "w_q", "Q")


@claim(
    "D.5",
    "The gradient of the key weights",
    source="Appendix D, key gradient",
    kind="identity",
    depends_on=["D.3"],
    inputs=[value(key_gradient)],
)
def gradient_of_keys(formula: Formula) -> Proof:
    r"""$\frac{\partial f}{\partial w_{K,s}} = \sum_{l,a} s_{la}(\langle v,x^{(a)}\rangle - \sum_b s_{lb}\langle v,x^{(b)}\rangle)
    \langle w_{Q,s},x^{(l)}\rangle x^{(a)}$.

    Conditions: none.
    Measured: the numerator of (SymPy's derivative of Eq. (1) − the formula); 0 proves, an exact point with another value disproves.
    Made finite: nothing; L = 2, 3 in full, general L, $m_k$, $m_v$ and d by lumping, for $l\neq a$ and $l=a$.
    Source: Appendix D, key gradient.
    """
    return _prove_attention(formula, "w_k", "K")


for _made in (gradient_of_queries, gradient_of_keys):
    _made.control("sign reversed")(flipped)
    _made.control("factor 2")(doubled)


@gradient_of_queries.control("index swapped: the key's patch")
def _(formula: Formula) -> Formula:
    return formula.mutated(lambda term, t, l, a, c: t.s(l, a) * (t.u(a) - t.mean(l)) * t.key(a) * t.x(a, c))


@gradient_of_queries.control("query for key")
def _(formula: Formula) -> Formula:
    return formula.mutated(lambda term, t, l, a, c: t.s(l, a) * (t.u(a) - t.mean(l)) * t.query(a) * t.x(l, c))


@gradient_of_keys.control("index swapped: the query's patch")
def _(formula: Formula) -> Formula:
    return formula.mutated(lambda term, t, l, a, c: t.s(l, a) * (t.u(a) - t.mean(l)) * t.query(l) * t.x(l, c))


@gradient_of_keys.control("key for query")
def _(formula: Formula) -> Formula:
    return formula.mutated(lambda term, t, l, a, c: t.s(l, a) * (t.u(a) - t.mean(l)) * t.key(l) * t.x(a, c))
