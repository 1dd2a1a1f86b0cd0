"""A turn as it was and as another configuration would have sent it: what became of each message in both, and the sums."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ce_engine.apps.present.amounts import Amounts
from ce_engine.apps.present.html_text import Piece, difference
from ce_engine.apps.present.language import ENGLISH, Say
from ce_engine.apps.present.links import Links
from ce_engine.apps.present.output import number
from ce_engine.apps.present.reasons import GOES_BACK
from ce_engine.apps.present.turn_view import (
    Fates,
    Fold,
    Row,
    folded,
    in_order,
    reason_of,
    turn_rows,
)
from ce_engine.schema.document import Message
from ce_engine.schema.enums import Role
from ce_engine.schema.replay import Explanation, PassedOver, Replay, Sent, SentPart
from ce_engine.schema.report import Report
from ce_engine.text.tokens.prices import ModelPrice, PriceTable


MESSAGE, QUOTED, OUT, TEXT, NOWHERE = "message", "quoted", "left out", "put in", "-"
"""What becomes of a message: `quoted` is left out as a message, and its text stands before the question."""

WORDS = {
    MESSAGE: "message",
    "shortened": "shortened message",
    QUOTED: "quoted",
    OUT: "left out",
    TEXT: "text put in",
    NOWHERE: "–",
}
"""The same in words."""

_OF_ACTION = {"dropped": OUT, "shortened": "shortened", "injected": TEXT}


Key = tuple[int, int | str]
"""A message: 1 and its place in the app's list, or 0 and its id."""


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a message.

    Attributes:
        kind: a key of `WORDS`.
        tokens: as it goes out, else what it would take as a message.
        reason: why, a key of `reasons.WHY`.
        score: how relevant it is to the question, where that was looked at.
        passed: what says why it was not quoted, where it was looked at.
    """

    kind: str
    tokens: int = 0
    reason: tuple[str, str] = ("", "")
    score: float | None = None
    passed: PassedOver | None = None


@dataclass(slots=True)
class Change:
    """What became of a message in both inputs; `is_other` where it would have gone another way, or with another text."""

    index: int | None
    role: Role
    message_id: str
    text: str
    was: Fate
    then: Fate
    pieces: list[Piece] = field(default_factory=list)
    is_other: bool = True

    @property
    def is_rewritten(self) -> bool:
        """Whether it goes the same way with another text."""
        return self.was.kind == self.then.kind


@dataclass(frozen=True, slots=True)
class SumLine:
    """A figure of both, and how much more or less it would have been."""

    title: str
    was: str
    then: str
    more: str


class WhatIfView:
    """Both inputs of a turn, message by message.

    Args:
        replay: with `instead`.
        links: of the session.
    """

    def __init__(self, replay: Replay, links: Links) -> None:
        assert replay.instead is not None
        assert replay.why is not None
        assert replay.why_instead is not None
        self._replay = replay
        self._links, messages = links, links.document.session.messages
        self._messages = {m.message_id: m for m in messages if m.message_id}
        self.sent, self.instead = replay.sent, replay.instead
        self.why, self.why_instead = replay.why, replay.why_instead
        self.prefixes = (replay.prefix, replay.prefix_instead)
        self.was = _fates(self.sent, self.why, self._messages)
        self.then = _fates(self.instead, self.why_instead, self._messages)
        self.twice = tuple(
            len(quoted_ids(why) & {part.message_id for part in prompt.parts})
            for prompt, why in ((self.sent, self.why), (self.instead, self.why_instead))
        )
        self._moves = list(self._both())
        self.changes = [move for move in self._moves if move.is_other]

    def with_text(self, text: str) -> list[Change]:
        """What became in both inputs of the messages that have a text, whatever the case of its letters."""
        sought = text.casefold()
        return [move for move in self._moves if sought in self._whole_text(move).casefold()]

    def _whole_text(self, move: Change) -> str:
        message = self._messages.get(move.message_id)
        return "\n".join([move.text, *(self._links.render_calls(message) if message else ())])

    def _both(self) -> Iterator[Change]:
        """What became of each message in both inputs, in the list's order."""
        first, second = _by_key(self.sent), _by_key(self.instead)
        for key in sorted(first | second, key=self._place):
            old, new = first.get(key), second.get(key)
            part = old or new
            was = self.was.get(key, Fate(NOWHERE))
            then = self.then.get(key, Fate(NOWHERE))
            before, after = (part.content if part else "" for part in (old, new))
            if part is None:
                continue
            message = self._messages.get(part.message_id or "")
            yield Change(
                part.index,
                part.role,
                part.message_id or "",
                self._text_of(message) if message else part.content,
                was,
                then,
                difference(before, after) if before and after and before != after else [],
                is_other=was.kind != then.kind or before != after,
            )

    def _text_of(self, message: Message) -> str:
        """What a message says, else the tools that it asks for."""
        return message.content or "; ".join(self._links.render_calls(message))

    def _place(self, key: Key) -> tuple[int, int]:
        """Where a message stands: by its place in the app's list, before them as it was stored."""
        is_listed, name = key
        message = self._messages.get(str(name))
        return is_listed, int(name) if is_listed else (message.seq or 0) if message else 0

    def ordered(self, report: Report, say: Say = ENGLISH) -> list[Row | Fold]:
        """The other input as a turn shows its own: messages in their order, neighbours that are left out together.

        Args:
            report: of the turn, as it is stored.
            say: the language.
        """
        why = self.why_instead
        updates = {"prune_decisions": why.decisions, "recall": why.recall, "cut": why.cut}
        replay = self._replay.model_copy(update={"sent": self.instead})
        rows = turn_rows(replay, why, report.model_copy(update=updates), self._links, say)
        return folded(rows)

    def ways(self, say: Say = ENGLISH) -> list[tuple[str, str, int]]:
        """How many messages go from what to what, the most first."""
        ways = Counter(
            (move.was.kind, move.then.kind) for move in self.changes if not move.is_rewritten
        )
        return [
            (say(WORDS[was]), say(WORDS[then]), count) for (was, then), count in ways.most_common()
        ]

    def counts(self) -> list[Counter[str]]:
        """How many messages there are of each kind, as it was and instead."""
        return [Counter(fate.kind for fate in fates.values()) for fates in (self.was, self.then)]

    def reasons(self, say: Say = ENGLISH, least: int = 0) -> Iterator[str]:
        """Why the two differ, in sentences; `least` tokens alike are cached, and no fewer."""
        was, then = self.why, self.why_instead
        yield from self._of_cuts(was, then, say)
        before, after = self.counts()
        if after[QUOTED] and len(self.instead.parts) < len(self.sent.parts):
            yield say(
                "{count} earlier message is quoted in one text before the question: it goes out, and is no message of its own",
                "{count} earlier messages are quoted in one text before the question: they go out, and are no messages of their own",
                count=after[QUOTED],
            )
        elif before[QUOTED] > after[QUOTED] and after[MESSAGE] > before[MESSAGE]:
            yield (
                say(
                    "what was quoted before the question goes out as messages; {count} of them stand quoted all the same, where "
                    "earlier turns put them, so that what is there stays as a provider may have cached it: they are paid for twice",
                    count=self.twice[1],
                )
                if self.twice[1]
                else say("what was quoted before the question goes out as messages instead")
            )
        old, new = (prefix or 0 for prefix in self.prefixes)
        if old > max(new, least - 1) and was.cut != then.cut == "moved":
            yield say(
                "A new cut ends the cached prefix: this call begins like the one before for {now} tokens instead of {before}, and "
                "is dearer for it once; the calls after it begin alike again.",
                now=new,
                before=old,
            )
        yield from self._of_free(say)
        if self._is_chosen_anew():
            yield say(
                "What earlier turns had put in front of their questions is chosen anew, as no earlier turn ran with the other setting."
            )

    def _of_free(self, say: Say) -> Iterator[str]:
        """Why a good part of the other budget stays free, where something is left out all the same."""
        used, budget, then = self.instead.tokens, self.instead.budget or 0, self.why_instead
        if used >= budget * NEARLY_ALL or not self.counts()[1][OUT]:
            return
        yield (
            say(
                "{used} of {budget} tokens are used: the new cut goes deep, and what it leaves free is for the turns to come, so that it need not move again soon.",
                used=used,
                budget=budget,
            )
            if then.cut == "moved"
            else say(
                "{used} of {budget} tokens are used: the cut stays where it is, so that a provider can cache what follows it, and what is free is for the turns to come.",
                used=used,
                budget=budget,
            )
        )
        if then.recall is not None and then.recall.goes_back is not None:
            yield say(GOES_BACK[then.recall.goes_back])

    def _of_cuts(self, was: Explanation, then: Explanation, say: Say) -> Iterator[str]:
        """Where the cuts are, and why there is another."""
        if not then.cut and not was.cut:
            yield say("nothing is cut in either")
        elif not then.cut:
            yield say("with this window everything has room: nothing is cut")
        elif not was.cut:
            yield say("not all has room in this window: the oldest messages are cut off")
        elif then.cut == "stands" == was.cut and was.cut_before == then.cut_before:
            yield say("the cut is the same in both")
        elif then.cut == "stands":
            yield say(
                "as it was, the cut had to move at this turn; with the other setting the one before still has room, and stands"
            )
        elif was.cut == "stands":
            yield self._of_new_cut(was.cut_budget, say)
        else:
            yield say("the cut moves at this turn in both, to the depth that each setting gives")

    def _of_new_cut(self, made_for: int, say: Say) -> str:
        """Why a cut that stood is made anew."""
        now = self.instead.budget or 0
        if made_for and now >= made_for * ANEW:
            return say(
                "The cut that stood was made for {before} tokens. A budget of {now} is over a quarter larger, so that the line is "
                "cut anew, and deep, so that it need not move again soon: this one call may send fewer messages, and fewer tokens, than it did.",
                before=made_for,
                now=now,
            )
        return say(
            "What stands behind the cut has no room in {now} tokens any more: the line is cut anew, and deep, so that it need not move again soon.",
            now=now,
        )

    def about(self, report: Report | None, window: int | None, say: Say = ENGLISH) -> Iterator[str]:
        """Why a figure is not one that stands elsewhere on the page (its report), or that was typed (the window)."""
        reserve = (window or 0) - (self.instead.budget or 0)
        if window and self.instead.budget and reserve:
            yield say(
                "Of the window of {window} tokens {kept} are kept for the reply: the budget of the input is {budget}.",
                window=window,
                kept=reserve,
                budget=self.instead.budget,
            )
        if report is not None and report.token_used != self.sent.tokens:
            yield say(
                "“As it was” is made again from what is stored now: {now} tokens. {then} went out then: not all of it is there as it was.",
                now=self.sent.tokens,
                then=report.token_used,
            )

    def _is_chosen_anew(self) -> bool:
        """Whether what earlier turns brought in does not stand there as it did."""
        return _standing(self.why) != _standing(self.why_instead)

    def sums(
        self, table: PriceTable, price: ModelPrice | None, say: Say = ENGLISH
    ) -> list[SumLine]:
        """Messages, tokens and what the input of this one call costs, in both."""
        lines = [
            SumLine(name, number(a), number(b), _more(b - a)) for name, a, b in self._figures(say)
        ]
        if None not in self.prefixes:
            old, new = (prefix or 0 for prefix in self.prefixes)
            least = price.cached_from if price is not None else 0
            name = say(_alike(old >= least, new >= least), least=least)
            lines.append(SumLine(name, number(old), number(new), _more(new - old)))
        if price is not None:
            lines += self._costs(table, price, say)
        return lines

    def _figures(self, say: Say) -> Iterator[tuple[str, int, int]]:
        """Messages and tokens of both; a part of the figure above begins with dots."""
        (old, new), (before, after) = (self.sent, self.instead), self.counts()
        yield say("messages that go out"), len(old.parts), len(new.parts)
        if any(self.twice):
            yield say("… quoted all the same"), self.twice[0], self.twice[1]
        left_out, left_out_then = (counts[OUT] + counts[QUOTED] for counts in (before, after))
        yield say("left out"), left_out, left_out_then
        yield say("… quoted before a question"), before[QUOTED], after[QUOTED]
        yield say("budget"), old.budget or 0, new.budget or 0
        yield say("tokens (estimate)"), old.tokens, new.tokens
        talk, talk_then = (prompt.tokens - prompt.put_in - prompt.extras for prompt in (old, new))
        yield say("… messages"), talk, talk_then
        yield say("… rules and quotes put in"), old.put_in, new.put_in
        yield say("… tools' schemas, beginning of the reply"), old.extras, new.extras

    def _costs(self, table: PriceTable, price: ModelPrice, say: Say) -> Iterator[SumLine]:
        """What both inputs cost after the call before; and alike, with nothing cached of either."""
        unit = Amounts(table).unit(say)
        cached = tuple(prefix or 0 for prefix in self.prefixes)
        yield self._cost(
            say("cost of this call's input, if what begins alike is cached, {unit}", unit=unit),
            table,
            price,
            cached,
        )
        if any(cached):
            name = say("the same, were nothing cached, {unit}", unit=unit)
            yield self._cost(name, table, price, (0, 0))

    def _cost(
        self, name: str, table: PriceTable, price: ModelPrice, cached: tuple[int, ...]
    ) -> SumLine:
        inputs = zip((self.sent, self.instead), cached, strict=True)
        costs = [price.of_input(prompt.tokens, prefix) / table.per for prompt, prefix in inputs]
        amounts = Amounts.of(table, costs)
        was, then = map(amounts.rounded, costs)
        sign = "+" if then > was else "−" if then < was else ""
        more = f"{sign}{amounts.bare(abs(then - was))}"
        return SumLine(name, amounts.bare(was), amounts.bare(then), more)


NEARLY_ALL = 0.9
"""Of a budget so much is used where nobody asks why not more."""

ANEW = 1.25
"""So many times the budget of a cut voids it (decision 8)."""


def _more(value: int) -> str:
    return f"+{value:,}" if value > 0 else f"−{-value:,}" if value else "0"


def _alike(is_enough: bool, is_enough_then: bool) -> str:
    """What tokens like the call before are called, by whether they are enough for a cache in both."""
    if is_enough and is_enough_then:
        return "of these like the call before, and cacheable"
    if not (is_enough or is_enough_then):
        return "of these like the call before, too few to be cached (from {least} on)"
    return "of these like the call before (cacheable from {least} on)"


def _standing(why: Explanation) -> set[str]:
    """What stands where earlier turns put it."""
    return {name for group in why.earlier for name in group.ids}


def quoted_ids(why: Explanation) -> set[str]:
    """What stands quoted before a question, by the ids of messages and evidence."""
    now = {piece.id for piece in why.brought_in if piece.kind in ("message", "evidence")}
    return now | _standing(why)


def _fates(prompt: Sent, why: Explanation, messages: Mapping[str, Message]) -> Mapping[Key, Fate]:
    """What became of each message."""
    parts = _by_key(prompt)
    fates = Fates(why.decisions, [part.message_id for part in in_order(prompt, messages)])
    return {key: _fate(part, fates, why) for key, part in parts.items()}


def _fate(part: SentPart, fates: Fates, why: Explanation) -> Fate:
    name, kind = part.message_id or "", _OF_ACTION.get(part.action, MESSAGE)
    quote = next((piece for piece in why.brought_in if piece.id == name), None)
    if kind == OUT and (quote or name in _standing(why)):
        return Fate(QUOTED, part.tokens, score=quote.score if quote else None)
    reason = reason_of(part, fates)
    piece = next((piece for piece in why.passed_over if piece.id == name), None)
    if kind != OUT or piece is None:
        return Fate(kind, part.tokens, reason)
    return Fate(kind, part.tokens, reason, piece.score, piece)


def _by_key(prompt: Sent) -> dict[Key, SentPart]:
    """The parts by their place in the app's list; before them what is not of it, by its id."""
    parts: Sequence[SentPart] = [*prompt.parts, *prompt.dropped]
    return {
        (0, p.message_id or "") if p.index is None else (1, p.index): p for p in reversed(parts)
    }


__all__ = ["WORDS", "Change", "Fate", "SumLine", "WhatIfView", "quoted_ids"]
