"""`ce copy`: sessions from one store to another, verified in both (19 B.8)."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from ce_engine.apps.cli.options import AsJson, User
from ce_engine.apps.cli.progress import bar
from ce_engine.apps.cli.reading import PATIENT_S, reading
from ce_engine.apps.present.output import number, print_json, printable
from ce_engine.errors import ConfigError, StoreUrlError
from ce_engine.stores import open_store, secret
from ce_engine.stores.urls import MEMORY, local_path, scheme_of


if TYPE_CHECKING:
    from ce_engine.audit.copying import CopyReport
    from ce_engine.create import ContextEngine
    from ce_engine.ports.store import Store

From = Annotated[str, typer.Argument(metavar="FROM", help="The URL of the store to copy from.")]
To = Annotated[
    str,
    typer.Argument(metavar="TO", help="The URL of the store to copy to; it is made if need be."),
]
Account = Annotated[
    str | None,
    typer.Option(
        "--account", metavar="ID", help="Of this account only.", show_default="all accounts"
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress bar.")]


def copy(
    source: From,
    target: To,
    *,
    user: User = None,
    account: Account = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Copy sessions, deleted ones' logs and owners' settings to another store; nothing is overwritten.

    A session is verified, put into the target at once, read there, compared and verified again. Run it
    again after an interruption: what is there already is passed over. Both stores have the same secret
    afterwards: a new file or folder gets a copy of the key file, all others need the same CE_SECRET. With
    CE_ENCRYPTION_KEY both are sealed. Lines of `ce verify --anchor` that were made before hold for FROM.
    """
    report = asyncio.run(_copy(source, target, account, user, quiet=quiet or as_json))
    tell(report, as_json=as_json)


def tell(report: CopyReport, *, as_json: bool) -> None:
    """Print what was done; exit code 1 if something was not."""
    if as_json:
        print_json(asdict(report))
    else:
        line = (
            f"{number(report.copied)} sessions copied, {number(report.there)} were there already; "
            f"{number(report.settings)} settings copied"
        )
        if report.unverified_settings:
            line += f", {number(report.unverified_settings)} of them not verified"
        typer.echo(line)
        for problem in report.problems:
            typer.echo(printable(f"not copied: {problem}"), err=True)
    if report.problems:
        raise typer.Exit(1)


async def _copy(
    source: str, target: str, account: str | None, user: str | None, *, quiet: bool
) -> CopyReport:
    check_apart(source, target)
    async with reading(source) as store:
        await store.list_keys()  # what is wrong with it is told before what is missing beside it
        share_secret(store, source, target)
        into = open_store(target)
        try:
            if into.secret != store.secret:
                raise ConfigError(
                    "the two stores have different secrets, under which fingerprints, events and MACs were "
                    "made. Copy to a new file or folder, or give both the same one with CE_SECRET."
                )
            return await copied(store, into, account, user, quiet=quiet)
        finally:
            await into.close()


def check_apart(source: str, target: str) -> None:
    """See that the target is another store, which is kept.

    Raises:
        StoreUrlError: it is not.
    """
    if scheme_of(target) == "memory":
        raise StoreUrlError(
            f"{MEMORY} ends with this command. Name a file, a folder or a database."
        )
    try:
        is_same = local_path(source).resolve() == local_path(target).resolve()
    except StoreUrlError:  # neither a file nor a folder
        is_same = source == target
    if is_same:
        raise StoreUrlError("FROM and TO are the same store; name another one")


def share_secret(store: Store, source: str, target: str) -> None:
    """Give a new file or folder the secret of the store that is copied to it."""
    if secret.from_environment() is not None:
        return
    try:
        path, source_path = local_path(target), local_path(source)
    except StoreUrlError:
        return
    if not secret.is_there(source_path):
        raise ConfigError(
            f"the secret of {source} is not here: put its key file back beside it, or set CE_SECRET"
        )
    if not secret.is_there(path) and not path.exists():
        secret.put_beside(path, store.secret)


async def copied(
    store: Store, into: Store, account: str | None, user: str | None, *, quiet: bool
) -> CopyReport:
    """Copy what is of this account and user, `None` is of all."""
    from ce_engine.audit.copying import copy_store  # noqa: PLC0415 - brings the engine

    def is_chosen(account_id: str, user_id: str) -> bool:
        return account in (None, account_id) and user in (None, user_id)

    keys = [key for key in await store.list_keys() if is_chosen(key[0], key[1])]
    source, target = patient(store), patient(into)
    with bar("copying", len(keys), hidden=quiet) as advance:
        return await copy_store(source, target, keys, is_chosen, advance)


def patient(store: Store) -> ContextEngine:
    """An engine over an open store, for who rather waits."""
    from ce_engine.config import RuntimeConfig, StoreConfig  # noqa: PLC0415
    from ce_engine.create import create_context_engine  # noqa: PLC0415

    return create_context_engine(
        store, config=RuntimeConfig(store=StoreConfig(deadline_s=PATIENT_S))
    )
