"""Messages and rendered blocks as one input: parts by role, and one text where a host needs that (A-12)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile

from ce_engine.ports.tokens import TokenEstimator
from ce_engine.prepare.blocks.material import LAYERS, SECTION_OF
from ce_engine.schema.call import Extend, Insert, Prepared, Restore, Shorten
from ce_engine.schema.document import Message
from ce_engine.schema.enums import BlockType, Layer, Priority, Role
from ce_engine.schema.report import AssembledInput, MessagePart, RenderedBlock
from ce_engine.text.quote import plain_name


_ORDER = {section: place for place, section in enumerate(LAYERS)}


class InputAssembler:
    """The default `Assembler`: one system part with all blocks in the fixed order (E-03), then the messages.

    Args:
        estimator: counts the whole.
        as_text: give the input as one text, too, each part under the name of its role.
    """

    def __init__(self, estimator: TokenEstimator, *, as_text: bool = False) -> None:
        self._estimator = estimator
        self._as_text = as_text

    def assemble(
        self,
        messages: Sequence[Message],
        rendered_blocks: Sequence[RenderedBlock],
        model_hint: str | None = None,
    ) -> AssembledInput:
        leading = list(takewhile(lambda message: message.role is Role.SYSTEM, messages))
        blocks = sorted(rendered_blocks, key=lambda block: _ORDER[SECTION_OF[block.block_type]])
        texts = [m.content for m in leading] + [block.rendered_content for block in blocks]
        system = "\n\n".join(text for text in texts if text)
        parts = [MessagePart(role=Role.SYSTEM, content=system)] if system else []
        parts += [MessagePart(role=m.role, content=m.content) for m in messages[len(leading) :]]
        counted = [Message(role=part.role, content=part.content) for part in parts]
        return AssembledInput(
            parts=parts,
            text=as_text(parts) if self._as_text else None,
            total_tokens=self._estimator.estimate_messages(counted, model_hint),
        )


_BLOCK_OF = {
    Layer.RULES: BlockType.INSTRUCTION,
    Layer.SETTINGS: BlockType.MEMORY,
    Layer.RETRIEVED: BlockType.EVIDENCE,
    Layer.IMMEDIATE: BlockType.STATE,
}


def messages_and_blocks(
    prepared: Prepared, estimator: TokenEstimator
) -> tuple[list[Message], list[RenderedBlock]]:
    """A plan as what an `Assembler` takes: the messages that go out, in order, and what is put in.

    What stands before a message's own text, fenced as data, is a block of its own here.
    """
    hint = prepared.call.model_hint
    messages: list[Message] = []
    blocks: list[RenderedBlock] = []

    def block(text: str, layer: Layer, name: str) -> None:
        rendered_block = RenderedBlock(
            block_id=name,
            block_type=_BLOCK_OF[layer],
            priority=Priority.HIGH,
            rendered_content=text,
            token_estimate=estimator.estimate_text(text, hint),
        )
        blocks.append(rendered_block)

    for step in prepared.plan:
        if isinstance(step, Insert):
            block(step.text, step.layer, ",".join(step.block_ids))
        elif isinstance(step, Restore):
            if step.before:
                block(step.before, Layer.RETRIEVED, step.message.message_id or "")
            messages.append(step.message)
        else:
            message = prepared.call.messages[step.index].message
            if isinstance(step, Extend):
                block(step.text, Layer.RETRIEVED, f"#{step.index}")
            elif isinstance(step, Shorten):
                message = message.model_copy(update={"content": step.text})
            messages.append(message)
    return messages, blocks


_BREAK = re.compile(r"([\n\v\f\r\x1c-\x1e\x85\u2028\u2029])")
_HEAD = re.compile(r"[^:\uff1a\ufe55\ufe13]*+(?=[:\uff1a\ufe55\ufe13])")
_ROLES = frozenset(role.value for role in Role)


def _poses(line: str) -> bool:
    """Say whether a line reads as if a part began there, whatever stands in it that nobody sees."""
    head = _HEAD.match(line)
    return head is not None and plain_name(head[0]) in _ROLES


def as_text(parts: Sequence[MessagePart]) -> str:
    """An input as one text, for hosts and providers that take no messages.

    A line inside a part that begins as a part does is marked: nobody speaks for another role.
    """
    return "\n\n".join(f"{part.role}: {_marked(part.content)}" for part in parts)


def _marked(text: str) -> str:
    first, *more = _BREAK.split(text)
    if not any(map(_poses, more)):
        return text
    return first + "".join(f"| {piece}" if _poses(piece) else piece for piece in more)
