"""AutoGen's messages as the schema's and back: images, thoughts, errors, and names that clients take."""

from __future__ import annotations

from typing import Any

import pytest
from autogen_core import FunctionCall, Image
from autogen_core.models import (
    AssistantMessage,
    CreateResult,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    RequestUsage,
    SystemMessage,
    UserMessage,
)
from PIL import Image as Picture

from ce_engine import (
    Author,
    AuthorKind,
    Extend,
    Insert,
    Layer,
    Message,
    Origin,
    Restore,
    Role,
    Shorten,
    ToolRequest,
    Usage,
)
from ce_integrations.autogen.installer import ADAPTER


pytestmark = pytest.mark.req("A-23")


def picture(color: str, width: int = 600) -> Image:
    return Image(Picture.new("RGB", (width, 400), color))


def result(call_id: str, content: str = "one", *, is_error: bool = False) -> Any:
    return FunctionExecutionResult(content=content, name="f", call_id=call_id, is_error=is_error)


CALLS = [
    FunctionCall(id="a", name="f", arguments='{"x": 1}'),
    FunctionCall(id="b", name="g", arguments="{no json"),
]


def test_images_count_and_stay() -> None:
    red, blue = picture("red"), picture("blue")
    native = UserMessage(content=["look: ", red, "这里"], source="li")
    host, other = (
        ADAPTER.to_schema(native),
        ADAPTER.to_schema(UserMessage(content=["look: ", blue, "这里"], source="li")),
    )
    assert host.message.content == "look: 这里"
    assert [(each.width, each.height) for each in host.attachments] == [(600, 400)]
    assert len(host.media) == 1
    assert host.media != other.media
    shorter: Any = ADAPTER.to_native(Shorten(0, "short"), native)
    longer: Any = ADAPTER.to_native(Extend(0, "more", before=True), native)
    assert (shorter.content, longer.content) == (
        ["short", red],
        ["more", "look: ", red, "这里"],
    )
    assert native.content == ["look: ", red, "这里"]
    assert ADAPTER.alike(native) is None


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        ("what is", "and", "what is and"),
        ("what is\n", "and", "what is\nand"),
        ("what is", " and", "what is and"),
        ("", "and", "and"),
    ],
)
def test_texts_around_an_image_do_not_run_together(before: str, after: str, text: str) -> None:
    native = UserMessage(content=[before, picture("red"), after], source="li")
    assert ADAPTER.to_schema(native).message.content == text


def test_what_a_model_thinks_beside_its_calls_is_its_text() -> None:
    native = AssistantMessage(content=CALLS, thought="I look it up.", source="ann")
    host = ADAPTER.to_schema(native)
    assert host.origin is Origin.TOOL_CALL
    assert host.message.content == "I look it up."
    calls = [(call.id, call.name, call.args) for call in host.message.tool_calls or ()]
    assert calls == [("a", "f", {"x": 1}), ("b", "g", {"": "{no json"})]
    said = AssistantMessage(content="A line.", thought="hm", source="ann")
    assert ADAPTER.map_message(said).content == "A line.", "no client sends it beside a text"


def test_results_are_messages_of_their_own() -> None:
    native = FunctionExecutionResultMessage(content=[result("a"), result("b", is_error=True)])
    parts = ADAPTER.split(native)
    hosts = [ADAPTER.to_schema(part) for part in parts]
    assert [(h.message.tool_call_id, h.error) for h in hosts] == [("a", False), ("b", True)]
    assert ADAPTER.join(native, parts) == native
    assert ADAPTER.join(native, parts[1:]).content == [result("b", is_error=True)]
    shorter: Any = ADAPTER.to_native(Shorten(0, "o"), parts[1])
    assert shorter.content == [result("b", "o", is_error=True)]


def test_a_result_without_an_id_and_a_message_without_results() -> None:
    nameless = FunctionExecutionResultMessage(content=[result("")])
    assert ADAPTER.map_message(nameless).tool_call_id is None
    empty = FunctionExecutionResultMessage(content=[])
    assert ADAPTER.split(empty) == [empty]
    assert ADAPTER.to_schema(empty).origin is Origin.TOOL_RESULT


@pytest.mark.parametrize(
    ("told", "cached", "expected"),
    [((0, 0), False, None), ((3, 4), False, Usage(3, 4, 7)), ((3, 4), True, Usage(cached=True))],
)
def test_usage(told: tuple[int, int], cached: bool, expected: Usage | None) -> None:
    answer = CreateResult(
        finish_reason="stop", content="x", usage=RequestUsage(*told), cached=cached
    )
    assert ADAPTER.map_model_usage(answer) == expected  # type: ignore[arg-type]  # an answer, not a message
    assert ADAPTER.to_answer(answer).finish_reason == "stop"  # type: ignore[arg-type]  # as above


@pytest.mark.parametrize(
    ("name", "source"), [("ann-1", "ann-1"), ("李雷", "user"), ("a b", "user"), ("x" * 65, "user")]
)
def test_what_is_brought_back_has_a_name_that_clients_take(name: str, source: str) -> None:
    author = Author(kind=AuthorKind.USER, id=name)
    message = Message(role=Role.USER, content="hi", author=author)
    assert ADAPTER.to_native(_restore(message), None) == UserMessage(content="hi", source=source)


def test_what_is_brought_back() -> None:
    calls = [ToolRequest(name="f", id="a", args={"x": 1})]
    asked = Message(role=Role.ASSISTANT, content="so", tool_calls=calls)
    answered = Message(role=Role.TOOL, content="one", tool_call_id="a", status="error")
    back = [ADAPTER.to_native(_restore(each), None) for each in (asked, answered)]
    assert back == [
        AssistantMessage(content=CALLS[:1], thought="so", source="assistant"),
        FunctionExecutionResultMessage(
            content=[
                FunctionExecutionResult(content="one", name="tool", call_id="a", is_error=True)
            ]
        ),
    ]
    said = Message(role=Role.ASSISTANT, content="A line.")
    assert ADAPTER.to_native(_restore(said), None) == AssistantMessage(
        content="A line.", source="assistant"
    )
    fact = ADAPTER.to_native(Insert("a fact", Layer.RETRIEVED), None)
    assert fact == SystemMessage(content="a fact")


def _restore(message: Message) -> Restore:
    return Restore(message)


def test_plain_messages_are_known_by_what_they_say() -> None:
    class Own(UserMessage):
        """Says more than its base."""

    said: dict[str, Any] = {"content": "hi", "source": "li"}
    assert ADAPTER.alike(UserMessage(**said)) == ADAPTER.alike(UserMessage(**said)) is not None
    assert ADAPTER.alike(UserMessage(**said)) != ADAPTER.alike(AssistantMessage(**said))
    assert ADAPTER.alike(UserMessage(**said)) != ADAPTER.alike(
        UserMessage(content="hi", source="wu")
    )
    assert ADAPTER.alike(Own(**said)) is None


def test_a_result_that_is_changed_in_place_is_another() -> None:
    native = FunctionExecutionResultMessage(content=[result("a")])
    before = ADAPTER.parts(native)
    native.content[0].content = "two"
    assert ADAPTER.parts(native) != before
