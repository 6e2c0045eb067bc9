"""Ball arithmetic with three-valued comparisons (True, False, None = undecided), and inequalities proved on intervals with it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction

import sympy as sp
from flint import arb, arb_series, ctx, fmpq

from verify.errors import VerifyError

Truth = bool | None
"""True and False are certified; None: the balls overlap, nothing is known."""


def less(x: arb, y: arb) -> Truth:
    """x < y. (flint's own `<` is False both when refuted and when undecided.)"""
    x, y = arb(x), arb(y)
    if x < y:
        return True
    return False if x >= y else None


def at_most(x: arb, y: arb) -> Truth:
    """x <= y."""
    x, y = arb(x), arb(y)
    if x <= y:
        return True
    return False if x > y else None


def equal(x: arb, y: arb) -> Truth:
    """x = y: True only for exact balls."""
    x, y = arb(x), arb(y)
    if x.is_exact() and y.is_exact():
        return bool(x == y)
    return None if x.overlaps(y) else False


def sign(x: arb) -> int | None:
    """-1, 0 or 1; None where the ball does not decide."""
    x = arb(x)
    if x > 0:
        return 1
    if x < 0:
        return -1
    return 0 if x.is_zero() else None


def all_of(*truths: Truth) -> Truth:
    """Kleene's and: False if any is False, else undecided if any is."""
    if False in truths:
        return False
    return None if None in truths else True


def any_of(*truths: Truth) -> Truth:
    """Kleene's or."""
    if True in truths:
        return True
    return None if None in truths else False


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Work with `bits` bits inside the block."""
    old, ctx.prec = ctx.prec, bits
    try:
        yield
    finally:
        ctx.prec = old


def interval(low: Fraction, high: Fraction) -> arb:
    """A ball that contains [low, high]."""
    return exact(low).union(exact(high))


def exact(q: Fraction) -> arb:
    """The ball of one rational number."""
    return arb(fmpq(q.numerator, q.denominator))


def ball_of(constant: sp.Basic) -> arb:
    """A ball containing a closed-form constant: rationals, π, exp, sums, products and powers of such.

    Raises:
        VerifyError: on anything else.
    """
    if isinstance(constant, sp.Rational):
        return exact(Fraction(int(constant.p), int(constant.q)))
    if constant == sp.pi:
        return arb.pi()
    parts = [ball_of(a) for a in constant.args] if isinstance(constant, (sp.Add, sp.Mul, sp.Pow)) else []
    if isinstance(constant, sp.Pow):
        return parts[0] ** parts[1]
    if parts:
        return sum(parts[1:], parts[0]) if isinstance(constant, sp.Add) else math.prod(parts[1:], start=parts[0])
    if constant.func == sp.exp:
        return ball_of(constant.args[0]).exp()
    raise VerifyError(f"no ball for {constant}: give a constant built from rationals, pi, exp and powers")


@dataclass(frozen=True)
class Covering:
    """Outcome of `positive_on`: truth, the witness x if refuted (or the interval that stayed undecided), the boxes used."""

    truth: Truth
    where: tuple[Fraction, Fraction] | None
    boxes: int


def positive_on(f: Callable[[arb], arb], low: Fraction, high: Fraction, *, budget: int = 20_000) -> Covering:
    """Decide f > 0 on [low, high] by bisection into boxes on which the ball of f is certified.

    Args:
        f: maps a ball of arguments to a ball that contains all values there.
        budget: boxes; past it the truth is undecided.
    """
    stack, boxes = [(low, high)], 0
    while stack:
        a, b = stack.pop()
        boxes += 1
        if f(interval(a, b)) > 0:
            continue
        middle = (a + b) / 2
        if f(exact(middle)) <= 0:
            return Covering(False, (middle, middle), boxes)
        if boxes >= budget:
            return Covering(None, (a, b), boxes)
        stack += [(middle, b), (a, middle)]
    return Covering(True, None, boxes)


def taylor_coefficient(f: Callable[[arb_series], arb_series], x: arb, order: int) -> arb:
    """A ball containing f^(order)(t)/order! for all t in the ball x: the remainder of Taylor-Lagrange."""
    return arb(f(arb_series([x, 1], prec=order + 1))[order])
