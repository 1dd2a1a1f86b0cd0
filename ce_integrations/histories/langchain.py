"""LangChain's messages as `messages_to_dict` and `dumpd` write them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ce_engine import HostMessage, Message, Origin, Role, ToolRequest
from ce_integrations.histories.json_node import Conversation, Node, mapped, requests
from ce_integrations.mapping.content_blocks import CALLS, kind_of, other_blocks, text_of
from ce_integrations.mapping.messages import ROLES, author_of


EXPECTED = (
    'a message as messages_to_dict or dumpd writes it: {"type": "human", "data": {...}} or '
    '{"lc": 1, "id": [..., "HumanMessage"], "kwargs": {...}}'
)
CALL = 'a call such as {"name": "...", "args": {}, "id": "..."}'
SUMMARY = "summarization"
"""`lc_source` of the message in which SummarizationMiddleware hands on its summary."""


class LangChain:
    """Reads lists of messages, and objects that hold one (`dumpd` of a history, `{"messages": [...]}`)."""

    name = "langchain"
    is_plain = False

    def fits(self, data: Any) -> bool:
        """Whether the file's JSON looks like it."""
        file = Node(data)
        first = (file["kwargs"]["messages"] if file.has("lc") else file).first()
        first = file["messages"].first() if file.has("messages") else first
        return file.has("lc") or first.has("lc") or first.has("type", "data")

    def read(self, data: Any) -> list[Conversation]:
        """The conversation of the file.

        Raises:
            SchemaValidationError: something is in another form; it names the place.
        """
        file = Node(data)
        container = file["kwargs"] if file.has("lc") else file
        messages = container["messages"] if container.has("messages") else container
        return [Conversation("", [message(node) for node in messages.items("a list of messages")])]


def message(node: Node) -> HostMessage:
    """One message of a list."""
    data, role_word = _data(node)
    role, content = ROLES[role_word][0], data["content"].content()
    results = [b for b in other_blocks(content) if b.get("type") == "tool_result"]
    if results and role is Role.USER:
        return _results(data, content, results)
    schema_message = Message(
        role=role,
        content=text_of(content),
        author=author_of(data["name"].text(), role),
        tool_calls=(_calls(data, content) or None) if role is Role.ASSISTANT else None,
        tool_call_id=(data["tool_call_id"].text() or None) if role is Role.TOOL else None,
        status="error" if role is Role.TOOL and data["status"].value == "error" else None,
    )
    host = mapped(data, schema_message, content, data["id"].value)
    source = data["additional_kwargs"]["lc_source"].value
    if host.origin is Origin.TASK and source:
        host.origin = Origin.HOST_SUMMARY if source == SUMMARY else Origin.COLLEAGUE
    return host


def _data(node: Node) -> tuple[Node, str]:
    """The fields of a message, and the word for its role."""
    node.fields(EXPECTED)
    if node.has("lc"):
        names = node["id"].value
        kind = names[-1] if isinstance(names, list) and names else ""
        data, at = node["kwargs"], node["id"]
    else:
        kind, data, at = node["type"].text(), node["data"], node["type"]
    data.fields(EXPECTED)
    word = str(kind).removesuffix("Chunk").removesuffix("Message").lower()
    role_word = data["role"].text() if word == "chat" else word
    if role_word not in ROLES:
        at.wrong("a message of a human, an AI, the system, a tool or a function")
    return data, role_word


def _calls(data: Node, content: object) -> list[ToolRequest]:
    call_nodes = [
        call
        for key in ("tool_calls", "invalid_tool_calls")
        if data[key].value is not None
        for call in data[key].items(f"a list: {CALL}")
    ]
    known_ids = {call["id"].text() for call in call_nodes}
    for block in other_blocks(content):
        if kind_of(block) not in CALLS:
            continue
        part = Node(block, data["content"].place)
        call_id = part["call_id"].text() or part["id"].text()
        if call_id not in known_ids:
            known_ids.add(call_id)
            call_nodes.append(Node({**block, "id": call_id}, part.place))
    legacy = data["additional_kwargs"]["function_call"]
    return requests(call_nodes or ([legacy] if legacy.value is not None else []), CALL)


def _results(data: Node, content: object, results: list[Mapping[object, object]]) -> HostMessage:
    """Anthropic's form: results as blocks of a message of the user, who may have said something, too."""
    text = text_of(content)
    first, *more = (str(result.get("tool_use_id") or "") for result in results)
    schema_message = Message(
        role=Role.TOOL,
        content=text + "".join(text_of(result.get("content") or "") for result in results),
        tool_call_id=first,
        status="error" if any(result.get("is_error") for result in results) else None,
    )
    host = mapped(data, schema_message, content, data["id"].value)
    host.protected, host.more_call_ids = bool(text), tuple(more)
    return host


READER = LangChain()
