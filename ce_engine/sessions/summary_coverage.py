"""What the summaries of a session stand for: what of a line is still to be summarised, and who may read one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ce_engine.prepare.blocks.material import Material
from ce_engine.prepare.reconcile.earlier_lanes import EarlierLanes
from ce_engine.schema.enums import Origin, Priority, TurnStatus
from ce_engine.schema.message_forest import MessageForest
from ce_engine.schema.rows import SummaryRow
from ce_engine.sessions.view import SessionView


BROKEN_OFF = frozenset({TurnStatus.INCOMPLETE, TurnStatus.FAILED, TurnStatus.ABANDONED})


@dataclass(slots=True)
class Coverage:
    """A summary with the entries of the log that it stands for.

    Attributes:
        tips: the last covered entry of each lane, by the lane's root.
        entries: all covered entries, tool results and edits included.
    """

    row: SummaryRow
    tips: dict[int, int]
    entries: set[int]
    _checked: int = 0
    _void: bool = False

    def fits(self, log: MessageForest, question: int | None, earlier: EarlierLanes | None) -> bool:
        """Whether all that it stands for is on the reader's line.

        That is the path to `question`, and `earlier` lanes where they may be brought in. A summary of
        a branch that was left, or of something that the host has edited since, fits nobody.
        """
        if self._is_edited(log):
            return False
        own = None if question is None else log.root(question)
        for root, tip in self.tips.items():
            if root == own:
                end = question
            elif earlier is None or not _is_one_of(root, earlier):
                return False
            else:
                end = log.leaf(root)
            if end is None or not log.is_on_path(tip, end):
                return False
        return True

    def _is_edited(self, log: MessageForest) -> bool:
        for n in range(self._checked, len(log)):
            entry = log[n]
            if entry.aside and entry.replaces in self.entries and n not in self.entries:
                self._void = True
        self._checked = len(log)
        return self._void

    def whole(self, log: MessageForest) -> frozenset[int]:
        """Roots of lanes that it stands for to their end."""
        return frozenset(root for root, tip in self.tips.items() if log.leaf(root) == tip)


def standing(
    view: SessionView, question: int | None, earlier: Iterable[list[int]] | None = None
) -> Coverage | None:
    """The summary that stands for most of a reader's line, if there is one.

    Args:
        view: the session.
        question: the entry that is answered: the reader's path ends there.
        earlier: the lanes that may be brought in (`Reconciled.bring`); none where the host sends
            its history.
    """
    lanes = earlier if isinstance(earlier, EarlierLanes) else None
    coverages = [coverage_of(view, row) for row in view.summaries.values()]
    fitting = [c for c in coverages if c is not None and c.fits(view.log, question, lanes)]
    return max(fitting, key=lambda c: len(c.entries), default=None)


def covered(coverage: Coverage | None) -> frozenset[int]:
    """Entries of the log that a summary stands for: none of them goes out beside it."""
    return frozenset() if coverage is None else frozenset(coverage.entries)


def summary_material(coverage: Coverage | None) -> Material | None:
    """The summary as it may be put in (E-02)."""
    if coverage is None:
        return None
    row = coverage.row
    return Material(
        id=f"s:{row.anchor_message_id}",
        section="compression__context",
        text=row.summary.content,
        source="summary",
        priority=Priority.HIGH,
        at=row.summary.updated_at,
        evidence_id=row.evidence_id,
    )


def without_covered(lanes: EarlierLanes, coverage: Coverage | None) -> EarlierLanes:
    """The lanes of which something is not covered."""
    if coverage is None:
        return lanes
    return replace(lanes, without=lanes.without | coverage.whole(lanes.log))


def unbroken(view: SessionView, lane: Sequence[int]) -> Sequence[int]:
    """A lane without an answer that broke off at its end, and without what that answered (decision 14).

    An answer that is a picture alone cannot be brought back either.
    """
    rows = view.rows
    if not lane:
        return lane
    answer = rows[lane[-1]].message
    only_shows = answer.attachments and not answer.content
    if answer.status not in BROKEN_OFF and not only_shows:
        return lane
    last = next((k for k in range(len(lane) - 1, -1, -1) if rows[lane[k]].origin == Origin.TASK), 0)
    return lane[:last]


def uncovered(
    view: SessionView, tip: int, earlier: EarlierLanes | None, coverage: Coverage | None
) -> list[int]:
    """Entries of a line that no summary stands for yet, in order, tool results behind their calls.

    The newest edit stands in the place of what was edited. Steps of one invocation with several
    prompts are no history of each other.

    Args:
        view: the session.
        tip: the newest entry of the line.
        earlier: the lanes before its own, where the host sends no history.
        coverage: the summary that the line has.
    """
    log = view.log
    covered_entries = coverage.entries if coverage is not None else set[int]()
    entries: list[int] = []
    if earlier is not None:
        for lane in reversed(list(without_covered(earlier, coverage))):
            if not any(view.is_step(n, "") for n in lane):
                entries += unbroken(view, lane)
    forms = EarlierLanes(log)
    path = [
        m for n in _path_after(log, tip, covered_entries) for m in forms.group(forms.edits(n)[-1])
    ]
    return [n for n in (*entries, *unbroken(view, path)) if n not in covered_entries]


def tips_of(log: MessageForest, entries: Iterable[int], base: Coverage | None) -> list[int]:
    """What names all that is covered when `entries`, in order, are covered beside `base`.

    The last of each lane, and those that an edit brought.
    """
    tips = dict(base.tips) if base is not None else {}
    edits = {n for n in base.entries if log[n].aside} if base is not None else set[int]()
    for n in entries:
        entry = log[n]
        at = n if entry.role != "tool" or entry.parent is None else entry.parent
        while log[at].aside and (before := log[at].replaces) is not None:
            edits.add(at)
            at = before
        tips[log.root(at)] = at
    return [*sorted(edits), *tips.values()]


def coverage_of(view: SessionView, row: SummaryRow) -> Coverage | None:
    """The summary's coverage, found out once; `None` where some of it is not in the log."""
    old_coverage = view.coverages.get(row.anchor_message_id)
    if isinstance(old_coverage, Coverage) and old_coverage.row.tips == row.tips:
        old_coverage.row = row
        return old_coverage
    log = view.log
    positions = [log.by_message_id(name) for name in row.tips]
    ends = [n for n in positions if n is not None]
    if len(ends) < len(positions):
        return None
    coverage = Coverage(row, {}, set())
    for n in ends:
        path = [n] if log[n].aside else log.path(n)
        if not log[n].aside:
            coverage.tips[log.root(n)] = n
        coverage.entries.update(path, *(log.results(at) for at in path))
    view.coverages[row.anchor_message_id] = coverage
    return coverage


def _path_after(log: MessageForest, tip: int, covered_entries: set[int]) -> Iterator[int]:
    """The path to an entry from the first one that is not known; costs what it gives."""
    entries: list[int] = []
    n = tip
    while n >= 0 and n not in covered_entries:
        entries.append(n)
        n = log.parents[n]
    return reversed(entries)


def _is_one_of(root: int, lanes: EarlierLanes) -> bool:
    return root < lanes.before and lanes.log[root].lane_key == lanes.lane_key
