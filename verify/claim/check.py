"""What a claim's check returns: a Check (one trial or one law), a Proof (identity, analytic) or a Fit (exponent)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray


@dataclass(frozen=True)
class Witness:
    """Where a check was tightest or failed: time, neuron, sample (None where there is no such axis)."""

    tau: float | None = None
    s: int | None = None
    i: int | None = None


@dataclass(frozen=True)
class Check:
    """Outcome of one trial.

    Attributes:
        holds: whether the statement held in this trial, in the regime's form (all pairs, or a share >= 1-p).
        margin: decides `holds` (> 0 holds; 0 and below is a violation): a slack ratio, or the smallest signed value.
        share: share of pairs (neurons, samples, times) that satisfy the statement.
        worst: margin of the worst pair, whatever the form; `all_hold` says whether every pair holds.
        witness: where `worst` was attained.
        occurred: whether the claim's conditioning event (or pair class) occurred; if not, the trial is not counted.
        numeric: text of a numeric flag (NaN, lost sign), or "".
        tightness: measured / bound, where that makes sense.
        curve: (tau, margin of the worst pair at tau).
        detail: further numbers shown beside the verdict.
        undecided: for laws only: the trials do not suffice to say either.
    """

    holds: bool
    margin: float
    share: float = 1.0
    worst: float = float("nan")
    all_hold: bool = True
    witness: Witness = field(default_factory=Witness)
    occurred: bool = True
    numeric: str = ""
    tightness: float | None = None
    curve: tuple[NDArray[Any], NDArray[Any]] | None = None
    detail: dict[str, Any] = field(default_factory=dict)
    undecided: bool = False

    def __post_init__(self) -> None:
        if self.occurred and not self.numeric and math.isnan(self.margin):
            object.__setattr__(self, "numeric", "margin is NaN")


NOT_OCCURRED = Check(holds=True, margin=float("nan"), occurred=False)


@dataclass(frozen=True)
class Proof:
    """Outcome of an identity or inequality: proved True, disproved False, undecided None.

    `witness` is an exact point at which the statement fails; `steps` tells what was decided and how.
    """

    proved: bool | None
    witness: str = ""
    steps: tuple[str, ...] = ()
    detail: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Fit:
    """A fitted exponent (or ratio): estimate and 99 % interval against theory +- tolerance."""

    estimate: float
    low: float
    high: float
    theory: float
    tolerance: float = 0.1
    points: tuple[tuple[float, float, float], ...] = ()
    """(x, median measured value, predicted value) per rung, for the plot."""
    detail: dict[str, Any] = field(default_factory=dict)
