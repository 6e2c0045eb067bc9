"""Extensions of Appendix F that need no other model: the 0-1 error on unseen noise (F.1), gradient descent (F.GD)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import stats

from lemmas.fresh import Fresh, draw_fresh, fresh_gaps
from verify import TRAJECTORY, Check, Regime, Trajectory, claim, constants, custom, draw, get, sigmoid, simulate, times

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


RATE = 0.1
DESCENT = [get("fig1").change(eta=RATE, horizon=2000 * RATE, m_v=m_v) for m_v in (100, 10, 1)]
EARLY = 200
"""Gradient descent with learning rate 0.1, a thousand times the preset's step of SignGD, for 2,000 steps; also read at step 200."""


def descent(regime: Regime, root: int, trial: int) -> Trajectory:
    """Gradient descent on disjoint supports, through its inner products (R.1c)."""
    start = draw(regime, root, trial)
    return simulate(start, "gram", gram=np.diag(start.l2**2))


@claim(
    "F.GD",
    "Gradient descent converges while query and key are basically not learned",
    source="Appendix F.2, remark on gradient descent",
    kind="scaling",
    conditions=["value_width"],
    depends_on=["R.1c"],
    rungs=DESCENT,
    trials_per_rung=6,
    suite="full",
    inputs=[custom(descent)],
    over="law",
    units="(p - largest change of a softmax output)/p",
    constants={"learning rate": RATE, "m_v": [r.m_v for r in DESCENT], "steps": 2000},
    expected={
        "*": (
            "REFUTED",
            "after 2,000 steps at learning rate 0.1 a softmax output has moved by .488 [.485, .491] at m_v = 100 (loss .094) and by .25 "
            "[.19, .31] at m_v = 10; by 8e-5 and 3e-4 after 200 steps (loss .58 and .19). At m_v = 1 the sentence is true: 6e-4, with the loss at .002",
        )
    },
)
def attention_not_learned(measures: list[tuple[int, Any]], _regime: None = None) -> Check:
    r"""Gradient descent converges, and every softmax output stays where it was: $|s_{i,11}^{(t)}-s_{i,11}^{(0)}|\le p$ and
    $|s_{i,21}^{(t)}-s_{i,21}^{(0)}|\le p$ at $t=2000$.

    Conditions: the number $m_v$ of value rows: gradient descent moves $V_\mu$ by about $2\eta/m_v$ a step, hence fits the labels
    with the values alone only where m_v is small.
    Measured: per rung the 99 % interval, over seeds, of the largest change of a softmax output at t = 2000; the smallest
    (p − upper end)/p; positive holds; undecided where p lies inside an interval. `rungs` lists, per m_v, that change with its interval, the loss,
    and both at t = 200.
    Made finite: "basically not learned" read as a change below p = 0.1; fig1 at learning rate 0.1 with m_v = 100, 10, 1 (by this project).
    Source: Appendix F.2 (text), R.1c.
    """
    rows, lows, highs = [], [], []
    for rung in sorted({rung for rung, _ in measures}):
        found = np.array([m for k, m in measures if k == rung], float)
        m_v, early, late, loss_early, loss_late = found.mean(0)
        half = float(stats.t.ppf(0.995, max(len(found) - 1, 1)) * found[:, 2].std(ddof=1) / math.sqrt(len(found)))
        lows.append(late - half)
        highs.append(late + half)
        rows.append([int(m_v), *(float(f"{x:.3g}") for x in (late, late - half, late + half, loss_late, early, loss_early))])
    margin = float((constants.P - max(highs)) / constants.P)
    return Check(
        holds=margin > 0,
        margin=margin,
        worst=margin,
        all_hold=margin > 0,
        share=float(np.mean(np.array(highs) < constants.P)),
        undecided=margin <= 0 and max(lows) <= constants.P,
        detail={"rungs": rows},
    )


@attention_not_learned.measures
def _(tr: Trajectory) -> list[float]:
    def change(at: int) -> float:
        return max(float(np.abs(sigmoid(gap[at]) - sigmoid(gap[0])).max()) for gap in (tr.gap_signal, tr.gap_noise))

    early = tr.index(EARLY * RATE)
    return [float(tr.regime.m_v), change(early), change(-1), *(float(np.exp(tr.log_loss[k])) for k in (early, -1))]


@attention_not_learned.truth("one value row", rungs=DESCENT[2:])
def _(measured: tuple[int, Any]) -> tuple[int, Any]:
    return measured


@attention_not_learned.control("softmax outputs moved 500 times as far, one value row", rungs=DESCENT[2:])
def _(measured: tuple[int, Any]) -> tuple[int, Any]:
    rung, (m_v, early, late, *losses) = measured
    return rung, [m_v, early, 500 * late, *losses]
