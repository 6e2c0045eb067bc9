"""The benchmarks of `verify bench`: each a median CPU time on one thread (so that a busy machine does not matter), and how many times faster than its baseline that is."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

from verify.regime import get
from verify.simulate import simulate
from verify.start import draw

TORCH_STEPS = 100
"""Steps of fig1's 2,000 over which the torch loop is timed; every step costs it the same."""
Row = dict[str, Any]
Progress = Callable[[int, int], None]


def run_benchmarks(progress: Progress | None = None) -> list[Row]:
    """Run every benchmark: rows of name, median_s, baseline (seconds, or None), ratio = baseline/median_s (or None), and a note.

    Args:
        progress: called with (done, all) after each benchmark.
    """
    rows = []
    for done, benchmark in enumerate(BENCHMARKS):
        if progress:
            progress(done, len(BENCHMARKS))
        rows.append(benchmark())
    if progress:
        progress(len(BENCHMARKS), len(BENCHMARKS))
    return rows


def seconds(work: Callable[[], object], repeats: int) -> list[float]:
    """CPU times of `repeats` calls, after one call that compiles and warms the caches."""
    work()
    times = []
    for _ in range(repeats):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return times


def row(name: str, times: list[float], baseline: float | None, note: str) -> Row:
    """One benchmark's row."""
    median = statistics.median(times)
    return {"name": name, "median_s": median, "baseline": baseline, "ratio": baseline / median if baseline else None, "note": note}


def fig1_reduced_vs_torch() -> Row:
    """fig1, all steps, recorded: the reduced simulator against the plain torch loop, in turns so that both meet the same machine."""
    from verify import baseline

    regime = get("fig1")
    start = draw(regime, 0, 0)
    short = start.replace(regime=regime.change(horizon=TORCH_STEPS * regime.eta))
    network, data = baseline.prepare(short)
    baseline.train(short, network, data)
    ours, theirs = [], []
    for _ in range(5):
        ours += seconds(lambda: simulate(start, "reduced"), 9)
        began = time.process_time()
        baseline.train(short, network, data)
        theirs.append(time.process_time() - began)
    torch_s = statistics.median(theirs) * regime.steps / TORCH_STEPS
    note = f"{regime.steps} steps, one trial, one thread, recorded as Trajectory; torch timed over {TORCH_STEPS} steps and scaled, set-up left out"
    return row("fig1_reduced_vs_torch", ours, torch_s, note)


def draw_fig1() -> Row:
    """The start of one fig1 trial."""
    regime = get("fig1")
    return row("draw_fig1", seconds(lambda: draw(regime, 0, 0), 50), None, "the start of one trial")


def flow_ladder65() -> Row:
    """One flow trajectory at n = 65, m_k = 64, from T_1/10 to past T_attn; the goal is 0.8 s."""
    start = draw(get("ladder-65"), 0, 0)
    return row("flow_ladder65", seconds(lambda: simulate(start, "flow"), 3), None, "4,160 pairs, one thread")


def judging(name: str) -> Row:
    """Judging every claim on one trajectory of the regime `name`, against simulating it."""
    from verify.claim.claim import TRAJECTORY, all_claims
    from verify.judge import Trial, judge_trial

    regime = get(name)
    claims = [c for c in all_claims() if not c.regime_free and set(c.inputs) == {TRAJECTORY} and c.undefined(regime) is None]
    simulated, judged = [], []
    for seed in range(4):  # the first warms the caches
        trial = Trial(regime, 0, seed)
        began = time.process_time()
        trial.get(TRAJECTORY)
        middle = time.process_time()
        for claim in claims:
            judge_trial(claim, trial)
        simulated.append(middle - began)
        judged.append(time.process_time() - middle)
    note = f"{len(claims)} claims on one trajectory; baseline: drawing and simulating it"
    return row(f"judge_{name}", judged[1:], statistics.median(simulated[1:]), note)


BENCHMARKS: tuple[Callable[[], Row], ...] = (
    fig1_reduced_vs_torch,
    draw_fig1,
    flow_ladder65,
    lambda: judging("fig1"),
    lambda: judging("ladder-65"),
)
