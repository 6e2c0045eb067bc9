"""The decision procedure: is one rational expression equal to another? PROVED by a zero numerator, DISPROVED by an exact point."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import sympy as sp
from flint import fmpq, fmpq_mpoly, fmpq_mpoly_ctx

from verify.symbolic.balls import exact, precision, sign
from verify.symbolic.field import Field, NotRational, evaluate, symbols_of

POINTS = 400
"""Exact points that are tried before an identity with a non-zero numerator is left UNPROVEN."""
SCREEN = 2
"""Points that must agree before the numerator is expanded: disproofs cost milliseconds, proofs come after them."""
PRECISION = 256
"""Bits of the balls that certify a witness."""


@dataclass(frozen=True)
class Decision:
    """proved True, disproved False, undecided None; with the witness, and how it was decided."""

    proved: bool | None
    witness: str = ""
    step: str = ""


class Quotient:
    """num / Π factor^power over Q, without gcds: denominators stay factored, so that sums meet on their least common multiple."""

    __slots__ = ("den", "num")

    def __init__(self, num: fmpq_mpoly, den: dict[str, tuple[fmpq_mpoly, int]] | None = None) -> None:
        self.num, self.den = num, den or {}

    def __mul__(self, other: Quotient) -> Quotient:
        den = dict(self.den)
        for key, (factor, power) in other.den.items():
            den[key] = (factor, power + den[key][1]) if key in den else (factor, power)
        return Quotient(self.num * other.num, den)

    def __pow__(self, power: int) -> Quotient:
        return Quotient(self.num**power, {k: (f, p * power) for k, (f, p) in self.den.items() if power})

    def __truediv__(self, other: Quotient) -> Quotient:
        if other.num == 0:
            raise ZeroDivisionError("a denominator is identically zero")
        top = Quotient(self.num, self.den)
        for factor, power in other.den.values():
            top = Quotient(top.num * factor**power, top.den)
        return top * Quotient(*_factored(other.num))

    @staticmethod
    def total(terms: list[Quotient]) -> Quotient:
        """Sum over the least common multiple of the denominators."""
        common: dict[str, tuple[fmpq_mpoly, int]] = {}
        for term in terms:
            for key, (factor, power) in term.den.items():
                if power > common.get(key, (factor, 0))[1]:
                    common[key] = (factor, power)
        num = terms[0].num * 0
        for term in terms:
            piece = term.num
            for key, (factor, power) in common.items():
                missing = power - (term.den[key][1] if key in term.den else 0)
                piece = piece * factor**missing if missing else piece
            num = num + piece
        return Quotient(num, common)


def _factored(poly: fmpq_mpoly) -> tuple[fmpq_mpoly, dict[str, tuple[fmpq_mpoly, int]]]:
    """1/poly as (numerator, denominator factors): monomials split into their variables."""
    context = poly.context()
    terms = poly.to_dict()
    if len(terms) > 1:
        lead = poly.leading_coefficient()
        monic = poly / lead
        return context.constant(1 / lead), {str(monic): (monic, 1)}
    ((powers, coefficient),) = terms.items()
    den = {str(g): (g, int(p)) for g, p in zip(context.gens(), powers, strict=True) if p}
    return context.constant(1 / fmpq(coefficient)), den


def vanishes(expr: sp.Expr, field: Field) -> bool:
    """Whether the numerator of the rational expression expands to 0 (labels: y² = 1).

    Raises:
        NotRational: if the expression is not rational in its symbols.
    """
    symbols = sorted(symbols_of(expr), key=str)
    context = fmpq_mpoly_ctx.get([f"x{k}" for k in range(max(1, len(symbols)))], "lex")
    values = dict(zip(symbols, map(Quotient, context.gens()), strict=False))
    for symbol, rest in _denominators_as_variables(expr).items():
        total = evaluate(rest, values, lambda q: _constant(context, q))
        values[symbol] = Quotient(values[symbol].num - total.num)
    numerator = evaluate(expr, values, lambda q: _constant(context, q)).num
    signs = [k for k, s in enumerate(symbols) if s in field.labels]
    if not signs:
        return numerator == 0
    reduced: dict[tuple[int, ...], Any] = {}
    for powers, coefficient in numerator.to_dict().items():
        key = tuple(p % 2 if k in signs else p for k, p in enumerate(powers))
        reduced[key] = reduced.get(key, 0) + coefficient
    return all(c == 0 for c in reduced.values())


def _constant(context: fmpq_mpoly_ctx, q: Fraction) -> Quotient:
    return Quotient(context.constant(fmpq(q.numerator, q.denominator)))


def _denominators_as_variables(expr: sp.Expr) -> dict[sp.Symbol, sp.Expr]:
    """For denominators T = x + rest, linear in a symbol x of their own: {x: rest}.

    Reading x as T - rest is an invertible change of variables that turns the denominator into one variable, so that bringing a sum
    to its common denominator expands nothing. The last exponential of each softmax row serves as x.
    """
    bases: list[sp.Expr] = [p.base for p in expr.atoms(sp.Pow) if p.exp.is_negative and isinstance(p.base, sp.Add)]
    chosen: dict[sp.Symbol, sp.Expr] = {}
    for base in sorted(set(bases), key=str):
        elsewhere = symbols_of(*(b for b in bases if b != base))
        for symbol in sorted((a for a in base.args if isinstance(a, sp.Symbol)), key=str, reverse=True):
            rest = base - symbol
            if symbol not in elsewhere and symbol not in rest.free_symbols and rest.is_polynomial():
                chosen[symbol] = rest
                break
    return chosen


def decide(derived: sp.Expr, claimed: sp.Expr, field: Field, *, up_to: sp.Expr | None = None, seed: int = 0) -> Decision:
    """Decide derived = claimed as functions of all their symbols.

    Args:
        up_to: a positive expression: then the claim is sgn(derived) = sgn(claimed), proved by derived = ρ·up_to·claimed with one
            rational ρ > 0, disproved by a point at which the signs are opposite.
        seed: of the points.
    """
    derived, claimed = sp.sympify(derived), sp.sympify(claimed)
    question = _Question(derived, claimed, field, up_to)
    rng = random.Random(seed)
    try:
        ratio = question.ratio(rng)
        if ratio is not None and vanishes(derived - sp.Rational(ratio.numerator, ratio.denominator) * question.scale * claimed, field):
            return Decision(True, step="numerator of the difference expands to 0")
        for tried in range(1, POINTS + 1):
            witness = question.counterexample(field.point(question.symbols, rng))
            if witness:
                return Decision(False, witness, f"counterexample at point {tried}")
    except NotRational as error:
        return Decision(None, step=str(error))
    return Decision(None, step=f"the numerator is not 0, but none of {POINTS} exact points is a certified counterexample")


class _Question:
    """The two sides, and how they are compared at a point."""

    def __init__(self, derived: sp.Expr, claimed: sp.Expr, field: Field, up_to: sp.Expr | None) -> None:
        self.sides, self.field, self.signs_only = (derived, claimed), field, up_to is not None
        self.scale: sp.Expr = sp.Integer(1) if up_to is None else up_to
        self.symbols = symbols_of(derived, claimed, self.scale)
        self.tied = field.tied(self.symbols)

    def ratio(self, rng: random.Random) -> Fraction | None:
        """ρ of derived = ρ·scale·claimed if it is one positive number (1 for an equality) at SCREEN exact points; else None.

        Points at which both sides are 0 say nothing about ρ; if all are, ρ = 1 is tried.
        """
        found: Fraction | None = None
        for _ in range(SCREEN):
            values = self._at(self.field.point(self.symbols, rng))
            if values is None:
                continue
            left, right, scale = values
            if right == 0:
                if left != 0:
                    return None
                continue
            here = left / (scale * right)
            if here <= 0 or here != (here if found is None else found) or (not self.signs_only and here != 1):
                return None
            found = here
        return Fraction(1) if found is None else found

    def _at(self, point: dict[sp.Symbol, Fraction]) -> tuple[Fraction, ...] | None:
        memo: dict[sp.Basic, Fraction] = {}
        try:
            return tuple(evaluate(e, point, Fraction, memo) for e in (*self.sides, self.scale))
        except ZeroDivisionError:
            return None

    def counterexample(self, point: dict[sp.Symbol, Fraction]) -> str:
        """The witness as text, or "" if the point is none.

        Where exponentials are tied to other symbols, E = e^z is not rational at a rational point: there the sides are evaluated once
        more in balls, which must be apart. So a relation between exponentials that the field overlooked can never disprove.
        """
        if self.tied and self.signs_only:
            return self._on_graph(point)
        values = self._at(point)
        if values is None or (values[0] * values[1] >= 0 if self.signs_only else values[0] == values[1]):
            return ""
        text = f"at {_shown(point, self.symbols)}: the claimed formula gives {values[1]}, the derivative of the forward pass {values[0]}"
        if not self.tied:
            return text
        graph = self._on_graph(point)
        return f"{text} (E free); and {graph}" if graph else ""

    def _on_graph(self, point: dict[sp.Symbol, Fraction]) -> str:
        if self.signs_only:
            quick, memo = self.field.floats(point), {}
            if not all(map(math.isfinite, quick.values())) or math.prod(evaluate(e, quick, float, memo) for e in self.sides) >= 0:
                return ""
        with precision(PRECISION):
            balls, memo = self.field.balls(point), {}
            left, right = (evaluate(e, balls, exact, memo) for e in self.sides)
            apart = sign(left * right) == -1 if self.signs_only else sign(left - right) in (-1, 1)
            weights = {s for s in point if s not in self.field.exponents}
            text = f"at {_shown(point, weights)} and E = e^z: the claimed formula gives {right.str(12)}, the derivative {left.str(12)}"
        return text if apart else ""


def _shown(point: dict[sp.Symbol, Fraction], symbols: set[sp.Symbol]) -> str:
    return ", ".join(f"{s}={point[s]}" for s in sorted(symbols, key=str))


@dataclass(frozen=True)
class Case:
    """One instance of an identity: SymPy's derivative, the paper's formula, and the field they live in; `up_to` as in `decide`."""

    name: str
    derived: sp.Expr
    claimed: sp.Expr
    field: Field
    up_to: sp.Expr | None = None


def decide_all(cases: Iterable[Case]) -> tuple[Decision, list[str]]:
    """Decide cases in turn, up to the first that is disproved. Returns that decision, else an undecided one, else a proof; and one
    line per case."""
    steps: list[str] = []
    undecided: Decision | None = None
    for case in cases:
        decision = decide(case.derived, case.claimed, case.field, up_to=case.up_to, seed=len(steps))
        steps.append(f"{case.name}: {decision.step}")
        if decision.proved is False:
            return Decision(False, f"{case.name}, {decision.witness}", steps[-1]), steps
        if decision.proved is None:
            undecided = undecided or Decision(None, step=steps[-1])
    if not steps:
        return Decision(None, step="no case was given"), steps
    return undecided or Decision(True, step=f"{len(steps)} cases, each with numerator 0"), steps
