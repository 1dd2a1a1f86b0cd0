"""A second counter for the tokens of a request body, sharing no code with the engine's own."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from math import ceil
from typing import Any


Encode = Callable[[str], Sequence[int]]
Size = Callable[[str], int]

PRIMING = 3
"""Tokens that open the model's reply."""
PER_MESSAGE = 3
PER_NAME = 1
PER_CALL = 3
TOOLS_HEADING = 5
"""What the provider writes above the rendered tools, in tokens."""
IMAGE_LOW = 85
IMAGE_HIGH = 765
"""An image of 1024 x 1024 in high detail; stands for every image whose size is not in the body."""
IMAGE_TILE = 170
PNG_URL = "data:image/png;base64,"


def count_body_tokens(body: dict[str, Any], encode: Encode) -> int:
    """Counts the prompt tokens of a chat or legacy completion request.

    Published and measured accounting, not a promise of the provider: 3 tokens a message plus
    role, name and content; 3 plus name and arguments a tool call; the name of the called function
    with its result; 3 for the reply. Tools count as the TypeScript that a model is shown, a JSON
    schema of the reply as the text that goes with it, both inside the system message (one more
    message where there is none). Not counted, as nowhere published: what providers add for
    parallel calls (measured: 13 to 24 tokens a request).

    Args:
        body: The parsed body of `/v1/chat/completions` or `/v1/completions`.
        encode: Text to tokens, for instance `tiktoken`'s `encode_ordinary`.

    Returns:
        Prompt tokens.
    """

    def size(text: str) -> int:
        return len(encode(text))

    if "prompt" in body:
        prompt = body["prompt"]
        return sum(map(size, [prompt] if isinstance(prompt, str) else prompt))
    messages: list[dict[str, Any]] = body.get("messages") or []
    tokens = PRIMING + _standing_tokens(body, messages, size)
    names: dict[str, str] = {}
    for message in messages:
        for call in message.get("tool_calls") or ():
            names[call["id"]] = call["function"]["name"]
        tokens += _message_tokens(message, names, size)
    return tokens


def _message_tokens(message: dict[str, Any], names: dict[str, str], size: Size) -> int:
    tokens = PER_MESSAGE + size(message["role"]) + _content_tokens(message.get("content"), size)
    if name := message.get("name"):
        tokens += PER_NAME + size(name)
    if refusal := message.get("refusal"):
        tokens += size(refusal)
    functions = [call["function"] for call in message.get("tool_calls") or ()]
    if functions and message.get("content"):
        tokens += PER_MESSAGE + size(message["role"])  # shown as two messages: words, then calls
    for function in functions:
        tokens += PER_CALL + size(function["name"]) + size(function["arguments"])
    return tokens + size(names.get(message.get("tool_call_id", ""), ""))


def _content_tokens(content: str | list[dict[str, Any]] | None, size: Size) -> int:
    if content is None:
        return 0
    if isinstance(content, str):
        return size(content)
    return sum(_part_tokens(part, size) for part in content)


def _part_tokens(part: dict[str, Any], size: Size) -> int:
    kind = part["type"]
    if kind == "image_url":
        return _image_tokens(part["image_url"])
    if kind in {"text", "refusal"}:
        return size(part[kind])
    return size(json.dumps(part, ensure_ascii=False))


def _image_tokens(image: dict[str, Any]) -> int:
    if image.get("detail") == "low":
        return IMAGE_LOW
    head = str(image.get("url")).removeprefix(PNG_URL)[:32]
    try:
        header = b64decode(head, validate=True)
    except ValueError:  # a URL, or another form
        return IMAGE_HIGH
    sides = [float(int.from_bytes(header[at : at + 4])) for at in (16, 20)]
    if not all(sides) or b"PNG" not in header:
        return IMAGE_HIGH
    sides = [side * min(1, 2048 / max(sides)) for side in sides]
    sides = [side * min(1, 768 / min(sides)) for side in sides]
    return IMAGE_LOW + IMAGE_TILE * ceil(sides[0] / 512) * ceil(sides[1] / 512)


def _standing_tokens(body: dict[str, Any], messages: list[dict[str, Any]], size: Size) -> int:
    """Counts what the provider writes into the system message for tools and reply schema."""
    functions = [tool["function"] for tool in body.get("tools") or ()]
    schema = (body.get("response_format") or {}).get("json_schema")
    if not functions and not schema:
        return 0
    system = next((m for m in messages if m["role"] in {"system", "developer"}), None)
    tokens = PER_MESSAGE + size("system") if system is None else 0
    if functions:
        tokens += TOOLS_HEADING + size(render_functions(functions))
        tokens += _choice_tokens(body.get("tool_choice"), size)
        if system is not None and isinstance(text := system["content"], str):
            tokens += size(f"{text}\n") - size(text)  # the heading starts on a line of its own
    if schema:
        tokens += size(_render_reply_schema(schema))
    return tokens


def _choice_tokens(choice: str | dict[str, Any] | None, size: Size) -> int:
    if isinstance(choice, dict):
        return 4 + size(choice.get("function", {}).get("name", ""))
    return 1 if choice == "none" else 0


def _render_reply_schema(schema: dict[str, Any]) -> str:
    lines = ["# Response Formats", "", f"## {schema['name']}", ""]
    lines += _comment(schema.get("description"))
    lines.append(json.dumps(schema.get("schema", {}), ensure_ascii=False, separators=(",", ":")))
    return "\n".join(lines)


def render_functions(functions: Sequence[dict[str, Any]]) -> str:
    """Renders function schemas as the TypeScript namespace that a model is shown."""
    lines = ["namespace functions {", ""]
    for function in functions:
        parameters = function.get("parameters") or {}
        lines += _comment(function.get("description"))
        for name, schema in parameters.get("$defs", {}).items():
            lines.append(f"type {name} = {_type(schema, 0)};")
        if parameters.get("properties"):
            lines.append(f"type {function['name']} = (_: {{")
            lines += _properties(parameters, 0)
            lines.append("}) => any;")
        else:
            lines.append(f"type {function['name']} = () => any;")
        lines.append("")
    return "\n".join([*lines, "} // namespace functions"])


def _comment(text: str | None) -> list[str]:
    return [f"// {line}" for line in text.splitlines()] if text else []


def _properties(schema: dict[str, Any], indent: int) -> Iterator[str]:
    margin = " " * indent
    required = schema.get("required", ())
    for name, prop in schema.get("properties", {}).items():
        yield from (margin + line for line in _comment(prop.get("description")))
        mark = "" if name in required else "?"
        default = f" // default: {json.dumps(prop['default'])}" if "default" in prop else ""
        yield f"{margin}{name}{mark}: {_type(prop, indent)},{default}"


def _type(schema: dict[str, Any], indent: int) -> str:
    if values := schema.get("enum") or ([schema["const"]] if "const" in schema else []):
        return " | ".join(json.dumps(value, ensure_ascii=False) for value in values)
    if "$ref" in schema:
        return str(schema["$ref"]).rsplit("/", 1)[-1]
    kind = schema.get("type", "any")
    options = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
    if isinstance(kind, list):
        options = [{**schema, "type": kind_name} for kind_name in kind]
    if options:
        return " | ".join(_type(option, indent) for option in options)
    if kind == "array":
        return f"{_type(schema.get('items', {}), indent)}[]"
    if kind == "object" and schema.get("properties"):
        return "\n".join(["{", *_properties(schema, indent + 2), " " * indent + "}"])
    return "number" if kind == "integer" else str(kind)
