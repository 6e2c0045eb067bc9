"""Definition 2.1: signal patch, supports, labels, positions, for two and more patches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from verify import Regime, RegimeError, draw, get
from verify.data import draw_data, supports
from verify.regime import load
from verify.start import noise_values

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


def test_overlap_is_the_share_of_common_coordinates() -> None:
    for overlap, common in ((0.0, 0), (0.3, 3), (1.0, 10)):
        used = (draw_data(SMALL.change(overlap=overlap), 0, 0).noise != 0).sum((0, 1))
        assert int((used == 12).sum()) == common
        assert int((used == 1).sum()) == 12 * (10 - common)


def test_noise_on_the_signal_coordinate_has_its_probability() -> None:
    # 120 patches per trial, 10 trials: Bin(1200, .25) lies within 6 deviations (90) but for 2e-9.
    r = SMALL.change(n=120, d=2000, on_signal=0.25)
    met = sum(int((draw_data(r, 0, trial).noise[..., 0] != 0).sum()) for trial in range(10))
    assert abs(met - 300) < 90


def test_orthogonal_noise_keeps_its_norms() -> None:
    r = SMALL.change(d=60, s=59, supports="independent")
    plain, noise = draw_data(r, 0, 0).noise[:, 0], draw_data(r.change(orthogonal=True), 0, 0).noise[:, 0]
    torch.testing.assert_close(noise @ noise.T, torch.diag(plain.square().sum(1)), rtol=1e-13, atol=1e-12)
    torch.testing.assert_close(noise[0], plain[0])
    assert (noise[:, 0] == 0).all()


@pytest.mark.parametrize("k", [1, 2, 4])
def test_signal_patches_are_where_they_are_said_to_be(k: int) -> None:
    data = draw_data(SMALL.change(L=5, signal_patches=k), 0, 0)
    assert (data.is_signal.sum(1) == k).all()
    assert torch.equal(data.x[..., 0], data.y[:, None] * data.is_signal)
    assert data.noise.shape == (12, 5 - k, 500)
    assert torch.equal(data.is_signal[torch.arange(12), data.position], torch.ones(12, dtype=torch.bool))
    first = draw_data(SMALL.change(L=5), 0, 0).position
    assert data.is_signal[torch.arange(12), first].all()


def test_identical_and_dominant_patches() -> None:
    same = draw_data(SMALL.change(L=4, identical=True), 0, 0).noise
    assert torch.equal(same[:, 0], same[:, 1])
    assert torch.equal(same[:, 0], same[:, 2])
    plain, large = (draw_data(SMALL.change(L=4, dominance=x), 0, 0).noise for x in (1.0, 4.0))
    torch.testing.assert_close(large[:, 0], 4 * plain[:, 0])
    assert torch.equal(large[:, 1:], plain[:, 1:])
    np.testing.assert_allclose(draw(SMALL.change(L=4, dominance=4.0), 0, 0).l1, large[:, 0].abs().sum(1).numpy())


def test_heavy_tails_keep_the_variance_and_raise_the_kurtosis() -> None:
    # t with 10 degrees: variance 1, fourth moment 4 (Gaussian: 3). Over 2e5 values the deviations of the two means are
    # sqrt(3/2e5) = .004 and sqrt((E x^8 - 16)/2e5) = sqrt(584/2e5) = .054; six of each.
    r = SMALL.change(n=200, s=1000, d=10**6, tail=0.1)
    x = noise_values(r, 0, 0) / r.sigma_p
    assert abs((x**2).mean() - 1) < 0.024
    assert abs((x**4).mean() - 4) < 0.33
    start = draw(r, 0, 0)
    np.testing.assert_allclose(start.l1, r.sigma_p * np.abs(x).sum(1))
    np.testing.assert_allclose(start.l2, r.sigma_p * np.sqrt((x**2).sum(1)))


def test_label_noise_turns_the_signal_of_a_share_of_samples() -> None:
    # Bin(400, .25) lies within 6 deviations (52) of 100 but for 2e-9.
    r = SMALL.change(n=400, d=5000, label_noise=0.25)
    noisy, clean = draw_data(r, 0, 0), draw_data(r.change(label_noise=0.0), 0, 0)
    assert torch.equal(noisy.noise, clean.noise)
    assert torch.equal(noisy.y, clean.y)
    turned = noisy.x[torch.arange(400), noisy.position, 0] != noisy.y
    assert torch.equal(turned, noisy.mislabelled)
    assert abs(int(turned.sum()) - 100) < 52


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"overlap": 1.5}, "share from 0 to 1"),
        ({"overlap": 0.5, "supports": "independent"}, "disjoint supports"),
        ({"tail": 0.5}, "finite variance"),
        ({"dominance": 0.5}, "from 1 to 1e6"),
        ({"signal_patches": 2}, "L-1 = 1"),
        ({"L": 3, "identical": True, "dominance": 2.0}, "alike"),
        ({"d": 10, "s": 9, "supports": "independent", "orthogonal": True}, "cannot be made orthogonal"),
        ({"supports": "independent", "orthogonal": True, "on_signal": 0.1}, "no part along the signal"),
        ({"d": 30}, "disjointly"),
    ],
)
def test_impossible_violations_are_refused(change: dict, words: str) -> None:
    with pytest.raises(RegimeError, match=words):
        SMALL.change(**change)


@pytest.mark.parametrize("name", ["fig1-overlapping", "fig1-dense-orthogonal", "fig1-L5-2"])
def test_violations_survive_a_round_trip_through_toml(name: str, tmp_path: Path) -> None:
    r = get(name).change(tail=0.2, label_noise=0.1, name="all")
    path = tmp_path / "all.toml"
    path.write_text(r.to_toml())
    assert load(path) == r
    assert load(path).hash == r.hash != get(name).hash


def test_a_violation_that_is_off_does_not_change_the_hash() -> None:
    off = {"overlap": 0.0, "on_signal": 0.0, "orthogonal": False, "signal_patches": 1, "identical": False, "dominance": 1.0}
    r = SMALL.change(**off, tail=0.0, label_noise=0.0)
    assert r.hash == SMALL.hash
    assert SMALL.change(tail=0.1).hash != SMALL.hash
