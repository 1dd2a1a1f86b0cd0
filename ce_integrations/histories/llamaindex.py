"""LlamaIndex's messages as `ChatMessage.model_dump` and `SimpleChatStore.persist` write them."""

from __future__ import annotations

from typing import Any

from ce_engine import HostMessage, Message, Role, ToolRequest
from ce_integrations.histories.json_node import Conversation, Node, mapped, requests
from ce_integrations.histories.written_tool_calls import WrittenCall, read
from ce_integrations.mapping.content_blocks import BYTES_PER_TOKEN, CALLS, text_of
from ce_integrations.mapping.messages import ROLES


EXPECTED = 'a message such as {"role": "user", "blocks": [{"block_type": "text", "text": "..."}]}'
CALL = 'a call such as {"tool_name": "...", "tool_kwargs": {}, "tool_call_id": "..."}'
_NO_MEDIA = CALLS | {"text", "cache"}


class LlamaIndex:
    """Reads a list of messages, or a chat store, each of whose keys is a conversation."""

    name = "llamaindex"
    is_plain = False

    def fits(self, data: Any) -> bool:
        """Whether the file's JSON looks like it."""
        file = Node(data)
        first = file.first()
        return self._store(file).has("store") or (
            first.has("role") and (first.has("blocks") or first.has("additional_kwargs"))
        )

    def _store(self, file: Node) -> Node:
        return file["chat_store"] if file.has("chat_store") else file  # of a memory

    def read(self, data: Any) -> list[Conversation]:
        """The conversations of the file.

        Raises:
            SchemaValidationError: something is in another form; it names the place.
        """
        file = Node(data)
        store = self._store(file)["store"]
        if not self._store(file).has("store"):
            return [Conversation("", self._messages(file))]
        return [
            Conversation(key, self._messages(store[key]))
            for key in store.fields("the chat store's conversations by their keys")
        ]

    def _messages(self, list_node: Node) -> list[HostMessage]:
        return [message(node) for node in list_node.items("a list of messages")]


def message(node: Node) -> HostMessage:
    """One message of a list."""
    node.fields(EXPECTED)
    role_word = node["role"].text()
    if role_word not in ROLES:
        node["role"].wrong(f"one of {', '.join(sorted(ROLES))}")
    role = ROLES[role_word][0]
    content, blocks = _content(node)
    calls = _calls(node, blocks) if role is Role.ASSISTANT else []
    beside = node["additional_kwargs"]
    call_id = (beside["tool_call_id"].text() or None) if role is Role.TOOL else None
    reading = WrittenCall(content, calls)
    if not (calls or call_id or role is Role.SYSTEM):
        reading = read(role, content)
    if role is Role.USER and reading.beside:
        role = Role.TOOL
    schema_message = Message(
        role=role, content=reading.text, tool_calls=reading.calls or None, tool_call_id=call_id
    )
    media = [
        {"type": block["block_type"].text(), **_fields(block)}
        for block in blocks
        if block["block_type"].text() not in _NO_MEDIA
    ]
    host = mapped(node, schema_message, media)
    host.media_tokens += -(-len(reading.beside) // BYTES_PER_TOKEN)
    return host


def _content(node: Node) -> tuple[str, list[Node]]:
    """The text and the blocks of a message; before 0.12 there were no blocks."""
    if node["blocks"].value is None:
        return text_of(node["content"].content()), []
    blocks = list(node["blocks"].items("a list of blocks"))
    for block in blocks:
        block.fields('a block such as {"block_type": "text", "text": "..."}')
    # As `ChatMessage.content` joins them.
    texts = [block["text"].text() for block in blocks if block["block_type"].value == "text"]
    return "\n".join(texts), blocks


def _calls(node: Node, blocks: list[Node]) -> list[ToolRequest]:
    call_blocks = [block for block in blocks if block["block_type"].value == "tool_call"]
    if call_blocks:
        return [
            ToolRequest(**{**request.model_dump(), "id": block["tool_call_id"].text() or None})
            for block, request in zip(call_blocks, requests(call_blocks, CALL), strict=True)
        ]
    calls = node["additional_kwargs"]["tool_calls"]
    return requests(calls.items(f"a list: {CALL}"), CALL) if calls.value is not None else []


def _fields(block: Node) -> dict[str, Any]:
    return dict(block.fields(EXPECTED))


READER = LlamaIndex()
