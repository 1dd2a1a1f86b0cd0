"""One random tool history in one budget from one seed, through the AutoGen adapter, call by call."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from types import TracebackType
from typing import Any, Self

from autogen_core import FunctionCall
from autogen_core.models import (
    AssistantMessage,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    LLMMessage,
    SystemMessage,
    UserMessage,
)

from ce_engine import BudgetConfig, MemoryStore, RuntimeConfig, StoreConfig, create_context_engine
from ce_engine.schema.report import Report
from ce_engine.tokens.vocabulary import load_encoding
from ce_integrations.autogen import install_ce
from ce_integrations.testing.answers import Answer, Call, JsonObject
from ce_integrations.testing.body_tokens import count_body_tokens
from ce_integrations.testing.wire import Wire
from tests.adapters.autogen.contract_apps import Client


EVERY = 1
"""All cases go to a strict server."""

BUDGETS = (None, 100, 200, 400, 800, 1500, 3000, 10_000, 1_000_000)
ENGLISH = "the order 17 was shipped to Berlin on Monday; status ok, see ann@example.com".split()
CHINESE = "订单 已经 发往 北京 客户 请求 退款 仓库 确认 数量 没有 问题 🚚 龘靐".split()
JSON = ['{"id":', "4711,", '"state":', '"ok"},', "[]", '{"rows":', "null}"]
FAULTS = ("missing", "shuffled", "orphan", "twice", "none at all", "apart")


class Rig:
    """What all cases of a run share: an event loop, a strict model server, a client."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.answers: list[Answer] = []
        self.wire = Wire(self._answer)
        self.client = Client(self.wire, multiple_system_messages=True)

    def _answer(self, body: JsonObject) -> Answer:
        return self.answers.pop(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.loop.run_until_complete(self.client.close())
        self.wire.close()
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()


@dataclass
class Case:
    """A host that keeps its list and sends it whole, to a server that refuses what providers refuse."""

    seed: int
    rig: Rig
    counts: Counter[str] = field(default_factory=Counter)
    host: list[LLMMessage] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = Random(self.seed)
        self.budget = self.rng.choice(BUDGETS)
        self.faults = FAULTS if self.rng.random() < 0.7 else ()
        self.copies = self.rng.random() < 0.3

    # The host's messages

    def words(self, most: int) -> str:
        kind = self.rng.choice((ENGLISH, CHINESE, JSON, [*ENGLISH, *CHINESE, *JSON]))
        return " ".join(self.rng.choices(kind, k=self.rng.randint(1, most)))

    def long(self) -> str:
        return "\n".join(self.words(12) for _ in range(self.rng.choice((1, 1, 1, 3, 25))))

    def question(self) -> LLMMessage:
        source = self.rng.choice(("user", "user", "ann"))
        return UserMessage(content=f"{self.words(30)}?", source=source)

    def answer(self) -> AssistantMessage:
        return AssistantMessage(content=self.words(40), source="helper")

    def asks(self) -> AssistantMessage:
        calls = [
            FunctionCall(
                id=f"call_{self.rng.randrange(10**9)}",
                name="lookup",
                arguments=json.dumps({"q": self.words(4)}),
            )
            for _ in range(self.rng.choice((1, 1, 2, 3)))
        ]
        thought = self.words(8) if self.rng.random() < 0.4 else None
        return AssistantMessage(content=calls, thought=thought, source="helper")

    def results(self, asked: AssistantMessage) -> list[LLMMessage]:
        ids = [call.id for call in asked.content if isinstance(call, FunctionCall)]
        fault = self.rng.choice(self.faults) if self.faults and self.rng.random() < 0.3 else ""
        if fault:
            self.counts[f"results {fault}"] += 1
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
        found = [
            FunctionExecutionResult(
                content=self.long(), name="lookup", call_id=id_, is_error=self.rng.random() < 0.1
            )
            for id_ in ids
        ]
        parts = [[each] for each in found] if fault == "apart" else [found] if found else []
        return [FunctionExecutionResultMessage(content=part) for part in parts]

    def turn(self, asked: AssistantMessage) -> None:
        self.host.append(asked)
        if not isinstance(asked.content, str):
            self.host += self.results(asked)

    # What it does

    def run(self) -> Counter[str]:
        """Play the case; raises `AssertionError` for what does not hold."""
        config = RuntimeConfig(placement=self.rng.choice(("seed", "cache")))
        if self.budget is not None:
            limit = BudgetConfig(max_input_tokens=self.budget, reserved_reply_tokens=0)
            config = config.model_copy(update={"budget": limit})
            config = RuntimeConfig(placement=config.placement, budget=limit)
        patient = RuntimeConfig(store=StoreConfig(deadline_s=30))  # a busy machine is no fault
        engine = create_context_engine(MemoryStore(), config=patient)
        try:
            with install_ce(
                self.rig.client, engine=engine, config=config, session_id="s"
            ) as installed:
                self.begin()
                for _ in range(self.rng.choice((1, 2, 3, 5))):
                    self.step(installed)
        finally:
            engine.sync.close()
        return self.counts

    def begin(self) -> None:
        """What the host has from somewhere else, and a question."""
        if self.rng.random() < 0.6:
            self.host.append(SystemMessage(content=self.words(15)))
        for _ in range(self.rng.choice((0, 0, 1, 3))):
            self.host.append(self.question())
            for _ in range(self.rng.choice((0, 1, 2, 5))):
                self.turn(self.asks())
            self.host.append(self.answer())
        self.host.append(self.question())

    def step(self, installed: Any) -> None:
        """Ask the model with the list as it is, judge what reached it, and go on."""
        says = self.asks() if self.rng.random() < 0.7 else self.answer()
        self.rig.answers = [_as_answer(says)]
        if self.copies:
            self.host = [message.model_copy(deep=True) for message in self.host]
        given, refused = list(self.host), len(self.rig.wire.refusals)
        before, objects = [repr(message) for message in given], [*map(id, given)]
        way = self.rng.choice(("create", "create_stream"))
        self.counts["calls"] += 1
        self.counts[way] += 1
        try:
            self.rig.loop.run_until_complete(self.ask(way, given))
        finally:
            assert [*map(id, given)] == objects, "the host's list is another"
            assert [repr(message) for message in given] == before, "a message is another"
            found = self.rig.wire.refusals[refused:]
            assert found == [], f"refused: {found[0]}"
        report = installed.last_report("s")
        assert report is not None
        self.judge(given, self.rig.wire.bodies[-1], report)
        self.turn(says)
        # A strict provider refuses a list that ends in half a pair, and so it should.
        ids = [call.id for call in _calls(says)]
        if not ids or _whole(says, self.host) != ids:
            self.host.append(self.question())

    async def ask(self, way: str, given: list[LLMMessage]) -> None:
        if way == "create":
            await self.rig.client.create(given)
        else:
            async for _ in self.rig.client.create_stream(given):
                pass

    # The judge

    def judge(self, given: Sequence[LLMMessage], body: JsonObject, report: Report) -> None:
        """That pairs are whole the server says itself; here: the budget, the task, the order, what has room."""
        said = body["messages"]
        tokens = count(body)
        if report.over_budget:
            assert self.budget is not None
            assert report.token_used > self.budget
            self.counts["over budget, and told"] += 1
        elif self.budget is not None:
            assert tokens <= self.budget, f"{tokens} of {self.budget} tokens"
        task = next(m for m in reversed(given) if isinstance(m, UserMessage))
        texts = [m["content"] for m in said if m["role"] == "user"]
        assert any(str(task.content) in text for text in texts), "the task is not there"
        ids = [call["id"] for m in said for call in m.get("tool_calls", ())]
        order = [call.id for m in given for call in _calls(m)]
        assert ids == [id_ for id_ in order if id_ in ids], "another order"
        answered = {m["tool_call_id"] for m in said if m["role"] == "tool"}
        assert answered == set(ids), "half a pair"
        self.counts["cut"] += bool(report.dropped or report.shortened)
        self.counts["with orphans"] += bool(report.orphans_removed)
        if self.budget is None or report.tokens_before <= self.budget:
            whole = [id_ for m in given for id_ in _whole(m, given)]
            assert set(whole) <= set(ids), "changed, though there was room"
            asked = [str(m.content) for m in given if isinstance(m, UserMessage)]
            assert [text for text in texts if text not in asked] == [], "a person says more"
            assert texts == asked, "changed, though there was room"


def _calls(message: LLMMessage) -> list[FunctionCall]:
    if not isinstance(message, AssistantMessage) or isinstance(message.content, str):
        return []
    return message.content


def _whole(message: LLMMessage, given: Sequence[LLMMessage]) -> list[str]:
    """The ids of a message's calls, where the host has a result of each right behind it."""
    found: set[str] = set()
    place = next(n for n, each in enumerate(given) if each is message)
    for each in given[place + 1 :]:
        if not isinstance(each, FunctionExecutionResultMessage):
            break
        found |= {result.call_id for result in each.content}
    ids = [call.id for call in _calls(message)]
    return ids if set(ids) <= found else []


def _as_answer(says: AssistantMessage) -> Answer:
    if isinstance(says.content, str):
        return Answer(content=says.content)
    calls = tuple(Call(call.name, call.arguments, call.id) for call in says.content)
    return Answer(content=says.thought, calls=calls)


def count(body: JsonObject) -> int:
    """The tokens of a body, counted by other code than the engine's."""
    encoding = load_encoding("cl100k_base")
    assert encoding is not None
    return count_body_tokens(body, encoding.encode_ordinary)


def run_case(seed: int, rig: Rig, *, over_wire: bool = True) -> Counter[str]:
    """Run the case of `seed`, over the wire as every one; what it called, and what was done to that."""
    return Case(seed, rig).run()
