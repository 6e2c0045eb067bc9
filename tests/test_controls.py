"""Every planted lie is caught by its claim's own check within 8 trials, and every truth is supported.

At delta = 0.1 and alpha = 1e-4 five violations of five refute (0.1^5 < 1e-4), so eight trials leave room for three that do not count.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

from verify import stats
from verify.claim.check import Check, Fit, Proof
from verify.claim.claim import START, Claim, all_claims, claim, find, value
from verify.controls import LIE_TRIALS, judge_controls, planting_regime
from verify.errors import VerifyError
from verify.regime import SUITE_REGIMES, get


def test_eight_trials_can_refute_and_eighty_eight_support() -> None:
    assert stats.decide(5, 5, 0.1) == "REFUTED"
    assert stats.decide(4, 4, 0.1) == "INCONCLUSIVE"
    assert stats.decide(6, LIE_TRIALS, 0.1) == "REFUTED"
    assert stats.trials_for_support(0.1) == 88


@pytest.mark.slow
def test_every_lie_is_caught_and_every_truth_supported() -> None:
    claims = all_claims()
    rows = judge_controls(claims, jobs=os.cpu_count() or 1)
    assert {r["claim"] for r in rows} == {c.id for c in claims}
    assert [f"{r['claim']}: {r['name']} is {r['verdict']} in {r['regime']}, {r['reason']}" for r in rows if not r["caught"]] == []


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Register claims that only this test sees, judged in this process."""
    import sys

    all_claims()  # once imported, the lemmas do not register again
    monkeypatch.setattr(sys.modules[Claim.__module__], "_REGISTRY", {})

    def make(check: Any, **fields: Any) -> Claim:
        return claim("X", "x", source="here", **{"inputs": [START], **fields})(check)

    return make


def test_a_lie_goes_through_the_claims_own_check(made: Any) -> None:
    c = made(lambda start: Check(holds=start.value_signal < 1e9, margin=1e9 - start.value_signal))
    c.control("huge")(lambda start: start.replace(value_signal=1e10))
    c.control("harmless")(lambda start: start)
    c.control("crashes")(lambda start: 1 / 0)
    c.truth("weaker")(lambda start: start)
    rows = judge_controls([c])
    assert [(r["name"], r["verdict"], r["caught"]) for r in rows] == [
        ("huge", "REFUTED", True),
        ("harmless", "INCONCLUSIVE", False),
        ("crashes", "ERROR", False),
        ("weaker", "SUPPORTED", True),
    ]
    assert [(r["n"], r["violations"]) for r in rows] == [(8, 8), (8, 0), (8, 0), (120, 0)]


def test_a_closed_form_of_the_statement_does_not_judge_the_lie(made: Any) -> None:
    c = made(lambda start: Check(holds=start.value_signal < 1e9, margin=1.0), exact=lambda regime: 0.0)
    c.control("huge")(lambda start: start.replace(value_signal=1e10))
    assert judge_controls([c])[0]["verdict"] == "REFUTED"


def test_proofs(made: Any) -> None:
    c = made(lambda x: Proof(x == 2), kind="identity", inputs=[value(lambda: 2)])
    c.control("3")(lambda x: x + 1)
    c.control("2")(lambda x: x)
    c.control("crash")(lambda x: x[0])
    assert [(r["verdict"], r["caught"], r["regime"]) for r in judge_controls([c])] == [
        ("DISPROVED", True, None),
        ("PROVED", False, None),
        ("ERROR", False, None),
    ]


def test_scaling_laws(made: Any) -> None:
    rungs = [get("fig1").change(n=n) for n in (5, 10)]

    def law(measures: list[tuple[int, float]], _regime: None) -> Fit:
        mean = sum(x for _, x in measures) / len(measures)
        return Fit(mean, mean - 0.01, mean + 0.01, theory=1.0)

    c = made(law, kind="scaling", rungs=rungs, over="law", trials_per_rung=3)
    c.measures(lambda start: 1.0)
    c.control("half")(lambda measure: (measure[0], measure[1] / 2))
    c.control("crash")(lambda measure: measure[7])
    assert [(r["verdict"], r["n"], r["caught"]) for r in judge_controls([c])] == [("REFUTED", 6, True), ("ERROR", 6, False)]


def test_a_lie_may_be_measured_in_other_regimes_shared_with_other_claims(made: Any) -> None:
    few, many = (get("fig1").change(n=n) for n in (5, 10))
    seen: list[tuple[int, float]] = []

    def law(measures: list[tuple[int, float]], _regime: None) -> Check:
        seen.extend(measures)
        return Check(holds=(value := min(x for _, x in measures)) > 7, margin=value - 7)

    c = made(law, kind="scaling", rungs=[many, many.change(m_k=7)], over="law", trials_per_rung=2)
    c.measures(lambda start: float(start.regime.n))
    c.control("few samples twice over", rungs=[few, few.change(name="few again")])(lambda measure: measure)
    calls: list[tuple[int, int]] = []
    rows = judge_controls([c], progress=lambda *call: calls.append(call))
    assert seen == [(0, 5.0), (0, 5.0), (1, 5.0), (1, 5.0)]
    assert (rows[0]["verdict"], rows[0]["n"]) == ("REFUTED", 4)
    assert calls == [(1, 2), (2, 2)]  # equal regimes are one trial, and the claim's own rungs are not run


def test_the_number_of_workers_changes_nothing() -> None:
    claims = [find(label) for label in ("4.2", "C.9", "Tab.2", "4.1.1.trend.m_v")]
    assert judge_controls(claims, jobs=1) == judge_controls(claims, jobs=2)


def test_where_a_lie_is_planted(made: Any) -> None:
    c = made(
        lambda start: Check(holds=True, margin=1.0),
        expected={"fig1": ("REFUTED", "why")},
        undefined=lambda r: "even n" if r.n % 2 == 0 else None,
    )
    c.control("a")(lambda start: start)
    c.control("b", regime="trap")(lambda start: start)
    assert [planting_regime(c, x).name for x in c.controls] == ["ladder-33", "trap"]
    c.expected |= dict.fromkeys(SUITE_REGIMES, ("REFUTED", "why"))
    with pytest.raises(VerifyError, match="its control 'a' must name one"):
        planting_regime(c, c.controls[0])
    assert judge_controls([c])[0] | {"reason": ""} == {
        "claim": "X",
        "name": "a",
        "regime": None,
        "truth": False,
        "verdict": "NOT RUN",
        "n": 0,
        "violations": 0,
        "caught": False,
        "reason": "",
    }
