"""`ce delete`: take a session, a user's data, or the content of a piece of evidence out of the store."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated

import typer

from ce_engine.apps.cli.options import Account, AsJson, OriginalsUrl, StoreUrl
from ce_engine.apps.cli.reading import engine_over, find_scope, find_session
from ce_engine.apps.present.output import console, number, print_json, printable
from ce_engine.errors import EvidenceNotFoundError, SessionNotFoundError
from ce_engine.schema.report import DeletionReport
from ce_engine.schema.rows import SessionInfo


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
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def delete(
    *,
    session: Session = None,
    user: User = None,
    evidence: EvidenceId = None,
    yes: Yes = False,
    store: StoreUrl = None,
    originals: OriginalsUrl = None,
    account: Account = "",
    as_json: AsJson = False,
) -> None:
    """Delete a session, all sessions of a user, or one piece of evidence, from every byte of the store.

    With --originals, from the second store too, which has what redaction took out.

    What stays: ids, times, and an event that says what was deleted (`ce verify`). A running app
    forgets it with its next call; what the app itself keeps is the app's to delete.

    With --json, an object with sessions, messages, evidences, tool_calls and turns: how many went. Of
    evidence also cleared (ids of what its text was taken out of) and derived (ids of the answers that may
    say it in other words, and stay).
    """
    if session is None and (user is None or evidence is not None):
        raise typer.BadParameter(
            "name what to delete: --session ID, --user ID, or --evidence ID and --session ID"
        )
    deleted = asyncio.run(_delete((store, originals), account, user, session, evidence, yes=yes))
    if as_json:
        print_json(deleted.model_dump())
    else:
        screen = console()
        screen.print(f"deleted {_told(deleted)}")
        if deleted.cleared:
            screen.print(f"its text was taken out of {number(len(deleted.cleared))} other places")
        for answer in deleted.derived:
            screen.print(printable(f"may say it in other words, and stays: answer {answer}"))


async def _delete(
    urls: tuple[str | None, str | None],
    account: str,
    user: str | None,
    session: str | None,
    evidence: str | None,
    *,
    yes: bool,
) -> DeletionReport:
    async with engine_over(*urls) as engine:
        store = engine.store
        await store.purge()  # of an earlier deletion whose bytes somebody kept from going
        if session is None:
            assert user is not None
            found = await store.list_sessions(account_id=account, user_id=user, ephemeral=True)
            _confirm(f"the data of user {user!r}: {_told(_sum(found))}", yes=yes)
            return await engine.delete_user_data(account, user)
        try:
            info = await find_session(store, session, account=account, user=user)
        except SessionNotFoundError:
            if not urls[1] or evidence is not None:
                raise
            # Its originals may be there still: a deletion that got no further is completed.
            scope = await find_scope(store, session, account=account, user=user)
            return await engine.delete_session(scope)
        scope = await find_scope(store, session, account=account, user=info.user_id)
        if evidence is None:
            what = f"session {session!r} of user {info.user_id!r}: {_told(_sum([info]))}"
            _confirm(what, yes=yes)
            return await engine.delete_session(scope)
        if await store.get_evidence(scope, evidence) is None:
            raise EvidenceNotFoundError(
                f"there is no evidence {evidence!r} in session {session!r}; `ce show {session} "
                "--json` has the whole ids"
            )
        _confirm(f"the content of evidence {evidence!r} in session {session!r}", yes=yes)
        return await engine.delete_evidence(scope, evidence)


def _confirm(what: str, *, yes: bool) -> None:
    if not yes:
        typer.confirm(printable(f"Delete {what}?"), abort=True, err=True)


def _sum(found: Sequence[SessionInfo]) -> DeletionReport:
    names = ("messages", "evidences", "tool_calls", "turns")
    sums = {name: sum(getattr(info, name) for info in found) for name in names}
    return DeletionReport(sessions=len(found), **sums)


def _told(deleted: DeletionReport) -> str:
    """The numbers in words, those of nothing left out."""
    words = {"evidences": "evidence", "tool_calls": "tool calls"}
    parts = [
        f"{number(count)} {words.get(name, name)}"
        for name, count in deleted.model_dump(exclude={"cleared", "derived"}).items()
        if count
    ]
    return ", ".join(parts) or "nothing"
