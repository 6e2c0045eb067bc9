"""Run records on disk: atomic, never half written, never somebody else's; JUnit XML and the summary made from them."""

from __future__ import annotations

import copy
import json
import os
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from verify import schema, store
from verify.errors import RecordError
from verify.junit import junit
from verify.summary import LIMIT, slack_factor, summary

ROW: dict[str, Any] = {
    "id": "X.1",
    "same_as": [],
    "regime": "fig1",
    "verdict": "SUPPORTED",
    "reason": "",
    "n": 120,
    "violations": 0,
    "bound": {"low": 0.0, "high": 0.08},
    "delta": 0.1,
    "share": 1.0,
    "margin": {"worst": 0.25, "median": 0.5},
    "witness": {"seed": 3, "tau": 0.1, "t": 1000.0, "s": 1, "i": 2},
    "tightness": None,
    "expected": {"verdict": "SUPPORTED", "reason": ""},
    "ancestors": {"hold": True, "first_failing": None},
}
RECORD: dict[str, Any] = {
    "schema": store.SCHEMA,
    "run": {
        "regimes": [{"name": "fig1", "slack": {"sparsity": -1.0, "learning_rate": None}}],
        "seeds": 120,
        "root_seed": 0,
        "constants": {"p": 0.1},
        "condition": [
            {"id": "sparsity", "clause": "C31.1", "latex": "s", "parameter": "s"},
            {"id": "learning_rate", "clause": "C31.5", "latex": "s", "parameter": "eta"},
        ],
        "versions": {},
        "fingerprint": "f",
        "claims": [],
        "timing": {"wall_s": 1.5},
    },
    "verdicts": [ROW],
}


def record(*rows: dict[str, Any]) -> dict[str, Any]:
    return copy.deepcopy(RECORD) | {"verdicts": [copy.deepcopy(ROW) | r for r in rows]}


def test_dumps_is_canonical() -> None:
    assert store.dumps({"b": 1, "a": [1.5, None, "ξ"]}) == '{"a":[1.5,null,"ξ"],"b":1}'
    with pytest.raises(ValueError, match="not JSON compliant"):
        store.dumps({"a": float("nan")})


def test_write_atomic_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "a" / "x.json"
    store.write_atomic(path, "old")
    assert path.read_text() == "old"
    full = Path("/dev/full")
    if full.exists():
        with pytest.raises(RecordError, match="cannot write /dev/full/x"):
            store.write_atomic(full / "x", "new")
    assert os.listdir(path.parent) == ["x.json"]


@pytest.mark.skipif(os.geteuid() != 0 or not Path("/dev/full").exists(), reason="mounting a small disk needs root on Linux")
def test_full_disk(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.system(f"mount -t tmpfs -o size=64k tmpfs {disk} 2>/dev/null"):
        pytest.skip("this machine does not let a test mount")
    try:
        store.write_atomic(disk / "x", "old")
        with pytest.raises(RecordError, match=r"cannot write .*No space left on device; .*--resume"):
            store.write_atomic(disk / "x", "n" * 200_000)
        assert (disk / "x").read_text() == "old"
        assert os.listdir(disk) == ["x"]
    finally:
        os.system(f"umount {disk}")


def test_a_directory_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("my page")
    with pytest.raises(RecordError, match=r"holds index\.html but no run"):
        store.claim_directory(tmp_path)
    assert (tmp_path / "index.html").read_text() == "my page"


def test_a_foreign_run_json_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"lap": 3}')
    with pytest.raises(RecordError, match="is not a run record"):
        store.claim_directory(tmp_path)


def test_directories_that_may_be_used(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("beside")
    store.claim_directory(tmp_path)
    store.claim_directory(tmp_path / "new" / "deep")
    (tmp_path / "run.json").write_text(json.dumps(RECORD))
    (tmp_path / "index.html").write_text("ours")
    store.claim_directory(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["index.html", "new", "notes.txt", "run.json"]


def test_an_interrupted_run_may_be_taken_up(tmp_path: Path) -> None:
    store.write_atomic(store.trial_path(tmp_path, "fig1-abc", 3), "{}")
    store.claim_directory(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "run `verify run --out"),
        ("not json", "is not a run record"),
        ("[]", "names no schema"),
        ('{"schema": 999, "run": {}, "verdicts": []}', r"has schema 999; this program reads up to 1: upgrade it"),
        ('{"schema": 1, "run": {}, "verdicts": []}', "missing required field"),
        ("[" * 100_000, "is not a run record"),
    ],
)
def test_unreadable_records(text: str | None, message: str, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "run.json").write_text(text)
    with pytest.raises(RecordError, match=message):
        store.read_run(tmp_path)


def test_read_run(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(json.dumps(RECORD))
    assert store.read_run(tmp_path) == RECORD


def test_schemas_name_a_version_and_every_field() -> None:
    made = schema.json_schema("run")
    assert made["version"] == schema.VERSION == store.SCHEMA
    row = made["$defs"]["VerdictRow"]
    assert {
        "id",
        "regime",
        "verdict",
        "n",
        "violations",
        "bound",
        "share",
        "margin",
        "witness",
        "tightness",
        "ancestors",
        "expected",
    } <= set(row["required"])


def test_junit() -> None:
    rows = [
        {},
        {"verdict": "REFUTED", "reason": "<&>\x00"},
        {"verdict": "REFUTED", "expected": {"verdict": "REFUTED", "reason": "a finding"}},
        {"verdict": "REFUTED", "expected": None, "regime": "fig1[n=3]"},
        {"verdict": "INCONCLUSIVE", "expected": None},
        {"verdict": "NOT RUN", "expected": None},
        {"verdict": "ERROR"},
        {"verdict": "PROVED", "regime": None, "expected": {"verdict": "PROVED", "reason": ""}},
    ]
    suite = ET.fromstring(junit(record(*rows)))[0]
    assert [suite.get(k) for k in ("tests", "failures", "errors", "skipped")] == ["8", "2", "1", "1"]
    assert [[x.tag for x in case] for case in suite] == [[], ["failure"], [], ["failure"], [], ["skipped"], ["error"], []]
    assert suite[0].get("name") == "lemma[X.1-fig1]"
    assert suite[7].get("name") == "lemma[X.1]"


def test_summary_puts_surprises_first() -> None:
    text = summary(record({}, {"id": "X.2", "verdict": "REFUTED", "reason": "a | b <i>"}))
    assert "**1 of 2 verdicts hold**: 1 SUPPORTED, 1 REFUTED. 1 differ from what is declared." in text
    assert text.index("X.2") < text.index("X.1")
    assert r"a \| b &lt;i>" in text
    assert "| C31.1 sparsity | ✘ broken ×2.72 |" in text
    assert "| C31.5 learning_rate | ∞ |" in text


def test_summary_is_bounded() -> None:
    text = summary(record(*({"id": f"X.{k}", "reason": "ξ" * 500, "verdict": "REFUTED"} for k in range(2000))))
    assert len(text.encode()) <= LIMIT == 60_000
    assert "more rows in run.json" in text.splitlines()[-1]


def test_slack_factor() -> None:
    assert [slack_factor(x) for x in (None, float("inf"), 0.0, -1e9)] == ["∞", "∞", "×1", "✘ broken ×4.6e+299"]


def test_groups_with_equal_beginnings_have_paths_of_their_own(tmp_path: Path) -> None:
    """A long name once pushed the hash beyond the cut, and another regime's trials were read as its own."""
    long = "fig1[" + "horizon=0.002," * 20
    paths = {store.trial_path(tmp_path, f"{long}n={n}]-{n:012x}", 0) for n in range(50)}
    paths |= {store.trial_path(tmp_path, name, 0) for name in ("a/b", "a b", "a_b")}
    assert len(paths) == 53
    assert all(len(p.parent.name) < 200 for p in paths)
