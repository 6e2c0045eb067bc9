"""The catalogue: every claim is complete, has a lie planted on its inputs, and stands in an acyclic proof graph."""

from __future__ import annotations

import inspect
import re
import sys
from graphlib import CycleError
from typing import Any

import pytest

from verify import condition
from verify.claim import graph
from verify.claim.check import Check
from verify.claim.claim import KINDS, Claim, all_claims, claim, docstring_parts, find, labels, select
from verify.claim.verdict import HOLDS, VERDICTS
from verify.constants import DELTA
from verify.controls import planting_regime
from verify.errors import UnknownClaim
from verify.judge import Trial, changed, inputs_of
from verify.plan import SUITES
from verify.regime import get

OWED = """C.1 C.2 C.3 C.4 C.5 C.6 C.7 C.8 C.9 C.10 C.11 C.12 C.13 C.14 D.1 D.2 D.3 D.4 D.5 D.6 D.7 R.1 R.1b R.1c R.1d R.2 R.3 R.4 R.5
S.update T.order 4.1.1 4.1.2 4.1.3 4.2 4.2.1 4.2.2 4.3.1 4.3.2 4.3.3 4.3.4 4.4.1 4.4.2 4.4.3 4.5 4.5.1 4.5.2 4.6.1 4.6.2 4.7.1 4.7.2
4.8.1 4.8.2 E.1 E.2 E.3 E.5 E.6 E.7 E.8 E.9 E.11 E.12 E.14 E.15 E.16 E.17 E.18 E.19 E.20 E.21 E.23 E.24 E.25 E.27 E.29 E.31 E.32 E.33
E.34 E.35 E.36 E.38 E.39 E.40 E.41 E.42 3.2.1 3.2.2 3.2.3 3.2.4 F.1 F.2a F.2b F.3 F.4 Tab.2"""
"""Every label that the project owes (shared/claims.ids)."""
CATALOGUE = OWED.split()
PENDING = {"F.3", "F.4"}
"""Owed by a later issue; a label that gets registered must be taken out here."""
GRAPH = """C.6,C.7,C.8←C.4; C.10←C.8,C.12; C.11←C.7,C.12; C.12←C.9,C.4; C.13←C.8; D.3←D.1; D.4,D.5←D.3; D.6←D.2; D.7←D.4,D.5; R.1←D.6,D.7;
R.1b,R.1c,R.1d,R.2,R.3,R.4,R.5←R.1; S.update←D.6,D.7,C.1; 4.1.1←S.update,C.4,C.7; 4.1.2←4.1.1; 4.1.3←C.11,C.12,C.4,C.8; E.14←C.8,S.update;
E.1←C.10,C.13,C.14,E.14; E.2←E.1,C.4; E.3←E.1,E.14,C.4,C.10; 4.2,4.2.1,4.2.2←E.1,E.2,E.3; E.5←E.2,E.3,E.6,C.5; 4.3.1←E.2,E.3;
4.3.2←E.14; 4.3.3←E.5; E.7←S.update; 4.3.4←E.7; E.8←4.1.1,C.4,C.7; E.15←E.8,E.14; E.9←E.14,E.15,E.2,E.3; E.11←E.5,E.8,E.14,E.15;
E.12←E.11,E.5,C.8,E.7,S.update; 4.4.1←E.11; 4.4.2←E.12; 4.4.3←E.14; E.16←E.8; E.17←E.16,C.10,E.9; E.18←E.16,E.9,C.4; E.19←E.17,E.18;
E.20←C.4,E.18,E.19; E.21←E.12,E.18,E.19,E.20,E.5,E.14; E.23←E.14,E.15,E.5,E.12; E.24←E.23; E.25←E.23,E.12; 4.5,4.5.1,4.5.2←E.21,E.25,E.14;
E.27←E.6,E.9,E.11; E.29←S.update,C.4,E.12,E.17,E.18; E.31,E.32,E.33,E.34,E.35←E.27,E.29,E.12,E.17,E.18,E.19; E.36←E.27,E.29,E.12;
4.6.1←E.29; E.38←E.36,E.27,E.29; E.39←E.36,E.38; 4.6.2←E.38,E.39; 4.7.1←E.33; 4.7.2←E.38,E.39; E.40←4.6.2,4.7.2; 4.8.1←E.40; 4.8.2←E.15;
E.41←E.8,E.40; E.42←E.40; 3.2.1←E.41; 3.2.2←E.41,C.1; 3.2.3←E.8,E.41; 3.2.4←E.42; F.1←C.6,C.8,E.41; T.order←E.12,E.21,E.25,E.36"""
"""Who uses whom in the proof (claims.md section 6)."""

MODULE: Any = sys.modules[Claim.__module__]
CLAIMS = all_claims()
LABELS = labels()
by_claim = pytest.mark.parametrize("c", [pytest.param(c, id=c.id) for c in CLAIMS])


def faults(c: Claim) -> list[str]:
    """What a claim lacks; [] for a complete one."""
    parts = c.parts
    found = [f"its docstring has no {name}" for name, text in parts.items() if not text]
    if "$" not in parts["statement"]:
        found.append("its statement has no formula")
    if not c.controls:
        found.append("it has no control")
    if not any(not x.truth for x in c.controls) and not _refuted_everywhere(c):
        found.append("it has no lie")
    if _refuted_everywhere(c) and not any(x.truth for x in c.controls):
        found.append("it is refuted everywhere and has no truth")
    if not c.title or not c.source or c.kind not in KINDS:
        found.append("title, source or kind")
    found += [f"condition {x}" for x in c.conditions if x not in {p.id for p in condition.PARTS}]
    found += [f"depends on {x}" for x in c.depends_on if x not in {*LABELS, *PENDING}]
    found += [f"expects {verdict[0]} in {where}" for where, verdict in c.expected.items() if verdict[0] not in VERDICTS]
    found += [f"no reason for {where}" for where, (verdict, reason) in c.expected.items() if verdict not in HOLDS and not reason]
    if c.over == "law" and c.measure is None:
        found.append("a law without a measure")
    return found


def _refuted_everywhere(c: Claim) -> bool:
    if c.regime_free:
        return (c.expects(None) or ("", ""))[0] not in HOLDS
    where = [get(x) for x in {*(c.home or SUITES["full"]), *(x.regime for x in c.controls if x.regime)}]
    return not any((c.expects(r) or ("SUPPORTED", ""))[0] in HOLDS and c.undefined(r) is None for r in where)


@by_claim
def test_complete(c: Claim) -> None:
    assert faults(c) == []


@pytest.fixture
def scratch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A registry of its own, so that a test may register a broken claim."""
    monkeypatch.setattr(MODULE, "_REGISTRY", {})


GOOD = """$x>0$.

Conditions: none.
Measured: x; positive holds.
Made finite: nothing.
Source: here.
"""


def _made(doc: str, *, controls: int = 1) -> Claim:
    def check(x: Any) -> Check:
        return Check(holds=True, margin=1.0)

    check.__doc__ = doc
    made = claim("X.1", "a test", source="here")(check)
    for k in range(controls):
        made.control(f"lie {k}")(lambda x: x)
    return made


@pytest.mark.usefixtures("scratch")
def test_a_claim_without_a_control_is_refused() -> None:
    assert faults(_made(GOOD, controls=1)) == []
    MODULE._REGISTRY.clear()
    assert "it has no control" in faults(_made(GOOD, controls=0))


@pytest.mark.usefixtures("scratch")
@pytest.mark.parametrize("part", ["Conditions", "Measured", "Made finite", "Source"])
def test_a_docstring_that_lacks_a_part_is_refused(part: str) -> None:
    doc = re.sub(rf"^{part}:.*\n", "", GOOD, flags=re.M)
    assert [f"its docstring has no {part.lower().replace(' ', '_')}"] == faults(_made(doc))


@pytest.mark.usefixtures("scratch")
def test_a_label_is_registered_once() -> None:
    _made(GOOD)
    with pytest.raises(ValueError, match=r"X\.1 is registered twice"):
        _made(GOOD)


def test_catalogue_is_registered() -> None:
    assert len(CATALOGUE) == 97
    known = set(labels())
    assert sorted(set(CATALOGUE) - known - PENDING) == []
    assert sorted(PENDING & known) == [], "registered now: take it out of PENDING"


def test_proof_graph_is_that_of_the_paper() -> None:
    wanted: dict[str, set[str]] = {}
    for group in re.sub(r"\s", "", GRAPH).split(";"):
        children, parents = group.split("←")
        for child in children.split(","):
            wanted.setdefault(child, set()).update(parents.split(","))
    known = set(labels())
    for child, parents in wanted.items():
        if child in known:
            missing = {p for p in parents if p in known} - set(find(child).depends_on) - set(find(child).ids)
            assert not missing, f"{child} does not name {missing}"


def test_proof_graph_is_acyclic() -> None:
    order = graph.order(CLAIMS)
    rank = {name: k for k, name in enumerate(order)}
    assert len(order) == len(CLAIMS)
    for c in CLAIMS:
        for parent in c.depends_on:
            if parent in labels() and find(parent) is not c:
                assert rank[find(parent).id] < rank[c.id]


def test_a_cycle_is_noticed() -> None:
    a, b = (Claim((x,), x, "", "dynamics", lambda: None, depends_on=(y,)) for x, y in (("a", "b"), ("b", "a")))
    with pytest.raises(CycleError):
        graph.order([a, b])


def test_ancestors_carry_the_first_failure() -> None:
    a = Claim(("a",), "a", "", "dynamics", lambda: None)
    b = Claim(("b", "b2"), "b", "", "dynamics", lambda: None, depends_on=("a",))
    c = Claim(("c",), "c", "", "dynamics", lambda: None, depends_on=("b2",))
    above = graph.ancestors([c, b, a])
    assert above == {"a": [], "b": ["a"], "c": ["a", "b"]}
    assert graph.status(above["c"], {"a": "PROVED", "b": "SUPPORTED"}) == {"hold": True, "first_failing": None}
    assert graph.status(above["c"], {"a": "REFUTED", "b": "SUPPORTED"}) == {"hold": False, "first_failing": "a"}
    assert graph.status(above["c"], {"b": "SUPPORTED"}) == {"hold": None, "first_failing": None}


PLANTED = [pytest.param(c, x, id=f"{c.id}-{x.name}") for c in CLAIMS for x in c.controls]


@pytest.mark.parametrize(("c", "control"), PLANTED)
def test_a_control_takes_inputs_and_gives_inputs(c: Claim, control: Any) -> None:
    """By construction a control cannot change the predicate: the claim's own function judges what the control returns.

    What it returns must look like what it was given. Trials are looked at only where no simulation is needed.
    """
    count = 1 if c.rungs else len(c.inputs)
    assert len(inspect.signature(control.change).parameters) == count
    if c.kind in ("identity", "analytic"):
        given = inputs_of(c, None)
    elif not c.rungs and all(x.kind == "start" for x in c.inputs):
        given = inputs_of(c, Trial(planting_regime(c, control), 0, 0))
    else:
        return
    returned = changed(control, given)
    assert [type(x) for x in returned] == [type(x) for x in given]


def test_expectations() -> None:
    c = Claim(("a",), "a", "", "dynamics", lambda: None, expected={"fig1": ("REFUTED", "why")}, home=("fig1", "trap"))
    assert c.expects(get("fig1")) == ("REFUTED", "why")
    assert c.expects(get("ladder-33")) == ("SUPPORTED", "")
    assert c.expects(get("trap")) == ("SUPPORTED", "")
    assert c.expects(get("ladder-35")) is None
    assert c.expects(get("fig1").change(n=19)) is None
    assert Claim(("b",), "b", "", "identity", lambda: None).expects(None) == ("PROVED", "")


def test_find_and_select() -> None:
    with pytest.raises(UnknownClaim, match=r"unknown claim '4\.22'; did you mean .*4\.2\b.*See `verify list`"):
        find("4.22")
    assert find("E.11") is find("4.4.1")
    assert select(["4.4.1", "E.11", "4.2"]) == [find("4.4.1"), find("4.2")]


def test_docstring_parts_join_lines() -> None:
    def check() -> None:
        """A $x$
        and more.

        Conditions: a
            b.
        Measured: c.
        Made finite: d.
        Source: e.
        """

    parts = docstring_parts(check)
    assert parts == {"statement": "A $x$ and more.", "conditions": "a b.", "measured": "c.", "made_finite": "d.", "source": "e."}


def test_the_default_bound_is_delta() -> None:
    assert Claim(("a",), "a", "", "dynamics", lambda: None).bound(get("fig1")) == DELTA == 0.1
