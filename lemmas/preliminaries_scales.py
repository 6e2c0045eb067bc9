"""Appendix C, the scales: how far the initial noise stands above the initial signal and above what Stage I adds (C.10, C.11)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from lemmas.preliminaries_start import noise_floor, signal_ceiling
from verify import Check, Regime, claim, custom, everywhere, slack_above, times


@dataclass(frozen=True)
class Scales:
    """The two sides of a comparison: it holds iff `floor` >= `ceiling`. `detail` is shown beside the verdict."""

    floor: float
    ceiling: float
    detail: dict[str, Any] = field(default_factory=dict)


def beta_xi(r: Regime) -> float:
    r"""$\beta_\xi=\sigma_0\sigma_p\sqrt{s/2}\sqrt{\frac\pi2\log\frac1{1-(\delta/(2m_kn))^2}}$: C.12's bound with C.4's norm."""
    return r.sigma_0 * r.sigma_p * math.sqrt(r.s / 2) * noise_floor(r)


def signal_and_noise(r: Regime) -> Scales:
    """C.10: β_ξ against β_μ."""
    return Scales(beta_xi(r), signal_ceiling(r.m_k) * r.sigma_0)


def stage_one_and_noise(r: Regime) -> Scales:
    """C.11: β_ξ against what Stage I adds to a noise inner product. It moves as m_v^{-1/2}, hence the m_v needed."""
    moved = times.formula_times(r)[times.T1] * r.sigma_p_s
    return Scales(beta_xi(r), moved, {"m_v_needed": r.m_v * (moved / beta_xi(r)) ** 2, "m_v_over_n": r.m_v / r.n})


def _input(scales: Callable[[Regime], Scales]) -> Callable[[Regime, int, int], Scales]:
    return lambda regime, root, trial: scales(regime)


def _fails(scales: Callable[[Regime], Scales]) -> Callable[[Regime], float]:
    """Violation probability of a comparison without chance: 0 or 1."""
    return lambda r: float(scales(r).floor < scales(r).ceiling)


def compared(scales: Scales) -> Check:
    """One deterministic comparison; tightness: ceiling over floor (1 on the boundary)."""
    margin = slack_above(scales.floor, scales.ceiling)
    return everywhere("all", margin, tightness=scales.ceiling / scales.floor, ratio=scales.floor / scales.ceiling, **scales.detail)


@claim(
    "C.10",
    "Noise starts far above signal",
    source="Lemma C.10",
    kind="probabilistic",
    conditions=["noise_strength"],
    depends_on=["C.8", "C.12"],
    inputs=[custom(_input(signal_and_noise))],
    exact=_fails(signal_and_noise),
    control_regime="ladder-2048-mk16",
    expected={
        name: ("REFUTED", f"β_ξ/β_μ = {ratio}: C.12 guarantees a noise floor of δ/(2m_kn) only, so that σ_p√s is {short} times too small")
        for name, ratio, short in [
            ("fig1", "1.3e-5", "76,000"),
            ("trap", ".0012", "850"),
            ("ladder-17", ".0028", "350"),
            ("ladder-33", ".0055", "180"),
            ("ladder-65", ".011", "92"),
            ("ladder-129", ".022", "46"),
            ("ladder-64-mk16", ".047", "21"),
        ]
    },
)
def noise_above_signal(scales: Scales) -> Check:
    r"""$\beta_\xi\ge C\beta_\mu$ with $\beta_\xi=\sigma_0\sigma_p\sqrt{s/2}\sqrt{\frac\pi2\log\frac1{1-(\delta/(2m_kn))^2}}$, $\beta_\mu=\sqrt{2\log(8m_k/\delta)}\,\sigma_0$.

    Conditions: $\sigma_p\sqrt s\gg nm_k\sqrt{\log(m_k/\delta)}/\delta$, which strong noise gives for large n.
    Measured: (β_ξ − β_μ)/β_μ, without any chance: every trial is the same; positive holds. `ratio` is β_ξ/β_μ.
    Made finite: $C=1$, $\delta=0.1$ (by this project).
    Source: Lemma C.10.
    """
    return compared(scales)


@noise_above_signal.control("the signal's bound ten times as large")
def _(scales: Scales) -> Scales:
    return replace(scales, ceiling=10 * scales.ceiling)


@noise_above_signal.truth("n = 2048, m_k = 16: β_ξ/β_μ = 1.5", regime="ladder-2048-mk16")
def _(scales: Scales) -> Scales:
    return scales


@claim(
    "C.11",
    "Stage I is too short to move query and key noise",
    source="Lemma C.11",
    kind="probabilistic",
    conditions=["value_width"],
    depends_on=["C.7", "C.12"],
    inputs=[custom(_input(stage_one_and_noise))],
    exact=_fails(stage_one_and_noise),
    control_regime="ladder-33",
    expected={
        "fig1": ("REFUTED", "β_ξ/(ηT_1σ_ps) = 2.8e-5 with the reading T_1 = 2 steps: m_v = 100, needed 1.3e11"),
        "trap": ("REFUTED", "β_ξ/(ηT_1σ_ps) = .0013: m_v = 1e8, needed 5.7e13"),
    },
)
def stage_one_short(scales: Scales) -> Check:
    r"""$\eta T_1\sigma_ps\le\beta_\xi/C$ with β_ξ as in C.10.

    Conditions: $\sqrt{m_v}\gg nm_k\sqrt{\log(n/\delta)}/\delta$: wide values, while the authors' reply asks for $m_v<n$.
    Measured: (β_ξ − ηT_1σ_ps)/(ηT_1σ_ps), without any chance: every trial is the same; positive holds. `m_v_needed` is the m_v at which it would just hold.
    Made finite: $C=1$, $C_1=10$, $\delta=0.1$; the ladders are given $m_v=p^{-2}$ times the threshold (by this project).
    Source: Lemma C.11.
    """
    return compared(scales)


@stage_one_short.control("Stage I twenty times as long")
def _(scales: Scales) -> Scales:
    return replace(scales, ceiling=20 * scales.ceiling)
