"""What an adapter can and cannot do, seen in what was stored and sent: the cells of a column of the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.parity.rows import ABSENT, Key, Row, rows
from tests.parity.scenario import (
    BUDGET,
    ERROR,
    FACT,
    PAGES,
    STREAMED_WAYS,
    Outcome,
    Part,
    largest,
)


YES, NO = "yes", "no"
Cells = dict[str, str]
"""A cell for each line of a table."""


def abilities(outcome: Outcome) -> Cells:
    """What the job showed of one framework, line by line."""
    return {line: look(outcome) for line, look in LINES.items()}


def _each_call(outcome: Outcome) -> str:
    """Each request was prepared, and none is over the budget, though what was said is far more."""
    talk = outcome.talk
    requests = len(talk.played.bodies)
    if len(talk.played.inputs) == len(talk.turns) == requests and largest(talk.played) <= BUDGET:
        return f"{YES}, of the agent's {requests} calls"
    return f"{len(talk.played.inputs)} of {requests} calls"


def _early(outcome: Outcome) -> str:
    return _yes(FACT in str(outcome.talk.played.bodies[-1]))


def _authors(outcome: Outcome) -> str:
    named = {m.author.kind.value for m in outcome.talk.document.session.messages if m.author}
    return ", ".join(sorted(named, key=["user", "agent", "tool"].index)) or "none"


def _tool_ids(outcome: Outcome) -> str:
    talk = outcome.talk
    sent = {
        call["id"]
        for body in talk.played.bodies
        for message in body["messages"]
        for call in message.get("tool_calls") or ()
    }
    asked = [call.id for m in talk.document.session.messages for call in m.tool_calls or ()]
    return "the provider's" if set(asked) >= sent and None not in asked else "the framework's own"


def _parallel(outcome: Outcome) -> str:
    messages = outcome.talk.document.session.messages
    found = rows(outcome.talk)["tool call"]
    linked = all(row["asked_by"] >= 0 and row["results"] for row in found)
    return _yes(linked and len(found) == sum(len(m.tool_calls or ()) for m in messages))


def _failed(outcome: Outcome) -> str:
    found = rows(outcome.talk)["tool call"]
    failed = [row["status"] == "error" for row in found if row["tool"] == "broken"]
    if not all(failed):
        return NO
    says = outcome.talk.adapter.capabilities.tool_errors
    return YES if says else f"{YES}; its messages do not say so"


def _words(outcome: Outcome) -> str:
    """What the model is told of a tool that failed."""
    said = [m.content for m in outcome.talk.document.session.messages if ERROR in m.content]
    return "the error's" if said == [ERROR] else "the error's, in words of its own" if said else NO


def _documents(outcome: Outcome) -> list[Row]:
    found = rows(outcome.finding)["evidence"] if outcome.finding else ()
    return [row for row in found if row["type"] == "rag_doc"]


def _scores(outcome: Outcome) -> str:
    documents = _documents(outcome)
    return _yes(bool(documents) and len({row["confidence"] for row in documents}) > 1)


def _sources(outcome: Outcome) -> str:
    documents = _documents(outcome)
    return _yes(bool(documents) and all(row["uri"] for row in documents))


def _query(outcome: Outcome) -> str:
    found = rows(outcome.finding)["tool call"] if outcome.finding else ()
    return _yes(any(row["args"] for row in found))


def _place(outcome: Outcome) -> str:
    """The roles of the messages that have the documents, as apps of the framework write them."""
    if outcome.finding is None:
        return "-"
    (body,) = outcome.finding.played.bodies
    return ", ".join(m["role"] for m in body["messages"] if PAGES[0].text in str(m["content"]))


def _stream_usage(outcome: Outcome) -> str:
    return _usage(outcome.streaming) if outcome.streaming.way in STREAMED_WAYS else "no streams"


def _usage(part: Part) -> str:
    told = {row["tokens told"] for row in rows(part)["model usage"]}
    return "the provider's" if told == {True} else "estimated, and marked so"


def _first_token(outcome: Outcome) -> str:
    if outcome.streaming.way not in STREAMED_WAYS:
        return "no streams"
    usages = outcome.streaming.document.session.model_usage
    return _yes(bool(usages) and all(u.first_token_latency_ms is not None for u in usages))


def _session(outcome: Outcome) -> str:
    parts = {name: part for name, part in outcome.parts().items() if name != "streaming"}
    words = {"talk": "agent", "finding": "looking up"}
    own = [words[name] for name, part in parts.items() if not part.named_by_us]
    if len(own) == len(parts):
        return "its own id"
    return f"its own id ({own[0]}), else `ce_session`" if own else "`ce_session`"


def _ways(outcome: Outcome) -> str:
    whole = outcome.talk.base.capabilities.ways
    return ", ".join(f"`{way}`" for way in whole)


def _able(name: str) -> Callable[[Outcome], str]:
    return lambda outcome: _yes(getattr(outcome.talk.base.capabilities, name))


def _yes(whether: bool) -> str:
    return YES if whether else NO


LINES: Mapping[str, Callable[[Outcome], str]] = {
    "prepared at each model call": _each_call,
    "an early turn is found again": _early,
    "ways of asking": _ways,
    "session": _session,
    "authors of messages": _authors,
    "ids of tool calls": _tool_ids,
    "parallel calls, each with its result": _parallel,
    "a tool that fails": _failed,
    "words of a tool's error": _words,
    "retrieved documents with their source": _sources,
    "messages with these documents, in the tests' apps": _place,
    "retrieval scores": _scores,
    "what was looked up": _query,
    "usage of the agent's calls": lambda outcome: _usage(outcome.talk),
    "usage of a stream": _stream_usage,
    "latency of the first token": _first_token,
    "one agent asks another": _able("teams"),
    "agents hear each other": _able("groups"),
    "helpers' calls, such as condensing": _able("helpers"),
    "history that the app leaves to us": _able("history"),
    "several conversations of one app at once": _able("threads"),
}


def missing(outcomes: Mapping[str, Outcome]) -> dict[str, Cells]:
    """What rows of one framework have and those of another do not: by field, framework by framework."""
    lacking: dict[Key, set[str]] = {}
    compared: dict[Key, set[str]] = {}
    for part in ("talk", "finding", "streaming"):
        parts = {name: outcome.parts().get(part) for name, outcome in outcomes.items()}
        by_framework = {name: rows(found) for name, found in parts.items() if found is not None}
        for name, kind, field in _absent(by_framework):
            lacking.setdefault((kind, field), set()).add(name)
            compared.setdefault((kind, field), set()).update(by_framework)
    return {
        f"{kind}: {field.replace('_', ' ')}": {
            name: "not told" if name in names else YES if name in compared[kind, field] else "-"
            for name in outcomes
        }
        for (kind, field), names in sorted(lacking.items())
    }


def _absent(by_framework: Mapping[str, Mapping[str, list[Row]]]) -> Iterator[tuple[str, str, str]]:
    for kind in next(iter(by_framework.values())):
        for same in zip(*(found[kind] for found in by_framework.values()), strict=True):
            for field in same[0]:
                values: dict[str, Any] = {
                    name: row[field] for name, row in zip(by_framework, same, strict=True)
                }
                told = [name for name, value in values.items() if value not in ABSENT]
                if told:
                    yield from ((name, kind, field) for name in values if name not in told)
