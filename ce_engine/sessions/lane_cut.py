"""The standing cut of a lane: where it is in a line, what it leaves out, and how it is remembered (decision 8)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ce_engine.prepare.choose.cut import CutMarks
from ce_engine.prepare.message_groups import BelowCut, MessageItem, MessageLine, below_cut
from ce_engine.schema.rows import CutMark, PutCut
from ce_engine.sessions.view import SessionView


@dataclass(frozen=True, slots=True)
class LaneCut:
    """The cuts that a session has of one lane; `counted_by` is the counter's name."""

    view: SessionView
    lane_key: str
    counted_by: str

    def known_below(self) -> BelowCut | None:
        """What the cut leaves out of the host's list, where that was found out before."""
        below = self.view.lane(self.lane_key).below
        return below if below is not None and below.counted_by == self.counted_by else None

    def marks(self, items: Sequence[MessageItem], below: BelowCut | None) -> CutMarks:
        """Of each kind of cut the deepest anchor that is in the line."""
        pins = self.view.lane(self.lane_key).pins
        standing = [mark for mark in self.view.cuts.values() if mark.lane_key == self.lane_key]
        if not standing:
            return CutMarks(below=below, pins=pins)
        at = {item.message_id: position for position, item in enumerate(items)}
        best: dict[str, CutMark] = {}
        for mark in standing:
            if mark.anchor_message_id not in at:
                continue
            best_mark = best.get(mark.kind)
            if best_mark is None or at[mark.anchor_message_id] > at[best_mark.anchor_message_id]:
                best[mark.kind] = mark
        drop, shorten = best.get("drop"), best.get("shorten")
        return CutMarks(
            drop.anchor_message_id if drop else None,
            shorten.anchor_message_id if shorten else None,
            max((mark.budget for mark in best.values()), default=0),
            below,
            pins,
        )

    def moved(self, marks: CutMarks, before: CutMarks, now: str) -> Iterator[PutCut]:
        """Remember a cut in the place of the one before; what is to be stored of it."""
        for kind, anchor, old in (
            ("drop", marks.drop, before.drop),
            ("shorten", marks.shorten, before.shorten),
        ):
            if anchor is None or anchor == old:
                continue
            mark = CutMark(self.lane_key, kind, anchor, marks.budget, now)
            if old is not None:
                self.view.cuts.pop((self.lane_key, kind, old), None)
            self.view.cuts[self.lane_key, kind, anchor] = mark
            yield PutCut(mark, old)

    def learn_below(
        self,
        line: MessageLine,
        drop: str | None,
        saved: Callable[[MessageItem], int],
        alone: Callable[[MessageItem], int],
    ) -> BelowCut | None:
        """Keep what the cut at `drop` leaves out of a line: the next call need not look at it."""
        below = below_cut(line, drop, self.counted_by, saved, alone) if drop else None
        if below is not None:
            self.view.lane(self.lane_key).below = below
        return below

    def check_below(self, places: Sequence[int | None], prefix: Sequence[int | None]) -> None:
        """Forget what was left out where the list does not begin with the same messages any more.

        Args:
            places: where the messages of the list sit.
            prefix: the same of its leading messages that are the very ones of the list before.
        """
        lane = self.view.lane(self.lane_key)
        if lane.below and (lane.below.end > len(prefix) or list(places[: len(prefix)]) != prefix):
            lane.below = None
