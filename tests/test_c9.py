"""C.9: the proof, part by part, and the constants that break it."""

from __future__ import annotations

import math
import re

import pytest
import sympy as sp

from lemmas import half_normal
from lemmas.half_normal import SmallBall, small_ball
from verify.judge import judge_free


def test_the_bound_is_proved():
    proof = judge_free(small_ball)
    assert proof.proved is True, proof.steps
    assert len(proof.steps) == 5


@pytest.mark.parametrize("control", small_ball.controls, ids=lambda c: c.name)
def test_a_changed_constant_is_disproved_with_a_point(control):
    proof = judge_free(small_ball, control)
    assert proof.proved is False
    assert re.search(r"=\s?\d+/\d+", proof.witness)


def test_the_witness_against_39_over_40_is_true():
    proof = small_ball(SmallBall(rate=sp.Rational(39, 10) / sp.pi))
    top, bottom = map(int, re.match(r"x = (\d+)/(\d+)", proof.witness).groups())  # type: ignore[union-attr]
    x = top / bottom
    assert math.erf(x) ** 2 > 1 - math.exp(-3.9 / math.pi * x * x) + 1e-6


def test_a_weaker_bound_is_proved_too():
    assert small_ball(SmallBall(rate=5 / sp.pi)).proved is True
    assert small_ball(SmallBall(slope=sp.Integer(1))).proved is True


def test_a_bound_too_close_to_call_is_neither():
    # rate = 4/π − 10⁻⁹ fails only for x < 10⁻⁴: no grid point sees it, and no series coefficient lets it pass.
    close = SmallBall(rate=4 / sp.pi - sp.Rational(1, 10**9))
    assert small_ball(close).proved is None


def test_the_series_has_its_first_term_at_order_four():
    # By hand: 1−e^{−4x²/π} = 4x²/π − 8x⁴/π² + …, erf² = 4x²/π − 8x⁴/(3π) + …: the gap starts with 8(1/(3π) − 1/π²) x⁴ > 0, as π > 3.
    part = half_normal.near_zero(SmallBall())
    assert part.truth is True
    assert "x^4" in part.text
    assert 8 * (1 / (3 * math.pi) - 1 / math.pi**2) > 0


def test_the_parts_fail_where_they_should():
    weak = SmallBall(rate=sp.Rational(1))
    assert half_normal.middle(weak).truth is False  # erf(x)² > 1 − e^{−x²} at moderate x
    assert half_normal.tail(weak).truth is None  # the Mills ratio needs rate > 1
    assert half_normal.mills_ratio().truth is True
    assert half_normal.density(SmallBall(argument=sp.Integer(1))).truth is False
    assert half_normal.chord(SmallBall(slope=sp.Rational(1, 2))).truth is False
    assert half_normal.counterexample(SmallBall()) is None
