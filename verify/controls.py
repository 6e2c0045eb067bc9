"""Planted lies: every control feeds false inputs to its claim's own check, which must say no; a truth must be supported.

A control is judged like the claim itself: on trials of one regime (trajectories shared by all claims there), by proof, or on the
measures of a law. Closed forms and trivial bounds of the unchanged statement say nothing about changed inputs, so counts decide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from verify.claim import verdict as v
from verify.claim.check import Fit
from verify.claim.claim import Claim, Control, find
from verify.errors import VerifyError
from verify.judge import Trial, judge_free, judge_law, judge_trial
from verify.plan import SUITES
from verify.pool import execute
from verify.regime import Regime, get

LIE_TRIALS = 8
"""A lie must be caught within so many trials (for a scaling claim: of each rung)."""
TRUTH_TRIALS = 120
Row = dict[str, Any]


@dataclass(frozen=True)
class Piece:
    """Work on one trial of one regime: `asks` are (claim id, index of the control, or -1 for the measure of a scaling claim)."""

    regime: Regime | None
    seed: int
    asks: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class _Cell:
    claim: Claim
    index: int
    regime: Regime | None

    @property
    def control(self) -> Control:
        return self.claim.controls[self.index]

    @property
    def trials(self) -> int:
        return TRUTH_TRIALS if self.control.truth else LIE_TRIALS


def planting_regime(claim: Claim, control: Control) -> Regime:
    """Where a control is planted: its own regime, the claim's, or the first in which the claim is expected to hold.

    Raises:
        VerifyError: if there is none.
    """
    if name := control.regime or claim.control_regime:
        return get(name)
    for name in claim.home or SUITES["full"]:
        regime = get(name)
        expected = claim.expects(regime)
        if claim.undefined(regime) is None and expected is not None and expected[0] in v.HOLDS:
            return regime
    raise VerifyError(f"{claim.id} holds in no regime of its own: its control {control.name!r} must name one")


def judge_controls(claims: Sequence[Claim], *, jobs: int = 1, progress: Callable[[int, int], None] | None = None) -> list[Row]:
    """Judge every control of `claims`; rows as in `verify schema controls`, in order of registration."""
    cells: list[_Cell] = []
    rows: dict[tuple[str, int], Row] = {}
    for claim in claims:
        for index, control in enumerate(claim.controls):
            try:
                cells.append(_Cell(claim, index, None if claim.regime_free else planting_regime(claim, control)))
            except VerifyError as error:
                rows[claim.id, index] = _row(claim, control, None, v.Outcome(v.NOT_RUN, reason=str(error)))
    pieces = _pieces(cells)
    outcomes: dict[tuple[str, int], list[tuple[str, int, Row]]] = {}
    finished = 0

    def done(piece: Piece, result: list[Row]) -> None:
        nonlocal finished
        finished += 1
        for ask, outcome in zip(piece.asks, result, strict=True):
            outcomes.setdefault(ask, []).append((piece.regime.hash if piece.regime else "", piece.seed, outcome))
        if progress:
            progress(finished, len(pieces))

    execute(pieces, jobs, done, run_piece)
    for cell in cells:
        found = outcomes[cell.claim.id, -1 if cell.claim.rungs else cell.index]
        rows[cell.claim.id, cell.index] = _row(cell.claim, cell.control, cell.regime, _verdict(cell, found))
    return [rows[claim.id, index] for claim in claims for index in range(len(claim.controls))]


def _pieces(cells: Sequence[_Cell]) -> list[Piece]:
    """One piece per proof, and one per (regime, trial): first one of each regime, since its kernel may have to be compiled."""
    proofs: list[Piece] = []
    trials: dict[tuple[str, int], tuple[Regime, dict[tuple[str, int], None]]] = {}
    for cell in cells:
        if cell.regime is not None:
            asked = [(cell.regime, seed, cell.index) for seed in range(cell.trials)]
        elif cell.claim.rungs:
            asked = [(rung, seed, -1) for rung in cell.claim.rungs for seed in range(min(LIE_TRIALS, cell.claim.trials_per_rung))]
        else:
            proofs.append(Piece(None, 0, ((cell.claim.id, cell.index),)))
            continue
        for regime, seed, index in asked:
            trials.setdefault((regime.hash, seed), (regime, {}))[1][cell.claim.id, index] = None
    pieces = [Piece(regime, seed, tuple(asks)) for (_, seed), (regime, asks) in trials.items()]
    return [*(p for p in pieces if p.seed == 0), *proofs, *(p for p in pieces if p.seed)]


def run_piece(piece: Piece) -> list[Row]:
    """Judge what is asked of one trial (in a worker): one plain outcome per ask."""
    if piece.regime is None:
        ((name, index),) = piece.asks
        claim = find(name)
        try:
            outcome = v.from_proof(judge_free(claim, claim.controls[index]))
        except Exception as error:
            return [{"error": f"{type(error).__name__}: {error}"}]
        return [{"verdict": outcome.verdict, "reason": outcome.reason}]
    trial = Trial(piece.regime, 0, piece.seed)
    return [judge_trial(find(name), trial, find(name).controls[index] if index >= 0 else None) for name, index in piece.asks]


def _verdict(cell: _Cell, found: Sequence[tuple[str, int, Row]]) -> v.Outcome:
    records = [outcome for _, _, outcome in sorted(found, key=lambda x: x[:2])]
    for record in records:
        if text := record.get("error") or record.get("not_run") or record.get("numeric"):
            return v.Outcome(v.NUMERIC if record.get("numeric") else v.ERROR, n=len(records), reason=text)
    if cell.regime is None and not cell.claim.rungs:
        return v.Outcome(records[0]["verdict"], reason=records[0]["reason"])
    if cell.claim.over == "law":
        return _law(cell, found)
    holds, occurred = [r["holds"] for r in records], [r["occurred"] for r in records]
    assert cell.regime is not None
    return v.from_counts(holds, occurred, cell.claim.bound(cell.regime))


def _law(cell: _Cell, found: Sequence[tuple[str, int, Row]]) -> v.Outcome:
    claim = cell.claim
    try:
        if claim.rungs:
            place = {rung.hash: k for k, rung in enumerate(claim.rungs)}
            pairs = sorted((place[group], seed, record["measure"]) for group, seed, record in found)
            measures = [cell.control.change((rung, measure)) for rung, _, measure in pairs]
        else:
            measures = [record["measure"] for _, _, record in sorted(found, key=lambda x: x[1])]
        result = judge_law(claim, measures, cell.regime)
    except Exception as error:
        return v.Outcome(v.ERROR, n=len(found), reason=f"{type(error).__name__}: {error}")
    outcome = v.from_fit(result) if isinstance(result, Fit) else v.from_law(result, len(measures))
    return v.Outcome(outcome.verdict, len(measures), outcome.violations, outcome.low, outcome.high, outcome.reason)


def _row(claim: Claim, control: Control, regime: Regime | None, outcome: v.Outcome) -> Row:
    wanted = v.HOLDS if control.truth else v.FAILS
    return {
        "claim": claim.id,
        "name": control.name,
        "regime": regime.name if regime else None,
        "truth": control.truth,
        "verdict": outcome.verdict,
        "n": outcome.n,
        "violations": outcome.violations,
        "caught": outcome.verdict in wanted,
        "reason": outcome.reason,
    }
