"""What of a session's messages and evidence a question needs: by words, and where there are vectors by meaning."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from ce_engine.schema.message_forest import MessageForest
from ce_engine.schema.rows import EvidenceRow, MessageRow
from ce_engine.sessions.repeated_results import RepeatedResults
from ce_engine.text.relevance.meaning import Meaning
from ce_engine.text.relevance.quoted_phrases import gain, quotes
from ce_engine.text.relevance.relevance import LexicalIndex
from ce_engine.text.relevance.terms import header


if TYPE_CHECKING:  # it needs numpy, which only those have who have an embedder
    from ce_engine.sessions.vectors import Vectors

Name = TypeVar("Name", int, str)

PAGE = 4000
"""Characters of a text that are embedded."""


class SessionIndex:
    """The messages and evidence of a session, with the indexes of their words and their vectors."""

    vectors: Vectors | None = None
    """`None` until something is embedded."""

    def __init__(self) -> None:
        self.log, self.rows = MessageForest(), list[MessageRow]()
        self.evidence: dict[str, EvidenceRow] = {}
        self.document_ids: list[str] = []
        self._messages, self._documents = LexicalIndex(), LexicalIndex()
        self._indexed = self._indexed_documents = 0
        self.repeated = RepeatedResults()
        self.unread = 0
        """Characters that the next search reads for the first time."""

    @property
    def documents(self) -> list[str]:
        """Evidence whose content stands in no message, in order of arrival."""
        return [e for e in self.document_ids if self.evidence[e].message_id is None]

    @property
    def meanings(self) -> Iterator[tuple[str, str]]:
        """Ids of messages and evidence, and what of each is embedded: what it says, without the date in front."""
        for row in self.rows:
            if not row.withheld and (text := page(row.message.content)):
                yield row.message.message_id or "", text
        for evidence_id in self.documents:
            if text := page(self.evidence[evidence_id].evidence.content):
                yield evidence_id, text

    def search_messages(
        self,
        query: str,
        limit: int,
        exclude: Callable[[int], bool],
        among: range,
        vectors: Vectors | None = None,
    ) -> list[tuple[int, float]]:
        """Entries that the query may need, best first. The index catches up with the log here."""
        while self._indexed < len(self.rows):
            row = self.rows[self._indexed]
            self.unread -= len(row.message.content)
            if row.message.content and not row.withheld:
                self._messages.add(
                    self._indexed,
                    row.message.content,
                    speaker=row.speaker or str(row.message.role),
                    at=row.message.at,
                )
            self._indexed += 1
        meaning = self._of_messages(query, vectors)
        hits = self._messages.search(
            query, limit=limit, exclude=exclude, among=among, meaning=meaning
        )
        quoted = quotes(query)
        if not quoted:  # most often
            return [*hits]
        scored_texts = [(hit.n, hit.score, self.rows[hit.n].message.content) for hit in hits]
        return _with_gains(quoted, scored_texts)

    def search_documents(
        self, query: str, limit: int, vectors: Vectors | None = None
    ) -> list[tuple[str, float]]:
        """Evidence whose content stands in no message, best first."""
        while self._indexed_documents < len(self.document_ids):
            row = self.evidence[self.document_ids[self._indexed_documents]]
            self.unread -= len(row.evidence.content)
            if row.message_id is None:
                self._documents.add(
                    self._indexed_documents,
                    row.evidence.content,
                    speaker=row.evidence.source.name or None,
                    kind="evidence",
                )
            self._indexed_documents += 1
        meaning = self._of_documents(query, vectors)
        hits = self._documents.search(query, limit=limit, meaning=meaning)
        if not hits:
            return []
        ids, share = [self.document_ids[hit.n] for hit in hits], self._share(query)
        scored_texts = [
            (name, hit.score * share, self.evidence[name].evidence.content)
            for name, hit in zip(ids, hits, strict=True)
        ]
        return _with_gains(quotes(query), scored_texts)

    def explain(self, query: str, name: str, vectors: Vectors | None = None) -> dict[str, float]:
        """What the score of a message or of evidence is made of, by its id; after a search."""
        n, ids = self.log.by_message_id(name), self.document_ids
        if n is not None:
            text = self.rows[n].message.content
            made_of = self._messages.explain(query, n, self._of_messages(query, vectors))
        elif name in ids:
            text = self.evidence[name].evidence.content
            meaning = self._of_documents(query, vectors)
            parts = self._documents.explain(query, ids.index(name), meaning)
            made_of = {part: weight * self._share(query) for part, weight in parts.items()}
        else:
            return {}
        gained = gain(quotes(query), text) if made_of else 0.0
        return {"quoted": gained, **made_of} if gained else made_of

    def _share(self, query: str) -> float:
        """What scores of documents count beside those of messages: less where they know less of the question."""
        message_share = self._messages.share_known(query, 2)  # the question is one of them
        return (
            min(1.0, self._documents.share_known(query) / message_share) if message_share else 1.0
        )

    def forget_document(self, evidence_id: str) -> None:
        """The content of evidence stands in a message, and is searched there."""
        if evidence_id in self.document_ids:
            self._documents.remove(self.document_ids.index(evidence_id))

    def _of_messages(self, query: str, vectors: Vectors | None) -> Meaning | None:
        entries = self.log.entries
        return vectors.meaning(query, lambda n: entries[n].message_id) if vectors else None

    def _of_documents(self, query: str, vectors: Vectors | None) -> Meaning | None:
        return vectors.meaning(query, self.document_ids.__getitem__) if vectors else None


def _with_gains(
    quoted: Sequence[str], scored_texts: list[tuple[Name, float, str]]
) -> list[tuple[Name, float]]:
    """The same, best first, where texts gain that say what is quoted."""
    scored = [(name, score + gain(quoted, text)) for name, score, text in scored_texts]
    return sorted(scored, key=lambda pair: -pair[1]) if quoted else scored


def page(text: str) -> str:
    """What of a text is embedded."""
    return text[header(text).start :][:PAGE].strip()
