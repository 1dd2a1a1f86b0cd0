"""Messages of every kind: what they are, what they cost, and copies that lose nothing."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from ce_engine import (
    AuthorKind,
    Extend,
    Insert,
    Keep,
    Layer,
    Message,
    Origin,
    Restore,
    Role,
    Shorten,
    ToolRequest,
    Usage,
)
from ce_integrations.langchain import mapper
from ce_integrations.langchain.installer import ADAPTER
from ce_integrations.testing.adapter_pictures import png


CALL = {"name": "f", "args": {"x": 1}, "id": "c1", "type": "tool_call"}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}


@pytest.mark.req("A-23")
@pytest.mark.parametrize(
    ("native", "role", "origin"),
    [
        (SystemMessage("x"), Role.SYSTEM, Origin.SYSTEM),
        (HumanMessage("x"), Role.USER, Origin.TASK),
        (AIMessage("x"), Role.ASSISTANT, Origin.ANSWER),
        (AIMessageChunk(content="x"), Role.ASSISTANT, Origin.ANSWER),
        (AIMessage("x", tool_calls=[CALL]), Role.ASSISTANT, Origin.TOOL_CALL),
        (ToolMessage("x", tool_call_id="c1"), Role.TOOL, Origin.TOOL_RESULT),
        (FunctionMessage(content="x", name="f"), Role.TOOL, Origin.TOOL_RESULT),
        (ChatMessage(content="x", role="user"), Role.USER, Origin.TASK),
        (ChatMessage(content="x", role="assistant"), Role.ASSISTANT, Origin.ANSWER),
        (ChatMessage(content="x", role="developer"), Role.SYSTEM, Origin.SYSTEM),
        (ChatMessage(content="x", role="narrator"), Role.USER, Origin.TASK),
        (ChatMessage(content="x", role="model"), Role.ASSISTANT, Origin.ANSWER),
        (ChatMessage(content="x", role="tool"), Role.TOOL, Origin.TOOL_RESULT),
        (
            HumanMessage("x", additional_kwargs={"lc_source": "summarization"}),
            *(Role.USER, Origin.HOST_SUMMARY),
        ),
        (
            HumanMessage("x", additional_kwargs={"lc_source": "async_subagent"}),
            *(Role.USER, Origin.COLLEAGUE),
        ),
    ],
    ids=lambda value: getattr(value, "type", str(value)),
)
def test_role_and_origin(native: BaseMessage, role: Role, origin: Origin) -> None:
    host = mapper.to_schema(native)
    assert (host.message.role, host.origin, host.message.content) == (role, origin, "x")
    assert ADAPTER.map_message(native) == host.message


def test_ids_names_and_errors() -> None:
    host = mapper.to_schema(
        ToolMessage("no", tool_call_id="c1", status="error", name="f", id="m1", artifact=object())
    )
    assert (host.host_id, host.error, host.message.status) == ("m1", True, "error")
    assert host.message.tool_call_id == "c1"
    assert host.message.author is not None
    assert (host.message.author.kind, host.message.author.id) == (AuthorKind.TOOL, "f")
    person = mapper.to_schema(HumanMessage("x", name="Ann")).message.author
    agent = mapper.to_schema(AIMessage("x", name="writer")).message.author
    assert person is not None
    assert agent is not None
    assert (person.kind, person.id) == (AuthorKind.USER, "Ann")
    assert (agent.kind, agent.id) == (AuthorKind.AGENT, "writer")


@pytest.mark.parametrize(
    "native",
    [
        AIMessage("", tool_calls=[CALL]),
        AIMessage(
            [
                {"type": "text", "text": ""},
                {"type": "tool_use", "id": "c1", "name": "f", "input": {"x": 1}},
            ],
            tool_calls=[CALL],
        ),
        AIMessage([{"type": "tool_use", "id": "c1", "name": "f", "input": {"x": 1}}]),
        AIMessage(
            [
                {
                    "type": "function_call",
                    "call_id": "c1",
                    "id": "fc_9",
                    "name": "f",
                    "arguments": '{"x": 1}',
                }
            ]
        ),
        AIMessage(
            "",
            additional_kwargs={
                "tool_calls": [
                    {
                        "id": "c1",
                        "type": "function",
                        "function": {"name": "f", "arguments": '{"x": 1}'},
                    }
                ]
            },
        ),
    ],
    ids=["tool_calls", "anthropic twice", "anthropic", "responses", "openai"],
)
def test_a_call_is_one_call_in_every_form(native: AIMessage) -> None:
    host = mapper.to_schema(native)
    assert host.message.tool_calls == [ToolRequest(name="f", id="c1", args={"x": 1})]
    assert (host.origin, host.message.content) == (Origin.TOOL_CALL, "")
    assert (host.media, host.media_tokens) == ((), 0)


def test_calls_that_are_no_json_are_calls() -> None:
    bad = {"name": "f", "args": "{not json", "id": "c2", "error": None, "type": "invalid_tool_call"}
    host = mapper.to_schema(AIMessage("", invalid_tool_calls=[bad]))
    assert host.message.tool_calls == [ToolRequest(name="f", id="c2", args={"": "{not json"})]
    legacy = AIMessage("", additional_kwargs={"function_call": {"name": "f", "arguments": "{}"}})
    host = mapper.to_schema(legacy)
    assert host.message.tool_calls == [ToolRequest(name="f")]
    assert host.protected


def test_results_in_a_message_of_the_user() -> None:
    """Anthropic's form."""
    host = mapper.to_schema(
        HumanMessage(
            [{"type": "tool_result", "tool_use_id": "c1", "content": "done", "is_error": True}]
        )
    )
    assert (host.message.role, host.origin) == (Role.TOOL, Origin.TOOL_RESULT)
    assert (host.message.tool_call_id, host.message.content, host.error) == ("c1", "done", True)
    assert not host.protected


def test_several_results_in_a_message_of_the_user_who_says_something_too() -> None:
    results = [{"type": "tool_result", "tool_use_id": i, "content": i} for i in ("c1", "c2")]
    host = mapper.to_schema(HumanMessage([*results, {"type": "text", "text": "and now?"}]))
    assert (host.message.tool_call_id, host.more_call_ids) == ("c1", ("c2",))
    assert host.protected  # the words are a person's


def test_media_count_and_are_told_apart() -> None:
    def image(url: str) -> Any:
        content: list[Any] = [
            {"type": "text", "text": "看"},
            "!",
            {"type": "image_url", "image_url": {"url": url}},
        ]
        return mapper.to_schema(HumanMessage(content))

    one, again, other = image("a"), image("a"), image("b")
    assert one.message.content == "看!"
    assert one.media == again.media != other.media
    assert [each.kind for each in one.attachments] == ["image"]
    sound = mapper.to_schema(
        HumanMessage([{"type": "audio", "base64": "AA==", "mime_type": "audio/wav"}])
    )
    unknown = mapper.to_schema(HumanMessage([{"type": "hologram", "data": "x" * 300}]))
    assert [(each.kind, each.format) for each in sound.attachments] == [("audio", "wav")]
    assert unknown.media_tokens >= 100
    assert unknown.media


def test_an_answer_has_the_pictures_that_a_model_made() -> None:
    made = {"type": "image", "base64": b64encode(png(8, 9)).decode(), "mime_type": "image/png"}
    answer = mapper.to_answer(AIMessage([{"type": "text", "text": "Here."}, made]))
    assert [(each.width, each.height) for each in answer.attachments] == [(8, 9)]


def test_an_answer_is_recognised_whether_its_reasoning_comes_back_or_not() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    whole = mapper.to_schema(AIMessage([thought, {"type": "text", "text": "yes"}]))
    bare = mapper.to_schema(AIMessage("yes"))
    assert whole.message == bare.message
    assert whole.media == bare.media
    assert whole.media_tokens > 0


def test_lone_surrogates_and_other_oddities_are_mapped() -> None:
    assert mapper.to_schema(HumanMessage("\ud800")).message.content == "\ud800"
    assert mapper.to_schema(HumanMessage([{"type": "x", "v": "\ud800"}])).media
    assert mapper.to_schema(HumanMessage("")).message.content == ""


@pytest.mark.req("A-12")
def test_shorten_replaces_the_text_alone() -> None:
    artifact = object()
    native = ToolMessage(
        content=[{"type": "text", "text": "long"}, IMAGE, {"type": "text", "text": " text"}],
        tool_call_id="c1",
        id="m1",
        name="f",
        artifact=artifact,
        status="error",
        additional_kwargs={"k": 1},
    )
    before = native.model_copy(deep=False)
    copy = ADAPTER.to_native(Shorten(0, "short"), native)
    assert isinstance(copy, ToolMessage)
    assert copy is not native
    assert copy.content == [{"type": "text", "text": "short"}, IMAGE]
    assert (copy.tool_call_id, copy.id, copy.name, copy.status) == ("c1", "m1", "f", "error")
    assert copy.artifact is artifact
    assert native == before
    assert ADAPTER.to_native(Shorten(0, "short"), HumanMessage("long", id="h")).content == "short"


def test_shorten_in_anthropic_s_form_of_results() -> None:
    native = HumanMessage(
        [
            {"type": "tool_result", "tool_use_id": "c1", "content": "long one"},
            {
                "type": "tool_result",
                "tool_use_id": "c2",
                "content": [{"type": "text", "text": "two"}],
            },
        ]
    )
    copy = ADAPTER.to_native(Shorten(0, "short"), native)
    assert mapper.to_schema(copy).message.content == "short"
    assert [block["tool_use_id"] for block in copy.content] == ["c1", "c2"]  # type: ignore[index]  # dicts


@pytest.mark.parametrize(
    "native",
    [
        AIMessage([{"type": "reasoning", "id": "rs_1"}, {"type": "text", "text": "x"}]),
        AIMessage([{"type": "thinking", "thinking": "x", "signature": "s"}]),
        AIMessage("x", additional_kwargs={"reasoning_content": "hm"}),
    ],
    ids=["responses", "anthropic", "deepseek"],
)
def test_an_answer_with_reasoning_is_never_edited(native: AIMessage) -> None:
    assert ADAPTER.to_native(Shorten(0, "short"), native) is native
    assert ADAPTER.to_native(Extend(0, "more"), native) is native


def test_extend() -> None:
    text, blocks = SystemMessage("s", id="1"), SystemMessage([{"type": "text", "text": "s"}, IMAGE])
    assert ADAPTER.to_native(Extend(0, " more"), text).content == "s more"
    assert ADAPTER.to_native(Extend(0, "first ", before=True), text).content == "first s"
    assert ADAPTER.to_native(Extend(0, "more"), text).id == "1"
    more = {"type": "text", "text": "more"}
    assert ADAPTER.to_native(Extend(0, "more"), blocks).content == [*blocks.content, more]
    assert ADAPTER.to_native(Extend(0, "more", before=True), blocks).content == [
        more,
        *blocks.content,
    ]
    assert len(blocks.content) == 2


def test_keep_insert_and_restore() -> None:
    native = HumanMessage("x")
    assert ADAPTER.to_native(Keep(0), native) is native
    inserted = ADAPTER.to_native(Insert("evidence", Layer.RETRIEVED), None)
    assert isinstance(inserted, SystemMessage)
    assert inserted.content == "evidence"
    request = ToolRequest(name="f", id="c1", args={"x": 1})
    restored = [
        ADAPTER.to_native(Restore(message), None)
        for message in (
            Message(role=Role.SYSTEM, content="s"),
            Message(role=Role.USER, content="u"),
            Message(role=Role.ASSISTANT, content="a", tool_calls=[request]),
            Message(role=Role.TOOL, content="t", tool_call_id="c1"),
        )
    ]
    assert [type(m) for m in restored] == [SystemMessage, HumanMessage, AIMessage, ToolMessage]
    assert [m.content for m in restored] == ["s", "u", "a", "t"]
    assert mapper.to_schema(restored[2]).message.tool_calls == [request]
    with pytest.raises(ValueError, match="Shorten needs the host's message"):
        ADAPTER.to_native(Shorten(0, "x"), None)


def test_answers_and_usage() -> None:
    answer = AIMessage(
        "yes",
        id="a1",
        response_metadata={"model_name": "m-1", "model_provider": "p", "finish_reason": "stop"},
        usage_metadata={
            "input_tokens": 10,
            "output_tokens": 5,
            "total_tokens": 15,
            "input_token_details": {"cache_read": 4, "audio": 1},
            "output_token_details": {"reasoning": 3},
        },
    )
    found = ADAPTER.to_answer(answer)
    assert (found.host_id, found.model, found.provider, found.finish_reason) == (
        *("a1", "m-1"),
        *("p", "stop"),
    )
    assert ADAPTER.map_model_usage(answer) == Usage(
        10, 5, 15, details={"cache_read": 4, "input_audio": 1, "reasoning": 3}
    )
    assert ADAPTER.map_model_usage(AIMessage("x")) is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (HumanMessage("x"), AIMessage("x")),
        (HumanMessage("x"), HumanMessage("y")),
        (HumanMessage("x"), HumanMessage("x", id="1")),
        (ToolMessage("x", tool_call_id="1"), ToolMessage("x", tool_call_id="2")),
        (ToolMessage("x", tool_call_id="1"), ToolMessage("x", tool_call_id="1", status="error")),
        (ToolMessage("x", tool_call_id="1"), ToolMessage("x", tool_call_id="1", name="look")),
    ],
)
def test_who_is_mapped_alike_is_told_apart_from_others(
    one: BaseMessage, other: BaseMessage
) -> None:
    assert ADAPTER.alike(one) == ADAPTER.alike(one.model_copy())
    assert ADAPTER.alike(one) != ADAPTER.alike(other)
    assert ADAPTER.alike(one) is not None


@pytest.mark.parametrize(
    "native",
    [
        HumanMessage("x", name="ann"),  # perhaps an agent's
        HumanMessage([{"type": "text", "text": "x"}]),
        HumanMessage("x", additional_kwargs={"lc_source": "summarization"}),
        AIMessage("x", tool_calls=[{"name": "look", "id": "1", "args": {}}]),
        ChatMessage(content="x", role="critic"),
        type("HumanMessage", (HumanMessage,), {})("x"),
    ],
)
def test_what_says_more_than_its_text_is_known_by_identity(native: BaseMessage) -> None:
    assert ADAPTER.alike(native) is None


def test_what_is_set_later_is_noticed() -> None:
    """LangChain gives ids and names to messages that were seen before."""
    native = AIMessage("x")
    before = ADAPTER.parts(native)
    assert ADAPTER.parts(native) == before
    native.name = "writer"
    assert ADAPTER.parts(native) != before
    blocks = HumanMessage([{"type": "text", "text": "one"}])
    before = ADAPTER.parts(blocks)
    blocks.content[0]["text"] = "two"  # type: ignore[index]  # a dict
    assert ADAPTER.parts(blocks)[-1] is not before[-1]
