"""The `ce` command's parts put together; a command's module is imported when it is run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from keyword import iskeyword
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command


COMMANDS = (
    "demo",
    "sessions",
    "import",
    "show",
    "trace",
    "report",
    "compare",
    "ui",
    "metrics",
    "replay",
    "handover",
    "inspect",
    "doctor",
    "schema",
    "migrate",
    "verify",
    "copy",
    "backup",
    "restore",
    "rotate-key",
    "export",
    "delete",
    "sweep",
    "constraints",
)
"""Each is a function, or a group of its own, in the module of its name."""


class Commands(TyperGroup):
    """The commands by name; one is imported when it is asked for."""

    def __init__(self, **attrs: Any) -> None:
        super().__init__(**attrs)
        self.commands: dict[str, Any] = dict.fromkeys(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - the group's signature
        """The command of this name, or `None`."""
        if cmd_name in self.commands and self.commands[cmd_name] is None:
            self.commands[cmd_name] = _load_command(cmd_name)
        return self.commands.get(cmd_name)

    def make_context(self, *args: Any, **more: Any) -> Any:
        """Read the arguments before a command."""
        with _printable_usage():
            return super().make_context(*args, **more)

    def invoke(self, ctx: Any) -> Any:
        """Read a command's own arguments, and run it."""
        with _printable_usage():
            return super().invoke(ctx)


@contextmanager
def _printable_usage() -> Iterator[None]:
    """Show what would steer a terminal in an error of usage, which repeats the arguments: they are pasted, too."""
    try:
        yield
    except Exception as error:
        message = getattr(error, "message", None)
        if isinstance(message, str) and hasattr(error, "exit_code"):
            from ce_engine.apps.present.output import printable  # noqa: PLC0415 - only here

            error.message = printable(message)  # type: ignore[attr-defined] # it was looked up
        raise


def _load_command(name: str) -> Any:
    word = f"{name}_" if iskeyword(name) else name.replace("-", "_")
    from ce_engine.apps.cli.audited import audited  # noqa: PLC0415 - only where a command is run

    group = getattr(import_module(f"ce_engine.apps.cli.{word}"), word)
    from ce_engine.apps.present.output import reported  # noqa: PLC0415 - as above

    if isinstance(group, typer.Typer):
        for part in group.registered_commands:
            # A group is its module's own: made once more in this process, it is wrapped already.
            if part.callback is not None and not hasattr(part.callback, "__wrapped__"):
                part_name = part.name or part.callback.__name__
                part.callback = reported(audited(f"{name} {part_name}", part.callback))
    else:
        command, group = group, typer.Typer(add_completion=False)
        group.command(name)(reported(audited(name, command)))
    click_command = get_command(group)
    click_command.name = name
    return click_command


app = typer.Typer(
    name="ce",
    cls=Commands,
    help="Context engineering: what went to the model, what was kept, dropped, and why.",
    epilog="An error is one line on stderr, `error [CODE]: message` (with --json an object), and exit "
    "code 1; wrong usage is exit code 2.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(is_wanted: bool) -> None:
    if is_wanted:
        from importlib.metadata import version  # noqa: PLC0415 - only here

        typer.echo(f"ce {version('ce-integrations')}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    _wants_version: Annotated[
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
