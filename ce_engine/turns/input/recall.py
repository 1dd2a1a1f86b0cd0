"""What the stages of a preparation may ask of the session: texts, evidence, and what is relevant again."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import islice, pairwise
from typing import TYPE_CHECKING

from ce_engine.config import RuntimeConfig
from ce_engine.prepare.blocks.material import Material, sensitivity_of
from ce_engine.prepare.choose.candidates import FEW
from ce_engine.prepare.choose.conflict import may_claim, settle_conflicts
from ce_engine.prepare.choose.standing_context import FACTS
from ce_engine.prepare.compose.render import Snippet
from ce_engine.prepare.message_groups import MessageItem
from ce_engine.prepare.sources import Candidate, CandidateSources, QuotedSpan
from ce_engine.prepare.tool_results.values import words_in
from ce_engine.runtime.telemetry import part
from ce_engine.schema.call import ModelCall
from ce_engine.schema.document import Evidence, Message
from ce_engine.schema.enums import EvidenceType, Role
from ce_engine.schema.report import ConflictRecord
from ce_engine.schema.rows import EvidenceRow, MessageRow
from ce_engine.sessions.summary_coverage import BROKEN_OFF
from ce_engine.sessions.view import SessionView
from ce_engine.text.relevance.passages import (
    MIN_TURNS,
    PassageIndex,
    PassageMatch,
    clusters,
    written_talk,
)
from ce_engine.text.relevance.terms import terms
from ce_engine.text.tokens.call_tokens import Counter, cached_text_counter
from ce_engine.turns.input.stored_candidates import day_of, document, entry


if TYPE_CHECKING:
    from ce_engine.sessions.vectors import Vectors

MANY = 1_000
"""Words of later calls that are looked for in results; more say nothing new."""

AROUND = 8
"""Entries right before a question that say what is being talked of."""

MAX_TOLD = 400
"""Messages of the session that are looked for inside a helper's prompt, the newest."""


class Recall:
    """Answers the stages' questions for one call.

    `may_recall` says whether an entry is on the reader's line (decision 7); `own_documents` are those
    that this list had; `mates` are the other items of the call's batch, whose documents are none of it;
    `is_closed` says that the caller may have none.
    """

    def __init__(
        self,
        view: SessionView,
        call: ModelCall,
        may_recall: Callable[[int], bool],
        config: RuntimeConfig,
        limit: int,
        materials: Sequence[Material] = (),
        summary: Callable[[frozenset[int]], Material | None] = lambda _: None,
        own_documents: Callable[[], frozenset[str]] = frozenset,
    ) -> None:
        self.view = view
        self.call = call
        self.may_recall = may_recall
        self.config = config
        self.limit = limit
        self.materials = materials
        self.summary = summary
        self.own_documents = own_documents
        self.vectors: Vectors | None = None
        """Those that the search uses beside words, if any."""
        self.mates: frozenset[str] = frozenset()
        self.is_closed = False
        memory = view.requests.get(call.request_id)
        self.documents = list(memory.documents) if memory else []
        self.query, self.sent = "", list[int]()
        self.looked_at: set[str] = set()
        self.near_sent: tuple[str, float] | None = None
        """The entry that `nearest` found last, by its message's id, with its score."""
        self._entries: dict[int, Candidate] = {}
        self._open: dict[int, bool] = {}
        self.conflicts: list[ConflictRecord] = []
        self.warnings: list[str] = []

    def sources(self, counter: Counter) -> CandidateSources:
        return CandidateSources(
            count=cached_text_counter(counter),
            text=self.text,
            says=self.says,
            evidence_of=self.evidence_of,
            recall=self.recall,
            results=self.results,
            terms=terms,
            day_of=self.day_of,
            message_of=self.message_of,
            spans=self.spans,
            question_of=self.question_of,
            find_talk=self.find_talk,
            summary=self.summary,
            settle=self.settle,
            nearest=self.nearest,
            around=self.around,
            unread=self.unread,
            documents=self._stored_documents,
            is_hidden=self.is_hidden,
            materials=self.materials,
            whole=self.call.by_hand,
            has_more=self.call.by_hand and self._has_more(),
            learns=self.call.by_hand and bool(self.view.documents),
            credit=self.view.spending.credit,
            embedder=self.vectors.name if self.vectors is not None else "",
            costs=self.view.costs_of(counter.name, self.config.locale),
        )

    def text(self, item: MessageItem) -> str:
        """The live text where the host sends it, else the stored one."""
        if item.index is not None:
            return self.call.messages[item.index].message.content
        assert item.n is not None
        return self.view.rows[item.n].message.content

    def _stored_documents(self) -> list[str]:
        """What was found for this call, as stored: its app puts it into its own prompt, which is never stored."""
        found = [] if self.call.by_hand else [name for name, _ in self.documents]
        evidence_rows = self.view.evidence
        return [evidence_rows[n].evidence.content for n in found if n in evidence_rows]

    def says(self, item: MessageItem) -> object:
        """What tells whether two messages of the host say the same: of those that are not stored a replay has digests."""
        media = self.call.messages[item.index].media if item.index is not None else ()
        return self.text(item), media

    def question_of(self, item: MessageItem) -> tuple[str, list[QuotedSpan]]:
        """What an item asks, and the documents in it: as stored where it is, so that it can be asked again."""
        row = self.view.rows[item.n] if item.n is not None else None
        text = self.text(item) if row is None or row.withheld else row.message.content
        return text, self.spans(text)

    def evidence_of(self, item: MessageItem) -> str:
        return self.view.by_message.get(item.message_id, "")

    def day_of(self, item: MessageItem) -> str:
        return day_of(self.view, item.n)

    def message_of(self, item: MessageItem) -> Message:
        assert item.n is not None
        return self.view.rows[item.n].message

    def recall(self, query: str, sent: frozenset[int], most: int) -> list[Candidate]:
        """Earlier messages of the reader's lane, and retrieved documents of the session, best first.

        At most `most` of each.
        """
        with part("recall") as attributes:
            candidates = self._recalled(query, sent, min(most, self.limit))
            attributes["ce.candidates"] = len(candidates)
            attributes["ce.embedder"] = self.vectors.name if self.vectors is not None else "none"
        return candidates

    def _recalled(self, query: str, sent: frozenset[int], most: int) -> list[Candidate]:
        self.query, self.sent = query, sorted(sent)
        matches = self.view.search_messages(
            query,
            most,
            lambda n: n in sent or not self._may_return(n),
            range(self._before(sent)),
            self.vectors,
        )
        scores = self._newest_first(matches, sent)
        candidates = [self._entry(n, score) for n, score in scores[:most]]
        documents = self.view.search_documents(query, most, self.vectors)
        if self.call.by_hand:  # nobody else sends them: the rest goes in too while there is room
            hits = {evidence_id for evidence_id, _ in documents}
            rest = (e for e in reversed(self.view.documents) if e not in hits)
            documents += [(e, 0.0) for e in islice(rest, most)]
            present: set[str] = set()
        else:
            present = {evidence_id for evidence_id, _ in self.documents}
        self.looked_at = {evidence_id for evidence_id, _ in documents}
        own = self.own_documents() if documents else frozenset()
        other_documents = self.view.documents_of_others(self.call.request_id, self.mates) - own
        for evidence_id, score in documents:
            row = self.view.evidence[evidence_id]
            was_here = evidence_id in own or not _is_found(row)
            was_here |= self.call.restore and evidence_id not in other_documents
            if was_here and evidence_id not in present and self._may_read(row):
                candidates.append(document(self.view, evidence_id, score))
        return sorted(candidates, key=lambda candidate: -candidate.score)

    def _newest_first(
        self, matches: Sequence[tuple[int, float]], sent: frozenset[int]
    ) -> list[tuple[int, float]]:
        """Entries with their scores, best first: of a call that was made again the newest result comes before an older one.

        Nobody could tell by their words which of them holds. A failure that a result followed does not come at all.
        """
        scores = dict(matches)
        for n, score in matches:
            newest = self._newest_result(n)
            if newest is None:
                continue
            if self._has_failed(n):
                del scores[n]
            if newest not in sent and scores.get(newest, 0.0) <= score:
                scores[newest] = math.nextafter(score, math.inf)
        return sorted(scores.items(), key=lambda each: -each[1])

    def _newest_result(self, n: int) -> int | None:
        """The newest result of an entry's call, where it is another one than the entry's."""
        rows = self.view.rows
        if rows[n].message.role is not Role.TOOL:
            return None
        for later in self.view.repeated.newest_first(n, rows):
            message, may_return = rows[later].message, self._may_return(later)
            if not (message.content and may_return) or self._has_failed(later):
                continue
            if not self.is_hidden(f"m:{message.message_id}"):
                return None if message.content == rows[n].message.content else later
        return None

    def _has_failed(self, n: int) -> bool:
        return self.view.rows[n].message.status == "error"

    def _may_return(self, n: int) -> bool:
        """Whether an entry may be brought in where it does not go out; found out once."""
        may_return = self._open.get(n)
        if may_return is None:
            may_return = self._open[n] = not self._is_broken_off(n) and self.may_recall(n)
        return may_return

    def _entry(self, n: int, score: float) -> Candidate:
        """An entry as a candidate; made once, for a call may ask for some and then for more."""
        candidate = self._entries.get(n)
        if candidate is None or candidate.score != score:
            candidate = self._entries[n] = entry(self.view, n, score)
        return candidate

    def explain(self, name: str) -> dict[str, float]:
        """What the score of a message or of evidence is made of, by its id; after `recall`."""
        return self.view.explain(self.query, name, self.vectors) if self.query else {}

    def results(self, sent: frozenset[int], most: int) -> list[Candidate]:
        """Tool results of the reader's lane that do not go out whole, at most the newest `most`.

        First those that later calls took their arguments from, for they are needed again: they score 1, others 0. Then
        the shortest. One with a newer result of its call comes behind all others, and a failure of such a call not at all.
        """
        most = min(most, self.limit)
        rankings: list[tuple[bool, int, Candidate]] = []
        results: list[Candidate] = []
        later_words: set[str] = set()
        for n in range(len(self.view.rows) - 1, -1, -1):
            message = self.view.rows[n].message
            if len(rankings) >= most:
                break
            if self.view.rows[n].withheld or not self.may_recall(n):
                continue
            if message.role is Role.TOOL and message.content and n not in sent:
                results += [] if self._is_over(n) else [entry(self.view, n, 0.0)]
            if message.tool_calls:
                own = {word for call in message.tool_calls for word in words_in(call.args)}
                rankings += map(partial(_ranked, words=later_words - own), results)
                results = []
                later_words |= own if len(later_words) < MANY else set()
        rankings += map(partial(_ranked, words=()), results)
        rankings.sort(key=lambda ranking: ranking[:2])
        ordered = [candidate for _, _, candidate in rankings]
        ordered.sort(key=lambda candidate: self._newest_result(candidate.order) is not None)
        return ordered[:most]

    def _is_over(self, n: int) -> bool:
        """Whether an entry is nothing to bring back: broken off, or a failure that a result followed."""
        has_followed = self._has_failed(n) and self._newest_result(n) is not None
        return has_followed or self._is_broken_off(n)

    def _has_more(self) -> bool:
        """Whether there is anything beside the messages: what may be brought in, or contradict another."""
        evidence = (row.evidence for row in self.view.evidence.values())
        return bool(self.materials) or any(
            item.type is not EvidenceType.LLM_OUTPUT
            or may_claim(item.metadata, self._evidence_text(item.evidence_id))
            for item in evidence
        )

    def candidate(self, name: str) -> Candidate | None:
        """A candidate by its id, without its score; `None` of what is none of the session's."""
        kind, _, source_id = name.partition(":")
        if kind == "e" and source_id in self.view.evidence:
            return document(self.view, source_id, 0.0)
        n = self.view.log.by_message_id(source_id) if kind == "m" else None
        return None if n is None else entry(self.view, n, 0.0)

    def unread(self) -> list[tuple[str, int]]:
        """By hand, the evidence that the last `recall` left, newest first: candidates' ids, and characters."""
        is_open = self.call.by_hand and not self.is_closed
        rest = reversed(self.view.documents) if is_open else ()
        rows = [
            self.view.evidence[evidence_id]
            for evidence_id in rest
            if evidence_id not in self.looked_at
        ]
        return [
            (f"e:{row.evidence.evidence_id}", len(row.evidence.content))
            for row in rows
            if self._may_read(row)
        ]

    def is_hidden(self, name: str) -> bool:
        """Whether a candidate is of evidence that may not go out."""
        kind, _, source_id = name.partition(":")
        row = self.view.evidence.get(
            self.view.by_message.get(source_id, "") if kind == "m" else source_id
        )
        sensitivity = sensitivity_of(row.evidence) if row is not None else None
        return sensitivity is not None and sensitivity in self.config.prune.exclude_sensitivity

    def nearest(self, query: str, sent: frozenset[int], question: int) -> float:
        """The score of the nearest entry that goes out, before the one that is asked.

        An earlier question does not count: it may be very near, and answers nothing; nor do the two
        entries beside the question, which have its own words lent to them.
        """
        entries, among = self.view.log.entries, range(min(sent, default=0), max(0, question - 2))
        matches = self.view.search_messages(
            query, FEW, lambda n: n not in sent or entries[n].role == "user", among, self.vectors
        )
        self.near_sent = (entries[matches[0][0]].message_id, matches[0][1]) if matches else None
        return matches[0][1] if matches else 0.0

    def around(self, query: str, sent: frozenset[int], question: int) -> float:
        """The score of the nearest of the newest entries that go out before the one that is asked.

        Its own words are lent to those beside it, so that what is nearer than they are is near indeed.
        """
        newest = range(max(0, question - AROUND), question)
        matches = self.view.search_messages(query, 1, lambda n: n not in sent, newest, self.vectors)
        return matches[0][1] if matches else 0.0

    def _before(self, sent: frozenset[int]) -> int:
        """The first of the newest entries that all go out: those are most, and need not be searched."""
        edge = len(self.view.rows)
        while edge - 1 in sent:
            edge -= 1
        return edge

    def _is_broken_off(self, n: int) -> bool:
        """An answer that never became whole is not put in (decision 14)."""
        return self.view.rows[n].message.status in BROKEN_OFF

    def settle(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Look for conflicts among the candidates' evidence and what the host sends (A-18).

        Of a call that was made again its newest result has the say, whichever of them stands there.
        """
        evidence_rows, of = self.view.evidence, self.view.by_message
        ids = [c.snippet.evidence_id for c in candidates if c.snippet.evidence_id in evidence_rows]
        if of:
            ids += [e for n in self.sent if (e := of.get(self.view.log[n].message_id))]
        newest = {name: self._newest_evidence(name) for name in ids}
        ids = [
            e
            for e in dict.fromkeys(newest.values())
            if may_claim(evidence_rows[e].evidence.metadata, self._evidence_text(e))
        ]
        if len(ids) < 2:
            return list(candidates)
        settled = settle_conflicts(
            [
                Material(c.id, FACTS, "", "", evidence_id=newest.get(name, name))
                for c in candidates
                for name in [c.snippet.evidence_id]
            ],
            [self._evidence(evidence_id) for evidence_id in ids],
            self.config.conflicts,
            self.config.locale,
        )
        self.conflicts, self.warnings = settled.conflicts, settled.warnings
        kept_ids = {material.id for material in settled.materials}
        open_ids = frozenset(
            id_ for record in settled.conflicts if not record.detail for id_ in record.evidence_ids
        )
        open_ids |= {name for name, of_call in newest.items() if of_call in open_ids}
        notes = [
            Candidate(m.id, Snippet("note", m.text, says_all=True), math.inf, 0, about=open_ids)
            for m in settled.materials
            if m.text
        ]
        return [*notes, *(candidate for candidate in candidates if candidate.id in kept_ids)]

    def _newest_evidence(self, evidence_id: str) -> str:
        """The evidence of the newest result of the call that evidence is of; itself, where that is not known."""
        log = self.view.log
        n = log.by_message_id(self.view.evidence[evidence_id].message_id or "")
        newest = self._newest_result(n) if n is not None else None
        if newest is None:
            return evidence_id
        return self.view.by_message.get(log[newest].message_id, evidence_id)

    def _evidence(self, evidence_id: str) -> Evidence:
        """Evidence with its content, which may stand in a message."""
        evidence = self.view.evidence[evidence_id].evidence
        return evidence.model_copy(update={"content": self._evidence_text(evidence_id)})

    def _evidence_text(self, evidence_id: str) -> str:
        """What evidence says: its content may stand in a message."""
        row = self.view.evidence[evidence_id]
        n = self.view.log.by_message_id(row.message_id) if row.message_id else None
        return row.evidence.content if n is None else self.view.rows[n].message.content

    def _may_read(self, row: EvidenceRow) -> bool:
        """Only the reader's own project, and its own lane, nobody's, or what is shared (decision 7, D-10)."""
        scope = self.call.scope
        lane = self.call.lane_key or ""
        own = row.shared or row.lane_key in ("", lane)
        return own and row.project_id == scope.project_id

    def spans(self, text: str) -> list[QuotedSpan]:
        """Documents retrieved in this run that stand in `text`, none overlapping (decision 6).

        A stored text has them as they are stored.
        """
        return [
            QuotedSpan(start, end, rank, self.documents[rank][0])
            for start, end, rank in self._document_index.find(text)
        ]

    @cached_property
    def _document_index(self) -> PassageIndex:
        evidence = self.view.evidence
        return PassageIndex(
            [
                (live, evidence[name].evidence.content if name in evidence else "")
                for name, live in self.documents
            ]
        )

    def find_talk(self, text: str, is_system: bool) -> list[QuotedSpan]:
        """Messages of the session that stand in a helper's prompt; in a chat they are the host's words.

        Somebody may have said the prompt's own lines: of what stands twice the last place counts, and messages of
        those who ask alone are no talk. Of a talk that was never heard of the names of roles tell, but in a system message
        they may be those of examples.
        """
        if self.call.purpose != "helper":
            return []
        matches = self._message_index.find(text)
        last = {(match.place, match.end - match.start): match for match in matches}
        talks = [talk for talk in clusters(last.values()) if self._is_talk(text, talk)]
        spans = [(match.start, match.end) for talk in talks for match in talk]
        if not spans and not is_system:
            spans = written_talk(text)
        return [QuotedSpan(start, end, n, "") for n, (start, end) in enumerate(spans)]

    def _is_talk(self, text: str, talk: Sequence[PassageMatch]) -> bool:
        """Whether others than those who ask have a part in it: what these say may be the prompt's own lines."""
        rows = self._recent_rows
        places = sorted({match.place for match in talk})
        roles = {rows[place].message.role for place in places}
        if len(roles) > 1 or (Role.USER not in roles and len(places) >= MIN_TURNS):
            return True
        for before, after in pairwise(talk):  # what is too short to be found by itself
            between = text[before.end : after.start]
            short_texts = (row.message for row in rows[before.place + 1 : after.place])
            if any(
                message.role not in roles
                and len(said := message.content.strip()) > 1
                and said in between
                for message in short_texts
            ):
                return True
        return False

    @cached_property
    def _recent_rows(self) -> list[MessageRow]:
        return [row for row in self.view.rows[-MAX_TOLD:] if not row.withheld]

    @cached_property
    def _message_index(self) -> PassageIndex:
        return PassageIndex(
            [(self._live(row.message.content), row.message.content) for row in self._recent_rows]
        )

    def _live(self, text: str) -> str:
        """What was said, where the values that were taken out are still known here."""
        redactor = self.view.redactor
        try:
            return redactor.restore(text).text if redactor is not None else text
        except Exception:  # noqa: BLE001 - a redactor of somebody else's may raise anything
            return text


def _ranked(result: Candidate, words: Collection[str]) -> tuple[bool, int, Candidate]:
    """A result with what it is ordered by; it scores where later calls took some of their `words` from it."""
    used = _mentions(result, words)
    scored = replace(result, score=1.0) if used else result
    return not used, len(result.snippet.text), scored


def _mentions(candidate: Candidate, words: Collection[str]) -> bool:
    """Whether the text of a candidate has one of some words."""
    return any(word in candidate.snippet.text for word in words)


def _is_found(row: EvidenceRow) -> bool:
    """Whether a tool or a retriever of some run found it; what an owner put there or shares is meant to go in."""
    return not row.shared and bool(row.evidence.links.tool_call_id)
