"""ladder-64-mk16, where ties and the event G bite: who votes wrongly, and who is late (claims.md section 2)."""

from __future__ import annotations

import numpy as np
import pytest

from lemmas.events import MIN_ALIGNED, MIN_SIGNAL, aligned_share, unaligned, vote, vote_signs
from lemmas.stage4 import LATE, first_flip
from verify import Trajectory, get, simulate_trial, steady_margin, times

SEEDS = 16


@pytest.fixture(scope="module")
def trials() -> list[Trajectory]:
    return [simulate_trial(get("ladder-64-mk16"), 0, seed) for seed in range(SEEDS)]


def wrong_votes(tr: Trajectory) -> np.ndarray:
    """Neurons whose query or key signal leaves the vote somewhere on [T_2, T_3]; shape (m_k,)."""
    key_vote, query_vote = vote_signs(tr)
    a, b = tr.time(times.T2), tr.time(times.T3)
    q, _ = steady_margin(tr, "query_signal", a, b, key_vote)
    k, _ = steady_margin(tr, "key_signal", a, b, -query_vote)
    return np.minimum(q, k) <= 0


def test_majority_voting_fails_only_at_ties(trials: list[Trajectory]) -> None:
    """P(|J_+| = |J_-|) = C(64, 32)/2^64 = 0.0993 per neuron: 25.4 of 256 expected; outside [8, 49] with probability < 1e-5."""
    ties = [vote(tr) == 0 for tr in trials]
    failing = [wrong_votes(tr) for tr in trials]
    assert all((tie | ~bad).all() for tie, bad in zip(ties, failing, strict=True))
    assert 8 <= sum(int(tie.sum()) for tie in ties) <= 49
    assert sum(int(bad.sum()) for bad in failing) > 0  # the regime does bite: this test could fail


def test_late_key_noise_sits_where_the_reduction_says(trials: list[Trajectory]) -> None:
    """Late = not flipped by (2+theta_c)T4-. Each late pair has a sample with few aligned neurons, a tied neuron, or a small l_i."""
    late_pairs = explained = pairs = marked = 0
    for tr in trials:
        t4 = tr.time(times.T4_MINUS)
        late = unaligned(tr, "key_noise") & (first_flip(tr, "key_noise") > LATE * t4)
        few = aligned_share(tr) < MIN_ALIGNED
        weak = np.abs(tr.at(times.T4_MINUS).query_signal) < MIN_SIGNAL * t4
        small = tr.l1 < np.quantile(tr.l1, 0.25)
        places = few[None, :] | weak[:, None] | small[None, :]
        late_pairs, explained = late_pairs + int(late.sum()), explained + int((late & places).sum())
        pairs, marked = pairs + places.size, marked + int(places.sum())
    print(f"{explained} of {late_pairs} late pairs in these places, which hold {marked} of {pairs} pairs")
    assert explained == late_pairs > 0
    assert (marked / pairs) ** late_pairs < 1e-6  # were the places chosen blindly, they would not hold every late pair
