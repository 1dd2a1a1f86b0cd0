"""What a small, independent model knows of an app by hand: who said what, in which order, and what is gone."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ce_engine import Inspection, Prepared, PrepareResult, Scope
from ce_engine.schema.document import SessionDocument
from tests.property.by_hand_calls import Call


SCOPES = [
    Scope(account_id=account, user_id=user, session_id=session)
    for account, user, session in (
        ("a", "anna", "s1"),
        ("a", "anna", "s2"),
        ("a", "王", "s1"),
        ("b", "anna", "s1"),
        ("", "", "s1"),
    )
]

PARALLEL = Scope(account_id="a", user_id="anna", session_id="side by side")
"""Whose turns go on at once: nobody knows their order, so nothing else is done with it."""


def whose(scope: Scope) -> str:
    """A word that says whose text it stands in."""
    return f"<{scope.account_id}/{scope.user_id}/{scope.session_id}>"


def tags_of(text: str) -> set[str]:
    return set(re.findall(r"<[^<>]*/[^<>]*/[^<>]*>", text))


@dataclass
class Conversation:
    """What a session must hold."""

    messages: list[tuple[str, str]] = field(default_factory=list)
    evidence: dict[str, str] = field(default_factory=dict)
    """By id, its text; what stands in no message."""
    by_id: dict[str, str] = field(default_factory=dict)
    """Texts that were sent with an id of the host's."""
    turns: dict[str, dict[int, str]] = field(default_factory=dict)
    """Open turns, with their chunks."""
    waiting: list[str] = field(default_factory=list)
    """Ids of tool calls that were asked for."""
    host: list[tuple[str, str]] = field(default_factory=list)
    """What a host with a list of its own resends."""
    unanswered: bool = False
    """Whether nothing was said to its last question."""
    prepared: dict[str, dict[int, str]] = field(default_factory=dict)
    """Its open turns, with their chunks."""
    rules: list[str] = field(default_factory=list)
    budget_version: int = 0
    tags: set[str] = field(default_factory=set)
    """Whose texts it holds beside its own: those of the session that it is a copy of."""

    def texts(self) -> set[str]:
        return {text for _, text in self.messages if text} | set(self.evidence.values())


class Model:
    """All sessions, and the texts that were deleted."""

    scopes = SCOPES

    def __init__(self) -> None:
        self.sessions = {scope: Conversation() for scope in [*SCOPES, PARALLEL]}
        self.copies: list[Scope] = []
        self.gone: set[str] = set()
        self._numbers = iter(range(1, 1_000_000))

    def text(self, scope: Scope, what: str) -> str:
        """A text that nobody else says."""
        return f"{what} 第{next(self._numbers)}件 {whose(scope)}"

    def number(self) -> int:
        return next(self._numbers)

    @property
    def deleted(self) -> set[str]:
        """The texts that were deleted, and are in no copy."""
        return self.gone - {text for known in self.sessions.values() for text in known.texts()}

    def forget(self, scope: Scope) -> None:
        self.gone |= self.sessions[scope].texts()
        self.sessions[scope] = Conversation()

    def copied(self, known: Conversation, to: Scope) -> None:
        self.copies.append(to)
        (name,) = (scope for scope, each in self.sessions.items() if each is known)
        tags = {whose(name)}
        self.sessions[to] = Conversation(
            list(known.messages), dict(known.evidence), tags=tags | known.tags
        )

    def endings(self) -> Iterator[Call]:
        """The calls that end all turns that are open."""
        for scope, known in self.sessions.items():
            for turn_id in [*known.turns, *known.prepared]:
                yield fail(self, scope, turn_id)

    def judge_input(self, scope: Scope, answer: Any) -> None:
        """Nothing of anybody else, and nothing that was deleted, goes to the model."""
        if isinstance(answer, Inspection):
            parts = [part.content for layer in answer.layers.values() for part in layer.parts]
        elif isinstance(answer, Prepared):
            parts = [part.content for part in answer.assembled.parts]
        elif isinstance(answer, PrepareResult):
            parts = [part.content for part in answer.assembled_input.parts]
        else:
            return
        sent = "\n".join(parts)
        assert tags_of(sent) <= {whose(scope)} | self.sessions[scope].tags, sent
        assert not [text for text in self.deleted if text in sent]

    def judge_session(self, scope: Scope, document: SessionDocument | None) -> None:
        known = self.sessions[scope]
        if document is None:
            assert not known.messages
            assert not known.evidence
            return
        stored = [(m.role.value, m.content) for m in document.session.messages]
        if scope == PARALLEL:
            assert Counter(stored) == Counter(known.messages)
        else:
            assert stored == known.messages, (scope, stored, known.messages)
        assert [m.seq for m in document.session.messages] == sorted(
            m.seq or 0 for m in document.session.messages
        )
        for evidence_id, text in known.evidence.items():
            assert document.evidences[evidence_id].content == text


def fail(model: Model, scope: Scope, turn_id: str) -> Call:
    """A model call that failed: what had come of it is kept."""

    def learn(_: object) -> None:
        known = model.sessions[scope]
        chunks = (known.turns if turn_id in known.turns else known.prepared).pop(turn_id)
        if partial := "".join(chunks[index] for index in sorted(chunks)):
            known.messages.append(("assistant", partial))
            known.unanswered = False

    args = (scope, "timeout")
    return Call("fail_turn", scope, args, {"turn_id": turn_id}, learn, good=True)
