"""Named times of the proof, in tau = eta*t (claims.md, time scales). Formulas only; T4-, T4+ are measured by the simulators."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from verify.constants import C1, C2, C3, C_ATTN, DELTA, THETA_C, P

if TYPE_CHECKING:
    from verify.regime import Regime

T1, T2_SGN, T2, T3 = "T_1", "T_2_SGN", "T_2", "T_3"
T4_MINUS, T4_PLUS, T4, T_END, T_ATTN = "T_4_minus", "T_4_plus", "T_4", "T", "T_attn"
T4_PREDICTED = "T_4_minus_predicted"
LAST = 4 + 3 * THETA_C


def predicted_t4_minus(r: Regime) -> float:
    r"""$\sqrt{(\pi/2)\log(1.6\sigma_p s)}/(\sqrt{m_k}\,\sigma_p s)$, in tau. Below 1.6 sigma_p s = 1 there is none: nan."""
    inner = math.log(1.6 * r.sigma_p_s)
    return math.sqrt(math.pi / 2 * inner) / (math.sqrt(r.m_k) * r.sigma_p_s) if inner > 0 else math.nan


def formula_times(r: Regime) -> dict[str, float]:
    """Every named time that is a formula of the parameters, in tau; readings of the regime replace them."""
    root = lambda x: math.sqrt(2 * math.log(8 * x / DELTA))  # noqa: E731
    t1 = C1 * root(r.n) * r.sigma_0 / math.sqrt(r.m_v * r.s)
    predicted = predicted_t4_minus(r)
    times = {
        T1: t1,
        T2_SGN: 2 * root(r.m_k * r.n) * r.sigma_0 / math.sqrt(r.s) + t1,
        T2: C2 * root(r.m_k * r.n) * r.sigma_0 / math.sqrt(r.s),
        T3: C3 * root(r.m_k) * r.sigma_0,
        T4_PREDICTED: predicted,
        T_END: 1.1 * LAST * predicted,
        T_ATTN: C_ATTN * math.sqrt(math.log(1 / P) / (0.8 * r.m_k * r.sigma_p_s)),
    }
    return times | {name: steps * r.eta for name, steps in r.readings.items()}


def log_inverse_epsilon(r: Regime) -> float:
    r"""$\log(1/\varepsilon) = 1.1(4+3\theta_c)\,\eta T_4^-\sigma_p s$ with the predicted $T_4^-$ (claims.md, row T)."""
    return 1.1 * LAST * predicted_t4_minus(r) * r.sigma_p_s


def end_of_run(r: Regime) -> float:
    """Length of a run in tau: the regime's horizon, or a little past the last named time."""
    if r.horizon > 0:
        return r.horizon
    times = formula_times(r)
    last = [times[T_ATTN], times[T_END], (LAST + 0.5) * times[T4_PREDICTED], 2 * times[T3]]
    return 1.1 * max(t for t in last if math.isfinite(t))
