"""The necessity matrix: planted dependencies are found, planted independence is found, nothing depends on processes or interruptions."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from verify import condition
from verify.claim import START, Check, claim
from verify.claim.claim import _REGISTRY, Claim, find, select
from verify.cli.app import invoke
from verify.judge import Trial, judge_trial
from verify.matrix import matrix
from verify.necessity import RESULTS
from verify.schema import MatrixRecord, json_schema
from verify.start import Start
from verify.stats.eprocess import EProcess, interval
from verify.strengths import BASE, DEFINITION, bases, ladders


@pytest.fixture
def planted() -> Iterator[Any]:
    """Registers claims on the start whose truth is a function of the regime; they are gone afterwards."""
    made: list[str] = []

    def plant(name: str, truth: Any, **fields: Any) -> Claim:
        @claim(name, "planted", source="test", kind="probabilistic", inputs=[START], **fields)
        def check(start: Start) -> Check:
            holds = bool(truth(start))
            return Check(holds=holds, margin=1.0 if holds else -1.0)

        made.append(name)
        return check

    yield plant
    for name in made:
        del _REGISTRY[name]


def without_timing(record: dict[str, Any]) -> dict[str, Any]:
    return {k: x for k, x in record.items() if k != "timing"}


def one(record: dict[str, Any], part: str) -> dict[str, Any]:
    (found,) = [c for c in record["cells"] if c["part"] == part]
    return found


def test_a_claim_that_names_a_clause_and_ignores_it_is_told_so(planted: Any) -> None:
    ignores = planted("planted.ignores", lambda start: start.key_signal[0] > -4 * start.regime.sigma_0, conditions=["noise_strength"])
    record = matrix([ignores], parts=["noise_strength"])
    cell = one(record, "noise_strength")
    # The violation rate is Phi(-4) = 3e-5 whatever sigma_p: one violation among 720 trials, which could leave it undecided, has p = .02.
    assert (cell["result"], round(cell["factor"])) == ("not needed", 4096)
    assert cell["declared"]
    assert cell["interval"][1] <= 0.1
    assert [f["kind"] for f in record["findings"]] == ["named but not needed"]


def test_a_dependency_is_found_with_its_factor(planted: Any) -> None:
    needs = planted("planted.needs", lambda start: start.regime.sigma_p > 1)
    record = matrix([needs], parts=["noise_strength"])
    cell = one(record, "noise_strength")
    assert (cell["result"], round(cell["held"]), round(cell["factor"])) == ("needed", 8, 64)
    assert (cell["violations"], cell["n"]) == (5, 5)
    assert cell["command"].startswith(f"verify run planted.needs --regime {BASE} --set sigma_p=0.515625")
    assert [f["kind"] for f in record["findings"]] == ["refuted where a clause is broken that it does not name"]


def test_a_claim_that_needs_more_than_the_clause_grants(planted: Any) -> None:
    more = planted("planted.more", lambda start: start.regime.m_v > 1000, conditions=["value_width"])
    record = matrix([more], parts=["value_width"])
    cell = one(record, "value_width")
    assert cell["result"] == "needed"
    assert cell["factor"] <= 1
    assert [f["kind"] for f in record["findings"]] == ["refuted inside the clause"]


def test_what_is_false_at_the_base_is_not_blamed_on_a_clause(planted: Any) -> None:
    never = planted("planted.never", lambda start: False)
    record = matrix([never], parts=["noise_strength", "context"])
    assert one(record, "noise_strength")["result"] == "false at the base"
    assert one(record, "context")["result"] == "false at the base"
    assert record["findings"] == []


def test_a_claim_that_is_undefined_there_says_why(planted: Any) -> None:
    record = matrix([planted("planted.two", lambda start: True)], parts=["context"])
    assert one(record, "context")["result"] == "not defined"
    assert "L = 2" in one(record, "context")["reason"]


def test_a_rate_at_the_limit_stays_undecided_and_a_budget_ends_it(planted: Any) -> None:
    def coin(start: Start) -> bool:
        return abs(start.key_signal[0]) < 1.645 * start.regime.sigma_0  # violated with probability .1 = delta

    edge = planted("planted.edge", coin)
    # Each of the two rungs and the base decides falsely with probability at most 2e-4.
    assert one(matrix([edge], parts=["sample_size"]), "sample_size")["result"] == "undecided"
    short = matrix([planted("planted.short", lambda start: True)], parts=["sample_size"], trials=30)
    assert short["trials"] == 30
    assert "budget of 30 trials" in one(short, "sample_size")["reason"]
    assert one(short, "sample_size")["result"] == "undecided"


def test_processes_change_nothing_and_finished_trials_are_used_again(tmp_path: Path) -> None:
    claims = select(["C.4", "C.5", "C.7"])
    parts = ["value_width", "sample_size"]
    one_process = matrix(claims, parts=parts)
    two = matrix(claims, parts=parts, jobs=2, out=tmp_path)
    for record in (one_process, two):
        assert record.pop("timing")["cpu_s"] > 0
    assert one_process == two
    # With everything kept, no trial is run, so no time is needed.
    assert without_timing(matrix(claims, parts=parts, seconds=1e-9, out=tmp_path)) == two
    kept = sorted(tmp_path.rglob("*.json"))
    kept[0].write_text("{", encoding="utf-8")
    assert without_timing(matrix(claims, parts=parts, out=tmp_path)) == two


def test_each_rung_breaks_its_own_inequality_and_no_other() -> None:
    base = set(bases()[0].broken)
    assert base == {"sample_size"}
    for rung in ladders():
        if rung.clause == DEFINITION:
            assert {"dimension", "sparsity", "noise_strength", "sample_size", "learning_rate"} <= set(rung.broken)
            continue
        assert rung.factor is not None
        outside = rung.factor > 1 + 1e-6
        assert set(rung.broken) - base == ({rung.part} - base if outside else set()), rung.words


def test_a_spent_clock_says_so_in_one_sentence_and_the_next_call_goes_on(planted: Any, tmp_path: Path) -> None:
    holds = planted("planted.clock", lambda start: True)
    first = matrix([holds], parts=["sample_size"], seconds=1e-6, out=tmp_path)
    assert first["spent"] == "the budget of 1e-06 seconds is spent"
    assert one(first, "sample_size")["result"] == "undecided"
    # Trials that are kept cost nothing, so the same budget gets further each time.
    counts = [matrix([holds], parts=["sample_size"], trials=300, out=tmp_path) for _ in range(3)]
    assert [record["spent"] for record in counts] == ["the budget of 300 trials is spent", "", ""]
    assert one(counts[-1], "sample_size")["result"] == "not needed"


def test_supported_inside_the_clause_is_no_answer(planted: Any) -> None:
    undefined = lambda regime: "needs value rows" if regime.m_v < 28 else None  # noqa: E731
    record = matrix([planted("planted.inside", lambda start: True, undefined=undefined)], parts=["value_width"])
    assert one(record, "value_width")["result"] == "undecided"
    assert "where the clause is met" in one(record, "value_width")["reason"]


def test_a_run_too_short_for_a_statement_is_not_a_vote_for_it() -> None:
    rung = next(s for s in ladders() if s.part == "learning_rate" and s.factor is not None and 1000 < s.factor < 2000)
    outcome = judge_trial(find("4.4.3"), Trial(rung.regime, 0, 0))  # speaks of a window up to T_3; the run ends at 1.2 T_2
    assert "choose a longer horizon" in outcome["not_run"]


def test_strengths_of_a_part_rise_and_leave_the_clause() -> None:
    for name in (p.id for p in condition.PARTS):
        factors = [s.factor for s in ladders() if s.part == name and s.factor is not None]
        assert factors
        assert factors == sorted(factors)
        assert name == "dimension" or factors[-1] > 3.9


def test_interval_and_verdict_agree() -> None:
    for violations, n in ((0, 110), (0, 111), (5, 5), (4, 4), (3, 30), (60, 200)):
        low, high = interval(violations, n)
        assert low <= violations / n <= high
        process = EProcess()
        # Violations first: the verdict is latched, so feed them so that it can only be crossed at the end.
        process.n, process.violations = n - 1, violations - (violations == n)
        verdict = process.add(violations != n)
        assert (verdict == "REFUTED") == (low > process.delta)
        assert (verdict == "SUPPORTED") == (high < process.delta)
    assert interval(0, 0) == (0.0, 1.0)
    assert math.isclose(interval(0, 111)[1], 0.0994, abs_tol=1e-4)


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert invoke(["matrix", "C.7", "--part", "sample_size", "--jobs", "1", "--out", str(out), "--budget", "20"]) == 0
    text = capsys.readouterr().out
    assert "sample size" in text
    assert "ended early: the budget of 20 trials is spent" in text
    assert (out / "matrix.json").exists()
    for wrong, message in (
        (["--part", "noise"], "want one of dimension"),
        (["--budget", "0"], "--budget 0"),
        (["--seconds", "nan"], "positive number of seconds"),
        (["C.9"], "not judged trial by trial"),
    ):
        assert invoke(["matrix", *wrong, "--out", str(out)]) == 2
        assert message in capsys.readouterr().err


def test_the_record_has_the_published_shape(planted: Any) -> None:
    record = matrix([planted("planted.shape", lambda start: start.regime.s < 5000)], parts=["sparsity", "context"])
    msgspec.convert(record, MatrixRecord)
    text = str(json_schema("matrix"))
    assert all(result in text for result in RESULTS)
    assert not re.search(r"[\\{}$]", " ".join(p.text for p in condition.PARTS))
