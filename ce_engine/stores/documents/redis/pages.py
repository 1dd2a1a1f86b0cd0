"""The texts under a session's key: a stamp, a page with the whole session, and lines of the writes since.

The stamp is what a writer must have read, and replaces: whoever was faster has put another one. Page
and lines carry MACs of every byte, a line also of all that is before it. What does not fit is read all
the same, and the session says from then on that it was forged.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

from pydantic import ValidationError

from ce_engine.schema.rows import SessionHead
from ce_engine.stores import sealing
from ce_engine.stores.codec import NO_RECORD, from_json, to_json
from ce_engine.stores.documents.base import Key
from ce_engine.stores.documents.record import NOTHING, Data, absorb, difference
from ce_engine.stores.documents.redis import faults
from ce_engine.stores.documents.session import StoredSession


FORMAT = 1
LINES_BYTES = 64 * 1024
"""The lines of a session may grow to this, or to the size of its page."""

_MOST = 2**53
"""Of what a stamp counts."""
_KEY = ("account_id", "user_id", "session_id")
_MAC = 32


class Stamp(NamedTuple):
    """What a look at a session costs when nothing happened.

    Attributes:
        page: another one for each page.
        write: another one for each write.
        lines: how many follow the page.
    """

    page: str
    write: str
    lines: int
    version: int
    epoch: int
    is_deleted: bool

    def encode(self) -> bytes:
        return " ".join(str(int(v) if isinstance(v, bool) else v) for v in self).encode()

    @classmethod
    def parse(cls, text: bytes, server: str) -> Self:
        try:
            page, write, *numbers = text.decode("ascii").split(" ")
            lines, version, epoch, is_deleted = map(int, numbers)
        except ValueError:
            raise faults.damaged(server, "a stamp") from None
        stamp = cls(page, write, lines, version, epoch, bool(is_deleted))
        # Any other text of it is never what a write compares with: whoever writes would wait for ever.
        if stamp.encode() != text or not all(0 <= n <= _MOST for n in (lines, version, epoch)):
            raise faults.damaged(server, "a stamp")
        return stamp


def nonce() -> str:
    """What nothing else is called."""
    return secrets.token_hex(8)


class Watermark(NamedTuple):
    """What of a state is enough to tell whether a later one holds it.

    Attributes:
        mac: of its last text.
        events: how many it has; `chain` is the hash of the last one.
    """

    stamp: Stamp
    mac: str
    events: int
    chain: str


@dataclass(frozen=True, slots=True)
class LoadedSession:
    """A session as its texts have it.

    Attributes:
        page_bytes: the size of its page.
        line_bytes: the size of all lines together.
        mac: of the last text, and so of all that was read.
        wrong: the first thing that does not fit its MAC.
        checked: whether the MACs could be looked at.
    """

    key: Key
    stamp: Stamp
    state: StoredSession
    page_bytes: int
    line_bytes: int
    mac: str
    wrong: str
    checked: bool

    @property
    def watermark(self) -> Watermark:
        head = self.state.head
        return Watermark(self.stamp, self.mac, head.last_event_seq, head.chain_head)

    def has_lost(self, watermark: Watermark, texts: Sequence[bytes]) -> bool:
        """Whether an earlier state is not in this one, which was read from `texts`."""
        if self.stamp == watermark.stamp or self.stamp.version <= watermark.stamp.version:
            return self.stamp != watermark.stamp
        if self.stamp.page == watermark.stamp.page:
            place = 1 + watermark.stamp.lines
            return len(texts) <= place or _mac_of(texts[place]) != watermark.mac
        events = self.state.events[watermark.events - 1 :]
        return watermark.events > 0 and (not events or events[0].hash != watermark.chain)


class TextWrite(NamedTuple):
    """What a write puts to the server: a page in the place of all that is there, or one line more."""

    session: LoadedSession
    text: bytes
    is_page: bool


def load(
    key: Key, texts: Sequence[bytes], mac_key: bytes | None, server: str
) -> LoadedSession | None:
    """The session of all texts under its key; `None` if there are none.

    Raises:
        FileDamagedError: they are no session's, or not this one's.
        MigrationError: a newer release wrote them.
    """
    if not texts:
        return None
    stamp = Stamp.parse(texts[0], server)
    try:
        page = texts[1]
        record = from_json(page[_MAC:])
        if (form := record.pop("format")) != FORMAT:
            raise faults.newer(server, form, FORMAT)
        if tuple(record.pop(name) for name in _KEY) != key:
            raise faults.damaged(server, "it is of another session")
        state = StoredSession(SessionHead())
        with sealing.of_session(key):
            absorb(state, record)
    except (*NO_RECORD, IndexError) as error:
        raise faults.damaged(server, f"a page: {_where(error)}") from None
    last, is_wrong = _compared(mac_key, "", page)
    wrong = f"the page of version {state.head.version}" if is_wrong else ""
    session = LoadedSession(key, stamp, state, len(page), 0, last, wrong, mac_key is not None)
    return with_lines(session, stamp, texts[2:], mac_key, server)


def with_lines(
    loaded: LoadedSession,
    stamp: Stamp,
    lines: Sequence[bytes],
    mac_key: bytes | None,
    server: str,
) -> LoadedSession:
    """The session with lines that follow what was read.

    Raises:
        FileDamagedError: they do not, or the stamp tells of others.
    """
    state, last, wrong = loaded.state.draft(), loaded.mac, loaded.wrong
    for line in lines:
        version = state.head.version
        try:
            record = from_json(line[_MAC:])
            if record["head"]["version"] != version + 1:
                raise faults.damaged(server, f"a line is missing after version {version}")
            with sealing.of_session(loaded.key):
                absorb(state, record)
        except NO_RECORD as error:
            raise faults.damaged(server, f"after version {version}: {_where(error)}") from None
        last, is_wrong = _compared(mac_key, last, line)
        if is_wrong:
            wrong = wrong or f"the line after version {version}"
    head, size = state.head, loaded.line_bytes + sum(map(len, lines))
    if (stamp.version, stamp.epoch, stamp.is_deleted) != (
        head.version,
        head.epoch,
        head.is_deleted,
    ):
        wrong = wrong or f"the stamp, which tells of version {stamp.version} and not {head.version}"
    return replace(loaded, stamp=stamp, state=state, line_bytes=size, mac=last, wrong=wrong)


def follows(loaded: LoadedSession, stamp: Stamp, lines: Sequence[bytes], key: bytes | None) -> bool:
    """Whether these lines are all that was written after what is known."""
    same_page = stamp.page == loaded.stamp.page and loaded.checked
    if not same_page or stamp.lines != loaded.stamp.lines + len(lines) or not lines:
        return False
    return not _compared(key, loaded.mac, lines[0])[1]


def _compared(mac_key: bytes | None, previous: str, text: bytes) -> tuple[str, bool]:
    """The MAC that a text has, and whether it is another's."""
    has = text[:_MAC].decode("latin-1")
    return has, mac_key is not None and _mac(mac_key, previous, text[_MAC:]) != has


def _mac(key: bytes, previous: str, text: bytes) -> str:
    data = previous.encode() + text
    return hashlib.blake2b(data, key=key, digest_size=_MAC // 2, person=b"redis").hexdigest()


def _where(error: Exception) -> str:
    """What is wrong with a record, without its content."""
    if isinstance(error, ValidationError):
        return f"{error.title} at {error.errors(include_input=False)[0]['loc']}"
    return error.msg if isinstance(error, json.JSONDecodeError) else type(error).__name__


def text_write(
    key: Key, old: LoadedSession | None, state: StoredSession, mac_key: bytes, *, anew: bool
) -> TextWrite:
    """What makes `state` of what is there; `anew` leaves nothing of that in any byte."""
    is_deletion = state.head.is_deleted and old is not None and not old.state.head.is_deleted
    if old is not None and not is_deletion:
        state.forged = state.forged or old.wrong
    if old is not None and not anew:
        with sealing.of_session(key):
            text = _with_mac(mac_key, old.mac, difference(old.state, state))
        if old.line_bytes + len(text) <= max(LINES_BYTES, old.page_bytes):
            stamp = _stamp(old.stamp.page, old.stamp.lines + 1, state.head)
            size = old.line_bytes + len(text)
            new = replace(
                old, stamp=stamp, state=state, line_bytes=size, mac=_mac_of(text), wrong=""
            )
            return TextWrite(new, text, is_page=False)
    names: Data = dict(zip(_KEY, key, strict=True))
    with sealing.of_session(key):
        record = {"format": FORMAT, **names, **difference(NOTHING, state)}
    text = _with_mac(mac_key, "", record)
    stamp = _stamp(nonce(), 0, state.head)
    new = LoadedSession(key, stamp, state, len(text), 0, _mac_of(text), "", checked=True)
    return TextWrite(new, text, is_page=True)


def _stamp(page: str, lines: int, head: SessionHead) -> Stamp:
    return Stamp(page, nonce(), lines, head.version, head.epoch, head.is_deleted)


def _with_mac(mac_key: bytes, previous: str, record: Data) -> bytes:
    text = to_json(record).encode()
    return _mac(mac_key, previous, text).encode() + text


def _mac_of(text: bytes) -> str:
    return text[:_MAC].decode("latin-1")
