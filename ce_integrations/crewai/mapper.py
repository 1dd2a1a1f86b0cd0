"""CrewAI's messages, plain dicts, as the schema's, and the plan's steps as such dicts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from crewai.utilities.agent_utils import extract_tool_call_info
from crewai.utilities.i18n import I18N

import ce_engine as ce
from ce_integrations.mapping.chat_completions import call_dict, message_dict, tool_request
from ce_integrations.mapping.content_blocks import (
    BYTES_PER_TOKEN,
    call_args,
    call_texts,
    changed,
    text_of,
)
from ce_integrations.mapping.messages import ROLES, host_message
from ce_integrations.mapping.usage import usage_of


_ACTION = re.compile("^Action:", re.MULTILINE)
_INPUT = re.compile(r"^Action Input: *+(?=\{)", re.MULTILINE)

OBSERVED = "\nObservation: "
"""Behind it an agent without function calls writes what its tool gave, into the model's own words."""

_i18n = I18N()
PROMPTS = frozenset(
    {
        _i18n.slice("post_tool_reasoning"),
        _i18n.errors("force_final_answer"),
        _i18n.slice("summarizer_system_message"),
    }
)
"""What the framework says in the user's role, and nobody asked."""


FRAMES = [
    tuple(_i18n.slice(name).rstrip().split("{input}"))
    for name in ("task", "task_no_tools", "native_task")
]
"""Before and behind an agent's question."""


def to_schema(native: Mapping[str, Any]) -> ce.HostMessage:
    """Map one message; whatever else it has stays in it."""
    content = native.get("content")
    role, origin = ROLES.get(native.get("role") or "user", ROLES["user"])
    native_calls = native.get("tool_calls") or ()
    calls = [tool_request(call) for call in native_calls]
    text = text_of(content)
    if role is ce.Role.ASSISTANT and (written_call := _parse_call(text)):
        calls = [ce.ToolRequest(name=written_call[0], args=call_args({"args": written_call[1]}))]
    if calls:
        origin = ce.Origin.TOOL_CALL
    elif role is ce.Role.USER and text in PROMPTS:
        origin = ce.Origin.HELPER
    before, text, behind = _framed(role, text)
    message = ce.Message(role=role, content=text, tool_calls=calls or None)
    if role is ce.Role.TOOL:
        message.tool_call_id = native.get("tool_call_id")
    host = host_message(message, origin, [*_parts(content), *_files(native)])
    host.media_tokens += -(-len(before + behind) // BYTES_PER_TOKEN)
    host.arguments = call_texts(call.get("function") or call for call in native_calls)
    return host


def _parse_call(text: str) -> tuple[str, str] | None:
    """The tool and its arguments as an agent writes them whose model calls no functions.

    In two steps: one expression for all of it takes hours for a text of blanks.
    """
    body = text.rstrip()
    if not body.endswith("}") or (begins := _ACTION.search(body)) is None:
        return None
    if (action_input := _INPUT.search(body, begins.end())) is None:
        return None
    name = body[begins.end() : action_input.start()].strip()
    return (name, body[action_input.end() :]) if name else None


def _parts(content: Any) -> Sequence[Any]:
    """A content's parts, where it is made of some."""
    return content if isinstance(content, list | tuple) else ()


def _files(native: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """What was given as `input_files`, in the form that adapters share.

    CrewAI makes parts of the content of them when it sends the message. It reads a file then, and keeps
    what it read: we only ask for it first. What stands at an address is not fetched.
    """
    for file in (native.get("files") or {}).values():
        block = {"type": "file", "mime_type": file.content_type, "filename": file.filename}
        if (url := getattr(file.source, "url", None)) is not None:
            yield {**block, "url": str(url)}
            continue
        try:
            yield {**block, "data": file.read()}
        except (OSError, ValueError):  # CrewAI says so itself
            yield block


def _framed(role: ce.Role, text: str) -> tuple[str, str, str]:
    """What an agent was asked, and the framework's words around it: earlier questions have none."""
    if role is ce.Role.USER:
        for before, behind in FRAMES:
            if text.startswith(before) and text.endswith(behind):
                return before, text[len(before) : len(text) - len(behind)], behind
    return "", text, ""


def split(native: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """An answer and what its tool gave, where an agent writes both into one message."""
    content = native.get("content")
    if native.get("role") != "assistant" or not isinstance(content, str):
        return (native,)
    text, observed, result = content.partition(OBSERVED)
    if not observed or _parse_call(text) is None:
        return (native,)
    answer = {**native, "content": text}
    return answer, {"role": "tool", "content": result, "tool_call_id": None}


def join(native: Mapping[str, Any], parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A copy of such a message with what goes out of its parts."""
    return {**native, "content": OBSERVED.join(part["content"] for part in parts)}


# Answers


def answer_of(result: Any) -> dict[str, Any]:
    """What a call of a model gave as a message: a text, calls of tools, or an object that was asked for."""
    entries = [extract_tool_call_info(call) for call in result] if isinstance(result, list) else []
    if calls := [call_dict(*entry) for entry in entries if entry is not None]:
        return {"role": "assistant", "content": None, "tool_calls": calls}
    if hasattr(result, "model_dump_json"):
        result = result.model_dump_json()
    return {"role": "assistant", "content": "" if result is None else str(result)}


def usage_told(usage: Any) -> ce.Usage | None:
    """The usage that a provider told, in its own names or the framework's."""
    if hasattr(usage, "model_dump"):
        usage = usage.model_dump()
    if not isinstance(usage, Mapping):
        return None
    names = {"cached_prompt_tokens": "cached_tokens", "reasoning_tokens": "reasoning_tokens"}
    more = {name: usage[key] for key, name in names.items() if usage.get(key)}
    return usage_of({"prompt_tokens_details": more, **usage})


# Back


from_schema = message_dict


def edited(native: Mapping[str, Any], step: ce.Shorten | ce.Extend) -> dict[str, Any]:
    """A copy with another text and all else that the app's has.

    What is brought in stands before the framework's words: they announce the question, and fall away
    with the next one, so that what stands behind them is no more what the provider's cache knows.
    """
    content = native.get("content") or ""
    if isinstance(content, str) and not (isinstance(step, ce.Extend) and step.before):
        before, text, behind = _framed(to_schema(native).message.role, content)
        return {**native, "content": before + changed(text, step) + behind}
    return {**native, "content": changed(content, step)}
