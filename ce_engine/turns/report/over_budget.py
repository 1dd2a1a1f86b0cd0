"""Why a call goes out over its budget: what of it alone is more, in numbers and in words."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Iterable, Mapping

from ce_engine.runtime.bounded_dict import BoundedDict
from ce_engine.schema.report import Report
from ce_engine.sessions.spending import words


logger = logging.getLogger("ce_engine")

MAX_SESSIONS = 10_000
"""Sessions of which is remembered that they were told of."""

WORDS = {
    "system": "system message",
    "tools": "tools' schemas",
    "response_format": "response format",
    "injected": "rules that must go in",
    "task": "task message",
    "results": "tools' newest results",
    "history": "messages that must stay",
    "helper": "helper's prompt",
}


def causes(parts: Mapping[str, int], budget: int) -> dict[str, int]:
    """The fewest parts, in tokens, that are over the budget without anything else; the largest first."""
    largest_parts: dict[str, int] = {}
    for name, tokens in sorted(parts.items(), key=lambda part: -part[1]):
        if sum(largest_parts.values()) <= budget and tokens:
            largest_parts[name] = tokens
    return largest_parts


def names(parts: Iterable[str]) -> str:
    """The causes in words."""
    *others, last = [WORDS.get(name, name.replace("_", " ")) for name in parts] or ["unknown"]
    return f"{', '.join(others)} and {last}" if others else last


def figures(parts: Mapping[str, int]) -> str:
    """The causes in words, with their tokens."""
    return ", ".join(f"{names([name])} {tokens}" for name, tokens in parts.items()) or "unknown"


class OverBudgetLog:
    """Writes a line the first time that a call of a session goes out over its budget, or without a rule.

    And when its calls have become dearer than without us.
    """

    def __init__(self) -> None:
        self._told: BoundedDict[tuple[str, ...], None] = BoundedDict(MAX_SESSIONS)
        self._dearer: BoundedDict[tuple[str, ...], None] = BoundedDict(MAX_SESSIONS)
        self._rules: BoundedDict[tuple[tuple[str, ...], str], None] = BoundedDict(MAX_SESSIONS)

    def tell_rules(self, key: tuple[str, ...], session: str, rules: Iterable[str]) -> None:
        """Tell of the rules that a call goes out without, each once a session; ids as they may be logged (D-02)."""
        new = [rule for rule in dict.fromkeys(rules) if (key, rule) not in self._rules]
        if not new:
            return
        self._rules.update(dict.fromkeys([(key, rule) for rule in new]))
        session = _on_a_line(session)
        logger.warning(
            "session %s: a call goes out without these rules: %s; why, says: ce report %s",
            session,
            ", ".join(new),
            shlex.quote(session),
        )

    def tell(self, key: tuple[str, ...], session: str, report: Report) -> None:
        """Tell of a call; `session` is the id as it may be logged."""
        if not report.over_budget or key in self._told:
            return
        self._told[key] = None
        session = _on_a_line(session)
        logger.warning(
            "session %s: a call goes out with %d tokens, its budget has %d: %s; see: ce report %s",
            session,
            report.token_used,
            report.token_budget or 0,
            figures(report.over_budget_causes),
            shlex.quote(session),
        )

    def tell_dearer(self, key: tuple[str, ...], session: str, report: Report) -> None:
        """Tell of a session whose calls cost more by now than they would without us, and why."""
        if not report.dearer_causes or key in self._dearer:
            return
        self._dearer[key] = None
        session = _on_a_line(session)
        logger.warning(
            "session %s: its calls cost more by now than they would without us, in input tokens at full price: %s; "
            "see: ce report %s",
            session,
            words(report.dearer_causes),
            shlex.quote(session),
        )


def _on_a_line(name: str) -> str:
    """A caller's id as it may stand in a log: who can name a session begins no line of its own there."""
    return name if name.isprintable() else ascii(name)
