"""`ce rotate-key`: seal what a store has under the key that seals now (19 B.9)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from ce_engine.apps.cli.options import AsJson, StoreUrl
from ce_engine.apps.cli.progress import bar
from ce_engine.apps.cli.reading import reading
from ce_engine.apps.present.output import number, print_json
from ce_engine.errors import (
    ConfigError,
    DeletedBytesError,
    EncryptionKeyError,
    FileDamagedError,
    StoreError,
)
from ce_engine.schema.scope import Scope


if TYPE_CHECKING:
    from ce_engine.ports.encryption import ContentCipher


_NAMED = 5
"""What an error names, of all that cannot be opened."""
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress bar.")]


def rotate_key(*, url: StoreUrl = None, quiet: Quiet = False, as_json: AsJson = False) -> None:
    """Seal all content of a store under the first key of CE_ENCRYPTION_KEY, also what is in the open.

    Put the new key first and the old one behind a comma, restart the app with both, run this, and take
    the old key away when it has ended without an error. It may be stopped and run again: what is sealed
    with the new key already is not written again. A store of originals has a run of its own.
    """
    done, count, settings, key_id = asyncio.run(_rotated(url, quiet=quiet or as_json))
    if as_json:
        print_json({"key_id": key_id, "sessions": count, "sealed": done, "settings": settings})
        return
    typer.echo(
        f"sealed with the key {key_id}: {number(done)} of {number(count)} sessions and "
        f"{number(settings)} settings; all else was already"
    )


async def _rotated(url: str | None, *, quiet: bool) -> tuple[int, int, int, str]:
    from ce_engine.stores.base import BaseStore  # noqa: PLC0415 - not for every command

    async with reading(url) as store:
        if not isinstance(store, BaseStore):
            raise StoreError(f"the store {store.url!r} cannot seal anew what it has")
        cipher = _cipher_of(store)
        done, settings, keys = 0, 0, await store.list_keys()
        wrong: list[StoreError] = []
        with bar("sealing", len(keys), hidden=quiet) as advance:
            for key in keys:
                with _noting(wrong):
                    done += await store.reseal(Scope.of_stored(*key))
                advance()
        with _noting(wrong):
            settings = await store.reseal_settings()
        with _noting(
            wrong
        ):  # even where nothing was left to do: a run that was stopped may not have
            await store.purge()
        # Without a limit of time: it reads every session.
        if problems := [*map(str, wrong), *await store.damaged()]:
            kinds = {type(error) for error in wrong}
            raise (kinds.pop() if len(kinds) == 1 else FileDamagedError)(_summed(problems))
    return done, len(keys), settings, cipher.key_id


@contextmanager
def _noting(wrong: list[StoreError]) -> Iterator[None]:
    """One that cannot be opened is no reason to leave the others under the old key."""
    try:
        yield
    except (FileDamagedError, EncryptionKeyError, DeletedBytesError) as error:
        # Without its traceback, whose cursors would keep the file from being written anew.
        wrong.append(type(error)(str(error)))


def _summed(problems: Sequence[str]) -> str:
    some = list(dict.fromkeys(problems))
    more = f"; and {number(len(some) - _NAMED)} more" if len(some) > _NAMED else ""
    return "; ".join(some[:_NAMED]) + more


def _cipher_of(store: object) -> ContentCipher:
    cipher: ContentCipher | None = getattr(store, "encryption", None)
    if cipher is None:
        raise ConfigError(
            "no key is configured to seal with. Set CE_ENCRYPTION_KEY: the new key first, and behind "
            'a comma the one before. python -c "import secrets; print(secrets.token_hex(32))" makes one.'
        )
    return cipher
