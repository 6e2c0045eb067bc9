"""The reduction where supports overlap or contexts are longer (R.1b): coordinates of one sample collapse, the others are kept."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from verify.data import Data, draw_touched
from verify.model import Transformer
from verify.optim import SignGD
from verify.simulate.full import View, complete, one_thread, train
from verify.simulate.trajectory import Trajectory
from verify.start import Start


def simulate(start: Start) -> Trajectory:
    r"""SignGD on collapsed coordinates over the regime's horizon, from the weights that the full simulator would begin with.

    The coordinates C that sample i alone touches, each with one value $x_c$ in all patches that have it, move as one: the gradient
    there is a common coefficient times $x_c$, so $u = \sum_{c\in C} w_cx_c$ moves by $\eta\sum_{c\in C}|x_c|$ in the sign of the
    coefficient. It is a weight at a coordinate whose datum is 1, with its own step size. Coordinate 1 and shared coordinates stay.
    f sees W_V only through the mean of each head, whose rows move alike: one row per head is left.

    Raises:
        RegimeError: where the weights or the data do not fit in memory, or eta = 0.
        NumericError: when a sign of NaN would be taken.
    """
    data, _ = draw_touched(start.regime, start.root, start.trial)
    small, rate, onto = collapse(data)
    model = collapsed_weights(complete(start, data), onto)
    return train(start, model, small, optimizer=partial(SignGD, rate=rate), view=View(data), simulator="reduced")


def collapse(data: Data) -> tuple[Data, Tensor, Tensor]:
    """The samples on collapsed coordinates (k), the step size of each in units of eta (k,), and the map onto them (d, k).

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
    onto = torch.sparse_coo_tensor(torch.stack([torch.arange(d), index]), weight, (d, size), check_invariants=False).coalesce()
    rate = torch.zeros(size, dtype=torch.float64).index_add(0, index, weight.abs())
    x = torch.zeros((n, L, size), dtype=torch.float64)
    x[:, :, index] = torch.where(alone, touched.double(), data.x)
    return Data(x, data.y, data.is_signal, data.mislabelled), rate, onto


@one_thread()
@torch.no_grad()
def collapsed_weights(model: Transformer, onto: Tensor) -> Transformer:
    """The model on collapsed coordinates, with the same inner products; one row per value head."""
    query, key, value = (w.detach() for w in (model.W_Q, model.W_K, model.W_V.mean(1)))
    return Transformer(query @ onto, key @ onto, (value @ onto)[:, None])
