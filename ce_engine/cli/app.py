"""The `ce` command's parts put together."""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Annotated

import typer

from ce_engine.cli.constraints import constraints
from ce_engine.cli.delete import delete
from ce_engine.cli.demo import demo
from ce_engine.cli.doctor import doctor
from ce_engine.cli.inspect import inspect
from ce_engine.cli.output import reported
from ce_engine.cli.replay import replay
from ce_engine.cli.report import report
from ce_engine.cli.schema import schema
from ce_engine.cli.sessions import sessions
from ce_engine.cli.show import show
from ce_engine.cli.trace import trace
from ce_engine.cli.verify import verify


app = typer.Typer(
    name="ce",
    help="Context engineering: what went to the model, what was kept, dropped, and why.",
    epilog="An error is one line on stderr, `error [CODE]: message` (with --json an object), and exit "
    "code 1; wrong usage is exit code 2.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    demo,
    sessions,
    show,
    trace,
    report,
    replay,
    inspect,
    doctor,
    schema,
    verify,
    delete,
):
    app.command()(reported(command))
app.add_typer(constraints, name="constraints")


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"ce {version('ce-integrations')}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    _asked: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Take the options that stand before a command."""


def run() -> None:
    """Run the command; text that the terminal's encoding does not know becomes a question mark."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    app()
