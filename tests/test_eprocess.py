"""The anytime-valid verdict: calibration under optional stopping, and its behaviour at the extremes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, stats

from verify.constants import ALPHA, DELTA
from verify.stats.eprocess import EProcess, log_e


@pytest.mark.parametrize(("k", "n"), [(0, 0), (0, 40), (3, 17), (5, 5), (12, 60)])
@pytest.mark.parametrize("above", [True, False])
def test_closed_form_is_the_integral(k: int, n: int, above: bool) -> None:
    lo, hi = (DELTA, 1.0) if above else (0.0, DELTA)
    ratio = lambda t: t**k * (1 - t) ** (n - k) / (DELTA**k * (1 - DELTA) ** (n - k))  # noqa: E731
    expected = integrate.quad(ratio, lo, hi, epsabs=0, epsrel=1e-10)[0] / (hi - lo)
    assert math.exp(log_e(k, n, DELTA, above=above)) == pytest.approx(expected, rel=1e-8)


def test_all_violations_refute_after_five_and_none_support_after_111() -> None:
    # 10^k (1 - 0.1^(k+1)) / (0.9 (k+1)) first reaches 1e4 at k = 5; (1 - 0.9^(n+1)) / (0.1 (n+1) 0.9^n) at n = 111.
    bad, good = EProcess(), EProcess()
    assert [bad.add(False) for _ in range(5)] == ["INCONCLUSIVE"] * 4 + ["REFUTED"]
    verdicts = [good.add(True) for _ in range(120)]
    first = verdicts.index("SUPPORTED") + 1
    value = lambda n: (1 - 0.9 ** (n + 1)) / (0.1 * (n + 1) * 0.9**n)  # noqa: E731
    assert value(first) >= 1e4 > value(first - 1)
    assert first == 111


def test_underflow_is_no_support() -> None:
    assert log_e(900, 1000, DELTA, above=False) < 0
    assert log_e(90_000, 100_000, DELTA, above=False) < 0
    assert log_e(0, 100_000, DELTA, above=True) < 0


def test_optional_stopping_is_calibrated_at_the_boundary() -> None:
    """2,000 streams of 400 trials at rate exactly delta, looked at after every trial.

    False verdicts of one kind are at most Bin(2000, alpha); its 99.99 % quantile is the limit, so this test fails by chance
    with probability at most 2e-4.
    """
    rng = np.random.default_rng(20261201)
    limit = int(stats.binom.ppf(0.9999, 2000, ALPHA))
    counts = np.cumsum(rng.random((2000, 400)) < DELTA, axis=1)
    n = np.broadcast_to(np.arange(1, 401), counts.shape)
    crossed = {above: (log_e(counts, n, DELTA, above=above) >= -math.log(ALPHA)).any(axis=1).sum() for above in (True, False)}
    assert crossed[True] <= limit
    assert crossed[False] <= limit


def test_verdict_is_latched() -> None:
    stream = EProcess()
    for _ in range(5):
        stream.add(False)
    for _ in range(50):
        stream.add(True)
    assert stream.verdict == "REFUTED"
