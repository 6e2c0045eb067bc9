"""The necessity matrix: every inequality of Condition 3.1 broken by itself, at a ladder of strengths, under every claim at once.

A trial of a rung is simulated once and judged for all claims that are still undecided there; an e-process per claim and rung may look
after every trial. Trials are handed out in waves, and counted in the order of their seeds, so that the result does not depend on
the number of processes.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verify import store
from verify.claim import verdict as v
from verify.claim.claim import Claim, find
from verify.errors import RecordError
from verify.judge import Trial, judge_trial
from verify.necessity import cells_of
from verify.plan import Task
from verify.pool import execute
from verify.probe import Budget
from verify.stats.eprocess import EProcess, interval
from verify.strengths import DEFAULT_PARTS, Strength, bases, ladders

WAVES = (8, 40, 120, 200)
"""Trials after which decided claims drop out: 5 of 5 violations refute, 111 trials without one support."""
MOST = {"": 200, "dimension": 40, "context": 8}
"""Trials of a base, and of a rung whose part is named; `RUNG` of all others, which keeps a cell below 20 processor seconds."""
RUNG = 120
KEPT = ("holds", "occurred", "numeric", "not_run", "error")


class Spent(Exception):
    """The budget is spent; what is finished is kept."""


@dataclass
class Stream:
    """One claim at one strength: the counts so far, and why nobody looks any further."""

    claim: Claim
    strength: Strength
    root: int
    process: EProcess
    trials: int = 0
    seconds: float = 0.0
    closed: str = ""
    reason: str = ""
    exact: float | None = None

    @property
    def open(self) -> bool:
        """Whether another trial would be counted."""
        return not self.closed

    def add(self, outcome: dict[str, Any], seconds: float) -> None:
        """Count one trial."""
        self.trials += 1
        self.seconds += seconds
        for key, verdict in (("error", v.ERROR), ("not_run", v.NOT_RUN), ("numeric", v.NUMERIC)):
            if outcome.get(key):
                self.closed, self.reason = verdict, outcome[key]
                return
        if outcome["occurred"] and self.process.add(outcome["holds"]) != v.INCONCLUSIVE:
            self.closed = self.process.verdict

    def decide_exactly(self) -> None:
        """A closed form of the violation probability decides, once the counts do not speak against it."""
        exact = self.claim.exact(self.strength.regime)
        if exact is None or not self.open or self.process.n == 0:
            return
        self.exact = exact
        low, high = interval(self.process.violations, self.process.n)
        self.closed = v.SUPPORTED if exact <= self.process.delta else v.REFUTED
        self.reason = f"exact violation probability {exact:.4g}, allowed {self.process.delta:.4g}"
        if not low <= exact <= high:
            self.closed, self.reason = v.ERROR, f"{self.reason}, but {self.process.violations} of {self.process.n} simulated"

    def point(self) -> dict[str, Any]:
        """The record of this stream (see `verify schema matrix`)."""
        verdict = self.closed or v.INCONCLUSIVE
        reason = self.reason
        if verdict == v.INCONCLUSIVE and not reason:
            seen = f", its event occurred in {self.process.n}" if self.process.n < self.trials else ""
            reason = f"undecided after {self.trials} trials{seen} (without a violation 111 support, with one 139)"
        return {
            "factor": self.strength.factor,
            "change": self.strength.words,
            "verdict": verdict,
            "n": self.process.n,
            "violations": self.process.violations,
            "interval": [self.exact] * 2 if self.exact is not None else list(interval(self.process.violations, self.process.n)),
            "reason": reason,
            "command": self.strength.command(self.claim.id, max(self.trials, 1), self.root),
        }


@dataclass(frozen=True)
class _Progress:
    """Reports the trials of one wave on top of those of earlier waves."""

    report: Callable[[int, int], None] | None
    before: int
    size: int

    def at(self, finished: int) -> None:
        if self.report:
            self.report(self.before + finished, self.before + self.size)


def judged(claims: Sequence[Claim]) -> list[Claim]:
    """The claims that the matrix can speak of: judged trial by trial, in the regimes from which it starts."""
    return [c for c in claims if not c.regime_free and c.over == "trial" and not c.home]


def matrix(
    claims: Sequence[Claim],
    *,
    parts: Sequence[str] = (),
    root: int = 0,
    trials: int = 20_000,
    seconds: float = 900.0,
    jobs: int = 1,
    out: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Judge every claim at every strength (of `parts`; none: `DEFAULT_PARTS`) and return the record of `verify schema matrix`.

    Args:
        trials, seconds: budget; what is undecided when it ends stays so, with that reason. out: where finished trials are kept.

    Raises:
        RecordError: if `out` cannot be written. WorkerDied: if a process was killed.
    """
    chosen = [*bases(), *(s for s in ladders() if s.part in (parts or DEFAULT_PARTS))]
    streams = [Stream(c, s, root, EProcess(c.bound(s.regime))) for s in chosen for c in judged(claims)]
    for stream in streams:
        _close_at_once(stream)
    budget = Budget(trials, seconds)
    spent, counted = "", 0
    for before, upto in zip((0, *WAVES), WAVES, strict=False):
        tasks = _tasks(streams, root, before, upto)
        results, spent = _wave(tasks, jobs, out, budget, _Progress(progress, counted, len(tasks)))
        counted += len(results)
        _count(streams, results)
        for stream in streams:
            stream.decide_exactly()
        if spent:
            break
    for stream in streams:
        if stream.open and spent:
            stream.reason = spent
    cells, findings = cells_of(streams)
    return {
        "schema": store.SCHEMA,
        "base": chosen[0].base,
        "root_seed": root,
        "fingerprint": store.fingerprint(),
        "strengths": [_strength(s) for s in chosen],
        "cells": cells,
        "findings": findings,
        "trials": counted,
        "spent": spent,
        "timing": {"cpu_s": round(sum(s.seconds for s in streams), 1), "wall_s": round(time.monotonic() - budget.began, 1), "jobs": jobs},
    }


def _close_at_once(stream: Stream) -> None:
    regime, claim = stream.strength.regime, stream.claim
    if reason := claim.undefined(regime):
        stream.closed, stream.reason = v.NOT_RUN, reason
    elif stream.process.delta >= 1:
        stream.closed, stream.reason = v.VACUOUS, f"the stated bound allows a violation probability of {stream.process.delta:.3g}"
    elif reason := claim.trivial(regime):
        stream.closed, stream.reason = v.VACUOUS, reason


def _tasks(streams: Sequence[Stream], root: int, before: int, upto: int) -> list[Task]:
    """The next trials of every strength at which something is open; by seed, so that every kernel is compiled first."""
    wanted: dict[str, tuple[Strength, list[str]]] = {}
    for stream in streams:
        if stream.open and upto <= MOST.get(stream.strength.part, RUNG):
            wanted.setdefault(stream.strength.regime.hash, (stream.strength, []))[1].append(stream.claim.id)
    return [Task(group, s.regime, tuple(ids), root, seed) for seed in range(before, upto) for group, (s, ids) in wanted.items()]


Results = dict[tuple[str, int], dict[str, Any]]


def _wave(tasks: Sequence[Task], jobs: int, out: Path | None, budget: Budget, progress: _Progress) -> tuple[Results, str]:
    """The results of the tasks that were kept or could be run, and why it ended early, or ""."""
    results = {(t.group, t.seed): kept for t in tasks if out and (kept := _kept(out, t))}
    todo = [t for t in tasks if (t.group, t.seed) not in results]
    short = len(todo) > budget.trials - budget.spent
    todo = todo[: budget.trials - budget.spent]

    def done(task: Task, result: dict[str, Any]) -> None:
        results[task.group, task.seed] = result
        budget.spent += 1
        if out:
            _keep(out, task, result)
        progress.at(len(results))
        if len(results) < len(tasks) and time.monotonic() - budget.began >= budget.seconds:
            raise Spent

    with contextlib.suppress(Spent):
        execute(todo, jobs, done, run_task)
    return results, budget.left() if short or len(results) < len(tasks) else ""


def run_task(task: Task) -> dict[str, Any]:
    """Judge one trial for the claims of `task` (in a worker)."""
    assert task.regime is not None
    trial = Trial(task.regime, task.root, task.seed)
    outcomes: dict[str, Any] = {}
    for name in task.claims:
        began = time.process_time() - trial.making
        record = judge_trial(find(name), trial)
        seconds = time.process_time() - trial.making - began
        outcomes[name] = {k: record[k] for k in KEPT if k in record} | {"seconds": round(seconds, 6)}
    return {"outcomes": outcomes, "making": round(trial.making, 6)}


def _path(out: Path, task: Task) -> Path:
    assert task.regime is not None
    return store.trial_path(out, f"matrix-{task.group}", task.seed)


def _keep(out: Path, task: Task, result: dict[str, Any]) -> None:
    old = _read(out, task) or {"outcomes": {}}
    stamp = {"fingerprint": store.fingerprint(), "root": task.root}
    merged = {"outcomes": old["outcomes"] | result["outcomes"], "making": result["making"]}
    store.write_atomic(_path(out, task), store.dumps(stamp | merged))


def _read(out: Path, task: Task) -> dict[str, Any] | None:
    try:
        record = store.read_json(_path(out, task))
        if record["fingerprint"] == store.fingerprint() and record["root"] == task.root and isinstance(record["outcomes"], dict):
            return record
    except (RecordError, KeyError, TypeError):
        pass
    return None


def _kept(out: Path, task: Task) -> dict[str, Any] | None:
    """A finished trial with all that is asked of it: a function of the regime, the root, the seed and the source."""
    record = _read(out, task)
    return record if record and all(name in record["outcomes"] for name in task.claims) else None


def _count(streams: Sequence[Stream], results: Results) -> None:
    by_strength: dict[str, list[tuple[int, dict[str, Any]]]] = {}
    for (group, seed), result in sorted(results.items()):
        by_strength.setdefault(group, []).append((seed, result))
    for stream in streams:
        for seed, result in by_strength.get(stream.strength.regime.hash, []):
            if not stream.open or seed != stream.trials or stream.claim.id not in result["outcomes"]:
                break
            outcome = result["outcomes"][stream.claim.id]
            stream.add(outcome, outcome["seconds"] + result["making"] / len(result["outcomes"]))


def _strength(s: Strength) -> dict[str, Any]:
    return {
        "part": s.part,
        "clause": s.clause,
        "base": s.base,
        "factor": s.factor,
        "broken": s.broken,
        "change": s.words,
        "regime": s.regime.to_dict() | {"hash": s.regime.hash},
    }
