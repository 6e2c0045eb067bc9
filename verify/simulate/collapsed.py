"""The reduction where supports overlap or contexts are longer (R.1b): coordinates of one sample collapse, the others are kept."""

from __future__ import annotations

import torch
from torch import Tensor

from verify.data import Data, draw_touched
from verify.model import Transformer
from verify.optim import SignGD
from verify.simulate import two_patches
from verify.simulate.full import Gradient, MakeOptimizer, View, complete, one_thread, train
from verify.simulate.trajectory import Trajectory
from verify.start import Start


def simulate(start: Start, *, gradient: Gradient = "closed", optimizer: MakeOptimizer = SignGD) -> Trajectory:
    r"""Training on collapsed coordinates over the regime's horizon, from the weights that the full simulator would begin with.

    The coordinates C that sample i alone touches, each with one value $x_c$ in all patches that have it, move as one: the gradient
    there is a common coefficient times $x_c$, so SignGD moves $\sum_{c\in C} w_cx_c$ by $\eta\sum_{c\in C}|x_c|$ in the sign of the
    coefficient. So would one weight $\sum_C w_cx_c/\sum_C|x_c|$ at a coordinate with the datum $\sum_C|x_c|$. It holds for every
    optimizer whose step ignores the scale of a coordinate's gradients (Adam with epsilon = 0: R.1d). Coordinate 1 and shared
    coordinates stay. f sees W_V only through the mean of each head, whose rows move alike: one row per head is left.

    Args:
        gradient, optimizer: as for `full.simulate`.

    Raises:
        RegimeError: where the weights or the data do not fit in memory, or eta = 0.
        NumericError: when a sign of NaN would be taken.
    """
    data, _ = draw_touched(start.regime, start.root, start.trial)
    small, onto = collapse(data)
    model, view = collapsed_weights(complete(start, data), onto), View(data)
    if view.two_patches and gradient == "closed" and optimizer is SignGD:
        with one_thread():
            return two_patches.train(start, model, small, view.l1, view.l2)
    return train(start, model, small, gradient=gradient, optimizer=optimizer, view=view, simulator="reduced")


def collapse(data: Data) -> tuple[Data, Tensor]:
    """The samples on collapsed coordinates (k), and the map onto them (d, k).

    A weight vector w (d,) becomes `w @ onto`; the first coordinate stays the signal's.
    """
    n, L, d = data.x.shape
    touched = data.x != 0
    value = data.x.flatten(0, 1).gather(0, touched.flatten(0, 1).to(torch.int8).argmax(0)[None])[0]
    alone = (touched.any(1).sum(0) == 1) & ((data.x == value) | ~touched).all((0, 1))
    alone[0] = False
    # One class per pattern of touching patches; a kept coordinate is a class of its own.
    pattern = touched.flatten(0, 1).T.double()
    _, classes = torch.unique(pattern[alone], dim=0, return_inverse=True)
    kept = int((~alone).sum())
    index = torch.empty(d, dtype=torch.int64)
    index[~alone] = torch.arange(kept)
    index[alone] = kept + classes
    size = int(index.max()) + 1
    weight = torch.where(alone, value, 1.0)
    length = torch.zeros(size, dtype=torch.float64).index_add(0, index, weight.abs())
    onto = torch.sparse_coo_tensor(
        torch.stack([torch.arange(d), index]), weight / length[index], (d, size), check_invariants=False
    ).coalesce()
    x = torch.zeros((n, L, size), dtype=torch.float64)
    x[:, :, index] = torch.where(alone, touched * length[index], data.x)
    return Data(x, data.y, data.is_signal, data.mislabelled), onto


@one_thread()
@torch.no_grad()
def collapsed_weights(model: Transformer, onto: Tensor) -> Transformer:
    """The model on collapsed coordinates, with the same inner products; one row per value head."""
    query, key, value = (w.detach() for w in (model.W_Q, model.W_K, model.W_V.mean(1)))
    return Transformer(query @ onto, key @ onto, (value @ onto)[:, None])
