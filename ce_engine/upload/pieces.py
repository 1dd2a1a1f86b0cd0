"""A piece on its way to the store: what was taken out of it, its plain form, and refs to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ce_engine.schema.document import Ref


@dataclass(slots=True)
class Piece:
    """What redaction took out of one piece that is stored under `id`: a message, evidence, arguments."""

    id: str
    rules: dict[str, None] = field(default_factory=dict)
    count: int = 0

    def hit(self, rules: Sequence[str], count: int) -> None:
        self.rules |= dict.fromkeys(rules)
        self.count += count


def encodable(text: str) -> str:
    """The text without lone surrogates: no encoding of a store can hold them."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def refs(evidence_ids: list[str]) -> list[Ref] | None:
    """Refs to whole pieces of evidence, each once; `None` for none."""
    return [Ref(evidence_id=item) for item in dict.fromkeys(evidence_ids)] or None
