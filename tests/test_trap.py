"""R.4: a pair placed in the trap stays there; pairs outside leave; the predicted share is the collision probability of two half-normals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from lemmas import trap
from verify import draw, get, simulate


def test_a_pair_with_both_values_inside_one_step_is_trapped_and_no_other() -> None:
    r = get("trap").change(n=1, d=10**6 + 1, m_k=4, name="one sample")
    start = draw(r, 0, 0)
    step = r.eta * start.l1[0]
    # (a, -b) in steps: both inside (0, 1): trapped; one outside: not; in the same later cell: trapped on arrival; equal signs: not.
    query, key = np.array([0.3, 0.3, 5.2, 0.4]), np.array([-0.6, -1.6, -5.7, 0.6])
    none = np.zeros(4)
    values = {"query_signal": none, "key_signal": none, "value_noise": np.array([1.0]), "value_signal": 0.0}
    tr = simulate(start.replace(query_noise=step * query[:, None], key_noise=step * key[:, None], **values), "reduced")
    assert trap.trapped(tr)[:, 0].tolist() == [True, False, True, False]
    # It jumps to (a - step, step - b) and back; the signals move by eta only.
    np.testing.assert_allclose(tr.query_noise[:6, 0, 0] / step, [0.3, -0.7, 0.3, -0.7, 0.3, -0.7], atol=1e-9)
    np.testing.assert_allclose(tr.key_noise[:6, 0, 0] / step, [-0.6, 0.4, -0.6, 0.4, -0.6, 0.4], atol=1e-9)


@pytest.mark.parametrize("h", [0.003, 0.02, 0.1])
def test_the_constant_is_the_chance_of_opposite_signs_in_the_same_cell(h: float) -> None:
    edges = np.arange(0, 40, h)
    cells = np.diff(2 * stats.norm.cdf(edges))
    assert (cells**2).sum() / 2 == pytest.approx(trap.LEADING * h, rel=h * h)


def test_backward_first_steps_add_a_term_of_second_order() -> None:
    # h = 0.1, 8 trials, 67,584 pairs: .0282 + .0032 expected, standard error .0007. Bounds of 4 standard errors: false alarm 1e-4.
    # The next order is about -h^3/2 = -.0005 (the cell next to 0 is not the first of a smooth density), which the bound allows for.
    r = trap.rung(0.1)
    caught, pairs, predicted = np.sum([trap.counted(simulate(draw(r, 0, seed), "reduced")) for seed in range(8)], axis=0)
    expected = predicted / pairs + 0.01 / math.pi
    assert abs(caught / pairs - expected) < 0.0005 + 4 * math.sqrt(expected / pairs)
    assert caught / pairs > predicted / pairs + 2 * math.sqrt(expected / pairs)
