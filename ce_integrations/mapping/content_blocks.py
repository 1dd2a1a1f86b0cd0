"""Content made of blocks, in the forms that providers and frameworks share: its text, and what the rest costs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ce_engine import Attachment, Extend, Insert, Keep, Restore, Shorten, Step, ToolRequest
from ce_engine.schema.json_text import is_deep
from ce_integrations.mapping.attachments import attachment_of
from ce_integrations.mapping.digests import digest_of


__all__ = [
    "Beside",
    "beside_text",
    "call_args",
    "call_texts",
    "changed",
    "fields_of",
    "kind_of",
    "media_digests",
    "other_blocks",
    "raw_args",
    "text_of",
    "tool_requests",
    "with_text",
]


TEXT = frozenset({"text", "input_text", "output_text", "refusal"})
CALLS = frozenset({"tool_use", "function_call", "tool_call", "invalid_tool_call"})
"""Blocks that ask for a tool; frameworks repeat them in a list of calls."""
REASONING = frozenset({"reasoning", "thinking", "redacted_thinking", "reasoning_content"})

_TOO_DEEP = "(nested too deep)"
"""In the place of data that no client can send either."""
BYTES_PER_TOKEN = 3
"""For blocks that no rule knows: UTF-8 bytes of their JSON, as an upper bound."""


def kind_of(block: Mapping[Any, Any]) -> str:
    """The word for what a block is; empty where it says none, or something that is no word."""
    kind = block.get("type")
    return kind if isinstance(kind, str) else ""


def text_of(content: object) -> str:
    """The text of a content, other parts left out."""
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        return ""
    return "".join(map(_text, content))


def _text(part: object) -> str:
    if isinstance(part, Mapping) and kind_of(part) in TEXT:
        part = part.get("text") or part.get("refusal")
    return part if isinstance(part, str) else ""


def other_blocks(content: object) -> Iterator[Mapping[Any, Any]]:
    """The parts of a content that are no text."""
    if isinstance(content, Sequence) and not isinstance(content, str):
        for part in content:
            if isinstance(part, Mapping) and kind_of(part) not in TEXT:
                yield part


def media_digests(content: object) -> tuple[str, ...]:
    """What tells parts that are no text apart, where anything does; reasoning does not count: hosts drop it."""
    blocks = (block for block in other_blocks(content) if kind_of(block) not in REASONING)
    return tuple(filter(None, map(digest_of, blocks)))


class Beside(NamedTuple):
    """What a content has beside text.

    Attributes:
        digests: tell its parts apart, as by `media_digests`.
        tokens: what parts that no rule knows cost; an upper bound.
        attachments: its pictures and files.
    """

    digests: tuple[str, ...] = ()
    tokens: int = 0
    attachments: tuple[Attachment, ...] = ()


def beside_text(content: object) -> Beside:
    """What a content has that is no text; calls of tools cost nothing here."""
    digests: list[str] = []
    attachments: list[Attachment] = []
    tokens = 0
    for block in other_blocks(content):
        kind, digest = kind_of(block), digest_of(block)
        if digest and kind not in REASONING:
            digests.append(digest)
        if kind in CALLS:
            continue
        if kind == "tool_result":  # its text is counted as the message's
            inside = beside_text(block.get("content"))
            tokens += inside.tokens + _size({**block, "content": None})
            attachments += inside.attachments
        elif (attachment := attachment_of(block, digest)) is not None:
            attachments.append(attachment)
        else:
            tokens += _size(block)
    return Beside(tuple(digests), tokens, tuple(attachments))


def call_args(call: Mapping[Any, Any]) -> dict[str, Any]:
    """The arguments of a call; what is no JSON object, or nested too deep to be stored, stands under `""`."""
    args = text = raw_args(call)
    if isinstance(text, str):
        try:
            args = json.loads(text)
        except (ValueError, RecursionError):
            return {"": text}
    if is_deep(args):
        return {"": text if isinstance(text, str) else _TOO_DEEP}
    return dict(args) if isinstance(args, Mapping) else {"": args}


def call_texts(calls: Iterable[Any]) -> tuple[str, ...]:
    """The arguments of calls that frameworks keep as text, which goes out as it stands; of others `""`."""
    arguments = (raw_args(fields_of(call)) for call in calls)
    return tuple(args if isinstance(args, str) else "" for args in arguments)


def fields_of(value: object) -> Mapping[Any, Any]:
    """What a mapping or an object holds, by name."""
    return value if isinstance(value, Mapping) else vars(value)


def raw_args(call: Mapping[Any, Any]) -> Any:
    """The arguments of a call as the framework keeps them, whatever their name."""
    return call.get("input", call.get("args", call.get("arguments")))


def tool_requests(calls: Iterable[Any]) -> list[ToolRequest]:
    """Calls of tools as frameworks keep them: mappings or objects with name, arguments and id."""
    maps = map(fields_of, calls)
    return [ToolRequest(name=t.get("name") or "", id=t.get("id"), args=call_args(t)) for t in maps]


def changed(content: Any, step: Step) -> Any:
    """A content as a step of the plan wants it, as a new value; parts that are no text stay."""
    if isinstance(step, Keep):
        return content
    if isinstance(step, Insert | Restore):
        return step.text if isinstance(step, Insert) else step.message.content
    if isinstance(content, str):
        if isinstance(step, Shorten):
            return step.text
        return step.text + content if step.before else content + step.text
    addition = {"type": "text", "text": step.text}
    if isinstance(step, Extend):
        return [addition, *content] if step.before else [*content, addition]
    others = list(other_blocks(content))
    results = [n for n, block in enumerate(others) if kind_of(block) == "tool_result"]
    for n in results:  # the text is theirs, the first one's here
        inside = Shorten(step.index, step.text if n == results[0] else "")
        others[n] = {**others[n], "content": changed(others[n].get("content") or "", inside)}
    return others if results else [addition, *others]


def with_text(parts: Sequence[Any], kind: type, text_part: object) -> list[Any]:
    """A framework's parts with one text in the place of the first, for all that they have of its `kind`.

    Providers' clients send no other order of some roles.
    """
    place = next((n for n, part in enumerate(parts) if isinstance(part, kind)), 0)
    before, behind = (
        [part for part in some if not isinstance(part, kind)]
        for some in (parts[:place], parts[place:])
    )
    return [*before, text_part, *behind]


def _size(block: Mapping[Any, Any]) -> int:
    try:
        packed = json.dumps(block, sort_keys=True, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        packed = _TOO_DEEP
    return -(-len(packed.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN)
