"""What was said before and the host does not send: stored messages, newest first, and the summary of older ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, takewhile

from ce_engine.prepare.blocks.material import Material
from ce_engine.prepare.choose.budget import Limit
from ce_engine.prepare.grouping import answers
from ce_engine.prepare.message_groups import BelowCut, MessageItem
from ce_engine.prepare.reconcile.earlier_lanes import EarlierLanes
from ce_engine.schema.call import HostMessage, ModelCall
from ce_engine.schema.enums import Origin, Role
from ce_engine.schema.rows import MessageRow, SummaryRow
from ce_engine.sessions.summary_coverage import (
    Coverage,
    covered,
    standing,
    summary_material,
    unbroken,
    without_covered,
)
from ce_engine.sessions.view import SessionView
from ce_engine.text.tokens.call_tokens import Counter


MAX_RECALLED_LANES = 10_000
"""Earlier lanes whose messages relevance may choose from."""


@dataclass(slots=True)
class History:
    """Earlier messages for one call (decision 7). No human message is in it that its summary covers.

    Attributes:
        lanes: the earlier lanes that may be brought in, newest first; none where the host sends its
            history.
        question: the entry that is answered.
        items: the stored messages to bring in, in order.
        summary: what stands for those before them, if there is a summary.
        stood: what stood for what the cut left out of the host's own list.
        sent: the entries that the host's list has.
        known_items: items of the messages that the list begins with as the one before, by index.
        keeps: whether the items are kept for the lane's next list.
    """

    view: SessionView
    call: ModelCall
    counter: Counter
    lanes: Iterable[list[int]] = ()
    question: int | None = None
    items: list[MessageItem] = field(default_factory=list)
    summary: Material | None = None
    stood: SummaryRow | None = None
    sent: frozenset[int] = frozenset()
    known_items: dict[int, MessageItem] = field(default_factory=dict)
    keeps: bool = False

    @property
    def is_brought_in(self) -> bool:
        """Whether the host leaves it to the engine to remember."""
        return isinstance(self.lanes, EarlierLanes) and self.call.restore

    def bring_in(self, bound: Limit) -> None:
        """Stored history where the host sent none: newest lanes first, as much as may go out."""
        lanes = self.lanes
        self.items.clear()  # what is chosen once more begins anew
        if not isinstance(lanes, EarlierLanes) or not self.is_brought_in:
            return
        room = bound.inject
        if bound.tokens is None:  # nothing is pruned later, so the host's own list counts as well
            room -= sum(self.counter.host(host) for host in self.call.messages)
        coverage = standing(self.view, self.question, lanes)
        self.summary = summary_material(coverage)
        if self.summary is not None:
            room -= self.counter.text(self.summary.text)
        if room < 0 and bound.tokens is None:
            self.summary = None
            return
        self._take(without_covered(lanes, coverage), coverage, room, bound)

    def _take(
        self, lanes: EarlierLanes, coverage: Coverage | None, room: int, bound: Limit
    ) -> None:
        covered_entries = covered(coverage)
        for lane in lanes:
            if any(self.view.is_step(n, self.call.request_id) for n in lane):
                continue
            left = (n for n in unbroken(self.view, lane) if n not in covered_entries)
            items = [item for n in left if (item := self._item(n)) is not None]
            room -= sum(item.tokens for item in items)
            if room < 0 and bound.tokens is None:
                return
            self.items[:0] = items
            if room < 0:
                return

    def _item(self, n: int) -> MessageItem | None:
        """A stored message as an item; what is withheld or empty is not brought in.

        Tool calls and results come back by hand alone: elsewhere they are the steps of another run.
        """
        row, entry = self.view.rows[n], self.view.log.entries[n]
        is_result = entry.role == "tool"
        if (is_result or entry.calls) and not self.call.by_hand:
            return None
        items = self.view.items_of(self.counter.name)
        item = items.get(n)
        says = row.message.content or entry.calls or is_result
        if item is None and entry.role != "system" and not row.withheld and says:
            item = items[n] = MessageItem(
                Origin(row.origin),
                self._tokens(row),
                None,
                n,
                entry.message_id,
                tuple(entry.calls),
                entry.call_id if is_result else None,
                is_tool_result=is_result,
            )
        return item

    def _tokens(self, row: MessageRow) -> int:
        is_counted = row.counted_by == self.counter.name
        return row.tokens if is_counted else self.counter.message(row.message)

    def line(
        self, places: Sequence[int | None], below: BelowCut | None = None
    ) -> list[MessageItem]:
        """The call's messages, at their `places` in the log, with those that are brought in."""
        self.sent = frozenset(place for place in places if place is not None)
        end = len(self.call.messages)
        parts = [range(end)] if below is None else [range(below.start), range(below.end, end)]
        items = self._host_items([*chain(*parts)], places)
        if [item for item in items if item.calls]:
            items = self.answered(items)
        if not self.items:
            return items
        leading = sum(1 for _ in takewhile(lambda item: item.origin is Origin.SYSTEM, items))
        return [*items[:leading], *self.items, *items[leading:]]

    def _host_items(
        self, indexes: Sequence[int], places: Sequence[int | None]
    ) -> list[MessageItem]:
        """The host's messages as items; the same ones of those that the list before began with."""
        messages, old_items = self.call.messages, self.known_items
        new_items = {
            n: self._host_item(messages[n], n, places[n]) for n in indexes if n not in old_items
        }
        items = [old_items.get(n) or new_items[n] for n in indexes]
        if self.keeps:  # but for files, whose cost is told each time where it is a guess
            old_items |= (
                (n, item)
                for n, item in new_items.items()
                if item.n is not None and not messages[n].attachments
            )
            self.view.lane(self.call.lane_key or "").items = old_items
        return items

    def _host_item(self, host: HostMessage, index: int, place: int | None) -> MessageItem:
        message, calls = host.message, host.message.tool_calls
        return MessageItem(
            host.origin,
            self.counter.host(host),
            index,
            place,
            f"#{index}" if place is None else self.view.log[place].message_id,
            tuple(call.id or "" for call in calls) if calls else (),
            message.tool_call_id,
            message.role is Role.TOOL,
            host.error,
            host.protected,
            host.more_call_ids,
        )

    def answered(self, items: Sequence[MessageItem]) -> list[MessageItem]:
        """The host's list, with the results that are stored of calls whose results it left out.

        Providers refuse a call without its results; hosts that keep so many tokens may make one.
        """
        whole_list: list[MessageItem] = []
        missing: list[str] = []
        call = None
        for item in items:
            if item.is_tool_result:
                answers(item, missing)
            elif item.origin is not Origin.SYSTEM:
                whole_list += self._results(call, missing)
                # Ids that are none, or stand twice, do not tell which result is missing.
                tells = all(item.calls) and len(set(item.calls)) == len(item.calls)
                missing, call = list(item.calls), item.n if tells else None
            whole_list.append(item)
        return [*whole_list, *self._results(call, missing)]

    def _results(self, call: int | None, missing: Sequence[str]) -> Iterator[MessageItem]:
        log, rows = self.view.log, self.view.rows
        result_entries = log.results(call) if call is not None and missing else ()
        entry_by_call = {log[n].call_id: n for n in result_entries if not rows[n].withheld}
        if not entry_by_call.keys() >= set(missing):
            return  # half of them would not help
        for call_id in missing:
            n = entry_by_call[call_id]
            tokens, origin = self._tokens(rows[n]), Origin(rows[n].origin)
            name = log[n].message_id
            yield MessageItem(origin, tokens, None, n, name, (), call_id, is_tool_result=True)

    def may_recall(self, n: int) -> bool:
        """Whether an entry is on the reader's line: on the path to the question, or in an earlier lane.

        An earlier lane was never in this list: it counts only where history is asked for. Tool results
        are where their calls are. What a colleague said is on the path, and behind it the calls and results
        that it came by: these are the colleague's own, but where this list has them, too.
        """
        log = self.view.log
        at = log.parents[n] if log[n].role == "tool" else n
        if self.question is not None and at >= 0 and log.is_on_path(at, self.question):
            return n in self.sent or not self._is_colleagues_step(n)
        lanes, root = self.lanes, log.root(n)
        if not isinstance(lanes, EarlierLanes) or not self.call.restore:
            return False
        if self.view.is_step(n, self.call.request_id):  # of this run, or of one with several calls
            return False
        if not lanes.has(root, MAX_RECALLED_LANES):
            return False
        lane = unbroken(self.view, lanes.answered(root))
        return n in lane or at in lane

    def _is_colleagues_step(self, n: int) -> bool:
        """Whether an entry is a tool's result of another lane, or its call."""
        view, log = self.view, self.view.log
        results = [n] if log[n].role == "tool" else log.results(n) if log[n].calls else ()
        names = (view.by_message.get(log[each].message_id) for each in results)
        lanes = {view.evidence[name].lane_key for name in names if name is not None}
        return bool(lanes) and lanes.isdisjoint({"", self.call.lane_key or ""})

    def documents(self) -> frozenset[str]:
        """The evidence that answers on the path to the question rest on: what this list had of it."""
        if self.question is None:
            return frozenset()
        rows = self.view.rows
        refs = (rows[n].message.refs or () for n in self.view.log.path(self.question))
        return frozenset(ref.evidence_id for message_refs in refs for ref in message_refs)

    def stands_for(self, gone_entries: frozenset[int]) -> Material | None:
        """The summary of what the cut left out of the host's own list, if there is one.

        It goes in for the sake of what is gone alone: what it covers and the host still sends needs none.
        So the one that stood there stays, and the prefix with it, until a newer one says more of that.
        """
        if self.is_brought_in or self.question is None:
            return None
        lane = self.view.lane(self.call.lane_key or "")
        coverage, last_coverage = standing(self.view, self.question), lane.summary
        if coverage is None or not gone_entries & coverage.entries:
            return None
        if (
            isinstance(last_coverage, Coverage)
            and last_coverage.fits(self.view.log, self.question, None)
            and gone_entries & coverage.entries <= last_coverage.entries
        ):
            coverage = last_coverage
        lane.summary, self.stood = coverage, coverage.row
        return summary_material(coverage)
