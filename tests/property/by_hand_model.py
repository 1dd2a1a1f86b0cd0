"""What a small, independent model knows of an app by hand: who said what, in which order, and what is gone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ce_engine import PrepareResult, Scope
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


def whose(scope: Scope) -> str:
    """A word that says whose text it stands in."""
    return f"<{scope.account_id}/{scope.user_id}/{scope.session_id}>"


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

    def texts(self) -> set[str]:
        return {text for _, text in self.messages if text} | set(self.evidence.values())


class Model:
    """All sessions, and the texts that were deleted."""

    scopes = SCOPES

    def __init__(self) -> None:
        self.sessions = {scope: Conversation() for scope in SCOPES}
        self.rules: dict[tuple[str, str], list[str]] = {}
        self.deleted: set[str] = set()
        self._numbers = iter(range(1, 1_000_000))

    def text(self, scope: Scope, what: str) -> str:
        """A text that nobody else says."""
        return f"{what} 第{next(self._numbers)}件 {whose(scope)}"

    def number(self) -> int:
        return next(self._numbers)

    def forget(self, scope: Scope) -> None:
        self.deleted |= self.sessions[scope].texts()
        self.sessions[scope] = Conversation()

    def endings(self) -> Iterator[Call]:
        """The calls that end all turns that are open."""
        for scope, known in self.sessions.items():
            for turn_id in list(known.turns):
                yield fail(self, scope, turn_id)

    def judge_input(self, scope: Scope, answer: Any) -> None:
        """Nothing of anybody else, and nothing that was deleted, goes to the model."""
        if not isinstance(answer, PrepareResult):
            return
        sent = "\n".join(part.content for part in answer.assembled_input.parts)
        assert set(re.findall(r"<[^<>]*/[^<>]*/[^<>]*>", sent)) <= {whose(scope)}, sent
        assert not [text for text in self.deleted if text in sent]

    def judge_session(self, scope: Scope, document: SessionDocument | None) -> None:
        known = self.sessions[scope]
        if document is None:
            assert not known.messages
            assert not known.evidence
            return
        stored = [(m.role.value, m.content) for m in document.session.messages]
        assert stored == known.messages
        assert [m.seq for m in document.session.messages] == sorted(
            m.seq or 0 for m in document.session.messages
        )
        for evidence_id, text in known.evidence.items():
            assert document.evidences[evidence_id].content == text


def fail(model: Model, scope: Scope, turn_id: str) -> Call:
    """A model call that failed: what had come of it is kept."""

    def learn(_: object) -> None:
        known = model.sessions[scope]
        chunks = known.turns.pop(turn_id)
        if partial := "".join(chunks[index] for index in sorted(chunks)):
            known.messages.append(("assistant", partial))

    args = (scope, "timeout")
    return Call("fail_turn", scope, args, {"turn_id": turn_id}, learn, good=True)
