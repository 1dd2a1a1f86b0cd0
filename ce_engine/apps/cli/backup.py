"""`ce backup`: a store as one file, while the app goes on (19 B.8)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from ce_engine.apps.cli.copy import Quiet, copied
from ce_engine.apps.cli.options import AsJson, StoreUrl
from ce_engine.apps.cli.progress import spinner
from ce_engine.apps.cli.reading import reading
from ce_engine.apps.present.output import number, print_json, printable
from ce_engine.errors import ConfigError, StoreError
from ce_engine.ports.store import Store
from ce_engine.stores import open_store, secret
from ce_engine.stores.base import BaseStore
from ce_engine.stores.urls import DEFAULT, local_path, scheme_of


File = Annotated[
    Path, typer.Argument(metavar="FILE", help="The archive; it must not be there yet.")
]
WithSecret = Annotated[
    bool,
    typer.Option(
        "--with-secret",
        help="Put the install's secret beside it, as FILE.key. Who has both can forge what is stored.",
    ),
]


def backup(
    file: File,
    *,
    url: StoreUrl = None,
    with_secret: WithSecret = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Write a store into one file, an SQLite database, which `ce restore` and `--store sqlite:///FILE` read.

    The app may go on: of an SQLite store it is one state of the whole file, of any other one state of each
    session, verified. Rules of an SQLite file that are none of ours are in its archive, too, and named (exit
    code 1). The secret is not in it, nor is the key of CE_ENCRYPTION_KEY: keep both elsewhere. What is sealed
    in the store is sealed in the archive. A file that is there is never overwritten.
    """
    url = url or DEFAULT
    count, problems = asyncio.run(
        _backup(file.absolute(), url, with_secret, quiet=quiet or as_json)
    )
    if as_json:
        print_json({"file": str(file), "sessions": count, "problems": problems})
    else:
        typer.echo(printable(f"{file}: {number(count)} sessions"))
        where = "in it as in the store" if scheme_of(url) == "sqlite" else "not in it"
        for problem in problems:
            typer.echo(printable(f"{where}: {problem}"), err=True)
    if problems:
        raise typer.Exit(1)


async def _backup(file: Path, url: str, with_secret: bool, *, quiet: bool) -> tuple[int, list[str]]:
    from ce_engine.stores.tables.archives import draft_of, refuse_to_overwrite, snapshot  # noqa: PLC0415

    refuse_to_overwrite(file)
    key = _secret_of(url) if with_secret else None
    # The key is there first: an archive without it, of a run that was killed, would be taken for whole.
    with _key_beside(file, key), draft_of(file) as draft:
        if scheme_of(url) == "sqlite":
            async with reading(url) as store:
                count, problems = len(await store.list_keys()), await _damaged(store)
                with spinner("writing the backup", hidden=quiet):
                    await asyncio.to_thread(snapshot, local_path(url), draft)
        else:
            count, problems = await _archived(url, draft, quiet=quiet)
    return count, problems


@contextmanager
def _key_beside(file: Path, key: bytes | None) -> Iterator[None]:
    """Put a key beside a file that is made inside; it goes where that fails.

    The same key may be there already: a run that was killed left it.

    Raises:
        ConfigError: something else is there.
    """
    from ce_engine.stores.tables.archives import refuse_to_overwrite  # noqa: PLC0415

    if key is None or (secret.is_beside(file) and secret.beside(file) == key):
        yield
        return
    place = file.with_name(f"{file.name}.key")
    refuse_to_overwrite(place)
    secret.put_beside(file, key)
    try:
        yield
    except BaseException:
        if not os.path.lexists(file):  # an archive that is in its place already needs it
            place.unlink(missing_ok=True)
        raise


async def _damaged(store: Store) -> list[str]:
    """What is wrong with a store beside its sessions; a backup of its file has it, too."""
    return await store.damaged() if isinstance(store, BaseStore) else []


def _secret_of(url: str) -> bytes:
    if secret.from_environment() is not None:
        raise ConfigError(
            "the secret is in CE_SECRET, not beside the store; keep it where you keep that"
        )
    if not secret.is_there(local_path(url)):
        raise ConfigError(f"there is no key file beside {url} that could go with the backup")
    return secret.beside(local_path(url))


async def _archived(url: str, draft: Path, *, quiet: bool) -> tuple[int, list[str]]:
    from ce_engine.stores.tables import SqlStore  # noqa: PLC0415

    async with reading(url) as store:
        into = open_store(f"sqlite:///{draft}")
        if not isinstance(into, SqlStore):
            raise StoreError("an archive is an SQLite store")
        into.use_secret(store.secret)
        try:
            report = await copied(store, into, None, None, quiet=quiet)
            await into.check()  # a store without sessions has a file, too
        finally:
            await into.close()
    return report.copied, report.problems
