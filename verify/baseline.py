"""The plain way to simulate a trial, which the benchmark is measured against: a torch training loop with autograd on all weights."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from verify.data import Data, draw_data
from verify.errors import RegimeError
from verify.simulate.full import complete, one_thread
from verify.simulate.recorder import Recorder, State
from verify.simulate.trajectory import Trajectory
from verify.start import Start


class Network(nn.Module):
    """Eq. (1) for two patches, written as one would: three bias-free linear maps in float64, every row of both value heads used.

    `forward` also hands back what it computed on the way, so that recording costs the loop no second pass.
    """

    def __init__(self, W_Q: Tensor, W_K: Tensor, W_V: Tensor) -> None:
        super().__init__()
        self.W_Q, self.W_K, self.W_V = (nn.Parameter(w.detach().clone(memory_format=torch.contiguous_format)) for w in (W_Q, W_K, W_V))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Patches x (n, 2, d) -> f (n,), queries and keys (n, 2, m_k), logits (n, 2, 2), values <v, x> (n, 2)."""
        query, key = x @ self.W_Q.T, x @ self.W_K.T
        heads = x @ self.W_V.flatten(0, 1).T
        mean = heads.unflatten(-1, self.W_V.shape[:2]).mean(-1)
        value = mean[..., 0] - mean[..., 1]
        logits = query @ key.transpose(1, 2)
        f = (torch.softmax(logits, dim=-1) @ value[..., None]).sum((1, 2))
        return f, query, key, logits, value


def simulate(start: Start, steps: int | None = None) -> Trajectory:
    """Train all weights on dense data for `steps` steps (None: the regime's horizon), and record as every simulator does.

    Signs come from autograd in float64, which loses them at large logit gaps: this is a baseline for time, not for truth.

    Raises:
        RegimeError: unless L = 2, supports are disjoint and eta > 0; or if weights or data do not fit in memory.
        NumericError: when a sign of NaN would be taken.
    """
    r = start.regime
    if r.L != 2 or r.supports != "disjoint" or r.eta == 0:
        raise RegimeError(f"regime {r.name!r}: the baseline loop wants L=2, disjoint supports and eta > 0")
    if steps is not None:
        start = start.replace(regime=r.change(horizon=steps * r.eta))
    return train(start, *prepare(start))


def prepare(start: Start) -> tuple[Network, Data]:
    """The dense data of a trial, and weights that complete its start."""
    data = draw_data(start.regime, start.root, start.trial)
    full = complete(start, data)
    return Network(full.W_Q, full.W_K, full.W_V), data


@one_thread()
def train(start: Start, network: Network, data: Data) -> Trajectory:
    """The loop itself: forward, record, backward, sign update."""
    eta = start.regime.eta
    recorder = Recorder(start)
    while True:
        f, query, key, logits, value = network(data.x)
        recorder.observe(state_of(data, query, key, logits, value))
        if recorder.done:
            return recorder.trajectory("baseline", exact=True)
        loss = nn.functional.softplus(-data.y * f).mean()
        network.zero_grad()
        loss.backward()
        with torch.no_grad():
            for weight in network.parameters():
                assert weight.grad is not None
                weight -= eta * torch.sign(weight.grad)


def state_of(data: Data, query: Tensor, key: Tensor, logits: Tensor, value: Tensor) -> State:
    """The inner products and logit gaps of one step, from the activations."""
    each, signal = torch.arange(len(data.y)), data.position
    noise, y = 1 - signal, data.y
    values: dict[str, Tensor] = {
        "query_noise": (y[:, None] * query[each, noise]).T,
        "key_noise": (y[:, None] * key[each, noise]).T,
        "query_signal": y[0] * query[0, signal[0]],
        "key_signal": y[0] * key[0, signal[0]],
        "value_noise": y * value[each, noise],
        "value_signal": y[0] * value[0, signal[0]],
    }
    gaps = (logits[each, row, signal] - logits[each, row, noise] for row in (signal, noise))
    gap_signal, gap_noise = (gap.detach().numpy() for gap in gaps)
    return State({name: x.detach().numpy().copy() for name, x in values.items()}, gap_signal, gap_noise)
