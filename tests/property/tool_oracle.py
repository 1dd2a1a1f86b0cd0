"""What must hold of every list that reaches the model, told from the host's list alone; knows nothing of the engine."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from ce_integrations.testing.contract_case import count
from tests.property.tool_messages import TAG


Pair = tuple[int, int, int, int]
"""Tag of the message that asks, which of its calls, tag of the message that answers, which of its results."""

ASKING = {"tool_use": "id", "function_call": "call_id"}
THINKING = ("thinking", "reasoning")


def tag(message: BaseMessage) -> int:
    return int(message.additional_kwargs.get(TAG, 0))


def blocks(message: BaseMessage, *kinds: str) -> list[dict[str, Any]]:
    content = message.content if isinstance(message.content, list) else []
    return [b for b in content if isinstance(b, dict) and b.get("type") in kinds]


def asked(message: BaseMessage) -> list[str]:
    """Ids of the calls in a message."""
    if not isinstance(message, AIMessage):
        return []
    ids = [call["id"] or "" for call in (*message.tool_calls, *message.invalid_tool_calls)]
    in_blocks = [str(b[ASKING[b["type"]]]) for b in blocks(message, *ASKING)]
    ids += [i for i in dict.fromkeys(in_blocks) if i not in ids]
    return ids or ([""] if "function_call" in message.additional_kwargs else [])


def answered(message: BaseMessage) -> list[str]:
    """Ids of the calls that a message answers."""
    if isinstance(message, ToolMessage):
        return [message.tool_call_id]
    if isinstance(message, FunctionMessage):
        return [""]
    return [b["tool_use_id"] for b in blocks(message, "tool_result")]


def is_system(message: BaseMessage) -> bool:
    role = message.role if isinstance(message, ChatMessage) else ""
    return isinstance(message, SystemMessage) or role in ("system", "developer")


def is_question(message: BaseMessage) -> bool:
    asks = isinstance(message, HumanMessage) or getattr(message, "role", "") == "user"
    return asks and not answered(message)


def is_held(message: BaseMessage) -> bool:
    """A result that must not be lost: a person's words are in it, or nothing but its place says whose it is."""
    return isinstance(message, FunctionMessage) or bool(answered(message) and said(message))


def said(message: BaseMessage) -> str:
    """What a person said, in a message with results."""
    return text(message) if isinstance(message, HumanMessage) else ""


def text(message: BaseMessage) -> str:
    if isinstance(message.content, str):
        return message.content
    return "".join(b["text"] for b in blocks(message, "text"))


def thoughts(message: BaseMessage) -> list[Any]:
    return [*blocks(message, *THINKING), message.additional_kwargs.get("reasoning_content")]


@dataclass
class Walk:
    """A list as a provider reads it: who answers whom, results that nobody asked for, open calls."""

    pairs: set[Pair] = field(default_factory=set)
    orphans: set[tuple[int, int]] = field(default_factory=set)
    unanswered: set[tuple[int, int]] = field(default_factory=set)
    groups: list[list[BaseMessage]] = field(default_factory=list)

    @classmethod
    def of(cls, messages: Sequence[BaseMessage]) -> Walk:
        walk, open_ids, asker = cls(), list[tuple[int, str]](), list[BaseMessage]()
        for message in messages:
            if is_system(message):
                continue
            results = answered(message)
            if results:
                walk._answer(message, results, open_ids, asker)
            else:
                walk.unanswered |= {(tag(asker[0]), slot) for slot, _ in open_ids}
                open_ids, asker = list(enumerate(asked(message))), [message]
                walk.groups.append(asker)
        walk.unanswered |= {(tag(asker[0]), slot) for slot, _ in open_ids}
        walk.groups = walk.groups or [[m] for m in messages if answered(m)]
        return walk

    def _answer(
        self,
        message: BaseMessage,
        results: list[str],
        open_ids: list[tuple[int, str]],
        asker: list[BaseMessage],
    ) -> None:
        for part, call_id in enumerate(results):
            slot = next((n for n, i in open_ids if i == call_id), None)
            if slot is None:
                self.orphans.add((tag(message), part))
                continue
            open_ids.remove((slot, call_id))
            self.pairs.add((tag(asker[0]), slot, tag(message), part))
            if asker[-1] is not message:
                asker.append(message)
        if is_held(message) and (not asker or asker[-1] is not message):
            self.groups.append([message])


def task_of(host: Sequence[BaseMessage]) -> BaseMessage | None:
    return next((m for m in reversed(host) if is_question(m)), None)


def halves(walk: Walk) -> set[int]:
    """Tags of calls that nobody answers while the talk goes on, and of what answers but a part of them."""
    waiting = {asker for asker, _ in walk.unanswered}
    return {
        tag(m)
        for group in walk.groups[:-1]
        if tag(group[0]) in waiting and not _is_kept(group) and any(asked(group[0]))
        for m in group
    }


def _is_kept(group: Sequence[BaseMessage]) -> bool:
    """Whether the host protects it; function calls of the old style have no ids to tell by."""
    return "function_call" in group[0].additional_kwargs or any(map(is_held, group))


def never_out(host: Sequence[BaseMessage], walk: Walk, restored: Collection[int] = ()) -> set[int]:
    """Tags of what may never be left out: counted here, apart from the engine.

    What was stored made the calls in `restored` whole.
    """
    task = task_of(host)
    tags = {tag(m) for m in host if is_system(m)} | ({tag(task)} if task is not None else set())
    tags |= {tag(m) for m in walk.groups[-1]} if walk.groups else set()
    waiting = {asker for asker, _ in walk.unanswered} - set(restored)
    behind, seen = list[list[BaseMessage]](), task is None
    for group in walk.groups:
        if _is_kept(group) or (tag(group[0]) in waiting and not any(asked(group[0]))):
            tags |= {tag(m) for m in group}
        if len(group) > 1 and seen and tag(group[0]) not in waiting:
            behind.append(group)
        seen = seen or group[0] is task
    return tags | {tag(m) for group in behind[-1:] for m in group}


# What a list costs


def cost(messages: Sequence[BaseMessage], tools: Sequence[dict[str, Any]] = ()) -> int:
    """Tokens of a list as a provider of OpenAI's kind would count it."""
    body = {"messages": [_shown(m) for m in messages], "tools": list(tools)}
    return count(body)


def _shown(message: BaseMessage) -> dict[str, Any]:
    parts: list[dict[str, Any]] = [{"type": "text", "text": text(message)}]
    parts += blocks(message, "image_url")
    for block in (*blocks(message, *THINKING), *blocks(message, "tool_result")):
        words = json.dumps(block.get("thinking") or block.get("summary"), ensure_ascii=False)
        if block["type"] == "tool_result":
            inner = block["content"]
            words = inner if isinstance(inner, str) else "".join(b["text"] for b in inner)
        parts.append({"type": "text", "text": words})
    shown: dict[str, Any] = {"role": "user", "content": parts}
    if isinstance(message, AIMessage):
        shown["role"] = "assistant"
        shown["tool_calls"] = [_call(call) for call in _calls(message)]
    elif isinstance(message, ToolMessage):
        shown.update(role="tool", tool_call_id=message.tool_call_id)
    return {**shown, "name": message.name} if message.name else shown


def _calls(message: AIMessage) -> list[dict[str, Any]]:
    listed = [dict(c) for c in (*message.tool_calls, *message.invalid_tool_calls)]
    known = {call["id"] for call in listed}
    for block in blocks(message, *ASKING):
        call_id = block[ASKING[block["type"]]]
        if call_id not in known:
            known.add(call_id)
            args = block.get("input", block.get("arguments"))
            listed.append({"id": call_id, "name": block["name"], "args": args})
    return listed


def _call(call: dict[str, Any]) -> dict[str, Any]:
    args = call["args"]
    said = args if isinstance(args, str) else json.dumps(args, ensure_ascii=False)
    return {"id": call["id"], "function": {"name": call["name"], "arguments": said}}
