"""Starts: keyed streams, shared by neighbouring regimes and by data and weights; exact and large-s norms have one law."""

from __future__ import annotations

import math

import numpy as np
import pytest

from verify import Regime, RegimeError, draw, normals
from verify import regime as regimes
from verify.data import draw_data
from verify.start import noise_values, stream, streams

SMALL = Regime(name="small", n=6, d=2000, s=30, sigma_p=0.5, m_k=4, m_v=9, sigma_0=0.01, eta=1e-3)


def test_a_larger_regime_extends_the_start_of_a_smaller_one() -> None:
    small = draw(SMALL, 3, 7)
    for change in ({"n": 9}, {"m_k": 11}, {"n": 9, "m_k": 11}, {"eta": 0.5}, {"d": 5000}, {"horizon": 1.0}):
        large = draw(SMALL.change(**change), 3, 7)
        for name in ("l1", "l2", "labels", "value_noise", "query_signal", "key_signal"):
            ours = getattr(small, name)
            np.testing.assert_array_equal(getattr(large, name)[: len(ours)], ours)
        np.testing.assert_array_equal(large.query_noise[:4, :6], small.query_noise)
        np.testing.assert_array_equal(large.key_noise[:4, :6], small.key_noise)
        assert large.value_signal == small.value_signal


def test_a_regime_only_scales_the_draws() -> None:
    a, b = draw(SMALL, 0, 0), draw(SMALL.change(sigma_0=0.02, m_v=36, sigma_p=1.5), 0, 0)
    np.testing.assert_allclose(b.l1, 3 * a.l1, rtol=1e-14)
    np.testing.assert_allclose(b.query_noise, 6 * a.query_noise, rtol=1e-14)
    np.testing.assert_allclose(b.key_signal, 2 * a.key_signal, rtol=1e-14)
    np.testing.assert_allclose(b.value_noise, 3 * a.value_noise, rtol=1e-14)  # 2 (sigma_0) * 3 (norm) / 2 (sqrt m_v)


def test_streams_do_not_depend_on_the_order_of_drawing() -> None:
    first = [stream(0, 1, name, i).standard_normal(5) for name in ("a", "b") for i in range(3)]
    again = [stream(0, 1, name, i).standard_normal(5) for name in ("b", "a") for i in (2, 0, 1)]
    order = [3 + 2, 3 + 0, 3 + 1, 2, 0, 1]
    np.testing.assert_array_equal([first[k] for k in order], again)
    np.testing.assert_array_equal(draw(SMALL, 0, 5).l1, [draw(SMALL, 0, t).l1 for t in (4, 5)][1])


def test_streams_of_different_keys_are_uncorrelated() -> None:
    # 15 correlations of 10,000 pairs, each |r| > 0.05 with probability 6e-7: a false alarm has probability 1e-5.
    keys = [(0, 0, "a", 0), (0, 0, "a", 1), (0, 0, "b", 0), (0, 1, "a", 0), (1, 0, "a", 0), (1, 1, "b", 1)]
    r = np.corrcoef([stream(*key).standard_normal(10_000) for key in keys])
    assert np.abs(r[np.triu_indices(6, 1)]).max() < 0.05


@pytest.mark.parametrize("supports", ["disjoint", "independent"])
def test_norms_and_labels_are_those_of_the_data(supports: str) -> None:
    r = SMALL.change(supports=supports)
    start, data = draw(r, 2, 4), draw_data(r, 2, 4)
    noise = data.noise[:, 0].numpy()
    np.testing.assert_allclose(np.abs(noise).sum(1), start.l1, rtol=1e-13)
    np.testing.assert_allclose(np.sqrt((noise**2).sum(1)), start.l2, rtol=1e-13)
    np.testing.assert_array_equal(data.y.numpy(), start.labels)


@pytest.mark.parametrize("s", [1000, 1_000_000], ids=["every coordinate drawn", "central limit"])
def test_norms_have_the_moments_of_half_normal_sums(s: int) -> None:
    # Mean sqrt(2/pi), 1; variance 1-2/pi, 2; correlation sqrt(2/pi)/sqrt(2(1-2/pi)) = .936 for (||.||_1, ||.||_2^2)/s.
    # 2,000 samples; each of the five bounds is 5 standard errors wide: a false alarm has probability 3e-6.
    n = 2000
    start = draw(Regime(name="norms", n=n, d=n * s + 1, s=s, sigma_p=2.0, m_k=1, m_v=1, sigma_0=1.0, eta=1e-3), 0, 0)
    c = math.sqrt(2 / math.pi)
    a = (start.l1 / 2 - c * s) / math.sqrt(s * (1 - c * c))
    b = ((start.l2 / 2) ** 2 - s) / math.sqrt(2 * s)
    for z in (a, b):
        assert abs(z.mean()) < 5 / math.sqrt(n)
        assert abs(z.var() - 1) < 5 * math.sqrt(2 / n)
    rho = c / math.sqrt(2 * (1 - c * c))
    assert abs(math.atanh(np.corrcoef(a, b)[0, 1]) - math.atanh(rho)) < 5 / math.sqrt(n - 3)


def test_noise_that_does_not_fit_is_refused_with_advice() -> None:
    with pytest.raises(RegimeError, match="reduced or flow"):
        noise_values(regimes.get("trap").change(d=10**9, n=60), 0, 0)


def test_normals_rows_have_their_own_streams() -> None:
    wide, narrow = normals(0, 0, "x", 3, 8), normals(0, 0, "x", 2, 5)
    np.testing.assert_array_equal(wide[:2, :5], narrow)


@pytest.mark.parametrize("root", [0, 7, 2**32 - 1, 2**32, 2**64, 2**96 + 5, 2**200 + 1])
@pytest.mark.parametrize("trial", [0, 119, 2**40])
def test_streams_in_bulk_are_the_streams(root: int, trial: int) -> None:
    bulk = [(g.standard_normal(), g.integers(2), g.integers(2, dtype=np.uint32)) for g in streams(root, trial, "labels", 5)]
    single = [stream(root, trial, "labels", i) for i in range(5)]
    assert bulk == [(g.standard_normal(), g.integers(2), g.integers(2, dtype=np.uint32)) for g in single]
