"""Where does a claim stop being true? Bisection along one parameter, a Sobol map over two, under an anytime-valid oracle."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from verify import condition
from verify.claim.claim import Claim
from verify.errors import RegimeError
from verify.judge import Trial, judge_trial
from verify.regime import Regime
from verify.stats.eprocess import EProcess

CAP = 200
"""Most trials per point; 111 without a violation support, 5 of 5 violations refute."""
RESOLUTION = 1 / 64
"""Bisection stops when the band is narrower than this share of the range."""


@dataclass(frozen=True)
class Axis:
    """One varied key: `key=lo:hi[:log]`; whole-number parameters are rounded."""

    key: str
    low: float
    high: float
    log: bool = False

    @property
    def integer(self) -> bool:
        """Whether the parameter is a whole number."""
        return "int" in str(Regime.__annotations__[self.key])

    def value(self, u: float) -> float | int:
        """The parameter at position u in [0, 1]."""
        x = self.low * (self.high / self.low) ** u if self.log else self.low + (self.high - self.low) * u
        return round(x) if self.integer else x

    def position(self, x: float) -> float:
        """Inverse of `value` (before rounding)."""
        return math.log(x / self.low) / math.log(self.high / self.low) if self.log else (x - self.low) / (self.high - self.low)


def parse_axis(text: str) -> Axis:
    """Read `key=lo:hi` or `key=lo:hi:log`.

    Raises:
        RegimeError: if it is neither, the key is no numeric parameter, or the range is empty.
    """
    key, _, rest = text.partition("=")
    parts = rest.split(":")
    numeric = [k for k, kind in Regime.__annotations__.items() if str(kind) in ("int", "float", "int | str")]
    if key not in numeric or len(parts) not in (2, 3) or (len(parts) == 3 and parts[2] != "log"):
        raise RegimeError(f"--vary {text!r}: want key=lo:hi or key=lo:hi:log with a key of {', '.join(numeric)}")
    try:
        low, high = float(parts[0]), float(parts[1])
    except ValueError:
        raise RegimeError(f"--vary {text!r}: {parts[0]!r} and {parts[1]!r} must be numbers") from None
    log = len(parts) == 3
    if not (math.isfinite(low) and math.isfinite(high) and low < high) or (log and low <= 0):
        raise RegimeError(f"--vary {text!r}: want lo < hi, both finite{', lo > 0' if log else ''}")
    return Axis(key, low, high, log)


@dataclass
class Point:
    """One judged point: where, the verdict, and the counts behind it. `reason` says why it is undecided or was not run."""

    values: dict[str, float | int]
    verdict: str
    n: int
    violations: int
    reason: str = ""


@dataclass
class Budget:
    """What a probe or a matrix may spend: trials in all, and seconds of the clock; `spent` trials so far (kept ones cost nothing)."""

    trials: int = 4000
    seconds: float = 600.0
    spent: int = 0
    began: float = field(default_factory=time.monotonic)

    def left(self) -> str:
        """Why no further trial may be run, or ""."""
        if self.spent >= self.trials:
            return f"the budget of {self.trials} trials is spent"
        if time.monotonic() - self.began >= self.seconds:
            return f"the budget of {self.seconds:g} seconds is spent"
        return ""


Oracle = Callable[[dict[str, float | int], int], bool | None]
"""(values, trial) -> whether the claim holds in that trial; None where its event did not occur."""


def claim_oracle(claim: Claim, base: Regime, root: int) -> Oracle:
    """The claim's own check on its own trajectories, in `base` with the values changed."""

    def oracle(values: dict[str, float | int], trial: int) -> bool | None:
        record = judge_trial(claim, Trial(base.change(**values), root, trial))
        if "error" in record or "not_run" in record:
            raise RegimeError(record.get("error") or record["not_run"])
        return bool(record["holds"]) and not record.get("numeric") if record.get("occurred", True) else None

    return oracle


def judge_point(oracle: Oracle, values: dict[str, float | int], delta: float, budget: Budget, cap: int = CAP) -> Point:
    """Trials at one point until the e-process decides, the cap is reached, or the budget is spent."""
    stream = EProcess(delta)
    for trial in range(cap):
        if reason := budget.left():
            return Point(values, stream.verdict, stream.n, stream.violations, reason)
        budget.spent += 1
        try:
            holds = oracle(values, trial)
        except RegimeError as error:
            return Point(values, "NOT RUN", stream.n, stream.violations, str(error))
        if holds is not None and stream.add(holds) != "INCONCLUSIVE":
            return Point(values, stream.verdict, stream.n, stream.violations)
    return Point(values, stream.verdict, stream.n, stream.violations, f"undecided after the cap of {cap} trials")


@dataclass
class Boundary:
    """What a probe found: between `last` (still like the first end) and `first` (already like the other end) lies the boundary."""

    axis: Axis
    points: list[Point]
    estimate: float | None
    interval: tuple[float, float] | None
    reason: str


def bisect(
    oracle: Oracle, axis: Axis, delta: float, budget: Budget, *, cap: int = CAP, progress: Callable[[Point], None] | None = None
) -> Boundary:
    """Find where the verdict changes along one axis.

    Each end of the band is bisected on its own, so that the band in which the verdict stays INCONCLUSIVE is itself located.
    """
    points: dict[float | int, Point] = {}

    def at(u: float) -> Point:
        x = axis.value(u)
        if x not in points:
            points[x] = judge_point(oracle, {axis.key: x}, delta, budget, cap)
            if progress:
                progress(points[x])
        return points[x]

    def done(reason: str, estimate: float | None = None, interval: tuple[float, float] | None = None) -> Boundary:
        return Boundary(axis, [points[x] for x in sorted(points)], estimate, interval, reason)

    ends = at(0.0), at(1.0)
    decided = {"SUPPORTED", "REFUTED"}
    for end, name in zip(ends, ("lower", "upper"), strict=True):
        if end.verdict not in decided:
            return done(f"the {name} end is {end.verdict}: {end.reason}")
    if ends[0].verdict == ends[1].verdict:
        return done(f"{ends[0].verdict} at both ends: no boundary was found between them")
    left, right = 0.0, 1.0
    doubt: list[float] = []
    while right - left > RESOLUTION and not doubt and not budget.left():
        middle = (left + right) / 2
        verdict = at(middle).verdict
        if verdict == ends[0].verdict:
            left = middle
        elif verdict == ends[1].verdict:
            right = middle
        else:
            doubt.append(middle)
        if axis.integer and axis.value(right) == axis.value(left) + 1:
            break
    if doubt:
        left = _edge(at, left, doubt[0], ends[0].verdict, budget)
        right = _edge(at, right, doubt[0], ends[1].verdict, budget)
    interval = float(axis.value(left)), float(axis.value(right))
    return done(budget.left(), float(axis.value((left + right) / 2)), interval)


def _edge(at: Callable[[float], Point], sure: float, doubt: float, verdict: str, budget: Budget) -> float:
    while abs(doubt - sure) > RESOLUTION and not budget.left():
        middle = (sure + doubt) / 2
        sure, doubt = (middle, doubt) if at(middle).verdict == verdict else (sure, middle)
    return sure


def sobol_map(
    oracle: Oracle,
    axes: Sequence[Axis],
    delta: float,
    budget: Budget,
    *,
    points: int = 64,
    seed: int = 0,
    cap: int = CAP,
    progress: Callable[[Point], None] | None = None,
) -> list[Point]:
    """Judge a scrambled Sobol set of points over two axes, until the budget is spent."""
    from scipy.stats import qmc

    sampler = qmc.Sobol(len(axes), scramble=True, rng=seed)
    out: list[Point] = []
    for u in sampler.random_base2(max(1, math.ceil(math.log2(points)))):
        if budget.left():
            break
        values = {axis.key: axis.value(float(x)) for axis, x in zip(axes, u, strict=True)}
        out.append(judge_point(oracle, values, delta, budget, cap))
        if progress:
            progress(out[-1])
    return out


def theory_boundary(base: Regime, axis: Axis) -> list[dict[str, Any]]:
    """Where along the axis each inequality of Condition 3.1 that leans on the key has slack 0 (none if it has no zero there)."""
    found = []
    for part in condition.PARTS:
        try:
            slack = [part.slack(base.change(**{axis.key: axis.value(u)})) for u in (0.0, 1.0)]
        except RegimeError:
            continue
        if not all(map(math.isfinite, slack)) or slack[0] * slack[1] >= 0:
            continue
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            same = part.slack(base.change(**{axis.key: axis.value(middle)})) * slack[0] > 0
            low, high = (middle, high) if same else (low, middle)
        found.append({"part": part.id, "clause": part.clause, "value": float(axis.value((low + high) / 2))})
    return found


def in_words(boundary: Boundary, theory: Sequence[dict[str, Any]]) -> str:
    """The gap between the measured and the theory's own boundary in one sentence."""
    if boundary.estimate is None or boundary.interval is None:
        return boundary.reason
    lo, hi = boundary.interval
    if boundary.reason:
        return f"{boundary.reason}; the boundary lies in {boundary.axis.key} = [{lo:.4g}, {hi:.4g}], inside which nothing was decided"
    first = next(p.verdict for p in boundary.points)
    side = "up to" if first == "SUPPORTED" else "down to"
    edge = lo if first == "SUPPORTED" else hi
    text = f"holds {side} {boundary.axis.key} = {edge:.4g} (boundary in [{lo:.4g}, {hi:.4g}])"
    for t in theory:
        text += f"; that is {edge / t['value']:.3g} × the bound of {t['clause']} ({t['part']}, {boundary.axis.key} = {t['value']:.4g})"
    return text
