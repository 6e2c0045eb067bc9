"""A gradient identity as a Proof with its three columns: the paper's formula, SymPy's derivative, torch autograd."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import sympy as sp

from verify.claim.check import Proof
from verify.symbolic.autograd import Agreement
from verify.symbolic.decide import Case, decide_all


def prove_identity(
    cases: Iterable[Case], column: Callable[[], Sequence[Agreement]], *, paper: str, derivative: tuple[str, sp.Basic]
) -> Proof:
    """Decide all cases; a proof stands only if torch agrees with the paper's formula on random instances.

    Args:
        cases: lazily formed; the first that is not proved ends the decision.
        column: the torch comparisons, run when SymPy has decided.
        paper: the formula in LaTeX. derivative: what is differentiated (LaTeX) and SymPy's result for one case.
    """
    decision, steps = decide_all(cases)
    agreements = column()
    agrees = bool(agreements) and all(a.agrees for a in agreements)
    detail = {
        "paper": paper,
        "sympy": f"{derivative[0]} = {sp.latex(derivative[1])}",
        "torch": [a.text for a in agreements],
        "torch_agrees": agrees,
        "torch_error": max((a.error for a in agreements), default=None),
        "cases": steps,
    }
    proved = decision.proved
    if proved and not agrees:
        proved = None
    lines = (
        decision.step,
        *detail["torch"],
        *(("torch disagrees with the formula: not counted as proved",) if decision.proved and not agrees else ()),
    )
    return Proof(proved, decision.witness, lines, detail)
