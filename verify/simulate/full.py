"""The full simulator, the truth the others are held against: every weight of Eq. (1) trained in torch on Definition 2.1."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from verify.data import Data, draw_touched
from verify.errors import RegimeError
from verify.model import Transformer, output
from verify.optim import ClosedForm, Doubt, SignGD
from verify.regime import MAX_ELEMENTS, Regime
from verify.simulate.recorder import Recorder, State
from verify.simulate.reduced import Fault
from verify.simulate.trajectory import Trajectory
from verify.start import Array, Start, stream

Gradient = Literal["closed", "autograd"]
Projected = tuple[Tensor, Tensor, Tensor]
MakeOptimizer = Callable[[Iterable[Any], float], torch.optim.Optimizer]


@contextmanager
def one_thread() -> Iterator[None]:
    """torch on one thread: rounding must not depend on how many processes share the machine (and products this small gain nothing)."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def simulate(
    start: Start,
    *,
    gradient: Gradient = "closed",
    optimizer: MakeOptimizer = SignGD,
    change: Callable[[Data], Data] = lambda data: data,
    fault: Fault | None = None,
) -> Trajectory:
    """Train the full model from the weights that complete `start`, over the regime's horizon.

    Args:
        gradient: "closed" takes signs in log space; "autograd" is the cross-check, and loses signs at large logit gaps.
        optimizer: made from (named parameters, eta). With gradient="closed" it is given the gradients' signs.
        change: of the data, after the weights were drawn (for controls and violations).
        fault: a value written into the weights just before a step.

    Raises:
        RegimeError: where the weights or the data do not fit in memory, or eta = 0.
        NumericError: when a sign of NaN would be taken.
    """
    # Coordinates that no sample touches have gradient 0 and stay where they are.
    data, _ = draw_touched(start.regime, start.root, start.trial)
    model = complete(start, data)
    return train(start, model, change(data), gradient=gradient, optimizer=optimizer, fault=fault)


@one_thread()
def complete(start: Start, data: Data) -> Transformer:
    r"""Weights whose inner products with mu and y_i xi_i are the start's, and which are Gaussian otherwise.

    With a matrix A of rows a_j (y_i xi_i and mu) and $w = G + A^\top(AA^\top)^{-1}(c - AG)$, G i.i.d. $N(0,\sigma_0^2)$, w is
    i.i.d. $N(0,\sigma_0^2)$ iff $c \sim N(0,\sigma_0^2AA^\top)$. On disjoint supports that is the start's law, and c are its
    inner products; where supports overlap, c = |A| R^{1/2} |A|^{-1} c_start with R the correlations of the rows and |A| their
    lengths, which has the right law and deviates from the start as little as the overlaps demand. All rows of a head are
    shifted alike. G is drawn on the touched coordinates first, so that data restricted to them get the same weights there.

    Raises:
        RegimeError: if the weights do not fit in memory.
    """
    r, d = start.regime, data.x.shape[-1]
    if (size := 2 * (r.m_k + r.m_v) * d) > MAX_ELEMENTS:
        raise RegimeError(
            f"regime {r.name!r}: {size} weights do not fit in memory (limit {MAX_ELEMENTS:g}); use the reduced or flow simulator"
        )
    rows = torch.cat([data.y[:, None] * data.noise[:, 0], torch.eye(1, d, dtype=torch.float64)])
    length = rows.norm(dim=1)
    level, basis = torch.linalg.eigh((rows @ rows.T) / length / length[:, None])
    level = level.clamp(min=0)
    kept = level > len(level) * 1e-14
    root = basis * level.sqrt() @ basis.T
    inverse = basis[:, kept] / level[kept] @ basis[:, kept].T
    if r.disjoint:
        root = inverse = torch.eye(len(level), dtype=torch.float64)

    touched = (data.x != 0).any(0).any(0)

    def shift(weights: Tensor, noise: Array, signal: Array | float) -> Tensor:
        """What to add to weights (k, d) so that they meet noise (k, n) and signal (k,)."""
        target = torch.from_numpy(np.column_stack([noise, np.atleast_1d(signal)])) / length @ root
        return (target - weights @ rows.T / length) @ inverse / length @ rows

    def gaussian(name: str, count: int) -> Tensor:
        generator = stream(start.root, start.trial, name)
        drawn = torch.empty((count, d), dtype=torch.float64)
        for which in (touched, ~touched):
            drawn[:, which] = torch.from_numpy(r.sigma_0 * generator.standard_normal((count, int(which.sum()))))
        return drawn

    W_Q, W_K = gaussian("weights_query", r.m_k), gaussian("weights_key", r.m_k)
    W_Q += shift(W_Q, start.query_noise, start.query_signal)
    W_K += shift(W_K, start.key_noise, start.key_signal)
    W_V = gaussian("weights_value", 2 * r.m_v).reshape(r.m_v, 2, d).transpose(0, 1).contiguous()
    mean = W_V.mean(1)
    half = shift((mean[0] - mean[1])[None], start.value_noise[None], start.value_signal) / 2
    W_V += torch.stack([half, -half])
    return Transformer(W_Q, W_K, W_V)


@one_thread()
def train(
    start: Start,
    model: Transformer,
    data: Data,
    *,
    gradient: Gradient = "closed",
    optimizer: MakeOptimizer = SignGD,
    fault: Fault | None = None,
    view: View | None = None,
    simulator: str = "full",
) -> Trajectory:
    """Train `model` in place on `data` and record it under `start`'s regime and trial.

    The arguments are those of `simulate`; `view` and the simulator's name are given where `data` stand for others (R.1b).

    Raises:
        RegimeError: if eta = 0.
        NumericError: when a sign of NaN would be taken.
    """
    r = start.regime
    if r.eta == 0:
        raise RegimeError(f"regime {r.name!r}: eta=0 is the limit; use simulator=flow, or give eta > 0")
    updates = optimizer(model.named_parameters(), r.eta)
    closed = ClosedForm(data.x, data.y)
    view = view or View(data)
    if not r.reducible:
        start = start.replace(**view.state(model, closed.project(model)).values, l1=view.l1, l2=view.l2)
    recorder = Recorder(start)
    while True:
        if fault is not None and recorder.taken == fault.step:
            _inject(model, data, fault, r)
        projected = closed.project(model)
        recorder.observe(view.state(model, projected))
        if recorder.done:
            break
        if gradient == "closed":
            signs, doubt = closed(model, projected)
            view.count(recorder.uncertain, doubt)
            for name, weight in model.named_parameters():
                weight.grad = signs[name]
        else:
            updates.zero_grad()
            model.loss(data.x, data.y).backward()
        updates.step()
    return recorder.trajectory(simulator, exact=r.reducible and optimizer is SignGD)


class View:
    """What a Trajectory records of the samples `data`: which patches stand for a sample, and the label-folded inner products."""

    def __init__(self, data: Data) -> None:
        self.data = data
        self.each = torch.arange(len(data.y))
        length = data.x.abs().sum(-1).masked_fill(data.is_signal, -1.0)
        self.noise = length.argmax(1)
        self.l1 = length[self.each, self.noise].numpy()
        self.l2 = data.x[self.each, self.noise].norm(dim=1).numpy()
        # Signal patches, the noise patch of the largest l1, the other noise patches.
        self.order = torch.where(data.is_signal, math.inf, length).argsort(dim=1, descending=True, stable=True)
        self.two_patches = data.x.shape[1] == 2 and not bool(data.mislabelled.any())

    def state(self, model: Transformer, projected: Projected) -> State:
        """The state before a step; beyond two patches and right labels with the outputs and all softmax outputs."""
        query, key, value = projected
        data, each, noise = self.data, self.each, self.noise
        logits = query @ key.transpose(1, 2)
        values = {
            "query_noise": (data.y[:, None] * query[each, noise]).T,
            "key_noise": (data.y[:, None] * key[each, noise]).T,
            "query_signal": model.W_Q[:, 0],
            "key_signal": model.W_K[:, 0],
            "value_noise": data.y * value[each, noise],
            "value_signal": model.v[0],
        }
        more = {} if self.two_patches else {"output_margin": data.y * output(logits, value), "log_attention": self._attention(logits)}
        signal_gap, noise_gap = (self._gap(logits[each, row]).numpy() for row in (data.position, noise))
        arrays = lambda named: {q: x.detach().numpy().copy() for q, x in named.items()}  # noqa: E731
        return State(arrays(values), signal_gap, noise_gap, arrays(more))

    def _gap(self, row: Tensor) -> Tensor:
        """Log-odds of all signal patches against all noise patches, from logits (n, L)."""
        mine = self.data.is_signal
        return row.masked_fill(~mine, -math.inf).logsumexp(1) - row.masked_fill(mine, -math.inf).logsumexp(1)

    def _attention(self, logits: Tensor) -> Tensor:
        each, order = self.each[:, None, None], self.order
        return torch.log_softmax(logits, -1)[each, order[:, :, None], order[:, None, :]]

    def count(self, uncertain: dict[str, int], doubt: Doubt) -> None:
        """Add the signs within their rounding bound, by quantity."""
        uncertain["query_noise"] += int(doubt.query[self.each, self.noise].sum())
        uncertain["key_noise"] += int(doubt.key[self.each, self.noise].sum())
        uncertain["query_signal"] += int(doubt.query_first.sum())
        uncertain["key_signal"] += int(doubt.key_first.sum())


@torch.no_grad()
def _inject(model: Transformer, data: Data, fault: Fault, r: Regime) -> None:
    """Shift the weights so that one inner product takes the fault's value; a NaN reaches exactly the weights it is made of."""
    vector = torch.zeros(data.x.shape[-1], dtype=torch.float64)
    vector[0] = 1.0
    if fault.quantity.endswith("noise"):
        i = fault.index % r.n
        vector = data.y[i] * data.noise[i, 0]
    support = vector != 0
    direction = vector[support] / vector[support].square().sum()
    if fault.quantity.startswith("value"):
        change = (fault.value - model.v @ vector) * direction / 2
        model.W_V[0][:, support] += change
        model.W_V[1][:, support] -= change
        return
    weights = model.W_Q if fault.quantity.startswith("query") else model.W_K
    s = fault.index // r.n if fault.quantity.endswith("noise") else fault.index
    missing = fault.value - weights[s] @ vector
    weights[s, support] += missing * direction
