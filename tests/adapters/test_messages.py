"""What mappers and wrappers of any framework share: roles, authors, content in blocks, schemas, threads."""

from __future__ import annotations

import threading
from abc import abstractmethod
from contextvars import ContextVar
from typing import Any

import pytest
from pydantic import BaseModel

from ce_engine import (
    Author,
    AuthorKind,
    HostMessage,
    Message,
    ModelCall,
    Origin,
    Role,
    Scope,
    create_context_engine,
)
from ce_engine.testing.host import user
from ce_integrations.calls.blocking import on_a_thread
from ce_integrations.calls.model_methods import schema_of
from ce_integrations.mapping.content_blocks import beside_text, text_of, tool_requests
from ce_integrations.mapping.messages import ROLES, author_of, host_message, is_framework_s
from ce_integrations.wrapping.patches import all_definitions


IMAGE = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
REASONING = {"type": "thinking", "thinking": "I wonder."}


def test_roles_by_their_names() -> None:
    said = [(name, *ROLES[name]) for name in ("developer", "human", "model", "function")]
    assert said == [
        ("developer", Role.SYSTEM, Origin.SYSTEM),
        ("human", Role.USER, Origin.TASK),
        ("model", Role.ASSISTANT, Origin.ANSWER),
        ("function", Role.TOOL, Origin.TOOL_RESULT),
    ]


def test_who_a_message_is_from() -> None:
    assert author_of("Ann", Role.USER) == Author(kind=AuthorKind.USER, id="Ann")
    assert author_of("find", Role.TOOL) == Author(kind=AuthorKind.TOOL, id="find")
    assert author_of("planner", Role.ASSISTANT) == Author(kind=AuthorKind.AGENT, id="planner")
    assert author_of("rules", Role.SYSTEM) is author_of("", Role.USER) is None
    assert author_of(None, Role.USER) is None


def test_a_message_counts_what_it_has_beside_text() -> None:
    asked = Message(role=Role.USER, content="What is this?")
    host = host_message(asked, Origin.TASK, ["What is this?", IMAGE], host_id="m1")
    assert (len(host.media), host.host_id, host.error) == (1, "m1", False)
    assert [each.kind for each in host.attachments] == ["image"]
    assert host_message(asked, Origin.TASK, "What is this?").attachments == ()
    answer = Message(role=Role.ASSISTANT, content="A lane.")
    host = host_message(answer, Origin.ANSWER, [REASONING, IMAGE], protected=True)
    assert host.media == ()
    assert host.protected
    failed = Message(role=Role.TOOL, content="no", tool_call_id="c1", status="error")
    assert host_message(failed, Origin.TOOL_RESULT).error


def test_a_class_of_the_framework_is_nobody_s_own() -> None:
    own = type("Note", (), {"__module__": "bots.messages.human"})
    theirs = type("Note", (), {"__module__": "bots.messages_of_mine"})
    other = type("Scrap", (), {"__module__": "bots.messages"})
    names = frozenset({"Note"})
    assert [is_framework_s(each, "bots.messages", names) for each in (own, theirs, other)] == [
        True,
        False,
        False,
    ]


def test_the_schema_of_a_structured_answer() -> None:
    class Lane(BaseModel):
        length: int

    told = schema_of(Lane)
    assert told is not None
    assert told["properties"]["length"]["type"] == "integer"
    assert schema_of({"type": "object"}) == {"type": "object"}
    assert schema_of(None) is schema_of("json_object") is schema_of(int) is None


def test_every_loaded_class_that_defines_a_method_is_wrapped() -> None:
    class Base:
        def run(self) -> None: ...

        @abstractmethod
        def ask(self) -> None: ...

    class Child(Base):
        def ask(self) -> None: ...

    class Grandchild(Child):
        def run(self) -> None: ...

    makers: dict[Any, Any] = {Base: {"run": None, "ask": None, "missing": None}}
    found = {(cls, name) for cls, name, _ in all_definitions(makers)}
    assert found == {(Base, "run"), (Child, "ask"), (Grandchild, "run")}


async def test_what_can_only_be_waited_for_is_awaited() -> None:
    around: ContextVar[str] = ContextVar("around", default="")
    around.set("the caller's")

    def ask() -> tuple[str, bool]:
        return around.get(), threading.current_thread().daemon

    assert await on_a_thread(ask) == ("the caller's", True)

    def fails() -> None:
        raise NotImplementedError("only awaited")

    with pytest.raises(NotImplementedError, match="only awaited"):
        await on_a_thread(fails)


def _nested(levels: int) -> object:
    made: object = 1
    for _ in range(levels):
        made = [made]
    return made


DEEP = {
    "brackets without an end": "[" * 1100,
    "more than Python's stack": '{"a":' * 5000 + "1" + "}" * 5000,
    "more than is stored": '{"a":' * 300 + "1" + "}" * 300,
    "an object": {"a": _nested(2000)},
}


@pytest.mark.parametrize("what", DEEP)
def test_arguments_that_are_nested_too_deep_are_a_text(what: str) -> None:
    """One message that a model was talked into ended recording and budget for its whole conversation."""
    [request] = tool_requests([{"name": "t", "id": "c", "arguments": DEEP[what]}])
    text = DEEP[what] if isinstance(DEEP[what], str) else "(nested too deep)"
    assert request.args == {"": text}
    engine = create_context_engine("memory://")
    said = Message(role=Role.ASSISTANT, content="", tool_calls=[request])
    prepared = engine.sync.prepare(
        ModelCall(Scope(session_id="s"), [HostMessage(said, Origin.TOOL_CALL), user("next?")])
    )
    assert prepared.report.messages_in == 2
    assert engine.sync.flush()
    document = engine.sync.get_session("s")
    engine.sync.close()
    assert document is not None
    assert len(document.session.messages) == 2


def test_a_part_that_is_nested_too_deep_is_a_part() -> None:
    content = [{"type": "x", "y": _nested(5000)}, {"type": "text", "text": "你好"}]
    assert text_of(content) == "你好"
    assert beside_text(content).tokens > 0
