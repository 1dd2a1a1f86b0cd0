"""Recorded hosts replayed: everything that was said is stored once, by a warm process and by cold ones."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ce_engine import (
    Answer,
    ContextEngine,
    HostMessage,
    Keep,
    MemoryStore,
    Message,
    ModelCall,
    Origin,
    Role,
    Scope,
    ToolRequest,
    TurnHandle,
    create_context_engine,
)


TRACES = sorted((Path(__file__).parents[1].parent / "traces").glob("*.json"))
SCOPE = Scope(session_id="s")


def mapped(data: dict[str, Any]) -> HostMessage:
    calls = [ToolRequest(**call) for call in data.get("tool_calls", ())] or None
    role = Role(data["role"])
    message = Message(
        role=role, content=data["content"], tool_calls=calls, tool_call_id=data.get("tool_call_id")
    )
    origin = {
        Role.SYSTEM: Origin.SYSTEM,
        Role.USER: Origin.HOST_SUMMARY if data.get("summary") else Origin.TASK,
        Role.ASSISTANT: Origin.TOOL_CALL if calls else Origin.ANSWER,
        Role.TOOL: Origin.TOOL_RESULT,
    }[role]
    return HostMessage(message, origin, data.get("id"))


class Player:
    """Plays a trace to an engine; `cold` takes a new engine on the same store before every call."""

    def __init__(self, trace: dict[str, Any], *, cold: bool, ids: bool) -> None:
        self.trace, self.cold, self.ids = trace, cold, ids
        self.store = MemoryStore()
        self.engines: list[ContextEngine] = []
        self.turns: dict[int, tuple[ContextEngine, TurnHandle]] = {}
        self.answered: set[int] = set()

    def engine(self) -> ContextEngine:
        if not self.engines or (self.cold and len(self.answered) == len(self.turns)):
            self.engines.append(create_context_engine(self.store))
        return self.engines[-1]

    def play(self) -> list[tuple[str, str]]:
        for event in self.trace["events"]:
            getattr(self, event["event"])(event)
        for engine in self.engines:
            assert engine.sync.flush()
        found = self.engines[-1].loop.run(self.store.get_session(SCOPE))
        for engine in self.engines:
            engine.loop.close()
        assert found is not None
        return [(str(m.role), m.content) for m in found.session.messages]

    def message(self, data: dict[str, Any]) -> HostMessage:
        return mapped(data if self.ids else {k: v for k, v in data.items() if k != "id"})

    def call(self, event: dict[str, Any]) -> None:
        engine = self.engine()
        call = ModelCall(
            scope=SCOPE,
            messages=[self.message(m) for m in event["messages"]],
            request_id=event["request"],
        )
        prepared = engine.sync.prepare(call)
        self.turns[event["id"]] = (engine, prepared.turn)
        if len(event["messages"]) > 1:  # a host that sends its history gets it as it is
            assert prepared.plan == [Keep(i) for i in range(len(event["messages"]))]

    def answer(self, event: dict[str, Any]) -> None:
        engine, turn = self.turns[event["id"]]
        answer = self.message(event["message"])
        engine.sync.commit(turn, Answer(answer.message, answer.host_id))
        self.answered.add(event["id"])

    def error(self, event: dict[str, Any]) -> None:
        engine, turn = self.turns[event["id"]]
        engine.sync.fail(turn, "scripted")
        self.answered.add(event["id"])


@pytest.mark.parametrize("ids", [True, False], ids=["with-ids", "without-ids"])
@pytest.mark.parametrize("cold", [False, True], ids=["warm", "cold"])
@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_a_recorded_host_is_stored_once(path: Path, cold: bool, ids: bool) -> None:
    trace = json.loads(path.read_text(encoding="utf-8"))
    found = Player(trace, cold=cold, ids=ids).play()
    summaries = {
        ("user", m["content"])
        for event in trace["events"]
        for m in event.get("messages", ())
        if m.get("summary")
    }
    expected = Counter((role, text) for role, text in trace["stored"])
    stored = Counter(found)
    for summary in summaries:
        assert stored.pop(summary) >= 1
    assert stored == expected


def test_there_are_traces() -> None:
    assert len(TRACES) >= 8
