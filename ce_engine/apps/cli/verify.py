"""`ce verify`: whether what is stored is what was recorded, deleted in part, or tampered with."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ce_engine.apps.cli import missing_hints, verify_originals, verify_settings
from ce_engine.apps.cli.options import Account, AsJson, OriginalsUrl, StoreUrl, User
from ce_engine.apps.cli.progress import bar
from ce_engine.apps.cli.reading import engine_over, find_scope, text_of, with_project
from ce_engine.apps.present.output import console, moment, number, print_json, printable
from ce_engine.errors import (
    ConfigError,
    ContextEngineError,
    EncryptionKeyError,
    FileDamagedError,
    SessionNotFoundError,
    StoreUnavailableError,
)
from ce_engine.schema.events import Deletion, Verification
from ce_engine.schema.scope import Scope
from ce_engine.schema.settings import SettingsVerification
from ce_engine.stores import secret
from ce_engine.stores.private_files import is_link
from ce_engine.stores.urls import is_server, local_path


if TYPE_CHECKING:
    from ce_engine.audit.anchors import Anchor
    from ce_engine.create import ContextEngine
    from ce_engine.ports.store import Store

PRINTED = "-"
UNVERIFIED = 3
"""The exit code where nothing is wrong, but not everything could be verified."""

_OF_ONE = (FileDamagedError, EncryptionKeyError)
"""Errors of a store that tell of one session's rows."""

_ROLLED_BACK = (
    "Who put back an older state, or has the secret, is found only with --anchor FILE, and its lines in "
    "a place of other rights."
)
_WHAT = {
    "tampered": "tampered with",
    "unverified": "not verified in whole, though nothing that was verified is wrong",
    "deleted": "intact, but for what was deleted",
    "intact": "intact",
}


@dataclass(slots=True)
class _Found:
    """What a run found: by session, in the anchors, and what is new for these."""

    sessions: list[tuple[Scope, Verification]]
    compared: int = 0
    missing: int = 0
    new: tuple[str, ...] = ()
    originals: Sequence[verify_originals.Checked] = ()
    settings: Sequence[SettingsVerification] = ()
    damaged: Sequence[str] = ()

    @property
    def code(self) -> int:
        """The exit code."""
        statuses = {check.status for _, check in self.sessions}
        statuses |= {check.status for check in self.settings}
        gaps = any(report.missing for _, report in self.originals)
        if self.missing or gaps or self.damaged or "tampered" in statuses:
            return 1
        return UNVERIFIED if "unverified" in statuses else 0


def verify(
    session: Annotated[
        str | None,
        typer.Argument(
            metavar="SESSION", help="As `ce sessions` names it.", show_default="all of the store"
        ),
    ] = None,
    *,
    anchor: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Compare with the lines of this file, then append where the logs stand now; - prints them.",
        ),
    ] = None,
    store: StoreUrl = None,
    originals: OriginalsUrl = None,
    user: User = None,
    account: Account = "",
    as_json: AsJson = False,
) -> None:
    """Verify sessions: events, and the rows that they tell of, by keyed MACs under the install's secret.

    With --originals, also that each redacted piece has its original there; those without one are named.

    Without SESSION, also what owners set (constraints, budgets), and which sessions cannot be read at all.
    A store of an earlier release is brought to this one's schema first, as by whatever opens it; `ce backup` keeps a copy.

    Exit code 1 if something is not what was recorded or not there, 3 if something cannot be verified. Originals
    have no MACs. With --json, an object a session with session_id, status (intact,
    deleted, unverified or tampered), events, rows, tampered_seq (the first event that is not what was
    recorded, or is missing), wrong (what else is not), deleted (what was deleted, and when), unverified,
    unchecked (events whose key is gone), uncounted (bytes that nothing reads) and anchor; without SESSION, `sessions` has them, `settings` an
    object an owner and project, `damaged` what cannot be read, and `missing` says how many that the anchors
    tell of are not there.
    """
    if anchor is not None and anchor != PRINTED and not Path(anchor).parent.is_dir():
        raise ConfigError(f"the folder of {anchor!r} is not there: nothing can be appended to it")
    file = Path(anchor) if anchor not in (None, PRINTED) else None
    if file is not None and is_link(file) and not file.exists():
        raise ConfigError(
            f"{anchor!r} is a link to a file that is not there, and none is made: name the file itself"
        )
    lines = text_of(file) if file is not None and file.exists() else ""
    finds = asyncio.run(_verify((store, originals), session, account, user, lines, quiet=as_json))
    if as_json:
        _print_json(finds, session)
    else:
        _print(finds, file, anchor)
    if file is not None:
        _append(file, finds.new)
    if anchor == PRINTED and not as_json:
        _print_anchors(finds.new)
    if finds.code:
        raise typer.Exit(finds.code)


async def _verify(
    urls: tuple[str | None, str | None],
    session: str | None,
    account: str,
    user: str | None,
    lines: str,
    *,
    quiet: bool,
) -> _Found:
    from ce_engine.audit.anchors import anchors_of  # noqa: PLC0415 - brings the engine's schema

    anchors = anchors_of(lines)
    async with engine_over(*urls) as engine:
        await _check_secret(engine.store, anchors)
        settings: list[SettingsVerification] = []
        damaged: list[str] = []
        if session is not None:
            scope = await find_scope(engine.store, session, account=account, user=user)
            sessions = [(scope, await engine.verify(scope, anchors=lines))]
        else:
            scopes = await _all(engine, account, user)
            sessions = []
            with bar("verifying", len(scopes), hidden=quiet) as advance:
                for scope in scopes:
                    sessions.append((scope, await _verify_one(engine, scope, lines)))
                    advance()
            settings = await engine.verify_settings(account or None, user, anchors=lines)
            damaged = await verify_settings.unreadable(
                engine.store, account or None, user, [*(check for _, check in sessions), *settings]
            )
        if faults := await verify_settings.index_faults(engine.store):
            sessions = [(s, replace(check, wrong=(*check.wrong, *faults))) for s, check in sessions]
            settings = [replace(check, wrong=(*check.wrong, *faults)) for check in settings]
            damaged += faults
        of_second = await verify_originals.checked(engine, [scope for scope, _ in sessions])
    is_whole = session is None and user is None and not account
    finds = _compared(sessions, settings, anchors, is_whole=is_whole)
    return replace(finds, originals=of_second, damaged=damaged)


async def _check_secret(store: Store, anchors: Sequence[Anchor]) -> None:
    """See that there is something that can be verified.

    Raises:
        SessionNotFoundError: nothing was ever recorded.
        ConfigError: the secret is missing.
    """
    url = store.url
    there = (
        await store.list_keys()
    )  # what is wrong with the store is told before what is missing beside it
    if secret.from_environment() or (not is_server(url) and secret.is_there(local_path(url))):
        return
    if not there and not anchors:
        where = await missing_hints.of_nothing(store, "")
        raise SessionNotFoundError(f"nothing can be verified in {url}: {where}")
    raise ConfigError(
        "the secret is not there, without which nothing can be verified: set CE_SECRET, or put "
        "the key file back beside the store"
    )


async def _verify_one(engine: ContextEngine, scope: Scope, lines: str) -> Verification:
    """Of one among many: that it cannot be read, or has another secret, does not hide the others.

    Raises:
        StoreUnavailableError: the store is locked, or away.
    """
    try:
        return await engine.verify(scope, anchors=lines)
    except ContextEngineError as error:
        if isinstance(error, StoreUnavailableError) and not isinstance(error, _OF_ONE):
            raise
        return Verification(0, None, (), 0, wrong=(str(error),))


async def _all(engine: ContextEngine, account: str, user: str | None) -> list[Scope]:
    scopes = []
    for account_id, user_id, session_id in await engine.store.list_keys():
        if (account and account_id != account) or (user is not None and user_id != user):
            continue
        scope = Scope.of_stored(account_id, user_id, session_id)
        with suppress(ContextEngineError):  # who verifies it says what is wrong
            scope = await with_project(engine.store, scope)
        scopes.append(scope)
    return scopes


def _compared(
    sessions: list[tuple[Scope, Verification]],
    settings: list[SettingsVerification],
    anchors: Sequence[Anchor],
    *,
    is_whole: bool,
) -> _Found:
    """What of the anchors is not there, and which lines are to be appended."""
    from ce_engine.audit.anchors import anchors_of  # noqa: PLC0415

    last = {anchor.session: anchor for anchor in anchors}
    new, names = [], set()
    verified: list[Verification | SettingsVerification] = [check for _, check in sessions]
    for check in [*verified, *settings]:
        if not check.anchor:
            continue
        [now] = anchors_of(check.anchor)
        names.add(now.session)
        mark = last.get(now.session)
        if check.status != "tampered" and (mark is None or not mark.is_at(now)):
            new.append(str(now))
    missing = len(last.keys() - names) if is_whole else 0
    compared = sum(anchor.session in names for anchor in anchors)
    return _Found(sessions, compared, missing, tuple(new), settings=settings)


def _append(file: Path, lines: Sequence[str]) -> None:
    try:
        opener = None if file.exists() else _open_new
        with open(file, "ab+", opener=opener) as anchors:
            # Behind a line without its end the first one would be a part of that.
            last = anchors.seek(0, os.SEEK_END)
            anchors.seek(max(0, last - 1))
            begin = b"" if anchors.read(1) in (b"", b"\n") else b"\n"
            anchors.write(begin + "".join(f"{line}\n" for line in lines).encode())
    except OSError as error:
        raise ConfigError(f"{str(file)!r} cannot be appended to: {error}") from error


def _open_new(path: str, flags: int) -> int:
    """A file that was not there a moment ago: through no link that came meanwhile."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


def _print_json(finds: _Found, session: str | None) -> None:
    items: list[dict[str, Any]] = [
        {"session_id": scope.session_id, "status": check.status, **asdict(check)}
        for scope, check in finds.sessions
    ]
    for item, (scope, _) in zip(items, finds.sessions, strict=True):
        item.update(verify_originals.as_json(scope, finds.originals))
    if session is not None:
        print_json(items[0])
        return
    for item, (scope, _) in zip(items, finds.sessions, strict=True):
        item |= {"user_id": scope.user_id, "account_id": scope.account_id}
    settings = verify_settings.as_json(finds.settings)
    more = {"settings": settings, "damaged": list(finds.damaged), "missing": finds.missing}
    print_json({"sessions": items, **more})


def _print(finds: _Found, file: Path | None, anchor: str | None) -> None:
    screen = console()
    for scope, check in finds.sessions:
        for line in _lines(scope, check):
            screen.print(printable(line))
    for line in (
        *verify_settings.lines(finds.settings),
        *(f"damaged: {problem}" for problem in finds.damaged),
        *verify_originals.lines(finds.originals),
    ):
        screen.print(printable(line))
    if finds.missing:
        screen.print(
            f"{number(finds.missing)} sessions, or settings of owners, that the anchors tell of are not there"
        )
    if file is not None:
        screen.print(
            printable(
                f"compared with {number(finds.compared)} anchors of {str(file)!r}, "
                f"{number(len(finds.new))} appended"
            )
        )
    elif anchor is None:
        screen.print(_ROLLED_BACK)


def _lines(scope: Scope, check: Verification) -> list[str]:
    verdict = _WHAT[check.status]
    if check.tampered_seq is not None:
        verdict += f": event {number(check.tampered_seq)} is not what was recorded"
    lines = [
        f"session {scope.session_id}: {verdict} ({number(check.events)} events, {number(check.rows)} rows)"
    ]
    lines += [f"  wrong: {problem}" for problem in check.wrong]
    lines += [f"  not verified: {problem}" for problem in (*check.unverified, *check.uncounted)]
    if check.unchecked:
        lines.append(f"  not verified: {number(check.unchecked)} payloads, whose key is gone")
    lines += [f"  {_name_of(part)} was deleted at {moment(part.at)} UTC" for part in check.deleted]
    return lines


def _name_of(part: Deletion) -> str:
    if part.evidence_id is not None:
        return f"evidence {part.evidence_id}"
    return f"all before event {number(part.seq)}"


def _print_anchors(lines: Sequence[str]) -> None:
    """Print the lines for a notary, and one number that stands for all of them."""
    text = "".join(f"{line}\n" for line in lines)
    typer.echo(text, nl=False)
    typer.echo(f"# sha256 of these lines: {hashlib.sha256(text.encode()).hexdigest()}")
