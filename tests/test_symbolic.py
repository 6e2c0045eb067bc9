"""The decision procedure, ball arithmetic and the torch column of verify.symbolic."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from pathlib import Path

import pytest
import sympy as sp
from flint import arb

import verify.symbolic
from verify import VerifyError
from verify.symbolic import (
    Case,
    Field,
    NotRational,
    SoftmaxRow,
    all_of,
    any_of,
    at_most,
    ball_of,
    compare,
    decide,
    decide_all,
    disjoint_model,
    equal,
    evaluate,
    exact,
    interval,
    less,
    positive_on,
    precision,
    prove_identity,
    sign,
    support_of,
    symbolic_model,
    taylor_coefficient,
    vanishes,
)

X, Y = sp.symbols("x y", real=True)


def test_a_true_identity_is_proved_and_a_false_one_disproved_at_an_exact_point():
    field = Field()
    assert decide((X + Y) ** 2 / (X + Y), X + Y, field).proved is True
    wrong = decide((X + Y) ** 2, X**2 + Y**2, field)
    assert wrong.proved is False
    # The witness is the point itself: reading it back, the two sides differ by 2xy ≠ 0.
    point = {k: Fraction(v) for k, v in (part.split("=") for part in wrong.witness.removeprefix("at ").split(":")[0].split(", "))}
    assert (
        f"gives {point['x'] ** 2 + point['y'] ** 2}, the derivative of the forward pass {(point['x'] + point['y']) ** 2}" in wrong.witness
    )


def test_exponentials_with_related_exponents_never_disprove_falsely():
    field = Field()
    e = field.exponential("E", X)
    assert field.exponential("E2", 2 * X) == e**2  # the field sees the relation ...
    hidden = Field()
    a, b, c = hidden.exponential("A", X + Y), hidden.exponential("B", X), hidden.exponential("C", Y)  # ... here it does not:
    assert decide(a, b * c, hidden).proved is None  # true but unseen: UNPROVEN, not DISPROVED
    assert decide(a, 2 * b * c, hidden).proved is False  # false: certified at E = e^z
    assert "E = e^z" in decide(a, 2 * b * c, hidden).witness


def test_what_is_not_rational_stays_unproven():
    field = Field()
    assert decide(sp.sin(X) ** 2 + sp.cos(X) ** 2, sp.Integer(1), field).proved is None
    assert "not rational" in decide(sp.log(X), X, field).step
    with pytest.raises(NotRational, match="sqrt"):
        evaluate(sp.sqrt(2) * X, {X: Fraction(1)}, Fraction)


def test_signs_are_compared_up_to_a_positive_factor_only():
    field = Field()
    scale = sp.Symbol("n", positive=True)
    assert decide(X / scale, 2 * X, field, up_to=1 / scale).proved is True
    assert decide(X / scale, -X, field, up_to=1 / scale).proved is False
    # x and x³ have equal signs everywhere, but not through one constant: neither provable this way nor refutable.
    assert decide(X, X**3, field, up_to=sp.Integer(1)).proved is None


def test_labels_square_to_one():
    field = Field()
    y = field.label("y")
    assert vanishes(y**3 * X - y * X, field)
    assert not vanishes(y * X - X, field)
    assert decide(y * X, X, field).proved is False


def test_denominators_need_not_be_linear():
    field = Field()
    a = 1 / (X**2 + Y**2) - 1 / (X**2 - Y**2)
    assert decide(a, -2 * Y**2 / (X**4 - Y**4), field).proved is True
    assert decide(1 / (1 + 1 / (1 + Y**2)), (1 + Y**2) / (2 + Y**2), field).proved is True


def test_the_derivation_agrees_with_sympys_own():
    # d/dx of e^x/(e^x + e^{xy}) by sympy on exp(·) itself, compared at a point.
    field = Field()
    e, f = field.exponential("E", X), field.exponential("F", X * Y)
    ours = field.diff(e / (e + f), X)
    theirs = sp.diff(sp.exp(X) / (sp.exp(X) + sp.exp(X * Y)), X).subs({X: sp.Rational(1, 3), Y: sp.Rational(-2, 5)})
    values = field.floats({X: 1 / 3, Y: -0.4, e: 0.0, f: 0.0})
    assert evaluate(ours, values, float) == pytest.approx(float(theirs), rel=1e-13)


def test_every_logit_of_its_own_makes_a_rational_point_a_true_one():
    row = SoftmaxRow(3)
    assert not row.field.tied(set(row.e))
    model = symbolic_model(2)
    assert model.field.tied(set(model.e[0][0]) | set(model.w_q[0]))


def test_an_undecided_case_does_not_hide_a_later_disproof():
    field = Field()
    unknown, false = Case("unknown", sp.log(X), X, field), Case("false", X, -X, field)
    decision, steps = decide_all([unknown, false, Case("not reached", X, X, field)])
    assert decision.proved is False
    assert decision.witness.startswith("false")
    assert len(steps) == 2
    assert decide_all([unknown, Case("true", X, X, field)])[0].proved is None
    assert decide_all([])[0].proved is None


def test_a_proof_does_not_stand_when_torch_disagrees():
    row = SoftmaxRow(2)
    case = Case("∂s_1/∂z_1", row.field.diff(row.s[0], row.z[0]), row.s[0] * row.s[1], row.field)

    def column(factor: float):
        derivative = lambda v: [factor * v[row.e[0]] * v[row.e[1]] / (v[row.e[0]] + v[row.e[1]]) ** 2]  # noqa: E731
        return prove_identity(
            [case],
            lambda: [compare(row.field, row.z, [case.claimed], derivative)],
            paper="s_1s_2",
            derivative=("s_1'", case.derived),
        )

    assert column(1.0).proved is True
    spoiled = column(1 + 1e-6)
    assert spoiled.proved is None
    assert "torch disagrees" in spoiled.steps[-1]


def test_small_gradients_of_the_wrong_sign_are_seen():
    # gradcheck's default atol passes a flipped gradient of size 1e-6; the comparison is relative to the gradient's own scale.
    field = Field()
    found = compare(field, [X], [sp.Rational(1, 10**7) * X], lambda v: [-1e-7 * v[X]])
    assert not found.agrees
    assert found.error == pytest.approx(2.0)
    assert found.signs == 0


def test_comparisons_are_three_valued():
    third, wide = exact(Fraction(1, 3)), interval(Fraction(0), Fraction(1))
    assert less(wide, third) is None
    assert at_most(wide, third) is None
    assert equal(third, wide) is None
    assert sign(wide) is None
    assert less(third, exact(Fraction(1, 2))) is True
    assert less(exact(Fraction(1, 2)), third) is False
    assert at_most(exact(Fraction(1)), exact(Fraction(1))) is True
    assert at_most(exact(Fraction(1)), third) is False
    assert equal(exact(Fraction(1, 2)), exact(Fraction(1, 2))) is True
    assert equal(exact(Fraction(1, 2)), third) is False
    assert (sign(-third), sign(arb(0)), sign(third)) == (-1, 0, 1)
    assert (wide < third, wide >= third) == (False, False)  # what flint alone would say of the same pair


def test_kleene_connectives():
    assert (all_of(True, None), all_of(None, False), all_of(True, True)) == (None, False, True)
    assert (any_of(False, None), any_of(None, True), any_of(False, False)) == (None, True, False)


def test_positivity_on_an_interval():
    assert positive_on(lambda x: x * x - x + 1, Fraction(-1), Fraction(2)).truth is True  # minimum 3/4
    refuted = positive_on(lambda x: x * x - 1, Fraction(0), Fraction(2))
    assert refuted.truth is False
    assert refuted.where is not None
    assert refuted.where[0] ** 2 <= 1
    # x² touches 0 inside (-1, 2) at a point that bisection never hits: undecidable by balls.
    assert positive_on(lambda x: x * x, Fraction(-1), Fraction(2), budget=200).truth is None


def test_constants_and_taylor_coefficients_are_enclosed():
    with precision(100):
        ball = ball_of(sp.sqrt(2 / sp.pi) + sp.exp(sp.Rational(1, 2)))
        assert abs(float(ball.mid()) - (math.sqrt(2 / math.pi) + math.exp(0.5))) < 1e-15
        # (e^x)'''/3! on [0, 1] lies in [1/6, e/6].
        third = taylor_coefficient(lambda s: s.exp(), interval(Fraction(0), Fraction(1)), 3)
        assert third.contains(exact(Fraction(1, 6)))
        assert third.contains(arb(1).exp() / 6)
    with pytest.raises(VerifyError, match="no ball"):
        ball_of(X)


def test_the_loss_derivative_is_g():
    # -∂L_S/∂f_i = y_i g_i / n with g_i = 1/(1 + e^{y_i f_i}), with f a symbol.
    field = Field()
    y, f = field.label("y"), sp.Symbol("f", real=True)
    b = field.exponential("B", -y * f)
    g = 1 / (1 + 1 / b)
    assert decide(-field.diff(sp.log(1 + b), f), y * g, field).proved is True
    assert decide(-field.diff(sp.log(1 + b), f), g, field).proved is False


def test_the_disjoint_model_is_definition_2_1():
    model = disjoint_model()
    supports = [set(support_of(i)) for i in range(2)]
    assert not supports[0] & supports[1]
    assert 0 not in supports[0] | supports[1]
    for i in range(2):
        signal, noise = model.x[i] if i == 0 else reversed(model.x[i])
        assert list(signal) == [model.y[i], *[0] * 4]
        assert {c for c, entry in enumerate(noise) if entry != 0} == supports[i]


def test_points_are_exact_positive_where_required_and_reproducible():
    model = symbolic_model(2)
    symbols = model.leaves | set(model.e[0][0])
    first, again = (model.field.point(symbols, random.Random(3)) for _ in range(2))
    assert first == again
    assert all(first[e] > 0 for e in model.e[0][0])
    assert all(isinstance(v, Fraction) for v in first.values())
    assert first[model.y[0]] ** 2 == 1


def test_no_verdict_leans_on_simplify():
    sources = [*Path(verify.symbolic.__file__).parent.glob("*.py"), *Path(verify.__file__).parents[1].glob("lemmas/*.py")]
    assert not [p.name for p in sources if "simplify(" in p.read_text() or "simplify as" in p.read_text()]
