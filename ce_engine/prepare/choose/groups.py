"""The groups of a line as a pruner sees them: what they cost, what they say, and what becomes of them (A-10, A-11)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ce_engine.prepare.blocks.derive import conversation_blocks
from ce_engine.prepare.choose.pruner_guard import BlockFate
from ce_engine.prepare.compose.render import Locale, short_result
from ce_engine.prepare.compose.shorter_texts import ShorterText, may_be_shorter, speaking
from ce_engine.prepare.message_groups import MessageItem
from ce_engine.prepare.outcome import Outcome
from ce_engine.prepare.sources import CandidateSources
from ce_engine.schema.document import ContextBlock


class Groups:
    """The groups of one outcome's line; positions are among them."""

    def __init__(self, out: Outcome, sources: CandidateSources, locale: Locale) -> None:
        self.out = out
        self.sources = sources
        self.locale = locale
        self._short_texts: dict[int, tuple[str, int]] = {}
        self._positions: dict[str, int] = {}

    def short(self, item: MessageItem) -> tuple[str, int]:
        """A tool result's short form and its tokens; its own where that is no shorter."""
        form = self._short_texts.get(id(item))
        if form is None:
            text = self.sources.text(item)
            # The results of several calls are one text here: it cannot be told whose the rest was.
            whole = text if item.more_call_ids else ""
            short = whole or short_result(text, self.sources.evidence_of(item), self.locale)
            saved = max(0, self._saved(item, text, short))
            form = (short if saved else text, item.tokens - saved)
            self._short_texts[id(item)] = form
        return form

    def _saved(self, item: MessageItem, text: str, short: str) -> int:
        count, index = self.sources.count, -1 if item.index is None else item.index
        saved = count(text) - count(short) if short != text else 0
        return self.out.saved.setdefault(index, self.sources.saved.get(index, saved))

    def cost(self, position: int) -> int:
        """Tokens of a group, with its tool results in their short form where that goes out."""
        group = self.out.line.groups[position]
        if position not in self.out.cut.shortened:
            return group.tokens
        return sum(
            self.short(item)[1] if item.is_tool_result else item.tokens for item in group.items
        )

    def blocks(self, positions: Sequence[int]) -> list[ContextBlock]:
        """The groups at these positions as blocks."""
        groups = self.out.line.groups
        self._positions = {groups[position].anchor: position for position in reversed(positions)}
        return conversation_blocks(self.out.line, positions, self.cost, self._text)

    def price(self, block: ContextBlock) -> int:
        """Tokens of a group with the text of its block; of one that cannot be shorter those that it has."""
        position, count = self._positions[block.block_id], self.sources.count
        if self._may_be_shorter(position) is None:
            return block.token_estimate
        return self.cost(position) - count(self._text(position)) + count(block.content)

    def whole_entries(self) -> frozenset[int]:
        """Entries that go out whole."""
        cut = self.out.cut
        return frozenset(
            item.n
            for position, group in enumerate(self.out.line.groups)
            if position not in cut.dropped
            for item in group.items
            if item.n is not None and not (position in cut.shortened and item.is_tool_result)
        )

    def texts(self) -> Iterator[str]:
        """What goes out of the line, but for the task: as stored where it is, so that a replay reads the same."""
        line, sources = self.out.line, self.sources
        yield from map(sources.text, line.system)
        for position, group in enumerate(line.groups):
            if position not in self.out.cut.dropped and position != line.task:
                for item in group.items:
                    yield sources.text(item) if item.n is None else sources.message_of(item).content

    def prune(self, positions: Sequence[int], fates: Mapping[str, BlockFate]) -> None:
        """Leave out and shorten groups as the pruner chose; what follows on a question goes with it."""
        out, unasked = self.out, ""
        for position in positions:
            group, cost = out.line.groups[position], self.cost(position)
            fate = fates[group.anchor]
            decision = fate.decision
            if group.begins_turn:
                unasked = "" if fate.stays or group.must else decision.reason
            if group.must:
                continue
            if unasked or not fate.stays:
                out.cut.dropped.add(position)
                out.cut.tokens -= cost
                out.pruned[position] = unasked or decision.reason
            elif fate.text is not None and (item := self._may_be_shorter(position)) is not None:
                earlier_text, saved = out.shorter.get(item.key), cost - decision.token_estimate
                before = earlier_text.saved if earlier_text else 0
                out.shorter[item.key] = ShorterText(fate.text, decision.reason, saved + before)
                group.tokens -= saved
                out.cut.tokens -= saved

    def _may_be_shorter(self, position: int) -> MessageItem | None:
        """The message of a group that a pruner may shorten; what is in its short form stays so."""
        shortened = position in self.out.cut.shortened
        return None if shortened else may_be_shorter(self.out.line.groups[position])

    def _text(self, position: int) -> str:
        """The text of a group that says something alone: of a message, or of the result of a call."""
        item = speaking(self.out.line.groups[position])
        if item is None:
            return ""
        if position in self.out.cut.shortened and item.is_tool_result:
            return self.short(item)[0]
        shorter_text = self.out.shorter.get(item.key)
        return shorter_text.text if shorter_text is not None else self.sources.text(item)
