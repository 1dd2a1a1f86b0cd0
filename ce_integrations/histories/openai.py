"""OpenAI's chat messages: a list, an object with `messages`, or lines of such objects."""

from __future__ import annotations

from typing import Any

from ce_engine import HostMessage, Message, Role
from ce_integrations.histories.json_node import Conversation, Node, mapped, requests
from ce_integrations.mapping.content_blocks import text_of
from ce_integrations.mapping.messages import ROLES, author_of


EXPECTED = 'a message such as {"role": "user", "content": "..."}'
CALL = 'a call such as {"id": "...", "function": {"name": "...", "arguments": "{}"}}'


class OpenAI:
    """Reads what apps send to OpenAI's chat completions, and to all that speak like it."""

    name = "openai"
    is_plain = True

    def fits(self, data: Any) -> bool:
        """Whether the file's JSON looks like it."""
        file = Node(data)
        return file.has("messages") or file.first().has("role") or file.first().has("messages")

    def read(self, data: Any) -> list[Conversation]:
        """The conversations of the file.

        Raises:
            SchemaValidationError: something is in another form; it names the place.
        """
        file = Node(data)
        if file.first().has("messages"):  # one in a line, as fine-tuning has them
            return [self._conversation(line) for line in file.items("a list")]
        return [self._conversation(file)]

    def _conversation(self, file: Node) -> Conversation:
        messages = file["messages"] if file.has("messages") else file
        name = next(
            (file[k].value for k in ("id", "session_id") if isinstance(file[k].value, str)), ""
        )
        expected = 'a list of messages, or an object {"messages": [...]}'
        return Conversation(name, [message(node) for node in messages.items(expected)])


def message(node: Node) -> HostMessage:
    """One message of a list."""
    node.fields(EXPECTED)
    role_word = node["role"].text()
    if role_word not in ROLES:
        node["role"].wrong(f"one of {', '.join(sorted(ROLES))}")
    role, content = ROLES[role_word][0], node["content"].content()
    calls = []
    if role is Role.ASSISTANT:
        if node["tool_calls"].value is not None:
            calls = requests(node["tool_calls"].items(f"a list: {CALL}"), CALL)
        elif node["function_call"].value is not None:
            calls = requests([node["function_call"]], CALL)
    schema_message = Message(
        role=role,
        content=text_of(content) or node["refusal"].text(),
        author=author_of(node["name"].text(), role),
        tool_calls=calls or None,
        tool_call_id=(node["tool_call_id"].text() or None) if role is Role.TOOL else None,
    )
    return mapped(node, schema_message, content)


READER = OpenAI()
