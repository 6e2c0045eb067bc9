"""R.5: the discrete run approaches the flow at first order in eta, and the claim says so and says no to lies."""

import numpy as np
import pytest

from lemmas.limit import STRIDE, discrete_run, follows_the_flow, too_long
from verify import draw, simulate
from verify.regime import get


@pytest.fixture(scope="module")
def pair():
    return simulate(draw(get("fig1"), 0, 0), "flow"), discrete_run(get("fig1"), 0, 0)


def test_the_step_keeps_h_below_its_bound(pair):
    _, discrete = pair
    h = discrete.regime.eta * discrete.l1 / (discrete.regime.sigma_0 * discrete.start.l2)
    assert h.max() <= STRIDE  # Cauchy-Schwarz: l_i <= sqrt(s) ||xi_i||_2
    assert discrete.end == pytest.approx(discrete.time("T_4_minus_predicted"), rel=1e-3)
    assert discrete.times["T_3"] == pytest.approx(40e-4)


def test_the_claim_holds_and_every_lie_is_told(pair):
    check = follows_the_flow(*pair)
    assert check.holds
    assert 0.1 < check.detail["median"] <= 2
    for control in follows_the_flow.controls:
        assert not follows_the_flow(*control.change(*pair)).holds


def test_the_distance_falls_with_the_step(pair):
    # A sign is taken at most one step late, so the distance is O(eta l_i): at half the step about half. Away from the pairs that
    # turn differently the median over pairs is that of order 1,000 distances; a ratio beyond 0.7 would mean another order.
    flow, fine = pair
    coarse = simulate(draw(fine.regime.change(eta=2 * fine.regime.eta), 0, 0))
    tau = 0.8 * flow.time("T_4_minus")
    distance = [np.median(np.abs(x.at(tau).query_noise - flow.at(tau).query_noise) / flow.l1) for x in (fine, coarse)]
    assert distance[0] <= 0.7 * distance[1]


def test_unaffordable_regimes_say_so():
    assert too_long(get("fig1")) is None
    assert "steps" in (too_long(get("ladder-65")) or "")
