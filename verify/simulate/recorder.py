"""Turns the states of a discrete run, step by step, into the Trajectory: grid values, turns, crossings, measured times."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verify.errors import NumericError
from verify.simulate.trajectory import QUANTITIES, Events, Trajectory, grid_steps, with_measured
from verify.start import Array, Start
from verify.times import T3, formula_times

Log = list[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]
CLIP = 690.0  # exp(690) is finite, and no ratio of inner products reaches it


@dataclass(frozen=True)
class State:
    """Every inner product before one step, by quantity (shapes (m_k, n), (m_k,), (n,), ()), and both logit gaps (n,).

    more: what `Trajectory` holds besides, such as log_attention (n, L, L).
    """

    values: dict[str, Array]
    gap_signal: Array
    gap_noise: Array
    more: dict[str, Array] = field(default_factory=dict)


def log_sech(x: Array) -> Array:
    """log of sigmoid(x)*sigmoid(-x): never underflows."""
    return -np.abs(x) - 2 * np.log1p(np.exp(-np.abs(x)))


class Recorder:
    """Feed it the state of every step in order with `observe`; it asks nothing of how the steps were made."""

    def __init__(self, start: Start) -> None:
        self.start = start
        self.grid = grid_steps(start.regime)
        self.times = formula_times(start.regime)
        self.step_t3 = math.ceil(self.times[T3] / start.regime.eta * (1 - 1e-12))
        self.rows: list[State] = []
        self.turns: Log = []
        self.crossings: Log = []
        self.uncertain: dict[str, int] = dict.fromkeys(QUANTITIES, 0)
        self.zero: dict[str, int] = dict.fromkeys(QUANTITIES, 0)
        self._step = -1
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._ends = np.zeros(1, np.int64)
        self._side = self._first = self._direction = self._before = np.empty(0)
        self._t4_minus, self._t4_plus, self._failed = -1, -1, False
        self._until = np.full(start.regime.m_k, -1.0)
        self._open = np.ones(start.regime.m_k, bool)

    def observe(self, state: State) -> None:
        """Record the state before the next step.

        Raises:
            NumericError: if a value is not finite, with the step and the quantity.
        """
        self._step += 1
        t = self._step
        values = [np.ravel(state.values[name]) for name in QUANTITIES]
        flat = np.concatenate(values)  # a step asks the same of every value: once for all is several times faster
        if not np.isfinite(flat.sum()):
            raise NumericError(t, next((name for name, x in zip(QUANTITIES, values, strict=True) if not np.isfinite(x.sum())), "values"))
        if not np.isfinite(state.gap_signal.sum() + state.gap_noise.sum()):
            raise NumericError(t, "logits")
        if t == 0:
            self._side = np.sign(flat)
            self._shapes = {name: np.shape(state.values[name]) for name in QUANTITIES}
            self._ends = np.cumsum([len(x) for x in values])
        else:
            self._increment(t - 1, flat)
        self._before = flat
        if t == self.grid[len(self.rows)]:
            self.rows.append(state)
        if t >= self.step_t3:
            self._measure(t, state)

    def _increment(self, t: int, after: Array) -> None:
        before = self._before
        direction = np.sign(after - before)
        if not direction.all():
            for name, part in self._by_quantity(direction).items():
                self.zero[name] += int(np.count_nonzero(part == 0))
        if t == 0:
            self._first = direction
        elif len(turned := np.flatnonzero(direction != self._direction)):
            self.turns.append((np.full(len(turned), float(t)), turned, direction[turned]))
        self._direction = direction
        side = np.sign(after)
        if len(crossed := np.flatnonzero((side != 0) & (side != self._side))):
            old, new = before[crossed], after[crossed]
            with np.errstate(invalid="ignore", divide="ignore"):
                where = np.clip(1 - new / (new - old), 0.0, 1.0)
            self.crossings.append((t + where, crossed, side[crossed]))
            self._side[crossed] = side[crossed]

    def _by_quantity(self, flat: Array) -> dict[str, Array]:
        parts = np.split(flat, self._ends[:-1])
        return {name: part.reshape(self._shapes[name]) for name, part in zip(QUANTITIES, parts, strict=True)}

    def _measure(self, t: int, state: State) -> None:
        """T_4^- (Eq. 29), T_4^+ (Eq. 42) and T_{4,s}^{(30)} (Eq. 30), as in the reduced simulator."""
        la, lb = log_sech(state.gap_signal), log_sech(state.gap_noise)
        ratio = np.exp(np.clip(la - lb, -CLIP, CLIP))
        noise, signal = np.abs(state.values["query_noise"]), np.abs(state.values["query_signal"])[:, None]
        if not self._failed:
            self._failed = not bool((noise >= 2 * ratio * signal).all())
            if not self._failed or self._t4_minus < 0:
                self._t4_minus = t
        if self._failed and self._t4_plus < 0 and bool((ratio * signal >= 2 * noise).all()):
            self._t4_plus = t
        if self._open.any():
            top = max(la.max(), lb.max())
            total = np.abs(state.values["query_noise"] @ np.exp(lb - top))
            holds = total >= 2 * np.exp(la - top).sum() * signal[:, 0]
            self._until[self._open & holds] = t
            self._open &= holds
            self._until[~self._open & (self._until < 0)] = self.step_t3

    @property
    def taken(self) -> int:
        """How many states were observed: the number of the step that comes next."""
        return self._step + 1

    @property
    def done(self) -> bool:
        """Whether the last grid time has been observed."""
        return len(self.rows) == len(self.grid)

    def trajectory(self, simulator: str, exact: bool) -> Trajectory:
        """The record. `exact`: the paths are piecewise linear with speeds l_i, 1, 2 l_i, 2."""
        eta = self.start.regime.eta
        reached = lambda step: step * eta if step >= 0 else math.nan  # noqa: E731
        more: dict[str, Any] = {name: np.stack([row.more[name] for row in self.rows]) for name in self.rows[0].more}
        values: dict[str, Any] = {name: np.stack([row.values[name] for row in self.rows]) for name in QUANTITIES}
        return Trajectory(
            regime=self.start.regime,
            simulator=simulator,
            start=self.start,
            tau=np.asarray(self.grid * eta, float),
            **values,
            gap_signal=np.stack([row.gap_signal for row in self.rows]),
            gap_noise=np.stack([row.gap_noise for row in self.rows]),
            turns=self._events(self.turns),
            crossings=self._events(self.crossings),
            initial_direction=self._by_quantity(self._first),
            uncertain=self.uncertain,
            zero=self.zero,
            times=with_measured(self.times, reached(self._t4_minus if self._failed else -1), reached(self._t4_plus)),
            noise_dominates_until=np.where(self._until >= 0, self._until * eta, np.nan),
            exact=exact,
            **more,
        )

    def _events(self, log: Log) -> dict[str, Events]:
        """Events by quantity, each in order of time (ties by index)."""
        none = (np.empty(0), np.empty(0, np.int64), np.empty(0))
        time, index, sign = (np.concatenate(x) for x in zip(none, *log, strict=True))
        order = np.lexsort((index, time))
        time, index, sign = time[order] * self.start.regime.eta, index[order], sign[order].astype(np.int8)
        found, first = {}, 0
        for name, end in zip(QUANTITIES, self._ends, strict=True):
            mine = (index >= first) & (index < end)
            found[name] = Events(self._shapes[name], time[mine], index[mine] - first, sign[mine])
            first = end
        return found
