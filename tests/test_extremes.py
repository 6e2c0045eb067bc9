"""Absurd parameters end: with a result, or with one line that says what happened; never without end."""

from __future__ import annotations

import numpy as np
import pytest

from verify.errors import VerifyError
from verify.regime import get
from verify.simulate import simulate_trial


@pytest.mark.parametrize(
    "change",
    [
        {"m_k": 3},  # weights of 1e299 at the end: squares overflowed, and a search crawled
        {"n": 5},
        {"n": 1, "m_k": 2},
        {"m_v": 1},
        {"sigma_p": 33 / 4096},
        {"sigma_0": 2e-4},
        {"s": 1, "sigma_p": 1089.0},
    ],
)
def test_the_flow_ends(change: dict[str, float]) -> None:
    trajectory = simulate_trial(get("ladder-33").change(**change), 0, 0)
    assert all(np.isfinite(x).all() for x in (trajectory.gap_signal, trajectory.gap_noise, trajectory.value_noise))
    assert trajectory.tau[-1] > 0


def test_sliding_without_end_is_an_error_and_not_a_hang() -> None:
    """One neuron: every sample's key noise slides, and the windows shrink with it."""
    with pytest.raises(VerifyError, match=r"turns without end near tau = 0\.00"):
        simulate_trial(get("ladder-33").change(m_k=1), 0, 0)
