"""The few shapes in which the paper quantifies: everywhere at a time, throughout a window, steady over a window."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verify.claim.check import NOT_OCCURRED, Check, Witness
from verify.constants import P
from verify.simulate.trajectory import PAIRS, Snapshot, Trajectory
from verify.start import Array

Mask = NDArray[np.bool_]
Place = tuple[np.intp, ...]


def slack_below(value: Array | float, bound: Array | float) -> Array:
    """(bound - value)/|bound|: positive iff value < bound."""
    bound = np.asarray(bound, float)
    return (bound - value) / np.abs(bound)


def slack_above(value: Array | float, bound: Array | float) -> Array:
    """(value - bound)/|bound|: positive iff value > bound."""
    bound = np.asarray(bound, float)
    return (value - bound) / np.abs(bound)


def slack_between(value: Array | float, low: float, high: float) -> Array:
    """The smaller of the two slacks, in units of the nearer bound; a low bound of 0 is in units of the high one."""
    value = np.asarray(value, float)
    below = (value - low) / abs(low or high)
    return np.minimum(below, slack_below(value, high))


def everywhere(
    judged: str,
    margin: Array | float,
    *,
    where: Mask | None = None,
    tau: float | Array | Callable[[Place], float] | None = None,
    tightness: float | None = None,
    **detail: Any,
) -> Check:
    """All entities, or a share of at least 1-p of them, have a positive margin.

    Args:
        judged: "all" or "share" (the regime's form).
        margin: per entity: shape (m_k, n), (m_k,), (n,) or (). A margin of exactly 0, and NaN, are violations.
        where: the entities the statement speaks of; if there are none, the event did not occur.
        tau: when each margin was attained (scalar or same shape, or a function of the entity's place), for the witness.
    """
    margin = np.asarray(margin, float)
    places = None if where is None else np.flatnonzero(where if where.shape == margin.shape else np.broadcast_to(where, margin.shape))
    chosen = margin.ravel() if places is None else margin.ravel()[places]
    if chosen.size == 0:
        return NOT_OCCURRED
    worst = float(chosen.min())
    numeric = "margin is NaN" if math.isnan(worst) else ""  # the minimum is NaN if any value is
    if numeric:
        worst = -math.inf
        chosen = np.where(np.isnan(chosen), worst, chosen)
    # With q = floor(p N) allowed failures, the share form holds iff the (q+1)-th smallest margin is positive.
    rank = math.floor(P * chosen.size + 1e-12) if judged == "share" and chosen.size > 1 else 0
    decides = float(np.partition(chosen, rank)[rank]) if rank else worst
    first = chosen.argmin()
    place = np.unravel_index(first if places is None else places[first], margin.shape)
    if isinstance(tau, np.ndarray) and tau.ndim:
        when = float((tau if tau.shape == margin.shape else np.broadcast_to(tau, margin.shape))[place])
    else:
        when = tau(place) if callable(tau) else None if tau is None else float(tau)
    return Check(
        holds=decides > 0,
        margin=decides,
        share=np.count_nonzero(chosen > 0) / chosen.size,
        worst=worst,
        all_hold=worst > 0,
        witness=Witness(when, *_axes(place)),
        numeric=numeric,
        tightness=tightness,
        detail=dict(detail),
    )


def _axes(place: Place) -> tuple[int | None, int | None]:
    if len(place) == 2:
        return int(place[0]), int(place[1])
    return (int(place[0]), None) if len(place) == 1 else (None, None)


BLOCK = 1 << 16
"""Pairs times times that are judged in one go: half a megabyte per array, so that temporaries stay in the cache."""


def window(tr: Trajectory, a: float, b: float, size: int) -> list[Snapshot]:
    """The times a, every grid time inside (a, b), and b, in blocks of at most `size` with a leading axis of times."""
    b = min(tr.within(b), tr.end)
    if not (math.isfinite(a) and a <= b):
        return []
    first, last = tr.index(a), tr.index(b)
    opening = [_block(tr.at(a))] if tr.between(a) else []
    closing = [_block(tr.at(b))] if tr.between(b) else []
    stop = last if closing else last + 1
    return [*opening, *(tr.stretch(j, min(j + size, stop)) for j in range(first, stop, size)), *closing]


def _block(shot: Snapshot) -> Snapshot:
    values = {name: np.asarray(value)[None] for name, value in vars(shot).items()}
    return Snapshot(**values | {name: values[name][:, None] for name in ("tau", "value_signal")})


def throughout(
    tr: Trajectory,
    a: float,
    b: float,
    margin: Callable[[Snapshot], Array],
    *,
    where: Mask | None = None,
    samples: bool = False,
    **detail: Any,
) -> Check:
    """The margin is positive at every recorded time of [a, b]; the curve of the worst entity is kept.

    Args:
        margin: of many times at once: a Snapshot with a leading axis of times (pairs (T, m_k, n), neurons (T, m_k), samples
            (T, n), `tau` and `value_signal` (T, 1)) to an array (T, entities...); (T, 1) is one entity without index.
        samples: whether a one-dimensional margin is indexed by samples, not neurons.
    """
    blocks = window(tr, a, b, len(tr.tau) if samples else max(1, BLOCK // (tr.regime.n * tr.regime.m_k)))
    if not blocks:
        return NOT_OCCURRED
    stacks = [np.asarray(margin(block), float) for block in blocks]
    if stacks[0].shape[1:] == (1,):
        stacks = [stack[:, 0] for stack in stacks]
    times = np.concatenate([block.tau[:, 0] for block in blocks])

    def attained(place: Place) -> float:
        path = np.concatenate([stack[:, *place] for stack in stacks])
        return float(times[np.argmin(path)])  # argmin finds a NaN first

    lowest = functools.reduce(np.minimum, [stack.min(axis=0) for stack in stacks])
    check = everywhere(tr.regime.judged, lowest, where=where, tau=attained, **detail)
    if not check.occurred:
        return check
    if where is not None and not np.all(where):
        chosen = np.flatnonzero(np.broadcast_to(where, lowest.shape))
        stacks = [stack.reshape(len(stack), -1)[:, chosen] for stack in stacks]
    curve = np.concatenate([stack.min(axis=tuple(range(1, stack.ndim))) for stack in stacks])
    return on_samples(with_curve(check, times, curve)) if samples else with_curve(check, times, curve)


def with_curve(check: Check, times: Array, curve: Array) -> Check:
    """The same check with its margin over time attached."""
    return replace(check, curve=(times, curve))


def on_samples(check: Check) -> Check:
    """Read a one-dimensional witness as a sample instead of a neuron."""
    w = check.witness
    return replace(check, witness=Witness(w.tau, None, w.s)) if w.i is None else check


def steady_margin(tr: Trajectory, quantity: str, a: float | Array, b: float | Array, sign: Array | float) -> tuple[Array, Array]:
    """How far `quantity` keeps moving in direction `sign` on (a, b), per entity: (margin, time of the first wrong step).

    The margin is (time of the first step that is not in that direction - b)/b: positive iff the direction is kept on all of
    (a, b), and then says by which factor the window could be longer (censored at the end of the run).
    """
    if np.size(b):
        tr.within(float(np.max(b)))
    right = tr.direction(quantity, a) == sign
    wrong = np.where(right, np.minimum(tr.turns[quantity].first_after(a), max(tr.end, float(np.max(b)) * (1 + 1e-9))), a)
    margin = (wrong - b) / np.abs(b)
    margin += 1e-12 * (right & (wrong >= b))
    return margin if np.all(b > a) else np.where(b > a, margin, np.nan), wrong


def steady(
    tr: Trajectory,
    quantity: str,
    a: float | Array,
    b: float | Array,
    sign: Array | float,
    *,
    where: Mask | None = None,
    samples: bool = False,
    **detail: Any,
) -> Check:
    """`quantity` moves in direction `sign` at every step of (a, b), for every entity in `where` with a non-empty window."""
    margin, wrong = steady_margin(tr, quantity, a, b, sign)
    open_window = ~np.isnan(margin)
    mask = open_window if where is None else open_window & where
    check = everywhere(tr.regime.judged, margin, where=mask, tau=wrong, **detail)
    return on_samples(check) if samples else check


def unit(tr: Trajectory, quantity: str, tau: float | Array) -> Array:
    """The unit of a signed value: eta*l_i for noise, eta for signals; in the limit eta = 0, the distance l_i*tau or tau moved so far.

    `tau` is one time or (T, 1); the result broadcasts against the quantity at that time or those times.
    """
    step = np.asarray(tr.regime.eta if tr.regime.eta > 0 else tau)
    if quantity.endswith("signal"):
        return step
    return (step[..., None] if step.ndim and quantity in PAIRS else step) * tr.l1


def same_sign(tr: Trajectory, tau: float | Array, first: tuple[str, Array], second: tuple[str, Array]) -> Array:
    """Signed agreement: +-min(|x|, |y|) in the quantities' units, positive iff x and y have the same strict sign."""
    (name_x, x), (name_y, y) = first, second
    x, y = x / unit(tr, name_x, tau), y / unit(tr, name_y, tau)
    least = np.minimum(x, y)
    return np.maximum(least, np.negative(np.maximum(x, y, out=x), out=x), out=least)  # in place: new memory is slow


def both(*checks: Check) -> Check:
    """All of several checks: the one with the smallest margin speaks; holds only if each does; not occurred if none did."""
    occurred = [c for c in checks if c.occurred]
    if not occurred:
        return NOT_OCCURRED
    worst = min(occurred, key=lambda c: (c.holds, c.margin))
    detail: dict[str, object] = {}
    for c in occurred:
        detail |= c.detail
    return replace(
        worst,
        holds=all(c.holds for c in occurred),
        share=min(c.share for c in occurred),
        worst=min(c.worst for c in occurred),
        all_hold=all(c.all_hold for c in occurred),
        numeric="; ".join(c.numeric for c in occurred if c.numeric),
        detail=detail,
    )
