"""What else closes: SignGD on overlapping supports (R.1b), gradient descent by the Gram matrix (R.1c), Adam with ε = 0 (R.1d)."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lemmas.reduction import TOLERANCE, equal
from verify import Check, Regime, Trajectory, claim, custom, draw, simulate

STEPS = 10
SMALL: dict[str, Any] = {"n": 8, "d": 400, "s": 30, "m_k": 16, "m_v": 5, "supports": "independent"}
"""From fig1 in size only: 8 x 30 of 399 coordinates, so that about 60 are shared."""
RATE = 0.1
"""Learning rate of gradient descent, a thousand times that of SignGD."""
UNITS = "(1e-12 − difference)/1e-12"


def overlapping(regime: Regime, root: int, trial: int, *, simulator: str) -> Trajectory:
    """SignGD on overlapping supports, every tenth noise patch on the signal's coordinate."""
    return simulate(draw(regime.change(**SMALL, on_signal=0.1, horizon=STEPS * regime.eta), root, trial), simulator)


@claim(
    "R.1b",
    "Overlapping supports: single-sample coordinates collapse",
    source="Section 2 of claims.md",
    depends_on=["R.1"],
    home=["fig1"],
    suite="full",
    inputs=[custom(partial(overlapping, simulator="full")), custom(partial(overlapping, simulator="reduced"))],
    units=UNITS,
    constants={"steps": STEPS, "tolerance": TOLERANCE},
)
def overlaps_collapse(full: Trajectory, reduced: Trajectory) -> Check:
    r"""Where supports overlap, the coordinates $C$ that sample $i$ alone touches still move as one: $\sum_{c\in C}w_c\xi_{i,c}$ by
    $\pm\eta\sum_{c\in C}|\xi_{i,c}|$ a step; with them, $\mu$'s coordinate and the shared ones, SignGD closes exactly.

    Conditions: none on the supports; every tenth noise patch takes coordinate 1.
    Measured: the largest difference between the full torch model and the collapsed one over all quantities, logit gaps and times, and every
    turn; the margin is (1e-12 − difference)/1e-12 of the worst entity, −1 or less where a turn differs; > 0 holds.
    Made finite: 10 steps of 8 samples with 30 of 400 coordinates, and the tolerance 1e-12 (by this project).
    Source: Section 2 of claims.md.
    """
    return equal(full, reduced)


@overlaps_collapse.control("overlaps ignored")
def _(full: Trajectory, reduced: Trajectory) -> tuple[Trajectory, Trajectory]:
    apart = full.regime.change(supports="disjoint", on_signal=0.0)
    return full, simulate(reduced.start.replace(regime=apart), "reduced")


def descent(regime: Regime, root: int, trial: int) -> Trajectory:
    """Gradient descent on all weights by autograd."""
    import torch

    r = regime.change(**SMALL, eta=RATE, horizon=STEPS * RATE)
    return simulate(draw(r, root, trial), "full", gradient="autograd", optimizer=lambda weights, lr: torch.optim.SGD(weights, lr=lr))


def gram_matrix(regime: Regime, root: int, trial: int) -> NDArray[np.float64]:
    r"""$G_{ij}=\langle y_i\xi_i,y_j\xi_j\rangle$ of the same samples, shape (n, n)."""
    from verify.data import draw_touched

    data, _ = draw_touched(regime.change(**SMALL), root, trial)
    folded = data.y[:, None] * data.noise[:, 0]
    return (folded @ folded.T).numpy()


@claim(
    "R.1c",
    "Gradient descent closes through the Gram matrix",
    source="Section 2 of claims.md",
    depends_on=["R.1"],
    home=["fig1"],
    suite="full",
    inputs=[custom(descent), custom(gram_matrix)],
    units=UNITS,
    constants={"steps": STEPS, "learning rate": RATE, "tolerance": TOLERANCE},
)
def descent_closes(full: Trajectory, products: NDArray[np.float64]) -> Check:
    r"""With $G_{ij}=\langle y_i\xi_i,y_j\xi_j\rangle$ gradient descent closes in inner products:
    $Q_{s,j} \mathrel{+}= \frac{\eta}{n}\sum_i b_i(K_{s,i}-k_s)G_{ij}$, $K_{s,j} \mathrel{+}= \frac{\eta}{n}\sum_i(a_iq_s+b_iQ_{s,i})G_{ij}$,
    $V_j \mathrel{+}= \frac{2\eta}{nm_v}\sum_ig_i(s_{i,12}+s_{i,22})G_{ij}$, and the signals likewise.

    Conditions: noise without coordinate 1; supports may overlap.
    Measured: the largest difference between torch's gradient descent on all weights and these equations over all quantities, logit gaps and
    times, and every turn; the margin is (1e-12 − difference)/1e-12 of the worst entity, −1 or less where a turn differs; > 0 holds.
    Made finite: 10 steps at learning rate 0.1, 8 samples, and the tolerance 1e-12 (by this project).
    Source: Section 2 of claims.md.
    """
    return equal(full, simulate(full.start, "gram", gram=products))


@descent_closes.control("the Gram matrix taken for diagonal")
def _(full: Trajectory, products: NDArray[np.float64]) -> tuple[Trajectory, NDArray[np.float64]]:
    return full, np.diag(np.diag(products))


@descent_closes.control("sign descent in place of gradient descent")
def _(full: Trajectory, products: NDArray[np.float64]) -> tuple[Trajectory, NDArray[np.float64]]:
    return simulate(draw(full.regime, full.start.root, full.seed), "full"), products


def adam(regime: Regime, root: int, trial: int, *, simulator: str) -> Trajectory:
    """Adam with ε = 0 on all weights ("full"), or on collapsed coordinates ("reduced")."""
    from verify.optim import Adam

    start = draw(regime.change(**SMALL, horizon=STEPS * regime.eta), root, trial)
    return simulate(start, simulator, gradient="autograd", optimizer=Adam)


@claim(
    "R.1d",
    "Adam with ε = 0: single-sample coordinates collapse",
    source="Section 2 of claims.md",
    depends_on=["R.1"],
    home=["fig1"],
    suite="full",
    inputs=[custom(partial(adam, simulator="full")), custom(partial(adam, simulator="reduced"))],
    units=UNITS,
    constants={"steps": STEPS, "tolerance": TOLERANCE},
)
def adam_collapses(full: Trajectory, reduced: Trajectory) -> Check:
    r"""Adam with $\epsilon=0$ and $0/0=0$ moves $w_c$ by $\eta\,\hat m/\sqrt{\hat v}$, the same up to $\operatorname{sgn}(\xi_{i,c})$ at all
    coordinates $c$ that sample $i$ alone touches: they collapse as for SignGD.

    Conditions: none on the supports.
    Measured: the largest difference between torch's Adam on all weights and on collapsed coordinates over all quantities, logit gaps and
    times, and every turn; the margin is (1e-12 − difference)/1e-12 of the worst entity, −1 or less where a turn differs; > 0 holds.
    Made finite: 10 steps of 8 samples with 30 of 400 coordinates, and the tolerance 1e-12 (by this project).
    Source: Section 2 of claims.md.
    """
    return equal(full, reduced)


@adam_collapses.control("Adam with ε = 0.01 on all weights")
def _(full: Trajectory, reduced: Trajectory) -> tuple[Trajectory, Trajectory]:
    import torch

    usual = lambda weights, lr: torch.optim.Adam(weights, lr=lr, eps=0.01)  # noqa: E731
    start = draw(full.regime, full.start.root, full.seed)
    return simulate(start, "full", gradient="autograd", optimizer=usual), reduced
