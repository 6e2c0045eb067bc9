"""Condition 3.1, clause by clause, each with its slack: the log-ratio to the clause's boundary (constant 1, polylog d := log d)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from verify.constants import DELTA
from verify.regime import Regime


@dataclass(frozen=True)
class Part:
    """One inequality of a clause. `slack(regime)` > 0 inside, 0 on the boundary, < 0 outside (natural log; inf at eta = 0)."""

    id: str
    clause: str
    latex: str
    parameter: str
    slack: Callable[[Regime], float]

    @property
    def text(self) -> str:
        """The inequality in plain Unicode, for sentences and terminals."""
        return re.sub(r"\\[a-z]+", lambda word: _UNICODE.get(word[0], word[0]), self.latex).translate(_BRACES)


_UNICODE = {r"\ge": "≥", r"\le": "≤", r"\sigma": "σ", r"\eta": "η", r"\delta": "δ", r"\log": "log"}
_BRACES = str.maketrans("{}", "()")


def _log_d(r: Regime) -> float:
    return math.log(r.dim)


def _eta_slack(r: Regime) -> float:
    if r.eta == 0:
        return math.inf
    return math.log(DELTA * r.sigma_0 / (math.sqrt(r.s) * r.n * r.m_k)) - math.log(r.eta)


PARTS: tuple[Part, ...] = (
    Part("dimension", "C31.1", r"d \ge n^4", "d", lambda r: _log_d(r) - 4 * math.log(r.n)),
    Part("sparsity", "C31.1", r"s \le d^{1/2} n^{-2}", "s", lambda r: _log_d(r) / 2 - 2 * math.log(r.n) - math.log(r.s)),
    Part(
        "noise_strength",
        "C31.2",
        r"\sigma_p \ge d^{-1/4} n^3",
        "sigma_p",
        lambda r: math.log(r.sigma_p) + _log_d(r) / 4 - 3 * math.log(r.n),
    ),
    Part("value_width", "C31.3", r"m_v \ge \log d", "m_v", lambda r: math.log(r.m_v) - math.log(_log_d(r))),
    Part("key_width", "C31.3", r"m_k \ge \log d", "m_k", lambda r: math.log(r.m_k) - math.log(_log_d(r))),
    Part(
        "initialization",
        "C31.3",
        r"\sigma_0 \le \sigma_p^{-1} s^{-1} m_k^{-1/2}",
        "sigma_0",
        lambda r: -math.log(r.sigma_0) - math.log(r.sigma_p_s) - math.log(r.m_k) / 2,
    ),
    Part("sample_size", "C31.4", r"n \ge m_k^4", "n", lambda r: math.log(r.n) - 4 * math.log(r.m_k)),
    Part("learning_rate", "C31.5", r"\eta \le \delta\sigma_0 s^{-1/2}/(n m_k)", "eta", _eta_slack),
)
"""The inequalities in the order of the paper. The finite forms (constant 1, log d, d >= n^4 as the least power that admits s >= 1) are ours."""

_BY_ID = {p.id: p for p in PARTS}
CLAUSES = ("C31.1", "C31.2", "C31.3", "C31.4", "C31.5")
dimension, sparsity, noise_strength, value_width, key_width, initialization, sample_size, learning_rate = (p.id for p in PARTS)


def part(name: str) -> Part:
    """The inequality called `name`. Raises KeyError if there is none."""
    return _BY_ID[name]


def slacks(r: Regime) -> dict[str, float]:
    """Slack of every inequality, keyed by its id."""
    return {p.id: p.slack(r) for p in PARTS}


def clause_slack(clause: str, r: Regime) -> float:
    """Slack of a clause: that of its worst inequality."""
    return min(p.slack(r) for p in PARTS if p.clause == clause)
