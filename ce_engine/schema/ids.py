"""Clock, ids and hashes with their defaults (A-04), and the keyed fingerprints that recognise a message."""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from datetime import UTC, datetime

from ce_engine.schema.document import Message
from ce_engine.schema.scope import Scope


class SystemClock:
    """UTC now as ISO 8601 with `Z`, in milliseconds."""

    def now_iso(self) -> str:
        return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class UuidV4Generator:
    def generate(self) -> str:
        return str(uuid.uuid4())  # noqa: TID251 - the one place that may


class Sha256Hasher:
    def digest(self, content: str) -> str:
        return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()


_THINKING = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
_CITATION = re.compile(r"\[\^?\d+\]|【[^】]{0,80}】")
_SPACE = re.compile(r"\s+")


class Fingerprinter:
    """Keyed fingerprints of one session's live content (decision 4 of the design).

    The key comes from a secret outside the store and the session's salt, so that equal texts cannot
    be linked between sessions, a dictionary attack on the store needs the secret, and deleting the
    salt erases. A fingerprint holds neither role nor author.
    """

    __slots__ = ("_key", "key_id")

    def __init__(self, secret: bytes, salt: bytes, scope: Scope) -> None:
        seed = b"\x00".join([*(part.encode("utf-8", "surrogatepass") for part in scope.key), salt])
        self._key = hashlib.blake2b(seed, key=secret[:64], digest_size=32).digest()
        self.key_id = hashlib.blake2b(b"key-id", key=secret[:64], digest_size=6).hexdigest()

    def mac(self, text: str) -> bytes:
        """16 bytes for any text."""
        data = text.encode("utf-8", "surrogatepass")
        return hashlib.blake2b(data, key=self._key, digest_size=16).digest()

    def message(self, message: Message) -> tuple[bytes, bytes]:
        """The (exact, loose) fingerprints of a message.

        The loose one ignores thinking, citation marks and white space: a host that tidies an answer
        up is recognised by it.
        """
        text = message.content
        if not message.tool_calls:
            exact = self.mac(text)
            loose = text
        else:
            calls = json.dumps(
                [[call.name, call.args] for call in message.tool_calls],
                sort_keys=True,
                ensure_ascii=False,
                default=str,
            )
            exact = self.mac(f"{text}\x00{calls}")
            loose = f"{text}\x00{calls}"
        if "<" in loose:
            loose = _THINKING.sub("", loose)
        if "[" in loose or "【" in loose:
            loose = _CITATION.sub("", loose)
        return exact, self.mac(_SPACE.sub("", loose))

    def payload_key(self) -> bytes:
        """The key of the session's event payloads."""
        return self._key
