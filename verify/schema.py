"""The shapes of everything the program writes as JSON, published as JSON Schemas with a version (`verify schema`)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

VERSION = 1
"""Raised when a field changes its meaning or goes away; new fields do not raise it."""

Verdict = Literal["PROVED", "SUPPORTED", "INCONCLUSIVE", "UNPROVEN", "VACUOUS", "NUMERIC", "ERROR", "NOT RUN", "REFUTED", "DISPROVED"]
Version = Annotated[int, Meta(ge=1, description="version of this shape")]
Label = Annotated[str, Meta(description="the paper's own label of the statement")]


class Interval(Struct):
    """Lower and upper confidence bound."""

    low: float | None
    high: float | None


class Margin(Struct):
    """How far a claim is from failing, over trials: positive holds; null where no margin is finite."""

    worst: float | None
    median: float | None


class TrialWitness(Struct):
    """The worst trial (seed) and where in it: tau = eta*t, step t (null at eta = 0), neuron s, sample i."""

    seed: int | None
    tau: float | None
    t: float | None
    s: int | None
    i: int | None


class Expectation(Struct):
    """The verdict declared beside the claim, with its reason."""

    verdict: Verdict
    reason: str


class Ancestors(Struct):
    """Whether everything that the proof uses holds in the same regime (null: some of it was not judged)."""

    hold: bool | None
    first_failing: str | None


class FitRow(Struct):
    """A fitted exponent with its 99 % interval; points are (x, measured, claimed law)."""

    estimate: float | None
    low: float | None
    high: float | None
    theory: float
    tolerance: float
    points: list[list[float | None]]


class Curve(Struct):
    """Margin over time: quantiles 5, 50, 95 % over trials and the worst trial, at common times tau."""

    tau: list[float]
    low: list[float | None]
    median: list[float | None]
    high: list[float | None]
    worst: list[float | None]
    worst_seed: int


class VerdictRow(Struct):
    """One claim (one label) in one regime."""

    id: Label
    same_as: list[str]
    regime: Annotated[str | None, Meta(description="null for regime-free claims")]
    verdict: Verdict
    reason: str
    n: Annotated[int, Meta(description="trials that count: those in which the conditioning event occurred")]
    violations: int
    bound: Annotated[Interval | None, Meta(description="one-sided exact bounds on the violation rate, or the interval of a fit")]
    delta: Annotated[float | None, Meta(description="allowed violation probability")]
    share: Annotated[float | None, Meta(description="mean share of pairs, neurons or samples that satisfy the statement")]
    margin: Margin
    witness: TrialWitness
    tightness: Annotated[float | None, Meta(description="measured / bound")]
    expected: Annotated[Expectation | None, Meta(description="null in regimes that are no presets")]
    ancestors: Ancestors
    occurred: int | UnsetType = UNSET
    trials: int | UnsetType = UNSET
    all_pairs: dict[str, float | None] | UnsetType = UNSET
    judged: Literal["all", "share"] | UnsetType = UNSET
    margins: list[float | None] | UnsetType = UNSET
    exact: Annotated[float | None, Meta(description="exact violation probability, where there is a closed form")] | UnsetType = UNSET
    curve: Curve | UnsetType | None = UNSET
    fit: FitRow | UnsetType = UNSET
    steps: list[str] | UnsetType = UNSET
    detail: dict[str, Any] | UnsetType = UNSET


class ClaimRow(Struct):
    """A claim's static description, one row per label."""

    id: Label
    same_as: list[str]
    title: str
    statement: Annotated[str, Meta(description="LaTeX between dollar signs")]
    conditions_text: str
    measured: str
    made_finite: str
    kind: Literal["identity", "analytic", "probabilistic", "dynamics", "scaling", "experiment"]
    source: str
    location: str
    depends_on: list[str]
    conditions: list[str]
    controls: list[str]
    truths: list[str]
    units: str
    constants: dict[str, Any]
    over: Literal["trial", "law"]
    home: list[str]
    suite: Literal["default", "full"]
    expected: dict[str, Expectation]
    rungs: list[str]


class ConditionPart(Struct):
    """One inequality of Condition 3.1."""

    id: str
    clause: str
    latex: str
    parameter: str


class RunInfo(Struct):
    """What was run. Regimes hold their parameters, hash, named times (tau) and the slack of every inequality (null = infinite)."""

    regimes: list[dict[str, Any]]
    seeds: int
    root_seed: int
    constants: dict[str, float]
    condition: list[ConditionPart]
    versions: dict[str, str]
    fingerprint: str
    claims: list[ClaimRow]
    command: str | UnsetType = UNSET
    signs: Annotated[dict[str, dict[str, dict[str, int]]], Meta(description="uncertain and zero signs by regime and quantity")] = {}
    timing: Annotated[dict[str, Any], Meta(description="every volatile field; all else is a function of the inputs")] = {}


class RunRecord(Struct):
    """run.json."""

    schema: Version
    run: RunInfo
    verdicts: list[VerdictRow]


class ClaimList(Struct):
    """verify list --json."""

    schema: Version
    claims: list[ClaimRow]


class ControlRow(Struct):
    """One planted lie (or, with truth, one weakened input that must be supported)."""

    claim: Label
    name: str
    regime: str | None
    truth: bool
    verdict: Verdict
    n: int
    violations: int
    caught: Annotated[bool, Meta(description="a lie was REFUTED or DISPROVED; a truth was SUPPORTED or PROVED")]
    reason: str


class ControlList(Struct):
    """verify controls --json."""

    schema: Version
    controls: list[ControlRow]


class BenchmarkRow(Struct):
    """One benchmark: the median time, the time of what it is compared with (seconds), and baseline / median."""

    name: str
    median_s: float
    baseline: float | None
    ratio: float | None
    note: str | UnsetType = UNSET


class BenchmarkList(Struct):
    """verify bench --json."""

    schema: Version
    benchmarks: list[BenchmarkRow]


class ProbePoint(Struct):
    """One judged point; the reason says why it is undecided."""

    values: dict[str, float]
    verdict: Verdict
    n: int
    violations: int
    reason: str


class ProbeResult(Struct):
    """verify probe --json: where a claim stops being true (boundary and interval are empty where none was found)."""

    schema: Version
    claim: Label
    regime: str
    root_seed: int
    delta: float
    boundary: list[float]
    interval: list[float]
    theory: list[dict[str, Any]]
    text: str
    verdicts: list[ProbePoint]
    trials: int
    command: Annotated[str, Meta(description="repeats the probe")] | UnsetType = UNSET


Rate = Annotated[list[float], Meta(description="confidence sequence of the violation rate, valid whenever one stops")]
Factor = Annotated[float | None, Meta(description="how far outside the inequality, 1 on its boundary; null outside Condition 3.1")]


class MatrixPoint(Struct):
    """One claim at one strength."""

    factor: Factor
    change: str
    verdict: Verdict
    n: int
    violations: int
    interval: Rate
    reason: str
    command: str


class MatrixStrength(Struct):
    """One regime: a base (part ""), or a rung. `broken` lists every inequality of Condition 3.1 that does not hold there."""

    part: str
    clause: str
    base: str
    factor: Factor
    broken: list[str]
    change: str
    regime: dict[str, Any]


class MatrixCell(Struct):
    """One claim against one part of Condition 3.1, or of Definition 2.1; the numbers are those of the deciding strength."""

    claim: Label
    part: str
    clause: str
    base: str
    result: Literal["needed", "not needed", "undecided", "not defined", "false at the base"]
    factor: Factor
    held: Annotated[float | None, Meta(description="the last factor at which it was supported before it was refuted")]
    change: str
    declared: Annotated[bool, Meta(description="whether the claim names that part among its conditions")]
    inherited: Annotated[bool, Meta(description="whether something that its proof uses does")]
    n: int
    violations: int
    interval: Rate
    reason: str
    command: str
    points: list[MatrixPoint]


class Finding(Struct):
    """What a reader of the paper would not expect, derived from the cells."""

    kind: str
    part: str
    claim: Label
    others: list[str]
    text: str
    interval: Rate
    command: str


class MatrixRecord(Struct):
    """matrix.json."""

    schema: Version
    base: str
    root_seed: int
    fingerprint: str
    strengths: list[MatrixStrength]
    cells: list[MatrixCell]
    findings: list[Finding]
    trials: int
    spent: str
    timing: Annotated[dict[str, float], Meta(description="every volatile field; cpu_s counts kept trials too")]


class FigureTable(Struct):
    """The numbers of a figure."""

    columns: list[str]
    rows: list[list[str]]


class FigureRow(Struct):
    """One figure or table of the paper beside ours (figures.json holds a list)."""

    name: str
    title: str
    svg: str
    published: str
    command: str
    table: FigureTable


SHAPES: dict[str, type[Struct]] = {
    "list": ClaimList,
    "run": RunRecord,
    "controls": ControlList,
    "bench": BenchmarkList,
    "probe": ProbeResult,
    "matrix": MatrixRecord,
}
"""Published shapes by the name of the command that writes them."""


def json_schema(name: str) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of one shape. Raises KeyError for an unknown name."""
    made = msgspec.json.schema(SHAPES[name])
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": f"verify-{name}-v{VERSION}", "version": VERSION}
    return head | {"title": f"verify {name}", **made}
