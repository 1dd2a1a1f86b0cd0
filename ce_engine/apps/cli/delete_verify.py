"""Whether a deletion left nothing: every byte of the store's files is searched for what was there before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ce_engine.apps.cli.progress import bar
from ce_engine.apps.present.output import number
from ce_engine.stores.leftovers import LEAST, Leftover, Search, StoreFiles, search, spelled


if TYPE_CHECKING:
    from ce_engine.ports.store import Store
    from ce_engine.schema.scope import Scope

_SAID = frozenset({"content", "args", "result", "error", "title", "description", "text"})
"""Fields whose texts are somebody's words; ids and times stay in the log of deletions."""

SHOWN = 10


class DeletionCheck:
    """Remembers what a store's files have before a deletion, and looks for it afterwards.

    Raises:
        ConfigError: a store's bytes cannot be read from here.
    """

    def __init__(self, urls: Sequence[str | None]) -> None:
        self._files = [StoreFiles(url) for url in urls if url]
        self._before: set[bytes] = set()
        self._texts: set[bytes] = set()

    async def note(self, store: Store, scopes: Sequence[Scope], evidence: str | None) -> None:
        """Note what is there, before it is deleted."""
        for scope in scopes:
            if evidence is not None:
                piece = await store.get_evidence(scope, evidence)
                self._texts |= spelled([piece.content] if piece is not None else [])
                continue
            document = await store.get_session(scope)
            if document is not None:
                self._texts |= spelled(_texts(document.model_dump(mode="json")))
        self._before = self._values()

    async def search(self, store: Store, *, quiet: bool) -> Search:
        """Search every byte for it; what another session says as well is none of it."""
        gone_values = self._before - self._values()
        paths = sum(len(store_files.paths()) for store_files in self._files)
        with bar("searching", paths, hidden=quiet) as advance:
            result = search(self._files, gone_values | self._texts, advance)
        doubtful = {left.value for left in result.leftovers} - gone_values
        others = await _said_by_others(store, doubtful) if doubtful else set()
        leftovers = [left for left in result.leftovers if left.value not in others]
        return Search(result.files, result.bytes, result.values, leftovers)

    def _values(self) -> set[bytes]:
        return set().union(*(store_files.values() for store_files in self._files))


async def _said_by_others(store: Store, values: set[bytes]) -> set[bytes]:
    """Those that stand in a session that is there."""
    from ce_engine.schema.scope import Scope  # noqa: PLC0415 - brings pydantic

    matches: set[bytes] = set()
    for key in await store.list_keys():
        chain = await store.chain(Scope.of_stored(*key))
        project = chain.head.project_id if chain is not None else ""
        document = await store.get_session(Scope.of_stored(*key, project))
        if document is not None:
            matches |= values & spelled(_texts(document.model_dump(mode="json")))
    return matches


def _texts(value: Any, *, said: bool = False) -> Iterator[str]:
    """The words in a document's JSON."""
    if isinstance(value, str):
        if said:
            yield value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _texts(item, said=said or name in _SAID)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, said=said)


def words(result: Search) -> list[str]:
    """What the search came to, in lines."""
    looked = (
        f"{number(result.bytes)} bytes of {number(result.files)} files searched for {number(result.values)} "
        f"values of {LEAST} bytes and more"
    )
    if not result.leftovers:
        return [f"{looked}: none is left"]
    more = len(result.leftovers) - SHOWN
    return [
        f"{looked}: {number(len(result.leftovers))} are left",
        *(_place(left) for left in result.leftovers[:SHOWN]),
        *([f"and {number(more)} more"] if more > 0 else []),
    ]


def _place(left: Leftover) -> str:
    return f"  {left.path}, byte {number(left.offset)}, {number(len(left.value))} bytes"
