"""Parts of somebody else's that cannot do it, and quote what they failed at."""

from __future__ import annotations

from typing import Any

from ce_engine.ports.redaction import RedactedData, RedactResult, RestoreResult
from ce_engine.schema.rows import Placeholder


class BrokenHasher:
    """A hasher of somebody else's."""

    def digest(self, content: str) -> str:
        raise RuntimeError(content)


class BrokenRedactor:
    """A redactor of somebody else's."""

    version = "broken"

    def bind(self, *_: object) -> BrokenRedactor:
        return self

    def text(self, text: str) -> RedactResult:
        raise RuntimeError(text)

    def data(self, value: Any) -> RedactedData:
        raise RuntimeError(str(value))

    def learned(self) -> list[Placeholder]:
        return []

    def restore(self, text: str) -> RestoreResult:
        raise RuntimeError(text)

    held_bytes = 0
