"""The three simulators give the same verdicts trial by trial: full torch and reduced at fig1, flow and reduced at a 64th of its eta."""

from __future__ import annotations

from typing import Any

import pytest

from verify.claim.claim import Claim, all_claims
from verify.judge import Trial, judge_trial
from verify.regime import Regime, get


def on_one_trajectory(regime: Regime) -> list[Claim]:
    """The claims judged trial by trial on the regime's own trajectory."""
    chosen = [c for c in all_claims() if not c.regime_free and c.over == "trial" and c.undefined(regime) is None]
    return [c for c in chosen if not c.home and all(i.kind == "trajectory" and i.simulator is None for i in c.inputs)]


def outcomes(regime: Regime, seed: int) -> dict[str, dict[str, Any]]:
    trial = Trial(regime, 0, seed)
    return {c.id: judge_trial(c, trial) for c in on_one_trajectory(regime)}


@pytest.mark.parametrize("seed", [0, 1])
def test_flow_and_reduced_at_a_small_step_agree_on_every_claim(seed: int) -> None:
    base = get("fig1")
    small = base.change(eta=base.eta / 64, readings={name: steps * 64 for name, steps in base.readings.items()})
    reduced, flow = outcomes(small, seed), outcomes(small.change(simulator="flow"), seed)
    assert len(reduced) >= 50
    for name, record in reduced.items():
        assert "error" not in record, (name, record)
        assert (record["holds"], record["occurred"]) == (flow[name]["holds"], flow[name]["occurred"]), name


@pytest.mark.slow
def test_full_torch_and_reduced_agree_on_every_claim_of_fig1() -> None:
    """2,000 steps: holds and witnesses equal, margins to 1e-9 (they differ by rounding in inner products)."""
    base = get("fig1")
    reduced, full = outcomes(base, 0), outcomes(base.change(simulator="full"), 0)
    for name, record in reduced.items():
        assert (record["holds"], record["occurred"]) == (full[name]["holds"], full[name]["occurred"]), name
        if record["occurred"]:
            for ours, theirs in zip([record["margin"], *record["witness"]], [full[name]["margin"], *full[name]["witness"]], strict=True):
                assert ours == theirs or ours == pytest.approx(theirs, rel=1e-9, abs=1e-9), name
