"""`ce delete`: take a session, a user's data, or the content of a piece of evidence out of the store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ce_engine.apps.cli.delete_verify import DeletionCheck, words
from ce_engine.apps.cli.options import Account, AsJson, OriginalsUrl, StoreUrl
from ce_engine.apps.cli.progress import spinner
from ce_engine.apps.cli.reading import engine_over, find_scope, find_session, reading, with_project
from ce_engine.apps.present.output import console, number, print_json, printable
from ce_engine.errors import (
    DeletedBytesError,
    EvidenceNotFoundError,
    SessionNotFoundError,
    StoreError,
)
from ce_engine.schema.report import DeletionReport
from ce_engine.schema.rows import SessionInfo
from ce_engine.schema.scope import Scope
from ce_engine.stores.base import BaseStore
from ce_engine.stores.leftovers import Search
from ce_engine.stores.urls import DEFAULT


if TYPE_CHECKING:
    from ce_engine.create import ContextEngine

Delete = Callable[[], Awaitable[DeletionReport]]


Session = Annotated[
    str | None,
    typer.Option("--session", metavar="ID", help="This session.", show_default=False),
]
User = Annotated[
    str | None,
    typer.Option(
        "--user",
        metavar="ID",
        help="All sessions of this user; '' is the user without a name. With --session, whose it is.",
        show_default=False,
    ),
]
EvidenceId = Annotated[
    str | None,
    typer.Option(
        "--evidence",
        metavar="ID",
        help="The content of this evidence of --session; what links to it stays.",
        show_default=False,
    ),
]
Verify = Annotated[
    bool,
    typer.Option(
        "--verify",
        help="Afterwards search every byte of the store's files for what was deleted; exit code 1 if any is left.",
    ),
]
Rewrite = Annotated[
    bool,
    typer.Option(
        "--rewrite",
        help="Write PostgreSQL's tables anew, so that their files have nothing of what was deleted, now or before. "
        "It takes their owner; apps wait for each table meanwhile. Alone, it deletes nothing.",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def delete(  # noqa: PLR0913 - one parameter an option
    *,
    session: Session = None,
    user: User = None,
    evidence: EvidenceId = None,
    yes: Yes = False,
    verify: Verify = False,
    rewrite: Rewrite = False,
    store: StoreUrl = None,
    originals: OriginalsUrl = None,
    account: Account = "",
    as_json: AsJson = False,
) -> None:
    """Delete a session, all sessions of a user, or one piece of evidence, from every byte of the store.

    With --originals, from the second store too, which has what redaction took out.

    What stays: ids, times, and an event that says what was deleted (`ce verify`). A running app
    forgets it with its next call; what the app itself keeps is the app's to delete.

    Where PostgreSQL keeps old rows in its files, it says so, with exit code 1: --rewrite takes them out.

    With --json, an object with sessions, messages, evidences, tool_calls and turns: how many went. Of
    evidence also cleared (ids of what its text was taken out of) and derived (ids of the answers that may
    say it in other words, and stay). bytes_left, if there is any, says why a server keeps old rows.
    """
    is_rest = rewrite and (session, user, evidence) == (None, None, None)
    if session is None and (user is None or evidence is not None) and not is_rest:
        raise typer.BadParameter(
            "name what to delete: --session ID, --user ID, or --evidence ID and --session ID"
        )
    check = DeletionCheck([store or DEFAULT, originals]) if verify else None
    urls = (store, originals)
    deleted, search = DeletionReport(), None
    if not is_rest:
        work = _delete(urls, account, user, session, evidence, yes=yes, check=check, quiet=as_json)
        deleted, search = asyncio.run(work)
    if rewrite:
        deleted = asyncio.run(_rewritten(deleted, urls, quiet=as_json))
    if as_json:
        print_json(deleted.model_dump() | ({"search": _plain(search)} if search else {}))
    else:
        _print(deleted, search)
    if deleted.bytes_left or (search is not None and search.leftovers):
        raise typer.Exit(1)


def _print(deleted: DeletionReport, search: Search | None) -> None:
    screen = console()
    screen.print(f"deleted {_render_counts(deleted)}")
    if deleted.cleared:
        screen.print(f"its text was taken out of {number(len(deleted.cleared))} other places")
    for answer in deleted.derived:
        screen.print(printable(f"may say it in other words, and stays: answer {answer}"))
    for line in words(search) if search else ():
        screen.print(printable(line))
    if deleted.bytes_left:
        typer.echo(printable(f"error [{DeletedBytesError.code}]: {deleted.bytes_left}"), err=True)


async def _delete(
    urls: tuple[str | None, str | None],
    account: str,
    user: str | None,
    session: str | None,
    evidence: str | None,
    *,
    yes: bool,
    check: DeletionCheck | None,
    quiet: bool,
) -> tuple[DeletionReport, Search | None]:
    async with engine_over(*urls) as engine:
        store = engine.store
        with suppress(DeletedBytesError):  # which is told when it is done
            await store.purge()  # of an earlier deletion whose bytes somebody kept from going
        if session is None:
            assert user is not None
            scopes, deletion = await _of_user(engine, account, user, yes=yes)
        else:
            scope, deletion = await _of_session(
                engine, account, user, session, evidence, yes=yes, may_be_gone=bool(urls[1])
            )
            scopes = [scope]
        if check is not None:
            await check.note(store, scopes, evidence)
        with spinner("deleting", hidden=quiet):
            deleted = await deletion()
        return deleted, await check.search(store, quiet=quiet) if check is not None else None


async def _rewritten(
    deleted: DeletionReport, urls: Sequence[str | None], *, quiet: bool
) -> DeletionReport:
    """The report of a deletion after which the files of all stores were written anew."""
    left = []
    for url in dict.fromkeys((urls[0], *filter(None, urls[1:]))):
        async with reading(url) as store:
            if not isinstance(store, BaseStore):
                raise StoreError(f"the store {store.url!r} cannot be written anew")
            with spinner("writing anew", hidden=quiet):
                try:
                    await store.rewrite()
                except DeletedBytesError as error:
                    left.append(str(error))
    return deleted.model_copy(update={"bytes_left": " ".join(left)})


async def _of_user(
    engine: ContextEngine, account: str, user: str, *, yes: bool
) -> tuple[list[Scope], Delete]:
    store = engine.store
    infos = await store.list_sessions(account_id=account, user_id=user, ephemeral=True)
    _confirm(f"the data of user {user!r}: {_render_counts(_sum(infos))}", yes=yes)
    plain = [Scope.of_stored(account, user, info.session_id) for info in infos]
    return [await with_project(store, scope) for scope in plain], lambda: engine.delete_user_data(
        account, user
    )


async def _of_session(
    engine: ContextEngine,
    account: str,
    user: str | None,
    session: str,
    evidence: str | None,
    *,
    yes: bool,
    may_be_gone: bool,
) -> tuple[Scope, Delete]:
    store = engine.store
    try:
        info = await find_session(store, session, account=account, user=user)
    except SessionNotFoundError:
        if not may_be_gone or evidence is not None:
            raise
        # Its originals may be there still: a deletion that got no further is completed.
        scope = await find_scope(store, session, account=account, user=user)
        return scope, lambda: engine.delete_session(scope)
    scope = await find_scope(store, session, account=account, user=info.user_id)
    if evidence is None:
        target = f"session {session!r} of user {info.user_id!r}: {_render_counts(_sum([info]))}"
        _confirm(target, yes=yes)
        return scope, lambda: engine.delete_session(scope)
    if await store.get_evidence(scope, evidence) is None:
        raise EvidenceNotFoundError(
            f"there is no evidence {evidence!r} in session {session!r}; `ce show {session} "
            "--json` has the whole ids"
        )
    _confirm(f"the content of evidence {evidence!r} in session {session!r}", yes=yes)
    return scope, lambda: engine.delete_evidence(scope, evidence)


def _plain(search: Search) -> dict[str, Any]:
    places = [{"path": left.path, "byte": left.offset} for left in search.leftovers]
    return {"files": search.files, "bytes": search.bytes, "values": search.values, "left": places}


def _confirm(target: str, *, yes: bool) -> None:
    if not yes:
        typer.confirm(printable(f"Delete {target}?"), abort=True, err=True)


def _sum(infos: Sequence[SessionInfo]) -> DeletionReport:
    names = ("messages", "evidences", "tool_calls", "turns")
    sums = {name: sum(getattr(info, name) for info in infos) for name in names}
    return DeletionReport(sessions=len(infos), **sums)


def _render_counts(deleted: DeletionReport) -> str:
    """The numbers in words, those of nothing left out."""
    words = {"evidences": "evidence", "tool_calls": "tool calls"}
    parts = [
        f"{number(count)} {words.get(name, name)}"
        for name, count in deleted.model_dump(exclude={"cleared", "derived", "bytes_left"}).items()
        if count
    ]
    return ", ".join(parts) or "nothing"
