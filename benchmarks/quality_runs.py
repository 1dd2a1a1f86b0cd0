"""Tool runs in `quality.py`: replayed call by call, beside the same run untouched."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, takewhile
from typing import Any, NamedTuple, Protocol

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    convert_to_openai_messages,
    trim_messages,
)
from langchain_core.outputs import ChatGeneration, ChatResult
from quality_recall import FRAMING, config, tokens

from ce_engine import MemoryStore, Message, Role, RuntimeConfig, ToolRequest, create_context_engine
from ce_integrations.langchain import install_ce


CACHED = 0.1
"""What a token costs that the provider has in its cache, beside one that it has not."""

UNLIMITED = 1_000_000

Plain = dict[str, Any]
"""A message in OpenAI's form."""


def native(message: Plain) -> BaseMessage:
    text = message.get("content") or ""
    if message["role"] == "system":
        return SystemMessage(text)
    if message["role"] == "user":
        return HumanMessage(text)
    if message["role"] == "tool":
        return ToolMessage(text, tool_call_id=message["tool_call_id"], name=message.get("name"))
    calls = [
        {
            "name": call["function"]["name"],
            "args": json.loads(call["function"]["arguments"]),
            "id": call["id"],
        }
        for call in message.get("tool_calls") or []
    ]
    return AIMessage(text, tool_calls=calls)


def plain(messages: Sequence[BaseMessage]) -> list[Plain]:
    keys = ("role", "content", "tool_calls", "tool_call_id")
    made: Any = convert_to_openai_messages(list(messages))
    return [{key: each[key] for key in keys if each.get(key)} for each in made]


def size(message: Plain) -> int:
    asked = (call["function"] for call in message.get("tool_calls") or [])
    content = message.get("content") or ""
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    return FRAMING + tokens(text) + sum(tokens(each["name"] + each["arguments"]) for each in asked)


def values(message: Plain) -> set[str]:
    """What an agent copies: leaves of tool arguments, and words with a digit in its text."""
    found = set(re.findall(r"[\w.-]*\d[\w.-]*", message.get("content") or ""))
    todo = [json.loads(c["function"]["arguments"]) for c in message.get("tool_calls") or []]
    while todo:
        item = todo.pop()
        if isinstance(item, dict | list):
            todo += item.values() if isinstance(item, dict) else item
        else:
            found.add(str(item))
    return {value for value in found if len(value) > 3 and any(map(str.isdigit, value))}


class App(Protocol):
    """An app at work: it hears messages, and calls its model."""

    def __init__(self, limit: int, more: dict[str, Any]) -> None: ...

    def add(self, message: Plain) -> None: ...

    def call(self, answer: Plain) -> list[Plain]:
        """What goes to the model, which answers so."""

    def close(self) -> None: ...


class Replays(BaseChatModel):
    """Answers what the run's agent answered."""

    answers: list[Any]
    heard: list[Any]

    @property
    def _llm_type(self) -> str:
        return "replays"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        self.heard[:] = messages
        return ChatResult(generations=[ChatGeneration(message=self.answers[-1])])


class LangChain:
    """Ours, in front of a LangChain model that is sent the whole list."""

    def __init__(self, limit: int, more: dict[str, Any]) -> None:
        self._answers, self._heard, self._list = list[Any](), list[Any](), list[BaseMessage]()
        self._model = Replays.model_construct(answers=self._answers, heard=self._heard)
        self._engine = create_context_engine(MemoryStore())
        self._installed = install_ce(self._model, engine=self._engine, config=config(limit, **more))

    def add(self, message: Plain) -> None:
        self._list.append(native(message))

    def call(self, answer: Plain) -> list[Plain]:
        self._answers.append(native(answer))
        self._model.invoke(self._list, {"configurable": {"thread_id": "t"}})
        return plain(self._heard)

    def close(self) -> None:
        self._installed.uninstall()
        self._engine.sync.close()


class ByHand:
    """Ours, by hand: new messages in, the assembled input out."""

    def __init__(self, limit: int, more: dict[str, Any]) -> None:
        self._config, self._engine = config(limit, **more), create_context_engine(MemoryStore())
        self._system: list[Message] = []
        self._new: list[Message] = []
        self._turn = ""

    def add(self, message: Plain) -> None:
        text = message.get("content") or ""
        if message["role"] == "system":
            self._system = [Message(role=Role.SYSTEM, content=text)]
        elif message["role"] == "assistant":
            asked = [
                ToolRequest(id=call["id"], name=call["name"], args=call["args"])
                for call in getattr(native(message), "tool_calls", ())
            ]
            said = Message(role=Role.ASSISTANT, content=text, tool_calls=asked or None)
            self._engine.sync.commit_assistant_message("t", said, turn_id=self._turn)
        else:
            call_id = message.get("tool_call_id")
            role = Role.TOOL if call_id else Role.USER
            self._new.append(Message(role=role, content=text, tool_call_id=call_id))

    def call(self, answer: Plain) -> list[Plain]:
        del answer  # it comes with `add`
        made = self._engine.sync.prepare_turn("t", [*self._system, *self._new], self._config)
        self._turn, self._new = made.report.turn_id, []
        return [_part(part) for part in made.assembled_input.parts]

    def close(self) -> None:
        self._engine.sync.close()


def _part(part: Any) -> Plain:
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.args)},
        }
        for call in part.tool_calls or ()
    ]
    told = {"content": part.content, "tool_calls": calls, "tool_call_id": part.tool_call_id}
    return {"role": part.role.value, **{key: value for key, value in told.items() if value}}


class Trim:
    """LangChain's `trim_messages`, exactly counted."""

    def __init__(self, limit: int, more: dict[str, Any]) -> None:
        del more  # it has no configuration
        self._limit, self._list = limit, list[BaseMessage]()

    def add(self, message: Plain) -> None:
        self._list.append(native(message))

    def call(self, answer: Plain) -> list[Plain]:
        del answer

        def counted(messages: Any) -> int:
            return sum(map(size, plain(messages)))

        if counted(self._list) <= self._limit:
            return plain(self._list)
        kept = trim_messages(
            self._list,
            max_tokens=self._limit,
            token_counter=counted,
            strategy="last",
            include_system=True,
            start_on="human",
        )
        return plain(kept)

    def close(self) -> None:
        """Nothing is held."""


APPS: dict[str, Callable[[int, dict[str, Any]], App]] = {
    "ours, LangChain": LangChain,
    "ours, by hand": ByHand,
    "trim_messages": Trim,
}


@dataclass
class Bill:
    """What the calls of one run cost, in tokens that are not in the provider's cache."""

    sent: list[list[Plain]] = field(default_factory=list)

    def shares(self) -> tuple[float, int, int]:
        """Cost; tokens in all; tokens of the second and later calls that were sent the same before."""
        cost, total, same_before = 0.0, 0, 0
        for before, now in pairwise([[], *self.sent]):
            alike = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, now)))  # noqa: B905
            sizes = [size(message) for message in now]
            same = sum(sizes[:alike])
            cost += CACHED * same + sum(sizes[alike:])
            total += sum(sizes)
            same_before += same
        return cost, total, same_before


class Outcome(NamedTuple):
    """Of all runs: cost beside the untouched one (in %), runs dearer (in %), values kept (in %),
    calls with a broken pair, and the share of what was sent that the call before had begun with (in %)."""

    cost: float
    dearer: float
    kept: float
    broken: int
    prefix: float


def measure(
    make: Callable[[int, dict[str, Any]], App],
    runs: Sequence[Sequence[Plain]],
    share: float | None,
    more: dict[str, Any],
) -> Outcome:
    """Replay runs within a share of each one's largest call; without a limit for `None`."""
    paid = untouched = 0.0
    dearer = broken = had = kept = total = same = 0
    for run in runs:
        last = max(n for n, message in enumerate(run) if message["role"] == "assistant")
        whole = plain([native(message) for message in run[:last]])
        limit = UNLIMITED if share is None else int(share * sum(map(size, whole)))
        app, bare, ours = make(limit, more), Bill(), Bill()
        try:
            for n, message in enumerate(run):
                if message["role"] == "assistant" and n:
                    view = plain([native(each) for each in run[:n]])
                    sent = app.call(message)
                    bare.sent.append(view)
                    ours.sent.append(sent)
                    broken += is_broken(sent)
                    before, now = _text(view), _text(sent)
                    known = {value for value in values(message) if value in before}
                    had += len(known)
                    kept += sum(value in now for value in known)
                app.add(message)
        finally:
            app.close()
        (cost, tokens_sent, tokens_same), (least, _, _) = ours.shares(), bare.shares()
        paid, untouched = paid + cost, untouched + least
        dearer += cost > least * 1.0001
        total, same = total + tokens_sent, same + tokens_same
    return Outcome(
        100 * (paid / untouched - 1),
        100 * dearer / len(runs),
        100 * kept / max(1, had),
        broken,
        100 * same / max(1, total),
    )


def _text(messages: Sequence[Plain]) -> str:
    return json.dumps(messages, ensure_ascii=False)


def is_broken(sent: Sequence[Plain]) -> bool:
    """Whether a call stands without its result, or a result without its call."""
    asked = {call["id"] for each in sent for call in each.get("tool_calls") or []}
    answered = {each.get("tool_call_id") for each in sent if each["role"] == "tool"}
    return asked != answered


def has_compact() -> bool:
    """Whether this release works on tool results when they arrive."""
    return "tool_results" in RuntimeConfig.model_fields
