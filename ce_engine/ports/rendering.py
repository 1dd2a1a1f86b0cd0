"""The interfaces of what makes texts of blocks, and one input of texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ce_engine.schema.document import ContextBlock, Message
from ce_engine.schema.report import AssembledInput, RenderedBlock


class EvidenceResolver(Protocol):
    """Finds the text that a ref points to."""

    async def resolve(self, evidence_id: str, selector: str | None = None) -> str:
        """The text of evidence, or of the part that the selector names.

        Raises:
            EvidenceNotFoundError: there is none with this id in the session.
            SelectorResolveError: the selector is malformed or matches nothing.
        """
        ...


@dataclass(slots=True)
class RenderHints:
    """`format` is `text`, `markdown` or `json`."""

    max_chars: int | None = None
    format: str = "text"


class Renderer(Protocol):
    """Makes text of a block."""

    async def render_block(
        self, block: ContextBlock, resolver: EvidenceResolver, hints: RenderHints | None = None
    ) -> RenderedBlock:
        """The block with its refs resolved into text."""
        ...


class Assembler(Protocol):
    """Puts messages and blocks together."""

    def assemble(
        self,
        messages: Sequence[Message],
        rendered_blocks: Sequence[RenderedBlock],
        model_hint: str | None = None,
    ) -> AssembledInput:
        """Parts by role: blocks first, then messages in order. Pure."""
        ...
