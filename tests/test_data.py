"""Definition 2.1: signal patch, supports, labels, positions, for two and more patches."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from verify import Regime, RegimeError
from verify.data import draw_data, supports

SMALL = Regime(name="small", n=12, d=500, s=10, sigma_p=0.5, m_k=3, m_v=3, sigma_0=0.01, eta=1e-3)


@pytest.mark.parametrize("L", [2, 3, 5])
def test_one_patch_is_the_signal_and_the_others_are_sparse_noise(L: int) -> None:
    data = draw_data(SMALL.change(L=L), 0, 0)
    assert data.x.shape == (12, L, 500)
    assert data.x.dtype == torch.float64
    signal = data.x[torch.arange(12), data.position]
    assert torch.equal(signal[:, 0], data.y)
    assert (signal[:, 1:] == 0).all()
    assert data.noise.shape == (12, L - 1, 500)
    assert (data.noise[..., 0] == 0).all()
    assert ((data.noise != 0).sum(-1) == 10).all()
    assert set(data.y.tolist()) == {-1.0, 1.0}
    assert set(data.position.tolist()) <= set(range(L))
    assert len(set(data.position.tolist())) > 1


def test_disjoint_supports_share_no_coordinate_and_independent_ones_do() -> None:
    touched = lambda r: (draw_data(r, 0, 0).noise != 0).sum((0, 1))  # noqa: E731
    assert int(touched(SMALL).max()) == 1
    # 12*11/2 pairs of 10 out of 499 share no coordinate with probability about (1 - .18)^66 = 2e-6.
    assert int(touched(SMALL.change(supports="independent")).max()) > 1


def test_supports_are_uniform() -> None:
    # Each of 9 coordinates is taken 6 times in 10: over 1,000 trials a count has deviation 15; 6 of them are exceeded with
    # probability 2e-9 * 18.
    r = Regime(name="tiny", n=2, d=10, s=3, sigma_p=1.0, m_k=1, m_v=1, sigma_0=1.0, eta=1e-3)
    for kind, share in (("disjoint", 6 / 9), ("independent", 1 - (6 / 9) ** 2)):
        taken = np.zeros(10)
        for trial in range(1000):
            taken[np.unique(supports(r.change(supports=kind), 0, trial))] += 1
        assert taken[0] == 0
        assert np.abs(taken[1:] - 1000 * share).max() < 6 * np.sqrt(1000 * share * (1 - share))


@pytest.mark.parametrize("kind", ["disjoint", "independent"])
def test_more_samples_extend_the_data(kind: str) -> None:
    few, many = (draw_data(SMALL.change(n=n, supports=kind), 1, 2) for n in (5, 12))
    assert torch.equal(many.x[:5], few.x)


def test_a_mirror_is_its_own_inverse_and_keeps_the_folded_noise() -> None:
    data = draw_data(SMALL, 0, 0)
    which = np.arange(12) % 3 == 0
    once = data.mirrored(which)
    assert torch.equal(once.y[:, None] * once.noise[:, 0], data.y[:, None] * data.noise[:, 0])
    assert not torch.equal(once.y, data.y)
    assert torch.equal(once.mirrored(which).x, data.x)


def test_relabelling_moves_the_signal_with_the_label() -> None:
    data = draw_data(SMALL, 0, 0)
    other = data.relabelled(np.ones(12, bool))
    assert torch.equal(other.y, -data.y)
    assert torch.equal(other.noise, data.noise)
    assert torch.equal(other.x[torch.arange(12), other.position, 0], other.y)


def test_touched_coordinates_hold_every_entry() -> None:
    data = draw_data(SMALL, 0, 0)
    assert len(data.touched) == 1 + 12 * 10
    assert int(data.touched[0]) == 0
    short = data.columns(data.touched)
    assert short.x.shape == (12, 2, 121)
    np.testing.assert_allclose(short.x.abs().sum(-1).numpy(), data.x.abs().sum(-1).numpy(), rtol=1e-14)


@pytest.mark.parametrize(
    ("change", "words"),
    [({"d": 10**8}, "do not fit in memory"), ({"d": 10, "s": 10, "supports": "independent"}, "lower s")],
)
def test_impossible_data_are_refused(change: dict, words: str) -> None:
    with pytest.raises(RegimeError, match=words):
        draw_data(SMALL.change(**change), 0, 0)
