"""The interfaces of redaction; these docstrings are the specification."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ce_engine.schema.rows import Placeholder


@dataclass(frozen=True, slots=True)
class RedactResult:
    """`rules` are the names of those that hit."""

    text: str
    rules: tuple[str, ...] = ()
    count: int = 0
    has_sensitive: bool = False


@dataclass(frozen=True, slots=True)
class RedactedData:
    """Data with placeholders; `rules` are the names of those that hit, `count` is of fields."""

    value: Any
    rules: tuple[str, ...] = ()
    count: int = 0


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """A text with live values; how many placeholders they took the place of, and how many are left."""

    text: str
    restored: int = 0
    unresolved: int = 0


@dataclass(frozen=True, slots=True)
class PiiSpan:
    """Something personal that a detector found.

    Attributes:
        start: offset of its first character in the text.
        end: offset behind its last one.
        label: what it is; one of the detector's `labels`.
        score: how sure the detector is, 0 to 1.
    """

    start: int
    end: int
    label: str
    score: float = 1.0


class PiiDetector(Protocol):
    """Finds what no pattern can, such as names and postal addresses (B-04, layer three).

    It is asked beside the patterns, on a thread of its own, a text at a time, before anything of the text
    is stored. One that raises, answers what is none of this, or takes longer than
    `RedactionConfig.timeout_s` for a text costs the app nothing but that text in the store: it is
    stored without content, its length and HMAC are kept, and the report's `degradations` say so.
    """

    @property
    def name(self) -> str:
        """Names the model and its version: rows say what they were redacted with."""
        ...

    @property
    def labels(self) -> Collection[str]:
        """The labels of its spans, in capital letters and `_`: `PERSON` becomes `[PERSON_1]`."""
        ...

    def detect(self, text: str, locale: str) -> Iterable[PiiSpan]:
        """What is personal in a text; spans may overlap. `locale` is the engine's: `en`, `zh`."""
        ...


class SessionRedactor(Protocol):
    """A redactor bound to one session: the same value gets the same placeholder. Thread-safe."""

    def text(self, text: str) -> RedactResult: ...

    def data(self, value: Any) -> RedactedData:
        """Plain JSON data redacted; the value given stays as it is."""
        ...

    def learned(self) -> list[Placeholder]:
        """The placeholders given since the last call, for the store."""
        ...

    def restore(self, text: str) -> RestoreResult:
        """A stored text with live values in place of its placeholders.

        Only values that this very object took out are known to it; they are in memory and nowhere else.
        """
        ...

    @property
    def held_bytes(self) -> int:
        """Bytes of memory that those values take, roughly."""
        ...


class Redactor(Protocol):
    """Takes what is personal or secret out of text before it is stored (A-19). Pure and synchronous."""

    @property
    def version(self) -> str:
        """Kept with every row; a new version rewrites nothing."""
        ...

    def bind(self, key: bytes, known: Sequence[Placeholder], locale: str) -> SessionRedactor:
        """For one session, by its key, with the placeholders it has given so far."""
        ...
