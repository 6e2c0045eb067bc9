"""Extensions of Appendix F that need no other model: the 0-1 error on unseen noise (F.1)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import stats

from lemmas.fresh import Fresh, draw_fresh, fresh_gaps
from verify import TRAJECTORY, Check, Regime, Trajectory, claim, constants, custom, get, sigmoid, times

TEST_SAMPLES = 512
STATED = (0.5, 1.0, 2.1, 4.0)
"""Rungs: σ_0 in multiples of the stated one, at which the argument of Φ is −√2."""


def stated_sigma_0(r: Regime) -> float:
    r"""The σ_0 of the statement, $\sqrt{m_v}\log(1/\varepsilon)/(\sigma_ps\cdot\sigma_p\sqrt s)$."""
    return math.sqrt(r.m_v) * times.log_inverse_epsilon(r) / (r.sigma_p_s * r.sigma_p * math.sqrt(r.s))


def predicted_error(r: Regime) -> float:
    r"""$\Phi\big(-\sqrt{2m_v}\log(1/\varepsilon)/(\sigma_ps\cdot\sigma_0\sigma_p\sqrt s)\big)$."""
    return float(stats.norm.cdf(-math.sqrt(2) * stated_sigma_0(r) / r.sigma_0))


def _rungs() -> list[Regime]:
    base = get("ladder-33").change(m_v=1)
    end = 1.02 * times.formula_times(base)[times.T_END]
    return [base.change(sigma_0=x * stated_sigma_0(base), horizon=end) for x in STATED]


RUNGS = _rungs()


def _fresh(regime: Regime, root: int, trial: int) -> Fresh:
    return draw_fresh(regime, root, trial, TEST_SAMPLES)


@claim(
    "F.1",
    "The 0-1 test error is that of an untrained value direction",
    source="Appendix F.1",
    kind="scaling",
    conditions=["initialization"],
    depends_on=["C.6", "C.8", "E.41"],
    rungs=RUNGS,
    inputs=[TRAJECTORY, custom(_fresh)],
    over="law",
    units="slack of each error to its exact interval",
)
def untrained_direction(measures: list[tuple[int, Any]], _regime: None = None) -> Check:
    r"""At $T$ the 0-1 error on unseen disjoint noise is $\Phi\big(-\sqrt{2m_v}\log(1/\varepsilon)/(\sigma_ps\cdot\sigma_0\sigma_p\sqrt s)\big)$ while the softmax outputs on fresh samples are ½ ± p: so it tends to 0 for small σ_0, and is ≥ ¼ beyond 2.1 × the stated σ_0.

    Conditions: the initialization decides it.
    Measured: per rung, how far the predicted error lies inside the exact interval (error probability α) of the counted one; p − |s − ½| over p for the softmax outputs; the smallest counts; positive holds; `error`, `predicted` list both.
    Made finite: σ_0 = ½, 1, 2.1, 4 × the stated one at n = 33, m_v = 1, with 8 × 512 fresh samples each (by this project).
    Source: Appendix F.1.
    """
    rows, slack = [], []
    for index, regime in enumerate(RUNGS):
        mine = [value for rung, value in measures if rung == index]
        wrong, count = int(sum(v[0] for v in mine)), int(sum(v[1] for v in mine))
        off = max(v[2] for v in mine)
        low, high = stats.binomtest(wrong, count).proportion_ci(1 - 2 * constants.ALPHA, method="exact")
        expected = predicted_error(regime)
        half = (high - low) / 2
        slack += [min(expected - low, high - expected) / half, (constants.P - off) / constants.P]
        rows.append((STATED[index], wrong / count, expected, float(low), float(high)))
    detail = {
        "sigma_0": [r[0] for r in rows],
        "error": [r[1] for r in rows],
        "predicted": [r[2] for r in rows],
        "interval": [r[3:] for r in rows],
    }
    worst = min(slack)
    return Check(holds=worst > 0, margin=worst, worst=worst, all_hold=worst > 0, share=float(np.mean(np.array(slack) > 0)), detail=detail)


@untrained_direction.measures
def _(tr: Trajectory, fresh: Fresh) -> list[float]:
    at = tr.at(times.T_END)
    signal, noise, value = fresh_gaps(at, tr.regime, fresh)
    attention = sigmoid(signal) + sigmoid(noise)
    margin = attention * at.value_signal + (2 - attention) * value
    off = max(float(np.abs(sigmoid(g) - 0.5).max()) for g in (signal, noise))
    return [float(np.sum(margin <= 0)), float(margin.size), off]


@untrained_direction.control("error counted as if σ_0 were a third larger")
def _(measure: tuple[int, Any]) -> tuple[int, Any]:
    rung, (_, count, off) = measure
    regime = RUNGS[rung]
    return rung, [predicted_error(regime.change(sigma_0=regime.sigma_0 * 4 / 3)) * count, count, off]
