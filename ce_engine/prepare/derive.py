"""Context blocks for the candidates: what is above the cut, and what relevance nominates (A-10)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ce_engine.prepare.line import Line
from ce_engine.schema.document import ContextBlock, Ref
from ce_engine.schema.enums import BlockType, Priority


def conversation_blocks(
    line: Line, positions: Sequence[int], cost: Callable[[int], int]
) -> list[ContextBlock]:
    """One block a group, oldest first: what may never be out is `must`, the rest falls with age."""
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
            )
        )
    return blocks


def evidence_block(block_id: str, evidence_id: str, tokens: int, at: str) -> ContextBlock:
    """A block for something earlier that is relevant again."""
    return ContextBlock(
        block_id=block_id,
        block_type=BlockType.EVIDENCE if evidence_id else BlockType.CONVERSATION,
        priority=Priority.LOW,
        token_estimate=tokens,
        refs=[Ref(evidence_id=evidence_id)] if evidence_id else [],
        created_at=at or None,
    )
