"""Machine code on disk is never older than any of the files it is made from."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from verify.simulate import _compiled, _kernel
from verify.simulate._compiled import HERE, KEEP, cache_directory, key

PROBE = """
from verify.simulate._compiled import entry
from verify.simulate._flow_kernel import growth

@entry()
def probe(x):
    return growth(x)
"""
CALL = "from verify.simulate._probe import probe as p; print(p(0.5), sum(p.stats.cache_hits.values()), p.stats.cache_path)"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The compiled files alone, as a package of their own, and an entry that calls a helper of another file."""
    simulate = tmp_path / "verify" / "simulate"
    simulate.mkdir(parents=True)
    for path in HERE.glob("_[!_]*.py"):
        shutil.copy(path, simulate)
    for package in (simulate, simulate.parent):
        (package / "__init__.py").touch()
    (simulate / "_probe.py").write_text(PROBE)
    return simulate


def call(copy: Path, **environment: str) -> tuple[float, int, Path]:
    """(growth(1/2), whether its code came from the disk, the folder of that code), from a new process."""
    env = {k: v for k, v in os.environ.items() if k not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "PYTHONPATH")} | environment
    out = subprocess.run([sys.executable, "-c", CALL], cwd=copy.parents[1], env=env, capture_output=True, text=True, check=True).stdout
    value, hits, path = out.split()
    return float(value), int(hits), Path(path)


def test_an_edited_helper_is_compiled_anew(copy: Path) -> None:
    helper = copy / "_flow_kernel.py"
    before = helper.read_text()
    after = before.replace("return 1 + x + x * x if", "return 2 + x + x * x if")
    assert before != after
    assert call(copy)[:2] == (1.75, 0)
    assert call(copy)[:2] == (1.75, 1)
    helper.write_text(after)
    assert call(copy)[:2] == (2.75, 0)
    helper.write_text(before)
    assert call(copy)[:2] == (1.75, 1)


def test_what_cannot_be_written_to_is_passed_over(copy: Path, tmp_path: Path) -> None:
    (copy / "__pycache__").write_text("a file where the folder should be: nobody can write here, whatever his rights")
    user = tmp_path / "user"
    first = call(copy, XDG_CACHE_HOME=str(user))
    assert first[:2] == (1.75, 0)
    assert user in first[2].parents
    assert call(copy, XDG_CACHE_HOME=str(user))[:2] == (1.75, 1)
    asked = call(copy, XDG_CACHE_HOME=str(user), NUMBA_CACHE_DIR=str(tmp_path / "asked"))
    assert tmp_path / "asked" in asked[2].parents


def test_without_any_place_there_is_no_cache(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    assert cache_directory([blocked], "key") is None
    assert cache_directory([blocked, tmp_path], "key") is not None


def test_old_code_is_deleted(tmp_path: Path) -> None:
    made = []
    for k in range(KEEP + 2):
        place = cache_directory([tmp_path], f"key{k}")
        assert place is not None
        os.utime(place, (k, k))
        made.append(place)
    assert [p.exists() for p in made] == [False] * 2 + [True] * KEEP


def test_the_key_covers_all_that_is_compiled() -> None:
    """Compiled files take nothing from files that do not enter the key, and the kernels are kept under it."""
    for path in HERE.glob("_[!_]*.py"):
        modules = [x.module or "" for x in ast.walk(ast.parse(path.read_text())) if isinstance(x, ast.ImportFrom)]
        assert all(m.startswith("verify.simulate._") for m in modules if m.startswith("verify")), path
    assert key() == (_compiled.directory() or Path()).name
    assert key() in str(_kernel.run.stats.cache_path)
