"""Clock, ids and hashes with their defaults (A-04), and the keyed fingerprints that recognise a message."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import lru_cache

from ce_engine.errors import ConfigError
from ce_engine.schema.document import Message
from ce_engine.schema.json_text import canonical_json
from ce_engine.schema.scope import Scope


class SystemClock:
    """UTC now as ISO 8601 with `Z`, in milliseconds."""

    def now_iso(self) -> str:
        at = datetime.now(UTC)
        second = _second(at.toordinal(), at.hour, at.minute, at.second)
        return f"{second}.{at.microsecond // 1000:03d}Z"


@lru_cache(maxsize=1)  # several times of one call stand in the same second
def _second(day: int, hour: int, minute: int, second: int) -> str:
    return f"{date.fromordinal(day)}T{hour:02}:{minute:02}:{second:02}"


class UuidV4Generator:
    """Random ids."""

    def generate(self) -> str:
        # What `str(uuid.uuid4())` gives, in a quarter of the time: a new history needs thousands.
        h = os.urandom(16).hex()
        return f"{h[:8]}-{h[8:12]}-4{h[13:16]}-{_VARIANT[h[16]]}{h[17:20]}-{h[20:]}"


_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}


class Sha256Hasher:
    """SHA-256 in hex."""

    def digest(self, content: str) -> str:
        return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()


_CITATION = re.compile(r"\[\^?\d{1,4}\]|【[^】]{0,80}】")

SHORT_ID = 8
"""Characters of an id that are shown, to people and to models."""

_OF_AN_ID = re.compile(r"[0-9A-Za-z_-]+", re.ASCII)


def short_id(name: str) -> str:
    """The beginning of an id, as an input shows it: of one that somebody else wrote, no sign that breaks a line."""
    return "".join(_OF_AN_ID.findall(name[:SHORT_ID]))


SCHEME = "ce1"
"""Names how fingerprints are made; part of every `key_id`."""

MIN_SECRET_BYTES = 16


class Fingerprinter:
    """Keyed fingerprints of one session's live content (decision 4 of the design).

    The key comes from a secret outside the store and the session's salt, so that equal texts cannot
    be linked between sessions, a dictionary attack on the store needs the secret, and deleting the
    salt erases. A fingerprint holds neither role nor author.
    """

    __slots__ = ("_key", "key_id")

    def __init__(self, secret: bytes, salt: bytes, scope: Scope) -> None:
        seed = b"\x00".join([*(part.encode("utf-8", "surrogatepass") for part in scope.key), salt])
        self._key = hashlib.blake2b(seed, key=_install_key(secret), digest_size=32).digest()
        self.key_id = self.mac("key-id", SCHEME)[:8].hex()

    def mac(self, domain: str, text: str) -> bytes:
        """16 bytes for any text; the same text in another domain has another one.

        Domains: `msg`, `loose`, `host-id`, `media`, `evidence`, `payload`, `placeholder`, `prefix`, `key-id`.
        """
        data = text.encode("utf-8", "surrogatepass")
        person = domain.encode("ascii")[:16]
        return hashlib.blake2b(data, key=self._key, digest_size=16, person=person).digest()

    def message(self, message: Message, media: Sequence[str] = ()) -> tuple[bytes, bytes]:
        """The (exact, loose) fingerprints of a message.

        The loose one ignores thinking, citation marks and white space: a host that tidies an answer
        up is recognised by it. It is empty where nothing is left to recognise.
        """
        text = "\x00".join([message.content, *media])
        if message.tool_calls:
            text += "\x00" + canonical_json([[c.name, c.args] for c in message.tool_calls])
        tidy = without_thinking(text)
        if "[" in tidy or "【" in tidy:
            tidy = _CITATION.sub("", tidy)
        tidy = "".join(tidy.split())
        return self.mac("msg", text), self.mac("loose", tidy) if tidy.strip("\x00") else b""

    @property
    def key(self) -> bytes:
        """The session's key, for event payloads and placeholders."""
        return self._key


def check_secret(secret: bytes) -> None:
    """See that a secret is long enough.

    Raises:
        ConfigError: it is not.
    """
    if len(secret) < MIN_SECRET_BYTES:
        raise ConfigError(
            f"the secret has {len(secret)} bytes; at least {MIN_SECRET_BYTES} are needed. Set "
            "CE_SECRET to a long random text, such as `openssl rand -hex 32` prints, the same for all "
            "processes of the install."
        )


def _install_key(secret: bytes) -> bytes:
    check_secret(secret)
    return hashlib.blake2b(secret, digest_size=32, person=b"ce-install").digest()


def chain_key(secret: bytes) -> bytes:
    """The install's key for event chains; it outlives the deletion of a session's key."""
    return hashlib.blake2b(b"chain", key=_install_key(secret), digest_size=32).digest()


@dataclass(frozen=True, slots=True)
class ChainKeys:
    """The keys of one session's event chain, which outlive the deletion of the session's own key.

    Attributes:
        install: the same for all sessions; links of older releases are under it.
        own: of this session alone, so that no other session's events fit in.
    """

    install: bytes
    own: bytes


@lru_cache(maxsize=256)
def chain_keys(secret: bytes, scope_key: tuple[str, str, str]) -> ChainKeys:
    """The keys of the chain of the session with this `Scope.key`."""
    install = chain_key(secret)
    seed = b"".join(
        len(data).to_bytes(4) + data
        for data in (part.encode("utf-8", "surrogatepass") for part in scope_key)
    )
    own = hashlib.blake2b(seed, key=install, digest_size=32, person=b"session-chain").digest()
    return ChainKeys(install, own)


def session_key(secret: bytes, salt: bytes, scope: Scope) -> bytes:
    """The key of what is deleted with the session: `Fingerprinter.key`."""
    return _session_key(secret, salt, scope.key)


@lru_cache(maxsize=64)
def _session_key(secret: bytes, salt: bytes, scope_key: tuple[str, str, str]) -> bytes:
    return Fingerprinter(secret, salt, Scope.of_stored(*scope_key)).key


def without_thinking(text: str) -> str:
    """The text without `<think>...</think>` passages; an unclosed one stays. Linear."""
    for start_tag, end_tag in (("<think>", "</think>"), ("<thinking>", "</thinking>")):
        if start_tag not in text:
            continue
        parts: list[str] = []
        position = 0
        while (start := text.find(start_tag, position)) >= 0:
            end = text.find(end_tag, start)
            if end < 0:
                break
            parts.append(text[position:start])
            position = end + len(end_tag)
        parts.append(text[position:])
        text = "".join(parts)
    return text
