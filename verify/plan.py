"""What a run will do: which claims in which regimes, and the trials that serve them all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from verify.claim.claim import Claim
from verify.errors import RegimeError
from verify.regime import SUITE_REGIMES, Regime, get, preset_names

SUITES = {"default": SUITE_REGIMES[:2], "full": SUITE_REGIMES}


@dataclass(frozen=True)
class Task:
    """One unit of work: the trial `seed` of a group, judged for `claims`. A group is a regime's hash, or a regime-free claim."""

    group: str
    regime: Regime | None
    claims: tuple[str, ...]
    root: int
    seed: int


@dataclass(frozen=True)
class Plan:
    """What a run will do: pairs (claim, regime), regime-free claims, and the tasks that serve them.

    `command` is the call that asks for the same record.
    """

    claims: tuple[Claim, ...]
    regimes: tuple[Regime, ...]
    cells: tuple[tuple[Claim, Regime], ...]
    free: tuple[Claim, ...]
    tasks: tuple[Task, ...]
    seeds: int
    root: int
    command: str = ""


@dataclass
class _Group:
    """A regime with the claims that need its trials, each up to some number of seeds."""

    regime: Regime
    need: dict[str, int] = field(default_factory=dict)

    def tasks(self, root: int) -> list[Task]:
        last = max(self.need.values())
        return [Task(self.regime.hash, self.regime, tuple(c for c, n in self.need.items() if s < n), root, s) for s in range(last)]


def free_group(claim: Claim) -> str:
    """The group of an identity or inequality."""
    return f"claim {claim.id}"


def plan(
    claims: Sequence[Claim],
    regimes: Sequence[Regime],
    seeds: int,
    root: int,
    *,
    homes: bool = True,
    settings: Mapping[str, Any] | None = None,
    command: str = "",
) -> Plan:
    """Lay out a run. With `homes`, claims that declare home regimes are judged there instead of in `regimes`.

    `settings` are parameters changed in every regime (not in the rungs of scaling claims, which are part of the claim).

    A regime is simulated once per trial, whatever asks for it: cells and the rungs of scaling claims share trials.

    Raises:
        RegimeError: if two regimes share a name, or one has the name of a preset but not its parameters.
    """
    cells: list[tuple[Claim, Regime]] = []
    free: list[Claim] = []
    groups: dict[str, _Group] = {}
    singles: list[Task] = []
    used: dict[str, Regime] = {}
    changed = lambda regime: regime.change(**settings) if settings else regime  # noqa: E731
    for regime in regimes:
        _distinct(changed(regime), used)
    chosen = list(used.values())

    def ask(claim: Claim, regime: Regime, trials: int) -> None:
        need = groups.setdefault(regime.hash, _Group(regime)).need
        need[claim.id] = max(trials, need.get(claim.id, 0))

    for claim in claims:
        if claim.regime_free:
            free.append(claim)
            for rung in claim.rungs:
                ask(claim, rung, claim.trials_per_rung)
            if not claim.rungs:
                singles.append(Task(free_group(claim), None, (claim.id,), root, 0))
            continue
        for regime in [changed(get(name)) for name in claim.home] if homes and claim.home else chosen:
            _distinct(regime, used)
            cells.append((claim, regime))
            if claim.undefined(regime) is None:
                ask(claim, regime, seeds)
    return Plan(tuple(claims), tuple(used.values()), tuple(cells), tuple(free), _ordered(groups, singles, root), seeds, root, command)


def _distinct(regime: Regime, used: dict[str, Regime]) -> None:
    known = used.setdefault(regime.name, regime)
    if known.hash != regime.hash:
        raise RegimeError(f"two regimes are called {regime.name!r} but differ; give each file a name of its own (`name = ...`)")
    if regime.name in preset_names() and get(regime.name).hash != regime.hash:
        raise RegimeError(f"regime {regime.name!r} has the name of a preset but other parameters; give it another name")


def _ordered(groups: dict[str, _Group], singles: list[Task], root: int) -> tuple[Task, ...]:
    """First one trial of every regime, so that each kernel is compiled once and not by all workers; proofs early, since they are long."""
    trials = [group.tasks(root) for group in groups.values()]
    return (*(t[0] for t in trials), *singles, *(task for t in trials for task in t[1:]))


def suite_claims(claims: Sequence[Claim], suite: str) -> list[Claim]:
    """The claims of a suite: the full one has all of them."""
    return [c for c in claims if suite == "full" or c.suite == "default"]


def suite_regimes(name: str) -> list[Regime]:
    """The regimes of a suite."""
    return [get(r) for r in SUITES[name]]
