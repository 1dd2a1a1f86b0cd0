"""Whether a text quotes another: it has words, numbers or characters of it in a row, and not from the question.

A date, a number or a code counts whole or not at all: `2026-06-05` has nothing of `2026-06-04`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ce_engine.schema.document import Evidence, Message, SessionDocument
from ce_engine.schema.enums import EvidenceType, Role
from ce_engine.text.written_dates import FULL_DATE, NO_YEAR, dated


MAX_CHARS = 200_000
"""Of a text that are looked at."""

ENOUGH = 12
"""What a run that two texts share must weigh to be a quote: four words, six Han characters, a number of four digits."""

LEAST = 3
"""What a text weighs that stands whole in the other: one word."""

MARKER_CHARS = 6
"""From this length on, an id or an address of evidence in an answer is a marker of it."""

FEW = 12
"""Up to so many words, any number of a text is telling: `{"in_stock": 12}`."""

UNSPACED = (
    "\u0e00-\u0eff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
)
"""Letters of scripts that have no spaces between words, for a pattern."""

_LETTER = rf"[^\W\d_{UNSPACED}]"
_TOKEN = re.compile(
    rf"(?<!\d)(?<!\d-)\d++(?:-\d++)++(?!-)|{_LETTER}+\d*(?:-(?:{_LETTER}|\d)+)+|\d+(?:[.,:]\d+)*|[{UNSPACED}]|{_LETTER}+"
)
"""None begins in the middle of a run that another one has tried: on nothing else that would take the square of the length.

Numbers joined by hyphens and codes such as `Q-204` are one word each: half of one says nothing of the other half."""
_HYPHENS = dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2212"), "-")
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_YEAR = re.compile(r"(?:19|20)\d\d")
_MONTH = re.compile(r"(?:19|20)\d\d-\d{1,2}")
_COMMON = frozenset(
    [
        "a",
        "an",
        "the",
        "and",
        "or",
        "but",
        "if",
        "of",
        "to",
        "in",
        "on",
        "at",
        "by",
        "for",
        "from",
        "with",
        "about",
        "into",
        "as",
        "is",
        "are",
        "was",
        "were",
        "be",
        "been",
        "do",
        "does",
        "did",
        "has",
        "have",
        "had",
        "i",
        "you",
        "he",
        "she",
        "it",
        "we",
        "they",
        "me",
        "him",
        "her",
        "us",
        "them",
        "my",
        "your",
        "his",
        "its",
        "our",
        "their",
        "this",
        "that",
        "these",
        "those",
        "there",
        "here",
        "what",
        "which",
        "who",
        "when",
        "where",
        "why",
        "how",
        "not",
        "no",
        "yes",
        "ok",
        "so",
        "can",
        "could",
        "will",
        "would",
        "shall",
        "should",
        "may",
        "might",
        "must",
        "的",
        "了",
        "是",
        "在",
        "和",
        "有",
        "不",
        "我",
        "你",
        "他",
        "她",
        "它",
        "们",
        "这",
        "那",
        "吗",
        "呢",
        "好",
    ]
)


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a text, numbers and characters of unspaced scripts among them, and all in one line."""

    all: Sequence[str] = ()
    line: str = field(default="", repr=False)

    @classmethod
    def of(cls, text: str) -> Words:
        """The words of the first `MAX_CHARS` of a text; case, width, spaces and punctuation do not count."""
        plain = unicodedata.normalize("NFKC", text[:MAX_CHARS]).casefold().translate(_HYPHENS)
        return cls.in_a_row(
            [word for token in _TOKEN.findall(dated(plain)) for word in _whole(token)]
        )

    @classmethod
    def in_a_row(cls, words: Sequence[str]) -> Words:
        """These words, and their line."""
        return cls(words, f" {' '.join(words)} ")

    def with_years_of(self, other: Words) -> Words:
        """The same, with the years that the other text gives to dates that are told without one."""
        if not any(word.startswith(NO_YEAR) for word in self.all):
            return self
        years = {word[len(NO_YEAR) :]: word for word in other.all if FULL_DATE.fullmatch(word)}
        return Words.in_a_row(
            [
                years.get(word[len(NO_YEAR) :], word) if word.startswith(NO_YEAR) else word
                for word in self.all
            ]
        )


NOTHING = Words()


def _whole(word: str) -> Sequence[str]:
    """A word as it is compared: `well-known` are two, `Q-204` is one."""
    if "-" in word and not any(map(str.isdecimal, word)):
        return word.split("-")
    return [word.replace(",", "") if _THOUSANDS.fullmatch(word) else word]


def quotes(answer: Words, source: Words, question: Words = NOTHING) -> bool:
    """Whether what was said is, in part, what the source says, beyond what the question said already."""
    if not answer.all or not source.all:
        return False
    answer, source = answer.with_years_of(source), source.with_years_of(answer)
    question = question.with_years_of(source)
    weigh = _weighing(question)
    for part, whole in ((source, answer), (answer, source)):
        if (
            part.line in whole.line
            and sum(map(weigh, part.all)) >= LEAST
            and _is_new(part, question)
        ):
            return True
    if any(run in source.line and run not in question.line for run in _runs(answer.all, weigh)):
        return True
    if len(source.all) > FEW:
        return False
    return any(
        word[0].isdecimal() and word in source.all for word in {*answer.all} - {*question.all}
    )


def quoted_words(answer: Words, source: Words, question: Words = NOTHING) -> frozenset[int]:
    """The places of the words of an answer that stand in runs in which it quotes a source."""
    answer, source = answer.with_years_of(source), source.with_years_of(answer)
    question = question.with_years_of(source)
    places = set[int]()
    for start, run in enumerate(_runs(answer.all, _weighing(question))):
        if run in source.line and run not in question.line:
            places.update(range(start, start + len(run.split())))
    return frozenset(places)


def _is_new(part: Words, question: Words) -> bool:
    return part.line not in question.line and not {*part.all} <= {*question.all}


def _weighing(question: Words) -> Callable[[str], int]:
    """How telling a word is; one that the question has is not."""
    common_words = _COMMON.union(question.all)

    def weigh(word: str) -> int:
        if word in common_words:
            return 1
        digits = sum(map(str.isdecimal, word))
        if word[0].isdecimal():
            return 6 if _YEAR.fullmatch(word) else 9 if _MONTH.fullmatch(word) else 3 * digits
        if digits:
            return 3 + 3 * digits
        return 2 if re.match(f"[{UNSPACED}]", word) else 3

    return weigh


def _runs(words: Sequence[str], weigh: Callable[[str], int]) -> Iterator[str]:
    """The shortest runs that weigh enough, one for each place where one begins."""
    weights = [weigh(word) for word in words]
    end = total = 0
    for start, weight in enumerate(weights):
        while total < ENOUGH and end < len(words):
            total += weights[end]
            end += 1
        if total < ENOUGH:
            return
        yield f" {' '.join(words[start:end])} "
        total -= weight


class Quotations:
    """Which answers of a session rest on which evidence: they quote it, or the app says so.

    That evidence was in an answer's input says only that it was shown.
    """

    def __init__(self, document: SessionDocument) -> None:
        self._document = document
        self._words: dict[str, Words] = {}
        self._newest: tuple[Message, Words, Words] | None = None
        self._quoted: tuple[Message, dict[str, frozenset[int]]] | None = None

    def rests_on(
        self, message: Message, evidence_id: str, others: Callable[[], Sequence[str]] = tuple
    ) -> bool:
        """Whether this answer quotes the evidence, names it, or was said by the app to rest on it.

        Args:
            message: the answer.
            evidence_id: of evidence that it refers to.
            others: what was shown beside what it refers to (`is_outdone`).
        """
        if message.role is not Role.ASSISTANT or not message.refs:
            return False
        for ref in message.refs:
            if ref.evidence_id == evidence_id and (ref.cited or ref.selector):
                return True
        if not self.quotes(message, evidence_id):
            return False
        shown = [*(ref.evidence_id for ref in message.refs), *others()]
        return not self.is_outdone(message, evidence_id, shown)

    def is_outdone(self, message: Message, evidence_id: str, others: Iterable[str]) -> bool:
        """Whether another source has all words that this one has of an answer, and more: two orders of one product have its name.

        Args:
            message: the answer.
            evidence_id: of a source.
            others: ids of evidence that was shown as well; what the model said itself outdoes nothing.
        """
        own = self._quoted_words(message, evidence_id)
        return bool(own) and any(own < self._quoted_words(message, other) for other in others)

    def _quoted_words(self, message: Message, evidence_id: str) -> frozenset[int]:
        """The places of an answer's words that a source has."""
        if self._quoted is None or self._quoted[0] is not message:
            self._quoted = message, {}
        places = self._quoted[1].get(evidence_id)
        if places is None:
            evidence = self._document.evidences.get(evidence_id)
            places = frozenset()
            if evidence is not None and evidence.type is not EvidenceType.LLM_OUTPUT:
                places = quoted_words(*self._compared(message, evidence))
            self._quoted[1][evidence_id] = places
        return places

    def quotes(
        self, message: Message, evidence_id: str, texts: Sequence[str] | None = None
    ) -> bool:
        """Whether this answer quotes the evidence or names it, beyond what its question said already.

        Args:
            message: the answer.
            evidence_id: of the evidence.
            texts: all that the model was told of it; `None` for its whole content.
        """
        evidence = self._document.evidences.get(evidence_id)
        if evidence is None or not message.content:
            return False
        names = (evidence_id, evidence.source.uri)
        if any(len(name) >= MARKER_CHARS and name in message.content for name in names):
            return True
        answer, whole, question = self._compared(message, evidence)
        sources = [whole] if texts is None else [Words.of(text) for text in texts]
        return any(quotes(answer, source, question) for source in sources)

    def _compared(self, message: Message, evidence: Evidence) -> tuple[Words, Words, Words]:
        """The words of an answer, of evidence and of the question."""
        name = evidence.evidence_id
        if name not in self._words:
            self._words[name] = Words.of(evidence.content)
        if self._newest is None or self._newest[0] is not message:
            question = Words.of(self._question(message))
            self._newest = message, Words.of(message.content), question
        return self._newest[1], self._words[name], self._newest[2]

    def _question(self, message: Message) -> str:
        """What the answer answers: the nearest message of a user above it."""
        seen: set[str] = set()
        above: Message | None = message
        while above is not None and above.role is not Role.USER:
            name = above.parent_id or ""
            above = self._by_id.get(name) if name not in seen else None
            seen.add(name)
        return above.content if above is not None else ""

    @cached_property
    def _by_id(self) -> dict[str, Message]:
        return {m.message_id: m for m in self._document.session.messages if m.message_id}
