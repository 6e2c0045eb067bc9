"""Claim: one numbered statement of the paper as an executable, refutable object. Also the registry of all claims."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from verify.claim import verdict as v
from verify.constants import DELTA
from verify.errors import UnknownClaim
from verify.regime import SUITE_REGIMES, Regime

Kind = Literal["identity", "analytic", "probabilistic", "dynamics", "scaling", "experiment"]
KINDS: tuple[Kind, ...] = ("identity", "analytic", "probabilistic", "dynamics", "scaling", "experiment")


@dataclass(frozen=True)
class Input:
    """A recipe for one argument of a check.

    kind "trajectory": the trial's trajectory, by `simulator` (None: the regime's own) in the regime with `change` applied.
    kind "start": only the initial draws. kind "custom": `make(regime, root, trial)`. kind "value": `make()`, regime-free.
    """

    kind: Literal["trajectory", "start", "custom", "value"] = "trajectory"
    simulator: str | None = None
    change: tuple[tuple[str, Any], ...] = ()
    make: Callable[..., Any] | None = None


TRAJECTORY = Input()
START = Input("start")


def trajectory(simulator: str | None = None, **change: Any) -> Input:
    """A trajectory by another simulator and/or in a changed regime."""
    return Input("trajectory", simulator, tuple(sorted(change.items())))


def custom(make: Callable[[Regime, int, int], Any]) -> Input:
    """Any input drawn from (regime, root seed, trial)."""
    return Input("custom", make=make)


def value(make: Callable[[], Any]) -> Input:
    """An input that needs no regime (identities: the paper's formula)."""
    return Input("value", make=make)


@dataclass(frozen=True)
class Control:
    """A planted lie: maps the claim's inputs to false ones; the claim's own check must say no. A truth must be supported.

    `regime` is where it is planted (None: the claim's control regime). A control of a scaling claim maps the measured value
    `(rung, value)`, taken in `rungs` if it has any in place of the claim's; of an identity, the paper's formula.
    """

    name: str
    change: Callable[..., Any]
    regime: str | None = None
    truth: bool = False
    rungs: tuple[Regime, ...] = ()


def two_patches(regime: Regime) -> str | None:
    """Where a statement makes no sense unless its claim says otherwise: it speaks of one signal and one noise patch."""
    return None if regime.L == 2 else f"the statement is about one signal and one noise patch, L = 2 (given L = {regime.L})"


def any_context(regime: Regime) -> str | None:
    """For statements that make sense in longer contexts too, read there for the noise patch of the largest 1-norm."""
    return None


@dataclass
class Claim:
    """One statement. Built by `@claim(...)`; see `verify.claim.claim.claim` for the meaning of the fields."""

    ids: tuple[str, ...]
    title: str
    source: str
    kind: Kind
    function: Callable[..., Any]
    conditions: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()
    units: str = "slack ratio"
    constants: dict[str, Any] = field(default_factory=dict)
    expected: dict[str, tuple[str, str]] = field(default_factory=dict)
    inputs: tuple[Input, ...] = (TRAJECTORY,)
    over: Literal["trial", "law"] = "trial"
    home: tuple[str, ...] = ()
    rungs: tuple[Regime, ...] = ()
    trials_per_rung: int = 8
    suite: Literal["default", "full"] = "default"
    bound: Callable[[Regime], float] = lambda regime: DELTA
    exact: Callable[[Regime], float | None] = lambda regime: None
    undefined: Callable[[Regime], str | None] = two_patches
    trivial: Callable[[Regime], str | None] = lambda regime: None
    control_regime: str | None = None
    controls: list[Control] = field(default_factory=list)
    measure: Callable[..., Any] | None = None

    @property
    def id(self) -> str:
        """The first label."""
        return self.ids[0]

    @property
    def regime_free(self) -> bool:
        """Identities, inequalities and exponents are judged once, not per regime."""
        return self.kind in ("identity", "analytic") or bool(self.rungs)

    @property
    def parts(self) -> dict[str, str]:
        """The docstring's parts: statement, conditions, measured, made_finite, source."""
        return docstring_parts(self.function)

    @property
    def statement(self) -> str:
        """LaTeX statement."""
        return self.parts["statement"]

    @property
    def location(self) -> str:
        """module:line of the check."""
        code = inspect.unwrap(self.function).__code__
        return f"{self.function.__module__.replace('.', '/')}.py:{code.co_firstlineno}"

    def expects(self, regime: Regime | None) -> tuple[str, str] | None:
        """Declared (verdict, reason); the default is SUPPORTED or PROVED in the regimes of the suites and at home, None elsewhere."""
        name = regime.name if regime else "*"
        if name in self.expected:
            return self.expected[name]
        if regime is not None and name not in (*SUITE_REGIMES, *self.home):
            return None
        return (v.PROVED if self.kind in ("identity", "analytic") else v.SUPPORTED, "")

    def __call__(self, *inputs: Any) -> Any:
        return self.function(*inputs)

    def control(
        self, name: str, *, regime: str | None = None, rungs: Sequence[Regime] = ()
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Register a planted lie: the decorated function maps the inputs, never the predicate."""
        return self._plant(name, regime, tuple(rungs))

    def truth(
        self, name: str, *, regime: str | None = None, rungs: Sequence[Regime] = ()
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Register a changed input for which a claim that is refuted everywhere must come out SUPPORTED."""
        return self._plant(name, regime, tuple(rungs), truth=True)

    def measures(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Register the per-trial measurement of a law."""
        self.measure = function
        return function

    def _plant(
        self, name: str, regime: str | None, rungs: tuple[Regime, ...] = (), truth: bool = False
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def register(change: Callable[..., Any]) -> Callable[..., Any]:
            self.controls.append(Control(name, change, regime, truth, rungs))
            return change

        return register


_HEADINGS = {"Conditions": "conditions", "Measured": "measured", "Made finite": "made_finite", "Source": "source"}


def docstring_parts(function: Callable[..., Any]) -> dict[str, str]:
    """Split a claim's docstring at its headings 'Conditions:', 'Measured:', 'Made finite:', 'Source:'."""
    text = inspect.cleandoc(function.__doc__ or "")
    parts = {"statement": ""} | dict.fromkeys(_HEADINGS.values(), "")
    current = "statement"
    for line in text.splitlines():
        match = re.match(r"(Conditions|Measured|Made finite|Source):\s*(.*)", line)
        if match:
            current, line = _HEADINGS[match[1]], match[2]
        parts[current] = f"{parts[current]} {line.strip()}".strip()
    return parts


_REGISTRY: dict[str, Claim] = {}


def claim(
    ids: str | Sequence[str], title: str, *, source: str, kind: Kind = "dynamics", **fields: Any
) -> Callable[[Callable[..., Any]], Claim]:
    """Register the decorated check as a claim.

    Args:
        ids: the paper's label, or several where one object carries several labels.
        title: a short sentence. source: where the paper states it.
        kind: identity | analytic | probabilistic | dynamics | scaling | experiment.
        conditions: ids of the parts of Condition 3.1 it leans on. depends_on: ids its proof uses.
        units, constants: what the margin counts, and the constants that this project chose.
        expected: {regime: (verdict, reason)} where it is not SUPPORTED / PROVED; "*" for regime-free claims.
        inputs: recipes of the check's arguments. over: "trial", or "law" (once over all trials' measures).
        home: regimes it is judged in when none are asked for (default: those of the suite).
        rungs, trials_per_rung: the regimes of a scaling claim.
        bound(regime): allowed violation probability. exact(regime): exact violation probability, or None.
        undefined(regime): why the statement makes no sense there, or None (default: where L > 2; see `any_context`).
        trivial(regime): why the stated bound says nothing there (an interval that contains all values), or None.
    """

    def register(function: Callable[..., Any]) -> Claim:
        labels = (ids,) if isinstance(ids, str) else tuple(ids)
        for key in ("conditions", "depends_on", "inputs", "home", "rungs"):
            if key in fields:
                fields[key] = tuple(fields[key])
        made = Claim(labels, title, source, kind, function, **fields)
        for label in labels:
            if label in _REGISTRY:
                raise ValueError(f"claim {label} is registered twice")
            _REGISTRY[label] = made
        return made

    return register


def all_claims() -> list[Claim]:
    """Every registered claim once, in order of registration."""
    _load()
    return list({id(c): c for c in _REGISTRY.values()}.values())


def find(name: str) -> Claim:
    """The claim with this label.

    Raises:
        UnknownClaim: naming the closest labels.
    """
    import difflib

    _load()
    if name in _REGISTRY:
        return _REGISTRY[name]
    near = difflib.get_close_matches(name, list(_REGISTRY), 4, 0.3)
    raise UnknownClaim(f"unknown claim {name!r}; did you mean {', '.join(near) or 'one of `verify list`'}? See `verify list`")


def labels() -> list[str]:
    """Every registered label."""
    _load()
    return list(_REGISTRY)


def select(names: Iterable[str]) -> list[Claim]:
    """The claims with these labels (all claims if there are none), each once."""
    names = list(names)
    if not names:
        return all_claims()
    return list({id(c): c for c in map(find, names)}.values())


def _load() -> None:
    import importlib

    importlib.import_module("lemmas")
