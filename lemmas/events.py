"""Conditioning events and pair classes of the proof: the vote D_s, aligned pairs, the event G (claims.md sections 1 and 2)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from verify import Trajectory, once, times

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
MIN_ALIGNED = 0.27
"""G: smallest share alpha_i of aligned neurons. Below 0.2616 a sample's log-odds dip under their value at T4-."""
MIN_SIGNAL = 0.9
"""G: smallest |q_s(T4-)| in units of eta*T4-."""


@once
def vote(tr: Trajectory) -> Array:
    r"""$D_s = ||J_{s,+}| - |J_{s,-}||$ from the signs of the query noise at $T_2$; shape (m_k,)."""
    return np.abs(np.sign(tr.at(times.T2).query_noise).sum(axis=1))


@once
def vote_signs(tr: Trajectory) -> tuple[Array, Array]:
    r"""$\operatorname{sgn}\sum_i K_{s,i}(T_2)$ and $\operatorname{sgn}\sum_i Q_{s,i}(T_2)$; shape (m_k,) each."""
    at = tr.at(times.T2)
    return np.sign(at.key_noise.sum(axis=1)), np.sign(at.query_noise.sum(axis=1))


def reached(tr: Trajectory, *names: str) -> bool:
    """Whether every named time was reached in this trial."""
    return all(np.isfinite(tr.time(name)) for name in names)


@once
def signal_sign(tr: Trajectory) -> Array:
    r"""$\operatorname{sgn} q_s(T_4^-)$, shape (m_k, 1)."""
    return np.sign(tr.at(times.T4_MINUS).query_signal)[:, None]


@once
def unaligned(tr: Trajectory, quantity: str) -> Mask:
    """Pairs whose query or key noise differs in sign from q_s at T4-; shape (m_k, n)."""
    return np.sign(getattr(tr.at(times.T4_MINUS), quantity)) != signal_sign(tr)


@once
def aligned_share(tr: Trajectory) -> Array:
    r"""$\alpha_i$: share of neurons with $\operatorname{sgn} Q_{s,i}(T_4^-) = \operatorname{sgn} q_s(T_4^-)$; shape (n,)."""
    return 1 - unaligned(tr, "query_noise").mean(axis=0)


@once
def event_g(tr: Trajectory) -> bool:
    r"""The event G: $\min_i\alpha_i \ge 0.27$ and $|q_s(T_4^-)| \ge 0.9\,\eta T_4^-$ for all s."""
    signal = np.abs(tr.at(times.T4_MINUS).query_signal)
    return bool(aligned_share(tr).min() >= MIN_ALIGNED and signal.min() >= MIN_SIGNAL * tr.time(times.T4_MINUS))


def excused(tr: Trajectory) -> bool:
    """Whether a claim 'given G' is not judged in this trial.

    Where claims are judged by shares, G is not asked for: it speaks of every pair, and the share already excuses laggards.
    """
    return tr.regime.judged == "all" and not event_g(tr)


def value_at(tr: Trajectory, quantity: str, tau: Array) -> Array:
    """A neuron's signal at its own time `tau` (m_k,), by linear interpolation between grid times; nan where tau is nan."""
    path, tau = getattr(tr, quantity), np.clip(tau, tr.tau[0], tr.tau[-1])
    j = np.clip(np.searchsorted(tr.tau, tau, side="right"), 1, len(tr.tau) - 1)  # the end of each time's interval
    s = np.arange(len(tau))
    slope = (path[j, s] - path[j - 1, s]) / (tr.tau[j] - tr.tau[j - 1])
    return slope * (tau - tr.tau[j - 1]) + path[j - 1, s]
