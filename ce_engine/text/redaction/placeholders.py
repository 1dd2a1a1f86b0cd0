"""The numbers of a session's placeholders: the same value is `[EMAIL_1]` every time."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections import deque
from collections.abc import Iterable, Mapping

from ce_engine.errors import RedactionError
from ce_engine.schema.rows import Placeholder
from ce_engine.text.redaction.patterns import LABELS
from ce_engine.text.redaction.vault import Vault


MIN_SECRET_BYTES = 16
CAPACITY = 100_000
"""Values that a session remembers; one beyond gets a new number each time it is met."""

_SPELLED_IN_GROUPS = frozenset(
    {"PHONE", "ID_CARD", "SSN", "CARD", "IBAN", "NATIONAL_ID", "MAC_ADDRESS"}
)


PLACEHOLDER = re.compile(r"\[[^\W\d]\w{0,30}_[0-9]+\]")
"""What stands in a text where something was taken out."""

_NO_SIGN = re.compile(r"[\W_]+")


class Numbering:
    """What a session remembers of the values that were taken out of it: a MAC and a number each.

    No value is held but in `vault`, if there is one, and without `secret` none can be tried against what
    is. Safe to use from several
    threads: two that meet a new value at the same moment may leave a number unused.

    Args:
        secret: the session's own, 16 bytes at least.
        counters: label -> highest number given so far, for a session whose values are not `placeholders`.
        placeholders: what `learned` told earlier.
        vault: where the live values are held.

    Raises:
        RedactionError: the secret is too short to keep a guess from being confirmed.
    """

    __slots__ = ("_counts", "_highest", "_learned", "_numbers", "_secret", "_vault")

    def __init__(
        self,
        secret: bytes,
        counters: Mapping[str, int] | None = None,
        placeholders: Iterable[Placeholder] = (),
        vault: Vault | None = None,
    ) -> None:
        if len(secret) < MIN_SECRET_BYTES:
            raise RedactionError(
                f"the secret of a session has {len(secret)} bytes, expected {MIN_SECRET_BYTES} at least: "
                "derive it from the install secret, or take secrets.token_bytes(32)"
            )
        self._secret = hashlib.blake2b(secret, digest_size=32, person=b"ce-placeholders").digest()
        self._vault = vault
        self._numbers: dict[tuple[str, bytes], int] = {}
        self._highest: dict[str, int] = dict(counters or {})
        self._counts: dict[str, itertools.count[int]] = {}
        self._learned: deque[Placeholder] = deque()
        for item in placeholders:
            self._numbers[item.label, item.mac] = item.number
            self._highest[item.label] = max(item.number, self._highest.get(item.label, 0))

    def placeholder(
        self, label: str, value: str, locale: str = "en", live: str | None = None
    ) -> str:
        """Return the placeholder of a value, `[EMAIL_1]` or `[邮箱_1]`; `live` is how it was spelled.

        Spellings of one number (`138-0013-8000`, `+86 13800138000`) and of one mail address are one
        value. The number does not depend on the locale.
        """
        mac = hashlib.blake2b(
            f"{label}\0{_canonical(label, value)}".encode("utf-8", "surrogatepass"),
            key=self._secret,
            digest_size=16,
        ).digest()
        number = self._numbers.get((label, mac)) or self._new(label, mac)
        name = LABELS.get(label, label) if locale.startswith("zh") else label
        placeholder = f"[{name}_{number}]"
        if self._vault is not None:
            self._vault.hold(placeholder, value if live is None else live)
        return placeholder

    def _new(self, label: str, mac: bytes) -> int:
        first = max(0, self._highest.get(label, 0)) + 1
        number = next(self._counts.setdefault(label, itertools.count(first)))
        if len(self._numbers) < CAPACITY:
            number = self._numbers.setdefault((label, mac), number)
        self._highest[label] = max(number, self._highest.get(label, 0))
        self._learned.append(Placeholder(label, mac, number))
        return number

    def counters(self) -> dict[str, int]:
        """Return the highest number that each label has reached."""
        return dict(self._highest)

    def learned(self) -> list[Placeholder]:
        """Return the placeholders that were given since the last call."""
        return [self._learned.popleft() for _ in range(len(self._learned))]


def _canonical(label: str, value: str) -> str:
    """Return one spelling of a value for the several that mean the same."""
    if label == "EMAIL":
        return value.lower()
    if label not in _SPELLED_IN_GROUPS:
        return value
    signs = _NO_SIGN.sub("", value).upper()
    if label == "PHONE":
        signs = signs.removeprefix("1") if value.startswith("+1") else signs
        signs = signs.removeprefix("00") if signs.startswith("0086") else signs
        signs = signs.removeprefix("86") if len(signs) > 11 else signs
    return signs
