"""Regimes x claims x trials -> run record, over a pool of processes, resumable after every trial."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verify import store
from verify.claim import verdict as v
from verify.claim.claim import Claim, find
from verify.errors import RecordError
from verify.judge import Trial, judge_free, judge_trial
from verify.merge import free_row, law_row, not_run_row, trial_row, with_ancestors
from verify.record import describe_run
from verify.regime import Regime

SUITES = {
    "default": ("fig1", "ladder-33"),
    "full": ("fig1", "ladder-33", "ladder-65", "ladder-129", "ladder-64-mk16"),
}


@dataclass(frozen=True)
class Task:
    """One unit of work: the trial `seed` of a group, judged for `claims`. A group is a regime, or the rung of a scaling claim."""

    group: str
    regime: Regime | None
    claims: tuple[str, ...]
    root: int
    seed: int


@dataclass(frozen=True)
class Plan:
    """What a run will do: pairs (claim, regime), regime-free claims, and the tasks that serve them."""

    claims: tuple[Claim, ...]
    regimes: tuple[Regime, ...]
    cells: tuple[tuple[Claim, Regime], ...]
    free: tuple[Claim, ...]
    tasks: tuple[Task, ...]
    seeds: int
    root: int


def plan(claims: Sequence[Claim], regimes: Sequence[Regime], seeds: int, root: int, *, suite: str = "default", homes: bool = True) -> Plan:
    """Lay out a run. With `homes`, claims that declare home regimes are judged there instead of in `regimes`."""
    from verify.regime import get

    cells: list[tuple[Claim, Regime]] = []
    free: list[Claim] = []
    groups: dict[str, tuple[Regime, list[str]]] = {}
    tasks: list[Task] = []
    used: dict[str, Regime] = {r.name: r for r in regimes}
    for claim in claims:
        if claim.suite == "full" and suite != "full":
            continue
        if claim.regime_free:
            free.append(claim)
            if not claim.rungs:
                tasks.append(Task(f"claim {claim.id}", None, (claim.id,), root, 0))
            for index, rung in enumerate(claim.rungs):
                tasks += [Task(f"rung {claim.id} {index}", rung, (claim.id,), root, s) for s in range(claim.trials_per_rung)]
            continue
        where = [get(name) for name in claim.home] if homes and claim.home else list(regimes)
        for regime in where:
            used.setdefault(regime.name, regime)
            cells.append((claim, regime))
            if claim.undefined(regime) is None:
                groups.setdefault(regime.name, (regime, []))[1].append(claim.id)
    trials = [
        Task(f"{name}-{regime.hash}", regime, tuple(ids), root, seed) for name, (regime, ids) in groups.items() for seed in range(seeds)
    ]
    return Plan(tuple(claims), tuple(used.values()), tuple(cells), tuple(free), tuple(tasks + trials), seeds, root)


def run_task(task: Task) -> dict[str, Any]:
    """Do one task (in a worker). The record maps claim ids to plain outcomes."""
    began = time.perf_counter()
    if task.regime is None:
        proof = judge_free(find(task.claims[0]))
        outcome = {"proved": proof.proved, "witness": proof.witness, "steps": list(proof.steps), "detail": v.clean(proof.detail)}
        outcomes = {task.claims[0]: outcome}
    else:
        trial = Trial(task.regime, task.root, task.seed)
        outcomes = {name: judge_trial(find(name), trial) for name in task.claims}
    return {"outcomes": outcomes, "seconds": time.perf_counter() - began}


def _initialize() -> None:
    """One thread per worker: the pool uses the cores; Ctrl-C is handled by the parent."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ[name] = "1"
    find_all()


def find_all() -> None:
    """Import every claim."""
    from verify.claim.claim import all_claims

    all_claims()


def execute(
    tasks: Sequence[Task],
    jobs: int,
    done: Callable[[Task, dict[str, Any]], None],
    work: Callable[[Task], dict[str, Any]] = run_task,
) -> None:
    """Run tasks on `jobs` processes (1: in this one) and hand each result to `done`.

    Raises:
        KeyboardInterrupt: passed on after the workers have been told to stop; finished trials are kept by `done`.
    """
    if jobs <= 1 or len(tasks) <= 1:
        for task in tasks:
            done(task, work(task))
        return
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(jobs, len(tasks)), mp_context=context, initializer=_initialize)
    try:
        queue = iter(tasks)
        running: dict[Future[dict[str, Any]], Task] = {}
        for task in queue:
            running[pool.submit(work, task)] = task
            if len(running) >= 4 * jobs:
                _collect(running, done)
        while running:
            _collect(running, done)
        pool.shutdown()
    except BaseException:
        for process in list((pool._processes or {}).values()):
            process.terminate()
        pool.shutdown(wait=False, cancel_futures=True)
        raise


def _collect(running: dict[Future[dict[str, Any]], Task], done: Callable[[Task, dict[str, Any]], None]) -> None:
    finished, _ = wait(running, return_when=FIRST_COMPLETED)
    for future in finished:
        done(running.pop(future), future.result())


def run(
    made: Plan,
    *,
    out: Path | None = None,
    jobs: int = 1,
    resume: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Execute a plan and return the run record (see `verify schema run`). With `out`, trials are kept there as they finish.

    Raises:
        RecordError: if `out` cannot be written.
    """
    began = time.time()
    results: dict[tuple[str, int], dict[str, Any]] = {}
    todo: list[Task] = []
    for task in made.tasks:
        kept = _kept(out, task) if out and resume else None
        if kept is None:
            todo.append(task)
        else:
            results[task.group, task.seed] = kept
    resumed = len(results)

    def done(task: Task, result: dict[str, Any]) -> None:
        results[task.group, task.seed] = result
        if out:
            stamp = {"fingerprint": store.fingerprint(), "root": task.root, "claims": list(task.claims)}
            store.write_atomic(store.trial_path(out, task.group, task.seed), store.dumps(stamp | result))
        if progress:
            progress(len(results), len(made.tasks))

    if progress:
        progress(resumed, len(made.tasks))
    execute(todo, jobs, done)
    record = merge(made, results)
    record["run"]["timing"] = {
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(began)),
        "wall_s": round(time.time() - began, 3),
        "cpu_s": round(sum(r["seconds"] for r in results.values()), 3),
        "jobs": jobs,
        "resumed_tasks": resumed,
    }
    return record


def _kept(out: Path, task: Task) -> dict[str, Any] | None:
    path = store.trial_path(out, task.group, task.seed)
    if not path.exists():
        return None
    try:
        kept = store.read_json(path)
        same = kept["fingerprint"] == store.fingerprint() and kept["root"] == task.root and kept["claims"] == list(task.claims)
        return {"outcomes": kept["outcomes"], "seconds": kept["seconds"]} if same else None
    except (RecordError, KeyError, TypeError):
        return None


def merge(made: Plan, results: dict[tuple[str, int], dict[str, Any]]) -> dict[str, Any]:
    """Derive every verdict from the trials' outcomes."""
    rows: list[dict[str, Any]] = []
    for claim in made.free:
        if claim.rungs:
            measures = [
                (index, s, results[f"rung {claim.id} {index}", s]["outcomes"][claim.id])
                for index in range(len(claim.rungs))
                for s in range(claim.trials_per_rung)
            ]
            rows += law_row(claim, None, measures)
        else:
            rows += free_row(claim, results[f"claim {claim.id}", 0]["outcomes"][claim.id])
    for claim, regime in made.cells:
        reason = claim.undefined(regime)
        if reason is not None:
            rows += not_run_row(claim, regime, reason)
            continue
        outcomes = [(0, s, results[f"{regime.name}-{regime.hash}", s]["outcomes"][claim.id]) for s in range(made.seeds)]
        rows += law_row(claim, regime, outcomes) if claim.over == "law" else trial_row(claim, regime, [o for _, _, o in outcomes])
    return {"schema": store.SCHEMA, "run": describe_run(made), "verdicts": with_ancestors(rows, made.claims)}


def suite_regimes(name: str) -> list[Regime]:
    """The regimes of a suite."""
    from verify.regime import get

    return [get(r) for r in SUITES[name]]
