"""What the stages ask for while they work: texts, token counts, and what is relevant again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field

from ce_engine.prepare.blocks.material import Material
from ce_engine.prepare.compose.render import Snippet
from ce_engine.prepare.message_groups import MessageItem
from ce_engine.schema.document import Message
from ce_engine.schema.enums import Priority


@dataclass(frozen=True, slots=True)
class Candidate:
    """Something earlier that the query may need: an entry of the log, or evidence; or what a source gave.

    What `is_stored` says the same for ever. Of a long one only some `sentences` may be in the snippet.
    `priority` and `sensitivity` are of the block that it is to a pruner. A note of our own is `about` evidence, by
    its ids, and goes in beside it alone.
    """

    id: str
    snippet: Snippet
    score: float
    order: int
    is_stored: bool = False
    sentences: tuple[int, ...] = ()
    priority: Priority = Priority.LOW
    sensitivity: str | None = None
    about: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class QuotedSpan:
    """Text of a retrieved document, or a message of the session, inside a message; `rank` 0 is the best hit."""

    start: int
    end: int
    rank: int
    evidence_id: str


@dataclass(slots=True)
class CandidateSources:
    """What the stages ask for while they work; every function is pure for the length of one call.

    Attributes:
        count: tokens of a text.
        text: the live or stored text of an item.
        says: what tells whether two items of the host say the same; if not given, their texts.
        evidence_of: the evidence that a tool result is stored as, `""` if none.
        recall: what is relevant to a query among what does not go out, best first; the first so many.
        results: tool results that do not go out whole, at most so many; those that later calls took from first, with a score.
        compacts: tool results are in their forms since the line is over its limit, not since they arrived.
        costs: tokens of candidates' lines that were counted before, by id: for one counter and language.
        documents: texts that were found for this call, which its app puts into its own prompt.
        terms: a text's terms, as relevance understands them.
        day_of: the day on which an item was said, `YYYY-MM-DD`; `""` where it is not known.
        message_of: the stored message of an item that the host does not have.
        spans: documents of this run inside the text of a message.
        find_talk: messages of the session inside the text of a helper's prompt, as a conversation; whether
            the text is a system message.
        question_of: an item's text with the documents inside it, as stored: what it recalls can be recalled again.
        summary: what stands for entries that are left out, if there is a summary of them.
        settle: the candidates without those that a conflict took out, with a note of what is open (A-18).
        materials: what sources gave, in their order; see `Material`.
        whole: the host keeps nothing itself: all evidence is a candidate, with room to spare too.
        has_more: such a host has more than its messages: evidence, or a summary of what it does not send.
        learns: such a host has evidence beside its messages, and may get more while a question is answered.
        has_news: it got more since its last call.
        nearest: the score of what is nearest to a query among the messages before it that go out.
        around: the same, among the newest few of them alone, with what a query lends to those beside it.
        saved: tokens that the short form of a host message saves, by its index, where that is known.
        alone: tokens that a tool result takes in the form that refers to nothing above it, by `MessageItem.key`.
        unread: of a host that keeps nothing itself, the evidence that was not looked at: candidates' ids, and
            how many characters each has.
        is_hidden: whether a candidate, by its id, is of evidence that is too sensitive to go out.
        embedder: the name of the model whose vectors have a say in `recall`, if any.
        credit: tokens that the session's calls have saved by now, at full price; `None` where that is not known.
        now: the time that ages are measured against (ISO 8601); the pruner's own if not given.
    """

    count: Callable[[str], int]
    text: Callable[[MessageItem], str]
    evidence_of: Callable[[MessageItem], str]
    recall: Callable[[str, frozenset[int], int], Sequence[Candidate]]
    terms: Callable[[str], Sequence[str]]
    message_of: Callable[[MessageItem], Message]
    spans: Callable[[str], Sequence[QuotedSpan]]
    question_of: Callable[[MessageItem], tuple[str, Sequence[QuotedSpan]]]
    says: Callable[[MessageItem], object] | None = None
    day_of: Callable[[MessageItem], str] = lambda _: ""
    find_talk: Callable[[str, bool], Sequence[QuotedSpan]] = lambda _, __: ()
    results: Callable[[frozenset[int], int], Iterable[Candidate]] = lambda _entries, _most: ()
    summary: Callable[[frozenset[int]], Material | None] = lambda _: None
    settle: Callable[[Sequence[Candidate]], Sequence[Candidate]] = lambda candidates: candidates
    materials: Sequence[Material] = ()
    whole: bool = False
    has_more: bool = False
    learns: bool = False
    has_news: bool = False
    nearest: Callable[[str, frozenset[int], int], float] = lambda _query, _entries, _task_entry: 0.0
    around: Callable[[str, frozenset[int], int], float] = lambda _query, _entries, _task_entry: 0.0
    saved: Mapping[int, int] = field(default_factory=dict)
    alone: Mapping[int | str, int] = field(default_factory=dict)
    is_hidden: Callable[[str], bool] = lambda _: False
    unread: Callable[[], Sequence[tuple[str, int]]] = tuple
    embedder: str = ""
    credit: int | None = None
    now: str | None = None
    compacts: bool = False
    costs: MutableMapping[str, int] = field(default_factory=dict)
    documents: Callable[[], Sequence[str]] = tuple
