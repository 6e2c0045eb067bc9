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
Place = tuple[str, int, str, int]
"""An outcome's place: what was asked (as in `Piece`), and of which trial."""


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
    def ask(self) -> tuple[str, int]:
        """What is asked of every trial: as in `Piece`."""
        return self.claim.id, -1 if self.claim.rungs else self.index

    @property
    def trials(self) -> list[tuple[int, Regime | None, int]]:
        """(rung, regime, seed) of every trial, in order; a proof has one, without a regime."""
        if rungs := self.control.rungs or self.claim.rungs:
            return [(k, rung, seed) for k, rung in enumerate(rungs) for seed in range(min(LIE_TRIALS, self.claim.trials_per_rung))]
        count = 1 if self.regime is None else TRUTH_TRIALS if self.control.truth else LIE_TRIALS
        return [(0, self.regime, seed) for seed in range(count)]


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
    outcomes: dict[Place, Row] = {}
    finished = 0

    def done(piece: Piece, result: list[Row]) -> None:
        nonlocal finished
        finished += 1
        outcomes.update({(*ask, *_trial(piece.regime, piece.seed)): row for ask, row in zip(piece.asks, result, strict=True)})
        if progress:
            progress(finished, len(pieces))

    execute(pieces, jobs, done, run_piece)
    for cell in cells:
        found = [(rung, outcomes[*cell.ask, *_trial(regime, seed)]) for rung, regime, seed in cell.trials]
        rows[cell.claim.id, cell.index] = _row(cell.claim, cell.control, cell.regime, _verdict(cell, found))
    return [rows[claim.id, index] for claim in claims for index in range(len(claim.controls))]


def _trial(regime: Regime | None, seed: int) -> tuple[str, int]:
    """What tells trials apart: regimes of one content are one, whatever their names."""
    return regime.hash if regime else "", seed


def _pieces(cells: Sequence[_Cell]) -> list[Piece]:
    """One piece per proof, and one per (regime, trial), whichever claims and controls ask for it.

    First one trial of each regime, since its kernel may have to be compiled; of the others the large ones first, so that no worker
    is left alone with one.
    """
    proofs: list[Piece] = []
    trials: dict[tuple[str, int], tuple[Regime, dict[tuple[str, int], None]]] = {}
    for cell in cells:
        for _, regime, seed in cell.trials:
            if regime is None:
                proofs.append(Piece(None, 0, (cell.ask,)))
            else:
                trials.setdefault(_trial(regime, seed), (regime, {}))[1][cell.ask] = None
    pieces = [Piece(regime, seed, tuple(asks)) for (_, seed), (regime, asks) in trials.items()]
    return [*(p for p in pieces if p.seed == 0), *proofs, *sorted((p for p in pieces if p.seed), key=_size, reverse=True)]


def _size(piece: Piece) -> int:
    """Pairs of neurons and patches, which order trials by the work that they are."""
    r = piece.regime
    return r.n * r.m_k * r.L if r else 0


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


def _verdict(cell: _Cell, found: Sequence[tuple[int, Row]]) -> v.Outcome:
    """The verdict on a control, from (rung, outcome) of every trial in order."""
    records = [record for _, record in found]
    for record in records:
        if text := record.get("error") or record.get("not_run") or record.get("numeric"):
            return v.Outcome(v.NUMERIC if record.get("numeric") else v.ERROR, n=len(records), reason=text)
    if cell.claim.over == "law":
        return _law(cell, found)
    if cell.regime is None:
        return v.Outcome(records[0]["verdict"], reason=records[0]["reason"])
    holds, occurred = [r["holds"] for r in records], [r["occurred"] for r in records]
    return v.from_counts(holds, occurred, cell.claim.bound(cell.regime))


def _law(cell: _Cell, found: Sequence[tuple[int, Row]]) -> v.Outcome:
    claim = cell.claim
    measures = [(rung, record["measure"]) for rung, record in found]
    try:
        given = [cell.control.change(pair) for pair in measures] if claim.rungs else [measure for _, measure in measures]
        result = judge_law(claim, given, cell.regime)
    except Exception as error:
        return v.Outcome(v.ERROR, n=len(found), reason=f"{type(error).__name__}: {error}")
    outcome = v.from_fit(result) if isinstance(result, Fit) else v.from_law(result, len(given))
    return v.Outcome(outcome.verdict, len(given), outcome.violations, outcome.low, outcome.high, outcome.reason)


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
