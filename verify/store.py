"""Run records on disk: one file per trial, written atomically, so that a killed run resumes; and the final run.json."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import re
import tempfile
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec

from verify.errors import RecordError
from verify.schema import VERSION, RunRecord

SCHEMA = VERSION
TRIALS = "trials"
RUN, PAGE, JUNIT, SUMMARY = "run.json", "index.html", "junit.xml", "summary.md"


def dumps(data: Any, indent: int | None = None) -> str:
    """JSON with sorted keys and no NaN: equal data give equal bytes."""
    return json.dumps(data, sort_keys=True, ensure_ascii=False, allow_nan=False, indent=indent, separators=None if indent else (",", ":"))


def write_atomic(path: Path, text: str) -> None:
    """Write `text` so that a reader, or a full disk, never sees half a file.

    Raises:
        RecordError: if it cannot be written; what was there before stays.
    """
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except OSError as error:
        if temporary:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        raise RecordError(
            f"cannot write {path}: {error.strerror or error}; choose another --out, or free the disk and use --resume"
        ) from None


def read_json(path: Path) -> Any:
    """Parse a JSON file.

    Raises:
        RecordError: if it is missing or no JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RecordError(f"cannot read {path}: {error.strerror or error}; run `verify run --out {path.parent}` first") from None
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{path} is not a run record: {error}") from None


def read_run(directory: Path) -> dict[str, Any]:
    """The run record in DIR/run.json.

    Raises:
        RecordError: if there is none, or it is no run record of a known schema.
    """
    path = directory / RUN
    record = read_json(path)
    if not isinstance(record, dict) or not isinstance(record.get("schema"), int):
        raise RecordError(f"{path} is not a run record: it names no schema")
    if record["schema"] > SCHEMA:
        raise RecordError(f"{path} has schema {record['schema']}; this program reads up to {SCHEMA}: upgrade it")
    try:
        msgspec.convert(record, RunRecord)
    except msgspec.ValidationError as error:
        raise RecordError(f"{path} is not a run record: {error}") from None
    return record


def claim_directory(directory: Path) -> None:
    """Make sure that a run may write into `directory`: it can be written, and nothing in it is somebody else's.

    Raises:
        RecordError: if it cannot be written, or a file that a run would replace was not written by a run.
    """
    try:
        own = (directory / RUN).exists() or any((directory / TRIALS).glob("*/*.json"))
    except (OSError, ValueError) as error:
        raise RecordError(f"cannot use {str(directory)[:200]}: {getattr(error, 'strerror', None) or error}; choose another --out") from None
    if own and (directory / RUN).exists():
        read_run(directory)
    if not own and (strangers := [n for n in (PAGE, JUNIT, SUMMARY, TRIALS) if (directory / n).exists()]):
        raise RecordError(f"{directory} holds {', '.join(strangers)} but no run: choose another --out, so that nothing is overwritten")
    probe = directory / ".writable"
    write_atomic(probe, "")
    probe.unlink()


def trial_path(directory: Path, group: str, seed: int) -> Path:
    """Where the record of one trial of `group` (a regime) lies."""
    whole = hashlib.sha256(group.encode()).hexdigest()[:12]  # names are cut and cleaned, so they do not tell groups apart
    readable = re.sub(r"[^\w.=,-]+", "_", group)[:100]
    return directory / TRIALS / f"{readable}-{whole}" / f"{seed:06d}.json"


@cache
def fingerprint() -> str:
    """Hash of the source of verify and lemmas and of the libraries' versions: equal fingerprints give equal verdicts."""
    digest = hashlib.sha256(dumps(versions()).encode())
    root = Path(__file__).parent
    for folder in (root, root.parent / "lemmas"):
        for file in sorted(folder.rglob("*.py")):
            digest.update(str(file.relative_to(root.parent)).encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


@cache
def versions() -> dict[str, str]:
    """Versions that verdicts may depend on."""
    names = ("torch", "numpy", "scipy", "sympy", "numba", "python-flint")
    return {"python": platform.python_version(), "machine": platform.machine()} | {n: metadata.version(n) for n in names}
