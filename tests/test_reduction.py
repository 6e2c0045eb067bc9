"""R.1-R.3 and S.update: they hold, each planted lie is caught, and exact ties are told from lost updates."""

from __future__ import annotations

import numpy as np
import pytest

from lemmas import reduction
from verify import Snapshot, draw
from verify import regime as regimes
from verify.judge import Trial, judge_trial

CLAIMS = (reduction.reduction_is_exact, reduction.moves_by_one_norm, reduction.update_sizes, reduction.mirror_symmetry)


@pytest.fixture(scope="module")
def trial() -> Trial:
    return Trial(regimes.get("fig1"), 0, 0)


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda c: c.id)
def test_holds_with_rounding_to_spare_and_every_control_is_caught(trial: Trial, claim) -> None:
    record = judge_trial(claim, trial)
    assert record["holds"]
    assert record["margin"] > 0.99
    for control in claim.controls:
        lie = judge_trial(claim, trial, control)
        assert lie["holds"] is False, control.name


def test_mirroring_is_exact_to_the_last_bit(trial: Trial) -> None:
    assert judge_trial(reduction.mirror_symmetry, trial)["detail"]["largest difference"] == 0.0


def test_the_step_tells_which_direction_a_value_noise_moved(trial: Trial) -> None:
    # R.2 allows either direction, S.update only the rising one.
    control = next(c for c in reduction.update_sizes.controls if c.name == "value noise falls")
    tr = control.change(trial.get(reduction.FULL))
    assert reduction.moves_by_one_norm(tr).holds
    assert not reduction.update_sizes(tr).holds


def test_ties_follow_equations_10_to_13() -> None:
    # Two neurons, two samples. Neuron 0: K = k for sample 0; q = 0 and Q = 0 for sample 1. Neuron 1 mirrors sample 0 in sample 1.
    at = Snapshot(
        tau=0.0,
        query_noise=np.array([[1.0, 0.0], [2.0, -2.0]]),
        key_noise=np.array([[3.0, 1.0], [1.0, 5.0]]),
        query_signal=np.array([0.0, 0.0]),
        key_signal=np.array([3.0, 3.0]),
        value_noise=np.array([0.5, 0.5]),
        value_signal=0.0,
        gap_signal=np.zeros(2),
        gap_noise=np.zeros(2),
    )
    tie = reduction.ties(at)
    assert tie["query_noise"].tolist() == [[True, False], [False, False]]
    assert tie["key_noise"].tolist() == [[False, True], [False, False]]
    assert tie["query_signal"].tolist() == [False, True]  # (1-3) + (5-3) = 0
    assert tie["key_signal"].tolist() == [False, True]  # 2 - 2 = 0
    assert not tie["value_noise"].any()
    assert not tie["value_signal"]


def test_a_rest_off_a_tie_is_a_violation(trial: Trial) -> None:
    tr = trial.get(reduction.FULL)
    values = tr.query_noise.copy()
    values[3:, 5, 2] -= values[3, 5, 2] - values[2, 5, 2]
    check = reduction.moves_by_one_norm(tr.replace(query_noise=values))
    assert not check.holds
    assert (check.witness.s, check.witness.i) == (5, 2)


def test_start_of_the_full_run_is_the_reduced_start(trial: Trial) -> None:
    tr = trial.get(reduction.FULL)
    start = draw(tr.regime, 0, 0)
    np.testing.assert_allclose(tr.query_noise[0], start.query_noise, rtol=0, atol=1e-16)
