"""What owners set: a list of a stamp and a page for each owner, replaced whole; it never expires."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from time import monotonic
from typing import TypeVar

from ce_engine.errors import ContextEngineError, FileDamagedError, MigrationError
from ce_engine.stores import owner_settings, setting_macs
from ce_engine.stores.codec import NO_RECORD, from_json, to_json
from ce_engine.stores.documents.redis import faults, pages
from ce_engine.stores.documents.redis.link import Link
from ce_engine.stores.documents.redis.server_url import Place
from ce_engine.stores.documents.setting_values import open_value, seal_value
from ce_engine.stores.owner_settings import Owned, Owner
from ce_engine.stores.setting_macs import Stored, StoredSetting


T = TypeVar("T")

_FORMAT = 2
_OLDER_FORMAT = 1
"""Without MACs."""
_KEPT_OWNERS = 1024


class OwnersPages:
    """Any thread reads and writes with a link of its own."""

    def __init__(
        self,
        place: Place,
        timeout_s: float,
        key_of: Callable[[Owner], bytes | None],
        secret: Callable[[], bytes],
    ) -> None:
        self._place, self._key_of, self._secret = place, key_of, secret
        self._timeout_s = timeout_s
        self._cache: OrderedDict[Owner, tuple[bytes, Owned]] = OrderedDict()
        self._mutex = Lock()

    def read(self, link: Link, owner: Owner, stamp: bytes | None) -> Owned:
        """The owner's settings, whose list begins with `stamp`; what did not change is not read again."""
        if stamp is None:
            return {}
        with self._mutex:
            entry = self._cache.get(owner)
        return entry[1] if entry and entry[0] == stamp else self._load(link, owner)[1]

    def read_now(self, link: Link, owner: Owner) -> Owned:
        """The owner's settings."""
        return self.read(link, owner, *link.firsts(self._place.owner(owner)))

    def of_all(self, link: Link) -> dict[Owner, Owned]:
        """What all owners set, but for what cannot be read; it looks at every key of the database."""
        return {
            owner: setting_macs.owned_of(self._key_of(owner), settings)
            for owner, settings in self.read_all(link).items()
            if not isinstance(settings, ContextEngineError)
        }

    def damaged(self, link: Link, account_id: str | None, user_id: str | None) -> list[str]:
        """What is wrong with the settings that no list has; each is named."""
        return [
            f"settings of user {user!r}: {result}"
            for (_, user), result in self.read_all(link, account_id, user_id).items()
            if isinstance(result, ContextEngineError)
        ]

    def read_all(
        self, link: Link, account_id: str | None = None, user_id: str | None = None
    ) -> dict[Owner, Stored | ContextEngineError]:
        """What the server has of owners, with its MACs; of what cannot be read, what is wrong with it."""
        settings_by_owner: dict[Owner, Stored | ContextEngineError] = {}
        for owner in self._owners(link):
            if account_id not in (None, owner[0]) or user_id not in (None, owner[1]):
                continue
            try:
                settings_by_owner[owner] = _parse_texts(
                    owner, link.texts(self._place.owner(owner)), self._place.server
                )
            except (FileDamagedError, MigrationError) as error:
                settings_by_owner[owner] = error
        return settings_by_owner

    def _owners(self, link: Link) -> list[Owner]:
        names = map(self._place.owner_of, link.scan(f"{self._place.owners}*"))
        return sorted(owner for owner in names if owner is not None)

    def delete(self, link: Link, owner: Owner) -> int:
        """Empty all settings of an owner, and replace a page that cannot be read; how many went.

        Raises:
            MigrationError: a newer release wrote it.
        """
        try:
            return self.change(link, owner, owner_settings.emptied, deletes=True)
        except FileDamagedError:
            [stamp] = link.firsts(self._place.owner(owner))
            if self._put(link, owner, stamp or b"", {}, deletes=True):
                return 1
            raise faults.busy(self._place.server, self._timeout_s) from None

    def change(
        self,
        link: Link,
        owner: Owner,
        change: Callable[[Owned], tuple[Owned, T]],
        *,
        deletes: bool = False,
    ) -> T:
        """Write what `change` makes of the settings; where others were faster, of what they made."""
        deadline = monotonic() + self._timeout_s
        while True:
            stamp, old = self._load(link, owner)
            new, result = change(old)
            if new == old:
                return result
            if self._put(link, owner, stamp, new, deletes=deletes):
                return result
            if monotonic() > deadline:
                raise faults.busy(self._place.server, self._timeout_s)

    def _put(self, link: Link, owner: Owner, stamp: bytes, new: Owned, *, deletes: bool) -> bool:
        return link.swap(
            self._place.owner(owner),
            (stamp, pages.nonce().encode()),
            _page(owner, new, setting_macs.key_of(self._secret(), owner)),
            is_page=True,
            expire_ms=0,
            mark=pages.nonce() if deletes else "",
        )

    def _load(self, link: Link, owner: Owner) -> tuple[bytes, Owned]:
        texts = link.texts(self._place.owner(owner))
        if not texts:
            return b"", {}
        settings = _parse_texts(owner, texts, self._place.server)
        owned = setting_macs.owned_of(self._key_of(owner), settings)
        with self._mutex:
            self._cache[owner] = texts[0], owned
            while len(self._cache) > _KEPT_OWNERS:
                self._cache.popitem(last=False)
        return texts[0], owned


def _parse_texts(owner: Owner, texts: list[bytes], server: str) -> Stored:
    try:
        record = from_json(texts[1])
        if record["format"] not in (_OLDER_FORMAT, _FORMAT):
            raise faults.newer(server, record["format"], _FORMAT)
        if (record["account_id"], record["user_id"]) != owner:
            raise faults.damaged(server, "settings are of another user")
        return {
            (str(item["project_id"]), str(item["name"])): StoredSetting(
                open_value(item.get("value"), owner),
                int(item["version"]),
                bytes.fromhex(item.get("macs", "")),
            )
            for item in record["settings"]
        }
    except (*NO_RECORD, IndexError) as error:
        raise faults.damaged(server, f"settings: {type(error).__name__}") from None


def _page(owner: Owner, owned: Owned, key: bytes) -> bytes:
    macs = setting_macs.sign(key, owned)
    items = [
        {
            "project_id": project,
            "name": name,
            "value": seal_value(setting.value, owner),
            "version": setting.version,
            "macs": macs[project, name].hex(),
        }
        for (project, name), setting in owned.items()
    ]
    account_id, user_id = owner
    page = {"format": _FORMAT, "account_id": account_id, "user_id": user_id}
    return to_json(page | {"settings": items}).encode()
