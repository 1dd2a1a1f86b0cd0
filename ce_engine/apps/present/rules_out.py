"""Rules that went out in a session: whose they are, since which turn, and in how many calls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ce_engine.apps.present.language import ENGLISH, Say
from ce_engine.apps.present.vocabulary import word
from ce_engine.schema.rows import TurnRow
from ce_engine.schema.settings import Constraint


@dataclass(frozen=True, slots=True)
class RuleOut:
    """A rule that is set, and went out.

    Attributes:
        rule: as it is set now.
        since: the first turn that had it, from 1.
        calls: how many had it.
    """

    rule: Constraint
    since: int
    calls: int

    @property
    def id(self) -> str:
        """As decisions name it."""
        return f"c:{self.rule.constraint_id}"

    def words(self, user: str, say: Say = ENGLISH) -> str:
        """How binding it is, whose, and where it went."""
        calls = say("in {count} call", "in {count} calls", count=self.calls)
        whose = say("user {user}", user=user) if user else ""
        since = say("since turn {turn}", turn=self.since)
        priority = word(self.rule.priority.value, say)
        return " · ".join(filter(None, [priority, whose, since, calls]))


def rules_out(rules: Iterable[Constraint], turns: Sequence[TurnRow]) -> list[RuleOut]:
    """The rules that went out in turns of a session, in their order; of those that are set now."""
    found: list[RuleOut] = []
    for rule in rules:
        had = [n for n, row in enumerate(turns, 1) if _had(row, rule)]
        if had:
            found.append(RuleOut(rule, had[0], len(had)))
    return found


def _had(row: TurnRow, rule: Constraint) -> bool:
    """Whether a turn had a rule: rules go out with each call that has any, but for those that are named."""
    told, left = row.report.get("payload_tokens"), row.report.get("rules_dropped")
    has_rules = isinstance(told, dict) and bool(told.get("rules"))
    is_left = isinstance(left, list) and f"c:{rule.constraint_id}" in left
    return has_rules and not is_left and row.opened_at >= rule.created_at
