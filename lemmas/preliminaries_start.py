"""Appendix C, the initial weights: upper and lower bounds on the initial inner products and softmax outputs (C.6-C.8, C.12-C.14)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats as distributions

from verify import (
    START,
    Check,
    Regime,
    Start,
    both,
    claim,
    constants,
    custom,
    everywhere,
    on_samples,
    sigmoid,
    slack_above,
    slack_below,
    stream,
)
from verify.stats import exact

Array = NDArray[np.float64]
DELTA = constants.DELTA


def signal_ceiling(count: int) -> float:
    r"""$\sqrt{2\log(8m/\delta)}$: bound on `count` = m rows' inner products with μ, in units of σ_0."""
    return math.sqrt(2 * math.log(8 * count / DELTA))


def noise_ceiling(count: int) -> float:
    r"""$2\sqrt{\log(8mn/\delta)}$: bound on `count` = mn inner products with the noise, in units of $\sigma_0\sigma_p\sqrt s$."""
    return 2 * math.sqrt(math.log(8 * count / DELTA))


def noise_floor(r: Regime) -> float:
    r"""C.12's $\sqrt{\frac\pi2\log\frac1{1-(\delta/(2m_kn))^2}}$, in units of $\sigma_0\|\xi_i\|_2$."""
    return math.sqrt(math.pi / 2 * -math.log1p(-((DELTA / (2 * r.m_k * r.n)) ** 2)))


def gap_floor(r: Regime) -> float:
    r"""C.14's $\frac{\sqrt\pi}2\frac\delta{m_kn}$, in units of $\sigma_0\|\xi_i\|_2$."""
    return math.sqrt(math.pi) / 2 * DELTA / (r.m_k * r.n)


def either(first: float, second: float) -> float:
    """P(one of two independent failures)."""
    return -math.expm1(math.log1p(-first) + math.log1p(-second)) if max(first, second) < 1 else 1.0


def ceilings_exact(r: Regime, count: int) -> float:
    """Exact probability that one of `count` rows exceeds the ceilings of C.6 or C.8 (signal and noise)."""
    signal = exact.half_normal_exceeds(signal_ceiling(count // 2), count)
    return either(signal, exact.noise_exceeds(noise_ceiling(count // 2 * r.n), count, r.n, r.s))


def below_ceilings(signal: Array | float, noise: Array, signal_bound: float, noise_bound: float, *, samples: bool) -> Check:
    """Both kinds of inner products stay below their ceilings; tightness: largest measured over bound."""
    signal, noise = np.abs(signal), np.abs(noise)
    tightness = float(max(signal.max() / signal_bound, noise.max() / noise_bound))
    ratios: dict[str, Any] = {"signal_over_bound": float(signal.max() / signal_bound), "noise_over_bound": float(noise.max() / noise_bound)}
    over_noise = everywhere("all", slack_below(noise, noise_bound), tightness=tightness, tau=0.0, **ratios)
    over_signal = everywhere("all", slack_below(signal, signal_bound), tightness=tightness, tau=0.0)
    return both(over_signal, on_samples(over_noise) if samples else over_noise)


def half_normal_maximum(count: int, uniform: Array) -> Array:
    """Maximum of `count` half-normals from one uniform variate each: exact by inversion, however many there are."""
    above = -np.expm1(np.log(uniform) / count)
    return np.asarray(distributions.norm.isf(above / 2))


def largest_rows(regime: Regime, root: int, trial: int) -> Array:
    r"""Largest $|\langle w_{V,j,r},x\rangle|/(\sigma_0\|x\|_2)$ over the 2m_v rows, for μ and then for each ξ_i; shape (n+1,).

    The rows are not drawn (m_v may be 1e15): μ and the ξ_i are orthogonal, so that the maxima are independent.
    """
    return half_normal_maximum(2 * regime.m_v, stream(root, trial, "value_rows").random(regime.n + 1))


@claim(
    "C.6",
    "Initial value rows are small",
    source="Lemma C.6",
    kind="probabilistic",
    depends_on=["C.4"],
    inputs=[START, custom(largest_rows)],
    exact=lambda r: ceilings_exact(r, 2 * r.m_v),
)
def value_rows_small(start: Start, largest: Array) -> Check:
    r"""With probability at least $1-\delta$, for all $j,r,i$: $|\langle w_{V,j,r},\mu\rangle|\le\sqrt{2\log(8m_v/\delta)}\,\sigma_0$ and $|\langle w_{V,j,r},\xi_i\rangle|\le2\sqrt{\log(8m_vn/\delta)}\,\sigma_0\sigma_p\sqrt s$.

    Conditions: Lemma C.4, used by the proof only.
    Measured: (bound − |inner product|)/bound, the smallest over rows, per sample; positive holds. Tightness: largest |inner product| over its bound.
    Made finite: $\delta=0.1$; judged with the realised norms, whether C.4 holds or not; maxima over rows are drawn by inversion (by this project).
    Source: Lemma C.6.
    """
    r = start.regime
    signal, noise = signal_ceiling(r.m_v) * r.sigma_0, noise_ceiling(r.m_v * r.n) * r.sigma_0 * r.sigma_p * math.sqrt(r.s)
    return below_ceilings(r.sigma_0 * float(largest[0]), r.sigma_0 * start.l2 * largest[1:], signal, noise, samples=True)


@value_rows_small.control("inner products with the noise three times as large")
def _(start: Start, largest: Array) -> tuple[Start, Array]:
    return start, largest * np.append(1.0, np.full(largest.size - 1, 3.0))


@value_rows_small.control("inner products with the signal three times as large")
def _(start: Start, largest: Array) -> tuple[Start, Array]:
    return start, largest * np.append(3.0, np.ones(largest.size - 1))


@claim(
    "C.7",
    "Initial value signal and value noise are small",
    source="Lemma C.7",
    kind="probabilistic",
    depends_on=["C.4"],
    inputs=[START],
    exact=lambda r: either(
        exact.half_normal_exceeds(math.sqrt(2 * math.log(8 / DELTA))),
        exact.noise_exceeds(noise_ceiling(r.n), 1, r.n, r.s),
    ),
)
def values_small(start: Start) -> Check:
    r"""With probability at least $1-\delta$: $|V_\mu|\le2\sqrt{\log(8/\delta)}\,\sigma_0m_v^{-1/2}$ and $|V_i|\le2\sqrt{2\log(8n/\delta)}\,\sigma_0m_v^{-1/2}\sigma_p\sqrt s$ for all $i$.

    Conditions: Lemma C.4, used by the proof only.
    Measured: (bound − |value|)/bound, per sample; positive holds. Tightness: largest |value| over its bound.
    Made finite: $\delta=0.1$; judged with the realised norms, whether C.4 holds or not (by this project).
    Source: Lemma C.7.
    """
    r = start.regime
    scale = r.sigma_0 / math.sqrt(r.m_v)
    signal = 2 * math.sqrt(math.log(8 / DELTA)) * scale
    noise = 2 * math.sqrt(2 * math.log(8 * r.n / DELTA)) * scale * r.sigma_p * math.sqrt(r.s)
    return below_ceilings(start.value_signal, start.value_noise, signal, noise, samples=True)


@values_small.control("value noise five times as large")
def _(start: Start) -> Start:
    return start.replace(value_noise=5 * start.value_noise)


@claim(
    "C.8",
    "Initial query and key inner products are small",
    source="Lemma C.8",
    kind="probabilistic",
    depends_on=["C.4"],
    inputs=[START],
    exact=lambda r: ceilings_exact(r, 2 * r.m_k),
)
def queries_and_keys_small(start: Start) -> Check:
    r"""With probability at least $1-\delta$, for all $s,i$: $|q_s|,|k_s|\le\beta_\mu:=\sqrt{2\log(8m_k/\delta)}\,\sigma_0$ and $|Q_{s,i}|,|K_{s,i}|\le2\sqrt{\log(8m_kn/\delta)}\,\sigma_0\sigma_p\sqrt s$.

    Conditions: Lemma C.4, used by the proof only.
    Measured: (bound − |inner product|)/bound, per neuron and per pair, the larger of query and key; positive holds. Tightness: largest |inner product| over its bound.
    Made finite: $\delta=0.1$; judged with the realised norms, whether C.4 holds or not (by this project).
    Source: Lemma C.8.
    """
    r = start.regime
    signal, noise = signal_ceiling(r.m_k) * r.sigma_0, noise_ceiling(r.m_k * r.n) * r.sigma_0 * r.sigma_p * math.sqrt(r.s)
    larger_signal = np.maximum(np.abs(start.query_signal), np.abs(start.key_signal))
    larger_noise = np.maximum(np.abs(start.query_noise), np.abs(start.key_noise))
    return below_ceilings(larger_signal, larger_noise, signal, noise, samples=False)


@queries_and_keys_small.control("query noise three times as large")
def _(start: Start) -> Start:
    return start.replace(query_noise=3 * start.query_noise)


@queries_and_keys_small.control("key signal three times as large")
def _(start: Start) -> Start:
    return start.replace(key_signal=3 * start.key_signal)


@claim(
    "C.12",
    "Initial query and key noise are bounded away from zero",
    source="Lemma C.12",
    kind="probabilistic",
    depends_on=["C.9", "C.4"],
    inputs=[START],
    exact=lambda r: exact.half_normal_below(noise_floor(r), 2 * r.m_k * r.n),
)
def noise_not_small(start: Start) -> Check:
    r"""With probability at least $1-\delta$, for all $s,i$: $|Q_{s,i}|,|K_{s,i}|\ge\sigma_0\|\xi_i\|_2\sqrt{\frac\pi2\log\frac1{1-(\delta/(2m_kn))^2}}$ at $t=0$.

    Conditions: none; with C.4, $\|\xi_i\|_2\ge\sigma_p\sqrt{s/2}$ gives the bound β_ξ of C.10.
    Measured: (smaller of |Q| and |K| − bound)/bound per pair; positive holds. Tightness: smallest noise over its bound; and the exact probability is $1-(1-\operatorname{erf}(c/\sqrt2))^{2m_kn}$, c the bound in units of $\sigma_0\|\xi_i\|_2$.
    Made finite: $\delta=0.1$ (by this project).
    Source: Lemma C.12.
    """
    r = start.regime
    size = np.minimum(np.abs(start.query_noise), np.abs(start.key_noise)) / (r.sigma_0 * start.l2)
    probability = exact.half_normal_below(noise_floor(r), 2 * r.m_k * r.n)
    tightness = float(size.min() / noise_floor(r))
    return everywhere("all", slack_above(size, noise_floor(r)), tau=0.0, tightness=tightness, exact_over_delta=probability / DELTA)


@noise_not_small.control("one pair's query noise is zero")
def _(start: Start) -> Start:
    query = start.query_noise.copy()
    query[0, 0] = 0.0
    return start.replace(query_noise=query)


def softmax_width(r: Regime) -> float:
    r"""C.13's $\zeta=4m_k\log(8m_kn/\delta)\sigma_0^2\sigma_p^2s$."""
    return 4 * r.m_k * math.log(8 * r.m_k * r.n / DELTA) * r.sigma_0**2 * r.sigma_p**2 * r.s


def width_trivial(r: Regime) -> str | None:
    """Why C.13 says nothing, if so."""
    zeta = softmax_width(r)
    return f"ζ = {zeta:.3g} ≥ 1: the stated interval |s − 1/2| ≤ ζ/2 contains [0, 1]" if zeta >= 1 else None


def initial_gaps(start: Start) -> tuple[Array, Array]:
    """Logit gaps of the signal's and of the noise's row at t = 0, shape (n,) each."""
    q, k, Q, K = start.query_signal, start.key_signal, start.query_noise, start.key_noise
    return q @ k - q @ K, k @ Q - (Q * K).sum(axis=0)


@claim(
    "C.13",
    "Initial softmax outputs are close to 1/2",
    source="Lemma C.13",
    kind="probabilistic",
    conditions=["initialization"],
    depends_on=["C.8"],
    inputs=[START],
    trivial=width_trivial,
    undefined=lambda r: None if r.L == 2 else "the reduced start holds one signal and one noise patch, L = 2",
)
def softmax_near_half(start: Start) -> Check:
    r"""With $\zeta=4m_k\log(8m_kn/\delta)\sigma_0^2\sigma_p^2s$ and probability at least $1-\delta$: $\frac1{1+(L-1)e^{2\zeta}}\le s_{i,la}\le\frac1{1+(L-1)e^{-2\zeta}}$ for all $i,l,a$ at $t=0$; for $L=2$, $|s-\tfrac12|\le\zeta/2$.

    Conditions: a small initialization; Lemma C.8.
    Measured: 1 − |logit gap|/(2ζ), the larger gap of both rows, per sample; positive holds. Tightness: largest |s − ½| over ζ/2 (the bound adds up absolute values, a typical sum of m_k products has random signs).
    Made finite: $L=2$, $\delta=0.1$; where ζ ≥ 1 the interval is trivial (by this project).
    Source: Lemma C.13.
    """
    zeta = softmax_width(start.regime)
    gap = np.maximum(*(np.abs(g) for g in initial_gaps(start)))
    tightness = float(np.max(sigmoid(gap) - 0.5) / (zeta / 2))
    check = everywhere("all", slack_below(gap, 2 * zeta), tau=0.0, tightness=tightness, zeta=zeta)
    return on_samples(check)


@softmax_near_half.control("key noise equal to query noise and both twelve times as large")
def _(start: Start) -> Start:
    return start.replace(query_noise=12 * start.query_noise, key_noise=12 * start.query_noise)


@claim(
    "C.14",
    "Initial query and key noise differ in size",
    source="Lemma C.14",
    kind="probabilistic",
    inputs=[START],
    exact=lambda r: exact.half_normal_gap_below(gap_floor(r), r.m_k * r.n),
)
def sizes_differ(start: Start) -> Check:
    r"""With probability at least $1-\delta$, for all $s,i$: $\big||Q_{s,i}|-|K_{s,i}|\big|\ge\frac{\sqrt\pi}2\frac{\delta\sigma_0\|\xi_i\|_2}{m_kn}$ at $t=0$.

    Conditions: none.
    Measured: (||Q| − |K|| − bound)/bound per pair; positive holds. Tightness: smallest difference over its bound; and the exact probability is $1-(1-\operatorname{erf}(c/2))^{2m_kn}$, c the bound in units of $\sigma_0\|\xi_i\|_2$.
    Made finite: $\delta=0.1$ (by this project).
    Source: Lemma C.14.
    """
    r = start.regime
    gap = np.abs(np.abs(start.query_noise) - np.abs(start.key_noise)) / (r.sigma_0 * start.l2)
    probability = exact.half_normal_gap_below(gap_floor(r), r.m_k * r.n)
    tightness = float(gap.min() / gap_floor(r))
    return everywhere("all", slack_above(gap, gap_floor(r)), tau=0.0, tightness=tightness, exact_over_delta=probability / DELTA)


@sizes_differ.control("one pair's key noise is minus its query noise")
def _(start: Start) -> Start:
    key = start.key_noise.copy()
    key[0, 0] = -start.query_noise[0, 0]
    return start.replace(key_noise=key)
