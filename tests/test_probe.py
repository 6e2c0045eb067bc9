"""Probing: a known boundary is recovered within its band, a flat rate stops at the cap, bad ranges are refused."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest

from verify.constants import DELTA
from verify.errors import RegimeError
from verify.probe import CAP, Axis, Budget, bisect, in_words, parse_axis, sobol_map, theory_boundary
from verify.regime import get
from verify.start import stream


def synthetic(boundary: float, repetition: int):
    """A claim whose violation rate falls through delta exactly at sigma_p = boundary."""

    def oracle(values, trial):
        x = math.log(values["sigma_p"] / boundary)
        rate = min(1.0, DELTA * math.exp(-3 * x))
        return bool(uniforms(repetition, values["sigma_p"])[trial] >= rate)

    return oracle


@cache
def uniforms(repetition: int, x: float) -> np.ndarray:
    """The variates of one point: fixed by (repetition, position)."""
    return stream(repetition, int(np.float64(x).view(np.uint64) % 2**31), "synthetic").random(CAP)


def test_recovers_a_known_boundary_within_its_band() -> None:
    """Each band misses with probability <= (points judged) * alpha ~ 2e-3; 6 of 100 misses has probability below 1e-8."""
    axis = Axis("sigma_p", 0.1, 10.0, log=True)
    hits = 0
    for repetition in range(100):
        found = bisect(synthetic(1.3, repetition), axis, DELTA, Budget(20_000))
        assert found.interval is not None
        hits += found.interval[0] <= 1.3 <= found.interval[1]
    assert hits >= 95


def test_flat_rate_at_delta_stops_at_the_cap() -> None:
    found = bisect(
        lambda values, trial: bool(stream(7, trial, "flat").random() >= DELTA), Axis("sigma_p", 0.1, 10, True), DELTA, Budget(10_000)
    )
    assert found.interval is None
    assert "cap of 200" in found.reason


def test_budget_ends_a_probe_with_its_reason() -> None:
    found = bisect(synthetic(1.3, 0), Axis("sigma_p", 0.1, 10, True), DELTA, Budget(20))
    assert "budget of 20 trials" in found.reason


def test_a_spent_budget_names_no_edge() -> None:
    """Both ends are decided by about 5 and 111 trials; the rest of the range was not looked at."""
    axis = Axis("sigma_p", 0.1, 10.0, log=True)
    found = bisect(lambda values, trial: values["sigma_p"] > 1, axis, DELTA, Budget(118))
    assert found.interval == (0.1, 10.0)
    text = in_words(found, [])
    assert "budget of 118 trials is spent" in text
    assert "holds" not in text


def test_deterministic_by_seed() -> None:
    axes = [Axis("sigma_p", 0.1, 10, True), Axis("m_k", 4, 64)]
    runs = [sobol_map(synthetic(1.3, 3), axes, DELTA, Budget(10_000), points=8, seed=5) for _ in range(2)]
    assert runs[0] == runs[1]
    assert all(isinstance(p.values["m_k"], int) for p in runs[0])


@pytest.mark.parametrize("text", ["sigma_p", "nope=1:2", "sigma_p=2:1", "sigma_p=0:1:log", "sigma_p=a:b", "sigma_p=1:2:lin", "eta=nan:1"])
def test_bad_ranges_are_refused(text: str) -> None:
    with pytest.raises(RegimeError, match="--vary"):
        parse_axis(text)


def test_theory_boundary_of_noise_strength_is_the_clause() -> None:
    base = get("ladder-33")  # sits on the boundary of C31.2: sigma_p = d^{-1/4} n^3 = n = 33
    found = {t["part"]: t["value"] for t in theory_boundary(base, Axis("sigma_p", 3.3, 330.0, log=True))}
    assert found["noise_strength"] == pytest.approx(33, rel=1e-6)


def test_command_finds_where_weak_noise_breaks_sign_alignment(capsys) -> None:
    """At fig1, 4.2 holds with sigma_p = 0.4 and fails when signal dominates; the output fits its schema."""
    import json

    import msgspec

    from verify.cli.app import invoke
    from verify.schema import ProbeResult

    call = ["probe", "4.2", "--vary", "sigma_p=0.004:0.4:log", "--regime", "fig1", "--set", "horizon=0.0012", "--json"]
    assert invoke(call) == 0
    found = json.loads(capsys.readouterr().out)
    msgspec.convert(found, ProbeResult)
    assert found["verdicts"][0]["verdict"] == "REFUTED"
    assert found["verdicts"][-1]["verdict"] == "SUPPORTED"
    low, high = found["interval"]
    assert 0.004 <= low < high <= 0.4
    assert "holds down to sigma_p" in found["text"]


def test_command_is_deterministic(capsys) -> None:
    from verify.cli.app import invoke

    printed = []
    for _ in range(2):
        call = ["probe", "4.2", "--vary", "sigma_p=0.004:0.4:log", "--vary", "m_k=4:20", "--regime", "fig1", "--set", "horizon=0.0012"]
        assert invoke([*call, "--budget", "60", "--json"]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    assert '"the budget of 60 trials is spent"' in printed[0]


@pytest.mark.parametrize(
    "wrong",
    [["4.2", "--vary", "nope=1:2"], ["D.1", "--vary", "eta=1e-5:1e-3"], ["4.2", "--vary", "eta=1:2", "--budget", "0"], ["4.2"]],
)
def test_wrong_calls_exit_2(wrong: list[str], capsys) -> None:
    from verify.cli.app import invoke

    assert invoke(["probe", *wrong]) == 2
    assert "Traceback" not in capsys.readouterr().err
