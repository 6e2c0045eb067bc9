"""Regimes x claims x trials -> run record, over a pool of processes, resumable after every trial."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from verify import store
from verify.claim import verdict as v
from verify.claim.claim import find
from verify.errors import RecordError
from verify.judge import CURVE_POINTS, Trial, judge_free, judge_trial
from verify.merge import free_row, law_row, not_run_row, trial_row, with_ancestors
from verify.plan import Plan, Task, free_group
from verify.pool import execute
from verify.record import describe_run

Results = dict[tuple[str, int], dict[str, Any]]


def run_task(task: Task) -> dict[str, Any]:
    """Do one task (in a worker). The record maps claim ids to plain outcomes; seconds are of the processor, not of the clock."""
    began = time.process_time()
    trial = Trial(task.regime, task.root, task.seed) if task.regime else None
    outcomes, spent = {}, {}
    for name in task.claims:
        at = time.process_time() - (trial.making if trial else 0)
        outcomes[name] = judge_trial(find(name), trial) if trial else prove(name)
        spent[name] = round(time.process_time() - (trial.making if trial else 0) - at, 6)
    signs = trial.signs() if trial else {}
    return {"outcomes": outcomes, "seconds": time.process_time() - began, "claims": spent, "signs": signs}


def prove(name: str) -> dict[str, Any]:
    """Judge an identity or inequality; an exception is the outcome, not the end of the run."""
    try:
        proof = judge_free(find(name))
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return {"proved": proof.proved, "witness": proof.witness, "steps": list(proof.steps), "detail": v.clean(proof.detail)}


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
        RecordError: if `out` cannot be written. WorkerDied: if a process was killed.
    """
    began = time.time()
    results = kept(made, out) if out and resume else {}
    resumed = len(results)
    todo = [task for task in made.tasks if (task.group, task.seed) not in results]

    def done(task: Task, result: dict[str, Any]) -> None:
        results[task.group, task.seed] = result
        if out:
            stamp = {"fingerprint": store.fingerprint(), "root": task.root}
            store.write_atomic(_path(out, task), store.dumps(stamp | result))
        if progress:
            progress(len(results), len(made.tasks))

    if progress:
        progress(resumed, len(made.tasks))
    execute(todo, jobs, done, run_task)
    record = merge(made, results)
    record["run"]["timing"] = {
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(began)),
        "wall_s": round(time.time() - began, 3),
        "cpu_s": round(sum(r["seconds"] for r in results.values()), 3),
        "jobs": jobs,
        "resumed_tasks": resumed,
        "claims": {name: round(seconds, 3) for name, seconds in sorted(_seconds(results).items())},
    }
    return record


def _seconds(results: Results) -> dict[str, float]:
    """Processor seconds of judging, by claim."""
    total: dict[str, float] = {}
    for result in results.values():
        for name, seconds in result["claims"].items():
            total[name] = total.get(name, 0.0) + seconds
    return total


def _signs(made: Plan, results: Results) -> dict[str, Any]:
    """Uncertain and zero signs met in each regime of the run, by quantity."""
    found: dict[str, Any] = {}
    for regime in made.regimes:
        for (group, _), result in results.items():
            if group == regime.hash:
                for quantity, counts in result["signs"].items():
                    mine = found.setdefault(regime.name, {}).setdefault(quantity, dict.fromkeys(counts, 0))
                    for kind, count in counts.items():
                        mine[kind] += count
    return found


def kept(made: Plan, out: Path) -> Results:
    """The finished trials of an earlier, perhaps interrupted, run in `out` that this plan can use."""
    found = {}
    for task in made.tasks:
        path = _path(out, task)
        if not path.exists():
            continue
        try:
            record = store.read_json(path)
            if record["fingerprint"] == store.fingerprint() and record["root"] == task.root:
                whole = msgspec.convert({key: record[key] for key in ("outcomes", "seconds", "claims", "signs")}, TrialRecord)
                outcomes = {name: whole.outcomes[name] for name in task.claims}
                if all(map(_sound, outcomes.values())):
                    rest = {"seconds": whole.seconds, "claims": whole.claims, "signs": whole.signs}
                    found[task.group, task.seed] = {"outcomes": outcomes, **rest}
        except (RecordError, KeyError, TypeError, msgspec.ValidationError):
            continue
    return found


class TrialRecord(msgspec.Struct):
    """What the file of a finished trial must hold; a damaged one is run again."""

    outcomes: dict[str, dict[str, Any]]
    seconds: float
    claims: dict[str, float]
    signs: dict[str, dict[str, dict[str, int]]]


def _sound(outcome: dict[str, Any]) -> bool:
    """Whether an outcome is one that `run_task` writes."""
    if any(isinstance(outcome.get(key), str) for key in ("error", "not_run")) or "measure" in outcome:
        return True
    if "proved" in outcome:
        return {"proved", "witness", "steps", "detail"} <= set(outcome)
    if not (isinstance(outcome.get("holds"), bool) and isinstance(outcome.get("occurred"), bool)):
        return False
    if isinstance(outcome.get("numeric"), str):
        return True
    number = all(isinstance(outcome.get(key), (int, float, type(None))) for key in ("margin", "share", "worst", "tightness"))
    witness, curve = outcome.get("witness"), outcome.get("curve")
    return (
        number
        and isinstance(witness, list)
        and len(witness) == 3
        and (curve is None or (isinstance(curve, list) and len(curve) == CURVE_POINTS))
    )


def _path(out: Path, task: Task) -> Path:
    return store.trial_path(out, f"{task.regime.name}-{task.group}" if task.regime else task.group, task.seed)


def merge(made: Plan, results: Results) -> dict[str, Any]:
    """Derive every verdict from the trials' outcomes."""
    rows: list[dict[str, Any]] = []
    for claim in made.free:
        if claim.rungs:
            measures = [
                (index, s, results[rung.hash, s]["outcomes"][claim.id])
                for index, rung in enumerate(claim.rungs)
                for s in range(claim.trials_per_rung)
            ]
            rows += law_row(claim, None, measures)
        else:
            rows += free_row(claim, results[free_group(claim), 0]["outcomes"][claim.id])
    for claim, regime in made.cells:
        reason = claim.undefined(regime)
        if reason is not None:
            rows += not_run_row(claim, regime, reason)
            continue
        outcomes = [(0, s, results[regime.hash, s]["outcomes"][claim.id]) for s in range(made.seeds)]
        rows += law_row(claim, regime, outcomes) if claim.over == "law" else trial_row(claim, regime, [o for _, _, o in outcomes])
    return {
        "schema": store.SCHEMA,
        "run": describe_run(made) | {"signs": _signs(made, results)},
        "verdicts": with_ancestors(rows, made.claims),
    }
