"""Recall in `quality.py`: of what a question needs, how much is in the input; ours, and what others do."""

from __future__ import annotations

import asyncio
import json
import math
import re
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import count, islice, pairwise
from typing import Any, NamedTuple, Protocol

from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, trim_messages
from quality_data import Question, Said, Session

from ce_engine import (
    BudgetConfig,
    MemoryStore,
    Message,
    ObservabilityConfig,
    Role,
    RuntimeConfig,
    ToolRequest,
    create_context_engine,
)
from ce_engine.text.tokens import default_estimator
from ce_integrations.langchain import install_ce


MODEL = "gpt-4o"
FRAMING = 4
"""Tokens that a message costs beside its text."""

TAIL = 4
"""The newest messages that plain BM25 keeps in any case, as every conversation needs."""

_COUNT = default_estimator()
_known: dict[str, int] = {}


def tokens(text: str) -> int:
    if text not in _known:
        _known[text] = _COUNT.estimate_text(text, MODEL)
    return _known[text]


def cost(texts: Sequence[str]) -> int:
    return sum(tokens(text) + FRAMING for text in texts)


def config(budget: int, **more: Any) -> RuntimeConfig:
    """The default configuration, with all of the budget for the input."""
    limits = BudgetConfig(max_input_tokens=budget, reserved_reply_tokens=0)
    return RuntimeConfig(budget=limits, model_hint=MODEL, **more)


def roles(said: Sequence[Said]) -> list[Role]:
    """The first speaker is the user, the second the assistant; without speakers, in turn."""
    names = list(dict.fromkeys(each.speaker for each in said))
    if len(names) < 2:
        return [(Role.USER, Role.ASSISTANT)[n % 2] for n in range(len(said))]
    return [Role.USER if each.speaker == names[0] else Role.ASSISTANT for each in said]


def natives(said: Sequence[Said]) -> list[BaseMessage]:
    kinds: dict[Role, Any] = {Role.USER: HumanMessage, Role.ASSISTANT: AIMessage}
    return [kinds[role](each.content) for role, each in zip(roles(said), said, strict=True)]


class Way(Protocol):
    """Puts an input together, as an app does that uses it."""

    def __init__(self, said: Sequence[Said]) -> None: ...

    def assemble(self, question: str, budget: int) -> list[str]:
        """The texts that go to the model, the question's included."""

    def close(self) -> None: ...


class Hears(FakeListChatModel):
    """Keeps what it is asked."""

    heard: list[Any] = []  # noqa: RUF012 - pydantic copies it

    def _call(self, messages: list[BaseMessage], *_: Any, **__: Any) -> str:
        self.heard[:] = messages
        return self.responses[0]


class Fresh:
    """Ours, in front of a LangChain model that is sent the whole list, each question in a session of its own."""

    SESSIONS = 10
    """Until the engine is made anew: it holds all of them."""

    def __init__(self, said: Sequence[Said]) -> None:
        self._said, self._left, self._names = natives(said), 0, count()
        self._asked, self._session = "", ""
        self._engine: Any = None
        self._models: dict[int, tuple[Hears, Any]] = {}

    def assemble(self, question: str, budget: int) -> list[str]:
        if question != self._asked:
            self._begin()
            self._asked, self._session = question, f"s{next(self._names)}"
        if budget not in self._models:
            model = Hears(responses=["-"])
            self._models[budget] = (
                model,
                install_ce(model, engine=self._engine, config=config(budget)),
            )
        model, _ = self._models[budget]
        whose: Any = {"configurable": {"session_id": f"{self._session}-{budget}"}}
        model.invoke([*self._said, HumanMessage(question)], whose)
        return [str(message.content) for message in model.heard]

    def _begin(self) -> None:
        self._left -= 1
        if self._left <= 0:
            self.close()
            self._engine, self._left = create_context_engine(MemoryStore()), self.SESSIONS

    def close(self) -> None:
        for _, installed in self._models.values():
            installed.uninstall()
        self._models.clear()
        if self._engine is not None:
            self._engine.sync.close()
            self._engine = None


class ByHand:
    """Ours, by hand: the engine keeps the conversation; a look at what a question would be sent with."""

    def __init__(self, said: Sequence[Said]) -> None:
        told = zip(roles(said), said, strict=True)
        self._said = [Message(role=role, content=each.content) for role, each in told]
        self._engines: dict[int, Any] = {}

    def assemble(self, question: str, budget: int) -> list[str]:
        if budget not in self._engines:
            seen = ObservabilityConfig(inspect=True)
            made = create_context_engine(MemoryStore(), config=config(budget, observability=seen))
            self._engines[budget] = made
            self._fill(made)
        found = self._engines[budget].sync.inspect(("s", question), actor="")
        parts = [part for layer in found.layers.values() for part in layer.parts]
        own = [part.content for part in parts if part.action != "injected"]
        # What stays before an earlier question stands in that message already.
        brought = [
            p.content for p in parts if p.action == "injected" and not _stands(p.content, own)
        ]
        return [*own[:-1], "\n\n".join([*brought, own[-1]])]  # one message goes out

    def _fill(self, engine: Any) -> None:
        engine.sync.import_session("s", self._said)

    def close(self) -> None:
        for engine in self._engines.values():
            engine.sync.close()
        self._engines.clear()


class Grown(ByHand):
    """The same, where the conversation was held turn by turn within the budget."""

    EVERY = 0
    """Of so many questions the first looks something up; 0 is none."""

    def _fill(self, engine: Any) -> None:
        waiting: list[Message] = []
        asked = 0
        for message in [*self._said, Message(role=Role.ASSISTANT, content=".")]:
            if message.role is Role.USER:
                waiting.append(message)
                continue
            question = waiting or [Message(role=Role.USER, content="(goes on)")]
            turn = engine.sync.prepare_turn("s", question).report.turn_id
            if self.EVERY and asked % self.EVERY == 0:
                turn = self._look_up(engine, turn, asked)
            engine.sync.commit_assistant_message("s", message, turn_id=turn)
            waiting, asked = [], asked + 1

    def _look_up(self, engine: Any, turn: str, n: int) -> str:
        """A tool is asked, and answers with a record of some 100 tokens; the turn that follows."""
        call = ToolRequest(id=f"c{n}", name="weather", args={"day": n})
        message = Message(role=Role.ASSISTANT, content="", tool_calls=[call])
        engine.sync.commit_assistant_message("s", message, turn_id=turn)
        hours = [
            {"at": f"{hour:02}:00", "degrees": (n * hour) % 30, "wind": (n + hour) % 60}
            for hour in range(6, 18, 3)
        ]
        record = {
            "id": f"R-{n}",
            "sky": "clear",
            "hours": hours,
            "note": "by the automatic station",
        }
        result = Message(role=Role.TOOL, content=json.dumps(record), tool_call_id=f"c{n}")
        prepared = engine.sync.prepare_turn("s", [result])
        return str(prepared.report.turn_id)


class GrownWithTools(Grown):
    """The same, where every tenth question looks something up."""

    EVERY = 10


class GrownAgent(Grown):
    """The same, where every question does."""

    EVERY = 1


class Recency:
    """The newest messages that fit."""

    def __init__(self, said: Sequence[Said]) -> None:
        self._said = [each.content for each in said]

    def assemble(self, question: str, budget: int) -> list[str]:
        room, start = budget - cost([question]), len(self._said)
        while start and room >= (room := room - cost([self._said[start - 1]])) >= 0:
            start -= 1
        return [*self._said[start:], question]

    def close(self) -> None:
        """Nothing is held."""


class Trim(Recency):
    """LangChain's `trim_messages`, exactly counted."""

    def __init__(self, said: Sequence[Said]) -> None:
        self._natives = natives(said)

    def assemble(self, question: str, budget: int) -> list[str]:
        def counted(messages: list[BaseMessage]) -> int:
            return cost([str(message.content) for message in messages])

        asked = [*self._natives, HumanMessage(question)]
        kept = trim_messages(asked, max_tokens=budget, token_counter=counted, strategy="last")
        return [str(message.content) for message in kept]


class Summarized(Recency):
    """LangChain's `SummarizationMiddleware`; its model is a script: the first words of what it is shown."""

    WORDS = 8

    def __init__(self, said: Sequence[Said]) -> None:
        self._natives, self._made = natives(said), dict[int, list[str]]()

    def assemble(self, question: str, budget: int) -> list[str]:
        if budget not in self._made:
            self._made[budget] = self._summed(budget - cost([question]) - 64)
        sent = [*self._made[budget], question]
        while cost(sent) > budget and len(sent) > 2:
            del sent[1]
        return sent

    def _summed(self, room: int) -> list[str]:
        from langchain.agents.middleware import SummarizationMiddleware

        most, words = room // 3, self.WORDS

        class Script(FakeListChatModel):
            def _call(self, messages: list[BaseMessage], *_: Any, **__: Any) -> str:
                lines = str(messages[-1].content).split("\n")
                begun = (" ".join(line.split()[:words]) for line in lines if len(line) > 40)
                told = "\n".join(islice(begun, 400))
                while tokens(told) > most:
                    told = told[: len(told) * 3 // 4]
                return told

        made = SummarizationMiddleware(
            Script(responses=["-"]), trigger=("tokens", room), keep=("tokens", room // 2)
        )
        done: Any = made.before_model({"messages": list(self._natives)}, None)  # type: ignore[arg-type, typeddict-item]
        return [str(message.content) for message in done["messages"][1:]]


class LlamaIndexMemory(Recency):
    """LlamaIndex's `Memory` with its token limit at the budget."""

    def __init__(self, said: Sequence[Said]) -> None:
        self._told, self._made = list(zip(roles(said), said, strict=True)), dict[int, list[str]]()

    def assemble(self, question: str, budget: int) -> list[str]:
        if budget not in self._made:
            self._made[budget] = asyncio.run(self._kept(budget - cost([question])))
        sent = [*self._made[budget], question]
        while cost(sent) > budget and len(sent) > 1:
            del sent[0]
        return sent

    async def _kept(self, limit: int) -> list[str]:
        from llama_index.core.base.llms.types import ChatMessage
        from llama_index.core.memory import Memory

        memory = Memory.from_defaults(
            token_limit=limit,
            chat_history_token_ratio=0.95,
            tokenizer_fn=lambda text: [0] * (tokens(str(text)) + FRAMING),
        )
        told = [ChatMessage(role=role.value, content=each.content) for role, each in self._told]
        await memory.aput_messages(told)
        return [str(message.content) for message in await memory.aget()]


class Bm25(Recency):
    """Plain BM25 over the messages, with the last four; of Han single characters and pairs."""

    K1, B = 1.2, 0.75

    def __init__(self, said: Sequence[Said]) -> None:
        super().__init__(said)
        self._terms = [Counter(self._words(text)) for text in self._said]
        self._lengths = [sum(each.values()) for each in self._terms]
        self._mean = statistics.fmean(self._lengths) or 1
        self._in = Counter(term for each in self._terms for term in each)

    @staticmethod
    def _words(text: str) -> list[str]:
        words = re.findall(r"[a-z0-9]+|[\u4e00-\u9fff]", text.lower())
        pairs = [a + b for a, b in pairwise(words) if min(a, b) >= "\u4e00"]
        return words + pairs

    def _score(self, n: int, asked: Sequence[str]) -> float:
        there, size, total = self._terms[n], self._lengths[n], len(self._said)
        found = 0.0
        for term in asked:
            if times := there[term]:
                rare = math.log(1 + (total - self._in[term] + 0.5) / (self._in[term] + 0.5))
                flat = self.K1 * (1 - self.B + self.B * size / self._mean)
                found += rare * times * (self.K1 + 1) / (times + flat)
        return found

    def assemble(self, question: str, budget: int) -> list[str]:
        asked, total = self._words(question), len(self._said)
        newest = range(max(0, total - TAIL), total)
        ranked = sorted(range(total), key=lambda n: (-self._score(n, asked), n))
        room, chosen = budget - cost([question]), set[int]()
        for n in [*reversed(newest), *ranked]:
            price = cost([self._said[n]])
            if n not in chosen and price <= room:
                chosen.add(n)
                room -= price
        return [*(self._said[n] for n in sorted(chosen)), question]


OURS: dict[str, Callable[[Sequence[Said]], Way]] = {
    "ours, LangChain": Fresh,
    "ours, by hand": ByHand,
    "ours, grown": Grown,
    "ours, grown, a tool in ten": GrownWithTools,
    "ours, grown, a tool each": GrownAgent,
}
OTHERS: dict[str, Callable[[Sequence[Said]], Way]] = {
    "recency": Recency,
    "trim_messages": Trim,
    "SummarizationMiddleware": Summarized,
    "LlamaIndex Memory": LlamaIndexMemory,
    "BM25": Bm25,
}


class Score(NamedTuple):
    """How much of what a question needs was in an input of a budget; 0 for one that is over it."""

    kind: str
    budget: int
    recall: float
    over: bool


def measure(
    make: Callable[[Sequence[Said]], Way], session: Session, budgets: Sequence[int], every: int
) -> list[Score]:
    """Each `every`th question of a session at each budget."""
    way, texts = make(session.messages), {each.id: each for each in session.messages}
    scores = []
    try:
        for asked in session.questions[::every]:
            for budget in budgets:
                sent = way.assemble(asked.text, budget)
                over = cost(sent) > budget
                recall = 0.0 if over else _recall(sent, asked, texts)
                scores.append(Score(asked.kind, budget, recall, over))
    finally:
        way.close()
    return scores


def _recall(sent: Sequence[str], asked: Question, texts: dict[str, Said]) -> float:
    lines = [_squashed(line) for text in sent for line in (text, *text.split("\n"))]
    whole = "\n".join(lines)
    return statistics.fmean(_is_there(texts[i], whole, lines) for i in asked.gold)


def _is_there(said: Said, whole: str, lines: Sequence[str]) -> bool:
    """A short text may stand in many a message: its speaker must stand beside it."""
    text = _squashed(said.text)
    if len(text) >= 25:
        return text in whole
    return any(text in line and said.speaker in line for line in lines)


def _stands(text: str, messages: Sequence[str]) -> bool:
    return any(text in message for message in messages)


def _squashed(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()
