"""The two files of a session: a snapshot that is replaced whole, and a journal of the writes since.

A write is either one line at the journal's end or a new snapshot, moved into place; the journal is
emptied after that. So whoever reads both, and finds the same snapshot in place before and after, has
read one state, without a lock. A half line at the end is what a killed writer left: it was never
answered, and the next write begins a new journal.

Both carry MACs of every byte, a line also of all that is before it. What does not fit is read all the
same, and the session says from then on that it was forged.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from io import FileIO
from pathlib import Path
from time import sleep
from typing import Any

from pydantic import ValidationError

from ce_engine.schema.event_chain import is_older
from ce_engine.schema.rows import SessionHead
from ce_engine.stores import sealing
from ce_engine.stores.codec import NO_RECORD, from_json, to_json
from ce_engine.stores.documents.base import Key
from ce_engine.stores.documents.file import faults
from ce_engine.stores.documents.record import NOTHING, Data, absorb, difference, sealed_by
from ce_engine.stores.documents.session import StoredSession
from ce_engine.stores.private_files import opener


SNAPSHOT, JOURNAL = "session.json", "journal.jsonl"
FORMAT = 2
_OLDER_FORMAT = 1
"""Without MACs."""
_DRAFT = f"{SNAPSHOT}.new"

JOURNAL_BYTES = 64 * 1024
"""A journal may grow to this, or to the size of its snapshot."""
MOST_BYTES = 1 << 28
"""No snapshot or journal grows larger: whoever reads one has it in memory."""
READABLE_BYTES = 2 * MOST_BYTES
"""As large as the snapshot of both together may be."""

_KEY = ("account_id", "user_id", "session_id")
_TRIES = 100
_PAUSE_S = 0.002

MacKeys = Callable[[Key], bytes | None]
"""The key of a session's MACs; `None` where the secret cannot be read: then nothing can be said."""

_MAC_BYTES = 64
"""The most that a MAC takes on a page."""
_PAGE_MAC = re.compile(rb',\n"mac": "([0-9a-f]{32})"\n\}\n\Z')
_LINE_MAC = re.compile(rb',"mac":"([0-9a-f]{32})"\}\Z')

Identity = tuple[int, int, int]
"""Number, time and size of a file: another snapshot at the same path has another one."""


@dataclass(frozen=True, slots=True)
class LoadedSession:
    """A session as its files have it.

    Attributes:
        offset: bytes of the journal that are in it.
        torn: bytes of a half line that follows them.
        passed: bytes of lines that the snapshot has already; what they say may be deleted since.
        mac: of all that was read; empty for a session of an older release.
        wrong: the first thing that does not fit its MAC.
        checked: whether the MACs could be looked at.
    """

    key: Key
    state: StoredSession
    snapshot: Identity
    offset: int = 0
    torn: int = 0
    passed: int = 0
    mac: str = ""
    wrong: str = ""
    checked: bool = False


def mac(key: bytes, previous: str, text: bytes) -> str:
    """The MAC of a page, or of a line after what has the MAC `previous`."""
    data = previous.encode() + text
    return hashlib.blake2b(data, key=key, digest_size=16, person=b"file").hexdigest()


def load(folder: Path, keys: MacKeys, old: LoadedSession | None = None) -> LoadedSession | None:
    """The session in a folder, `None` if there is none; of what `old` has only the news is read.

    Raises:
        StoreUnavailableError: a file is damaged.
        MigrationError: a newer release wrote it.
    """
    snapshot, journal = folder / SNAPSHOT, folder / JOURNAL
    for _ in range(_TRIES):
        file_identity = identity(snapshot)
        if old is not None and (old.snapshot != file_identity or not old.checked):
            old = None
        text = b"" if old or not file_identity else content(snapshot) or b""
        tail = content(journal, old.offset if old else 0)
        if tail is None:  # shorter than it was: somebody took lines away
            old = None
        elif identity(snapshot) == file_identity:
            if file_identity is None:
                if b"\n" in tail:
                    raise faults.damaged(snapshot, "it is gone, and its journal is there")
                return None
            return _with_lines(
                old or _parsed(snapshot, text, file_identity, keys), journal, tail, keys
            )
    raise faults.damaged(snapshot, "it is replaced again and again while it is read")


def load_at_rest(folder: Path, keys: MacKeys) -> LoadedSession | None:
    """The session in a folder once nobody is in the middle of a write; who stays there for long was killed.

    Raises:
        StoreUnavailableError: a file is damaged.
        MigrationError: a newer release wrote it.
    """
    session, files = None, None
    for _ in range(_TRIES):
        now = identity(folder / SNAPSHOT), identity(folder / JOURNAL)
        if now != files:
            session, files = load(folder, keys), now
        if session is None or not (session.torn or session.passed):
            break
        sleep(_PAUSE_S)
    return session


def _parsed(path: Path, text: bytes, identity: Identity, keys: MacKeys) -> LoadedSession:
    try:
        record = from_json(text)
        if (format_ := record.pop("format")) not in (_OLDER_FORMAT, FORMAT):
            raise faults.newer(path, format_, FORMAT)
        record.pop("mac", None)
        account, user, session = (str(record.pop(name)) for name in _KEY)
        state = StoredSession(SessionHead())
        with sealing.of_session((account, user, session)):
            absorb(state, record)
        if not state.head.version:
            raise KeyError("head")
    except NO_RECORD as error:
        raise faults.damaged(path, _where(error)) from None
    key = (account, user, session)
    stands = _PAGE_MAC.search(text)
    last = stands[1].decode() if stands else ""
    wrong, mac_key = "", keys(key)
    bare = text[: stands.start()] + b"\n}\n" if stands else text
    if mac_key is not None and (format_ == FORMAT or last) and mac(mac_key, "", bare) != last:
        wrong = f"{SNAPSHOT} of version {state.head.version}"
    return LoadedSession(key, state, identity, mac=last, wrong=wrong, checked=mac_key is not None)


def _with_lines(loaded: LoadedSession, path: Path, tail: bytes, keys: MacKeys) -> LoadedSession:
    *lines, rest = tail.split(b"\n")
    if not tail:
        return loaded
    mac_key = keys(loaded.key)
    loaded = replace(loaded, state=loaded.state.draft(), checked=mac_key is not None)
    for line in lines:
        loaded = _with_line(loaded, path, line, mac_key)
    offset = loaded.offset + len(tail) - len(rest)
    return replace(loaded, offset=offset, torn=len(rest))


def _with_line(
    loaded: LoadedSession, path: Path, line: bytes, mac_key: bytes | None
) -> LoadedSession:
    """The session with one line more, which its own draft takes in."""
    last = loaded.state.head.version
    try:
        record = from_json(line)
        record.pop("mac", None)
        version = record["head"]["version"]
        if version > last + 1:
            raise faults.damaged(path, f"version {version} follows version {last}")
        if version <= last:  # its writer was killed between the two files
            return replace(loaded, passed=loaded.passed + len(line) + 1)
        with sealing.of_session(loaded.key):
            absorb(loaded.state, record)
    except NO_RECORD as error:
        raise faults.damaged(path, f"after version {last}: {_where(error)}") from None
    stands = _LINE_MAC.search(line)
    wrong, there = loaded.wrong, stands[1].decode() if stands else ""
    bare = line[: stands.start()] + b"}" if stands else line
    has_macs = loaded.mac or there
    if mac_key is not None and has_macs and mac(mac_key, loaded.mac, bare) != there:
        wrong = wrong or f"{JOURNAL} after version {last}"
    return replace(loaded, mac=there or loaded.mac, wrong=wrong)


def _where(error: Exception) -> str:
    """What is wrong with a record, without its content."""
    if isinstance(error, ValidationError):
        return f"{error.title} at {error.errors(include_input=False)[0]['loc']}"
    return error.msg if isinstance(error, json.JSONDecodeError) else type(error).__name__


def write(
    folder: Path, key: Key, old: LoadedSession | None, state: StoredSession, mac_key: bytes
) -> LoadedSession:
    """Put the session's new state to its files; the caller holds its lock and has loaded `old`."""
    if old is None or old.torn or old.passed or not old.mac:
        return write_snapshot(folder, key, old, state, mac_key)
    with sealing.of_session(key):
        text = to_json(difference(old.state, state)).encode()
    new_mac = mac(mac_key, old.mac, text)
    line = text[:-1] + b',"mac":"%s"}\n' % new_mac.encode()
    if old.offset + len(line) > max(JOURNAL_BYTES, old.snapshot[-1]):
        return write_snapshot(folder, key, old, state, mac_key)
    with open(folder / JOURNAL, "ab", buffering=0, opener=opener) as file:
        write_all(file, line)
    return replace(old, state=state, offset=old.offset + len(line), mac=new_mac, wrong="")


def write_snapshot(
    folder: Path, key: Key, old: LoadedSession | None, state: StoredSession, mac_key: bytes
) -> LoadedSession:
    """Replace the snapshot and begin a new journal."""
    path = folder / SNAPSHOT
    draft = folder / _DRAFT
    names: Data = dict(zip(_KEY, key, strict=True))
    with sealing.of_session(key):
        text = page({"format": FORMAT, **names, **difference(NOTHING, state)})
    new_mac = mac(mac_key, "", text)
    size = 0 if old is None else old.snapshot[-1] + old.offset
    if len(text) + _MAC_BYTES > max(MOST_BYTES, size):  # what makes one smaller is written
        raise faults.too_large(path, MOST_BYTES)
    try:
        with open(draft, "wb", buffering=0, opener=opener) as file:
            write_all(file, text.removesuffix(b"\n}\n") + b',\n"mac": "%s"\n}\n' % new_mac.encode())
            if old is not None:  # not even a power failure may take what was there before
                os.fsync(file.fileno())
        move(draft, path)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise
    with suppress(OSError):  # else its lines are passed over, as of before
        _empty_journal(folder)
    file_identity = identity(path)
    return LoadedSession(key, state, file_identity or (0, 0, 0), mac=new_mac, checked=True)


def with_verdict(old: LoadedSession | None, state: StoredSession) -> None:
    """Have the session's new state say what was found of the one before, lest it be forgotten."""
    if old is None:
        return
    if old.mac:
        state.forged = state.forged or old.wrong
    elif not old.state.events and old.state.has_content:  # older releases had a log, too
        state.forged = state.forged or f"version {old.state.head.version}, whose log was taken away"
    elif not all(map(is_older, old.state.events)):
        state.forged = (
            state.forged or f"version {old.state.head.version}, whose MACs were taken away"
        )
    else:
        state.older = old.state.head.version


def has_remains(folder: Path) -> bool:
    """Whether `remove_remains` may have something to do; a look at the files' names and sizes."""
    journal = identity(folder / JOURNAL)
    return (journal is not None and journal[-1] > 0) or (folder / _DRAFT).exists()


def remove_remains(folder: Path, old: LoadedSession | None, keys: MacKeys) -> None:
    """Take away what killed writers left and nobody reads; the caller holds the lock."""
    (folder / _DRAFT).unlink(missing_ok=True)
    if old is not None and (old.torn or old.passed):
        anew(folder, old, keys)
        _empty_journal(folder)


def key_ids(folder: Path) -> set[str]:
    """What sealed the content of both files; with an empty id if some of it is in the open."""
    lines = (content(folder / JOURNAL) or b"").split(b"\n")[:-1]
    texts = [content(folder / SNAPSHOT) or b"{}", *lines]
    return set().union(*(sealed_by(from_json(text)) for text in texts))


def anew(folder: Path, old: LoadedSession, keys: MacKeys) -> None:
    """Write the snapshot anew as it is; the caller holds the lock."""
    mac_key = keys(old.key)
    if mac_key is not None:
        state = old.state.draft()
        with_verdict(old, state)
        write_snapshot(folder, old.key, old, state, mac_key)


def _empty_journal(folder: Path) -> None:
    with (
        suppress(FileNotFoundError),
        open(folder / JOURNAL, "r+b", buffering=0, opener=opener) as file,
    ):
        os.truncate(file.fileno(), 0)


def move(draft: Path, path: Path) -> None:
    """Put a draft into its place, in one step."""
    for _ in range(_TRIES if os.name == "nt" else 0):  # there a reader's open file is in the way
        with suppress(PermissionError):
            draft.replace(path)
            return
        sleep(_PAUSE_S)
    draft.replace(path)


def page(record: Data) -> bytes:
    """JSON for people: a line for each value and for each item of a list."""
    parts = (f"{to_json(name)}: {_lines(value)}" for name, value in record.items())
    return "{{\n{}\n}}\n".format(",\n".join(parts)).encode()


def _lines(value: Any) -> str:
    if not isinstance(value, list) or not value:
        return to_json(value)
    return "[\n{}\n]".format(",\n".join(map(to_json, value)))


def write_all(file: FileIO, data: bytes) -> None:
    """Write to the last byte."""
    # Not through a buffer: after an error that would write the rest when the file is closed.
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def identity(path: Path) -> Identity | None:
    """Which file is at the path now; `None` if there is none."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def content(path: Path, offset: int = 0) -> bytes | None:
    """What a file has after `offset`; `None` if it ends before, nothing if it is not there.

    Raises:
        FileDamagedError: it is larger than any of ours.
    """
    try:
        with open(path, "rb", opener=opener) as file:
            size = os.fstat(file.fileno()).st_size
            if size < offset:
                return None
            if size > READABLE_BYTES:
                raise faults.damaged(
                    path, f"it has {size} bytes, and the most are {READABLE_BYTES}"
                )
            if offset:
                file.seek(offset)
            return file.read()
    except FileNotFoundError:
        return None if offset else b""
