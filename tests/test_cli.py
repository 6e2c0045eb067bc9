"""The command line: what it prints, what it writes, and that wrong calls end with status 2, a few lines and nothing lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from verify import schema
from verify.cli.app import invoke
from verify.cli.console import spark

Call = Callable[..., tuple[int, str, str]]
FIG1 = ("--regime", "fig1", "--set", "horizon=2e-3")


@pytest.fixture
def call(capfd: pytest.CaptureFixture[str]) -> Call:
    """Run a command line in this process: (status, stdout, stderr)."""

    def run(*args: str) -> tuple[int, str, str]:
        status = invoke(list(args))
        captured = capfd.readouterr()
        return status, captured.out, captured.err

    return run


WRONG: dict[str, tuple[tuple[str, ...], str]] = {
    "unknown claim": (("run", "4.22"), "unknown claim '4.22'; did you mean"),
    "unknown regime": (("run", "4.2", "--regime", "fig2"), "unknown regime 'fig2'; known: fig1"),
    "missing file": (("run", "4.2", "--regime", "no/such.toml"), "cannot read no/such.toml"),
    "unknown key": (("run", "4.2", "--set", "sigma=1"), "want key=value with a key of name, n"),
    "too many steps": (("run", "4.2", "--regime", "fig1", "--set", "horizon=1e9"), "1e+13 steps of eta=0.0001 exceed the limit"),
    "endless horizon": (("run", "4.2", "--regime", "fig1", "--set", "horizon=1e300"), "must be from 0 to 1e12"),
    "a name too long": (("run", "C.7", "--out", "/tmp/" + "a" * 300), "choose another --out"),
    "no value": (("run", "4.2", "--set", "n"), "want key=value"),
    "key given twice": (("run", "4.2", "--set", "n=3", "--set", "n=4"), "--set n is given twice"),
    "wrong type": (("run", "4.2", "--set", "n=many"), "Expected `int`, got `str`"),
    "n*s > d-1": (("run", "4.2", "--regime", "fig1", "--set", "n=100"), "do not fit d-1 = 3999 disjointly"),
    "eta=-1": (("run", "4.2", "--set", "eta=-1"), "eta=-1.0 must be a finite number that is not negative"),
    "eta=nan": (("run", "4.2", "--set", "eta=nan"), "eta=nan must be a finite number"),
    "s=1e9": (("run", "4.2", "--set", "s=1e9"), "noise coordinates do not fit"),
    "name": (("run", "4.2", "--set", "name=x"), "a changed regime is named after the change"),
    "no readings in a flow": (("run", "4.2", "--set", "readings={T_1 = 2}"), "readings are in steps, so they need eta > 0"),
    "0 seeds": (("run", "4.2", "--seeds", "0"), "--seeds 0: want a whole number from 1"),
    "negative seeds": (("run", "4.2", "--seeds", "-3"), "--seeds -3: want a whole number from 1"),
    "huge seeds": (("run", "4.2", "--seeds", "99999999999999999999"), "want a whole number from 1 to 100000"),
    "seeds in words": (("run", "4.2", "--seeds", "ten"), "see `verify run --help`"),
    "0 jobs": (("run", "4.2", "--jobs", "0"), "--jobs 0: want a whole number from 1"),
    "negative root": (("run", "4.2", "--root-seed", "-1"), "--root-seed -1: want a whole number from 0"),
    "huge root": (("run", "4.2", "--root-seed", "1" + 40 * "0"), "want a whole number from 0"),
    "unwritable": (("run", "4.2", "--seeds", "1", "--out", "/dev/null/x"), "cannot write /dev/null/x"),
    "unknown option": (("run", "--sedes", "3"), "No such option: --sedes"),
    "unknown command": (("rnu",), "No such command 'rnu'"),
    "unknown suite": (("run", "--suite", "half"), "see `verify run --help`"),
    "unknown fail-on": (("run", "--fail-on", "maybe"), "see `verify run --help`"),
    "a report of nothing": (("report", "/nonexistent"), "cannot read /nonexistent/run.json: No such file or directory"),
    "a diff of nothing": (("diff", "/nonexistent", "/nonexistent"), "cannot read /nonexistent/run.json"),
    "replay without seed": (("replay", "4.2"), "Missing option '--seed'"),
    "replay a negative seed": (("replay", "4.2", "--seed", "-1"), "--seed -1: want a whole number from 0"),
    "replay of nothing": (("replay", "9.9", "--seed", "0"), "unknown claim '9.9'"),
    "explain nothing": (("explain", "nope"), "unknown claim 'nope'"),
    "unknown schema": (("schema", "nope"), "unknown schema 'nope'; known: list, run, controls, bench, probe"),
    "controls of nothing": (("controls", "nope", "--json"), "unknown claim 'nope'"),
    "two names for one": (("run", "4.2", "--regime", "two.toml"), "has the name of a preset but other parameters"),
    "broken TOML": (("run", "4.2", "--regime", "broken.toml"), "broken.toml is not TOML"),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_calls(what: str, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("two.toml").write_text('base = "fig1"\nname = "ladder-33"\n')
    Path("broken.toml").write_text("n = = 3")
    args, message = WRONG[what]
    status, out, err = call(*args)
    assert status == 2
    assert out == ""
    assert message in " ".join(err.split())
    assert len(err.splitlines()) <= 4
    assert "Traceback" not in err
    assert sorted(os.listdir()) == ["broken.toml", "two.toml"], "nothing is written"


def test_list_json_is_what_the_schema_says(call: Call) -> None:
    status, out, _ = call("list", "--json")
    assert status == 0
    listed = msgspec.json.decode(out, type=schema.ClaimList)
    by_id = {c.id: c for c in listed.claims}
    assert len(by_id) == len(listed.claims)
    assert by_id["4.4.1"].same_as == ["E.11"]
    assert by_id["E.11"].same_as == ["4.4.1"]
    assert by_id["4.2"].controls == ["key noise mirrored"]


def test_list_and_explain(call: Call) -> None:
    status, out, _ = call("list")
    assert status == 0
    assert "Query and key noise align their signs" in out
    status, out, _ = call("explain", "4.4.1")
    assert status == 0
    for text in ("4.4.1, E.11", "majority", "sample_size (C31.4)", "lemmas/stage3.py:", "verify run 4.4.1"):
        assert text in out


def test_schemas(call: Call) -> None:
    for name in schema.SHAPES:
        status, out, _ = call("schema", name)
        assert status == 0
        assert json.loads(out)["version"] == schema.VERSION
    assert json.loads(call("schema")[1])["schemas"].keys() == schema.SHAPES.keys()


@pytest.mark.parametrize("command", ["", "run", "replay", "controls", "list", "explain", "schema", "report", "diff", "figure", "bench"])
def test_help_shows_an_example(command: str, call: Call) -> None:
    status, out, _ = call(*filter(None, (command, "--help")))
    assert status == 0
    assert f"verify {command}".strip() in out.replace("Usage: verify " + command, "")


def test_run_writes_everything_and_resumes(call: Call, tmp_path: Path) -> None:
    out_dir = tmp_path / "o"
    args = ("run", "4.2", "D.1", *FIG1, "--seeds", "4", "--jobs", "1", "--out", str(out_dir))
    status, out, err = call(*args)
    assert status == 0
    assert err == ""
    assert sorted(os.listdir(out_dir)) == ["index.html", "junit.xml", "run.json", "summary.md", "trials"]
    assert out.splitlines()[-1] == str((out_dir / "index.html").resolve())
    for text in ("C31.5", "✘ broken", "■ PROVED", "? INCONCLUSIVE", "0 of 4", "2 verdicts: 1 PROVED, 1 INCONCLUSIVE"):
        assert text in out
    first = json.loads((out_dir / "run.json").read_text())
    assert first["run"]["command"] == "verify run 4.2 D.1 --regime fig1 --set horizon=2e-3 --seeds 4"

    status, out, err = call(*args)
    assert status == 0
    assert err.splitlines() == [f"warning: 5 finished trials in {out_dir} are ignored and will be replaced; --resume would use them"]
    status, out, err = call(*args, "--resume")
    assert (status, err) == (0, "")
    again = json.loads((out_dir / "run.json").read_text())
    assert again["run"].pop("timing")["resumed_tasks"] == 5
    assert first["run"].pop("timing")["resumed_tasks"] == 0
    assert again == first


def test_report_rebuilds_the_same_page(call: Call, tmp_path: Path) -> None:
    call("run", "D.1", "--out", str(tmp_path))
    (tmp_path / "controls.json").write_text(call("controls", "D.1", "--json", "--jobs", "1")[1])
    assert call("report", str(tmp_path))[0] == 0
    page = (tmp_path / "index.html").read_bytes()
    (tmp_path / "junit.xml").unlink()
    status, out, _ = call("report", str(tmp_path))
    assert status == 0
    assert out.strip() == str((tmp_path / "index.html").resolve())
    assert (tmp_path / "index.html").read_bytes() == page
    assert (tmp_path / "junit.xml").exists()


def test_fail_on_refuted(call: Call, tmp_path: Path) -> None:
    # Without value noise of its own the alignment rule fails: eta * l_i at 100 times its value is the two-cycle trap of R.4.
    args = ("run", "4.2", "--regime", "fig1", "--set", "eta=1e-2", "--set", "readings={}", "--seeds", "5", "--jobs", "1")
    status, out, _ = call(*args, "--out", str(tmp_path), "--fail-on", "refuted")
    assert "✘ REFUTED" in out
    assert status == 1
    assert call(*args, "--out", str(tmp_path), "--resume")[0] == 0


def test_diff(call: Call, tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    call("run", "D.1", "--out", str(a))
    record = json.loads((a / "run.json").read_text())
    status, out, _ = call("diff", str(a), str(a))
    assert (status, out.strip()) == (0, "nothing differs")
    record["verdicts"][0]["verdict"] = "DISPROVED"
    b.mkdir()
    (b / "run.json").write_text(json.dumps(record))
    status, out, _ = call("diff", str(a), str(b))
    assert status == 1
    assert out.split() == ["newly", "failing", "D.1:", "PROVED", "→", "DISPROVED"]
    assert call("diff", str(b), str(a))[0] == 0


def test_replay(call: Call) -> None:
    status, out, _ = call("replay", "E.14", "--seed", "3", "--regime", "fig1")
    assert status == 0
    for text in ("● holds", "share that satisfies it", "worst at", "t = ", "← worst", "▁", "█"):
        assert text in out
    assert "contributes to the law" in call("replay", "Tab.2", "--seed", "0")[1]
    assert "PROVED" in call("replay", "D.1", "--seed", "0")[1]


def test_replay_agrees_with_the_record(call: Call, tmp_path: Path) -> None:
    call("run", "4.2", *FIG1, "--seeds", "3", "--jobs", "1", "--out", str(tmp_path))
    row = json.loads((tmp_path / "run.json").read_text())["verdicts"][0]
    _, out, _ = call("replay", "4.2", "--seed", str(row["witness"]["seed"]), *FIG1)
    assert f"s = {row['witness']['s']}, i = {row['witness']['i']}" in out
    assert f"margin                   {row['margin']['worst']:.3g}" in out


def test_controls_json(call: Call) -> None:
    status, out, _ = call("controls", "4.2", "D.1", "--json", "--jobs", "1")
    assert status == 0
    rows = msgspec.json.decode(out, type=schema.ControlList).controls
    assert {r.claim for r in rows} == {"4.2", "D.1"}
    assert all(r.caught for r in rows)
    assert "lies caught" in call("controls", "4.2", "--jobs", "1")[1]


def test_unknown_figure(call: Call) -> None:
    status, _, err = call("figure", "Fig.99")
    assert status == 2
    assert "unknown figure 'Fig.99'; known: " in err


def test_a_page_of_somebody_else_is_kept(call: Call, tmp_path: Path) -> None:
    (tmp_path / "summary.md").write_text("mine")
    status, _, err = call("run", "D.1", "--out", str(tmp_path))
    assert status == 2
    assert "holds summary.md but no run" in " ".join(err.split())
    assert (tmp_path / "summary.md").read_text() == "mine"


def _verify(*args: str, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "verify", *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **options,
    )


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_ctrl_c_keeps_what_is_finished(jobs: str, tmp_path: Path) -> None:
    process = _verify("run", "4.2", "--regime", "fig1", "--seeds", "5000", "--jobs", jobs, "--out", str(tmp_path))
    end = time.monotonic() + 300  # a cold kernel is compiled first
    while len(list(tmp_path.glob("trials/*/*.json"))) < 3:
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: parent and workers
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == ""
    assert "Traceback" not in err
    line = " ".join(err.split())
    assert f"of 5000 trials are kept in {tmp_path}. Go on with: verify run 4.2" in line
    assert line.endswith("--resume")
    assert len(list(tmp_path.glob("trials/*/*.json"))) >= 3


def test_a_terminal_without_unicode(tmp_path: Path) -> None:
    process = _verify("explain", "4.2", env=os.environ | {"PYTHONIOENCODING": "ascii", "LC_ALL": "C"}, cwd=tmp_path)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")
    assert "Query and key noise align their signs" in out


def test_a_closed_pipe_is_no_crash(tmp_path: Path) -> None:
    process = _verify("list", "--json", cwd=tmp_path)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert "Traceback" not in process.stderr.read()


def test_ctrl_c_inside_compiled_code_is_a_ctrl_c(tmp_path: Path) -> None:
    """In one process the signal meets the kernel, which turns it into a SystemError: that must be no outcome of a trial."""
    process = _verify("run", "4.2", "--regime", "ladder-33", "--seeds", "5000", "--jobs", "1", "--out", str(tmp_path))
    end = time.monotonic() + 300
    while len(list(tmp_path.glob("trials/*/*.json"))) < 3:
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert not any("error" in path.read_text(encoding="utf-8") for path in tmp_path.glob("trials/*/*.json"))


@pytest.mark.parametrize("name", ["controls", "matrix", "probes", "figures", "bench"])
@pytest.mark.parametrize("text", ["5", '"x"', "[5]", "null", "[{}]", '{"a": 1}', "{", "[1e400]"])
def test_a_damaged_neighbour_is_left_out_of_the_page(call: Call, tmp_path: Path, name: str, text: str) -> None:
    assert call("run", "C.7", "--seeds", "2", "--jobs", "1", *FIG1, "--out", str(tmp_path))[0] == 0
    (tmp_path / f"{name}.json").write_text(text, encoding="utf-8")
    status, _, err = call("report", str(tmp_path))
    assert status == 0
    assert f"{name}.json is left out of the page" in " ".join(err.split())


@pytest.mark.parametrize(
    "change",
    [
        lambda run: run["run"].update(regimes=[{}]),
        lambda run: run["run"]["regimes"][0].update(slack="x"),
        lambda run: run["run"]["timing"].update(claims="x", wall_s=[]),
        lambda run: run["verdicts"][0].update(all_pairs={}),
    ],
)
def test_a_run_record_edited_by_hand_is_one_line(call: Call, tmp_path: Path, change: Callable[[Any], None]) -> None:
    assert call("run", "C.7", "--seeds", "2", "--jobs", "1", *FIG1, "--out", str(tmp_path))[0] == 0
    record = json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))
    change(record)
    (tmp_path / "run.json").write_text(json.dumps(record), encoding="utf-8")
    status, _, err = call("report", str(tmp_path))
    assert status in (0, 2)
    assert "Traceback" not in err


def test_spark() -> None:
    assert spark([0.0, 7.0]) == "▁█"
    assert spark([None, 1.0, 1.0]) == " ▄▄"
    assert spark([]) == spark([None]) == ""
    assert len(spark([float(x) for x in range(1000)])) <= 60
