"""Vanishing trends and exponents of Stages I and II: what the o(1), Õ and Θ of the paper say along a ladder in one variable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lemmas.events import vote
from lemmas.stage1 import displacement, linear_ratio
from lemmas.stage2 import common_sign, equal_at_start
from lemmas.trends import Measures, exponent
from verify import Claim, Fit, Regime, Trajectory, claim, constants, get, sigmoid, times

BASE = "ladder-17"
Measure = Callable[[Trajectory], float]


def rung(until: str, **changes: Any) -> Regime:
    """ladder-17 with some parameters changed, run just past the named time."""
    r = get(BASE).change(**changes)
    shown = ", ".join(f"{k} = {v:g}" for k, v in changes.items())
    return r.change(horizon=1.02 * times.formula_times(r)[until], name=f"{BASE}, {shown}")


def trend(
    label: str,
    statement: str,
    variable: str,
    x: Sequence[float],
    rungs: Sequence[Regime],
    theory: float,
    measure: Measure,
    *,
    title: str,
    measured: str,
    predicted: Callable[[Regime], float] | None = None,
    trials: int = 12,
) -> Claim:
    """Register `<id>.trend…`: the exponent of `measure` in `variable` over the rungs, against `theory`.

    Args:
        x: the variable on each rung. predicted: known factors (logarithms) that are divided out.
        statement: LaTeX. measured: what one trial measures.
    """
    parent = label.split(".trend")[0]
    known = [predicted(r) for r in rungs] if predicted else None

    def fit(measures: Measures, _regime: None = None) -> Fit:
        return exponent(measures, [float(value) for value in x], theory, known)

    fit.__doc__ = (
        f"{statement}\n\nConditions: the ladder changes {variable} only; the rest is {BASE}.\n"
        f"Measured: the fitted exponent in {variable} of {measured}; positive margin: within 0.1 of {theory:g}.\n"
        f"Made finite: {len(rungs)} rungs over a factor {max(x) / min(x):g}, {trials} trials each (by this project).\n"
        f"Source: the asymptotics of {parent}."
    )
    made = claim(
        label,
        title,
        source=f"asymptotics of {parent}",
        kind="scaling",
        depends_on=[parent],
        rungs=rungs,
        trials_per_rung=trials,
        over="law",
        suite="full",
        units=f"exponent in {variable}",
    )(fit)
    made.measures(measure)

    @made.control(f"does not depend on {variable}")
    def _(value: tuple[int, float]) -> tuple[int, float]:
        return value[0], value[1] * x[value[0]] ** -theory

    return made


SPARSITIES = (256, 1024, 4096, 16384, 65536)
WIDTHS = tuple(10**k for k in (8, 10, 12, 14))
INITIAL = tuple(get(BASE).sigma_0 * c for c in (1e-3, 1e-2, 1e-1, 1.0))


def sparsities() -> list[Regime]:
    """Rungs in s at fixed c_0 = σ_0σ_ps√m_k, up to T_2: the same for every trend in s, so that their trials are shared."""
    base = get(BASE)
    return [rung(times.T2, s=s, sigma_0=base.sigma_0 * base.s / s) for s in SPARSITIES]


def relative(of: Measure) -> Measure:
    """A measured time in units of σ_0, which the rungs in s change along."""
    return lambda tr: of(tr) / tr.regime.sigma_0


def deviation(tr: Trajectory) -> float:
    r"""$\max_i|V_i/(2\bar l\eta t)-1|$ at T_2."""
    return float(np.abs(linear_ratio(tr.at(times.T2), tr.regime) - 1).max())


def linear_from(tr: Trajectory) -> float:
    r"""Time from which every $V_i/(2l_i\eta t)$ is in [½, 2], from the intercepts of the paths at T_1."""
    at = tr.at(times.T1)
    intercept = at.value_noise - 2 * tr.l1 * at.tau
    return float(np.max(np.maximum(intercept / (2 * tr.l1), -intercept / tr.l1)))


def agreed_from(tr: Trajectory) -> float:
    """Time at which the last pair's signs agree: the first crossing of its query or key noise."""
    first = np.minimum(*(tr.crossings[name].first_after(0.0) for name in ("query_noise", "key_noise")))
    return float(np.max(first[~equal_at_start(tr) & np.isfinite(first)]))


def signal_ratio(tr: Trajectory) -> float:
    r"""$\max_i|V_\mu|/V_i$ at T_1."""
    at = tr.at(times.T1)
    return float(np.max(np.abs(at.value_signal) / at.value_noise))


def moved_share(tr: Trajectory) -> float:
    """Share of pairs whose query or key noise has moved by more than p of itself at T_1."""
    return float(np.mean(displacement(tr, tr.at(times.T1)) > constants.P))


def exceptions(tr: Trajectory) -> float:
    """Share of pairs with opposite initial signs whose common sign is not sgn(Q_0+K_0)."""
    wrong = common_sign(tr, np.sign(tr.query_noise[0] + tr.key_noise[0])) <= 0
    return float(np.mean(wrong[~equal_at_start(tr)]))


def attention_shift(tr: Trajectory) -> float:
    """max_i |s_{i,21} − ½| at T_2."""
    return float(np.abs(sigmoid(tr.at(times.T2).gap_noise) - 0.5).max())


def signal_shift(tr: Trajectory) -> float:
    """max_s |q_s(T_2) − q_s(0)|/σ_0."""
    return float(np.abs(tr.at(times.T2).query_signal - tr.query_signal[0]).max() / tr.regime.sigma_0)


def sum_residue(tr: Trajectory) -> float:
    r"""Root mean square over s of $|\sum_iK_{s,i}|/(\bar l\eta t)-D_s$ at T_2."""
    at = tr.at(times.T2)
    residue = np.abs(at.key_noise.sum(axis=1)) / (tr.regime.mean_l1 * at.tau) - vote(tr)
    return float(np.sqrt(np.mean(residue**2)))


def log_pairs(r: Regime) -> float:
    r"""$\sqrt{2\log(8m_kn/\delta)}$, the logarithm in T_2."""
    return float(np.sqrt(2 * np.log(8 * r.m_k * r.n / constants.DELTA)))


trend(
    "E.8.trend",
    r"For $t\ge T_2$, $\max_i|V_i/(2\bar l\eta t)-1|$ decays as $s^{-1/2}$.",
    "s",
    SPARSITIES,
    sparsities(),
    -0.5,
    deviation,
    title="The rates of value noise concentrate as s^{-1/2}",
    measured="the largest deviation at T_2",
)
trend(
    "4.1.1.trend.s",
    r"The time from which value noise is linear, in units of $\sigma_0$, scales as $s^{-1/2}$, as $T_1$ does.",
    "s",
    SPARSITIES,
    sparsities(),
    -0.5,
    relative(linear_from),
    title="T_1 as measured scales as s^{-1/2}",
    measured="that time over σ_0",
)
trend(
    "4.1.1.trend.m_v",
    r"The time from which value noise is linear scales as $m_v^{-1/2}$, as $T_1$ does.",
    "m_v",
    WIDTHS,
    [rung(times.T1, m_v=m) for m in WIDTHS],
    -0.5,
    linear_from,
    title="T_1 as measured scales as m_v^{-1/2}",
    measured="that time",
)
trend(
    "4.1.1.trend.sigma_0",
    r"The time from which value noise is linear scales as $\sigma_0$, as $T_1$ does.",
    "σ_0",
    INITIAL,
    [rung(times.T2_SGN, sigma_0=x) for x in INITIAL],
    1.0,
    linear_from,
    title="T_1 as measured scales as σ_0",
    measured="that time",
)
STRENGTHS = (17.0, 68.0, 272.0, 1088.0)
trend(
    "4.1.2.trend",
    r"$\max_i|V_\mu|/V_i$ at $T_1$ decays as $(\sigma_p\sqrt s)^{-1}$.",
    "σ_p",
    STRENGTHS,
    [rung(times.T1, sigma_p=x, sigma_0=get(BASE).sigma_0 * 17 / x) for x in STRENGTHS],
    -1.0,
    signal_ratio,
    title="Value signal over value noise vanishes with the noise strength",
    measured="the largest ratio",
)
SHORT = tuple(10**k for k in (7, 8, 9, 10))
trend(
    "4.1.3.trend",
    r"The share of pairs whose query or key noise moves by more than $p$ of itself up to $T_1$ decays as $m_v^{-1/2}$.",
    "m_v",
    SHORT,
    [rung(times.T1, m_v=m, m_k=256) for m in SHORT],
    -0.5,
    moved_share,
    title="The pairs that move in Stage I vanish with the value width",
    measured="that share",
)
trend(
    "4.2.trend.s",
    r"The time at which the last pair's signs agree, in units of $\sigma_0$, scales as $s^{-1/2}$, as $T_2^{\mathrm{SGN}}$ does.",
    "s",
    SPARSITIES,
    sparsities(),
    -0.5,
    relative(agreed_from),
    title="T_2^SGN as measured scales as s^{-1/2}",
    measured="that time over σ_0",
)
trend(
    "4.2.trend.sigma_0",
    r"The time at which the last pair's signs agree scales as $\sigma_0$, as $T_2^{\mathrm{SGN}}$ does.",
    "σ_0",
    INITIAL,
    [rung(times.T2_SGN, sigma_0=x) for x in INITIAL],
    1.0,
    agreed_from,
    title="T_2^SGN as measured scales as σ_0",
    measured="that time",
)
WEAK = (4.0, 8.0, 16.0, 32.0, 64.0)
trend(
    "4.2.2.trend",
    r"The share of pairs with opposite initial signs that do not follow $\operatorname{sgn}(Q_0+K_0)$ decays as $(\sigma_p\sqrt s)^{-1}$.",
    "σ_p√s",
    WEAK,
    [rung(times.T2_SGN, sigma_p=x / 17, m_k=256) for x in WEAK],
    -1.0,
    exceptions,
    title="The pairs that the signals decide vanish with the noise strength",
    measured="that share",
)
trend(
    "4.3.2.trend",
    r"$\max_i|s_{i,21}-\tfrac12|$ at $T_2$ decays as $s^{-1}$ at fixed $c_0=\sigma_0\sigma_ps\sqrt{m_k}$, as the bound $x^2/4$ of E.14 does.",
    "s",
    SPARSITIES,
    sparsities(),
    -1.0,
    attention_shift,
    title="Attention at T_2 tends to 1/2",
    measured="that maximum",
)
SAMPLES = (9, 17, 33, 65, 129)
trend(
    "4.3.3.trend",
    r"What the initial values leave of $|\sum_iK_{s,i}|/(\bar l\eta t)-D_s$ at $T_2$ grows as $\sqrt n$ (over the logarithm in $T_2$): no constant $C_2$ serves every $n$ where $D_s=1$.",
    "n",
    SAMPLES,
    [rung(times.T2, n=n, s=65536, sigma_0=get(BASE).sigma_0 * 289 / 65536) for n in SAMPLES],
    0.5,
    sum_residue,
    title="The initial sums fade from the vote only as C_2 grows like √n",
    measured="its root mean square over s",
    predicted=lambda r: 1 / log_pairs(r),
    trials=6,
)
trend(
    "4.3.4.trend",
    r"$\max_s|\langle w_{Q,s},\mu\rangle^{(T_2)}-\langle w_{Q,s},\mu\rangle^{(0)}|/\sigma_0$ decays as $s^{-1/2}$.",
    "s",
    SPARSITIES,
    sparsities(),
    -0.5,
    signal_shift,
    title="The signals' move in Stage II vanishes against their size",
    measured="that ratio",
)
