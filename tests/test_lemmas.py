"""Every claim of the default suite against the expectation declared beside it: one item per (label, regime), strict both ways.

False alarms: a claim that truly holds with violation rate r is SUPPORTED in this run or it is not, since the root seed is fixed; over
root seeds a claim that never fails is always SUPPORTED, and one with rate 1 % misses it with probability 1 - P(Bin(120, .01) <= 1) < 34 %.
"""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any

import pytest

from verify.claim.claim import all_claims
from verify.merge import met
from verify.plan import Plan, plan, suite_claims, suite_regimes
from verify.runner import run

SEEDS = 120
Row = dict[str, Any]


def default_plan() -> Plan:
    """What `verify run` does."""
    return plan(suite_claims(all_claims(), "default"), suite_regimes("default"), SEEDS, 0)


def items() -> list[Any]:
    """(label, regime or None) of every row of the default suite."""
    made = default_plan()
    free = [(label, None) for c in made.free for label in c.ids]
    cells = [(label, regime.name) for c, regime in made.cells for label in c.ids]
    return [pytest.param(label, regime, id=f"{label}-{regime}" if regime else label) for label, regime in (*free, *cells)]


@pytest.fixture(scope="session")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str | None], Row]:
    """Verdicts of the default suite; under xdist the first worker runs it and the others wait for its record."""
    alone = "PYTEST_XDIST_WORKER" not in os.environ
    shared: Path = tmp_path_factory.mktemp("lemma") if alone else tmp_path_factory.getbasetemp().parent
    kept = shared / "lemma.json"
    with (shared / "lemma.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            kept.write_text(json.dumps(run(default_plan(), jobs=os.cpu_count() or 1)))
    return {(r["id"], r["regime"]): r for r in json.loads(kept.read_text())["verdicts"]}


@pytest.mark.lemma
@pytest.mark.parametrize(("label", "regime"), items())
def lemma(verdicts: dict[tuple[str, str | None], Row], label: str, regime: str | None) -> None:
    row = verdicts[label, regime]
    if met(row) is False:
        why = f"{row['violations']} violations in {row['n']} trials, margin {row['margin']}, witness {row['witness']}"
        pytest.fail(f"{label} is {row['verdict']} ({row['reason']}; {why}); declared: {row['expected']}", pytrace=False)
