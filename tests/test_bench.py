"""The baseline loop is right before it is slow; benchmarks of the simulators (run with --benchmark-enable), without assertions on time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from verify import RegimeError, baseline, bench, draw, get, simulate
from verify.simulate.trajectory import QUANTITIES
from verify.start import Start


def fig1(steps: int) -> Start:
    """Trial 0 of fig1, cut short."""
    r = get("fig1")
    return draw(r.change(horizon=steps * r.eta), 0, 0)


def test_the_baseline_agrees_with_the_reduced_simulator() -> None:
    start = fig1(50)
    torch_loop, ours = baseline.simulate(start), simulate(start, "reduced")
    for name in (*QUANTITIES, "gap_signal", "gap_noise"):
        np.testing.assert_allclose(getattr(torch_loop, name), getattr(ours, name), rtol=0, atol=1e-10)
    for name in QUANTITIES:
        for kind in ("turns", "crossings"):
            a, b = getattr(torch_loop, kind)[name], getattr(ours, kind)[name]
            assert sorted(zip(a.index, a.sign, strict=True)) == sorted(zip(b.index, b.sign, strict=True))
            np.testing.assert_allclose(np.sort(a.tau), np.sort(b.tau), rtol=1e-9)
        np.testing.assert_array_equal(torch_loop.initial_direction[name], ours.initial_direction[name])
    np.testing.assert_equal(torch_loop.times["T_4_minus"], ours.times["T_4_minus"])


def test_the_baseline_wants_the_reducible_setting() -> None:
    with pytest.raises(RegimeError, match="disjoint"):
        baseline.simulate(draw(get("fig1").change(supports="independent"), 0, 0))


def test_rows_state_the_ratio_of_baseline_to_median(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [lambda: bench.row("a", [3.0, 1.0, 2.0], 8.0, ""), lambda: bench.row("b", [1.0], None, "why")]
    monkeypatch.setattr(bench, "BENCHMARKS", rows)
    seen: list[tuple[int, int]] = []
    made = bench.run_benchmarks(lambda done, total: seen.append((done, total)))
    assert [(r["name"], r["median_s"], r["baseline"], r["ratio"]) for r in made] == [("a", 2.0, 8.0, 4.0), ("b", 1.0, None, None)]
    assert seen == [(0, 2), (1, 2), (2, 2)]


def test_benchmark_reduced(benchmark: Any) -> None:
    start = draw(get("fig1"), 0, 0)
    tr = benchmark(simulate, start, "reduced")
    assert tr.end == pytest.approx(0.2)


def test_benchmark_draw(benchmark: Any) -> None:
    assert benchmark(draw, get("fig1"), 0, 0).l1.shape == (20,)


def test_benchmark_torch_loop(benchmark: Any) -> None:
    start = fig1(10)
    network, data = baseline.prepare(start)
    tr = benchmark.pedantic(baseline.train, (start, network, data), rounds=1)
    assert tr.end == pytest.approx(10e-4)
