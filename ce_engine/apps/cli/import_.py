"""`ce import`, and the type between it and those who read a framework's files."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Protocol

import typer
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from ce_engine.apps.cli.options import Account, AsJson, StoreUrl
from ce_engine.apps.cli.reading import PATIENT_S, text_of
from ce_engine.apps.present.output import clipped, console, number, print_json, printable
from ce_engine.errors import ConfigError, SchemaValidationError
from ce_engine.stores.urls import DEFAULT, MEMORY, scheme_of


if TYPE_CHECKING:
    from ce_engine.schema.call import HostMessage
    from ce_engine.schema.report import ImportReport
    from ce_engine.schema.scope import Scope

READERS_GROUP = "ce_integrations.histories"
"""Entry point group: one object per format that satisfies `HistoryReader`."""

AUTO = "auto"

NAME_CELLS = 40


class Conversation(Protocol):
    """A conversation of a file."""

    name: str
    messages: Sequence[HostMessage]


class HistoryReader(Protocol):
    """Reads the conversations of a file in one format."""

    name: str
    is_plain: bool
    """Whether files of other formats look like it, too."""

    def fits(self, data: Any) -> bool:
        """Whether the file's JSON looks like it."""

    def read(self, data: Any) -> Sequence[Conversation]:
        """The conversations.

        Raises:
            SchemaValidationError: something is in another form; it names the place.
        """


class ImportedFile(NamedTuple):
    """A conversation of the file, and the session that it becomes."""

    session_id: str
    messages: Sequence[HostMessage]
    framework: str


def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="JSON, or a JSON object a line.")],
    *,
    session: Annotated[
        str, typer.Option("--session", metavar="ID", help="The session that it becomes.")
    ] = "",
    user: Annotated[str, typer.Option("--user", metavar="ID", help="Whose it is.")] = "",
    project: Annotated[str, typer.Option("--project", metavar="ID", help="In which.")] = "",
    form: Annotated[
        str, typer.Option("--format", metavar="NAME", help="How it is written; `auto` looks.")
    ] = AUTO,
    store: StoreUrl = None,
    account: Account = "",
    as_json: AsJson = False,
) -> None:
    """Bring in conversations that were held before, from the JSON that a framework or an app wrote.

    Give the id of the session, the user and the account as the app names them: it goes on with the
    same list, and nothing is stored twice. Doing it again brings in only what is new. Without
    --session a conversation is named as in the file, else after the file. With --json, a list of
    objects with session_id, messages, new, known, system and repairs.
    """
    from ce_engine.schema.scope import Scope  # noqa: PLC0415 - only where the command is run

    url = store or DEFAULT
    if scheme_of(url) == "memory":
        raise ConfigError(f"{MEMORY} ends with its process: name a store that stays with --store")
    talks = _conversations(file, session, form)
    scope = Scope(session_id="-", user_id=user, account_id=account, project_id=project)
    done = asyncio.run(_taken_in(url, scope, talks))
    if as_json:
        rows = [(t.session_id, report.model_dump()) for t, report in zip(talks, done, strict=True)]
        print_json([{"session_id": name, **counts} for name, counts in rows])
        return
    screen = console()
    for talk, report in zip(talks, done, strict=True):
        screen.print(
            f"{printable(talk.session_id)}: {number(report.new)} new, {number(report.known)} known, "
            f"{number(report.system)} of the system (not stored)"
        )
        for line in report.repairs:
            screen.print(f"  {printable(line)}", soft_wrap=True)


def _conversations(file: Path, session: str, form: str) -> list[ImportedFile]:
    """The conversations of a file with the sessions that they become.

    Raises:
        SchemaValidationError: the file is in none of the formats; it names line or place.
        ConfigError: it cannot be read, or has several conversations and one session is named.
    """
    data = _data(file)
    readers = [point.load() for point in entry_points(group=READERS_GROUP)]
    names = ", ".join(sorted(reader.name for reader in readers))
    if form not in (AUTO, *(reader.name for reader in readers)):
        raise ConfigError(f"--format {form!r} is not known; expected {AUTO} or one of {names}")
    readers.sort(key=lambda reader: reader.is_plain)  # what fits another form is that
    fitting = [r for r in readers if r.name == form or (form == AUTO and r.fits(data))]
    if not fitting:
        raise SchemaValidationError(
            f"{str(file)!r} is in none of the known forms ({names}): "
            'expected a list of messages such as [{"role": "user", "content": "..."}]. '
            "Name the form with --format to see where it differs"
        )
    try:
        talks = fitting[0].read(data)
    except SchemaValidationError as error:
        raise SchemaValidationError(f"{str(file)!r}, {error} (read as {fitting[0].name})") from None
    if session and len(talks) != 1:
        some = ", ".join(repr(talk.name) for talk in talks[:5])
        raise ConfigError(
            f"{str(file)!r} has {len(talks)} conversations ({some}), and --session names one: leave "
            "it out, and each becomes a session of its own name"
        )
    return [
        ImportedFile(
            session or talk.name or (file.stem if len(talks) == 1 else f"{file.stem}-{n}"),
            talk.messages,
            fitting[0].name,
        )
        for n, talk in enumerate(talks, 1)
    ]


def _data(file: Path) -> Any:
    """The JSON of a file, or a list of what stands on its lines.

    Raises:
        SchemaValidationError: it is no JSON; it names the line.
    """
    text = text_of(file)
    try:
        return json.loads(text)
    except RecursionError:
        raise SchemaValidationError(f"{str(file)!r} is nested too deep to be read") from None
    except ValueError as error:
        whole = error
    lines = [(n, line) for n, line in enumerate(text.splitlines(), 1) if line.strip()]
    values = []
    for n, line in lines:
        try:
            values.append(json.loads(line))
        except (ValueError, RecursionError) as error:
            if not values or not isinstance(values[0], dict):  # not even its first line is one
                raise _no_json(file, whole) from None
            raise _no_json(file, error, n) from None
    if not values:
        raise _no_json(file, whole)
    return values


def _no_json(file: Path, error: Exception, line: int | None = None) -> SchemaValidationError:
    at = getattr(error, "lineno", 1) if line is None else line
    column, why = getattr(error, "colno", 1), getattr(error, "msg", "nested too deep")
    return SchemaValidationError(
        f"{str(file)!r}, line {at}, column {column}: {why}. Expected JSON: a list of messages, or an "
        "object a line"
    )


async def _taken_in(url: str, scope: Scope, talks: Sequence[ImportedFile]) -> list[ImportReport]:
    """Import them one after the other, with a bar of the whole."""
    from ce_engine.config import RuntimeConfig, StoreConfig  # noqa: PLC0415 - slow to import
    from ce_engine.create import create_context_engine  # noqa: PLC0415

    config = RuntimeConfig(store=StoreConfig(deadline_s=PATIENT_S))
    engine = create_context_engine(url, config=config)
    done: list[ImportReport] = []
    try:
        with _bar(sum(len(talk.messages) for talk in talks)) as bar:
            for talk in talks:
                bar.begin(talk.session_id)
                report = await engine.import_session(
                    replace(scope, session_id=talk.session_id),
                    talk.messages,
                    framework=talk.framework,
                    progress=bar.advance_to,
                )
                bar.end(len(talk.messages))
                done.append(report)
    finally:
        await engine.close()
    return done


class _Bar:
    """How far it is; does nothing where there is no terminal."""

    def __init__(self, bar: Progress | None, total: int) -> None:
        self._bar, self._before = bar, 0
        self._task = bar.add_task("", total=total) if bar is not None else None

    def begin(self, session_id: str) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, description=clipped(session_id, NAME_CELLS))

    def advance_to(self, messages: int) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=self._before + messages)

    def end(self, messages: int) -> None:
        self._before += messages


@contextmanager
def _bar(total: int) -> Iterator[_Bar]:
    """A bar on the terminal, on stderr: stdout is the result's."""
    screen = console(err=True)
    if not screen.is_terminal:
        yield _Bar(None, total)
        return
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, TextColumn("{task.description}", markup=False), console=screen) as bar:
        yield _Bar(bar, total)
