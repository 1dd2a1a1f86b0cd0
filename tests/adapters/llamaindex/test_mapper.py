"""LlamaIndex messages to the schema's and back: roles, calls in every form, blocks, usage of providers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from llama_index.core.base.llms import types
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    DocumentBlock,
    ImageBlock,
    MessageRole,
    TextBlock,
)
from llama_index.core.llms.llm import ToolSelection
from openai.types.chat import ChatCompletionMessageToolCall

from ce_engine import (
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
)
from ce_integrations.histories.written_tool_calls import read
from ce_integrations.llamaindex.installer import ADAPTER
from ce_integrations.llamaindex.mapper import map_model_usage, to_answer, to_schema
from tests.adapters.llamaindex.releases import HAS


FUNCTION = {"name": "lookup", "arguments": '{"word": "lane"}'}
OPENAI = {"id": "call_1", "type": "function", "function": FUNCTION}
FORMS: dict[str, Any] = {
    "objects": ChatCompletionMessageToolCall(**OPENAI),  # type: ignore[arg-type]  # pydantic takes the dict
    "dicts": OPENAI,
    "anthropic": {"id": "call_1", "name": "lookup", "input": {"word": "lane"}, "type": "tool_use"},
    "ollama": {"id": "call_1", "function": {"name": "lookup", "arguments": {"word": "lane"}}},
    "bedrock": {"toolUseId": "call_1", "name": "lookup", "input": {"word": "lane"}},
    # as the framework's own model for tests keeps them
    "selections": ToolSelection(tool_id="call_1", tool_name="lookup", tool_kwargs={"word": "lane"}),
}


def a_call(form: str) -> ChatMessage:
    beside: Any = {"tool_calls": [FORMS[form]]} if form in FORMS else {}
    blocks: list[Any] = [TextBlock(text="I look.")]
    if form in ("blocks", "both"):
        told: Any = {
            "tool_call_id": "call_1",
            "tool_name": "lookup",
            "tool_kwargs": {"word": "lane"},
        }
        blocks.append(types.ToolCallBlock(**told))
        beside = {"tool_calls": [FORMS["objects"]]} if form == "both" else {}
    return ChatMessage(role="assistant", blocks=blocks, additional_kwargs=beside)


BLOCKS = [pytest.param(form, marks=pytest.mark.needs("call_blocks")) for form in ("blocks", "both")]


@pytest.mark.scenario(8)
@pytest.mark.parametrize("form", [*FORMS, *BLOCKS])
def test_a_call_in_every_form(form: str) -> None:
    native = a_call(form)
    host = to_schema(native)
    assert host.origin is Origin.TOOL_CALL
    assert host.message.content == "I look."
    (call,) = host.message.tool_calls or []
    assert (call.name, call.id, call.args) == ("lookup", "call_1", {"word": "lane"})
    shorter = ADAPTER.to_native(Shorten(0, "I."), native)
    assert shorter.content == "I."
    assert to_schema(shorter).message.tool_calls == host.message.tool_calls
    assert native.content == "I look."
    assert shorter.additional_kwargs == native.additional_kwargs


@pytest.mark.parametrize(
    ("role", "expected"),
    [
        ("system", (Role.SYSTEM, Origin.SYSTEM)),
        ("developer", (Role.SYSTEM, Origin.SYSTEM)),
        ("user", (Role.USER, Origin.TASK)),
        ("assistant", (Role.ASSISTANT, Origin.ANSWER)),
        ("chatbot", (Role.ASSISTANT, Origin.ANSWER)),
        ("model", (Role.ASSISTANT, Origin.ANSWER)),
        ("tool", (Role.TOOL, Origin.TOOL_RESULT)),
        ("function", (Role.TOOL, Origin.TOOL_RESULT)),
    ],
)
def test_roles(role: str, expected: Any) -> None:
    host = to_schema(ChatMessage(role=role, content="内容"))
    assert (host.message.role, host.origin, host.message.content) == (*expected, "内容")


def test_a_result_knows_its_call_and_one_without_an_id_is_not_lost() -> None:
    named = ChatMessage(role="tool", content="r", additional_kwargs={"tool_call_id": "call_1"})
    assert to_schema(named).message.tool_call_id == "call_1"
    assert not to_schema(named).protected
    assert to_schema(ChatMessage(role="tool", content="r")).protected


@pytest.mark.scenario(8)
def test_what_a_tool_gave_directly_is_an_answer() -> None:
    direct = ChatMessage(
        role="assistant", content="r", additional_kwargs={"tool_call_id": "call_1"}
    )
    host = to_schema(direct)
    assert (host.origin, host.message.tool_call_id) == (Origin.ANSWER, None)


@pytest.mark.parametrize("args", ['{"word": "lane"}', "{'word': 'lane'}"])
def test_a_thought_that_calls_is_a_call_however_it_is_written(args: str) -> None:
    said = f"Thought: I need it.\nAction: lookup\nAction Input: {args}"
    host = to_schema(ChatMessage(role="assistant", content=said))
    assert (host.origin, host.message.content) == (Origin.TOOL_CALL, "Thought: I need it.")
    assert host.message.tool_calls == [ToolRequest(name="lookup", args={"word": "lane"})]
    for role in ("user", "tool"):
        native = ChatMessage(role=role, content="Observation: it is fine")
        result = to_schema(native)
        assert (result.origin, result.message.content) == (Origin.TOOL_RESULT, "it is fine")
        assert (result.protected, result.media_tokens > 0) == (True, True)
        shorter = ADAPTER.to_native(Shorten(0, "it is"), native)
        assert shorter.content == "Observation: it is"
    last = to_schema(ChatMessage(role="assistant", content="Thought: I know.\nAnswer: a line"))
    assert last.origin is Origin.ANSWER


@pytest.mark.parametrize(("begin", "end"), [("[", "]"), ("(", ")"), ("-", "")])
def test_a_thought_whose_arguments_cannot_be_read_is_a_call_with_a_text(
    begin: str, end: str
) -> None:
    args = f"{{'字': {begin * 60_000}1{end * 60_000}}}"
    said = f"Thought: I need it.\nAction: lookup\nAction Input: {args}"
    host = to_schema(ChatMessage(role="assistant", content=said))
    assert host.message.tool_calls == [ToolRequest(name="lookup", args={"": args})]


def test_code_that_an_agent_writes_is_one_call() -> None:
    said = "First.\n<execute>\na = 1\n</execute>\nThen.\n<execute>print(a)</execute> <execute>"
    host = to_schema(ChatMessage(role="assistant", content=said))
    assert (host.origin, host.message.content) == (
        Origin.TOOL_CALL,
        "First.\n\nThen.\n <execute>",
    )
    code = {"code": "a = 1\n\nprint(a)"}
    assert host.message.tool_calls == [ToolRequest(name="execute", args=code)]
    told = "Result of executing the code given:\n\n1"
    result = to_schema(ChatMessage(role="user", content=told))
    assert (result.origin, result.protected) == (Origin.TOOL_RESULT, True)
    assert result.message.content == "1"
    for none in ("<execute>", "</execute> <execute>", "<execute> </execute>"):
        assert to_schema(ChatMessage(role="assistant", content=none)).origin is Origin.ANSWER


def test_blocks_that_are_no_text_count_and_stay() -> None:
    image = ImageBlock(url="https://example.com/p.png", detail="low")
    native = ChatMessage(role="user", blocks=[TextBlock(text="What is it?"), image])
    host = to_schema(native)
    assert host.message.content == "What is it?"
    assert [(each.kind, each.detail) for each in host.attachments] == [("image", "low")]
    assert len(host.media) == 1
    other = ChatMessage(role="user", blocks=[TextBlock(text="What is it?"), image.model_copy()])
    assert to_schema(other).media == host.media
    shorter = ADAPTER.to_native(Shorten(0, "What?"), native)
    assert shorter.blocks[1] is image
    document = ChatMessage(role="user", blocks=[DocumentBlock(data=b"abc", title="d")])
    (attachment,) = to_schema(document).attachments
    assert (attachment.kind, attachment.name, attachment.size) == ("file", "d", 3)
    assert attachment.tokens
    assert to_schema(document).message.content == ""


@pytest.mark.needs("call_blocks")
def test_reasoning_goes_back_as_it_came() -> None:
    thinking = types.ThinkingBlock(content="hm", additional_information={"signature": "s"})
    native = ChatMessage(role="assistant", blocks=[thinking, TextBlock(text="long " * 9)])
    assert ADAPTER.to_native(Shorten(0, "short"), native) is native
    assert to_schema(native).message.content == "long " * 9
    assert to_schema(native).media_tokens > 0


def test_steps_that_make_a_message() -> None:
    native = ChatMessage(role="user", content="q", additional_kwargs={"extra": 1})
    assert ADAPTER.to_native(Keep(0), native) is native
    assert ADAPTER.to_native(Insert("rules", Layer.RULES, ()), None).content == "rules"
    extended = ADAPTER.to_native(Extend(0, "first. ", before=True), native)
    assert (extended.content, extended.additional_kwargs) == ("first. q", {"extra": 1})
    with pytest.raises(ValueError, match="needs the host's message"):
        ADAPTER.to_native(Shorten(0, "x"), None)


def test_a_stored_message_comes_back_as_it_was() -> None:
    call = ToolRequest(name="lookup", id="call_1", args={"word": "车道"})
    asked = Message(role=Role.ASSISTANT, content="I look.", tool_calls=[call])
    result = Message(role=Role.TOOL, content="r", tool_call_id="call_1")
    for message in (asked, result, Message(role=Role.USER, content="q")):
        again = to_schema(ADAPTER.to_native(Restore(message), None)).message
        assert (again.role, again.content) == (message.role, message.content)
        assert (again.tool_calls, again.tool_call_id) == (message.tool_calls, message.tool_call_id)
    found = ADAPTER.to_native(Restore(asked), None)
    assert bool(found.additional_kwargs) is not HAS["call_blocks"]


# Answers


USAGES: dict[str, Any] = {
    "openai": SimpleNamespace(
        usage={"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
    ),
    "anthropic": {"usage": SimpleNamespace(input_tokens=3, output_tokens=4)},
    "gemini": {"usage_metadata": {"prompt_token_count": 3, "candidates_token_count": 4}},
    "ollama": {"prompt_eval_count": 3, "eval_count": 4, "model": "m"},
}


@pytest.mark.scenario(9)
@pytest.mark.parametrize("provider", USAGES)
def test_the_usage_of_providers(provider: str) -> None:
    for kind in (
        ChatResponse(message=ChatMessage(role="assistant", content="a"), raw=USAGES[provider]),
        CompletionResponse(text="a", raw=USAGES[provider]),
    ):
        usage = map_model_usage(kind)
        assert usage is not None
        told = usage.prompt_tokens, usage.completion_tokens, usage.total_tokens
        assert told == (3, 4, 7)


@pytest.mark.scenario(9)
@pytest.mark.parametrize("raw", [None, {}, {"usage": None}, "a text", SimpleNamespace()])
def test_without_usage_there_is_none_unless_it_stands_beside(raw: Any) -> None:
    message = ChatMessage(role="assistant", content="a")
    assert map_model_usage(ChatResponse(message=message, raw=raw)) is None
    beside = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
    usage = map_model_usage(ChatResponse(message=message, raw=raw, additional_kwargs=beside))
    assert usage is not None
    assert usage.total_tokens == 7


def test_an_answer_says_what_its_provider_said() -> None:
    choice = SimpleNamespace(finish_reason="stop")
    raw = SimpleNamespace(model="gpt-4-0613", choices=[choice])
    answer = to_answer(CompletionResponse(text="a", raw=raw))
    assert (answer.message.role, answer.message.content) == (Role.ASSISTANT, "a")
    assert (answer.model, answer.finish_reason) == ("gpt-4-0613", "stop")


# What is known again


def test_equal_messages_are_alike_and_others_are_not() -> None:
    def alike(**given: Any) -> Any:
        return ADAPTER.alike(ChatMessage(**given))

    assert alike(role="user", content="q") == alike(role="user", content="q") is not None
    assert alike(role="user", content="q") != alike(role="assistant", content="q")
    first, second = ({"tool_call_id": name} for name in ("a", "b"))
    results = [alike(role="tool", content="r", additional_kwargs=each) for each in (first, second)]
    assert results[0] != results[1]
    assert None not in results
    assert ADAPTER.alike(a_call("dicts")) is None
    assert alike(role="user", blocks=[TextBlock(text="a"), TextBlock(text="b")]) is None

    class Own(ChatMessage):
        pass

    assert ADAPTER.alike(Own(role=MessageRole.USER)) is None


def test_a_text_that_is_changed_in_place_is_another_message() -> None:
    second = TextBlock(text="b")
    native = ChatMessage(role="user", blocks=[TextBlock(text="a"), second])
    before = ADAPTER.parts(native)
    second.text = "c"
    assert ADAPTER.parts(native) != before


ENDLESS = {
    "line breaks": "Thought: x" + "\n" * 200_000 + "x",
    "inputs that do not end": "Thought: x\n" + "Action: t\nAction Input: {\n" * 20_000,
    "inputs, and one end": "Thought: x\n" + "Action: t \nAction Input: {\n" * 20_000 + "}",
    "brackets": 'Thought: x\nAction: t\nAction Input: {"a": ' + "[" * 5_000 + "}",
}


@pytest.mark.parametrize("what", ENDLESS)
def test_no_text_of_a_model_s_stops_the_app(what: str) -> None:
    """It was tried again from each line on, and what nobody can read ended the call."""
    said = read(Role.ASSISTANT, ENDLESS[what])
    assert said.text
