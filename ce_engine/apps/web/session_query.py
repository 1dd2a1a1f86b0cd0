"""Which sessions somebody wants to see, and in which order: what the address of the list says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from ce_engine.apps.present.session_facts import SessionFacts
from ce_engine.apps.web.index import Line
from ce_engine.audit.compare.figures import EngineCosts
from ce_engine.schema.times import iso, parse_time


PAGE = 50
"""Sessions on a page."""
NOBODY = "-"
"""Stands for the user without a name, whose id is empty as no filter is."""
MAX_CHARS = 300

SPANS = {
    "1h": timedelta(hours=1),
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
    "30d": timedelta(days=30),
}
_DAY, _LAST = timedelta(days=1), datetime.max.replace(tzinfo=UTC)

FEW = 8
"""Sessions that are compared one by one."""

MARKS: Mapping[str, Callable[[SessionFacts], bool]] = {
    "dearer": lambda facts: facts.dearer,
    "dearer_turns": lambda facts: facts.dearer_turns > 0,
    "degraded": lambda facts: bool(facts.degradations),
    "conflicts": lambda facts: facts.conflicts > 0,
    "over_budget": lambda facts: facts.over_budget > 0,
    "failed": lambda facts: facts.failed > 0,
    "tool_failed": lambda facts: facts.tool_errors > 0,
}
"""What a session can be marked with."""

_NONE = SessionFacts()
_FREE = EngineCosts(0.0, 0.0, 0)

ORDERS: Mapping[str, Callable[[Line], object]] = {
    "updated": lambda line: line.info.updated_at,
    "created": lambda line: line.info.created_at,
    "session": lambda line: line.info.session_id,
    "user": lambda line: line.info.user_id,
    "framework": lambda line: line.info.frameworks,
    "turns": lambda line: line.info.turns,
    "messages": lambda line: line.info.messages,
    "tools": lambda line: line.info.tool_calls,
    "evidence": lambda line: line.info.evidences,
    "sent": lambda line: (line.facts or _NONE).tokens_sent,
    "saved": lambda line: _share(line, lambda facts: (facts.tokens_saved, facts.tokens_without)),
    "cached": lambda line: _share(line, lambda facts: (facts.cached_prefix, facts.tokens_sent)),
    "cost": lambda line: _costs(line).inputs,
    "billed": lambda line: (line.facts or _NONE).billed or 0.0,
    "without": lambda line: _costs(line).without,
    "effect": lambda line: _share(line, lambda _: (-_costs(line).saved, _costs(line).without)),
}
"""What the list can be sorted by; the columns have the same names."""
OF_FACTS = frozenset({"sent", "saved", "cached", "cost", "billed", "without", "effect"})
RISING = frozenset({"session", "user", "framework"})
"""Begin with the least when they are chosen; the others with the most."""


def _share(line: Line, of: Callable[[SessionFacts], tuple[float, float]]) -> float:
    part, whole = of(line.facts or _NONE)
    return part / whole if whole else 0.0


def _costs(line: Line) -> EngineCosts:
    return (line.facts or _NONE).costs or _FREE


@dataclass(frozen=True, slots=True)
class SessionQuery:
    """A choice of sessions; what is empty chooses nothing out.

    Attributes:
        text: words that must all stand in a session's id, user, frameworks, models, tags or first question.
        time: one of `SPANS`, back from now.
        since: a day, or a time; from then on.
        until: before the end of that day, or before that time.
        marks: of `MARKS`, all of which it must have.
        ephemeral: also runs for which the app named no session.
        sort: one of `ORDERS`.
        turned: the other way round.
        page: from 1.
    """

    text: str = ""
    framework: str = ""
    user: str = ""
    model: str = ""
    tag: str = ""
    time: str = ""
    since: str = ""
    until: str = ""
    marks: frozenset[str] = frozenset()
    ephemeral: bool = False
    sort: str = "updated"
    turned: bool = False
    page: int = 1

    @classmethod
    def of(cls, pairs: Sequence[tuple[str, str]]) -> SessionQuery:
        """What an address asks for; what is not understood is left out."""
        values = {name: value[:MAX_CHARS].strip() for name, value in pairs}
        plain = {
            n: values.get(n, "") for n in ("framework", "user", "model", "tag", "since", "until")
        }
        sort = values.get("sort", "")
        page = values.get("page", "")
        return cls(
            text=values.get("q", ""),
            **plain,
            time=time if (time := values.get("time", "")) in SPANS else "",
            marks=frozenset(value for name, value in pairs if name == "mark" and value in MARKS),
            ephemeral=values.get("all") == "1",
            sort=sort if sort in ORDERS else "updated",
            turned=values.get("turned") == "1",
            page=max(1, int(page[:7])) if page.isdecimal() else 1,
        )

    @property
    def needs_facts(self) -> bool:
        """Whether it asks for what calls tell, which is read little by little."""
        return bool(self.model or self.tag or self.marks) or self.sort in OF_FACTS

    @property
    def is_narrow(self) -> bool:
        """Whether it leaves anything out, but for the ephemeral ones."""
        return (
            replace(self, sort="updated", turned=False, page=1, ephemeral=False) != SessionQuery()
        )

    def address(self, **changes: Any) -> str:
        """The address of this list, with these changes; another choice begins with its first page."""
        new = replace(self, **{"page": 1, **changes})
        pairs = [("q", new.text)]
        pairs += [(n, getattr(new, n)) for n in ("framework", "user", "model", "tag")]
        pairs += [(n, getattr(new, n)) for n in ("time", "since", "until")]
        pairs += [("mark", mark) for mark in sorted(new.marks)]
        pairs += [("all", "1" if new.ephemeral else "")]
        pairs += [("sort", new.sort if new.sort != "updated" else "")]
        pairs += [("turned", "1" if new.turned else "")]
        pairs += [("page", str(new.page) if new.page > 1 else "")]
        query = urlencode([pair for pair in pairs if pair[1]])
        return f"/?{query}" if query else "/"

    def comparison(self, count: int) -> str:
        """The address of a comparison of the calls of these `count` sessions: one by one, if they are few."""
        by = "session" if count <= FEW else "framework"
        choice = self.address(sort="updated", turned=False).partition("?")[2]
        return f"/compare?by={by}&{choice}" if choice else f"/compare?by={by}"

    def on_page(self, number: int) -> SessionQuery:
        """The same on another page."""
        return replace(self, page=number)

    def sorted_by(self, name: str) -> str:
        """The address of this list, sorted by a column; by the same one again, the other way round."""
        return self.address(sort=name, turned=name == self.sort and not self.turned)

    def select(self, lines: Sequence[Line]) -> list[Line]:
        """The sessions that are wanted, in their order; `lines` are newest first."""
        tests = list(self._tests())
        matches = [line for line in lines if all(test(line) for test in tests)] if tests else lines
        falling = (self.sort not in RISING) != self.turned
        if self.sort == "updated":
            return list(matches if falling else reversed(matches))
        order: Callable[[Line], Any] = ORDERS[self.sort]
        return sorted(matches, key=order, reverse=falling)

    def _tests(self) -> Iterator[Callable[[Line], bool]]:
        """What a session must hold, the cheapest first."""
        if not self.ephemeral:
            yield lambda line: not line.info.ephemeral
        if self.framework:
            yield lambda line: self.framework in line.info.frameworks
        if self.user:
            user = "" if self.user == NOBODY else self.user
            yield lambda line: line.info.user_id == user
        since, until = self.span()
        if since:
            yield lambda line: line.info.updated_at >= since
        if until:
            yield lambda line: line.info.created_at < until
        yield from (self._has_word(word) for word in self.text.casefold().split())
        yield from self._of_facts()

    @staticmethod
    def _has_word(word: str) -> Callable[[Line], bool]:
        return lambda line: word in line.words

    def _of_facts(self) -> Iterator[Callable[[Line], bool]]:
        if self.model:
            yield lambda line: self.model in (line.facts or _NONE).models
        if self.tag:
            yield lambda line: self.tag in (line.facts or _NONE).tags
        for mark in self.marks:
            yield self._has_mark(MARKS[mark])

    @staticmethod
    def _has_mark(is_so: Callable[[SessionFacts], bool]) -> Callable[[Line], bool]:
        return lambda line: line.facts is not None and is_so(line.facts)

    def span(self) -> tuple[str, str]:
        """From when on, and before when, as times are stored; `""` is always."""
        since, until = parse_time(self.since), parse_time(self.until)
        if self.time:
            since = datetime.now(UTC) - SPANS[self.time]
        if until is not None and len(self.until) == len("2026-11-23"):
            until = until + _DAY if until < _LAST - _DAY else None
        return iso(since) if since else "", iso(until) if until else ""
