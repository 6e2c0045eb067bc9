"""The typer application: every command in its place, and what becomes of errors."""

from __future__ import annotations

from typing import Any

import typer

from verify.cli import catalogue, necessity, planted, probing, running, single
from verify.cli.console import Interrupted, fail, say
from verify.errors import VerifyError

EPILOG = "Start with:  verify run 4.2 --seeds 8  ·  verify explain 4.2  ·  verify run"

app = typer.Typer(
    name="verify",
    help="Does the theory of SignGD on a two-layer transformer hold, how tightly, and which hypotheses does it need?\n\n"
    "Every numbered statement of the paper is a claim that is simulated or derived, counted, and judged.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.command("list")(catalogue.list_claims)
app.command("explain")(catalogue.explain)
app.command("schema")(catalogue.schema)
app.command("run")(running.run)
app.command("report")(running.report)
app.command("diff")(running.diff)
app.command("replay")(single.replay)
app.command("figure")(single.figure)
app.command("bench")(single.bench)
app.command("controls")(planted.controls)
app.command("probe")(probing.probe)
app.command("matrix")(necessity.matrix)

_UsageError: Any = typer.BadParameter.__mro__[1]  # the same class whether typer brings its own click or imports one


def invoke(args: list[str] | None = None) -> int:
    """Run one command line and return its exit status."""
    try:
        status = app(args, standalone_mode=False, prog_name="verify")
    except Interrupted as error:
        say(str(error))
        return 130
    except VerifyError as error:
        return fail(str(error))
    except _UsageError as error:
        message = error.format_message()
        path = error.ctx.command_path if error.ctx is not None else "verify"
        if not message:  # no arguments at all: the help was printed
            return 2
        return fail(f"{message.rstrip('.')}; see `{path} --help`")
    return status if isinstance(status, int) else 0
