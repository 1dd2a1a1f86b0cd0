"""Wire refuses what a real provider refuses, and nothing else."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ce_integrations.testing.strict import chat_faults
from ce_integrations.testing.wire import Wire, count_body_tokens, simple_count


LOOKUP = {"type": "function", "function": {"name": "lookup", "parameters": {"type": "object"}}}
SYSTEM = {"role": "system", "content": "s"}


def post(wire: Wire, raw: bytes, path: str = "/v1/chat/completions") -> tuple[int, dict[str, Any]]:
    connection = http.client.HTTPConnection(wire.base_url.split("/")[2])
    connection.request("POST", path, raw)
    response = connection.getresponse()
    document = json.loads(response.read())
    connection.close()
    return response.status, document


def send(wire: Wire, **body: Any) -> tuple[int, dict[str, Any]]:
    return post(wire, json.dumps({"model": "m", "messages": [user("hi")], **body}).encode())


def user(content: str) -> dict[str, Any]:
    return {"role": "user", "content": content}


def calls(*ids: str, name: str = "lookup") -> dict[str, Any]:
    function = {"name": name, "arguments": "{}"}
    made = [{"id": one, "type": "function", "function": function} for one in ids]
    return {"role": "assistant", "content": None, "tool_calls": made}


def result(call_id: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": "r"}


ORPHANS = [
    [result("a")],
    [user("x"), result("a")],
    [calls("a"), result("a"), user("x"), result("a")],
    [calls("a"), result("b")],
    [calls("a"), result("a"), result("a")],
]
UNANSWERED = [
    [calls("a")],
    [calls("a", "b"), result("a")],
    [calls("a"), user("x"), result("a")],
    [calls("a", "b"), result("b"), calls("c"), result("c"), result("a")],
]
MISSHAPEN: list[Any] = [
    [],
    "hi",
    ["hi"],
    [{"role": "bot", "content": "x"}],
    [{"role": ["user"], "content": "x"}],
    [{"role": "user"}],
    [{"role": "user", "content": 7}],
    [{"role": "user", "content": []}],
    [{"role": "user", "content": [{"type": "tool_use"}]}],
    [{"role": "system", "content": [{"type": "image_url", "image_url": {"url": "u"}}]}],
    [{"role": "user", "content": "x", "name": "two words"}],
    [{"role": "user", "content": "x", "evidence_id": "e"}],
    [{"role": "assistant", "content": None}],
    [{"role": "assistant", "content": "x", "tool_calls": []}],
    [calls("a", "a"), result("a")],
    [calls("a", name="no spaces"), result("a")],
    [calls(""), result("")],
]


@pytest.mark.parametrize("messages", [*ORPHANS, *UNANSWERED, *MISSHAPEN])
def test_messages_that_a_provider_refuses(messages: Any) -> None:
    with Wire() as wire:
        status, document = send(wire, messages=messages)
        assert wire.requests[0].refusal in wire.refusals
    assert (status, document["error"]["type"]) == (400, "invalid_request_error")
    assert document["error"]["param"].startswith("messages")


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"model": None}, "model"),
        ({"tools": []}, "tools"),
        ({"tools": [{"type": "function", "function": {"name": "my tool"}}]}, "tools.[0]"),
        ({"tools": [{"name": "lookup"}]}, "tools.[0]"),
        ({"tool_choice": "auto"}, "tool_choice"),
        ({"functions": []}, "functions"),
        (
            {
                "tools": [LOOKUP],
                "tool_choice": {"type": "function", "function": {"name": "other"}},
            },
            "tool_choice",
        ),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"response_format": {"type": "json_object"}}, "messages"),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}}, "response"),
    ],
)
def test_requests_that_a_provider_refuses(body: dict[str, Any], param: str) -> None:
    with Wire() as wire:
        status, document = send(wire, **body)
    assert status == 400
    assert document["error"]["param"].startswith(param)


def test_what_a_provider_takes_is_taken() -> None:
    parts = [
        {"type": "text", "text": "json"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,"}},
    ]
    messages = [
        SYSTEM,
        {"role": "user", "content": parts, "name": "ada"},
        calls("a", "b"),
        result("b"),
        result("a"),
        {**calls("a"), "content": "again the same id"},
        result("a"),
        SYSTEM,
        {"role": "assistant", "content": ""},
    ]
    with Wire() as wire:
        choice = {"type": "function", "function": {"name": "lookup"}}
        form = {"type": "json_object"}
        status, _ = send(
            wire, messages=messages, tools=[LOOKUP], tool_choice=choice, response_format=form
        )
        assert (status, wire.refusals) == (200, [])


def test_a_provider_of_one_system_message_refuses_others() -> None:
    with Wire(single_system=True) as wire:
        assert send(wire, messages=[SYSTEM, user("x")])[0] == 200
        assert send(wire, messages=[SYSTEM, SYSTEM, user("x")])[0] == 400
        assert send(wire, messages=[user("x"), SYSTEM])[0] == 400


def test_keys_of_another_provider_are_taken_when_told() -> None:
    thought = {"role": "assistant", "content": "x", "reasoning_content": "y"}
    with Wire(message_keys={"reasoning_content"}) as wire:
        assert send(wire, messages=[thought])[0] == 200


def test_the_message_says_what_and_where() -> None:
    with Wire() as wire:
        _, document = send(wire, messages=[user("x"), calls("a", "b"), result("b"), user("y")])
    assert (
        document["error"]["message"] == "no tool message right after tool_calls ['a'] answers them"
    )
    assert document["error"]["param"] == "messages.[3].role"


@pytest.mark.parametrize("raw", [b"", b"[1]", b"{", b"\xff"])
def test_what_is_no_json_object_is_refused(raw: bytes) -> None:
    with Wire() as wire:
        assert post(wire, raw)[0] == 400
        assert wire.requests[0].raw == raw


def test_an_unknown_endpoint_is_not_found() -> None:
    with Wire() as wire:
        assert post(wire, b"{}", "/v1/responses")[0] == 404
        assert [refusal.status for refusal in wire.refusals] == [404]


def test_a_request_over_the_context_length_is_refused() -> None:
    def words(body: dict[str, Any]) -> int:
        return sum(len(message["content"].split()) for message in body["messages"])

    with Wire(max_tokens=3, count=words) as wire:
        _, answer = send(wire, messages=[user("one two"), user("three")])
        status, refused = send(wire, messages=[user("one two three four")])
    assert answer["usage"]["prompt_tokens"] == 3
    assert (status, refused["error"]["code"]) == (400, "context_length_exceeded")


# Properties


@st.composite
def histories(draw: st.DrawFn) -> list[list[dict[str, Any]]]:
    """Groups that stay together: single messages, or calls with their results in any order."""
    groups = []
    for number in range(draw(st.integers(1, 6))):
        size = draw(st.integers(0, 3))
        ids = [f"{number}_{n}" if draw(st.booleans()) else f"call_{n}" for n in range(size)]
        results = [result(one) for one in draw(st.permutations(ids))]
        groups.append([calls(*ids), *results] if ids else [user("x")])
    return groups


@given(histories(), st.randoms(use_true_random=False))
def test_whole_groups_are_taken_and_torn_ones_refused(groups: Any, random: Any) -> None:
    def refused(messages: list[Any]) -> bool:
        return next(chat_faults({"model": "m", "messages": messages}), None) is not None

    whole = [message for group in groups for message in group]
    assert not refused(whole)
    kept = [message for group in groups[random.randrange(len(groups)) :] for message in group]
    assert not refused(kept)
    torn = [n for n, message in enumerate(whole) if message["role"] != "user"]
    if torn:
        gone = random.choice(torn)
        assert refused(whole[:gone] + whole[gone + 1 :])


WHOLE: dict[str, Any] = {
    "model": "m",
    "messages": [
        {"role": "system", "content": [{"type": "text", "text": "s"}]},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "u"}}]},
        {**calls("a", "b"), "content": "c", "name": "n"},
        result("a"),
        result("b"),
        {"role": "assistant", "content": None, "refusal": "r"},
    ],
    "tools": [LOOKUP],
    "tool_choice": {"type": "function", "function": {"name": "lookup"}},
    "stream": True,
    "stream_options": {"include_usage": True},
    "response_format": {"type": "json_schema", "json_schema": {"name": "j", "schema": {}}},
}
ODD: list[Any] = [None, 0, "", "a", [], ["a"], [{}], {}, {"type": "text"}, {"type": ["a"]}]


def variants(value: Any) -> Iterator[Any]:
    """`value` with each of its nodes replaced by each odd one."""
    yield from ODD
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            for variant in variants(value[key]):
                copied = value.copy()
                copied[key] = variant
                yield copied


def test_whatever_is_sent_is_judged_and_what_is_taken_can_be_counted() -> None:
    assert next(chat_faults(WHOLE), None) is None
    taken = 0
    for body in variants(WHOLE):
        if isinstance(body, dict) and next(chat_faults(body, single_system=True), None) is None:
            taken += 1
            assert simple_count(body) > 0
            assert count_body_tokens(body, str.encode) > 0
    assert taken
