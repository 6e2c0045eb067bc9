"""Appendix D, the SignGD updates of the weights (D.6, D.7) and the projected forms (10)-(13) that they induce on disjoint supports."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import sympy as sp

from lemmas.gradients import SIZES, Formula, entries, lumps, total, value_gradient
from lemmas.gradients_attention import key_gradient, query_gradient
from verify import Proof, claim, value
from verify.symbolic import (
    Agreement,
    Case,
    Field,
    SymbolicModel,
    Terms,
    compare,
    disjoint_model,
    dot,
    gradient,
    instance,
    model_terms,
    prove_identity,
    support_of,
    symbolic_model,
)

SAMPLES = 2
ETA = sp.Symbol("\\eta", positive=True)


@dataclass(frozen=True)
class Update(Formula):
    """W ← W + step·sgn(Σ_i Σ_{l,a} term(terms_i, l, a, c)): the direction up to a positive factor, and the step."""

    step: sp.Expr = ETA


def doubled_step(update: Update) -> Update:
    """A step of 2η. (A factor of 2 inside the sign would change nothing, and is proved like the formula itself.)"""
    return replace(update, step=2 * update.step)


def reversed_direction(update: Update) -> Update:
    """Ascent instead of descent."""
    return replace(update, term=lambda *at: -sp.sympify(update.term(*at)))


def _direction(update: Update, model: SymbolicModel, neuron: int, j: int | None, c: int) -> sp.Expr:
    samples = (model_terms(model, i, neuron, j, loss=True) for i in range(model.shape.n))
    return sp.Add(*(total(update, terms, model.shape.patches, c) for terms in samples))


def _step(update: Update) -> Case:
    return Case("the step", ETA, update.step, Field())


def value_update() -> Update:
    """The paper's D.6."""
    inner = value_gradient().term
    return Update(
        r"w_{V,j,r}^{(t+1)} = w_{V,j,r}^{(t)} + \eta\operatorname{sgn}\left(j\sum_i g_i y_i \sum_{l,a} s_{i,la}x_i^{(a)}\right)",
        lambda t, l, a, c: t.j * t.g * t.y * inner(t, l, a, c) * t.m_v,
    )


def _value_cases(update: Update) -> Iterator[Case]:
    yield _step(update)
    for size in SIZES:
        model = symbolic_model(size, SAMPLES)
        for j in (1, -1):
            for _, c, w in entries(model.w_v[j]):
                derived = -model.field.diff(model.loss, w)
                factor = sp.Rational(1, SAMPLES * model.shape.m_v)
                yield Case(f"L={size}, n={SAMPLES}, −∂L_S/∂{w}", derived, _direction(update, model, 0, j, c), model.field, factor)
    for name, lump in lumps():
        derived = -lump.field.diff(lump.loss, lump.w_v)
        yield Case(f"{name}, general n", derived, update.term(lump.terms(), lump.l, lump.a, 0), lump.field, 1 / (lump.n * lump.m_v))


def _loss_by_torch(size: int, claimed: list[sp.Expr], leaf: str, model: SymbolicModel | None = None) -> Agreement:
    """−∂L_S/∂leaf by autograd against the directions `claimed`, entry by entry, up to one positive factor."""
    model = model or symbolic_model(size, SAMPLES)

    def autograd(values: dict[sp.Symbol, float]) -> list[float]:
        net, x, y = instance(model, values)
        return gradient(-net.loss(x, y), getattr(net, leaf))

    return compare(model.field, model.leaves, claimed, autograd, up_to_scale=True)


def _values_by_torch(update: Update, size: int) -> Agreement:
    model = symbolic_model(size, SAMPLES)
    claimed = [_direction(update, model, 0, j, c) for j in (1, -1) for _, c, _ in entries(model.w_v[j])]
    return _loss_by_torch(size, claimed, "W_V")


@claim(
    "D.6",
    "The SignGD update of the value weights",
    source="Appendix D, value update",
    kind="identity",
    depends_on=["D.2"],
    inputs=[value(value_update)],
)
def update_of_values(update: Update) -> Proof:
    r"""$w_{V,j,r}^{(t+1)} = w_{V,j,r}^{(t)} + \eta\operatorname{sgn}(j\sum_i g_i y_i \sum_{l,a} s_{i,la}x_i^{(a)})$: the same for all $r$,
    opposite for $j=\pm 1$.

    Conditions: none; $g_i = 1/(1+e^{y_i f_i})$ is derived with the rest, from $B_i = e^{-y_i f_i}$ as $B_i/(1+B_i)$.
    Measured: the numerator of (−∂L_S/∂w − κ·direction) with one positive κ; 0 proves, a point with opposite signs disproves.
    Made finite: nothing; L = 2, 3 with n = 2 in full, general L, n, $m_v$ by lumping. The formula holds no r, and j only as a factor.
    Source: Appendix D, value update.
    """
    lump = lumps()[0][1]
    return prove_identity(
        _value_cases(update),
        lambda: [_values_by_torch(update, size) for size in SIZES],
        paper=update.latex,
        derivative=(r"-\frac{\partial}{\partial w_{V,c}}\frac{\log(1+B)}{n}", -lump.field.diff(lump.loss, lump.w_v)),
    )


update_of_values.control("ascent")(reversed_direction)
update_of_values.control("factor 2: a step of 2η")(doubled_step)


@update_of_values.control("j left out")
def _(update: Update) -> Update:
    return replace(update, term=lambda t, l, a, c: t.j * update.term(t, l, a, c))


@update_of_values.control("y_i left out")
def _(update: Update) -> Update:
    return replace(update, term=lambda t, l, a, c: t.y * update.term(t, l, a, c))


@update_of_values.control("index swapped: the query's patch")
def _(update: Update) -> Update:
    return replace(update, term=lambda t, l, a, c: t.j * t.g * t.y * t.s(l, a) * t.x(l, c))


# --- D.7 ---------------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Inner:
    """Per sample and neuron, the quantities of the projected forms: a_i, b_i, Q_{s,i}, K_{s,i} (label folded in), q_s, k_s."""

    a: sp.Expr
    b: sp.Expr
    query_noise: sp.Expr
    key_noise: sp.Expr
    query_signal: sp.Expr
    key_signal: sp.Expr


Bracket = Callable[[Inner], sp.Expr]


@dataclass(frozen=True)
class AttentionUpdates:
    """D.7: both updates, and the brackets of (10)-(13): the sum over i of `signals`, and `noises` per sample."""

    latex: str
    query: Update
    key: Update
    query_signal: Bracket
    query_noise: Bracket
    key_signal: Bracket
    key_noise: Bracket


def attention_updates() -> AttentionUpdates:
    """The paper's D.7 and (10)-(13), with a_i = g_i (V_i−V_μ) s_{i,11}s_{i,12} and b_i = g_i (V_i−V_μ) s_{i,21}s_{i,22}."""
    query, key = query_gradient(), key_gradient()
    return AttentionUpdates(
        latex=r"w_{Q,s} \leftarrow w_{Q,s} + \eta\operatorname{sgn}\left(\sum_i g_i y_i \frac{\partial f_i}{\partial w_{Q,s}}\right),\;"
        r"\Delta q_s = \eta\operatorname{sgn}\sum_i a_i(K_{s,i}-k_s),\;"
        r"\Delta Q_{s,i} = \eta\|\xi_i\|_1\operatorname{sgn}(b_i(K_{s,i}-k_s)),\;"
        r"\Delta k_s = \eta\operatorname{sgn}\left(-\sum_i(a_iq_s+b_iQ_{s,i})\right),\;"
        r"\Delta K_{s,i} = \eta\|\xi_i\|_1\operatorname{sgn}(a_iq_s+b_iQ_{s,i})",
        query=Update(query.latex, lambda t, l, a, c: t.g * t.y * query.term(t, l, a, c)),
        key=Update(key.latex, lambda t, l, a, c: t.g * t.y * key.term(t, l, a, c)),
        query_signal=lambda p: p.a * (p.key_noise - p.key_signal),
        query_noise=lambda p: p.b * (p.key_noise - p.key_signal),
        key_signal=lambda p: -(p.a * p.query_signal + p.b * p.query_noise),
        key_noise=lambda p: p.a * p.query_signal + p.b * p.query_noise,
    )


def _attention_cases(updates: AttentionUpdates) -> Iterator[Case]:
    for update in (updates.query, updates.key):
        yield _step(update)
    for size in SIZES:
        model = symbolic_model(size, SAMPLES)
        for update, weights in ((updates.query, model.w_q), (updates.key, model.w_k)):
            for s, c, w in entries(weights):
                derived = -model.field.diff(model.loss, w)
                name = f"L={size}, n={SAMPLES}, −∂L_S/∂{w}"
                yield Case(name, derived, _direction(update, model, s, None, c), model.field, sp.Rational(1, SAMPLES))
        if size == 2:
            yield from _projected_cases(updates)
    for name, lump in lumps():
        for update, w in ((updates.query, lump.w_q), (updates.key, lump.w_k)):
            terms = _with_output_sign(lump.terms())
            yield Case(
                f"{name}, general n, {w}", -lump.field.diff(lump.loss, w), update.term(terms, lump.l, lump.a, 0), lump.field, 1 / lump.n
            )


def _with_output_sign(terms: Terms) -> Terms:
    """The lumped row is one of F_j: f contains it with factor j, which v = w̄_1 − w̄_{−1} carries in the paper's formula."""
    return replace(terms, u=lambda q: terms.j * terms.u(q), mean=lambda p: terms.j * terms.mean(p))


def _inner(model: SymbolicModel, i: int, s: int) -> Inner:
    signal = 0 if i == 0 else 1  # position of the signal patch in `disjoint_model`
    noise, y = 1 - signal, model.y[i]
    xi, mu = model.x[i][noise], [sp.Integer(1)] + [sp.Integer(0)] * (model.shape.d - 1)
    v, w_q, w_k = model.v(), model.w_q[s], model.w_k[s]
    common = model.g(i) * (y * dot(v, xi) - dot(v, mu))
    return Inner(
        a=common * model.softmax(i, signal, signal) * model.softmax(i, signal, noise),
        b=common * model.softmax(i, noise, signal) * model.softmax(i, noise, noise),
        query_noise=y * dot(w_q, xi),
        key_noise=y * dot(w_k, xi),
        query_signal=dot(w_q, mu),
        key_signal=dot(w_k, mu),
    )


def _projected(updates: AttentionUpdates, model: SymbolicModel) -> Iterator[tuple[str, sp.Symbol, sp.Expr]]:
    """(name, weight, n·(−∂L_S/∂weight) by the projected forms).

    On a coordinate c of ξ_i the gradient is bracket_i · y_iξ_{i,c}; hence ⟨sgn(gradient), y_iξ_i⟩ = Σ_c sgn(bracket_i)|ξ_{i,c}| =
    ‖ξ_i‖_1 sgn(bracket_i), which is (11) and (13). On coordinate 1 it is the sum of the brackets: (10) and (12).
    """
    for s in range(model.shape.m_k):
        inner = [_inner(model, i, s) for i in range(model.shape.n)]
        for signal, noise, label, weights in (
            (updates.query_signal, updates.query_noise, ("(10)", "(11)"), model.w_q[s]),
            (updates.key_signal, updates.key_noise, ("(12)", "(13)"), model.w_k[s]),
        ):
            yield label[0], weights[0], sp.Add(*(signal(p) for p in inner))
            for i, p in enumerate(inner):
                noise_patch = model.x[i][1 if i == 0 else 0]
                for c in support_of(i):
                    yield label[1], weights[c], noise(p) * model.y[i] * noise_patch[c]


def _projected_cases(updates: AttentionUpdates) -> Iterator[Case]:
    model = disjoint_model()
    for name, w, claimed in _projected(updates, model):
        yield Case(f"{name}, −∂L_S/∂{w}", -model.field.diff(model.loss, w), claimed, model.field, sp.Rational(1, SAMPLES))


def _attention_by_torch(updates: AttentionUpdates) -> Iterator[Agreement]:
    for size in SIZES:
        model = symbolic_model(size, SAMPLES)
        for update, which in ((updates.query, "w_q"), (updates.key, "w_k")):
            claimed = [_direction(update, model, s, None, c) for s, c, _ in entries(getattr(model, which))]
            yield _loss_by_torch(size, claimed, which.upper())
    model = disjoint_model()
    by_weight = {w: claimed for _, w, claimed in _projected(updates, model)}
    for which in ("w_q", "w_k"):
        claimed = [by_weight[w] for _, _, w in entries(getattr(model, which))]
        yield _loss_by_torch(2, claimed, which.upper(), model)


@claim(
    "D.7",
    "The SignGD updates of the query and key weights",
    source="Appendix D, query and key updates; (10)-(13)",
    kind="identity",
    depends_on=["D.4", "D.5"],
    inputs=[value(attention_updates)],
)
def update_of_attention(updates: AttentionUpdates) -> Proof:
    r"""$w_{Q,s} \leftarrow w_{Q,s} + \eta\operatorname{sgn}(\sum_i g_iy_i\,\partial f_i/\partial w_{Q,s})$ with D.4, the same for
    $w_{K,s}$ with D.5; and on disjoint supports, for $L=2$, (10) $\Delta q_s = \eta\operatorname{sgn}\sum_i a_i(K_{s,i}-k_s)$, (11)
    $\Delta Q_{s,i} = \eta\|\xi_i\|_1\operatorname{sgn}(b_i(K_{s,i}-k_s))$, (12) $\Delta k_s = \eta\operatorname{sgn}(-\sum_i(a_iq_s+b_iQ_{s,i}))$,
    (13) $\Delta K_{s,i} = \eta\|\xi_i\|_1\operatorname{sgn}(a_iq_s+b_iQ_{s,i})$.

    Conditions: (10)-(13) need disjoint noise supports without coordinate 1.
    Measured: the numerator of (−∂L_S/∂w − κ·direction) with one positive κ; 0 proves, a point with opposite signs disproves.
    Made finite: nothing; L = 2, 3 with n = 2 in full, general L, n and widths by lumping; (10)-(13) with n = 2, two symbols per support, $m_k=2$.
    Source: Appendix D, query and key updates.
    """
    lump = lumps()[0][1]
    return prove_identity(
        _attention_cases(updates),
        lambda: list(_attention_by_torch(updates)),
        paper=updates.latex,
        derivative=(r"-\frac{\partial}{\partial w_{Q,c}}\frac{\log(1+B)}{n}", -lump.field.diff(lump.loss, lump.w_q)),
    )


@update_of_attention.control("query: ascent")
def _(updates: AttentionUpdates) -> AttentionUpdates:
    return replace(updates, query=reversed_direction(updates.query))


@update_of_attention.control("key: factor 2, a step of 2η")
def _(updates: AttentionUpdates) -> AttentionUpdates:
    return replace(updates, key=doubled_step(updates.key))


@update_of_attention.control("query: index swapped, the key's patch")
def _(updates: AttentionUpdates) -> AttentionUpdates:
    term = query_gradient().term
    return replace(
        updates, query=replace(updates.query, term=lambda t, l, a, c: t.g * t.y * term(replace(t, x=lambda _, k: t.x(a, k)), l, a, c))
    )


@update_of_attention.control("(10): index swapped, b_i for a_i")
def _(updates: AttentionUpdates) -> AttentionUpdates:
    return replace(updates, query_signal=lambda p: updates.query_signal(replace(p, a=p.b)))


@update_of_attention.control("(11): sgn(Q − K) in place of K − k")
def _(updates: AttentionUpdates) -> AttentionUpdates:
    return replace(updates, query_noise=lambda p: p.b * (p.query_noise - p.key_noise))


@update_of_attention.control("(12): sign reversed")
def _(updates: AttentionUpdates) -> AttentionUpdates:
    return replace(updates, key_signal=lambda p: -updates.key_signal(p))


@update_of_attention.control("(13): factor 2 on the signal's part")
def _(updates: AttentionUpdates) -> AttentionUpdates:
    return replace(updates, key_noise=lambda p: 2 * p.a * p.query_signal + p.b * p.query_noise)
