"""The limit of a small learning rate (claims.md R.5): the discrete trajectory stays within a few steps of the sign-gradient flow."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from verify import Check, Regime, Trajectory, both, claim, custom, draw, everywhere, simulate, slack_below, times, trajectory

STRIDE = 0.01
"""h = eta*l_i/(sigma_0*||xi_i||_2) of the discrete run; since l_i <= sqrt(s)*||xi_i||_2, eta = h*sigma_0/sqrt(s) keeps every h below it."""
WITHIN, MEDIAN, CLOSE = 5.0, 2.0, 2.0
UNTIL = 0.9
MAX_STEPS = 100_000


def finely(regime: Regime) -> Regime:
    """The regime with the step that h = 0.01 allows, the same named times, and a run up to the predicted T_4^-."""
    eta = STRIDE * regime.sigma_0 / math.sqrt(regime.s)
    named = times.formula_times(regime)
    readings = {name: named[name] / eta for name in regime.readings}
    return regime.change(eta=eta, readings=readings, horizon=named[times.T4_PREDICTED], simulator="reduced")


def discrete_run(regime: Regime, root: int, trial: int) -> Trajectory:
    """The reduced simulation of the same start with h <= 0.01."""
    return simulate(draw(finely(regime), root, trial))


def too_long(regime: Regime) -> str | None:
    """Why the discrete run is not affordable, or makes no sense, in this regime."""
    if not times.predicted_t4_minus(regime) > 0:
        return "there is no predicted T_4^- where 1.6 σ_p s ≤ 1"
    steps = finely(regime).steps
    return f"a discrete run with h ≤ {STRIDE} needs {steps:.1e} steps" if steps > MAX_STEPS else None


@claim(
    "R.5",
    "Small steps follow the flow",
    source="Section 2 of claims.md; the learning rate of Condition 3.1",
    conditions=["learning_rate"],
    depends_on=["R.1"],
    home=["fig1"],
    inputs=[trajectory("flow"), custom(discrete_run)],
    undefined=too_long,
    units="(5 − distance/(ηl_i))/5",
    constants={"h": STRIDE, "distance": WITHIN, "median": MEDIAN, "excluded": CLOSE, "until": UNTIL},
)
def follows_the_flow(flow: Trajectory, discrete: Trajectory) -> Check:
    r"""For $t \le 0.9\,T_4^-$ the trajectories of SignGD and of its limit $\eta \to 0$ satisfy
    $|Q_{s,i} - Q^{\mathrm{flow}}_{s,i}|, |K_{s,i} - K^{\mathrm{flow}}_{s,i}| \le 5\,\eta l_i$, with median at most $2\,\eta l_i$,
    for the pairs with $||Q_{s,i}^{(0)}| - |K_{s,i}^{(0)}|| > 2\,\eta l_i$.

    Conditions: C31.5 in the form $h = \eta l_i/(\sigma_0\|\xi_i\|_2) \le 0.01$.
    Measured: per pair the largest distance in units of ηl_i over recorded times; the margin is (5 − distance)/5, or (2 − median)/2
    where that is smaller; > 0 holds. A pair that turns differently counts as violated.
    Made finite: the constants 5, 2, 2, 0.01 and 0.9 (by this project).
    Source: Section 2 of claims.md (R.5).
    """
    end = min(UNTIL * flow.time(times.T4_MINUS), discrete.end)
    at = discrete.tau[discrete.tau <= end][::8]
    unit = discrete.regime.eta * flow.l1
    distance = np.zeros((len(at), *discrete.query_noise.shape[1:]))
    signals = np.zeros((len(at), discrete.query_signal.shape[1]))
    for row, tau in enumerate(at):
        limit, step = flow.at(tau), discrete.at(tau)
        noise = (step.query_noise - limit.query_noise, step.key_noise - limit.key_noise)
        distance[row] = np.maximum(*map(np.abs, noise)) / unit
        signal = (step.query_signal - limit.query_signal, step.key_signal - limit.key_signal)
        signals[row] = np.maximum(*map(np.abs, signal)) / discrete.regime.eta
    clear = apart(flow, unit)
    farthest = distance.max(axis=0)
    median = float(np.median(farthest[clear]))
    near = everywhere(flow.regime.judged, slack_below(farthest, WITHIN), where=clear, tau=at[distance.argmax(axis=0)])
    typical = everywhere(flow.regime.judged, slack_below(median, MEDIAN))
    shown = {"median": median, "excluded pairs": int((~clear).sum()), "median of signals": float(np.median(signals.max(axis=0)))}
    return replace(both(near, typical), detail=shown)


def apart(flow: Trajectory, unit: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Pairs whose initial query and key noise differ in size by more than two steps."""
    return np.abs(np.abs(flow.start.query_noise) - np.abs(flow.start.key_noise)) > CLOSE * unit


@follows_the_flow.control("key noise of the flow mirrored")
def _(flow: Trajectory, discrete: Trajectory) -> tuple[Trajectory, Trajectory]:
    return flow.replace(key_noise=-flow.key_noise), discrete


@follows_the_flow.control("flow one percent too large")
def _(flow: Trajectory, discrete: Trajectory) -> tuple[Trajectory, Trajectory]:
    return flow.replace(query_noise=1.01 * flow.query_noise), discrete


@follows_the_flow.control("flow of another start")
def _(flow: Trajectory, discrete: Trajectory) -> tuple[Trajectory, Trajectory]:
    return simulate(draw(flow.regime, flow.start.root, flow.seed + 100_000), "flow"), discrete
