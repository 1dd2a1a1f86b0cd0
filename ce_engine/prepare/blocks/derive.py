"""Context blocks for what of the line is above the cut (A-10)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ce_engine.prepare.message_groups import MessageLine
from ce_engine.schema.document import ContextBlock
from ce_engine.schema.enums import BlockType, Priority


def conversation_blocks(
    line: MessageLine,
    positions: Sequence[int],
    cost: Callable[[int], int],
    text: Callable[[int], str],
) -> list[ContextBlock]:
    """One block a group, oldest first: what may never be out is `must`, the rest falls with age.

    Their content is the `text` that may be shortened.
    """
    newest_half = len(positions) // 2
    blocks = []
    for rank, position in enumerate(positions):
        group = line.groups[position]
        aged = Priority.HIGH if rank >= newest_half else Priority.MEDIUM
        blocks.append(
            ContextBlock(
                block_id=group.anchor,
                block_type=BlockType.CONVERSATION,
                priority=Priority.MUST if group.must else aged,
                token_estimate=cost(position),
                content=text(position),
            )
        )
    return blocks
