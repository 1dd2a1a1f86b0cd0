"""`ce restore`: a backup as a store again, in a place where nothing is (19 B.8)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ce_engine.apps.cli.copy import Quiet, copied, patient, tell
from ce_engine.apps.cli.options import AsJson, StoreUrl
from ce_engine.apps.cli.progress import bar
from ce_engine.apps.present.output import number, print_json, printable
from ce_engine.errors import ConfigError, StoreError, StoreUnavailableError
from ce_engine.schema.scope import Scope
from ce_engine.schema.settings import Standing
from ce_engine.stores import open_store, private_files, secret
from ce_engine.stores.base import SEALED_BY
from ce_engine.stores.urls import DEFAULT, local_path, scheme_of


if TYPE_CHECKING:
    from ce_engine.audit.copying import CopyReport
    from ce_engine.create import ContextEngine
    from ce_engine.stores.tables import SqlStore

_NAMED = 5
"""What an error names, of all that could not be copied."""
File = Annotated[Path, typer.Argument(metavar="FILE", help="What `ce backup` wrote.")]


def restore(
    file: File, *, url: StoreUrl = None, quiet: Quiet = False, as_json: AsJson = False
) -> None:
    """Make a store of a backup. All of it is verified first, and nothing that is there is overwritten.

    The secret that the backup was made with is needed: in CE_SECRET, beside the backup (`--with-secret`), or
    in the key file beside the place where the store is going to be. So is the key of a store that was sealed.
    What is not whole is not there: the store is put together beside its place, and moved there at the end.
    """
    file, url = file.absolute(), url or DEFAULT
    if not file.is_file():
        raise StoreUnavailableError(
            f"there is no backup at {str(file)!r}: `ce backup FILE` makes one"
        )
    if file.stat().st_size <= 1:  # SQLite takes it for a database in which nothing is yet
        raise StoreUnavailableError(
            f"{str(file)!r} holds nothing, and is no backup: a copy that broke off may have left it. Nothing was "
            "restored. Take it from where it was copied, or restore an older one; `ce backup FILE` makes one"
        )
    target = local_path(url)
    if scheme_of(url) == "sqlite":
        restored = _restored_file(file, target, quiet=quiet or as_json)
        _tell(url, asyncio.run(restored), as_json=as_json)
    else:
        tell(asyncio.run(_restored(file, target, quiet=quiet or as_json)), as_json=as_json)
    _tell_drafts(target)


def _tell_drafts(target: Path) -> None:
    """Name what this run could not take away: nobody here knows whether a process of another host runs."""
    for draft, _ in private_files.drafts_of(target.resolve()):
        typer.echo(
            printable(
                f"left as it is: {draft}, of a restore that still runs, or was killed on another host. If none "
                "runs, delete it: it is a copy of a backup"
            ),
            err=True,
        )


@dataclass(frozen=True, slots=True)
class _Contents:
    """What a backup has, none of it forged; of what is unverified an older release kept no MACs."""

    sessions: int
    unverified: int
    settings: int
    unverified_settings: int


def _tell(url: str, contents: _Contents, *, as_json: bool) -> None:
    if as_json:
        print_json({"store": url, **asdict(contents)})
        return
    sessions, settings = number(contents.sessions), number(contents.settings)
    if contents.unverified or contents.unverified_settings:
        intact = number(contents.sessions - contents.unverified)
        rest = number(contents.settings - contents.unverified_settings)
        line = (
            f"{url}: {sessions} sessions, {intact} verified; {settings} settings, {rest} verified"
        )
    else:
        line = f"{url}: {sessions} sessions, {settings} settings, verified"
    typer.echo(printable(line))


async def _restored_file(file: Path, target: Path, *, quiet: bool) -> _Contents:
    from ce_engine.stores.tables.archives import draft_of, refuse_to_overwrite, snapshot  # noqa: PLC0415

    refuse_to_overwrite(target)
    value = _secret_of(file, target)
    with draft_of(target) as draft:
        # What was verified is what is moved into place, whatever becomes of the backup meanwhile.
        await asyncio.to_thread(snapshot, file, draft)
        async with _archive(draft, value) as store:
            engine = patient(store)
            count, unverified = await _verify_sessions(engine, store, file, quiet=quiet)
            settings = await _verify_settings(engine, store, file)
        _give_secret(target, value)
    return _Contents(count, unverified, *settings)


async def _verify_settings(engine: ContextEngine, store: SqlStore, file: Path) -> tuple[int, int]:
    """How many settings of owners there are, none of which is forged, and of how many there are no MACs."""
    for verification in await engine.verify_settings():
        if verification.wrong:
            raise StoreError(
                f"what user {verification.user_id!r} set in project {verification.project_id!r} of the backup is "
                f"{verification.status}: {'; '.join(verification.wrong)}. Nothing was restored; `ce copy sqlite:///{file} TO` "
                "copies the others."
            )
    if damage := await store.damaged():
        raise StoreError(
            f"of the backup, {'; '.join(damage)}. Nothing was restored: if you know where that is from, take it out of a "
            "copy of the backup (DROP TABLE, DROP TRIGGER) and restore that one."
        )
    mark = SEALED_BY.account_id, SEALED_BY.user_id
    rows = [row for key, row in (await store.list_settings()).items() if key[:2] != mark]
    return len(rows), sum(row.standing is Standing.UNVERIFIED for row in rows)


async def _verify_sessions(
    engine: ContextEngine, store: SqlStore, file: Path, *, quiet: bool
) -> tuple[int, int]:
    """How many sessions there are, none of which is forged, and of how many an older release kept no MACs."""
    from ce_engine.audit.copying import GENUINE  # noqa: PLC0415

    keys, unverified = await store.list_keys(), 0
    with bar("verifying", len(keys), hidden=quiet) as advance:
        for key in keys:
            chain = await store.chain(Scope.of_stored(*key))
            project = chain.head.project_id if chain else ""
            verification = await engine.verify(Scope.of_stored(*key, project))
            if verification.status not in {*GENUINE, "unverified"}:
                raise StoreError(
                    f"session {key[2]!r} of the backup is {verification.status}: {'; '.join(verification.wrong)}. Nothing "
                    f"was restored; `ce copy sqlite:///{file} TO` copies the others."
                )
            unverified += verification.status == "unverified"
            advance()
    return len(keys), unverified


async def _restored(file: Path, target: Path, *, quiet: bool) -> CopyReport:
    from ce_engine.stores.documents.file.drafts import STORE, draft_of  # noqa: PLC0415
    from ce_engine.stores.tables.archives import refuse_to_overwrite, snapshot  # noqa: PLC0415

    if not _is_empty_folder(target):
        refuse_to_overwrite(target)
    value = _secret_of(file, target)
    with draft_of(target) as draft:
        backup, folder = draft / "backup.db", draft / STORE
        # As with a file: what was verified is what is copied.
        await asyncio.to_thread(snapshot, file, backup)
        _give_secret(folder, value)
        async with _archive(backup, value) as store:
            engine = patient(store)
            await _verify_sessions(engine, store, file, quiet=quiet)
            await _verify_settings(engine, store, file)
            report = await _copied(store, folder, quiet=quiet)
        if report.problems:
            raise StoreError(_summed(report.problems, file))
        _give_secret(target, value)
    return report


def _is_empty_folder(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


async def _copied(store: SqlStore, folder: Path, *, quiet: bool) -> CopyReport:
    into = open_store("file:" + str(folder).replace("%", "%25").replace("?", "%3F"))
    try:
        await into.check()  # a store without sessions has a folder, too
        return await copied(store, into, None, None, quiet=quiet)
    finally:
        await into.close()


def _summed(problems: Sequence[str], file: Path) -> str:
    more = f"; and {number(len(problems) - _NAMED)} more" if len(problems) > _NAMED else ""
    return (
        f"{'; '.join(problems[:_NAMED])}{more}. Nothing was restored: `ce restore` into an SQLite store "
        f"(--store sqlite:///new.db) takes also what an older release wrote, `ce copy sqlite:///{file} TO` copies "
        "the others."
    )


def _give_secret(target: Path, value: bytes) -> None:
    if not secret.is_there(target):
        secret.put_beside(target, value)


def _secret_of(file: Path, target: Path) -> bytes:
    """The secret that the backup was made with, wherever it is; none is made."""
    holders = [place for place in (file, target) if secret.is_there(place)]
    if not holders:
        raise ConfigError(
            f"the secret that the backup was made with is not here, and it was not put into it. Set CE_SECRET, or "
            f"put the key file back as {str(target) + '.key'!r}, and restore again."
        )
    if value := secret.from_environment():
        return value
    first, *others = map(secret.beside, holders)
    if others and first != others[0]:  # which is the store's own is not for the backup to say
        raise ConfigError(
            f"there are two different secrets: {str(file) + '.key'!r} beside the backup and {str(target) + '.key'!r} "
            "where the store is going to be, which would find the sessions forged. Nothing was restored. If the "
            "second one is yours, move the first away; if it is of another store, name another place."
        )
    return first


@asynccontextmanager
async def _archive(file: Path, value: bytes) -> AsyncIterator[SqlStore]:
    """The backup as a store that knows the secret."""
    from ce_engine.stores.tables import SqlStore  # noqa: PLC0415

    store = open_store(f"sqlite:///{file}")
    if not isinstance(store, SqlStore):
        raise StoreError("a backup is an SQLite store")
    store.check_place()
    store.use_secret(value)
    try:
        yield store
    finally:
        await store.close()
