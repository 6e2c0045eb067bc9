"""Condition 3.1: slack is the log-ratio to the boundary, zero exactly on it, and each inequality answers to its parameter."""

from __future__ import annotations

import math

import pytest

from verify import condition
from verify.regime import get


def test_fig1_slacks_by_hand() -> None:
    # n=20, d=4000, s=40, sigma_p=.4, m_k=m_v=100, sigma_0=.1/sqrt(4000), eta=1e-4, delta=.1
    slack = condition.slacks(get("fig1"))
    assert slack["dimension"] == pytest.approx(math.log(4000 / 20**4))
    assert slack["sparsity"] == pytest.approx(math.log(math.sqrt(4000) / 400 / 40))
    assert slack["noise_strength"] == pytest.approx(math.log(0.4 * 4000**0.25 / 8000))
    assert slack["value_width"] == slack["key_width"] == pytest.approx(math.log(100 / math.log(4000)))
    assert slack["initialization"] == pytest.approx(math.log(math.sqrt(4000) / 0.1 / 16 / 10))
    assert slack["sample_size"] == pytest.approx(math.log(20 / 100**4))
    assert slack["learning_rate"] == pytest.approx(math.log(0.1 * (0.1 / math.sqrt(4000)) / (math.sqrt(40) * 2000) / 1e-4))


@pytest.mark.parametrize("n", [17, 33, 65, 129])
def test_the_ladder_sits_on_the_boundary_it_is_built_on(n: int) -> None:
    # s = n^2 = d^(1/2) n^-2 and sigma_p = n = d^(-1/4) n^3 at d = n^8
    slack = condition.slacks(get(f"ladder-{n}"))
    assert slack["sparsity"] == pytest.approx(0, abs=1e-12)
    assert slack["noise_strength"] == pytest.approx(0, abs=1e-12)
    assert slack["dimension"] == pytest.approx(4 * math.log(n))
    assert slack["initialization"] == pytest.approx(math.log(100))
    assert slack["learning_rate"] == math.inf
    assert slack["sample_size"] < 0


OUTSIDE = {
    "dimension": {"d": 33**4 - 1, "s": 1},
    "sparsity": {"s": 33**2 + 1},
    "noise_strength": {"sigma_p": 32.9},
    "value_width": {"m_v": 27},  # log d = 27.97
    "key_width": {"m_k": 27},
    "initialization": {"sigma_0": 1.001 / (33**3 * 8)},
    "sample_size": {"n": 31},
    "learning_rate": {"eta": 1e-9},
}
"""For each inequality of ladder-33 (m_k = 64, log d = 28.0) a value of its parameter just outside."""


@pytest.mark.parametrize("part", [p.id for p in condition.PARTS])
def test_each_inequality_is_broken_by_its_own_parameter(part: str) -> None:
    assert condition.part(part).parameter in OUTSIDE[part]
    assert condition.part(part).slack(get("ladder-33").change(**OUTSIDE[part])) < 0


def test_clause_slack_is_the_worst_inequality() -> None:
    r = get("fig1")
    slack = condition.slacks(r)
    assert {p.clause for p in condition.PARTS} == set(condition.CLAUSES)
    assert condition.clause_slack("C31.1", r) == min(slack["dimension"], slack["sparsity"])
    assert condition.clause_slack("C31.3", r) == min(slack["value_width"], slack["key_width"], slack["initialization"])


def test_eta_slack_is_linear_in_log_eta() -> None:
    r = get("fig1")
    part = condition.part("learning_rate")
    assert part.slack(r) - part.slack(r.change(eta=r.eta * math.e)) == pytest.approx(1)


def test_unknown_part() -> None:
    with pytest.raises(KeyError):
        condition.part("nonsense")
