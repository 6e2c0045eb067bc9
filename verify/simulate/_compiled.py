"""How the simulators are compiled: numba, with machine code on disk under a key of everything that it is made from.

numba's own cache asks only whether the file of the called function has changed; most of a kernel comes from other files.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numba.core.config

CONFIG: Any = numba.core.config  # its settings are made at run time
HERE = Path(__file__).resolve().parent
KEEP = 4
"""Keys that are kept in a place; of older ones the code is deleted."""


def entry(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """`numba.njit` for a function that Python calls: compiled once per content of the sources, whoever calls.

    Only here is code cached: what an entry calls is part of it. Where no place can be written to, every process compiles anew.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        place = directory()
        before = CONFIG.CACHE_DIR
        CONFIG.CACHE_DIR = str(place or "")  # numba reads it here, once
        try:
            return numba.njit(cache=place is not None, **options)(function)
        finally:
            CONFIG.CACHE_DIR = before

    return decorate


@functools.cache
def directory() -> Path | None:
    """Where this process keeps the machine code: the first of `places` that can be written to."""
    return cache_directory(places(), key())


def key(sources: Path = HERE) -> str:
    """Hash of the compiled files (`_*.py`, which import no others of ours), numba and LLVM. The processor is numba's own affair."""
    hashed = hashlib.sha256(f"{numba.__version__} {llvmlite.__version__}".encode())
    for path in sorted(sources.glob("_[!_]*.py")):
        hashed.update(f"\0{path.name}\0".encode() + path.read_bytes())
    return hashed.hexdigest()[:16]


def places() -> list[Path]:
    """Where machine code may be kept, best first: NUMBA_CACHE_DIR if it is set, beside the sources, in the user's cache."""
    asked = [Path(CONFIG.CACHE_DIR)] if CONFIG.CACHE_DIR else []
    local = os.environ.get("LOCALAPPDATA") if sys.platform == "win32" else os.environ.get("XDG_CACHE_HOME")
    user = Path(local) if local else Path("~/.cache").expanduser()
    return [*asked, HERE / "__pycache__", user / "signgd-lemmas"]


def cache_directory(candidates: list[Path], name: str) -> Path | None:
    """Make and return `name` in the first candidate that can be written to, deleting what is old there; None if there is none.

    Every copy of the sources has a folder of its own, so that two checkouts never delete each other's code.
    """
    copy = "kernels-" + hashlib.sha256(str(HERE).encode()).hexdigest()[:8]
    for base in candidates:
        place = base / copy / name
        try:
            new = not place.exists()
            place.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=place).close()
        except OSError:
            continue
        if new:
            _prune(place)
        return place
    return None


def _prune(newest: Path) -> None:
    with contextlib.suppress(OSError):  # another process may be doing the same
        others = sorted((p for p in newest.parent.iterdir() if p != newest), key=lambda p: p.stat().st_mtime, reverse=True)
        for old in others[KEEP - 1 :]:
            shutil.rmtree(old, ignore_errors=True)
