"""Gradient descent through its inner products and the Gram matrix of the noise (R.1c): no weights, any overlap of supports."""

from __future__ import annotations

import numpy as np

from verify.simulate.recorder import Recorder, State
from verify.simulate.trajectory import Trajectory, output, sigmoid
from verify.start import Array, Start


def simulate(start: Start, gram: Array) -> Trajectory:
    r"""Run gradient descent with step size eta on the mean loss from `start`, over its regime's horizon.

    With $a_i = g_i(V_i-V_\mu)s_{i,11}s_{i,12}$, $b_i = g_i(V_i-V_\mu)s_{i,21}s_{i,22}$, and the step size lr:
    $Q_{s,j} += (lr/n)\sum_i b_i(K_{s,i}-k_s)G_{ij}$, $K_{s,j} += (lr/n)\sum_i(a_iq_s+b_iQ_{s,i})G_{ij}$,
    $q_s += (lr/n)\sum_i a_i(K_{s,i}-k_s)$, $k_s -= (lr/n)\sum_i(a_iq_s+b_iQ_{s,i})$,
    $V_j += (2lr/(nm_v))\sum_i g_i(s_{i,12}+s_{i,22})G_{ij}$, $V_\mu += (2lr/(nm_v))\sum_i g_i(s_{i,11}+s_{i,21})$.

    Args:
        start: inner products of the weights at the start; two patches, noise orthogonal to mu.
        gram: $G_{ij} = \langle y_i\xi_i, y_j\xi_j\rangle$, shape (n, n).
    """
    r = start.regime
    rate = r.eta / r.n
    Q, K, q, k = start.query_noise, start.key_noise, start.query_signal, start.key_signal
    V, V_mu = start.value_noise, start.value_signal
    recorder = Recorder(start)
    while True:
        gap_signal, gap_noise = q @ k - q @ K, k @ Q - (Q * K).sum(0)
        values = {"query_noise": Q, "key_noise": K, "query_signal": q, "key_signal": k, "value_noise": V, "value_signal": np.asarray(V_mu)}
        recorder.observe(State(values, gap_signal, gap_noise))
        if recorder.done:
            return recorder.trajectory("gram", exact=False)
        g = sigmoid(-output(gap_signal, gap_noise, np.asarray(V_mu), V))
        on_signal, on_noise = sigmoid(gap_signal), sigmoid(gap_noise)
        a, b = (g * (V - V_mu) * s * (1 - s) for s in (on_signal, on_noise))
        ahead, pull = K - k[:, None], a * q[:, None] + b * Q
        attended = on_signal + on_noise
        Q, K = Q + rate * (b * ahead) @ gram, K + rate * pull @ gram
        q, k = q + rate * ahead @ a, k - rate * pull.sum(1)
        V, V_mu = V + 2 * rate / r.m_v * (g * (2 - attended)) @ gram, V_mu + 2 * rate / r.m_v * float(g @ attended)
