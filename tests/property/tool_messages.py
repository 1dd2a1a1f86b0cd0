"""Random LangChain messages as hosts have them: tool calls in three providers' forms, and what goes wrong with them."""

from __future__ import annotations

from dataclasses import dataclass
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

from tests.property import tool_cases


TAG = "history_tag"
"""In `additional_kwargs` of every message: what tells the host's messages apart, copies included."""

FORMS = ("openai", "anthropic", "responses", "mixed")
FAULTS = ("missing", "shuffled", "orphan", "twice", "system between", "none at all")


@dataclass
class Messages(tool_cases.Messages[BaseMessage]):
    """Makes messages; `form` is how calls and results look."""

    form: str = "mixed"
    odd: bool = True
    """Whether there may be messages that only some providers take."""
    made: int = 0

    def tagged(self, message: BaseMessage) -> BaseMessage:
        self.made += 1
        message.additional_kwargs[TAG] = self.made
        if self.rng.random() < 0.5:
            message.id = f"m{self.made}"
        return message

    def long(self) -> str:
        lines = self.rng.choice((1, 1, 1, 1, 3, 25))
        return self.said(lines)

    # What people and hosts say

    def system(self) -> BaseMessage:
        made: BaseMessage = SystemMessage(self.words(15))
        if self.odd and self.chance(0.1):
            made = ChatMessage(role="developer", content=self.words(15))
        return self.tagged(made)

    def question(self) -> BaseMessage:
        content: Any = f"{self.words(30)}?"
        if self.chance(0.15):
            content = [{"type": "text", "text": content}, self.picture()]
        made: BaseMessage = HumanMessage(content)
        if self.chance(0.1):
            made = HumanMessage(content, name="ann")
        if self.odd and isinstance(content, str) and self.chance(0.05):
            made = ChatMessage(role="user", content=content)
        return self.tagged(made)

    def picture(self) -> dict[str, Any]:
        detail = self.rng.choice(("low", "auto"))
        picture = {"url": "https://example.com/p.png", "detail": detail}
        return {"type": "image_url", "image_url": picture}

    # What models say

    def answer(self) -> BaseMessage:
        content: Any = self.words(40)
        if self.odd and self.chance(0.1):
            content = [*self.thoughts(), {"type": "text", "text": content}]
        return self.tagged(AIMessage(content))

    def thoughts(self) -> list[dict[str, Any]]:
        if self.form == "responses":
            said = [{"type": "summary_text", "text": self.words(10)}]
            return [{"type": "reasoning", "id": f"rs_{self.made}", "summary": said}]
        return [{"type": "thinking", "thinking": self.words(10), "signature": "c2lnbmVk"}]

    def call_ids(self) -> list[str | None]:
        """Ids of one message's parallel calls: own ones, the same every turn, equal ones, none."""
        count = self.rng.choice((1, 1, 2, 3))
        kind = self.rng.choice(("own", "own", "own", "numbered", "same", "empty"))
        if kind == "numbered":
            return [f"call_{n}" for n in range(count)]
        if kind == "same" and self.odd:
            return ["call_0"] * count
        if kind == "empty" and self.odd:
            return [self.rng.choice(("", None)) for _ in range(count)]
        return [f"call_{self.rng.randrange(10**6)}" for _ in range(count)]

    def asks(self) -> BaseMessage:
        """A message with tool calls, in the form of some provider."""
        form = self.rng.choice(FORMS[:3]) if self.form == "mixed" else self.form
        calls: list[dict[str, Any]] = [
            {"name": "lookup", "args": {"q": self.words(4)}, "id": i, "type": "tool_call"}
            for i in self.call_ids()
        ]
        said = self.words(8) if self.chance(0.4) else ""
        if form == "anthropic" or form == "responses":
            return self.tagged(self._in_blocks(form, said, calls))
        kwargs: dict[str, Any] = {}
        if self.odd and self.chance(0.05):
            function = {"name": "lookup", "arguments": '{"q": 1}'}
            return self.tagged(AIMessage(said, additional_kwargs={"function_call": function}))
        if self.odd and self.chance(0.1):
            kwargs = {"reasoning_content": self.words(10)}
        broken = []
        if self.odd and self.chance(0.1):
            call = calls.pop()
            broken = [{**call, "args": '{"q": ', "error": None, "type": "invalid_tool_call"}]
        return self.tagged(
            AIMessage(said, tool_calls=calls, invalid_tool_calls=broken, additional_kwargs=kwargs)
        )

    def _in_blocks(self, form: str, said: str, calls: list[dict[str, Any]]) -> AIMessage:
        blocks: list[str | dict[str, Any]] = []
        blocks += self.thoughts() if self.chance(0.5) else []
        blocks += [{"type": "text", "text": said}] if said else []
        for call in calls:
            call["id"] = call["id"] or f"call_{self.rng.randrange(10**6)}"
            if form == "anthropic":
                asked = {"id": call["id"], "name": call["name"], "input": call["args"]}
                blocks.append({"type": "tool_use", **asked})
            else:
                asked = {"call_id": call["id"], "name": call["name"], "arguments": '{"q": 1}'}
                blocks.append({"type": "function_call", "id": f"fc_{self.made}", **asked})
        repeated = len({call["id"] for call in calls}) < len(calls)
        # Integrations repeat the blocks in `tool_calls`; messages made by hand may have either alone.
        listed = calls if repeated or self.chance(0.8) else []
        return AIMessage(blocks, tool_calls=listed)

    # What tools say

    def results(self, asked: BaseMessage, ids: list[str]) -> list[BaseMessage]:
        fault = self.spoil(ids)
        if fault == "none at all":
            return []
        if "function_call" in asked.additional_kwargs:
            return [self.tagged(FunctionMessage(name="lookup", content=self.words(9)))]
        if isinstance(asked.content, list) and self._is_anthropic(asked.content):
            found = self._as_blocks(ids)
        else:
            found = [self.result(i) for i in ids]
        if fault == "system between":
            found.insert(self.rng.randint(0, len(found)), self.system())
        return found

    def _is_anthropic(self, content: list[Any]) -> bool:
        kinds = {block.get("type") for block in content if isinstance(block, dict)}
        return "tool_use" in kinds and self.chance(0.8)

    def result(self, call_id: str) -> BaseMessage:
        content: Any = self.long() if self.chance(0.95) else ""
        if self.chance(0.2):
            content = [{"type": "text", "text": content}]
            content += [self.picture()] if self.odd and self.chance(0.3) else []
        status: Any = "error" if self.chance(0.1) else "success"
        artifact = {"rows": [1, 2]} if self.chance(0.2) else None
        return self.tagged(
            ToolMessage(content, tool_call_id=call_id, status=status, artifact=artifact)
        )

    def _as_blocks(self, ids: list[str]) -> list[BaseMessage]:
        """Anthropic's form: blocks in one message of the user, or in one for each; words may follow."""
        blocks: list[dict[str, Any]] = []
        for call_id in ids:
            content: Any = self.long()
            if self.chance(0.3):
                content = [{"type": "text", "text": content}]
            block = {"type": "tool_result", "tool_use_id": call_id, "content": content}
            blocks.append({**block, "is_error": True} if self.chance(0.1) else block)
        parts = [blocks] if self.chance(0.7) and blocks else [[block] for block in blocks]
        if parts and self.chance(0.2):
            parts[-1].append({"type": "text", "text": f"{self.words(8)}?"})
        return [self.tagged(HumanMessage(list(part))) for part in parts]
