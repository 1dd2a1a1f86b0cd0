"""One random tool history in one budget from one seed, through the LlamaIndex adapter, call by call."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from types import TracebackType
from typing import Any, Self

from llama_index.core.base.llms.types import ChatMessage, TextBlock, ToolCallBlock
from llama_index.llms.openai.utils import to_openai_message_dicts
from openai.types.chat import ChatCompletionMessageToolCall as OpenAICall

from ce_engine import BudgetConfig, MemoryStore, RuntimeConfig, StoreConfig, create_context_engine
from ce_engine.schema.report import Report
from ce_engine.tokens.vocabulary import load_encoding
from ce_integrations.llamaindex import install_ce
from ce_integrations.testing.answers import Answer, Call, JsonObject
from ce_integrations.testing.body_tokens import count_body_tokens
from ce_integrations.testing.wire import Wire
from tests.adapters.llamaindex.contract_apps import AgentApps


EVERY = 1
"""All cases go to a strict server."""

BUDGETS = (None, 100, 200, 400, 800, 1500, 3000, 10_000, 1_000_000)
WAYS = ("chat", "achat", "stream_chat", "astream_chat")
FORMS = ("blocks", "objects", "dicts", "both")
"""Where an assistant's message has its calls: in blocks, or as OpenAI's objects or their JSON, or twice."""

FAULTS = ("missing", "shuffled", "orphan", "twice", "none at all", "direct")
WORDS = [
    *"the order 17 was shipped to Berlin on Monday; status ok, see ann@example.com".split(),
    *"订单 已经 发往 北京 客户 请求 退款 仓库 确认 数量 没有 问题 🚚 龘靐".split(),
    *('{"id":', "4711,", '"state":', '"ok"},', "[]"),
]
TOOL = {
    "type": "function",
    "function": {
        "name": "lookup",
        "description": "Look a thing up.",
        "parameters": {"type": "object", "properties": {"q": {"type": "string"}}},
    },
}
ROOMY = 2
"""A list that costs less than the budget by this factor has room to spare."""


class Rig:
    """What all cases of a run share: an event loop, a strict model server, the model's clients."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.answers: list[Answer] = []
        self.wire = Wire(lambda _: self.answers.pop(0))
        self.apps = AgentApps()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.loop.run_until_complete(self.apps.aclose())
        self.wire.close()
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()


@dataclass
class Case:
    """A host that keeps its list and sends it whole, to a server that refuses what providers refuse."""

    seed: int
    rig: Rig
    counts: Counter[str] = field(default_factory=Counter)
    host: list[ChatMessage] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = Random(self.seed)
        self.budget = self.rng.choice(BUDGETS)
        self.faults = FAULTS if self.chance(0.7) else ()
        self.form = self.rng.choice((*FORMS, ""))
        self.copies = self.rng.choice((0.0, 0.0, 0.5, 1.0))
        self.tools = [TOOL] if self.chance(0.3) else []

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    # The host's messages

    def words(self, most: int) -> str:
        return " ".join(self.rng.choices(WORDS, k=self.rng.randint(1, most)))

    def long(self) -> str:
        lines = self.rng.choice((1, 1, 1, 3, 25))
        return "\n".join(self.words(12) for _ in range(lines)) if self.chance(0.95) else ""

    def question(self) -> ChatMessage:
        blocks = [TextBlock(text=f"{self.words(20)}?")]
        blocks += [TextBlock(text=f"{self.words(9)}?")] if self.chance(0.1) else []
        return ChatMessage(role="user", blocks=blocks)

    def answer(self) -> ChatMessage:
        return ChatMessage(role="assistant", content=self.words(40))

    def asks(self) -> ChatMessage:
        """A message with calls of tools, in one of the `FORMS`."""
        form = self.form or self.rng.choice(FORMS)
        calls = [
            (f"call_{self.rng.randrange(10**9)}", {"q": self.words(4)})
            for _ in range(self.rng.choice((1, 1, 2, 3)))
        ]
        blocks: list[Any] = [TextBlock(text=self.words(8))] if self.chance(0.4) else []
        beside: dict[str, Any] = {}
        if form in ("blocks", "both"):
            blocks += (
                ToolCallBlock(tool_call_id=id_, tool_name="lookup", tool_kwargs=args)
                for id_, args in calls
            )
        if form != "blocks":
            told: list[Any] = [
                {
                    "id": id_,
                    "type": "function",
                    "function": {"name": "lookup", "arguments": json.dumps(args)},
                }
                for id_, args in calls
            ]
            beside["tool_calls"] = (
                told if form == "dicts" else [OpenAICall(**each) for each in told]
            )
        return ChatMessage(role="assistant", blocks=blocks, additional_kwargs=beside)

    def results(self, ids: list[str]) -> Iterator[ChatMessage]:
        """Results for these calls, with what may be wrong with them."""
        fault = self.rng.choice(self.faults) if self.faults and self.chance(0.3) else ""
        self.counts[f"results {fault}"] += bool(fault)
        if fault == "missing":
            ids.pop(self.rng.randrange(len(ids)))
        elif fault == "shuffled":
            self.rng.shuffle(ids)
        elif fault == "orphan":
            ids.insert(self.rng.randint(0, len(ids)), "nobody-asked")
        elif fault == "twice":
            ids.append(ids[0])
        elif fault == "none at all":
            ids.clear()
        for id_ in ids:
            beside = {"tool_call_id": id_}
            yield ChatMessage(role="tool", content=self.long(), additional_kwargs=beside)
        if fault == "direct":  # what a tool gave is the answer, too
            yield ChatMessage(role="assistant", content=self.words(5))

    def adds(self, message: ChatMessage) -> None:
        self.host.append(message)
        if ids := list(asked(message)):
            self.host += self.results(ids)

    # What it does

    def run(self) -> Counter[str]:
        """Play the case; raises `AssertionError` for what does not hold."""
        given: dict[str, Any] = {"placement": self.rng.choice(("seed", "cache"))}
        if self.budget is not None:
            limit = BudgetConfig(max_input_tokens=self.budget, reserved_reply_tokens=0)
            given["budget"] = limit
        patient = RuntimeConfig(store=StoreConfig(deadline_s=30))  # a busy machine is no fault
        engine = create_context_engine(MemoryStore(), config=patient)
        model, config = self.rig.apps.model(self.rig.wire), RuntimeConfig(**given)
        try:
            with install_ce(model, engine=engine, config=config, session_id="s") as installed:
                self.begin()
                for _ in range(self.rng.choice((1, 2, 3, 5))):
                    self.step(model, installed)
        finally:
            engine.sync.close()
        return self.counts

    def begin(self) -> None:
        """What the host has from somewhere else, and a question."""
        if self.chance(0.6):
            self.host.append(ChatMessage(role="system", content=self.words(15)))
        for _ in range(self.rng.choice((0, 0, 1, 3))):
            self.host.append(self.question())
            for _ in range(self.rng.choice((0, 1, 2, 5))):
                self.adds(self.asks())
            self.host.append(self.answer())
        self.host.append(self.question())

    def step(self, model: Any, installed: Any) -> None:
        """Ask the model with the list as it is, judge what reached it, and go on."""
        says = self.asks() if self.chance(0.7) else self.answer()
        calls = [Call("lookup", '{"q": "x"}', id_) for id_ in asked(says)]
        self.rig.answers = [Answer(content=says.content or None, calls=tuple(calls))]
        if self.chance(self.copies):
            self.host = [message.model_copy(deep=True) for message in self.host]
        given, refused = list(self.host), len(self.rig.wire.refusals)
        before, objects = [repr(message) for message in given], [*map(id, given)]
        way = self.rng.choice(WAYS)
        self.counts["calls"] += 1
        self.counts[way] += 1
        try:
            self.rig.loop.run_until_complete(self.ask(model, way, given))
        finally:
            assert [*map(id, given)] == objects, "the host's list is another"
            assert [repr(message) for message in given] == before, "a message is another"
            found = self.rig.wire.refusals[refused:]
            assert found == [], f"refused: {found[0]}"
        report = installed.last_report("s")
        assert report is not None
        self.judge(given, self.rig.wire.bodies[-1], report)
        self.adds(says)
        # A list that ends with half a pair is refused whoever sends it.
        is_whole = set(asked(says)) <= set(whole(says, self.host))
        if self.host[-1].role != "tool" or not is_whole or self.chance(0.1):
            self.host.append(self.question())

    async def ask(self, model: Any, way: str, given: list[ChatMessage]) -> None:
        found = getattr(model, way)(given, **({"tools": self.tools} if self.tools else {}))
        if way.startswith("a"):
            found = await found
        if way == "stream_chat":
            list(found)
        elif way == "astream_chat":
            async for _ in found:
                pass
            await asyncio.sleep(0)  # the client leaves a generator to be closed by the loop

    # The judge

    def judge(self, given: Sequence[ChatMessage], body: JsonObject, report: Report) -> None:
        """That pairs are whole the server says itself; here: budget, task, order, and what has room."""
        said, tokens = body["messages"], count(body)
        if report.over_budget:
            assert self.budget is not None
            assert report.token_used > self.budget
        elif self.budget is not None:
            assert tokens <= self.budget, f"{tokens} of {self.budget} tokens"
        self.counts["over budget, and told"] += report.over_budget
        self.counts["cut"] += bool(report.dropped or report.shortened)
        self.counts["with orphans"] += bool(report.orphans_removed)
        people = [flat(message.content) for message in given if message.role == "user"]
        heard = [flat(m["content"]) for m in said if m["role"] == "user"]
        assert people[-1] in heard[-1], "the task is not there, or not the last"
        ids = [call["id"] for m in said for call in m.get("tool_calls", ())]
        order = [id_ for message in given for id_ in asked(message)]
        assert ids == [id_ for id_ in order if id_ in ids], "another order"
        answered = {m["tool_call_id"] for m in said if m["role"] == "tool"}
        assert answered == set(ids), "half a pair"
        if self.budget is None or self.cost(given) * ROOMY < self.budget:
            assert {id_ for m in given for id_ in whole(m, given)} <= set(ids), "cut, with room"
            assert heard == people, "another person's words, with room"

    def cost(self, given: Sequence[ChatMessage]) -> int:
        """The tokens of the host's own list, as its integration sends it."""
        body = {"messages": to_openai_message_dicts(given), "tools": self.tools}
        return count(json.loads(json.dumps(body, default=lambda call: call.model_dump())))


def asked(message: ChatMessage) -> Iterator[str]:
    """The ids of a message's calls."""
    blocks = [block for block in message.blocks if isinstance(block, ToolCallBlock)]
    yield from (str(block.tool_call_id) for block in blocks)
    for call in () if blocks else message.additional_kwargs.get("tool_calls", ()):
        yield call["id"] if isinstance(call, dict) else call.id


def whole(message: ChatMessage, given: Sequence[ChatMessage]) -> list[str]:
    """The ids of a message's calls, where the host has a result of each right behind it."""
    place = next(n for n, each in enumerate(given) if each is message)
    found = set[str]()
    for each in given[place + 1 :]:
        if each.role != "tool":
            break
        found.add(each.additional_kwargs["tool_call_id"])
    ids = list(asked(message))
    return ids if set(ids) <= found else []


def flat(content: Any) -> str:
    """The words of a content, in whichever form it goes out."""
    parts = content if isinstance(content, list) else [{"text": content or ""}]
    return "".join("".join(part.get("text", "").split()) for part in parts)


def count(body: JsonObject) -> int:
    """The tokens of a body, counted by other code than the engine's."""
    encoding = load_encoding("cl100k_base")
    assert encoding is not None
    return count_body_tokens(body, encoding.encode_ordinary)


def run_case(seed: int, rig: Rig, *, over_wire: bool = True) -> Counter[str]:
    """Run the case of `seed`, over the wire as every one; what it called, and what was done to that."""
    return Case(seed, rig).run()
