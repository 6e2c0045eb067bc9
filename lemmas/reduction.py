"""The exact reduction to inner products (claims.md section 2): R.1-R.3, and the updates' sizes (S.update), judged on the full model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from verify import Check, Regime, Snapshot, Trajectory, both, claim, custom, draw, everywhere, on_samples, simulate, trajectory

TOLERANCE = 1e-12
HORIZON = 6e-4
"""6 steps of fig1, in which thousands of pairs turn; every trial pays for two full runs. tests/test_full.py compares 300 steps."""
QUANTITIES = ("query_noise", "key_noise", "query_signal", "key_signal", "value_noise", "value_signal")
SHAPES_IN_SAMPLES = ("value_noise", "gap_signal", "gap_noise")

FULL = trajectory("full", horizon=HORIZON)
REDUCED = trajectory("reduced", horizon=HORIZON)


def slack(error: NDArray[np.float64]) -> NDArray[np.float64]:
    """(1e-12 - error)/1e-12."""
    return (TOLERANCE - error) / TOLERANCE


def worst_over_time(name: str, tau: NDArray[np.float64], margin: NDArray[np.float64]) -> Check:
    """All entities of one quantity at all times; margin (T, ...). Identities are judged on all pairs in every regime."""
    at = margin.argmin(axis=0)
    check = everywhere("all", np.take_along_axis(margin, at[None], 0)[0], tau=tau[at])
    return on_samples(check) if name in SHAPES_IN_SAMPLES else check


def equal(a: Trajectory, b: Trajectory) -> Check:
    """Every value within 1e-12, and the same turns at the same steps; an entity whose turns differ has margin -1 or less."""
    checks, largest = [], 0.0
    for name in (*QUANTITIES, "gap_signal", "gap_noise"):
        error = np.abs(getattr(a, name) - getattr(b, name))
        largest = max(largest, float(error.max()))
        margin = slack(error)
        if name in QUANTITIES:
            margin = np.where(turned_alike(a, b, name), margin, np.minimum(margin, -1.0))
        checks.append(worst_over_time(name, a.tau, margin))
    check = both(*checks)
    return replace(check, detail={"largest difference": largest, "turns": sum(len(a.turns[q].tau) for q in QUANTITIES)})


def turned_alike(a: Trajectory, b: Trajectory, name: str) -> NDArray[np.bool_]:
    """Per entity, whether the first direction and every turn (step, new sign) agree."""
    rows = [set(zip(np.rint(t.turns[name].tau / t.regime.eta), t.turns[name].index, t.turns[name].sign, strict=True)) for t in (a, b)]
    alike = np.array(a.initial_direction[name] == b.initial_direction[name])
    for _, index, _ in rows[0] ^ rows[1]:
        alike.flat[index] = False
    return alike


@claim(
    "R.1",
    "The reduction to inner products is exact",
    source="Section 2 of claims.md; Eqs. (10)-(13)",
    depends_on=["D.6", "D.7"],
    home=["fig1"],
    inputs=[FULL, REDUCED],
    units="(1e-12 − difference)/1e-12",
    constants={"steps": 6, "tolerance": TOLERANCE},
)
def reduction_is_exact(full: Trajectory, reduced: Trajectory) -> Check:
    r"""On pairwise disjoint noise supports SignGD on all weights induces exactly
    $Q_{s,i} \mathrel{+}= \eta l_i \operatorname{sgn}(b_i(K_{s,i}-k_s))$, $K_{s,i} \mathrel{+}= \eta l_i \operatorname{sgn}(a_iq_s+b_iQ_{s,i})$,
    $q_s \mathrel{+}= \eta \operatorname{sgn}(\sum_i a_i(K_{s,i}-k_s))$, $k_s \mathrel{+}= \eta \operatorname{sgn}(-\sum_i(a_iq_s+b_iQ_{s,i}))$,
    $V_i \mathrel{+}= 2\eta l_i$, $V_\mu \mathrel{+}= 2\eta$.

    Conditions: disjoint supports without coordinate 1 (the event of Lemma C.1), L = 2.
    Measured: the largest difference between the full torch model and the reduction over all quantities, logit gaps and times, and every
    turn; the margin is (1e-12 − difference)/1e-12 of the worst entity, −1 or less where a turn differs; > 0 holds.
    Made finite: 6 steps and the tolerance 1e-12 (by this project; rounding alone separates the two).
    Source: Section 2 of claims.md, Eqs. (10)-(13).
    """
    return equal(full, reduced)


@reduction_is_exact.control("norms of the reduction 0.1 % too large")
def _(full: Trajectory, reduced: Trajectory) -> tuple[Trajectory, Trajectory]:
    return full, simulate(reduced.start.replace(l1=1.001 * reduced.l1), "reduced")


@reduction_is_exact.control("one turn lost")
def _(full: Trajectory, reduced: Trajectory) -> tuple[Trajectory, Trajectory]:
    lost = full.turns["key_noise"]
    fewer = replace(lost, tau=lost.tau[1:], index=lost.index[1:], sign=lost.sign[1:])
    return full.replace(turns={**full.turns, "key_noise": fewer}), reduced


def ties(at: Snapshot) -> dict[str, NDArray[np.bool_]]:
    """Which entities have an update of exactly 0 by Eqs. (10)-(13) at a snapshot; sums are zero when rounding cannot tell."""
    log_sech = lambda x: -np.abs(x) - 2 * np.log1p(np.exp(-np.abs(x)))  # noqa: E731
    noise, signal = np.exp(-np.logaddexp(0, -at.gap_noise)), np.exp(-np.logaddexp(0, -at.gap_signal))
    output = (signal + noise) * at.value_signal + (2 - signal - noise) * at.value_noise
    common = np.exp(-np.logaddexp(0, output)) * (at.value_noise - at.value_signal)
    a, b = common * np.exp(log_sech(at.gap_signal)), common * np.exp(log_sech(at.gap_noise))
    lead = at.key_noise - at.key_signal[:, None]
    pull, push = a * at.query_signal[:, None], b * at.query_noise
    none = lambda total, size: np.abs(total) <= TOLERANCE * size  # noqa: E731
    return {
        "query_noise": b * lead == 0,
        "key_noise": none(pull + push, np.abs(pull) + np.abs(push)),
        "query_signal": none((a * lead).sum(1), np.abs(a * lead).sum(1)),
        "key_signal": none((pull + push).sum(1), (np.abs(pull) + np.abs(push)).sum(1)),
        "value_noise": np.zeros(a.shape, bool),
        "value_signal": np.zeros((), bool),
    }


def step_errors(tr: Trajectory, name: str, *, rising: bool) -> NDArray[np.float64]:
    """| |increment| - η‖·‖₁ | (rising: |increment - η‖·‖₁|) per step and entity; 0 for a zero increment on an exact tie."""
    step = tr.regime.eta * tr.speed(name)
    moved = np.diff(getattr(tr, name), axis=0)
    error = np.abs((moved if rising else np.abs(moved)) - step)
    for j in np.flatnonzero((moved.reshape(len(moved), -1) == 0).any(1)):
        error[j][(moved[j] == 0) & ties(tr.at(tr.tau[j]))[name]] = 0.0
    return error


def steps_are(tr: Trajectory, rising: tuple[str, ...]) -> Check:
    """Every recorded increment has its size; those of the quantities in `rising` are positive too."""
    checks = [worst_over_time(q, tr.tau[1:], slack(step_errors(tr, q, rising=q in rising))) for q in QUANTITIES]
    return replace(both(*checks), detail={"exact zeros": sum(tr.zero.values())})


@claim(
    "R.2",
    "Every inner product moves by η times a 1-norm, or rests on an exact tie",
    source="Section 4, Eqs. (8)-(9); Section 2 of claims.md",
    depends_on=["R.1"],
    home=["fig1"],
    inputs=[FULL],
    units="(1e-12 − error of an increment)/1e-12",
    constants={"steps": 6, "tolerance": TOLERANCE},
)
def moves_by_one_norm(tr: Trajectory) -> Check:
    r"""Each step moves $\langle w_{Q,s},y_i\xi_i\rangle$ and $\langle w_{K,s},y_i\xi_i\rangle$ by $\pm\eta\|\xi_i\|_1$,
    $\langle w_{Q,s},\mu\rangle$ and $\langle w_{K,s},\mu\rangle$ by $\pm\eta\|\mu\|_1$, $\langle v,y_i\xi_i\rangle$ by $\pm2\eta\|\xi_i\|_1$
    and $\langle v,\mu\rangle$ by $\pm2\eta\|\mu\|_1$, or by 0 where the gradient is exactly 0.

    Conditions: disjoint supports without coordinate 1 (the event of Lemma C.1), L = 2.
    Measured: the increments of the full torch model at every step; the margin is (1e-12 − distance of the worst increment's size from
    its 1-norm)/1e-12; > 0 holds. An increment of 0 is right only where the right-hand side of Eqs. (10)-(13) is 0.
    Made finite: 6 steps and the tolerance 1e-12 for rounding (by this project).
    Source: Section 4, Eqs. (8)-(9); Section 2 of claims.md.
    """
    return steps_are(tr, rising=())


@moves_by_one_norm.control("2-norms in place of 1-norms")
def _(tr: Trajectory) -> Trajectory:
    return tr.replace(start=tr.start.replace(l1=tr.start.l2))


@moves_by_one_norm.control("one neuron rests for one step")
def _(tr: Trajectory) -> Trajectory:
    values = tr.query_signal.copy()
    values[1:, 0] -= values[1, 0] - values[0, 0]
    return tr.replace(query_signal=values)


@claim(
    "S.update",
    "Sizes and signs of the updates",
    source="Section 4, Eqs. (8)-(9)",
    conditions=["dimension", "sparsity"],
    depends_on=["D.6", "D.7", "C.1"],
    home=["fig1"],
    inputs=[FULL],
    units="(1e-12 − error of an increment)/1e-12",
    constants={"steps": 6, "tolerance": TOLERANCE},
)
def update_sizes(tr: Trajectory) -> Check:
    r"""For all $t$: the increments of $Q_{s,i}$ and $K_{s,i}$ are $\pm\eta\|\xi_i\|_1$, those of $q_s$ and $k_s$ are $\pm\eta$ (0 only on
    exact ties), that of $V_i$ is $+2\eta\|\xi_i\|_1$, and that of $V_\mu$ is $+2\eta$.

    Conditions: the dimension and the sparsity make the supports disjoint (Lemma C.1); fig1 draws them disjoint.
    Measured: the increments of the full torch model at every step; the margin is (1e-12 − distance of the worst increment from what the
    statement says)/1e-12; > 0 holds. (The reduced simulators have this by construction.)
    Made finite: 6 steps and the tolerance 1e-12 for rounding (by this project).
    Source: Section 4, Eqs. (8)-(9).
    """
    return steps_are(tr, rising=("value_noise", "value_signal"))


@update_sizes.control("gradient descent in place of sign descent")
def _(tr: Trajectory) -> Trajectory:
    import torch

    return simulate(tr.start, "full", gradient="autograd", optimizer=lambda weights, eta: torch.optim.SGD(weights, lr=eta))


@update_sizes.control("value noise falls")
def _(tr: Trajectory) -> Trajectory:
    return tr.replace(value_noise=2 * tr.value_noise[0] - tr.value_noise)


def every_second(n: int) -> NDArray[np.bool_]:
    """The samples that R.3 mirrors."""
    return np.arange(n) % 2 == 0


def mirrored_run(regime: Regime, root: int, trial: int) -> Trajectory:
    """The same weights on data with (X_i, y_i) -> (-X_i, -y_i) for every second sample."""
    start = draw(regime.change(horizon=HORIZON), root, trial)
    return simulate(start, "full", change=lambda data: data.mirrored(every_second(regime.n)))


@claim(
    "R.3",
    "Mirroring a sample with its label changes nothing",
    source="Section 2 of claims.md",
    depends_on=["R.1"],
    home=["fig1"],
    inputs=[FULL, custom(mirrored_run)],
    units="(1e-12 − difference)/1e-12",
    constants={"steps": 6, "tolerance": TOLERANCE, "mirrored": "every second sample"},
)
def mirror_symmetry(full: Trajectory, mirrored: Trajectory) -> Check:
    r"""$(X_i, y_i) \to (-X_i, -y_i)$ for any set of samples changes no inner product $\langle w, y_i\xi_i\rangle$, $\langle w, \mu\rangle$ at
    any $t$: the labels cancel.

    Conditions: none beyond Eq. (1), whose attention is even and whose values are odd in X.
    Measured: the largest difference between two full torch runs from the same weights, the second with every second sample mirrored, and
    every turn; the margin is (1e-12 − difference)/1e-12 of the worst entity; > 0 holds. Flipping labels alone keeps only the law: the
    control shows that it changes the trajectory.
    Made finite: 6 steps, every second sample, and the tolerance 1e-12 (by this project; the difference is 0).
    Source: Section 2 of claims.md.
    """
    return equal(full, mirrored)


@mirror_symmetry.control("labels flipped alone")
def _(full: Trajectory, mirrored: Trajectory) -> tuple[Trajectory, Trajectory]:
    return full, simulate(full.start, "full", change=lambda data: data.relabelled(every_second(full.regime.n)))
