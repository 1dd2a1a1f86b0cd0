"""What owners set: a file `settings.json` beside the folders of a user's sessions, replaced whole."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from ce_engine.errors import ContextEngineError, FileDamagedError, MigrationError
from ce_engine.stores import owner_settings, private_files, setting_macs
from ce_engine.stores.codec import NO_RECORD, from_json
from ce_engine.stores.documents.file import faults, log
from ce_engine.stores.documents.file.names import safe
from ce_engine.stores.documents.file.shelf import Shelf
from ce_engine.stores.documents.setting_values import is_current, open_value, seal_value
from ce_engine.stores.owner_settings import Owned, Owner
from ce_engine.stores.setting_macs import Stored, StoredSetting


T = TypeVar("T")

_FORMAT = 2
_OLDER_FORMAT = 1
"""Without MACs."""
FILE = "settings.json"
_DRAFT = f"{FILE}.new"
_KEPT_OWNERS = 256


class SettingsFiles:
    """Reads without a lock from any thread; one thread writes."""

    def __init__(
        self, shelf: Shelf, key_of: Callable[[Owner], bytes | None], secret: Callable[[], bytes]
    ) -> None:
        self._shelf, self._key_of, self._secret = shelf, key_of, secret
        self._cache: OrderedDict[Path, tuple[log.Identity, Owned]] = OrderedDict()
        self._mutex = Lock()

    def read(self, owner: Owner) -> Owned:
        """The owner's settings; a file that did not change is not read again."""
        path = self._folder(owner) / FILE
        identity = log.identity(path)
        if identity is None:
            return {}
        with self._mutex:
            entry = self._cache.get(path)
        if entry is not None and entry[0] == identity:
            return entry[1]
        owned = self._load(path, owner)
        with self._mutex:
            self._cache[path] = identity, owned
            while len(self._cache) > _KEPT_OWNERS:
                self._cache.popitem(last=False)
        return owned

    def change(
        self, owner: Owner, change: Callable[[Owned], tuple[Owned, T]], deadline: float
    ) -> T:
        """Write what `change` makes of the settings, which nobody else writes meanwhile."""
        folder = self._folder(owner)
        with self._shelf.locked(folder, deadline):
            # From the file: two writes within a tick of its clock may look like none.
            old = self._load(folder / FILE, owner)
            new, result = change(old)
            if new != old:
                _write(folder, owner, new, setting_macs.key_of(self._secret(), owner))
            return result

    def delete(self, owner: Owner, deadline: float) -> int:
        """Empty all settings of an owner, and take away a file that cannot be read; how many went.

        Raises:
            MigrationError: a newer release wrote it.
        """
        folder = self._folder(owner)
        if not _is_there(folder / FILE):
            return 0
        with self._shelf.locked(folder, deadline):
            settings = self._readable(folder, owner)[1]
            if isinstance(settings, MigrationError):
                raise settings
            if isinstance(settings, ContextEngineError):
                (folder / FILE).unlink()
                return 1
        return self.change(owner, owner_settings.emptied, deadline)

    def of_all(self) -> dict[Owner, Owned]:
        """The settings of all owners whose files can be read: `damaged` names the others."""
        return {
            owner: setting_macs.owned_of(self._key_of(owner), settings)
            for owner, settings in self.read_all().items()
            if not isinstance(settings, ContextEngineError)
        }

    def damaged(self, account_id: str | None, user_id: str | None) -> list[str]:
        """What is wrong with the files that no list has; each is named."""
        results = self.read_all(account_id, user_id).values()
        return [str(result) for result in results if isinstance(result, ContextEngineError)]

    def read_all(
        self, account_id: str | None = None, user_id: str | None = None
    ) -> dict[Owner, Stored | ContextEngineError]:
        """What owners' files have, with its MACs; of a file that cannot be read, what is wrong with it."""
        settings_by_owner: dict[Owner, Stored | ContextEngineError] = {}
        for folder in self._shelf.users(account_id, user_id):
            if _is_there(folder / FILE):
                names = _id_of(folder.parent, account_id), _id_of(folder, user_id)
                owner, settings = self._readable(folder, names)
                settings_by_owner[owner] = settings
        return settings_by_owner

    def _readable(self, folder: Path, names: Owner) -> tuple[Owner, Stored | ContextEngineError]:
        """A file among many, or what is wrong with it, under these names: that ends no list of the others."""
        path, owner = folder / FILE, names
        try:
            self._shelf.own(folder)
            there = _owner(path, _page(path))
            if self._folder(there) != folder:
                raise faults.damaged(path, "it is of another user")
            owner = there
            return owner, _read_file(path, owner)
        except (FileDamagedError, MigrationError) as error:
            return owner, error
        except OSError as error:
            if error.errno not in faults.OF_ONE:
                raise
            return owner, faults.explain(error, self._shelf.root)

    def _load(self, path: Path, owner: Owner) -> Owned:
        settings = _read_file(path, owner)
        return setting_macs.owned_of(self._key_of(owner), settings) if settings else {}

    def reseal(self, key_id: str, deadline: float) -> int:
        """Write files anew whose values are not under the key that seals now; how many values were not.

        What cannot be read is left as it is: `damaged` names it.
        """
        count = 0
        for owner, settings in self.read_all().items():
            if isinstance(settings, ContextEngineError):
                continue
            folder = self._folder(owner)
            with self._shelf.locked(folder, deadline):
                values = [item.get("value") for item in _page(folder / FILE)["settings"]]
                old = [v for v in values if v is not None and not is_current(v, key_id)]
                if old:
                    key = setting_macs.key_of(self._secret(), owner)
                    _write(folder, owner, self._load(folder / FILE, owner), key)
                count += len(old)
        return count

    def remove_remains(self, deadline: float) -> None:
        """Take away what killed writers left."""
        for draft in list(self._shelf.root.glob(f"*/*/{_DRAFT}")):
            try:
                with self._shelf.locked(draft.parent, deadline):
                    draft.unlink(missing_ok=True)
            except OSError as error:  # who spoilt one keeps the others from nothing
                if not faults.is_of_one(error, self._shelf.root):
                    raise

    def _folder(self, owner: Owner) -> Path:
        return self._shelf.own(self._shelf.root.joinpath(*map(safe, owner)))


def _is_there(path: Path) -> bool:
    """Whether there is anything, a link that leads nowhere too."""
    try:
        path.lstat()
    except FileNotFoundError:
        return False
    except OSError:  # who reads it says what it is
        return True
    return True


def _id_of(folder: Path, wanted_id: str | None) -> str:
    """The id that a folder is of, where that can be known: its name else."""
    ids = [
        candidate
        for candidate in (wanted_id, "")
        if candidate is not None and safe(candidate) == folder.name
    ]
    return ids[0] if ids else folder.name


def _page(path: Path) -> Any:
    """What a file has, whatever that is."""
    try:
        return from_json(log.content(path) or b"{}")
    except ValueError as error:
        raise faults.damaged(path, type(error).__name__) from None


def _owner(path: Path, page: Any) -> Owner:
    try:
        return str(page["account_id"]), str(page["user_id"])
    except (KeyError, TypeError) as error:
        raise faults.damaged(path, type(error).__name__) from None


def _read_file(path: Path, owner: Owner) -> Stored:
    text = log.content(path)
    if not text and log.identity(path) is None:
        return {}
    try:
        record = from_json(text or b"")
        if record["format"] not in (_OLDER_FORMAT, _FORMAT):
            raise faults.newer(path, record["format"], _FORMAT)
        if (record["account_id"], record["user_id"]) != owner:
            raise faults.damaged(path, "it is of another user")
        return {
            (str(item["project_id"]), str(item["name"])): StoredSetting(
                open_value(item.get("value"), owner),
                int(item["version"]),
                bytes.fromhex(item.get("macs", "")),
            )
            for item in record["settings"]
        }
    except NO_RECORD as error:
        raise faults.damaged(path, type(error).__name__) from None


def _write(folder: Path, owner: Owner, owned: Owned, key: bytes) -> None:
    macs = setting_macs.sign(key, owned)
    path, draft = folder / FILE, folder / _DRAFT
    lines = [
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
    page = {
        "format": _FORMAT,
        "account_id": account_id,
        "user_id": user_id,
        "settings": lines,
    }
    try:
        with open(draft, "wb", buffering=0, opener=private_files.opener) as file:
            log.write_all(file, log.page(page))
            os.fsync(file.fileno())
        log.move(draft, path)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise
