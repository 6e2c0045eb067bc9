"""The reduction of overlapping supports and longer contexts: equal to the full simulator in every violation, and cheap."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from test_full import difference

from verify import Regime, Trajectory, draw, simulate
from verify import regime as regimes
from verify.data import draw_touched
from verify.simulate import collapsed, full, two_patches
from verify.simulate.trajectory import QUANTITIES

SMALL = Regime(name="small", n=6, d=400, s=20, sigma_p=0.5, m_k=8, m_v=5, sigma_0=0.02, eta=2e-4, horizon=0.008)
VIOLATIONS = {
    "none": {},
    "overlapping": {"supports": "independent", "s": 60},
    "partly shared": {"overlap": 0.3},
    "on the signal": {"supports": "independent", "on_signal": 0.5},
    "dense": {"supports": "independent", "d": 60, "s": 59},
    "dense orthogonal": {"supports": "independent", "d": 60, "s": 59, "orthogonal": True},
    "longer context": {"L": 3},
    "two signal patches of five": {"L": 5, "d": 700, "signal_patches": 2},
    "identical patches": {"L": 4, "identical": True},
    "dominant patch": {"L": 3, "dominance": 4.0},
    "heavy tails": {"tail": 0.3},
    "label noise": {"label_noise": 0.3},
    "several at once": {"L": 4, "signal_patches": 2, "supports": "independent", "s": 50, "on_signal": 0.3, "label_noise": 0.2, "tail": 0.2},
}


def assert_equal(a: Trajectory, b: Trajectory) -> None:
    for name in (*QUANTITIES, "gap_signal", "gap_noise", "margin"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=0, atol=1e-12)
    for name in QUANTITIES:
        np.testing.assert_array_equal(a.initial_direction[name], b.initial_direction[name])
        np.testing.assert_array_equal(a.turns[name].index, b.turns[name].index)
        np.testing.assert_array_equal(a.turns[name].tau, b.turns[name].tau)
        np.testing.assert_array_equal(a.crossings[name].index, b.crossings[name].index)


@pytest.mark.parametrize("change", VIOLATIONS.values(), ids=VIOLATIONS.keys())
def test_full_equals_collapsed_in_every_violation(change: dict) -> None:
    start = draw(SMALL.change(**change), 0, 1)
    a, b = full.simulate(start), collapsed.simulate(start)
    assert_equal(a, b)
    assert sum(len(a.turns[q].tau) for q in QUANTITIES) > 30


@pytest.mark.parametrize("name", ["dense", "dense orthogonal", "on the signal", "partly shared"])
def test_two_patches_follow_torch_long_after_softmax_has_rounded_to_1(name: str) -> None:
    # 200 steps 25 times as long: the closed form of two_patches.py against that of optim.py, every sign counted alike.
    start = draw(SMALL.change(**VIOLATIONS[name], eta=5e-3, horizon=1.0), 0, 0)
    a, b = full.simulate(start), collapsed.simulate(start)
    deepest = np.abs(a.gap_noise).max()
    assert deepest > 300
    assert difference(a, b) <= 1e-15 * deepest
    assert (a.uncertain, a.zero) == (b.uncertain, b.zero)
    assert (a.simulator, b.simulator) == ("full", "reduced")


@pytest.mark.parametrize("name", ["fig1-dense", "fig1-dense-orthogonal", "fig1-overlapping"])
def test_two_patches_equal_full_at_the_size_of_the_figures(name: str) -> None:
    start = draw(regimes.get(name).change(horizon=0.003), 0, 0)
    assert difference(full.simulate(start), collapsed.simulate(start)) <= 1e-12


def test_a_sum_within_its_rounding_bound_is_counted() -> None:
    start = draw(SMALL.change(**VIOLATIONS["dense"], n=2, horizon=2e-4), 0, 0)
    data, _ = draw_touched(start.regime, 0, 0)
    samples = two_patches.Samples(data)
    step, zero, one = torch.empty(60, 3, dtype=torch.float64), np.zeros((2, 3)), np.ones((2, 3))
    opposite = np.array([[1.0, 1.0, 1.0], [-1.0, -1.0 + 1e-15, -0.5]])
    assert samples.signs(step, np.zeros(2), opposite, np.zeros(2), zero, one) == 1  # an exact 0, a doubtful sign, a sure one
    assert step[0].tolist() == [0.0, 1.0, 1.0]


def test_classes_of_coordinates() -> None:
    r = SMALL.change(supports="independent", s=60)
    data, _ = draw_touched(r, 0, 0)
    small, onto = collapsed.collapse(data)
    users = (data.x != 0).any(1).sum(0)
    shared = int((users > 1).sum())
    samples = len({int(data.x[:, :, c].any(1).nonzero()[0]) for c in (users == 1).nonzero()[:, 0] if c})
    assert small.x.shape[-1] == shared + samples  # coordinate 1 is shared by all
    w = torch.randn(3, data.x.shape[-1], dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(torch.einsum("kd,nld->knl", w, data.x), torch.einsum("kd,nld->knl", w @ onto, small.x))
    torch.testing.assert_close(small.x.abs().sum(-1), data.x.abs().sum(-1))


def test_sparse_overlap_in_a_million_dimensions_is_small() -> None:
    # Two of 20 x 40 coordinates in 10^6 - 1 coincide in a trial with probability .27; most coordinates collapse anyway.
    r = regimes.get("fig1").change(d=10**6, supports="independent", horizon=1e-3)
    data, coordinates = draw_touched(r, 0, 0)
    assert len(coordinates) == data.x.shape[-1] <= 801
    assert collapsed.collapse(data)[0].x.shape[-1] <= 31
    assert simulate(draw(r, 0, 0), "reduced").simulator == "reduced"


def test_attention_of_a_longer_context_sums_to_one_and_gives_the_gaps() -> None:
    tr = collapsed.simulate(draw(SMALL.change(L=5, d=700, signal_patches=2), 0, 0))
    assert tr.log_attention is not None
    attention = np.exp(tr.log_attention)
    np.testing.assert_allclose(attention.sum(-1), 1, rtol=1e-13)
    for row, gap in ((0, tr.gap_signal), (2, tr.gap_noise)):
        mass = attention[:, :, row, :2].sum(-1)
        np.testing.assert_allclose(np.log(mass / (1 - mass)), gap, atol=1e-12)
    assert not tr.exact
