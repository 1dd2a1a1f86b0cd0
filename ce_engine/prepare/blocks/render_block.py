"""Text of a block: its refs resolved, in a format, within a length (A-12)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ce_engine.errors import EvidenceNotFoundError, SchemaValidationError, SelectorResolveError
from ce_engine.ports.rendering import EvidenceResolver, RenderHints
from ce_engine.ports.tokens import TokenEstimator
from ce_engine.schema.document import ContextBlock
from ce_engine.schema.ids import short_id
from ce_engine.schema.report import RenderedBlock
from ce_engine.text.beginning import cut


_EVIDENCE = {"en": "evidence", "zh": "证据"}


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a block's text, and the evidence that it is from, if any."""

    text: str
    evidence_id: str = ""
    selector: str = ""


def _as_text(_: ContextBlock, parts: Sequence[Part], most: int | None, locale: str) -> str:
    text = "\n\n".join(part.text for part in parts)
    return text if most is None else cut(text, most, locale)


def _as_markdown(_: ContextBlock, parts: Sequence[Part], most: int | None, locale: str) -> str:
    """What is from evidence as a quotation that names it."""
    quoted = []
    for part in parts:
        if not part.evidence_id:
            quoted.append(part.text)
            continue
        lines = "\n".join(f"> {line}".rstrip() for line in part.text.splitlines())
        where = f", {part.selector}" if part.selector else ""
        quoted.append(f"{lines}\n> — {_EVIDENCE[locale]} {short_id(part.evidence_id)}{where}")
    text = "\n\n".join(quoted)
    return text if most is None else cut(text, most, locale)


def _as_json(block: ContextBlock, parts: Sequence[Part], most: int | None, locale: str) -> str:
    """One object that always can be parsed: texts are cut inside it, and its frame always stays."""
    text = _json(block, parts)
    if most is None or len(text) <= most:
        return text

    def within(room: int) -> str:
        return _json(block, [replace(part, text=cut(part.text, room, locale)) for part in parts])

    fits, too_long = 0, max(len(part.text) for part in parts)
    while too_long - fits > 1:
        room = (fits + too_long) // 2
        fits, too_long = (room, too_long) if len(within(room)) <= most else (fits, room)
    return within(fits)


def _json(block: ContextBlock, parts: Sequence[Part]) -> str:
    entries = [
        {"text": p.text}
        | ({"evidence_id": p.evidence_id} if p.evidence_id else {})
        | ({"selector": p.selector} if p.selector else {})
        for p in parts
    ]
    value = {"block_id": block.block_id, "block_type": str(block.block_type), "parts": entries}
    return json.dumps(value, ensure_ascii=False)


_Format = Callable[[ContextBlock, Sequence[Part], int | None, str], str]
FORMATS: Mapping[str, _Format] = {"text": _as_text, "markdown": _as_markdown, "json": _as_json}


class BlockRenderer:
    """The default `Renderer`: what the refs point to, and the block's own content where that is not to be had.

    Each ref that cannot be resolved leaves its code in `RenderedBlock.degradations`; the others stand.
    """

    def __init__(
        self, estimator: TokenEstimator, *, locale: str = "en", model_hint: str | None = None
    ) -> None:
        self._estimator = estimator
        self._locale = locale
        self._model = model_hint

    async def render_block(
        self, block: ContextBlock, resolver: EvidenceResolver, hints: RenderHints | None = None
    ) -> RenderedBlock:
        """The block as text.

        Raises:
            SchemaValidationError: `hints.format` is no known one.
        """
        hints = hints or RenderHints()
        form = FORMATS.get(hints.format)
        if form is None:
            raise SchemaValidationError(
                f"format {hints.format!r} is not known; expected one of {', '.join(FORMATS)}"
            )
        parts, codes = await self._resolved(block, resolver)
        if not parts and block.content:
            parts = [Part(block.content)]
        text = form(block, parts, hints.max_chars, self._locale) if parts else ""
        return RenderedBlock(
            block_id=block.block_id,
            block_type=block.block_type,
            priority=block.priority,
            rendered_content=text,
            token_estimate=self._estimator.estimate_text(text, self._model),
            degradations=codes,
        )

    async def _resolved(
        self, block: ContextBlock, resolver: EvidenceResolver
    ) -> tuple[list[Part], list[str]]:
        parts: list[Part] = []
        codes: list[str] = []
        for ref in block.refs:
            try:
                text = await resolver.resolve(ref.evidence_id, ref.selector)
            except (EvidenceNotFoundError, SelectorResolveError) as error:
                codes.append(error.code)
                continue
            if text:
                parts.append(Part(text, ref.evidence_id, ref.selector or ""))
            else:  # its content was withheld or deleted
                codes.append(EvidenceNotFoundError.code)
        return parts, list(dict.fromkeys(codes))
