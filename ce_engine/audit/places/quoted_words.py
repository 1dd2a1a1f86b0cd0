"""In which turns that had a text quoted in part some words of it stood among what was quoted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ce_engine.audit.places.quoted_pieces import PinsAfter, quoted_sentences
from ce_engine.audit.places.whereabouts import (
    QUOTED_PART,
    QUOTED_REST,
    Stay,
    Whereabouts,
    stretches_of,
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
    if not any(stay.fate == QUOTED_PART for history in where.values() for stay in history.stays):
        return dict(where)
    quoted = _QuotedWords(words.casefold(), document, turns)
    return {name: quoted.tell_apart(name, history) for name, history in where.items()}


class _QuotedWords:
    def __init__(self, words: str, document: SessionDocument, turns: Sequence[TurnRow]) -> None:
        self._words, self._turns, self._after = words, turns, PinsAfter(turns)
        self._sentences: dict[int, dict[str, frozenset[int]]] = {}
        self._known: dict[tuple[str, frozenset[int]], bool] = {}
        self._texts = {name: piece.content for name, piece in document.evidences.items()}
        self._names: dict[str, list[str]] = {}
        for message in document.session.messages:
            if message.message_id:
                self._texts[message.message_id] = message.content
                is_result = message.role is Role.TOOL
                names = [ref.evidence_id for ref in (message.refs or ()) if is_result]
                names.insert(0, message.message_id)
                self._names |= dict.fromkeys(names, names)

    def tell_apart(self, name: str, history: Whereabouts) -> Whereabouts:
        stays = list[Stay]()
        for stay in history.stays:
            if stay.fate != QUOTED_PART:
                stays.append(stay)
                continue
            numbers = [n for first, last in stay.stretches for n in range(first, last + 1)]
            has_words = {n: self._stood(name, n) for n in numbers}
            for fate, wanted in ((QUOTED_PART, True), (QUOTED_REST, False)):
                own = stretches_of(n for n in numbers if has_words[n] is wanted)
                stays += [Stay(fate, tuple(own))] if own else []
        return replace(history, stays=tuple(stays))

    def _stood(self, name: str, turn: int) -> bool:
        """Whether the words stood among the sentences of a text that were quoted.

        They may have, where it is not stored which these are, and where they are of its name or its calls.
        """
        if turn not in self._sentences:
            row = self._turns[turn - 1]
            self._sentences[turn] = quoted_sentences(row, self._after.of(row))
        by_name = self._sentences[turn]
        known = next((n for n in self._names.get(name, [name]) if n in by_name), None)
        if known is None or self._words not in self._texts[known].casefold():
            return True
        key = known, by_name[known]
        if key not in self._known:
            self._known[key] = self._words in some_of(self._texts[known], sorted(key[1])).casefold()
        return self._known[key]


__all__ = ["with_words"]
