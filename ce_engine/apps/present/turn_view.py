"""One turn as a person looks at it: what the app gave, what was decided on each piece and why, what went out."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from ce_engine.apps.present.html_text import Piece, difference
from ce_engine.apps.present.language import ENGLISH, Say
from ce_engine.apps.present.links import Links
from ce_engine.apps.present.reasons import NEVER_OUT, Reasons, moved_in
from ce_engine.apps.present.rules_out import said_of_rules
from ce_engine.apps.present.vocabulary import attachment_words
from ce_engine.audit.places.message_places import (
    ALONE,
    LEFT_OUT,
    QUOTED,
    QUOTED_PART,
    SENT,
    SHORTENED,
)
from ce_engine.audit.places.recorded_choice import RecordedChoice
from ce_engine.audit.rules_sent import GONE
from ce_engine.schema.document import Message
from ce_engine.schema.enums import Role
from ce_engine.schema.replay import (
    BroughtIn,
    Explanation,
    PassedOver,
    Replay,
    Sent,
    SentPart,
)
from ce_engine.schema.report import PruneDecision, Report


DROPPED = "dropped"
KEPT = "kept"
EXTENDED, INJECTED, RESTORED, SHORTER = "extended", "injected", "restored", "shortened"
"""What became of a message."""

_ACTIONS = {
    SENT: KEPT,
    SHORTENED: SHORTER,
    QUOTED: DROPPED,
    QUOTED_PART: DROPPED,
    LEFT_OUT: DROPPED,
}

FOLDED_FROM = 4
"""Neighbours that are left out alike stand folded together from so many on."""

UNTOUCHED = (KEPT, "")


@dataclass(slots=True)
class Row:
    """One message of a turn, on its way from the app to the model.

    Attributes:
        index: its place in the app's list; `None` of what the app did not give.
        action: what became of it.
        reason: why, a key of `reasons.WHY`.
        tokens: as it went out, else what it would take as a message.
        message: as it is stored; `None` of a system message, which never is, and of a text put in.
        text: what the app gave, as it is stored, redacted.
        sent_text: what went out; `""` where it is the same text or none.
        pieces: the difference between both, where there is one.
        calls: the tool calls that it asks for, in words.
        score: how relevant it was to the question, where that was looked at.
        why: in a sentence, what became of it.
        passed_over: why it was not brought back, where it was looked at.
        not_recalled: why it was not brought back, in a sentence, where it was left out.
        brought_in: what was brought in of it, where it was.
        stands_before: id of the earlier question that it stands quoted before, though it is no message of its own.
        stands_in_part: only its best sentences stand there.
        turn: the turn that gave it as its answer.
        evidence: what it is stored as, or quotes.
        attachments: labels of pictures and files.
        has_failed: whether it is the result of a tool that failed.
    """

    index: int | None
    role: Role
    action: str
    reason: tuple[str, str]
    tokens: int
    message: Message | None = None
    why: str = ""
    not_recalled: str = ""
    text: str = ""
    sent_text: str = ""
    pieces: list[Piece] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    passed_over: PassedOver | None = None
    brought_in: BroughtIn | None = None
    stands_before: str = ""
    stands_in_part: bool = False
    turn: int | None = None
    evidence: list[str] = field(default_factory=list)
    attachments: list[str] = field(default_factory=list)
    has_failed: bool = False

    @property
    def is_out(self) -> bool:
        return self.action == DROPPED

    @property
    def is_quoted(self) -> bool:
        """Whether it went out though it is left out as a message: in what was brought in."""
        return self.is_out and bool(self.brought_in or self.stands_before)

    @property
    def is_in_part(self) -> bool:
        """Whether only the best sentences of it are quoted."""
        return self.brought_in.is_part if self.brought_in else self.stands_in_part

    @property
    def is_unstored(self) -> bool:
        """Whether it is a message of which no text is ever stored."""
        return self.role is Role.SYSTEM and not self.text

    @property
    def is_gone(self) -> bool:
        """Whether there was a text that is not there any more."""
        content = self.text or self.calls or self.attachments
        return self.message is not None and not content and self.role is not Role.SYSTEM

    def has(self, text: str) -> bool:
        """Whether a text stands in it, whatever the case of its letters."""
        texts = [self.text, self.sent_text, *self.calls, *self.attachments]
        return any(text.casefold() in candidate.casefold() for candidate in texts)


@dataclass(slots=True)
class Fold:
    """Neighbours that are left out for the same reason."""

    rows: list[Row]

    @property
    def reason(self) -> tuple[str, str]:
        return self.rows[0].reason

    @property
    def why(self) -> str:
        return self.rows[0].why

    @property
    def tokens(self) -> int:
        return sum(row.tokens for row in self.rows)

    @property
    def quoted(self) -> int:
        """How many of them went out in what was brought in."""
        return sum(row.is_quoted for row in self.rows)


def turn_rows(
    replay: Replay,
    recall: Explanation | None,
    report: Report,
    links: Links,
    say: Say = ENGLISH,
    recorded: RecordedChoice | None = None,
) -> list[Row]:
    """The messages of a turn in their order, with what became of each and why.

    Args:
        replay: its input, made again.
        recall: what was brought in for it, and what was passed over.
        report: as it is stored.
        links: of the session.
        say: the language of what is said of calls and attachments.
        recorded: what the turn did by its record, where it could not be made again as it was: that counts then, and `recall` is
            the record's, too.
    """
    messages = {m.message_id: m for m in links.document.session.messages if m.message_id}
    parts = in_order(replay.sent, messages)
    fates = Fates(report.prune_decisions, [part.message_id for part in parts])
    passed_over = {piece.id: piece for piece in recall.passed_over} if recall else {}
    brought_in = {piece.id: piece for piece in recall.brought_in} if recall else {}
    rows = [_row(part, messages, fates, links, passed_over, brought_in, say) for part in parts]
    if recorded is not None:
        rows = [as_recorded(row, recorded) for row in rows if row.action != INJECTED]
    _note_standing(rows, standing_before(recall), standing_in_part(recall))
    _count_rules(rows, replay, report)
    room_taken = recall.taken if recall else None
    reasons = Reasons(report, moved_in(links.turns, replay.turn), say, room_taken)
    for row, reason in zip(rows, exact_reasons(rows), strict=True):
        row.why = reasons.of(reason)
        if row.passed_over:
            row.not_recalled = reasons.passed(row.passed_over)
        elif row.is_out and not row.is_quoted:
            row.not_recalled = reasons.not_recalled()
    return rows


def as_recorded(row: Row, choice: RecordedChoice) -> Row:
    """A row as the turn's record has it; how a text was changed on its way is in that only of quotes."""
    name = (row.message.message_id or "") if row.message else ""
    fate = choice.fates.get(name)
    if fate is None or (fate == SENT and row.action in (KEPT, RESTORED)):
        return row
    is_extended = fate == SENT and row.action == EXTENDED
    action = EXTENDED if is_extended else _ACTIONS[fate]
    if action == row.action and not (is_extended and name not in choice.quotes):
        return row
    return replace(row, action=action, sent_text="", pieces=[])


def standing_before(recall: Explanation | None) -> dict[str, str]:
    """What was brought in before and stands where it was sent: by its id the question that it stands before."""
    return {name: group.asked for group in recall.earlier for name in group.ids} if recall else {}


def standing_in_part(recall: Explanation | None) -> frozenset[str]:
    """What of that stands there only in part: nowhere whole."""
    if recall is None:
        return frozenset()
    whole = {name for group in recall.earlier for name in group.ids if name not in group.parts}
    return frozenset(name for group in recall.earlier for name in group.parts) - whole


def _note_standing(
    rows: Sequence[Row], standing: Mapping[str, str], in_part: Collection[str]
) -> None:
    """Note of rows that are left out what of them stands quoted all the same; of a result it may be its evidence."""
    for row in rows:
        if not (row.is_out and row.message is not None):
            continue
        own = row.evidence if row.role is Role.TOOL else []
        names = [row.message.message_id or "", *own]
        there = next((name for name in names if name in standing), None)
        if there is not None:
            row.stands_before, row.stands_in_part = standing[there], there in in_part


def _count_rules(rows: Sequence[Row], replay: Replay, report: Report) -> None:
    """Where the text of a rule is not there, count the system's message with its rules as it was counted then."""
    texts = [part.content for part in replay.sent.parts if part.role is Role.SYSTEM]
    system = [row for row in rows if row.role is Role.SYSTEM and not row.is_out]
    payload = report.payload_tokens
    if len(system) == 1 and any(marker in text for text in texts for marker in GONE):
        system[0].tokens = payload.get("system", 0) + payload.get("rules", 0)


def exact_reasons(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """The reasons of rows, of what is never left out by what it is in this turn."""
    newest = max((n for n, row in enumerate(rows) if row.message is not None), default=-1)
    stays = [n for n, row in enumerate(rows) if row.reason == NEVER_OUT]
    question = max((n for n in stays if rows[n].role is Role.USER), default=-1)
    results = [n for n in stays if n > question and (rows[n].calls or rows[n].role is Role.TOOL)]
    exact = dict.fromkeys(results, "newest_results") | {newest: "newest", question: "question"}
    return [
        (KEPT, exact.get(n, row.reason[1])) if row.reason == NEVER_OUT else row.reason
        for n, row in enumerate(rows)
    ]


def folded(rows: Sequence[Row]) -> list[Row | Fold]:
    """The rows, those together that are left out side by side and alike."""
    entries: list[Row | Fold] = []
    for (is_out, _), run in groupby(rows, key=lambda row: (row.is_out, row.reason)):
        group = list(run)
        entries += [Fold(group)] if is_out and len(group) >= FOLDED_FROM else group
    return entries


def in_order(prompt: Sent, messages: Mapping[str, Message]) -> list[SentPart]:
    """What went out and what did not, as it stands in the list: by its place there, else as it was stored."""
    by_index = _bounds([part.index for part in prompt.parts])
    seqs = {name: message.seq for name, message in messages.items()}
    by_seq = _bounds([seqs.get(part.message_id or "") for part in prompt.parts])
    parts: list[SentPart] = []
    rest = list(prompt.dropped)
    for part, index, seq in zip(prompt.parts, by_index, by_seq, strict=True):
        while rest and _is_before(rest[0], index, seqs, seq):
            parts.append(rest.pop(0))
        parts.append(part)
    return parts + rest


def _bounds(places: Sequence[int | None]) -> list[float]:
    """Of each its place, or the next one's that has one."""
    bounds, last = list[float](), math.inf
    for place in reversed(places):
        last = last if place is None else place
        bounds.append(last)
    return bounds[::-1]


def _is_before(part: SentPart, index: float, seqs: Mapping[str, int | None], seq: float) -> bool:
    if part.index is not None:
        return part.index < index
    return (seqs.get(part.message_id or "") or math.inf) < seq


class Fates:
    """What was decided on each message of a list: decisions stand for runs, told by their first one, but for some of one alone."""

    def __init__(self, decisions: Sequence[PruneDecision], ids: Sequence[str | None]) -> None:
        places = {name: at for at, name in enumerate(ids) if name}
        self._places = places
        self._alone = {d.block_id: d for d in decisions if d.reason in ALONE}
        begun = sorted(
            (places[d.block_id], at)
            for at, d in enumerate(decisions)
            if d.block_id in places and d.reason not in ALONE
        )
        self._begun, self._decisions = begun, decisions

    def of(self, message_id: str | None) -> PruneDecision | None:
        """The decision that a message is part of; `None` of none, such as of a system message."""
        if message_id in self._alone:
            return self._alone[message_id]
        at = self._places.get(message_id or "")
        if at is None:
            return None
        place = bisect_right(self._begun, (at, len(self._decisions))) - 1
        return self._decisions[self._begun[place][1]] if place >= 0 else None


def _row(
    part: SentPart,
    messages: Mapping[str, Message],
    fates: Fates,
    links: Links,
    passed_over: Mapping[str, PassedOver],
    brought_in: Mapping[str, BroughtIn],
    say: Say,
) -> Row:
    name = part.message_id or ""
    message = messages.get(name)
    row = Row(part.index, part.role, part.action, reason_of(part, fates), part.tokens, message)
    if message is not None:
        row.text, row.calls = message.content, links.render_calls(message, say)
        row.attachments = [attachment_words(item, say) for item in message.attachments or ()]
        row.turn = links.answers.get(name)
        row.evidence = [evidence_id for _, evidence_id in links.stands_on(message)]
        row.has_failed = message.role is Role.TOOL and links.has_failed(message, row.evidence)
    if part.action in (SHORTER, EXTENDED, RESTORED) and part.content != row.text:
        # Of a system message, which is never stored, only what we put into it is there.
        row.sent_text = part.content
        if part.role is Role.SYSTEM:
            row.sent_text = said_of_rules(part.content.strip(), say)
        row.pieces = difference(row.text, row.sent_text)
    elif part.action == INJECTED:
        row.sent_text = said_of_rules(part.content, say)
    own = row.evidence if message is not None and row.role is Role.TOOL else []
    for each in (name, *own):
        row.passed_over = row.passed_over or passed_over.get(each)
        row.brought_in = row.brought_in or brought_in.get(each)
    return row


def reason_of(part: SentPart, fates: Fates) -> tuple[str, str]:
    """Why a part went out or did not: a key of `reasons.WHY`."""
    decision = fates.of(part.message_id)
    if part.form:  # of which a turn tells in the call that it was settled for, and then no more
        return "degraded", part.form
    if decision is None:
        return UNTOUCHED if part.action in (KEPT, "extended") else (part.action, "")
    return decision.action, decision.reason
