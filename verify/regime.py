"""Frozen parameter sets: what is drawn, how it is trained, how long, and how claims on pairs are judged there."""

from __future__ import annotations

import hashlib
import json
import math
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from verify.constants import C1, DELTA, P
from verify.errors import RegimeError

Simulator = Literal["full", "reduced", "flow"]
Supports = Literal["disjoint", "independent"]
Judged = Literal["all", "share"]
MAX_ELEMENTS = 5e7
MAX_STEPS = 1e9


class Regime(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One set of parameters of Definition 2.1, Eq. (1) and the training (paper section 2; claims.md sections 1 and 7).

    Attributes:
        name: shown everywhere; presets are listed by `preset_names`.
        n: samples. d: dimension (an exact integer, may exceed 2^53). s: coordinates of a noise patch.
        sigma_p: standard deviation of a noise coordinate. sigma_0: of an initial weight.
        m_k: rows of W_Q and W_K (neurons). m_v: rows of each W_V head (enters the reduction only as a variance).
        eta: step size; 0 means the limit, simulated by the flow.
        L: patches per sample. supports: how the noise supports are drawn.
        simulator: the default simulator. horizon: length of the run in tau = eta*t; 0 means past T_attn.
        judged: "all" = every pair must hold; "share" = a share of at least 1-p of the pairs.
        overlap, on_signal, orthogonal, signal_patches, identical, dominance, tail, label_noise: violations of Definition 2.1, each
            off by default. overlap: share of a noise patch's coordinates that all patches have in common. on_signal: probability
            that a noise patch takes coordinate 1, the signal's. orthogonal: noise patches orthogonalised against mu and one
            another, norms kept. signal_patches: how many of the L patches are y*mu. identical: the noise patches of a sample are
            copies. dominance: factor by which a sample's first noise patch is larger. tail: 1/nu of Student's t noise with variance
            sigma_p^2 (0: Gaussian). label_noise: probability that the signal patch carries the other label.
        readings: named times in steps that replace formulas (fig1 reads T_1, T_2^SGN, T_2, T_3 off the paper).
        note: why this regime exists and what it violates on purpose.

    Raises:
        RegimeError: if the parameters describe no data, with the clause that fails.
    """

    name: str
    n: int
    d: int | str
    s: int
    sigma_p: float
    m_k: int
    m_v: int
    sigma_0: float
    eta: float = 0.0
    L: int = 2
    supports: Supports = "disjoint"
    overlap: float = 0.0
    on_signal: float = 0.0
    orthogonal: bool = False
    signal_patches: int = 1
    identical: bool = False
    dominance: float = 1.0
    tail: float = 0.0
    label_noise: float = 0.0
    simulator: Simulator = "reduced"
    horizon: float = 0.0
    judged: Judged = "all"
    readings: dict[str, float] = {}
    note: str = ""

    def __post_init__(self) -> None:
        _validate(self)

    @property
    def dim(self) -> int:
        """The dimension d as an exact integer."""
        return int(self.d)

    @property
    def sigma_p_s(self) -> float:
        """sigma_p * s, the scale of a noise inner product's speed."""
        return self.sigma_p * self.s

    @property
    def mean_l1(self) -> float:
        r"""$\bar l = \sqrt{2/\pi}\,\sigma_p s$, the mean of $\|\xi_i\|_1$."""
        return math.sqrt(2 / math.pi) * self.sigma_p_s

    @property
    def disjoint(self) -> bool:
        """Whether no two noise patches share a coordinate and none has the signal's."""
        return self.supports == "disjoint" and not (self.overlap or self.on_signal or self.identical)

    @property
    def reducible(self) -> bool:
        """Whether two patches, disjoint supports and right labels let inner products alone decide the next step (R.1)."""
        return self.disjoint and self.L == 2 and not self.label_noise

    @property
    def steps(self) -> int:
        """Number of update steps of the discrete simulators (0 for eta = 0)."""
        if self.eta == 0:
            return 0
        from verify.times import end_of_run

        if not (steps := end_of_run(self) / self.eta) <= MAX_STEPS:
            text = f"{steps:.3g} steps of eta={self.eta:g} exceed the limit of {MAX_STEPS:.0e}; raise eta, or shorten the horizon"
            raise RegimeError(f"regime {self.name!r}: {text}")
        return max(1, round(steps))

    def to_dict(self) -> dict[str, Any]:
        """Plain data, in one spelling (2 and 2.0 are one regime, hence one hash); integers beyond 2^63 are written as strings."""
        raw = {f: getattr(self, f) for f in self.__struct_fields__}
        raw["d"] = self.dim if self.dim < 2**63 else str(self.dim)
        raw |= {f: float(raw[f]) for f, kind in self.__annotations__.items() if kind == "float"}
        raw["readings"] = {k: float(v) for k, v in self.readings.items()}
        return raw

    @property
    def hash(self) -> str:
        """Content hash (12 hex digits) of everything but the name and the note; a violation that is off does not enter it."""
        raw = {k: v for k, v in self.to_dict().items() if k not in ("name", "note") and (k, v) not in _NO_VIOLATION}
        return hashlib.sha256(json.dumps(raw, sort_keys=True).encode()).hexdigest()[:12]

    def change(self, **fields: Any) -> Regime:
        """A copy with `fields` changed and the change shown in the name.

        Raises:
            RegimeError: for an unknown field, a value of the wrong type, or parameters that describe no data.
        """
        shown = ",".join(f"{k}={v:g}" if isinstance(v, float) else f"{k}={v}" for k, v in fields.items() if k != "name")
        raw = self.to_dict() | {"name": f"{self.name}[{shown}]" if shown else self.name} | fields
        return regime_from(raw, f"{self.name} with {shown}")

    def to_toml(self) -> str:
        """TOML text that `load` reads back to an equal regime."""
        lines = [f"{k} = {json.dumps(v, ensure_ascii=False)}" for k, v in self.to_dict().items() if k != "readings"]
        if self.readings:
            lines.append("[readings]")
            lines += [f'"{k}" = {json.dumps(float(v))}' for k, v in self.readings.items()]
        return "\n".join(lines) + "\n"


_VIOLATIONS = ("overlap", "on_signal", "orthogonal", "signal_patches", "identical", "dominance", "tail", "label_noise")
_DEFAULTS = dict(zip(reversed(Regime.__struct_fields__), reversed(Regime.__struct_defaults__), strict=False))
_NO_VIOLATION = [(key, _DEFAULTS[key]) for key in _VIOLATIONS]


def _validate(r: Regime) -> None:
    def want(ok: bool, text: str) -> None:
        if not ok:
            raise RegimeError(f"regime {r.name!r}: {text}")

    want(bool(r.name) and len(r.name) <= 300, "name must be 1 to 300 characters long")
    try:
        d = int(r.d)
    except ValueError:
        raise RegimeError(f"regime {r.name!r}: d={r.d!r} is not an integer; write it in digits") from None
    for key in ("n", "s", "m_k", "L"):
        want(1 <= getattr(r, key) <= 2**53, f"{key}={getattr(r, key)} must be a whole number from 1 to 2^53")
    want(1 <= r.m_v < 2**63, f"m_v={r.m_v} must be a whole number from 1 to 2^63 - 1")
    want(r.L >= 2, f"L={r.L} must be at least 2: one signal patch and one noise patch")
    want(d >= 2, f"d={d} must be at least 2: coordinate 1 is the signal")
    for key in ("sigma_p", "sigma_0"):
        want(1e-150 < (value := getattr(r, key)) < 1e150, f"{key}={value} must be a positive finite number")
    want(math.isfinite(r.eta) and 0 <= r.eta < 1e100, f"eta={r.eta} must be a finite number that is not negative (0 = the flow)")
    want(0 <= r.horizon <= 1e12, f"horizon={r.horizon} must be from 0 to 1e12 (0 = past T_attn)")
    want(all(0 <= v <= 1e12 for v in r.readings.values()), "every reading must be a time in steps, from 0 to 1e12")
    unknown = set(r.readings) - {"T_1", "T_2_SGN", "T_2", "T_3", "T", "T_attn"}
    want(not unknown, f"readings of {', '.join(sorted(unknown))}: want T_1, T_2_SGN, T_2, T_3, T or T_attn")
    if r.simulator != "flow":
        want(r.eta > 0, f'eta=0 needs simulator="flow" (given "{r.simulator}")')
        _ = r.steps
    want(not r.readings or r.eta > 0, "readings are in steps, so they need eta > 0")
    for key in ("overlap", "on_signal", "label_noise"):
        want(0 <= (share := getattr(r, key)) <= 1, f"{key}={share} must be a share from 0 to 1")
    want(0 <= r.tail < 0.5, f"tail={r.tail} must be 1/nu of Student's t with a finite variance, so from 0 to below 0.5")
    want(1 <= r.dominance < 1e6, f"dominance={r.dominance} must be a factor from 1 to 1e6")
    want(1 <= r.signal_patches < r.L, f"signal_patches={r.signal_patches} must be from 1 to L-1 = {r.L - 1}: one patch is noise")
    want(not (r.identical and r.dominance > 1), "identical=true makes all noise patches alike, so dominance must be 1")
    want(not r.overlap or r.supports == "disjoint", "overlap counts shared coordinates of disjoint supports; independent have their own")
    patches = r.n * (1 if r.identical else r.L - r.signal_patches)
    if r.supports == "disjoint":
        shared = round(r.overlap * r.s)
        needed = patches * (r.s - shared) + shared
        want(
            needed <= d - 1,
            f'n*s = {needed} noise coordinates do not fit d-1 = {d - 1} disjointly; lower n or s, raise d, or set supports="independent"',
        )
    else:
        want(r.s <= d, f"s={r.s} exceeds d={d}")
    fits = (patches < d and not r.identical) or not r.orthogonal
    want(fits, f"{patches} noise patches cannot be made orthogonal in d-1 = {d - 1} dimensions")
    want(not (r.orthogonal and r.on_signal), "orthogonal noise has no part along the signal, so on_signal must be 0")
    want(r.n * r.m_k <= 4e6, f"n*m_k = {r.n * r.m_k} pairs per trajectory do not fit in memory here; the limit is 4,000,000")


def regime_from(raw: Mapping[str, Any], where: str) -> Regime:
    """Convert plain data to a Regime; `where` names the source in the message.

    Raises:
        RegimeError: for unknown keys, wrong types or impossible parameters.
    """
    try:
        return msgspec.convert(dict(raw), Regime)
    except msgspec.ValidationError as error:
        inner = error.__cause__
        if isinstance(inner, RegimeError):
            raise inner from None
        known = ", ".join(Regime.__struct_fields__)
        raise RegimeError(f"{where}: {error}; the keys are {known}") from None


def load(path: Path, above: tuple[Path, ...] = ()) -> Regime:
    """Read a regime from a TOML file; `above` are the files that start from it.

    Raises:
        RegimeError: if the file is missing, is no TOML, or describes no regime.
    """
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RegimeError(f"cannot read {path}: {error.strerror or error}; give a preset name or a TOML file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RegimeError(f"{path} is not TOML: {error}") from None
    if "base" in raw:
        if path.resolve() in above:
            raise RegimeError(f"{path} starts from itself: `base` must name a preset or another file")
        name = str(raw.pop("base"))
        base = load(Path(name), (*above, path.resolve())) if _FILE.search(name) else get(name)
        raw = base.to_dict() | {"name": path.stem} | raw
    raw.setdefault("name", path.stem)
    return regime_from(raw, str(path))


def fig1() -> Regime:
    """The paper's Figure 1 and Table 2, as calibrated in claims.md section 7 (the paper's own row was lost)."""
    return Regime(
        name="fig1",
        n=20,
        d=4000,
        s=40,
        sigma_p=0.4,
        m_k=100,
        m_v=100,
        sigma_0=0.1 / math.sqrt(4000),
        eta=1e-4,
        horizon=0.2,
        judged="share",
        readings={"T_1": 2, "T_2_SGN": 10, "T_2": 10, "T_3": 40},
        note="Calibrated to Figure 1 and Table 2; does not satisfy Condition 3.1 with constant 1.",
    )


def c11_threshold(n: int, m_k: int) -> float:
    """Smallest m_v for which C.11 holds with C = 1 (needs no other parameter)."""
    beta = math.sqrt(math.pi / 2 * -math.log1p(-((DELTA / (2 * m_k * n)) ** 2)) / 2)
    return (C1 * math.sqrt(2 * math.log(8 * n / DELTA)) / beta) ** 2


def ladder(n: int, m_k: int = 64, c_0: float = 0.01) -> Regime:
    """A rung of the ladder in n: d=n^8, s=n^2, sigma_p=n, so sigma_p*s=n^3 (claims.md section 7).

    Raises:
        RegimeError: for n < 3 or m_k < 1.
    """
    if n < 3 or m_k < 1:
        raise RegimeError(f"ladder-{n}: the ladder needs n >= 3 and m_k >= 1")
    name = f"ladder-{n}" if m_k == 64 else f"ladder-{n}-mk{m_k}"
    return Regime(
        name=name,
        n=n,
        d=str(n**8) if n**8 >= 2**63 else n**8,
        s=n * n,
        sigma_p=float(n),
        m_k=m_k,
        m_v=math.ceil(c11_threshold(n, m_k) / P**2),
        sigma_0=c_0 / (n**3 * math.sqrt(m_k)),
        simulator="flow",
        note="Violates C31.4 and the reply's m_v < n on purpose: m_v is 1/p^2 times the C.11 threshold.",
    )


def trap() -> Regime:
    r"""sigma_0 << eta*l_i and t << l_i: the two-cycle of R.4 at $h=\eta\bar l/(\sigma_0\sigma_p\sqrt s)=0.02$, for 5/h steps.

    A pair needs about |Q_0|/(eta*l_i), at most 4/h steps, to get there; with s = 10^6 the signals keep it there for 800,000.
    """
    h, n, s, sigma_p, sigma_0 = 0.02, 33, 1_000_000, 1.0, 1e-6
    eta = h * sigma_0 * math.sqrt(math.pi / 2 / s)
    return Regime(
        name="trap",
        n=n,
        d=n * s + 1,
        s=s,
        sigma_p=sigma_p,
        m_k=256,
        m_v=100_000_000,
        sigma_0=sigma_0,
        eta=eta,
        horizon=round(5 / h) * eta,
        note="Large eta at otherwise generous parameters: C31.5 broken on purpose, for the two-cycle trap R.4.",
    )


def fig3() -> Regime:
    """Figure 3, non-orthogonal sparse: fig1 with independent supports that may hold coordinate 1 (Lemma C.2's event fails)."""
    base = fig1()
    return base.change(supports="independent", on_signal=base.s / base.dim, name="fig1-overlapping", note="Figure 3.")


def fig1_dense(*, orthogonal: bool = False) -> Regime:
    r"""Figures 4 and 5, non-sparse: s = d-1 = 799, 600 steps, sigma_p lowered so that $\|\xi\|_2$ is that of fig1.

    With all coordinates shared, a step moves an inner product by about $2\eta\|\xi\|_1/\sqrt n$ (experiments.md), so that it is
    the 2-norm that sets the speed. Named times that are formulas of sigma_p*s are too early here by sqrt(n).
    """
    base, d = fig1(), 800
    return base.change(
        name="fig1-dense-orthogonal" if orthogonal else "fig1-dense",
        d=d,
        s=d - 1,
        sigma_p=base.sigma_p * math.sqrt(base.s / (d - 1)),
        supports="independent",
        orthogonal=orthogonal,
        horizon=600 * base.eta,
        note=f"Figure {4 if orthogonal else 5}: every noise coordinate is used by every sample.",
    )


def context(L: int, signal_patches: int = 1) -> Regime:
    """Figures 9-11: fig1 with L patches, d raised so that all supports are disjoint."""
    base = fig1()
    name = f"fig1-L{L}" + (f"-{signal_patches}" if signal_patches > 1 else "")
    d = max(base.dim, 1 + base.n * base.s * (L - 1))
    return base.change(name=name, L=L, signal_patches=signal_patches, d=d, note="Figures 9-11: longer context.")


SUITE_REGIMES = ("fig1", "ladder-33", "ladder-65", "ladder-129", "ladder-64-mk16")
"""The regimes of the full suite: those in which a claim is expected to hold unless it declares otherwise."""

_PRESETS: dict[str, Callable[[], Regime]] = {
    "fig1": fig1,
    "trap": trap,
    "fig1-overlapping": fig3,
    "fig1-dense": fig1_dense,
    "fig1-dense-orthogonal": lambda: fig1_dense(orthogonal=True),
}
_LADDER = re.compile(r"ladder-(\d{1,6})(?:-mk(\d{1,6}))?")
_FILE = re.compile(r"\.toml$|/")
_CONTEXT = re.compile(r"fig1-L(\d{1,3})(?:-(\d{1,3}))?")


def preset_names() -> list[str]:
    """Names to offer: the fixed presets and the customary rungs."""
    return [*_PRESETS, "ladder-17", *SUITE_REGIMES[1:], "fig1-L3", "fig1-L5", "fig1-L10"]


def get(name: str) -> Regime:
    """A preset by name, a rung `ladder-N[-mkM]`, a longer context `fig1-LN[-K]` (K signal patches), or the regime in the TOML file `name`.

    Raises:
        RegimeError: if it is none of these.
    """
    if name in _PRESETS:
        return _PRESETS[name]()
    if match := _LADDER.fullmatch(name):
        return ladder(int(match[1]), int(match[2] or 64))
    if match := _CONTEXT.fullmatch(name):
        return context(int(match[1]), int(match[2] or 1))
    if _FILE.search(name):
        return load(Path(name))
    raise RegimeError(f"unknown regime {name!r}; known: {', '.join(preset_names())}, ladder-N[-mkM], fig1-LN[-K], or a FILE.toml")


def parse_setting(text: str) -> tuple[str, Any]:
    """Read one `key=value` of --set, with the value as TOML (bare words are strings).

    Raises:
        RegimeError: if there is no '=', or the key is unknown.
    """
    key, sep, value = text.partition("=")
    key = key.strip()
    if not sep or key not in Regime.__struct_fields__:
        raise RegimeError(f"--set {text!r}: want key=value with a key of {', '.join(Regime.__struct_fields__)}")
    try:
        parsed = tomllib.loads(f"v = {value}")["v"]
    except tomllib.TOMLDecodeError:
        parsed = value.strip()
    kind = Regime.__annotations__[key]
    if isinstance(parsed, float) and "int" in kind and parsed.is_integer():
        parsed = int(parsed)
    if isinstance(parsed, int) and kind == "float":
        parsed = float(parsed)
    return key, parsed
