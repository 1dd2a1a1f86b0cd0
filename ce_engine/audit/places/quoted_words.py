"""In which turns that had a text quoted in part some words of it stood among what was quoted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from ce_engine.audit.places.quoted_pieces import PinsAfter, quoted_sentences
from ce_engine.audit.places.whereabouts import (
    QUOTED_PART,
    QUOTED_REST,
    Stay,
    Whereabouts,
)
from ce_engine.prepare.compose.render import some_of
from ce_engine.schema.document import SessionDocument
from ce_engine.schema.enums import Role
from ce_engine.schema.rows import TurnRow


def with_words(
    where: Mapping[str, Whereabouts],
    words: str,
    document: SessionDocument,
    turns: Sequence[TurnRow],
) -> dict[str, Whereabouts]:
    """Where texts went in which words stand, told apart where only other sentences of them were quoted.

    Args:
        where: by the ids of messages and evidence.
        words: what is looked for, whatever the case of its letters.
        document: of the session.
        turns: all of it, oldest first.
    """
    return QuotedWords(document, turns).tell_apart(where, words)


class QuotedWords:
    """Tells of words after words in which turns they stood among what was quoted in part of a session's texts.

    Args:
        document: of the session.
        turns: all of it, oldest first.
    """

    def __init__(self, document: SessionDocument, turns: Sequence[TurnRow]) -> None:
        self._document, self._turns = document, turns
        self._sentences: dict[int, dict[str, frozenset[int]]] = {}
        self._parts: dict[tuple[str, frozenset[int]], str] = {}

    @cached_property
    def _after(self) -> PinsAfter:
        return PinsAfter(self._turns)

    @cached_property
    def _texts(self) -> dict[str, str]:
        texts = {name: piece.content for name, piece in self._document.evidences.items()}
        messages = self._document.session.messages
        return texts | {m.message_id: m.content for m in messages if m.message_id}

    @cached_property
    def _names(self) -> dict[str, list[str]]:
        """The ids of one text each: those of a result's message and of its evidence."""
        names_of: dict[str, list[str]] = {}
        for message in self._document.session.messages:
            if message.message_id:
                is_result = message.role is Role.TOOL
                names = [ref.evidence_id for ref in (message.refs or ()) if is_result]
                names.insert(0, message.message_id)
                names_of |= dict.fromkeys(names, names)
        return names_of

    def tell_apart(self, where: Mapping[str, Whereabouts], words: str) -> dict[str, Whereabouts]:
        """The same as `with_words`."""
        folded = words.casefold()
        return {name: self._told_apart(name, history, folded) for name, history in where.items()}

    def _told_apart(self, name: str, history: Whereabouts, words: str) -> Whereabouts:
        if not any(stay.fate == QUOTED_PART for stay in history.stays):
            return history
        stays = list[Stay]()
        for stay in history.stays:
            if stay.fate != QUOTED_PART:
                stays.append(stay)
                continue
            numbers = history.turns_as(frozenset({QUOTED_PART}))
            has_words = {n: self._stood(name, n, words) for n in numbers}
            for fate, wanted in ((QUOTED_PART, True), (QUOTED_REST, False)):
                own = history.stretches_of([n for n in numbers if has_words[n] is wanted])
                stays += [Stay(fate, tuple(own))] if own else []
        return replace(history, stays=tuple(stays))

    def _stood(self, name: str, turn: int, words: str) -> bool:
        """Whether the words stood among the sentences of a text that were quoted.

        They may have, where it is not stored which these are, and where they are of its name or its calls.
        """
        if turn not in self._sentences:
            row = self._turns[turn - 1]
            self._sentences[turn] = quoted_sentences(row, self._after.of(row))
        by_name = self._sentences[turn]
        known = next((n for n in self._names.get(name, [name]) if n in by_name), None)
        if known is None or words not in self._texts[known].casefold():
            return True
        key = known, by_name[known]
        if key not in self._parts:
            self._parts[key] = some_of(self._texts[known], sorted(key[1])).casefold()
        return words in self._parts[key]


__all__ = ["QuotedWords", "with_words"]
