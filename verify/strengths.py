"""Ladders of strengths: regimes in which one inequality of Condition 3.1 is broken, besides n >= m_k^4, which no affordable base meets.

Every rung is the base regime with parameters changed; how far it lies outside its inequality, and what else is broken there, is read
off the slacks, not typed. The presets that leave Definition 2.1 start from `fig1`, which breaks five inequalities.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from verify import condition
from verify.regime import Regime, get
from verify.times import end_of_run, formula_times

BASE, WEAK = "ladder-33", "fig1"
"""The inequalities are broken from BASE, by the flow; what the flow cannot follow is broken from WEAK, which judges shares."""
DEFINITION = "Definition 2.1"
ETA_SHORT, ETA_LONG, ETA_WHOLE = (16, 128, 1024), 131072, 524288
"""Factors by which eta exceeds its bound: runs to T_2, past T, and to the end cost up to 8*10^4 steps each."""


@dataclass(frozen=True)
class Strength:
    """One rung: `part` is an id of `condition.PARTS` or a key of `VIOLATIONS`, or "" for a base regime."""

    part: str
    clause: str
    base: str
    regime: Regime
    change: tuple[tuple[str, Any], ...] = ()
    preset: str = ""

    @property
    def factor(self) -> float | None:
        """How far outside its inequality (1: on the boundary); for a violation of Definition 2.1 there is none."""
        if self.clause == DEFINITION or not self.part:
            return None
        return math.exp(-condition.part(self.part).slack(self.regime))

    @property
    def broken(self) -> list[str]:
        """Every inequality of Condition 3.1 that does not hold here."""
        return [name for name, slack in condition.slacks(self.regime).items() if slack < -1e-9]

    @property
    def words(self) -> str:
        """What was changed, as for --set."""
        return self.preset or " ".join(f"{k}={_plain(v)}" for k, v in self.change)

    def command(self, claim: str, seeds: int, root: int = 0) -> str:
        """The call that judges `claim` here anew, on the same trials."""
        tail = "" if self.preset else "".join(f" --set {k}={_plain(v)}" for k, v in self.change)
        return f"verify run {claim} --regime {self.preset or self.base}{tail} --seeds {seeds}" + (f" --root-seed {root}" if root else "")


VIOLATIONS = {
    "supports": ("fig1-overlapping",),
    "density": ("fig1-dense",),
    "orthogonal": ("fig1-dense-orthogonal",),
    "context": ("fig1-L3",),
}
"""Presets that break Definition 2.1: noise patches that share coordinates; that use all of them, as drawn and orthogonalised; more than two patches."""
PARTS = (*(p.id for p in condition.PARTS), *VIOLATIONS)
DEFAULT_PARTS = tuple(part for part in PARTS if part not in ("supports", "orthogonal", "context"))
"""What fits into a quarter of an hour; a trial of the others takes 3 to 11 seconds."""


def _plain(value: Any) -> str:
    return repr(value) if isinstance(value, float) else str(value)


def bases() -> list[Strength]:
    """The regimes from which everything is broken."""
    return [Strength("", "", name, get(name), preset=name) for name in (BASE, WEAK)]


def ladders() -> list[Strength]:
    """Every rung, weakest first within a part."""
    base = get(BASE)
    made = [_rung(base, part, change) for part, change in _changes(base)]
    for part, presets in VIOLATIONS.items():
        made += [Strength(part, DEFINITION, WEAK, get(name), preset=name) for name in presets]
    return made


def _rung(base: Regime, part: str, change: dict[str, Any]) -> Strength:
    return Strength(part, condition.part(part).clause, base.name, base.change(**change), tuple(change.items()))


def _changes(b: Regime) -> Iterator[tuple[str, dict[str, Any]]]:
    """Where another inequality leans on the changed parameter, the parameter that restores it is changed too."""
    # On the boundary d = n^4 the sparsity allows s = 1 only; below, none. (There the flow of so unequal samples slides without end.)
    scale = math.exp(-condition.part("initialization").slack(b))
    yield "dimension", {"d": b.n**4, "s": 1, "sigma_p": float(b.n**2), "sigma_0": scale / (b.n**2 * math.sqrt(b.m_k))}
    for f in (2, 8, 64):
        yield "sparsity", {"s": b.s * f, "sigma_0": b.sigma_0 / f}
    for f in (2, 8, 64, 512, 4096):
        yield "noise_strength", {"sigma_p": b.sigma_p / f}
    log_d = math.log(b.dim)
    for m_v in (10**6, math.ceil(log_d), round(log_d / 2), round(log_d / 8), 1):
        yield "value_width", {"m_v": m_v}
    for m_k in (math.ceil(log_d), round(log_d / 2), round(log_d / 4)):  # at 3 and below the flow slides without end
        yield "key_width", {"m_k": m_k}
    bound = b.sigma_0 * math.exp(condition.part("initialization").slack(b))
    for f in (1, 2, 8, 64):
        yield "initialization", {"sigma_0": bound * f}
    for n in (17, 9, 5):
        yield "sample_size", {"n": n}
    yield from (("learning_rate", change) for change in _large_eta(b))


def _large_eta(b: Regime) -> Iterator[dict[str, Any]]:
    times = formula_times(b)
    unit = b.change(eta=1.0, simulator="reduced")
    bound = math.exp(condition.part("learning_rate").slack(unit))
    ends = [(f, 1.2 * times["T_2"]) for f in ETA_SHORT] + [(ETA_LONG, 1.2 * times["T"]), (ETA_WHOLE, end_of_run(b))]
    for f, horizon in ends:
        yield {"eta": bound * f, "simulator": "reduced", "horizon": horizon}
