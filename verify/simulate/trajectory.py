"""The one record that every simulator returns: values on a grid of times, and the exact times of turns and crossings."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from verify.errors import RegimeError
from verify.regime import Regime
from verify.start import Start
from verify.times import LAST, T4, T4_MINUS, T4_PLUS, end_of_run, formula_times

if TYPE_CHECKING:
    import xarray

Array = NDArray[np.float64]
T = TypeVar("T")
PAIRS = ("query_noise", "key_noise")
NEURONS = ("query_signal", "key_signal")
SAMPLES = ("value_noise",)
QUANTITIES = (*PAIRS, *NEURONS, *SAMPLES, "value_signal")
GRID_POINTS = 400


@dataclass(frozen=True)
class Events:
    """Turns or crossings of one quantity, in order of time.

    `tau` (k,) times; `index` (k,) flat index into the quantity's shape `(m_k, n)`, `(m_k,)`, `(n,)` or `()`;
    `sign` (k,) the sign after the event (of the increment for turns, of the value for crossings).
    """

    shape: tuple[int, ...]
    tau: Array
    index: NDArray[np.int64]
    sign: NDArray[np.int8]

    def between(self, a: float, b: float | Array) -> NDArray[np.int64]:
        """Number of events in the open interval (a, b), per entity; `b` may be an array of the quantity's shape."""
        b = np.broadcast_to(np.asarray(b, float), self.shape).ravel()
        inside = (self.tau > a) & (self.tau < b[self.index])
        return np.bincount(self.index[inside], minlength=self._size).reshape(self.shape)

    def first_after(self, a: float | Array) -> Array:
        """Time of the first event later than `a`, per entity; inf where there is none."""
        out = np.full(self._size, np.inf)
        if np.ndim(a):
            a = np.broadcast_to(np.asarray(a, float), self.shape).ravel()
            late = self.tau > a[self.index]
        else:
            late = slice(self.tau.searchsorted(a, "right"), None)
        out[self.index[late][::-1]] = self.tau[late][::-1]  # earlier events overwrite later ones
        return out.reshape(self.shape)

    def last(self) -> Array:
        """Time of the last event, per entity; -inf where there is none."""
        out = np.full(self._size, -np.inf)
        out[self.index] = self.tau  # later events overwrite earlier ones
        return out.reshape(self.shape)

    def sign_at(self, initial: NDArray[Any], tau: float | Array) -> Array:
        """The sign just after `tau`, per entity, given the `initial` signs."""
        out = np.asarray(initial).astype(np.int8).ravel()
        if np.ndim(tau):
            tau = np.broadcast_to(np.asarray(tau, float), self.shape).ravel()
            past = self.tau <= tau[self.index]
        else:
            past = slice(self.tau.searchsorted(tau, "right") if tau == tau else 0)  # nan: nothing is past
        out[self.index[past]] = self.sign[past]  # later events overwrite earlier ones
        return out.astype(float).reshape(self.shape)

    @property
    def _size(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class Snapshot:
    """Every quantity at one time: shapes as in `Trajectory`, without the leading axis of times.

    Or at several times at once (`Trajectory.stretch`): then with that axis, and `tau`, `value_signal` of shape (T, 1).
    """

    tau: Any
    query_noise: Array
    key_noise: Array
    query_signal: Array
    key_signal: Array
    value_noise: Array
    value_signal: Any
    gap_signal: Array
    gap_noise: Array


@dataclass(frozen=True)
class Trajectory:
    r"""One trial. Time is tau = eta*t. T grid times, s neuron (m_k), i sample (n).

    tau (T,); query_noise, key_noise (T, m_k, n); query_signal, key_signal (T, m_k); value_noise (T, n); value_signal (T,);
    gap_signal (T, n) = z_{11} - z_{i,12} and gap_noise (T, n) = z_{i,21} - z_{i,22}: the logit gaps of the two query rows,
    so s_{i,11} = sigmoid(gap_signal) and s_{i,21} = sigmoid(gap_noise).
    turns, crossings: `Events` by quantity. initial_direction: sign of the first increment, by quantity.
    uncertain, zero: counts of signs within their rounding bound, and of exact zeros, by quantity.
    times: named times in tau; a time that was not reached is nan. noise_dominates_until (m_k,): T_{4,s}^{(30)}.
    exact: whether the paths are piecewise linear with speeds l1, 1, 2 l1, 2, so that `at` is exact at every time.

    With more than two patches the noise of a sample is its noise patch of the largest l1, the signal row that of its first signal
    patch, and the gaps are log-odds of all signal against all noise patches; then, and under label noise, two more are recorded:
    output_margin (T, n) = y_i f_i; log_attention (T, n, L, L), logs of the softmax outputs, query patch before key patch, with
    the patches in the order: signal patches, noise patch of the largest l1, other noise patches.
    """

    regime: Regime
    simulator: str
    start: Start
    tau: Array
    query_noise: Array
    key_noise: Array
    query_signal: Array
    key_signal: Array
    value_noise: Array
    value_signal: Array
    gap_signal: Array
    gap_noise: Array
    turns: dict[str, Events]
    crossings: dict[str, Events]
    initial_direction: dict[str, NDArray[Any]]
    uncertain: dict[str, int]
    zero: dict[str, int]
    times: dict[str, float]
    noise_dominates_until: Array
    exact: bool = True
    notes: dict[str, float] = field(default_factory=dict)
    output_margin: Array | None = None
    log_attention: Array | None = None

    def __post_init__(self) -> None:
        for f in dataclasses.fields(self):
            value = getattr(self, f.name)
            if isinstance(value, np.ndarray):
                value.setflags(write=False)

    # -- the trial -------------------------------------------------------------------------------------------------
    @property
    def seed(self) -> int:
        """The trial's number."""
        return self.start.trial

    @property
    def l1(self) -> Array:
        r"""$l_i = \|\xi_i\|_1$, shape (n,)."""
        return self.start.l1

    @property
    def end(self) -> float:
        """Last recorded time."""
        return float(self.tau[-1])

    def replace(self, **changes: Any) -> Trajectory:
        """A copy with arrays replaced (for controls). Events of a replaced quantity stay as they are unless given."""
        return dataclasses.replace(self, **changes)

    # -- derived quantities on the grid ----------------------------------------------------------------------------
    @cached_property
    def margin(self) -> Array:
        r"""$y_i f_i$ on the grid, shape (T, n) (claims.md section 1)."""
        return self._margin_at(slice(None))

    def _margin_at(self, rows: Any) -> Array:
        if self.output_margin is not None:
            return self.output_margin[rows]
        return output(self.gap_signal[rows], self.gap_noise[rows], self.value_signal[rows, None], self.value_noise[rows])

    def log_loss_at(self, rows: NDArray[np.int64]) -> Array:
        r"""$\log L_S$ at the grid times of these indices, without that of the others."""
        return log_mean_logistic(self._margin_at(rows))

    @cached_property
    def log_loss(self) -> Array:
        r"""$\log L_S$ on the grid, shape (T,); finite where the loss itself underflows."""
        return log_mean_logistic(self.margin)

    @cached_property
    def log_loss_derivative(self) -> Array:
        r"""$\log g_i$ on the grid, shape (T, n); $g_i = 1/(1+e^{y_i f_i})$."""
        return -np.logaddexp(0, self.margin)

    # -- any time --------------------------------------------------------------------------------------------------
    def index(self, tau: float) -> int:
        """Index of the first grid time >= tau (within 1e-9 of it); the last index if the run is shorter."""
        return min(int(self.tau.searchsorted(tau * (1 - 1e-9))), len(self.tau) - 1)

    def time(self, name: str) -> float:
        """A named time in tau; nan if it was not reached.

        Raises:
            RegimeError: if the run ends before it: then nothing can be said, and a window cut short must not count as kept.
        """
        return self.within(self.times.get(name, np.nan), name)

    def within(self, tau: float, name: str = "") -> float:
        """`tau`, if the run lasts so long (or it is nan), to half a step, since runs have whole steps. Raises RegimeError if it ends before."""
        if tau > (self.end + self.regime.eta / 2) * (1 + 1e-9):
            said = f"{name} = {tau:.4g}" if name else f"tau = {tau:.4g}"
            raise RegimeError(f"the run ends at tau = {self.end:.4g}, before {said}; choose a longer horizon")
        return tau

    def at(self, when: float | str) -> Snapshot:
        """Every quantity at a time (tau, or a named time).

        For sign descent with disjoint supports the value is exact: the last grid value continued along the recorded turns.
        Otherwise, and for times within 1e-9 of a grid time, it is the recorded value at the first grid time not before it.
        """
        tau = self.time(when) if isinstance(when, str) else self.within(float(when))
        if tau not in self._shots:
            if not np.isfinite(tau):
                raise ValueError(f"time {when!r} was not reached in this trial")
            j = self.index(tau)
            self._shots[tau] = self._continue(j - 1, tau) if self.between(tau) else self.recorded(j)
        return self._shots[tau]

    def between(self, tau: float) -> bool:
        """Whether `at` continues a path to this time, instead of giving the record at `index(tau)`."""
        j = self.index(tau)
        return bool(self.exact and abs(self.tau[j] - tau) > 1e-9 * abs(tau) and j > 0 and tau < self.end)

    @cached_property
    def _shots(self) -> dict[float, Snapshot]:
        return {}  # many claims ask for the same few times

    @cached_property
    def _kept(self) -> dict[Any, Any]:
        return {}  # what `once` keeps

    def recorded(self, j: int) -> Snapshot:
        """Every quantity at the j-th grid time."""
        values = {name: getattr(self, name)[j] for name in (*QUANTITIES, "gap_signal", "gap_noise")}
        return Snapshot(tau=float(self.tau[j]), **values)

    def stretch(self, first: int, last: int) -> Snapshot:
        """Every quantity at the grid times first, ..., last - 1, as views with a leading axis of times."""
        values = {name: getattr(self, name)[first:last] for name in (*QUANTITIES, "gap_signal", "gap_noise")}
        values["value_signal"] = values["value_signal"][:, None]
        return Snapshot(tau=self.tau[first:last, None], **values)

    def _continue(self, j: int, tau: float) -> Snapshot:
        values: dict[str, Any] = {}
        for name in QUANTITIES:
            v0 = np.asarray(getattr(self, name)[j])
            values[name] = v0 + self.speed(name) * self._signed_time(name, float(self.tau[j]), tau)
        q, k, qn, kn = (values[x] for x in ("query_signal", "key_signal", "query_noise", "key_noise"))
        values["value_signal"] = float(values["value_signal"])
        return Snapshot(tau=tau, **values, gap_signal=q @ k - q @ kn, gap_noise=k @ qn - (qn * kn).sum(0))

    def speed(self, name: str) -> Array:
        """Absolute speed of a quantity in tau, broadcast to its shape."""
        factor = 2.0 if name.startswith("value") else 1.0
        return np.asarray(factor) if name.endswith("signal") else factor * self.l1

    def _signed_time(self, name: str, a: float, b: float) -> Array:
        events = self.turns[name]
        sign = self.direction(name, a)
        total = sign * (b - a)
        lo, hi = events.tau.searchsorted(a, "right"), events.tau.searchsorted(b, "right")
        if lo < hi:
            index, new = events.index[lo:hi], events.sign[lo:hi]
            by_entity = np.argsort(index, kind="stable")
            before = np.empty(hi - lo)
            before[by_entity[1:]] = new[by_entity[:-1]]
            first = by_entity[np.flatnonzero(np.diff(index[by_entity], prepend=-1))]
            before[first] = sign.ravel()[index[first]]
            np.add.at(total.reshape(-1), index, (new - before) * (b - events.tau[lo:hi]))
        return total

    # -- directions ------------------------------------------------------------------------------------------------
    def direction(self, name: str, tau: float | Array) -> Array:
        """Sign of the increment just after `tau`, per entity."""
        if np.ndim(tau):
            return self.turns[name].sign_at(self.initial_direction[name], tau)
        key = ("direction", name, tau)
        if key not in self._kept:
            self._kept[key] = self.turns[name].sign_at(self.initial_direction[name], tau)
            self._kept[key].setflags(write=False)
        return self._kept[key]

    def to_xarray(self) -> xarray.Dataset:
        """The grid values as a labelled dataset (dimensions tau, s, i)."""
        import xarray as xr

        dims = {**dict.fromkeys(PAIRS, ("tau", "s", "i")), **dict.fromkeys(NEURONS, ("tau", "s"))}
        dims |= dict.fromkeys((*SAMPLES, "gap_signal", "gap_noise", "margin", "log_loss_derivative"), ("tau", "i"))
        dims |= dict.fromkeys(("value_signal", "log_loss"), ("tau",))
        attrs = {"simulator": self.simulator, "regime": self.regime.name, "seed": self.seed, "eta": self.regime.eta}
        return xr.Dataset({k: (v, getattr(self, k)) for k, v in dims.items()}, coords={"tau": self.tau}, attrs=attrs)


def once(function: Callable[..., T]) -> Callable[..., T]:
    """Decorate a function of a trajectory (and hashable arguments) whose value many claims ask for: it is kept with the trajectory.

    Arrays come back read-only, since they are shared.
    """

    @functools.wraps(function)
    def kept(tr: Trajectory, *arguments: Any) -> T:
        key = (function, *arguments)
        if key not in tr._kept:
            value = tr._kept[key] = function(tr, *arguments)
            for x in value if isinstance(value, tuple) else (value,):
                if isinstance(x, np.ndarray):
                    x.setflags(write=False)
        return tr._kept[key]

    return kept


def output(gap_signal: Array, gap_noise: Array, value_signal: Array, value_noise: Array) -> Array:
    r"""$y_i f_i = (s_{11}+s_{21})V_\mu + (s_{12}+s_{22})V_i$ from the logit gaps, any broadcastable shapes."""
    attention = sigmoid(gap_signal) + sigmoid(gap_noise)
    rest = sigmoid(-gap_signal) + sigmoid(-gap_noise)
    return attention * value_signal + rest * value_noise


def sigmoid(x: Array) -> Array:
    """Logistic function without overflow."""
    return np.exp(-np.logaddexp(0, -x))


def log_mean_logistic(margin: Array) -> Array:
    """log of the mean over the last axis of log(1+exp(-margin)), finite for any margin."""
    from scipy.special import logsumexp

    # log log(1+e^-m): for large m it is -m - e^-m/2, where log1p itself would underflow.
    small = np.minimum(margin, 30.0)
    log_each = np.where(margin > 30, -margin, np.log(np.logaddexp(0, -small)))
    return logsumexp(log_each, axis=-1) - np.log(margin.shape[-1])


def grid_times(regime: Regime) -> Array:
    """Where values are recorded: 0, ~400 geometric times up to the end, and every named time that is a formula."""
    end = end_of_run(regime)
    named = [t for t in formula_times(regime).values() if np.isfinite(t) and 0 < t <= end]
    first = min([regime.eta or min(named, default=end) / 10, end / 10])
    first = max(first, end * 1e-9)
    return _grid(first, end, tuple(named)).copy()


@functools.lru_cache(16)
def _grid(first: float, end: float, named: tuple[float, ...]) -> Array:
    return np.unique(np.concatenate([[0.0], np.geomspace(first, end, GRID_POINTS), named, [end]]))


def grid_steps(regime: Regime) -> NDArray[np.int64]:
    """The grid of a discrete run: steps, each time rounded up to the next step."""
    steps = np.ceil(grid_times(regime) / regime.eta * (1 - 1e-12)).astype(np.int64)
    return np.unique(np.clip(steps, 0, regime.steps))


def with_measured(times: dict[str, float], t4_minus: float, t4_plus: float) -> dict[str, float]:
    """Named times completed by the measured ones (nan where not reached)."""
    return times | {T4_MINUS: t4_minus, T4_PLUS: t4_plus, T4: LAST * t4_minus}
