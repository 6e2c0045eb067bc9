"""SignGD on two patches with right labels, any supports: the closed form with the labels folded in, and two products a step."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from verify.data import Data
from verify.model import Transformer
from verify.optim import EPS
from verify.simulate.recorder import Recorder, State, log_sech
from verify.simulate.trajectory import Trajectory, output
from verify.start import Array, Start

_LOWEST = -1e300  # stands for log 0 where log 0 - log 0 would be NaN


class Samples:
    r"""The noise $y_i\xi_i$ on k coordinates, the first of which is the signal's, and the signs of sums over samples.

    A coordinate's sum is divided by the largest coefficient among the patches that touch it, so that no term which could decide
    the sign underflows (as in `optim.ClosedForm`). Where every sample touches every coordinate, that is one number for all.
    """

    def __init__(self, data: Data) -> None:
        folded = data.y[:, None] * data.noise[:, 0]
        self.noise, self.across = folded.contiguous(), folded.T.contiguous()  # (n, k), (k, n)
        self.first = folded[:, 0].numpy().copy()
        self.meets = self.first != 0
        touched = self.across[1:] != 0
        self.touched = None if bool(touched.all()) else touched.numpy()

    def signs(self, step: Tensor, log_signal: Array, on_signal: Array, log_noise: Array, on_noise: Array, bound: Array) -> int:
        r"""Write the sign of $\sum_i(e^{p_i}u_{i\cdot}\mu+e^{r_i}w_{i\cdot}\,y_i\xi_i)$ into `step` (k, j).

        Args:
            log_signal, log_noise: p and r, shape (n,). on_signal, on_noise: u and w, shape (n, j).
            bound: sums of absolute values (n, j) behind both u and w.

        Returns:
            How many signs of the first coordinate lie within their rounding bound without being 0.
        """
        if self.touched is None:
            torch.mm(self.across, torch.from_numpy(np.exp(log_noise - log_noise.max())[:, None] * on_noise), out=step)
        else:
            largest = np.where(self.touched, log_noise, -np.inf).max(1, keepdims=True)
            factor = torch.from_numpy(np.exp(np.where(self.touched, log_noise, largest) - largest))
            torch.mm(self.across[1:] * factor, torch.from_numpy(on_noise), out=step[1:])
        top = max(log_signal.max(), log_noise[self.meets].max(initial=-np.inf))
        signal, noise = np.exp(log_signal - top), self.first * np.exp(np.where(self.meets, log_noise, top) - top)
        total = signal @ on_signal + noise @ on_noise
        step[0] = torch.from_numpy(total)
        step.sign_()
        return _doubtful(total, (signal + np.abs(noise)) @ bound, EPS * (2 * len(signal) + 8))


@torch.no_grad()
def train(start: Start, model: Transformer, data: Data, l1: Array, l2: Array) -> Trajectory:
    r"""Train `model`, of whose W_V only v is seen, on `data`, and record what `full.train` does.

    With $a_i = g_i(V_i-V_\mu)s_{i,11}s_{i,12}$, $b_i = g_i(V_i-V_\mu)s_{i,21}s_{i,22}$ the loss falls along
    $\sum_i(K_{s,i}-k_s)(b_iy_i\xi_i+a_i\mu)$ for $w_{Q,s}$, $\sum_i(a_iq_s+b_iQ_{s,i})(y_i\xi_i-\mu)$ for $w_{K,s}$, and
    $\sum_ig_i\big((s_{i,11}+s_{i,21})\mu+(s_{i,12}+s_{i,22})y_i\xi_i\big)$ for v.

    Args:
        l1, l2: norms (n,) of the noise, of which collapsed data keep only the first.

    Raises:
        NumericError: if a value is not finite, with the step and the quantity.
    """
    r, m, samples = start.regime, start.regime.m_k, Samples(data)
    W_Q, W_K, v = (w.detach().T.contiguous() for w in (model.W_Q, model.W_K, model.v[None]))  # (k, m_k), (k, m_k), (k, 1)
    step, step_v = torch.empty_like(W_Q), torch.empty_like(v)
    each = np.ones((r.n, 1))
    recorder: Recorder | None = None
    while True:
        Q, K, V = ((samples.noise @ w).numpy() for w in (W_Q, W_K, v))  # (n, m_k), (n, m_k), (n, 1)
        q, k, V_mu = (w[0].numpy().copy() for w in (W_Q, W_K, v))
        values = {"query_noise": Q.T, "key_noise": K.T, "query_signal": q, "key_signal": k, "value_noise": V[:, 0], "value_signal": V_mu[0]}
        logits = np.stack([np.full(r.n, q @ k), K @ q, Q @ k, np.einsum("is,is->i", Q, K)])
        gap_signal, gap_noise = logits[0] - logits[1], logits[2] - logits[3]
        if recorder is None:
            recorder = Recorder(start if r.reducible else start.replace(**values, l1=l1, l2=l2))
        recorder.observe(State(values | {"value_signal": np.asarray(V_mu[0])}, gap_signal, gap_noise))
        if recorder.done:
            return recorder.trajectory("reduced", exact=r.reducible)

        log_g = -np.logaddexp(0, output(gap_signal, gap_noise, V_mu, V[:, 0]))
        ahead = V[:, 0] - V_mu
        with np.errstate(divide="ignore"):
            size = np.maximum(np.log(np.abs(ahead)), _LOWEST) + log_g
        a, b = (size + log_sech(gap) for gap in (gap_signal, gap_noise))
        side, larger = np.sign(ahead)[:, None], np.maximum(a, b)
        of_signal, of_noise = (np.exp(x - larger)[:, None] for x in (a, b))
        push, pull = side * (K - k), side * (of_signal * q + of_noise * Q)
        behind = of_signal * np.abs(q) + of_noise * np.abs(Q)
        recorder.uncertain["key_noise"] += _doubtful(pull, behind, EPS * (m + 2 + np.abs(logits).sum(0))[:, None])
        rise, fall = (-np.logaddexp(0, s * np.stack([gap_signal, gap_noise])) for s in (-1, 1))  # logs of attention to signal, noise
        samples.signs(step_v, np.logaddexp(*rise) + log_g, each, np.logaddexp(*fall) + log_g, each, each)
        v.add_(step_v, alpha=2 * r.eta)
        recorder.uncertain["query_signal"] += samples.signs(step, a, push, b, push, np.abs(K) + np.abs(k))
        W_Q.add_(step, alpha=r.eta)
        recorder.uncertain["key_signal"] += samples.signs(step, larger, -pull, larger, pull, behind)
        W_K.add_(step, alpha=r.eta)


def _doubtful(value: Array, size: Array, rounding: Array | float) -> int:
    """How many values lie within their rounding bound without being exact zeros."""
    return int(np.count_nonzero((value != 0) & (np.abs(value) <= rounding * size)))
