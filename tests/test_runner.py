"""Runs: equal inputs give equal records whatever the number of workers or interruptions; trials are shared and never lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from verify import store
from verify.claim.check import Check
from verify.claim.claim import START, Claim, find, select
from verify.errors import NumericError, RegimeError, WorkerDied
from verify.judge import Trial, judge_trial
from verify.plan import Plan, plan, suite_claims, suite_regimes
from verify.pool import THREADS, execute
from verify.regime import Regime, get
from verify.runner import kept, run
from verify.schema import RunRecord, VerdictRow

SHORT: dict[str, Any] = {"horizon": 2e-3}


def small(ids: tuple[str, ...] = ("4.2", "4.2.2", "D.1"), seeds: int = 6) -> Plan:
    """fig1 for 20 steps and one proof."""
    return plan(select(ids), [get("fig1").change(**SHORT)], seeds, 0)


def stable(record: dict[str, Any]) -> str:
    """The record's bytes without its timing."""
    return store.dumps(record | {"run": {k: x for k, x in record["run"].items() if k != "timing"}})


def test_equal_bytes_for_one_and_two_jobs_and_after_an_interruption(tmp_path: Path) -> None:
    made = small()
    first = run(made, jobs=1)
    assert stable(run(made, out=tmp_path, jobs=2)) == stable(first)
    trials = sorted(tmp_path.glob("trials/*/*.json"))
    assert len(trials) == len(made.tasks) == 7
    for lost in trials[::2]:
        lost.unlink()
    trials[1].write_text("half a rec")
    resumed = run(made, out=tmp_path, jobs=1, resume=True)
    assert stable(resumed) == stable(first)
    assert resumed["run"]["timing"]["resumed_tasks"] == len(trials[1::2]) - 1


def test_the_record_is_what_the_schema_says() -> None:
    record = json.loads(store.dumps(run(small(("4.2", "Tab.2", "4.4.1", "D.1"), 3))))
    msgspec.convert(record, RunRecord)
    assert all(set(row) <= set(VerdictRow.__struct_fields__) for row in record["verdicts"])
    assert {r["id"] for r in record["verdicts"]} == {"D.1", "4.2", "Tab.2", "4.4.1", "E.11"}


def test_a_verdict_does_not_depend_on_which_other_claims_ran() -> None:
    alone, together = run(small(("4.2",))), run(small(("4.2.2", "4.2", "4.1.1")))
    pick = lambda record: [r | {"ancestors": None} for r in record["verdicts"] if r["id"] == "4.2"]  # noqa: E731
    assert pick(alone) == pick(together)


def test_trials_of_other_seeds_roots_or_sources_are_not_reused(tmp_path: Path) -> None:
    made = small(("4.2",), 3)
    run(made, out=tmp_path)
    assert len(kept(made, tmp_path)) == 3
    assert len(kept(small(("4.2",), 5), tmp_path)) == 3
    assert kept(small(("4.2", "4.1.1"), 3), tmp_path) == {}
    assert kept(plan(select(["4.2"]), [get("fig1").change(**SHORT)], 3, 1), tmp_path) == {}
    path = next(tmp_path.glob("trials/*/*.json"))
    path.write_text(path.read_text().replace(store.fingerprint(), "0" * 16))
    assert len(kept(made, tmp_path)) == 2


def test_a_regime_is_simulated_once_for_cells_and_rungs() -> None:
    made = plan(select(["E.15.trend", "4.8.2.trend", "4.2"]), [get("fig1")], 5, 0)
    assert find("E.15.trend").rungs == find("4.8.2.trend").rungs
    rungs, trials = len(find("E.15.trend").rungs), find("E.15.trend").trials_per_rung
    assert len(made.tasks) == rungs * trials + 5
    assert len({(t.group, t.seed) for t in made.tasks}) == len(made.tasks)
    assert [t.seed for t in made.tasks[: rungs + 1]] == [0] * (rungs + 1), "one trial of every regime comes first"


def test_homes_and_named_regimes() -> None:
    tab2 = find("Tab.2")
    assert [r.name for _, r in plan([tab2], suite_regimes("default"), 1, 0).cells] == ["fig1"]
    assert [r.name for _, r in plan([tab2], [get("trap")], 1, 0, homes=False).cells] == ["trap"]
    made = plan([tab2, find("4.2")], suite_regimes("default"), 1, 0, settings={"n": 10})
    assert [(c.id, r.name) for c, r in made.cells] == [("Tab.2", "fig1[n=10]"), ("4.2", "fig1[n=10]"), ("4.2", "ladder-33[n=10]")]


def test_regimes_with_one_name_are_refused() -> None:
    with pytest.raises(RegimeError, match="two regimes are called 'mine' but differ"):
        plan([], [get("fig1").change(name="mine"), get("fig1").change(name="mine", n=3)], 1, 0)
    with pytest.raises(RegimeError, match="has the name of a preset but other parameters"):
        plan([], [get("fig1").change(name="ladder-33")], 1, 0)
    assert len(plan([], [get("fig1"), get("fig1")], 1, 0).regimes) == 1


def test_the_default_suite_is_part_of_the_full_one() -> None:
    everything = select([])
    default = suite_claims(everything, "default")
    assert {c.id for c in default} < {c.id for c in everything}
    assert suite_claims(everything, "full") == everything


def nan_at_step_5(_x: Any) -> Check:
    raise NumericError(5, "key_noise")


def test_a_numeric_error_stops_one_trial_and_is_never_a_pass() -> None:
    c = Claim(("N",), "n", "", "dynamics", nan_at_step_5, inputs=(START,))
    outcome = judge_trial(c, Trial(get("fig1"), 0, 0))
    assert outcome["holds"] is False
    assert "sgn(nan) at step 5 in key_noise" in outcome["numeric"]


def test_an_exception_in_a_check_is_an_outcome() -> None:
    c = Claim(("N",), "n", "", "dynamics", lambda x: 1 / 0, inputs=(START,))
    assert judge_trial(c, Trial(get("fig1"), 0, 0))["error"] == "ZeroDivisionError: division by zero"


def where(task: int) -> tuple[int, int, str | None]:
    time.sleep(0.05)
    return task, os.getpid(), os.environ.get("OMP_NUM_THREADS")


def die(task: int) -> int:
    if task == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return task


def test_workers_have_one_thread_and_the_parent_keeps_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("NUMBA_NUM_THREADS", raising=False)
    seen: list[tuple[int, int, str | None]] = []
    execute(list(range(20)), 2, lambda _, result: seen.append(result), where)
    assert sorted(t for t, _, _ in seen) == list(range(20))
    assert {threads for _, _, threads in seen} == {"1"}
    assert os.getpid() not in {pid for _, pid, _ in seen}
    assert os.environ["OMP_NUM_THREADS"] == "7"
    assert "NUMBA_NUM_THREADS" not in os.environ
    assert "OMP_NUM_THREADS" in THREADS


def test_a_killed_worker_is_told() -> None:
    with pytest.raises(WorkerDied, match="a worker process was ended from outside"):
        execute(list(range(50)), 2, lambda *_: None, die)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="reads the children of a process from /proc")
def test_a_killed_parent_leaves_no_workers(tmp_path: Path) -> None:
    args = [sys.executable, "-m", "verify", "run", "4.2", "--regime", "fig1", "--seeds", "2000", "--jobs", "2", "--out", str(tmp_path)]
    parent = subprocess.Popen(args, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _wait(lambda: len(list(tmp_path.glob("trials/*/*.json"))) > 2)
    workers = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
    parent.kill()
    parent.wait()
    assert len(workers) >= 2
    _wait(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers))


def _wait(ready: Any, seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.1)


def test_regime_changes_are_part_of_the_group() -> None:
    base: Regime = get("fig1")
    made = plan(select(["4.2"]), [base, base.change(eta=2e-4)], 1, 0)
    assert len({t.group for t in made.tasks}) == 2


@pytest.mark.parametrize(
    "damage",
    [
        {"outcomes": "x"},
        {"outcomes": {}},
        {"seconds": "x"},
        {"claims": "x"},
        {"signs": "x"},
        {"outcomes": {"4.2": {"holds": "no", "occurred": True}}},
        {"outcomes": {"4.2": {"holds": True, "occurred": True, "margin": "x", "witness": [0, 0, 0]}}},
        {"outcomes": {"4.2": {"holds": True, "occurred": True, "margin": 1.0, "witness": [0, 0, 0], "curve": [1]}}},
    ],
)
def test_a_damaged_trial_is_run_again(tmp_path: Path, damage: dict[str, Any]) -> None:
    made = small(("4.2",), seeds=2)
    whole = run(made, out=tmp_path)
    path = sorted(tmp_path.rglob("*.json"))[0]
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | damage), encoding="utf-8")
    again = run(made, out=tmp_path, resume=True)
    assert again["run"]["timing"]["resumed_tasks"] == 1
    assert again["verdicts"] == whole["verdicts"]
