"""What was decided about the line, told as runs: neighbours of one fate are one decision (A-17, decision 3)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import groupby
from operator import itemgetter

from ce_engine.prepare.choose.cut import Cut
from ce_engine.prepare.message_groups import MessageItem, MessageLine
from ce_engine.prepare.outcome import Outcome
from ce_engine.schema.enums import Origin
from ce_engine.schema.report import PruneDecision


def decisions(
    out: Outcome, pinned: Collection[str], cost: Callable[[int], int]
) -> list[PruneDecision]:
    """Tell what became of every group and of every result without a call.

    Args:
        out: what the stages made of a line.
        pinned: groups that stay for what stands before them, by their anchors.
        cost: tokens of a group as it goes out, by position; of one that is left out counts what it would take by itself.
    """
    line, shorter = out.line, out.shorter
    fates = [_fate(out, position, pinned) for position in range(len(line.groups))]
    prune_decisions: list[PruneDecision] = []
    if below := line.below:
        prune_decisions.append(
            PruneDecision(
                block_id=below.anchor,
                action="dropped",
                reason="below_cut",
                count=below.groups,
                token_estimate=below.alone,
            )
        )
    for (action, reason), run in groupby(enumerate(fates), key=itemgetter(1)):
        positions = [position for position, _ in run]
        decision = PruneDecision(
            block_id=line.groups[positions[0]].anchor or f"#{positions[0]}",
            action=action,
            reason=reason,
            count=len(positions),
            token_estimate=sum(map(_alone(out) if action == "dropped" else cost, positions)),
        )
        if prune_decisions and (prune_decisions[-1].action, prune_decisions[-1].reason) == (
            action,
            reason,
        ):
            prune_decisions[-1].count += decision.count
            prune_decisions[-1].token_estimate += decision.token_estimate
        else:
            prune_decisions.append(decision)
    prune_decisions += (
        _make_decision(item, "degraded", shorter[item.key].reason, shorter[item.key].saved)
        for item in line.system
        if item.key in shorter
    )
    prune_decisions += (_make_decision(orphan, "dropped", _why(orphan)) for orphan in line.orphans)
    return prune_decisions


def _alone(out: Outcome) -> Callable[[int], int]:
    """What tells the tokens that a group's messages would take, each by itself, by position."""
    return lambda position: sum(map(out.alone_of, out.line.groups[position].items))


def _make_decision(item: MessageItem, action: str, reason: str, saved: int = 0) -> PruneDecision:
    return PruneDecision(
        block_id=item.message_id or f"#{item.index}",
        action=action,
        reason=reason,
        token_estimate=item.tokens - saved,
    )


def _why(orphan: MessageItem) -> str:
    if orphan.origin is Origin.SYSTEM:
        return "repeated_system_message"
    return "orphaned_tool_result" if orphan.is_tool_result else "unanswered_tool_call"


def _fate(out: Outcome, position: int, pinned: Collection[str]) -> tuple[str, str]:
    """What became of a group, and why."""
    line, cut, shorter = out.line, out.cut, out.shorter
    group, was_cut = line.groups[position], bool(cut.dropped or line.below)
    if position in out.pruned:
        return "dropped", out.pruned[position]
    if position in cut.dropped:
        return "dropped", "below_cut" if group.past else "older_step_of_this_turn"
    if position in cut.shortened:
        return "degraded", "older_tool_result"
    for item in group.items if shorter else ():
        if item.key in shorter:
            return "degraded", shorter[item.key].reason
    if group.must and was_cut:
        return "kept", "pinned" if group.anchor in pinned else "never_out"
    return "kept", "fits"


def steps_left_out(
    line: MessageLine, cut: Cut, evidence_of: Callable[[MessageItem], str]
) -> list[list[str]]:
    """The steps of the current turn that are left out: of each the evidence of its results."""
    groups = (line.groups[position] for position in sorted(cut.dropped))
    return [
        [evidence_id for evidence_id in map(evidence_of, group.items[1:]) if evidence_id]
        for group in groups
        if not group.past and len(group.items) > 1
    ]
