"""Absurd parameters end: with a result, or with one line that says what happened; never without end."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from verify import judge
from verify.claim.claim import all_claims, find
from verify.regime import get
from verify.simulate import simulate_trial

EXTREMES = [
    {"m_k": 3},  # weights of 1e299 at the end: squares overflowed, and a search crawled
    {"n": 5},
    {"n": 1, "m_k": 2},
    {"m_v": 1},
    {"sigma_p": 33 / 4096},
    {"sigma_0": 2e-4},
    {"s": 1, "sigma_p": 1089.0},
]


@pytest.mark.parametrize("change", EXTREMES)
def test_the_flow_ends(change: dict[str, float]) -> None:
    trajectory = simulate_trial(get("ladder-33").change(**change), 0, 0)
    assert all(np.isfinite(x).all() for x in (trajectory.gap_signal, trajectory.gap_noise, trajectory.value_noise))
    assert trajectory.tau[-1] > 0


def test_sliding_without_end_is_an_error_and_not_a_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    """One neuron: every sample's key noise slides, and the windows shrink with it. It is tried once per trial, not once per claim."""
    tried = []
    real = judge.simulate
    monkeypatch.setattr(judge, "simulate", lambda *a: tried.append(1) or real(*a))
    trial = judge.Trial(get("ladder-33").change(m_k=1), 0, 0)
    first = judge.judge_trial(find("4.2"), trial)
    assert "turns without end near tau = 0.00" in first["error"]
    assert judge.judge_trial(find("4.8.1"), trial)["error"] == first["error"]
    assert tried == [1]


@pytest.mark.parametrize("change", EXTREMES)
def test_no_claim_stumbles_there(change: dict[str, float]) -> None:
    """Every claim has a verdict on the trial, without an exception and without a warning of numpy's."""
    trial = judge.Trial(get("ladder-33").change(**change), 0, 0)
    claims = [c for c in all_claims() if not c.regime_free and not c.home and c.over == "trial" and c.undefined(trial.regime) is None]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        records = {c.id: judge.judge_trial(c, trial) for c in claims}
    assert {name: record["error"] for name, record in records.items() if "error" in record} == {}
