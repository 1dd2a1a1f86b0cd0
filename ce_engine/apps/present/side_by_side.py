"""Two turns of two sessions side by side: which turn answers the other's, and what went out of each, message by message."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import pairwise

from ce_engine.apps.present.html_text import Piece, difference
from ce_engine.apps.present.links import Links, arguments
from ce_engine.apps.present.what_if_view import quoted_ids
from ce_engine.audit.places.message_places import LEFT_OUT, QUOTED
from ce_engine.schema.document import Message, SessionDocument
from ce_engine.schema.replay import Explanation, Replay, SentPart
from ce_engine.schema.rows import TurnRow


NOWHERE = ""
"""What became of a message in the turn that does not send it, where its session has none that says so: else `QUOTED` or `LEFT_OUT`."""

NEAR = 20
"""Messages behind the place of another among which its like is looked for."""
_ENDS = 1000
_ALIKE = 0.5

Key = tuple[str, str]
"""A message by its role and what it says."""


@dataclass(slots=True)
class Side:
    """A turn, made again, in its session."""

    replay: Replay
    explanation: Explanation | None
    links: Links
    keys: list[Key] = field(init=False)
    """Of the messages that went out, without what was put before them."""
    _messages: dict[str, Message] = field(init=False)
    _message_ids: dict[Key, str] = field(init=False)
    _quoted: set[str] = field(init=False)

    def __post_init__(self) -> None:
        messages = self.links.document.session.messages
        self._messages = {m.message_id: m for m in messages if m.message_id}
        self.keys = [self._key(part) for part in self.replay.sent.parts]
        until = self._until()
        earlier = ((name, m) for name, m in self._messages.items() if (m.seq or 0) <= until)
        self._message_ids = {(m.role.value, _plain(_text_of(m))): name for name, m in earlier}
        self._quoted = quoted_ids(self.explanation) if self.explanation is not None else set()

    def _until(self) -> int:
        """The place of the newest message that the turn knew."""
        row = self.links.turns[self.replay.turn - 1]
        tip = self._messages.get(row.tip_message_id or "")
        return tip.seq or 0 if tip is not None else len(self._messages)

    def _key(self, part: SentPart) -> Key:
        message = self._messages.get(part.message_id or "")
        return part.role.value, _plain(part.content if message is None else _text_of(message))

    def text(self, part: SentPart) -> str:
        """What went out of a message, else the tools that it asks for."""
        message = self._messages.get(part.message_id or "")
        return part.content or (_text_of(message) if message is not None else "")

    def fate(self, key: Key) -> str:
        """What became of a message that this turn does not send."""
        name = self._message_ids.get(key)
        if name is None:
            return NOWHERE
        return QUOTED if name in self._quoted else LEFT_OUT


@dataclass(frozen=True, slots=True)
class Pair:
    """A message that went out of one turn, of the other, or of both.

    Attributes:
        first: of the first turn.
        other: of the second.
        texts: what went out of both, with what was put before it.
        pieces: what changes from the first to the second, where they are not the same.
        fate: of one that only one turn sends, what became of it in the other.
    """

    first: SentPart | None
    other: SentPart | None
    texts: tuple[str, str]
    pieces: Sequence[Piece] = ()
    fate: str = NOWHERE

    @property
    def is_same(self) -> bool:
        return None not in (self.first, self.other) and not self.pieces

    @property
    def part(self) -> SentPart:
        """The message itself, of the first turn if that has it."""
        part = self.first or self.other
        assert part is not None
        return part


def pairs(side: Side, other: Side) -> Iterator[Pair]:
    """The messages of both inputs in their order, those beside one another that say the same, or nearly."""
    for kind, i, j, k, m in SequenceMatcher(
        None, side.keys, other.keys, autojunk=False
    ).get_opcodes():
        if kind == "equal":
            yield from (
                _pair(side, a, other, b) for a, b in zip(range(i, j), range(k, m), strict=True)
            )
        else:
            yield from _near(side, range(i, j), other, range(k, m))


def _near(side: Side, first: range, other: Side, second: range) -> Iterator[Pair]:
    """Messages that are not the same: those that are alike in pairs, the others alone."""
    begin = second.start
    for a in first:
        among = range(begin, min(begin + NEAR, second.stop))
        like = next((b for b in among if _are_alike(side.keys[a], other.keys[b])), None)
        if like is None:
            yield _pair(side, a, other, None)
            continue
        yield from (_pair(side, None, other, b) for b in range(begin, like))
        yield _pair(side, a, other, like)
        begin = like + 1
    yield from (_pair(side, None, other, b) for b in range(begin, second.stop))


def _pair(side: Side, a: int | None, other: Side, b: int | None) -> Pair:
    first = side.replay.sent.parts[a] if a is not None else None
    second = other.replay.sent.parts[b] if b is not None else None
    texts = side.text(first) if first else "", other.text(second) if second else ""
    if a is not None and b is not None:
        is_same = _plain(texts[0]) == _plain(texts[1])
        return Pair(first, second, texts, () if is_same else difference(*texts))
    fate = other.fate(side.keys[a]) if a is not None else side.fate(other.keys[b or 0])
    return Pair(first, second, texts, fate=fate)


def _are_alike(key: Key, other: Key) -> bool:
    """Whether two messages are of one role and share half of the shorter one's signs, two by two, at their ends."""
    if key[0] != other[0]:
        return False
    first, second = _signs(key[1]), _signs(other[1])
    return len(first & second) >= _ALIKE * max(1, min(len(first), len(second)))


def _signs(text: str) -> frozenset[str]:
    ends = text if len(text) <= 2 * _ENDS else text[:_ENDS] + text[-_ENDS:]
    return frozenset(map("".join, pairwise(ends)))


def _text_of(message: Message) -> str:
    calls = message.tool_calls or ()
    return message.content or "; ".join(f"{c.name}({arguments(c.args)})" for c in calls)


def _plain(text: str) -> str:
    return " ".join(text.split())


def counterpart(
    document: SessionDocument,
    turns: Sequence[TurnRow],
    at: int,
    others: SessionDocument,
    other_turns: Sequence[TurnRow],
) -> int:
    """The turn of another session that answers a turn's question: the same call of it, as far as there are as many.

    Where nothing asks the same, it is the question of the same number.

    Args:
        document: the session of the turn.
        turns: its turns.
        at: the turn's place among them, from 0.
        others: the other session.
        other_turns: its turns, one at least.
    """
    questions, other_questions = _questions(document, turns), _questions(others, other_turns)
    place = next(n for n, (_, calls) in enumerate(questions) if at in calls)
    question, calls = questions[place]
    alike = [n for n, (key, _) in enumerate(other_questions) if question and key == question]
    if alike:
        before = sum(key == question for key, _ in questions[:place])
        other_calls = other_questions[alike[min(before, len(alike) - 1)]][1]
    elif place < len(other_questions):
        other_calls = other_questions[place][1]
    else:
        return len(other_turns) - 1
    return other_calls[min(calls.index(at), len(other_calls) - 1)]


def _questions(
    document: SessionDocument, turns: Sequence[TurnRow]
) -> list[tuple[Key | None, list[int]]]:
    """Each question, by what it says, with the places of the calls that are for it."""
    messages = {m.message_id: m for m in document.session.messages}
    calls_by_id: dict[str, list[int]] = {}
    for n, row in enumerate(turns):
        calls_by_id.setdefault(row.request_id or f":{n}", []).append(n)
    first = (messages.get(turns[calls[0]].tip_message_id) for calls in calls_by_id.values())
    keys = ((m.role.value, _plain(m.content)) if m is not None else None for m in first)
    return list(zip(keys, calls_by_id.values(), strict=True))


__all__ = ["NOWHERE", "Pair", "Side", "counterpart", "pairs"]
