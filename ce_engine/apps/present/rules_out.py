"""Rules that went out in a session: whose they are, since which turn, in how many calls, and what became of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ce_engine.apps.present.language import ENGLISH, Say
from ce_engine.apps.present.vocabulary import word
from ce_engine.audit.rules_sent import EARLIER, GONE, NOW, RuleText, rules_sent
from ce_engine.schema.ids import Fingerprinter
from ce_engine.schema.replay import BroughtIn
from ce_engine.schema.rows import TurnRow
from ce_engine.schema.settings import Constraint
from ce_engine.turns.input.context_sources import RULE


@dataclass(frozen=True, slots=True)
class RuleOut:
    """A rule that went out.

    Attributes:
        id: as decisions name it.
        rule: as it is set now; `None` of one that is not any more.
        texts: by the turns that had it, from 1, its text there: that of `NOW` is the one of `rule`.
    """

    id: str
    rule: Constraint | None
    texts: Mapping[int, RuleText]

    @property
    def is_gone(self) -> bool:
        """Whether a text that went out is not there any more."""
        return bool(self.lost_turns)

    @property
    def lost_turns(self) -> list[int]:
        """The turns in which it went out with another text, which is not there any more."""
        return [turn for turn in self.texts if not self.text_in(turn)]

    @property
    def turns_by_text(self) -> dict[str, list[int]]:
        """The turns in which it went out with each of its texts that are there, in the order of the turns."""
        turns = dict[str, list[int]]()
        for turn in self.texts:
            if text := self.text_in(turn):
                turns.setdefault(text, []).append(turn)
        return turns

    @property
    def earlier_turns(self) -> dict[str, list[int]]:
        """The same of the texts that it had before."""
        now = self.rule.text if self.rule is not None else ""
        return {text: turns for text, turns in self.turns_by_text.items() if text != now}

    @property
    def changes(self) -> list[int]:
        """The turns in which it went out with another text than before, as far as its texts can be told apart."""
        known = {turn: text.name for turn, text in self.texts.items() if text.name != EARLIER}
        return [turn for before, turn in pairwise(known) if known[before] != known[turn]]

    def text_in(self, turn: int) -> str:
        """Its text in a turn, by its number; `""` where it is not there any more, or did not go out."""
        return self.texts[turn].text if turn in self.texts else ""

    def words(
        self, user: str, say: Say = ENGLISH, turn: int | None = None, *, dated: bool = False
    ) -> str:
        """How binding it is, whose, where it went, and what became of its text.

        Args:
            user: whose.
            say: the language.
            turn: the turn in which it is looked at; if not given, it is looked at as it is set now.
            dated: the time when it was set first stands behind.
        """
        parts = [word(self.rule.priority.value, say)] if self.rule is not None else []
        parts += [say("user {user}", user=user)] if user else []
        parts.append(say("since turn {turn}", turn=min(self.texts)))
        parts.append(say("in {count} call", "in {count} calls", count=len(self.texts)))
        parts += self._changes(say, turn)
        if dated and self.rule is not None:
            parts.append(say("first set") if self.is_gone else say("set"))
        return " · ".join(parts)

    def _changes(self, say: Say, turn: int | None) -> Iterator[str]:
        """Since when its text is what is shown, and when it was changed or deleted."""
        turns, after = [*self.texts], None
        now = [n for n in turns if self.texts[n].name == NOW]
        if at := turn if turn in self.texts else now[-1] if now else None:
            others = [n for n in turns if self.texts[n].name != self.texts[at].name]
            if before := [n for n in others if n < at]:
                begun = next(n for n in turns if n > before[-1])
                yield say("with this text since turn {turn}", turn=begun)
            if after := next((n for n in others if n > at), None):
                yield say("changed in turn {turn}", turn=after)
        if self.rule is None:
            yield say("deleted after turn {turn}", turn=turns[-1])
        elif not after and self.texts[turns[-1]].name != NOW:
            yield say("changed after turn {turn}", turn=turns[-1])

    def loss_notice(self, say: Say = ENGLISH) -> str:
        """That a text of it is not there to be looked for; nothing where it is."""
        if not self.is_gone:
            return ""
        turns = self.lost_turns
        values = {"first": turns[0], "last": turns[-1], "count": len(turns)}
        if self.rule is None:
            return say(
                "A rule went out in {count} call, in turn {first}; it was deleted since, and its text is not there to be looked for.",
                "A rule went out in {count} calls, from turn {first} to turn {last}; it was deleted since, and its text is not there to be looked for.",
                **values,
            )
        return say(
            "A rule went out in {count} call, in turn {first}, with a text that was changed since, and is not there to be looked for.",
            "A rule went out in {count} calls, from turn {first} to turn {last}, with a text that was changed since, and is not there to be looked for.",
            **values,
        )


def rules_out(
    rules: Iterable[Constraint], turns: Sequence[TurnRow], key: Fingerprinter | None
) -> list[RuleOut]:
    """The rules that went out in turns of a session: those that are set now in their order, then the others.

    Args:
        rules: as they are set now.
        turns: of the session.
        key: by which the session's MACs were made; `None` where it is not there.
    """
    by_id = {f"{RULE}{rule.constraint_id}": rule for rule in rules}
    texts = rules_sent(turns, by_id.values(), key)
    names = sorted(texts, key=lambda name: [*by_id].index(name) if name in by_id else len(by_id))
    return [RuleOut(name, by_id.get(name), texts[name]) for name in names]


RULE_CHANGES = {
    "new": "new rule",
    "gone": "rule that goes out no more",
    "changed": "rule with another text",
}
"""What may become of a rule from one turn to another, in words."""


def rule_changes(rules: Iterable[RuleOut], turn: int, before: int) -> dict[str, list[str]]:
    """What became of rules from one turn to another: by kind, a key of `RULE_CHANGES`, their texts.

    A new or changed one has the text of the later turn, one that is gone that of the earlier; `""` is a text that is not
    there any more.

    Args:
        rules: of the session.
        turn: the later one, from 1.
        before: the earlier one.
    """
    changes = dict[str, list[str]]()
    for rule in rules:
        now, then = rule.texts.get(turn), rule.texts.get(before)
        if now is not None and (then is None or then.name != now.name):
            changes.setdefault("changed" if then else "new", []).append(rule.text_in(turn))
        elif then is not None and now is None:
            changes.setdefault("gone", []).append(rule.text_in(before))
    return changes


def texts_in(rules: Iterable[RuleOut], at: int) -> list[str]:
    """The texts of rules that went out in a turn, by its place, as far as they are there."""
    return [text for rule in rules if (text := rule.text_in(at + 1))]


def said_of_rules(text: str, say: Say = ENGLISH) -> str:
    """A text that went out, with what stands in the place of rules said in the reader's language."""
    for marker in GONE:
        text = text.replace(marker, say(marker))
    return text


def rules_said(pieces: Sequence[BroughtIn], say: Say = ENGLISH) -> list[BroughtIn]:
    """The same of what was brought in."""
    return [
        piece.model_copy(update={"text": said_of_rules(piece.text, say)})
        if piece.text in GONE
        else piece
        for piece in pieces
    ]
