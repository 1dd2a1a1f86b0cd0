"""One random tool history in one budget from one seed, through the LangChain adapter, call by call."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from types import TracebackType
from typing import Any, Self

from langchain_core.messages import AIMessage, BaseMessage

from ce_engine import (
    BudgetConfig,
    MemoryStore,
    RuntimeConfig,
    Scope,
    StoreConfig,
    create_context_engine,
)
from ce_engine.schema.report import Report
from ce_integrations.base import Installation
from ce_integrations.langchain import install_ce
from ce_integrations.testing.answers import JsonObject
from ce_integrations.testing.wire import Answer, Call, Wire, count_body_tokens
from tests.property.tool_judge import Seen, judge, judge_body
from tests.property.tool_messages import FORMS, Messages
from tests.property.tool_models import WAYS, Keeper, ProviderError, Streamer, ask
from tests.property.tool_oracle import Walk, answered, asked, cost, encode


BUDGETS = (None, 100, 200, 400, 800, 1500, 3000, 10_000, 1_000_000)
EVERY = 20
"""One case of so many goes through `ChatOpenAI` to a strict server."""

ON_WIRE = ("system between",)
"""What a strict provider refuses, whoever sends it."""
TOOL = {
    "type": "function",
    "function": {
        "name": "lookup",
        "description": "Look a thing up.",
        "parameters": {"type": "object", "properties": {"q": {"type": "string"}}},
    },
}


class Rig:
    """What all cases of a run share: an event loop, a model server, its clients."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.answers: list[Answer] = []
        self.wire = Wire(self._answer)
        self._clients: list[Any] = []

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
        if self._clients:
            self._clients[0].close()
            self.loop.run_until_complete(self._clients[1].aclose())
        self.wire.close()
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()

    def chat(self) -> Any:
        """A `ChatOpenAI` that talks to the wire."""
        from langchain_openai import ChatOpenAI
        from openai import DefaultAsyncHttpxClient, DefaultHttpxClient

        if not self._clients:
            bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            clients = (DefaultHttpxClient(verify=bare), DefaultAsyncHttpxClient(verify=bare))
            self._clients += clients
        return ChatOpenAI(
            model="gpt-4",
            base_url=self.wire.base_url,
            api_key="no key",  # type: ignore[arg-type]  # a plain key is taken
            max_retries=0,
            http_client=self._clients[0],
            http_async_client=self._clients[1],
        )


@dataclass
class Case:
    """A host that keeps its list and sends it whole, as agents do."""

    seed: int
    rig: Rig
    over_wire: bool = False
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        rng = self.rng = Random(self.seed)
        self.budget = rng.choice(BUDGETS)
        form, faults = rng.choice(FORMS), rng.random() < 0.7
        self.make = Messages(rng, form)
        if self.over_wire:
            kinds = tuple(fault for fault in self.make.faults if fault not in ON_WIRE)
            self.make = Messages(rng, "openai", kinds, odd=False)
        if not faults:
            self.make.faults = ()
        self.tools = [TOOL] if rng.random() < 0.3 else []
        self.host: list[BaseMessage] = []
        self.refused = len(self.rig.wire.refusals)
        self.copies = rng.choice((0.0, 0.0, 0.0, 0.5, 1.0))
        kind = rng.choice((Keeper, Streamer))
        named = rng.choice(("gpt-4", "gpt-4", "a-model-of-somebody"))
        self.model: Any = self.rig.chat() if self.over_wire else kind(model_name=named)

    def config(self) -> RuntimeConfig:
        given: dict[str, Any] = {
            "placement": self.rng.choice(("seed", "cache")),
            "locale": self.rng.choice(("en", "zh")),
        }
        if self.budget is not None:
            limit = BudgetConfig(max_input_tokens=self.budget, reserved_reply_tokens=0)
            given["budget"] = limit
        return RuntimeConfig(**given)

    def run(self) -> Counter[str]:
        """Play the case; raises `AssertionError` for what does not hold."""
        patient = RuntimeConfig(store=StoreConfig(deadline_s=30))  # a busy machine is no fault
        engine = create_context_engine(MemoryStore(), config=patient)
        try:
            with install_ce(
                self.model, engine=engine, config=self.config(), session_id="s"
            ) as installation:
                self._begin()
                for _ in range(self.rng.choice((1, 2, 3, 5))):
                    self._step(installation)
            assert engine.sync.flush()
            turns = engine.loop.run(engine.store.list_turns(Scope(session_id="s")))
            prepared = sum(turn.attempt for turn in turns)
            assert prepared == self.counts["calls"], f"prepared {prepared} times"
        finally:
            engine.sync.close()
        return self.counts

    # The host

    def _begin(self) -> None:
        """What the host has from somewhere else, and a question."""
        if self.rng.random() < 0.6:
            self.host.append(self.make.system())
        for _ in range(self.rng.choice((0, 0, 1, 3))):
            self.host.append(self.make.question())
            for _ in range(self.rng.choice((0, 1, 2, 5))):
                self._add(self.make.asks())
            self.host.append(self.make.answer())
        if self.rng.random() < 0.05 and self.make.faults:
            self.host.append(self.make.result("nobody-asked"))
        # A strict provider refuses a list that is a result alone, and so it should.
        if self.rng.random() < 0.95 or not self.host or self.over_wire:
            self.host.append(self.make.question())

    def _add(self, message: BaseMessage) -> None:
        self.host.append(message)
        if ids := asked(message):
            self.host += self.make.results(message, ids)

    def _goes_on(self, answer: BaseMessage) -> None:
        self._add(answer)
        # A strict provider refuses a list that ends in half a pair, and so it should.
        waits = self.over_wire and bool(Walk.of(self.host).unanswered)
        if waits or not answered(self.host[-1]) or self.rng.random() < 0.1:
            self.host.append(self.make.question())
        if self.rng.random() < 0.05 and not self.over_wire:
            self.host.append(self.make.system())

    def _listed(self) -> list[BaseMessage]:
        if self.rng.random() < self.copies:
            self.host = [m.model_copy(update={"id": None}, deep=True) for m in self.host]
        return list(self.host)

    # One call

    def _step(self, installation: Installation[Any, Any]) -> None:
        says: Any = self.make.asks() if self.rng.random() < 0.7 else self.make.answer()
        if self.over_wire:
            self.rig.answers = [_as_answer(says)]
        elif self.rng.random() < 0.05:
            self.model.say(ProviderError("busy"))
            self._fails(installation)
        if not self.over_wire:
            self.model.say(says)
        self._goes_on(self._asks(installation, says))

    def _fails(self, installation: Installation[Any, Any]) -> None:
        try:
            self._asks(installation, None)
        except ProviderError:
            self.counts["provider errors"] += 1
        else:
            raise AssertionError("the provider's error is gone")

    def _asks(self, installation: Installation[Any, Any], says: Any) -> BaseMessage:
        """Send the list as it is now, and judge what became of it."""
        way = self.rng.choice(WAYS)
        given, self.counts["calls"] = self._listed(), self.counts["calls"] + 1
        self.counts[way] += 1
        before, objects = [repr(vars(m)) for m in given], list(given)
        options = {"tools": self.tools} if self.tools else {}
        try:
            found, whole = ask(self.rig.loop, self.model, way, given, **options)
        finally:
            assert [*map(id, given)] == [*map(id, objects)], "the host's list is another"
            after = [repr(vars(m)) for m in given]
            assert after == before, "a message of the host's is another"
            report = installation.last_report("s")
            assert report is not None
            self._judge(given, report)
        if self.over_wire:
            assert (whole.content, len(whole.tool_calls)) == (says.content, len(says.tool_calls))
            whole = whole.model_copy(update={"additional_kwargs": says.additional_kwargs})
        else:
            kept = [id(piece) for piece in found]
            assert all(id(piece) in kept for piece in self.model.given), "another answer"
        return whole

    def _judge(self, given: list[BaseMessage], report: Report) -> None:
        seen = Seen(given, self.budget, report, self.tools)
        if self.over_wire:
            refused = self.rig.wire.refusals[self.refused :]
            assert refused == [], f"refused: {refused[0]}"
            body = self.rig.wire.bodies[-1]
            judge_body(seen, body, count_body_tokens(body, encode()))
        else:
            sent = self.model.asked[-1]
            judge(seen, sent, cost(sent, self.tools))
        self.counts["over budget, and told"] += report.over_budget
        self.counts["cut"] += bool(report.dropped or report.shortened)
        self.counts["with orphans"] += bool(report.orphans_removed)


def _as_answer(says: AIMessage) -> Answer:
    calls = [Call(call["name"], json.dumps(call["args"]), call["id"]) for call in says.tool_calls]
    return Answer(content=str(says.content) or None, calls=tuple(calls))


def run_case(seed: int, rig: Rig, *, over_wire: bool = False) -> Counter[str]:
    """Run the case of `seed`; how many calls it made, in which ways, and what was done to them."""
    return Case(seed, rig, over_wire).run()
