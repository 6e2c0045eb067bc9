"""Rational functions of symbols and of exponentials of them: the field in which every gradient of the model is derived."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, cast

import numpy as np
import sympy as sp
from flint import arb

from verify.errors import VerifyError
from verify.symbolic.balls import exact

_ENTRIES = [Fraction(sign * k, 4) for sign in (-1, 1) for k in (1, 2, 3, 4, 6, 8)]
_POSITIVE = [Fraction(1, 3), Fraction(1, 2), Fraction(1), Fraction(3, 2), Fraction(2), Fraction(3)]


class Field:
    """Symbols, labels (y² = 1) and exponentials E = e^z > 0, with the derivation dE = E dz.

    Exponentials are symbols *from the start*: replacing exp(·) by symbols after differentiation would make exp(2z) and exp(z)
    unrelated. `exponential` returns a power of a declared symbol where the exponent is an integer multiple of a declared one; relations
    it does not see cannot hurt: `decide` never disproves on the rational point alone, it also evaluates at E = e^z in balls.
    """

    def __init__(self) -> None:
        self.exponents: dict[sp.Symbol, sp.Expr] = {}
        self.labels: set[sp.Symbol] = set()
        self._partials: dict[tuple[sp.Expr, sp.Symbol], sp.Expr] = {}

    def exponential(self, name: str, exponent: sp.Expr) -> sp.Expr:
        """e^exponent as a new positive symbol `name`, or as a power of one that is declared already."""
        for known, z in self.exponents.items():
            ratio = sp.cancel(exponent / z) if exponent.free_symbols == z.free_symbols else None
            if ratio is not None and ratio.is_Integer:
                return known**ratio
        symbol = sp.Symbol(name, positive=True)
        self.exponents[symbol] = exponent
        return symbol

    def label(self, name: str) -> sp.Symbol:
        """A symbol that takes the values +1 and -1 only."""
        symbol = sp.Symbol(name, real=True)
        self.labels.add(symbol)
        return symbol

    def diff(self, expr: sp.Expr, x: sp.Symbol) -> sp.Expr:
        """d expr / dx, through the exponentials: ∂/∂x + Σ_E (dz_E/dx) E ∂/∂E."""
        terms = [self._partial(expr, x)]
        for symbol in sorted(symbols_of(expr) & self.exponents.keys(), key=str):
            inner = self.diff(self.exponents[symbol], x)
            if inner != 0:
                terms.append(symbol * self._partial(expr, symbol) * inner)
        return sp.Add(*terms)

    def _partial(self, expr: sp.Expr, x: sp.Symbol) -> sp.Expr:
        key = (expr, x)
        if key not in self._partials:
            self._partials[key] = sp.diff(expr, x)
        return self._partials[key]

    def point(self, symbols: set[sp.Symbol], rng: random.Random) -> dict[sp.Symbol, Fraction]:
        """A random exact point for `symbols` and for all that their exponents contain; exponentials and positive symbols are > 0."""
        values: dict[sp.Symbol, Fraction] = {}
        for symbol in sorted(self.closure(symbols), key=str):
            if symbol in self.labels:
                values[symbol] = Fraction(rng.choice((-1, 1)))
            else:
                values[symbol] = rng.choice(_POSITIVE if symbol.is_positive else _ENTRIES)
        return values

    def closure(self, symbols: set[sp.Symbol]) -> set[sp.Symbol]:
        """`symbols` with all that their exponents contain."""
        found: set[sp.Symbol] = set()
        queue = list(symbols)
        while queue:
            symbol = queue.pop()
            if symbol not in found:
                found.add(symbol)
                queue += symbols_of(self.exponents[symbol]) if symbol in self.exponents else ()
        return found

    def tied(self, symbols: set[sp.Symbol]) -> bool:
        """Whether the value of an exponential in `symbols` is fixed by other symbols.

        If not (every exponent is a logit of its own), each rational point with E > 0 is attained by the logits z = log E.
        """
        logits = [self.exponents[s] for s in symbols if s in self.exponents]
        free = all(z.is_Symbol for z in logits) and len(set(logits)) == len(logits)
        return not (free and not set(logits) & symbols)

    def on_graph(self, values: Mapping[sp.Symbol, Any], lift: Callable[[Any], Any], exp: Callable[[Any], Any]) -> dict[sp.Symbol, Any]:
        """`values` lifted (to balls or floats), every exponential replaced by exp of its exponent there."""
        lifted = {s: lift(v) for s, v in values.items() if s not in self.exponents}
        for symbol, z in self.exponents.items():  # in the order of declaration: an exponent uses earlier symbols only
            if symbol in values:
                lifted[symbol] = exp(evaluate(z, lifted, lift))
        return lifted

    def balls(self, values: Mapping[sp.Symbol, Fraction]) -> dict[sp.Symbol, arb]:
        """The point as certified balls with E = e^z."""
        return self.on_graph(values, exact, lambda z: z.exp())

    def floats(self, values: Mapping[sp.Symbol, Any]) -> dict[sp.Symbol, Any]:
        """The point (or an array of points per symbol) in float64 with E = e^z, inf past float64's range."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self.on_graph(values, lambda v: v if isinstance(v, np.ndarray) else float(v), np.exp)


def symbols_of(*expressions: sp.Expr) -> set[sp.Symbol]:
    """The symbols that occur in any of them."""
    return cast("set[sp.Symbol]", set().union(*(e.free_symbols for e in expressions)))


class NotRational(VerifyError):
    """The expression contains a function that no rational form can express."""


def evaluate(
    expr: sp.Expr, values: Mapping[sp.Symbol, Any], lift: Callable[[Fraction], Any], memo: dict[sp.Basic, Any] | None = None
) -> Any:
    """The value of a rational expression in any ring with +, * and /.

    Args:
        values: of every symbol. lift: takes a Fraction into the ring.
        memo: values of subexpressions, shared by expressions that are evaluated at one point.

    Raises:
        NotRational: on functions, other powers than integers, and symbols without a value.
        ZeroDivisionError: on a pole.
    """
    memo = {} if memo is None else memo

    def walk(node: sp.Basic) -> Any:
        if node in memo:
            return memo[node]
        if node.is_Rational:
            result = lift(Fraction(int(node.p), int(node.q)))  # type: ignore[attr-defined]
        elif node in values:
            result = values[node]  # type: ignore[index]
        elif isinstance(node, sp.Add):
            result = sum_of([walk(a) for a in node.args])
        elif isinstance(node, sp.Mul):
            first, *rest = (walk(a) for a in node.args)
            result = first
            for factor in rest:
                result = result * factor
        elif isinstance(node, sp.Pow) and node.exp.is_Integer:
            base, power = walk(node.base), int(node.exp)  # type: ignore[arg-type]
            result = base**power if power >= 0 else lift(Fraction(1)) / base**-power
        else:
            raise NotRational(f"{node} is not rational; give its value as a symbol of the field (Field.exponential for e^z)")
        memo[node] = result
        return result

    return walk(sp.sympify(expr))


def sum_of(terms: list[Any]) -> Any:
    """Their sum; a ring may bring its own n-ary sum (common denominators are formed once)."""
    total = getattr(terms[0], "total", None)
    return total(terms) if total else sum(terms[1:], terms[0])
