"""Appendix C, the small-ball bound of a Gaussian (C.9), proved: series at 0, ball arithmetic in the middle, a Mills ratio in the tail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import sympy as sp

from verify import Proof, claim, value
from verify.symbolic import (
    Field,
    Truth,
    all_of,
    at_most,
    ball_of,
    decide,
    equal,
    exact,
    less,
    positive_on,
    precision,
    sign,
    taylor_coefficient,
)

NEAR, FAR = Fraction(3, 16), Fraction(3)
"""The series covers [0, NEAR], balls [NEAR, FAR], the Mills ratio [FAR, ∞)."""
BITS = 128
GRID = [Fraction(k, 16) for k in (1, 2, 4, 8, 12, 16, 20, 24, 32, 48)]
"""Where a counterexample is looked for before a proof is."""
X, PI = sp.Symbol("x", positive=True), sp.pi


@dataclass(frozen=True)
class SmallBall:
    """The constants of C.9, exact: P(|x| ≤ c) = erf(argument·c/σ) ≤ √(1−exp(−rate·(argument·c/σ)²)) and ≤ slope·c/σ."""

    rate: sp.Expr = field(default_factory=lambda: 4 / PI)
    argument: sp.Expr = field(default_factory=lambda: 1 / sp.sqrt(2))
    slope: sp.Expr = field(default_factory=lambda: sp.sqrt(2 / PI))

    @property
    def latex(self) -> str:
        """The statement with these constants."""
        rate, argument, slope = (sp.latex(c) for c in (self.rate, self.argument, self.slope))
        root = rf"\sqrt{{1-\exp\left(-{rate}x^2\right)}}"
        return rf"P(|X|\le c) = \operatorname{{erf}}(x) \le {root},\quad x = {argument}\frac{{c}}{{\sigma}};\quad \le {slope}\frac{{c}}{{\sigma}}"


@dataclass(frozen=True)
class Part:
    """One step of the proof: its truth, how it was decided, and the witness if it is false."""

    truth: Truth
    text: str
    witness: str = ""


def density(constants: SmallBall) -> Part:
    """P(|x| ≤ c) = erf(argument·c/σ): both vanish at c = 0; the derivatives in c are compared."""
    c, s = sp.symbols("c sigma", positive=True)
    gaussian = 2 * sp.exp(-(c**2) / (2 * s**2)) / (s * sp.sqrt(2 * PI))
    ratio = sp.diff(sp.erf(constants.argument * c / s), c) / gaussian
    text = "d/dc erf(κc/σ) is the density of |x| at c, and both sides vanish at c = 0"
    if ratio == 1:
        return Part(True, text)
    with precision(BITS):
        found = ball_of(ratio.subs({c: sp.Rational(1, 2), s: 1}))
        truth = equal(found, exact(Fraction(1)))
    witness = f"at c=1/2, σ=1 the derivative of erf(κc/σ) is {found.str(12)} times the density of |x|" if truth is False else ""
    return Part(truth, text, witness)


def gap(rate: Any) -> Callable[[Any], Any]:
    """h(x) = 1 − exp(−rate·x²) − erf(x)², on balls and on power series."""

    def h(x: Any) -> Any:
        e = x.erf()
        return 1 - (-(x * x) * rate).exp() - e * e

    return h


def counterexample(constants: SmallBall) -> Part | None:
    """A grid point at which h < 0 is certified."""
    with precision(BITS):
        h = gap(ball_of(constants.rate))
        for x in GRID:
            found = h(exact(x))
            if sign(found) == -1:
                e = exact(x).erf()
                text = f"x = {x}: erf(x)² = {(e * e).str(15)} but 1 − exp(−rate·x²) = {(found + e * e).str(15)}, gap {found.str(6)}"
                return Part(False, "a point of the grid", text)
    return None


def near_zero(constants: SmallBall) -> Part:
    """h > 0 on (0, NEAR]: the exact Taylor coefficients at 0 vanish below some order m; that of order m, over all of [0, NEAR], is positive."""
    h = 1 - sp.exp(-constants.rate * X**2) - sp.erf(X) ** 2
    series = sp.Poly(sp.expand(sp.series(h, X, 0, 7).removeO()), X)
    with precision(BITS):
        balls = gap(ball_of(constants.rate))
        for order in range(7):
            coefficient = series.coeff_monomial(X**order)
            if coefficient == 0:
                continue
            covering = positive_on(lambda x, m=order: taylor_coefficient(balls, x, m), Fraction(0), NEAR)
            text = f"series: h = ({sp.latex(coefficient)}) x^{order} + …; h^({order}) > 0 on [0, {NEAR}] in {covering.boxes} boxes"
            return Part(covering.truth or None, text)
    return Part(None, "every Taylor coefficient up to order 6 is 0")


def middle(constants: SmallBall) -> Part:
    """h > 0 on [NEAR, FAR] by bisection into balls."""
    with precision(BITS):
        h = gap(ball_of(constants.rate))
        covering = positive_on(h, NEAR, FAR)
        text = f"balls: [{NEAR}, {FAR}] covered by {covering.boxes} boxes"
        if covering.truth is False and covering.where:
            x = covering.where[0]
            return Part(False, text, f"x = {x}: 1 − exp(−rate·x²) − erf(x)² = {h(exact(x)).str(8)}")
    return Part(covering.truth, text)


def mills_ratio() -> Part:
    """erfc(x) ≥ B(x) := e^{−x²} x/(√π (x²+½)) for x > 0.

    (erfc − B)' = −e^{−x²}/(√π (x²+½)²) < 0 and erfc − B → 0 at infinity; the derivative is an identity of rational functions in
    x and E = e^{−x²}, after division by 1/√π.
    """
    powers = Field()
    e = powers.exponential("E", -(X**2))
    half = sp.Rational(1, 2)
    derived = -2 * e - powers.diff(e * X / (X**2 + half), X)  # √π·(erfc − B)', as erfc' = −2e^{−x²}/√π
    decision = decide(derived, -e / (X**2 + half) ** 2, powers)
    return Part(decision.proved, "tail: (erfc − B)' = −e^{−x²}/(√π(x²+½)²) < 0, so erfc > B = e^{−x²}x/(√π(x²+½))", decision.witness)


def tail(constants: SmallBall) -> Part:
    """h > 0 on [FAR, ∞): 1 − erf² ≥ erfc ≥ B, and φ = log B + rate·x² is positive at FAR and grows from there.

    φ(x) = (rate−1)x² + log x − log(x²+½) − ½log π, φ' = 2(rate−1)x + 1/x − 2x/(x²+½) > 2(rate−1)x − 1/x ≥ 0 once 2(rate−1)x² ≥ 1.
    """
    with precision(BITS):
        excess, x = ball_of(constants.rate) - 1, exact(FAR)
        phi = excess * x * x + x.log() - (x * x + exact(Fraction(1, 2))).log() - ball_of(PI).log() / 2
        truth = all_of(mills_ratio().truth, sign(phi) == 1 or None, at_most(exact(Fraction(1)), 2 * excess * x * x))
        text = f"tail: φ({FAR}) = {phi.str(6)} > 0 and 2(rate−1)·{FAR}² = {(2 * excess * x * x).str(6)} ≥ 1"
    return Part(True if truth else None, text)


def chord(constants: SmallBall) -> Part:
    """erf(κt) ≤ slope·t for t = c/σ ≥ 0: erf is concave on [0, ∞), so its tangent at 0, of slope 2κ/√π, is the least such line."""
    tangent = 2 * constants.argument / sp.sqrt(PI)
    with precision(BITS):
        slope, kappa = ball_of(constants.slope), ball_of(constants.argument)
        tight = sp.expand(constants.slope**2 - tangent**2) == 0  # both are positive
        truth = True if tight else at_most(ball_of(tangent), slope)
        text = f"erf'' = −4x e^{{−x²}}/√π ≤ 0: the tangent at 0 has slope {sp.latex(tangent)}"
        if truth is False:
            for k in range(1, 40):
                t = Fraction(1, 2**k)
                left, right = (kappa * exact(t)).erf(), slope * exact(t)
                if less(right, left):
                    return Part(False, text, f"c/σ = {t}: erf = {left.str(12)} > {right.str(12)}")
            truth = None
    return Part(truth, text)


@claim(
    "C.9",
    "A Gaussian is small with small probability",
    source="Lemma C.9",
    kind="analytic",
    inputs=[value(SmallBall)],
)
def small_ball(constants: SmallBall) -> Proof:
    r"""For $x\sim N(0,\sigma^2)$, $c \ge 0$: $P(|x|\le c) = \operatorname{erf}(\frac{c}{\sqrt{2}\sigma}) \le
    \sqrt{1-\exp(-\frac{2c^2}{\pi\sigma^2})}$, and $P(|x|\le c) \le \sqrt{\frac{2}{\pi}}\frac{c}{\sigma}$.

    Conditions: none.
    Measured: the gap $h(x) = 1-\exp(-\frac{4}{\pi}x^2)-\operatorname{erf}(x)^2$, $x = c/(\sqrt{2}\sigma)$; certified > 0 proves, a point < 0 disproves.
    Made finite: nothing; proved for all x ≥ 0 as series on [0, 3/16], balls on [3/16, 3], Mills ratio beyond (equality at 0 only).
    Source: Lemma C.9.
    """
    parts = [density(constants), chord(constants)]
    found = counterexample(constants)
    if found:
        parts.append(found)
    elif all(part.truth is not False for part in parts):
        parts += [near_zero(constants), middle(constants), tail(constants)]
    truth = all_of(*(part.truth for part in parts))
    witness = next((part.witness for part in parts if part.truth is False), "")
    steps = tuple(part.text if part.truth else f"{part.text}: {'false' if part.truth is False else 'undecided'}" for part in parts)
    return Proof(truth, witness, steps, {"paper": constants.latex})


@small_ball.control("4/π replaced by 3.9/π")
def _(constants: SmallBall) -> SmallBall:
    return replace(constants, rate=sp.Rational(39, 10) / PI)


@small_ball.control("4/π rounded down to 1.27")
def _(constants: SmallBall) -> SmallBall:
    return replace(constants, rate=sp.Rational(127, 100))


@small_ball.control("erf(c/σ), the √2 forgotten")
def _(constants: SmallBall) -> SmallBall:
    return replace(constants, argument=sp.Integer(1))


@small_ball.control("√(2/π) c/σ made 1 % smaller")
def _(constants: SmallBall) -> SmallBall:
    return replace(constants, slope=sp.Rational(99, 100) * constants.slope)
