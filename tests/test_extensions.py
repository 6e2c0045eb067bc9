"""F.GD: gradient descent leaves the attention alone only where the values have few rows."""

from __future__ import annotations

import numpy as np
import pytest

from lemmas import extensions
from verify import draw, simulate
from verify.claim.claim import find
from verify.judge import Trial, judge_trial


def law(*late: float) -> str:
    measures = [(0, [100.0, 1e-4, x, 0.5, 0.1]) for x in late]
    check = extensions.attention_not_learned.function(measures, None)
    return "undecided" if check.undecided else "holds" if check.holds else "refuted"


def test_the_interval_over_seeds_decides() -> None:
    # Two seeds 0.02 apart: the 99 % interval of the mean is +- 0.01 * 63.7.
    assert law(1e-4, 2e-4) == "holds"
    assert law(0.09, 0.11) == "undecided"
    assert law(0.9, 0.91) == "refuted"


@pytest.mark.parametrize("rung", [0, 2])
def test_attention_moves_at_a_hundred_value_rows_and_not_at_one(rung: int) -> None:
    r = extensions.DESCENT[rung]
    m_v, early, late, _, loss = judge_trial(find("F.GD"), Trial(r, 0, 0))["measure"]
    assert m_v == r.m_v
    assert early < 1e-2
    assert (late > 0.3) == (m_v == 100)
    assert loss < 0.1


def test_the_gram_matrix_of_disjoint_supports_is_diagonal() -> None:
    r = extensions.DESCENT[0].change(n=4, m_k=6, horizon=0.5)
    tr = extensions.descent(r, 0, 0)
    import torch

    start = draw(r, 0, 0)
    full = simulate(start, "full", gradient="autograd", optimizer=lambda weights, lr: torch.optim.SGD(weights, lr=lr))
    np.testing.assert_allclose(tr.query_noise, full.query_noise, rtol=0, atol=1e-12)
    np.testing.assert_allclose(tr.value_noise, full.value_noise, rtol=0, atol=1e-12)
