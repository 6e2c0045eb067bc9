"""Vanishing trends and exponents of Stages III and IV: what the o(1) and Θ of the paper say along a ladder."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lemmas.events import reached
from lemmas.stage3_noise import margin_of
from lemmas.stage4_end import loss_at
from verify import Fit, Regime, Trajectory, claim, fit_exponent, get, sigmoid, times

Measures = list[tuple[int, Any]]
WIDTHS = (16, 64, 256, 1024)
SAMPLES = (9, 17, 33, 65)


def widths(n: int = 17) -> list[Regime]:
    """Rungs in m_k at n = 17, run just past T4 (the trends of E.15 and 4.8.2 look no further)."""
    rungs = [get(f"ladder-{n}-mk{m}" if m != 64 else f"ladder-{n}") for m in WIDTHS]
    return [r.change(horizon=1.02 * times.LAST * times.predicted_t4_minus(r)) for r in rungs]


def by_rung(measures: Measures, count: int) -> list[list[float]]:
    """Measured values of each rung."""
    return [[float(value) for rung, value in measures if rung == index] for index in range(count)]


def exponent(measures: Measures, x: list[float], theory: float, predicted: list[float] | None = None) -> Fit:
    """Fit of log measured (over predicted, if given) against log x."""
    return fit_exponent(x, by_rung(measures, len(x)), theory, predicted=predicted)


@claim(
    "E.15.trend",
    "The output at 4T_4^- vanishes with the number of neurons",
    source="Lemma E.15",
    kind="scaling",
    conditions=["key_width"],
    depends_on=["E.15"],
    rungs=widths(),
    trials_per_rung=3,
    over="law",
    suite="full",
    units="exponent in m_k",
)
def output_trend(measures: Measures, _regime: None = None) -> Fit:
    r"""The mean of $y_if_i$ at $4T_4^-$, hence $\tfrac12-g_i$ once small, decays as $m_k^{-1/2}$.

    Conditions: the number of neurons drives it.
    Measured: the fitted exponent of the mean output in m_k, over m_k = 16…1024 at n = 17; positive margin: within 0.1 of −1/2.
    Made finite: n = 17, four rungs over a factor 64 (by this project); the output, not ½ − g, since g saturates.
    Source: Lemma E.15.
    """
    return exponent(measures, [float(m) for m in WIDTHS], -0.5)


@output_trend.measures
def _(tr: Trajectory) -> float:
    return float(np.mean(margin_of(tr.at(4 * tr.time(times.T4_MINUS)))))


@output_trend.control("the output does not depend on m_k")
def _(measure: tuple[int, float]) -> tuple[int, float]:
    rung, value = measure
    return rung, value * math.sqrt(WIDTHS[rung])


@claim(
    "4.8.2.trend",
    "The training loss at T_4 tends to log 2 as the number of neurons grows",
    source="Lemma 4.8 (2)",
    kind="scaling",
    conditions=["key_width"],
    depends_on=["4.8.2"],
    rungs=widths(),
    trials_per_rung=3,
    over="law",
    suite="full",
    units="exponent in m_k",
)
def loss_trend(measures: Measures, _regime: None = None) -> Fit:
    r"""The output that the loss at $T_4$ stands for, $-\log(e^{L_S(T_4)}-1)$, decays as $m_k^{-1/2}$.

    Conditions: the number of neurons drives it.
    Measured: the fitted exponent in m_k, over m_k = 16…1024 at n = 17; positive margin: within 0.1 of −1/2; `loss` lists L_S(T_4) by rung.
    Made finite: n = 17, four rungs over a factor 64 (by this project).
    Source: Lemma 4.8 (2).
    """
    losses = by_rung(measures, len(WIDTHS))
    outputs = [(rung, -math.log(math.expm1(loss))) for rung, loss in measures]
    fit = exponent(outputs, [float(m) for m in WIDTHS], -0.5)
    fit.detail["loss"] = [float(np.median(x)) for x in losses]
    return fit


@loss_trend.measures
def _(tr: Trajectory) -> float:
    return loss_at(tr, min(tr.time(times.T4), tr.end))


@loss_trend.control("the loss does not depend on m_k")
def _(measure: tuple[int, float]) -> tuple[int, float]:
    rung, _ = measure
    return rung, 0.01 * (1 + 0.01 * rung)


@claim(
    "4.5.trend",
    "T_4^- follows its formula along the ladder",
    source="Lemma 4.5 with Lemmas E.21 and E.25",
    kind="scaling",
    conditions=["noise_strength"],
    depends_on=["4.5"],
    rungs=[get(f"ladder-{n}").change(horizon=1.3 * times.predicted_t4_minus(get(f"ladder-{n}"))) for n in SAMPLES],
    over="law",
    suite="full",
    units="exponent of measured/predicted in σ_p s",
)
def dominance_trend(measures: Measures, _regime: None = None) -> Fit:
    r"""$\eta T_4^-\propto(\sigma_ps)^{-1}\sqrt{\log(1.6\sigma_ps)}$ at fixed $m_k$.

    Conditions: strong noise.
    Measured: the fitted exponent of $\eta T_4^-/\sqrt{\log(1.6\sigma_ps)}$ in σ_p s, n = 9…65 (a factor 377); positive margin: within 0.1 of −1.
    Made finite: the log factor divided out (by this project).
    Source: Lemma 4.5, Lemmas E.21 and E.25.
    """
    scale = [float(n**3) for n in SAMPLES]
    return exponent(measures, scale, -1.0, [math.sqrt(math.log(1.6 * x)) for x in scale])


@dominance_trend.measures
def _(tr: Trajectory) -> float:
    return tr.time(times.T4_MINUS)


@dominance_trend.control("T_4^- falls with the square root of σ_p s")
def _(measure: tuple[int, float]) -> tuple[int, float]:
    rung, value = measure
    return rung, value * SAMPLES[rung] ** 1.5


@claim(
    "4.5.trend-width",
    "T_4^- falls with the square root of the number of neurons",
    source="Lemma 4.5 with Lemmas E.21 and E.25",
    kind="scaling",
    conditions=["key_width"],
    depends_on=["4.5"],
    rungs=widths(),
    trials_per_rung=3,
    over="law",
    suite="full",
    units="exponent in m_k",
)
def dominance_width_trend(measures: Measures, _regime: None = None) -> Fit:
    r"""$\eta T_4^-\propto m_k^{-1/2}$ at fixed $\sigma_ps$.

    Conditions: none beyond those of Lemma 4.5.
    Measured: the fitted exponent in m_k, over m_k = 16…1024 at n = 17; positive margin: within 0.1 of −1/2.
    Made finite: n = 17, four rungs over a factor 64 (by this project).
    Source: Lemma 4.5.
    """
    return exponent(measures, [float(m) for m in WIDTHS], -0.5)


dominance_width_trend.measures(lambda tr: tr.time(times.T4_MINUS))


@dominance_width_trend.control("T_4^- does not depend on m_k")
def _(measure: tuple[int, float]) -> tuple[int, float]:
    rung, value = measure
    return rung, value * math.sqrt(WIDTHS[rung])


C_0 = (0.005, 0.01, 0.02, 0.04, 0.08)


@claim(
    "4.4.3.trend",
    "The softmax outputs' distance from 1/2 at T_3 is quadratic in the initialization",
    source="Lemma 4.4 (3)",
    kind="scaling",
    conditions=["initialization"],
    depends_on=["4.4.3"],
    rungs=[
        r.change(sigma_0=r.sigma_0 * c / 0.01, horizon=1.01 * times.formula_times(r)[times.T3] * c / 0.01)
        for r in [get("ladder-33")]
        for c in C_0
    ],
    over="law",
    suite="full",
    units="exponent in σ_0",
)
def half_trend(measures: Measures, _regime: None = None) -> Fit:
    r"""$\max_i|s_{i,21}(T_3)-\tfrac12|\propto\sigma_0^2$ while small.

    Conditions: a small initialization.
    Measured: the fitted exponent of the logit gap of the noise row in σ_0, over a factor 16 at n = 33; positive margin: within 0.1 of 2.
    Made finite: the gap (4|s − ½| once small), since s saturates (by this project).
    Source: Lemma 4.4 (3).
    """
    return exponent(measures, list(C_0), 2.0)


@half_trend.measures
def _(tr: Trajectory) -> float:
    return float(np.abs(tr.at(times.T3).gap_noise).max())


@half_trend.control("distance linear in the initialization")
def _(measure: tuple[int, float]) -> tuple[int, float]:
    rung, value = measure
    return rung, value / C_0[rung]


@claim(
    "E.20.trend",
    "Noise-signal softmax outputs become equal along the ladder",
    source="Lemma E.20",
    kind="scaling",
    conditions=["sparsity"],
    depends_on=["E.20"],
    rungs=[get(f"ladder-{n}").change(horizon=1.3 * times.predicted_t4_minus(get(f"ladder-{n}"))) for n in SAMPLES],
    trials_per_rung=24,
    over="law",
    suite="full",
    units="exponent in s",
)
def comparable_trend(measures: Measures, _regime: None = None) -> Fit:
    r"""$\log\max_{i,k}s_{i,21}/s_{k,21}$ at $T_4^-$, over $2(\log(\sigma_ps)+0.47)$ and the expected range of $n$ standard normals, decays as $s^{-1/2}$.

    Conditions: many noise coordinates.
    Measured: the fitted exponent in s, n = 9…65 (a factor 52); positive margin: within 0.1 of −1/2.
    Made finite: the log factor and the exact expected range of n normals divided out (by this project). History: with 8 trials and the
    asymptotic range $2\sqrt{2\log n}$, 41 % too large at n = 9 and 24 % at 65, it came out INCONCLUSIVE, −.448 [−.498, −.398].
    Source: Lemma E.20.
    """
    scale = [float(n * n) for n in SAMPLES]
    return exponent(measures, scale, -0.5, [(math.log(n**3) + 0.47) * expected_range(n) for n in SAMPLES])


def expected_range(n: int) -> float:
    """E(max - min) of n independent standard normals."""
    from scipy import integrate
    from scipy.special import ndtr

    return float(integrate.quad(lambda x: 1 - ndtr(x) ** n - ndtr(-x) ** n, -12, 12)[0])


@comparable_trend.measures
def _(tr: Trajectory) -> float:
    return float(np.ptp(-np.logaddexp(0, -tr.at(times.T4_MINUS).gap_noise))) if reached(tr, times.T4_MINUS) else math.nan


@comparable_trend.control("ratios do not fall")
def _(measure: tuple[int, float]) -> tuple[int, float]:
    rung, value = measure
    return rung, value * SAMPLES[rung]


@claim(
    "3.2.4.trend",
    "The time at which both rows leave 1/2 follows (m_k σ_p s)^{-1/2}",
    source="Theorem 3.2 (4), Lemma E.42",
    kind="scaling",
    conditions=["noise_strength"],
    depends_on=["3.2.4"],
    rungs=[get(f"ladder-{n}") for n in SAMPLES],
    trials_per_rung=4,
    over="law",
    suite="full",
    units="exponent in σ_p s",
)
def attention_trend(measures: Measures, _regime: None = None) -> Fit:
    r"""The first $\eta t$ with $\max_is_{i,11}\le p$ is $\propto(m_k\sigma_ps)^{-1/2}$.

    Conditions: strong noise.
    Measured: the fitted exponent in m_k σ_p s, n = 9…65 (a factor 377); positive margin: within 0.1 of −1/2.
    Made finite: p = 0.1 (by this project).
    Source: Theorem 3.2 (4), Lemma E.42.
    """
    return exponent(measures, [64.0 * n**3 for n in SAMPLES], -0.5)


@attention_trend.measures
def _(tr: Trajectory) -> float:
    below = sigmoid(tr.gap_signal).max(axis=1) <= 0.1
    j = int(np.argmax(below))
    if not below.any() or j == 0:
        return math.nan
    # Between two recorded times the gap is close to quadratic in the time: interpolate its square root.
    gap = np.sqrt(np.maximum(-tr.gap_signal[j - 1 : j + 1].max(axis=1), 0.0))
    return float(np.interp(math.sqrt(math.log(9)), gap, tr.tau[j - 1 : j + 1]))


@attention_trend.control("the time falls with σ_p s itself")
def _(measure: tuple[int, float]) -> tuple[int, float]:
    rung, value = measure
    return rung, value * SAMPLES[rung] ** -1.5
