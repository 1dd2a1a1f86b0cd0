"""Messages of Semantic Kernel as the schema's, and back."""

from __future__ import annotations

from typing import Any

import pytest
from semantic_kernel.connectors.ai.completion_usage import CompletionUsage
from semantic_kernel.contents import (
    AuthorRole,
    ChatMessageContent,
    FunctionCallContent,
    FunctionResultContent,
    ImageContent,
    StreamingChatMessageContent,
    TextContent,
)

from ce_engine import Extend, Message, Origin, Restore, Role, Shorten, ToolRequest
from ce_integrations.semantic_kernel import mapper
from ce_integrations.semantic_kernel.installer import ADAPTER


def result(call_id: str, said: Any) -> FunctionResultContent:
    return FunctionResultContent(id=call_id, name="tools-look", result=said)


def test_a_message_with_several_results_is_as_many_and_one_again() -> None:
    """As a filter leaves it that ends the loop."""
    native = ChatMessageContent(
        role=AuthorRole.TOOL, items=[result("c1", "一"), result("c2", ["b"])], name="ann"
    )
    parts = mapper.split(native)
    hosts = list(map(mapper.to_schema, parts))
    assert [(host.message.tool_call_id, host.message.content) for host in hosts] == [
        *(("c1", "一"), ("c2", "['b']"))
    ]
    assert {host.origin for host in hosts} == {Origin.TOOL_RESULT}
    shorter = ADAPTER.to_native(Shorten(1, "short"), parts[1])
    joined = mapper.join(native, [parts[0], shorter])
    items: Any = joined.items
    assert [item.result for item in items] == ["一", "short"]
    assert [item.id for item in items] == ["c1", "c2"]
    assert joined.name == "ann"
    given: Any = native.items
    assert given[1].result == ["b"]


def test_a_summary_is_nobody_s_word() -> None:
    native = ChatMessageContent(
        role=AuthorRole.ASSISTANT, content="They spoke.", metadata={"__summary__": True}
    )
    assert mapper.to_schema(native).origin is Origin.HOST_SUMMARY


def test_a_picture_stays_where_the_text_is_shortened() -> None:
    picture = ImageContent(data_uri="data:image/png;base64,iVBORw0KGgo=")
    native = ChatMessageContent(
        role=AuthorRole.USER, items=[TextContent(text="看"), picture, TextContent(text=" this")]
    )
    host = mapper.to_schema(native)
    assert host.message.content == "看 this"
    assert len(host.attachments) == 1
    shorter = ADAPTER.to_native(Shorten(0, "看"), native)
    assert [type(item) for item in shorter.items] == [TextContent, ImageContent]
    longer = ADAPTER.to_native(Extend(0, "first. ", before=True), native)
    assert mapper.to_schema(longer).message.content == "first. 看 this"


@pytest.mark.parametrize("named", ["gpt-4", "gpt-4-other"])
def test_a_stream_is_a_message_whatever_its_chunks_call_the_model(named: str) -> None:
    """Semantic Kernel's own sum refuses chunks of two names, and the last may have another."""
    usage = CompletionUsage(prompt_tokens=7, completion_tokens=3)

    def chunk(*items: Any, model: str = "gpt-4", **told: Any) -> list[Any]:
        return [
            StreamingChatMessageContent(
                role=AuthorRole.ASSISTANT,
                choice_index=0,
                items=list(items),
                ai_model_id=model,
                metadata=told,
            )
        ]

    chunks = [
        chunk(FunctionCallContent(id="c1", index=0, name="look", arguments='{"word": ')),
        chunk(FunctionCallContent(id=None, index=0, name=None, arguments='"车道"}')),
        chunk(FunctionCallContent(id="c2", index=1, name="look", arguments="{}")),
        [],
        chunk(model=named, usage=usage),
    ]
    native = mapper.whole(chunks)
    calls = mapper.to_schema(native).message.tool_calls or []
    assert [(call.id, call.args) for call in calls] == [("c1", {"word": "车道"}), ("c2", {})]
    told = mapper.map_model_usage(native)
    assert told is not None
    assert (told.prompt_tokens, told.completion_tokens, told.total_tokens) == (7, 3, 10)


def test_what_comes_back_is_what_a_service_takes() -> None:
    asked = Message(role=Role.ASSISTANT, content="")
    asked.tool_calls = [ToolRequest(name="look", id="c1", args={"word": "车道"})]
    native = ADAPTER.to_native(Restore(asked), None)
    assert native.to_dict() == {
        "role": "assistant",
        "tool_calls": [
            {
                "id": "c1",
                "type": "function",
                "function": {"name": "look", "arguments": '{"word": "车道"}'},
            }
        ],
    }
    answered = Message(role=Role.TOOL, content="一条线", tool_call_id="c1")
    assert ADAPTER.to_native(Restore(answered), None).to_dict() == {
        "role": "tool",
        "content": "一条线",
        "tool_call_id": "c1",
    }
