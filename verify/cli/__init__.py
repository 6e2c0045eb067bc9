"""The command line: `verify` (fixed by design.md section 4)."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command; wrong calls and inputs end with status 2 and one line, Ctrl-C with 130."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]  # a terminal without Unicode loses glyphs, not the run
    try:
        from verify.cli.app import invoke

        status = invoke()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        status = 130
    sys.exit(status)


__all__ = ["main"]
