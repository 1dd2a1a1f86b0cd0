"""What became in a turn of those messages of its session that are none of its rows: of each, findable, why."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ce_engine.apps.present.language import ENGLISH, Say
from ce_engine.apps.present.links import Links
from ce_engine.apps.present.reasons import Reasons
from ce_engine.apps.present.turn_view import Row, standing_before, standing_in_part
from ce_engine.audit.places.whereabouts import (
    LEFT_OUT,
    QUOTED,
    QUOTED_PART,
    SENT,
    SHORTENED,
    Whereabouts,
)
from ce_engine.schema.document import Message
from ce_engine.schema.replay import BroughtIn, Explanation, PassedOver
from ce_engine.schema.rows import TurnRow, archive_of


LATER, ELSEWHERE = "later", "elsewhere"
"""What else may become of a message: it was not there yet, or is of another line of conversation."""

FATES = {LATER: "not there yet", ELSEWHERE: "of another line"}

WHY = {
    LATER: "It was said after this turn began.",
    ELSEWHERE: "Another agent's or branch's line of conversation has it: this turn's line does not read it.",
    "older": "By hand, so many of the newest messages are read as fill the budget, and it is older: it may come in as a quotation.",
    "not_given": "The app did not give it in this turn: it may come in as a quotation.",
    "all_fits": "Nothing was looked for to be brought back: all that was given had room.",
    QUOTED: "It went out in what was brought in: a quotation, and no message of its own.",
    QUOTED_PART: "Only its best sentences went out, in what was brought in: a quotation, and no message of its own.",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rest:
    """A message of the session, and what became of it in a turn.

    Attributes:
        message: as it is stored.
        fate: `quoted`, `quoted_part`, `left_out`, `later` or `elsewhere`.
        why: in sentences.
        question_id: id of the earlier question that it stands quoted before; `""` of none.
        piece: its score, where it was looked at.
        tools: the calls that it asks for, in words.
    """

    message: Message
    fate: str
    why: str
    question_id: str = ""
    piece: BroughtIn | PassedOver | None = None
    tools: Sequence[str] = ()

    @property
    def text(self) -> str:
        return self.message.content or ", ".join(self.tools)


class RestOfSession:
    """The messages of a session that a page shows in no row of a turn.

    Args:
        row: the turn.
        links: of the session.
        rows: all rows of the turn, of which the page may show some.
        shown_ids: ids of the messages that it shows.
        explanation: what was brought in for the turn, and what was passed over.
        reasons: the turn's reasons.
        say: the language.
    """

    def __init__(
        self,
        row: TurnRow,
        links: Links,
        rows: Sequence[Row],
        shown_ids: Collection[str],
        explanation: Explanation | None,
        reasons: Reasons,
        say: Say = ENGLISH,
    ) -> None:
        self._row, self._links, self._told, self._say = row, links, reasons, say
        self._rows = {entry.message.message_id or "": entry for entry in rows if entry.message}
        messages = links.document.session.messages
        self._messages = [m for m in messages if m.message_id and m.message_id not in shown_ids]
        self._archive = archive_of(row.report)
        self._later = self._said_later(messages)
        self._standing, self._in_part = standing_before(explanation), standing_in_part(explanation)
        self._pieces: dict[str, BroughtIn | PassedOver] = {}
        if explanation is not None:
            self._pieces |= {piece.id: piece for piece in explanation.passed_over}
            self._pieces |= {piece.id: piece for piece in explanation.brought_in}

    def _said_later(self, messages: Sequence[Message]) -> frozenset[str]:
        """Ids of what came after the newest message that the turn knew."""
        _, newest = self._archive.get("messages") or (0, "")
        ids = [message.message_id or "" for message in messages]
        return frozenset(ids[ids.index(newest) + 1 :] if newest in ids else ())

    def find(self, text: str) -> list[Message]:
        """Those that say something, whatever the case of its letters; of `""` all that the turn knew."""
        if not text:
            return [m for m in self._messages if m.message_id not in self._later]
        needle = text.casefold()
        return [m for m in self._messages if any(needle in part for part in self._texts_of(m))]

    def _texts_of(self, message: Message) -> list[str]:
        return [message.content.casefold(), *(call.casefold() for call in self._calls(message))]

    def _calls(self, message: Message) -> list[str]:
        return self._links.render_calls(message, self._say) if message.tool_calls else []

    def describe(self, messages: Sequence[Message], where: Mapping[str, Whereabouts]) -> list[Rest]:
        """What became of messages.

        Args:
            messages: some of those that were found.
            where: where each went, by all turns.
        """
        return [self._fate(message, where.get(message.message_id or "")) for message in messages]

    def _fate(self, message: Message, where: Whereabouts | None) -> Rest:
        name, say, calls = message.message_id or "", self._say, self._calls(message)
        if name in self._later:
            return Rest(message, LATER, say(WHY[LATER]), tools=calls)
        row, piece = self._rows.get(name), self._pieces.get(name)
        stands = self._stands(message)
        if stands or isinstance(piece, BroughtIn):
            is_part = piece.is_part if isinstance(piece, BroughtIn) else self._is_in_part(message)
            fate = QUOTED_PART if is_part else QUOTED
            return Rest(message, fate, say(WHY[fate]), stands, piece, calls)
        if row is not None:
            why = [row.why, row.not_recalled]
            fate = LEFT_OUT if row.is_out else SHORTENED if row.action == SHORTENED else SENT
            return Rest(message, fate, " ".join(filter(None, why)), "", piece, calls)
        if where is not None and where.lanes and self._row.lane not in where.lanes:
            return Rest(message, ELSEWHERE, say(WHY[ELSEWHERE]), "", piece, calls)
        return Rest(message, LEFT_OUT, " ".join(self._why_not(piece)), "", piece, calls)

    def _stands(self, message: Message) -> str:
        """The earlier question before which it stands quoted, as a message or as the result that it is."""
        return next((question for n in _names(message) if (question := self._standing.get(n))), "")

    def _is_in_part(self, message: Message) -> bool:
        return any(name in self._in_part for name in _names(message))

    def _why_not(self, piece: BroughtIn | PassedOver | None) -> list[str]:
        say, reasons = self._say, self._told
        sentences = [say(WHY["older" if self._archive.get("by_hand") else "not_given"])]
        if isinstance(piece, PassedOver):
            return [*sentences, reasons.passed(piece)]
        return [
            *sentences,
            reasons.not_recalled() or (say(WHY["all_fits"]) if not reasons.report.cut else ""),
        ]


def _names(message: Message) -> list[str]:
    """The ids by which it may stand quoted."""
    refs = [ref.evidence_id for ref in message.refs or ()] if message.role == "tool" else []
    return [message.message_id or "", *refs]


__all__ = ["ELSEWHERE", "FATES", "LATER", "WHY", "Rest", "RestOfSession"]
