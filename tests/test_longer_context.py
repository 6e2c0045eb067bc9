"""Longer contexts: what the laws of F.2 read off a run, and which claims are not judged there."""

from __future__ import annotations

import numpy as np
import pytest

from lemmas import longer_context as f2
from lemmas.stage4_end import loss_at
from lemmas.theorem import training_converges, value_sizes
from verify import Trajectory, draw, get, simulate
from verify.claim.claim import all_claims, find
from verify.judge import Trial, judge_trial

SHORT = {"n": 4, "m_k": 30, "eta": 5e-4, "horizon": 0.15, "simulator": "reduced"}


@pytest.fixture(scope="module")
def independent() -> Trajectory:
    return simulate(draw(get("fig1-L3").change(**SHORT), 0, 0))


@pytest.fixture(scope="module")
def identical() -> Trajectory:
    return simulate(draw(get("fig1-L3").change(identical=True, **SHORT), 0, 0))


def test_one_patch_wins_or_copies_share(independent: Trajectory, identical: Trajectory) -> None:
    won, _, largest, first = f2.winner(independent)
    assert (won, largest, first) == (1.0, 1.0, 1.0)
    assert f2.winner(identical)[0] == 0.0
    taken, apart, initial, first = f2.shares(identical)
    assert (taken, first) == (1.0, 1.0)
    assert apart < 1e-9
    assert initial < 0.01
    assert f2.shares(independent)[1] > 0.5


def test_one_losing_rung_refutes_the_law() -> None:
    good = [1.0, 1.0, 1.0, 1.0]
    assert f2.one_patch_wins.function([(0, good), (1, good)], None).holds
    for bad in ([0.9, 1.0, 1.0, 1.0], [1.0, 0.85, 1.0, 1.0]):
        assert not f2.one_patch_wins.function([(0, good), (1, bad)], None).holds
    check = f2.identical_patches.function([(0, [1.0, 0.0, 0.0, 1.0]), (0, [0.85, 0.0, 0.0, 1.0]), (1, [1.0, 0.0, 0.2, 1.0])], None)
    assert check.margin == pytest.approx(-1.0)


def test_first_below_reads_log_odds() -> None:
    gap = np.log(np.array([[0.5, 0.5], [0.25, 0.5], [0.1, 0.5]]) / np.array([[0.5, 0.5], [0.75, 0.5], [0.9, 0.5]]))
    assert f2.first_below(gap, np.array([0.0, 1.0, 2.0]), 0.2).tolist() == [2.0, np.inf]


def test_statements_about_two_patches_are_not_judged_in_longer_contexts() -> None:
    r = get("fig1-L3")
    judged = {c.id for c in all_claims() if not c.regime_free and c.undefined(r) is None}
    assert {"4.1.1", "4.1.2", "4.2", "4.2.1", "3.2.1", "3.2.3"} <= judged
    assert "Eq. (29)" in (find("4.8.1").undefined(r) or "")
    assert "L = 2 (given L = 3)" in (find("4.3.2").undefined(r) or "")
    assert find("4.3.2").undefined(get("fig1-dense")) is None


def test_the_training_loss_of_a_longer_context_is_that_of_all_its_patches(independent: Trajectory) -> None:
    assert independent.output_margin is not None
    k = len(independent.tau) // 2
    expected = np.mean(np.log1p(np.exp(-independent.output_margin[k])))
    assert loss_at(independent, float(independent.tau[k])) == pytest.approx(expected, rel=1e-12)
    assert training_converges.function(independent).holds
    assert value_sizes.function(independent.replace(value_signal=0 * independent.value_signal)).occurred


@pytest.mark.parametrize("label", ["4.1.1", "4.2"])
def test_other_statements_are_judged_on_the_largest_noise_patch(label: str) -> None:
    r = get("fig1-L3").change(n=4, m_k=20, horizon=3e-3)
    record = judge_trial(find(label), Trial(r, 0, 0))
    assert "error" not in record
    assert record["occurred"]
