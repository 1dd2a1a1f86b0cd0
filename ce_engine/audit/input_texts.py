"""The texts that the model had before an answer: the messages that went out, what was put in, and the rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ce_engine.audit.noted_sources import NotedValues, noted_fields
from ce_engine.audit.places.quoted_pieces import PinsAfter, quoted_pieces, quoted_sentences
from ce_engine.audit.places.whereabouts import LEFT
from ce_engine.prepare.compose.render import some_of
from ce_engine.schema.document import Evidence, Message, SessionDocument
from ce_engine.schema.enums import EvidenceType, Role
from ce_engine.schema.rows import TurnRow


@dataclass(frozen=True, slots=True)
class InputText:
    """One text that went out in a turn.

    Attributes:
        text: what of it went out, as it is stored; a message's with the arguments of the calls that it asks for.
        kind: what it is.
        id: of the message or the evidence; of a note's value that of its evidence; `""` of a rule.
        is_answer: whether the model said it itself, in an earlier turn.
    """

    text: str
    kind: Literal["message", "evidence", "note", "rule"]
    id: str = ""
    is_answer: bool = False


class InputTexts:
    """The texts of a session's turns.

    Args:
        document: of the session.
        turns: all of it, oldest first.
        fates: what became of each message in a turn, by id, and by the turn's place (`recorded_fates`).
        rules: texts of rules that went out in a turn, by its place.
    """

    def __init__(
        self,
        document: SessionDocument,
        turns: Sequence[TurnRow],
        fates: Callable[[int], Mapping[str, str]],
        rules: Callable[[int], Iterable[str]] = lambda _: (),
    ) -> None:
        self.document, self.turns = document, turns
        self._fates, self._rules, self._pins = fates, rules, PinsAfter(turns)
        self._messages = {message.message_id: message for message in document.session.messages}

    def before(self, answer: Message) -> Sequence[Message]:
        """The session's messages before an answer."""
        messages = self.document.session.messages
        return messages[: next((n for n, m in enumerate(messages) if m is answer), len(messages))]

    def shown(self, at: int) -> frozenset[str] | None:
        """The ids of the messages that went out as such; `None` where nothing is stored of that."""
        fates = self._fates(at)
        if not fates:
            return None
        return frozenset(name for name, fate in fates.items() if fate not in LEFT)

    def of(self, answer: Message, at: int) -> Iterator[InputText]:
        """What went out in the turn of an answer, by the turn's place.

        The app's system messages are never stored: of documents that stood there it is known that the answer was given them.
        A text that went out shortened is whole here, and one that was quoted in part has the sentences that were.
        """
        shown, names = self.shown(at) or (), set[str]()
        for message in self.before(answer):
            if message.message_id in shown:
                results = (message.refs or ()) if message.role is Role.TOOL else ()
                names.update(ref.evidence_id for ref in results)
                yield of_message(message)
        for piece in self._put_in(self.turns[at]):
            names.add(piece.id)
            yield piece
        for ref in answer.refs or ():
            if ref.evidence_id not in names and ref.evidence_id in self.document.evidences:
                yield _of_evidence(self.document.evidences[ref.evidence_id])
        yield from (InputText(text, "rule") for text in self._rules(at))

    def _put_in(self, row: TurnRow) -> Iterator[InputText]:
        """What stood quoted, of texts in part what of them did, and what a note said of sources that disagree."""
        after, evidences = self._pins.of(row), self.document.evidences
        sentences = quoted_sentences(row, after)
        for name, is_part in quoted_pieces(row, after).items():
            message, evidence = self._messages.get(name), evidences.get(name)
            if message is not None:
                piece = of_message(message)
            elif evidence is not None:
                piece = _of_evidence(evidence)
            else:
                continue
            if is_part and name in sentences:
                part = some_of(piece.text, sorted(sentences[name]))
                piece = InputText(part, piece.kind, piece.id, piece.is_answer)
            yield piece
        values = NotedValues(evidences)
        for name, fields in noted_fields(row.report).items():
            yield from (InputText(text, "note", name) for text in values.of(name, fields))


def said_text(message: Message) -> str:
    """What a message says, with the arguments of the calls that it asks for."""
    calls = " ".join(str(call.args) for call in message.tool_calls or ())
    return f"{message.content} {calls}"


def is_answer(message: Message) -> bool:
    """Whether the model said it."""
    return message.role is Role.ASSISTANT


def of_message(message: Message) -> InputText:
    """A message, whole."""
    return InputText(said_text(message), "message", message.message_id or "", is_answer(message))


def _of_evidence(evidence: Evidence) -> InputText:
    is_output = evidence.type is EvidenceType.LLM_OUTPUT
    return InputText(evidence.content, "evidence", evidence.evidence_id, is_output)


__all__ = ["InputText", "InputTexts", "is_answer", "of_message", "said_text"]
