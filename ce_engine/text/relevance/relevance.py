"""Which older messages and pieces of evidence a question needs, found by their words, without a model.

Every entry has a position, and a set of positions is one big integer with a bit for each. What is near a
match, in the same stretch of talk, by a speaker or of a date is such a set, made with a few shifts and
carries, and `tally` adds up weighted sets for all positions at once. So a search costs some dozens of
operations on integers whatever the session's length, and only what it returns is looked at one by one.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from datetime import date
from operator import itemgetter
from typing import NamedTuple

from ce_engine.text.relevance.meaning import Meaning
from ce_engine.text.relevance.near_words import near
from ce_engine.text.relevance.related_words import related
from ce_engine.text.relevance.tally import (
    FeatureTally,
    Tally,
    best,
    members_of,
    positions,
    scored,
    span,
)
from ce_engine.text.relevance.terms import (
    asks_how_many,
    asks_when,
    asks_whom,
    day_of,
    days_named,
    header,
    is_question,
    matter,
    place_of_name,
    tells_number,
    tells_time,
    term_set,
    word_set,
)


# Weights. The terms of a question share out 1 by their rarity (the idf of BM25). An entry that holds them
# all is in the neighbourhood of itself too, and gets OWN + NEXT + NEAR + TALK. Presence alone counts: term
# frequency and length added nothing to it on LoCoMo and CMRC, and all weights may be a third off.
OWN = 0.3
NEXT = 0.15  # the term is in the entry or beside it: answers follow questions
NEAR = 0.2  # ... or two entries away: a subject outlasts a turn
ANSWER = 0.08  # the entry before asks, with the term in it
TALK = 0.35  # it fell in the same stretch of talk
SPEAKER = 0.2  # the question names who speaks
DATE = 1.0  # it names the very day: nothing is stronger
MONTH = 0.3  # it names the month or the year
AFTER = 0.9  # share of a date's weight for the day after it, when its story is told
WHEN = 0.075  # "when" meets an expression of time
EVENT = 0.025  # what has or is near a term says when it happened: such things are asked for
HOW_MANY = 0.04  # "how many" meets a number

RELATED = 0.2  # an entry has words that mean the like of one of the question's
BESIDE = 0.1  # ... or one beside it has
ALIKE = 0.15  # it has a word that is used like one of the question's; half of OWN, so that the very word is worth more

FOLLOWING = 14
"""Days after a date until nothing of its weight is left."""

STRETCH = 24
"""Entries of one day, at most, that are one stretch of talk."""

STRETCHES = 32
"""Stretches of talk, at most, that lend their entries a score; with 16 a session of some thousand loses half a point."""

TERMS = 48
"""Terms of a question that count, the rarest first: a pasted page must not cost more than a question."""

WORDS = 24
"""A question of more words is looked up by its own alone."""

COMMON = 0.25
"""Share of all entries above which words that mean the like of one tell nothing."""

MOST = 8
"""What another name of a word, or one that is used like it, counts at most, in shares of all words of a question that are
known: where these stand in every entry they say next to nothing, and it would have no bound."""

FEW = 0.01
"""Share of all entries above which a word that is used like one of the question's tells nothing: of the common ones some are alike to any."""

PAGE = 4000
"""Characters of a question that are read; of a longer one its two ends."""

LONG = 80
"""Distinct terms that make an entry a document: it has many words by its length alone."""

LONG_SHARE = 0.6
"""What a document's own terms count for; to its neighbours and its talk it lends nothing."""

SPEAKERS = 256
"""Names that are kept as speakers: many a text begins like `Note: ...`."""

SPARSE = 24
"""Entries with a term up to which they are listed; above it a set takes less."""

UNIT = 256
"""Scores are added up as whole numbers of 1/256."""


class Hit(NamedTuple):
    """An entry that a question may need. Scores compare within one search."""

    n: int
    score: float


class LexicalIndex:
    """The words of a session's entries, searchable; it grows by one entry at a time.

    Nothing is read but what is handed in, and nothing is random: what a search finds depends on what was
    added and removed, not on when.
    """

    def __init__(self) -> None:
        self._ns: list[int] = []
        self._alive = self._lends = self._long = self._timed = self._numbered = self._asks = 0
        self._speakers: dict[str, int] = {}
        # Where stretches of talk start, their days, and the set of their last positions.
        self._starts: list[int] = []
        self._days: list[int | None] = []
        self._years: set[int] = set()
        self._ends = 0
        # Where a term is: in one entry, `-1 - position`; in a few, a list; in more, a set.
        self._postings: dict[str, int | list[int]] = {}
        self._listed = self._sets = 0
        # The last question and the scores of all entries for it, until there are others.
        self._last: tuple[str, list[int]] | None = None

    def __len__(self) -> int:
        return self._alive.bit_count()

    @property
    def bytes(self) -> int:
        """Memory that the index takes, roughly."""
        sets = self._sets + len(self._speakers) + 7
        return (
            1000
            + 40 * len(self._ns)
            + 150 * len(self._postings)
            + 14 * self._listed
            + sets * (len(self._ns) // 7 + 40)
        )

    def add(
        self,
        n: int,
        text: str,
        *,
        speaker: str | None = None,
        at: str | None = None,
        kind: str = "message",
    ) -> None:
        """Index an entry, once in its life; the cost is linear in its text.

        Args:
            n: its number, above every number before.
            text: what it says. A date and a name in front (`[8 May 2023] Ann: ...`) are understood.
            speaker: who says it, a name or a role.
            at: when, ISO 8601; a date in front of the text goes before it.
            kind: what it is. Only a `message` lends its words to what is around it.

        Raises:
            ValueError: `n` is not above the last one.
        """
        if self._ns and n <= self._ns[-1]:
            raise ValueError(
                f"entry {n} came after entry {self._ns[-1]}; add them in ascending order"
            )
        self._last = None
        position = len(self._ns)
        bit = 1 << position
        head = header(text)
        words = word_set(text[head.start :])
        terms = term_set(words)
        self._ns.append(n)
        self._alive |= bit
        self._extend(position, head.day or day_of(at))
        for name in {(speaker or "").lower(): 0, head.speaker: 0}:
            if name and (name in self._speakers or len(self._speakers) < SPEAKERS):
                self._speakers[name] = self._speakers.get(name, 0) | bit
        if len(terms) >= LONG:
            self._long |= bit
        elif kind == "message":
            self._lends |= bit
        if is_question(text):
            self._asks |= bit
        if tells_time(words):
            self._timed |= bit
        if tells_number(words):
            self._numbered |= bit
        self._post(position, terms)

    def _extend(self, position: int, day: int | None) -> None:
        """Put the next position into the running stretch of talk, or begin one."""
        bit = 1 << position
        if self._starts and self._days[-1] == day and position - self._starts[-1] < STRETCH:
            self._ends ^= bit | bit >> 1
        else:
            self._starts.append(position)
            self._days.append(day)
            self._ends |= bit
            if day:
                self._years.add(date.fromordinal(day).year)

    def _post(self, position: int, terms: Iterable[str]) -> None:
        postings, once, bit = self._postings, ~position, 1 << position
        for term in terms:
            posting = postings.setdefault(term, once)
            if posting == once:
                continue
            if isinstance(posting, list):
                posting.append(position)
                self._listed += 1
                if len(posting) > SPARSE:
                    postings[term] = members_of(posting)
                    self._listed -= len(posting)
                    self._sets += 1
            elif posting < 0:
                postings[term] = [~posting, position]
                self._listed += 2
            else:
                postings[term] = posting | bit

    def remove(self, n: int) -> None:
        """Forget an entry with all of its words; costs a look at every term. Unknown numbers are let be."""
        position = bisect_left(self._ns, n)
        if position == len(self._ns) or self._ns[position] != n:
            return
        self._last = None
        bit = 1 << position
        for name in ("_alive", "_lends", "_long", "_timed", "_numbered", "_asks"):
            setattr(self, name, getattr(self, name) & ~bit)
        speakers = {name: members & ~bit for name, members in self._speakers.items()}
        self._speakers = {name: members for name, members in speakers.items() if members}
        for term, posting in list(self._postings.items()):
            if posting == ~position:
                del self._postings[term]
            elif isinstance(posting, list):
                if position in posting:
                    posting.remove(position)
                    self._listed -= 1
                    if not posting:
                        del self._postings[term]
            elif posting == bit:
                del self._postings[term]
                self._sets -= 1
            elif posting >= 0:
                self._postings[term] = posting & ~bit

    def search(
        self,
        query: str,
        *,
        limit: int,
        exclude: Callable[[int], bool] | None = None,
        among: range | None = None,
        meaning: Meaning | None = None,
    ) -> list[Hit]:
        """The entries that the query may need, best first, the older of equals first.

        Args:
            query: what is asked, in any mixture of languages; nothing to go by finds nothing.
            limit: hits at most.
            exclude: numbers that must not come; asked for the best entries only.
            among: the numbers, from `start` to before `stop`, that may come; `None` for all.
            meaning: gives what entries are worth whatever their words.
        """
        sums = self._scores(query, meaning) if limit > 0 and self._alive else []
        allowed = self._alive
        if among is not None:
            low, high = (bisect_left(self._ns, edge) for edge in (among.start, among.stop))
            allowed &= span(low, max(low, high))
        asked_positions = 0
        while top := best(sums, allowed, limit):
            refused = 0
            if exclude is not None:
                for position in positions(top & ~asked_positions):
                    if exclude(self._ns[position]):
                        refused |= 1 << position
            if not refused:
                break
            asked_positions |= top
            allowed &= ~refused
        return [Hit(self._ns[position], score / UNIT) for score, position in scored(sums, top)]

    def share_known(self, query: str, least: int = 1) -> float:
        """The share of the query's terms that stand in `least` entries: scores tell of those that stand in any."""
        postings = (
            self._postings.get(term, 0) for term in term_set(word_set(matter(query[:PAGE])))
        )
        presence = [members_of(posting).bit_count() >= least for posting in postings]
        return sum(presence) / max(1, len(presence))

    def explain(self, query: str, n: int, meaning: Meaning | None = None) -> dict[str, float]:
        """What the score of an entry is made of, the most first; of one that is not there, nothing.

        `words` are the question's own in it, `beside` and `near` those of its neighbours, `talk` those of its
        stretch of talk; `speaker`, `date`, `time` and `number` what else of it was asked for; `meaning` is
        that of it and of its neighbours.
        """
        position = bisect_left(self._ns, n)
        if position == len(self._ns) or self._ns[position] != n:
            return {}
        parts = FeatureTally(position)
        self._sums(_ends(query), parts, meaning)
        weights = sorted(parts.found.items(), key=itemgetter(1), reverse=True)
        return {name: weight / UNIT for name, weight in weights}

    def _scores(self, query: str, meaning: Meaning | None) -> list[int]:
        """Scores of all entries by words alone once a question: a call searches several times for one."""
        query = _ends(query)
        if meaning is not None:
            return self._sums(query, Tally(), meaning)
        if self._last is None or self._last[0] != query:
            self._last = query, self._sums(query, Tally(), None)
        return self._last[1]

    def _sums(self, query: str, tally: Tally, meaning: Meaning | None) -> list[int]:
        """Scores of all entries; empty where the query says nothing to go by."""
        words, about = word_set(query), word_set(matter(query))
        has_clues = self._add_terms(tally, about)
        has_clues |= self._add_speakers(tally, query.lower())
        has_clues |= self._add_dates(tally, query)
        for digit, members in enumerate(meaning(self._ns, self._lends, UNIT) if meaning else ()):
            tally.add(members, 1 << digit, "meaning")
            has_clues = True
        if not has_clues:
            return []
        tally.add(self._speakers.get(asks_whom(about), 0), UNIT * SPEAKER, "speaker")
        if asks_when(words):
            tally.add(self._timed, UNIT * WHEN, "time")
        if asks_how_many(words):
            tally.add(self._numbered, UNIT * HOW_MANY, "number")
        return tally.total()

    def _add_terms(self, tally: Tally, words: AbstractSet[str]) -> bool:
        known_terms: list[tuple[float, str, int]] = []
        terms = term_set(words)
        for term in terms:
            posting = self._postings.get(term)
            if posting is not None:
                members = members_of(posting)
                known_terms.append((_rarity(members.bit_count(), len(self)), term, members))
        known_terms.sort(reverse=True)
        del known_terms[TERMS:]
        unit = UNIT / (sum(rarity for rarity, _, _ in known_terms) or math.log(len(self) + 1))
        talks, touched = Tally(), 0
        inside = (1 << len(self._ns)) - 1 & ~self._ends
        for rarity, _, own in known_terms:
            lent = own & self._lends
            beside = own | lent << 1 | lent >> 1
            near = beside | lent << 2 | lent >> 2
            touched |= near
            share = rarity * unit
            documents = own & self._long
            tally.add(own ^ documents, share * OWN, "words")
            if documents:
                tally.add(documents, share * OWN * LONG_SHARE, "words")
            tally.add(beside, share * NEXT, "beside")
            tally.add(near, share * NEAR, "near")
            tally.add((lent & self._asks) << 1, share * ANSWER, "beside")
            # Ones added to all but the last position of a stretch carry into it if any position is set.
            talk_ends = ((lent & inside) + inside | lent) & self._ends
            spread = _rarity(talk_ends.bit_count(), len(self._starts)) * unit
            talks.add(talk_ends, min(spread, UNIT) * TALK)
        tally.add(touched & self._timed, UNIT * EVENT, "time")
        self._add_talks(tally, talks.total())
        return self._add_related(tally, words, terms, unit) or bool(known_terms)

    def _add_related(
        self, tally: Tally, words: AbstractSet[str], terms: AbstractSet[str], unit: float
    ) -> bool:
        """Entries that say by another name what the question asks: each word's other names are one term."""
        has_related = False
        query_words = words - self._speakers.keys()
        for word in sorted(query_words) if len(terms) <= WORDS else ():
            other_names = related(word) - terms
            has_related |= self._add_near(tally, word, other_names | terms, unit)
            own = 0
            for term in other_names:
                own |= self._holding(term)
            if not own or own.bit_count() > COMMON * len(self) + 1:
                continue
            has_related = True
            lent = own & self._lends
            share = min(_rarity(own.bit_count(), len(self)) * unit, UNIT * MOST)
            tally.add(own, share * RELATED, "related")
            tally.add(own | lent << 1 | lent >> 1, share * BESIDE, "related")
        return has_related

    def _add_near(self, tally: Tally, word: str, others: AbstractSet[str], unit: float) -> bool:
        """Entries with a word that is used like one of the question's, and few say it: each counts by the nearest.

        What has the very word gets nothing more, nothing gets more than that word is worth, and `others` count themselves.
        """
        very = next(iter(term_set({word})), "")
        holders = self._holding(very)
        most: float = UNIT * MOST
        if holders:
            most = min(most, _rarity(holders.bit_count(), len(self)) * unit)
        has_near = False
        for term in near(very):
            own = 0 if term in others else self._holding(term)
            count = own.bit_count()
            if count <= FEW * len(self) + 1 and (own := own & ~holders):
                has_near = True
                holders |= own
                tally.add(own, min(most, _rarity(count, len(self)) * unit) * ALIKE, "related")
        return has_near

    def _holding(self, term: str) -> int:
        """The set of the positions of entries with a term."""
        posting = self._postings.get(term)
        return 0 if posting is None else members_of(posting)

    def _add_talks(self, tally: Tally, sums: Sequence[int]) -> None:
        """Lend the scores of the best stretches of talk to their entries."""
        for score, end in scored(sums, best(sums, self._ends, STRETCHES)):
            start = self._starts[bisect_right(self._starts, end) - 1]
            tally.add(span(start, end + 1), score, "talk")

    def _add_speakers(self, tally: Tally, query: str) -> bool:
        """Who is named first is most often who said it; others count half."""
        places = ((place_of_name(name, query), name) for name in self._speakers)
        mentions = sorted(mention for mention in places if mention[0] >= 0)
        for rank, (_, name) in enumerate(mentions):
            tally.add(self._speakers[name], UNIT * SPEAKER / (2 if rank else 1), "speaker")
        return bool(mentions)

    def _add_dates(self, tally: Tally, query: str) -> bool:
        day_spans = days_named(query, self._years)
        if not day_spans:
            return False
        days = {day for day in self._days if day}
        weights = {
            day: max(_closeness(day, first, last) for first, last in day_spans) for day in days
        }
        ends = [*self._starts[1:], len(self._ns)]
        for start, end, day in zip(self._starts, ends, self._days, strict=True):
            if day and weights[day]:
                tally.add(span(start, end), UNIT * weights[day], "date")
        return any(weights.values())


def _ends(query: str) -> str:
    """What is read of a question."""
    return query if len(query) <= PAGE else f"{query[: PAGE // 2]}\n{query[-PAGE // 2 :]}"


def _rarity(holding: int, total: int) -> float:
    """The idf of BM25, which is never below 0."""
    return math.log1p((total - holding + 0.5) / (holding + 0.5))


def _closeness(day: int, first: int, last: int) -> float:
    """What a day counts for a span of days that the question names."""
    weight = DATE if first == last else MONTH
    if first <= day <= last:
        return weight
    passed = day - last
    return weight * AFTER * (1 - passed / (FOLLOWING + 1)) if 0 < passed <= FOLLOWING else 0.0
