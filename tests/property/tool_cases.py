"""A host that keeps its list of messages and sends it whole, as agents do: what the cases of all frameworks share."""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from random import Random
from types import TracebackType
from typing import Any, ClassVar, Generic, Self, TypeVar

from ce_engine import (
    BudgetConfig,
    ContextEngine,
    MemoryStore,
    RuntimeConfig,
    Scope,
    StoreConfig,
    create_context_engine,
)
from ce_engine.schema.report import Report
from ce_integrations.testing.answers import Answer, JsonObject
from ce_integrations.testing.contract_case import count
from ce_integrations.testing.wire import Wire


BUDGETS = (None, 100, 200, 400, 800, 1500, 3000, 10_000, 1_000_000)
ENGLISH = "the order 17 was shipped to Berlin on Monday; status ok, see ann@example.com".split()
CHINESE = "订单 已经 发往 北京 客户 请求 退款 仓库 确认 数量 没有 问题 🚚 龘靐".split()
JSON = ['{"id":', "4711,", '"state":', '"ok"},', "[]", '{"rows":', "null}"]
FAULTS = ("missing", "shuffled", "orphan", "twice", "none at all")
"""What may be wrong with the results of a message's calls, in every framework."""

TOOL = {
    "type": "function",
    "function": {
        "name": "lookup",
        "description": "Look a thing up.",
        "parameters": {"type": "object", "properties": {"q": {"type": "string"}}},
    },
}

M = TypeVar("M")
"""A message of the framework's."""


class Rig:
    """What all cases of a run share: an event loop, a strict model server; a framework adds its clients."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.answers: list[Answer] = []
        self.wire = Wire(lambda _: self.answers.pop(0))

    async def aclose(self) -> None:
        """Close the clients."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.loop.run_until_complete(self.aclose())
        self.wire.close()
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()


@dataclass
class Messages(ABC, Generic[M]):
    """Makes the host's messages; `faults` is what may be wrong with results, `counts` how often each was."""

    rng: Random
    faults: tuple[str, ...]
    counts: Counter[str] = field(default_factory=Counter)
    repeats: bool = field(default=False, kw_only=True)

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def words(self, most: int) -> str:
        kind = self.rng.choice((ENGLISH, CHINESE, JSON, [*ENGLISH, *CHINESE, *JSON]))
        return " ".join(self.rng.choices(kind, k=self.rng.randint(1, most)))

    def said(self, lines: int) -> str:
        """What a tool says: lines of words, or what it said of an order before, or nearly so."""
        if self.repeats and self.chance(0.6):
            state, items = self.rng.choice(CHINESE[:3]), [{"id": n, "qty": 1} for n in range(4)]
            order = {"order_id": self.rng.choice("AB"), "state": state, "items": items}
            return json.dumps(order, indent=self.rng.choice((None, 2)))
        return "\n".join(self.words(12) for _ in range(lines))

    @abstractmethod
    def system(self) -> M: ...

    @abstractmethod
    def question(self) -> M: ...

    @abstractmethod
    def answer(self) -> M: ...

    @abstractmethod
    def asks(self) -> M:
        """A message with tool calls."""

    @abstractmethod
    def results(self, asked: M, ids: list[str]) -> list[M]:
        """Results for the calls of a message, with what may be wrong with them."""

    def spoil(self, ids: list[str]) -> str:
        """Do to the ids of a message's calls what may be wrong with their results; what was done, if anything."""
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
        return fault


@dataclass
class Case(ABC, Generic[M]):
    """One random history in one budget from one seed, judged call by call."""

    every: ClassVar[int] = 1
    """One case of so many goes to a strict server, which refuses what providers refuse."""
    install: ClassVar[Callable[..., Any]]

    seed: int
    rig: Rig
    over_wire: bool = True
    counts: Counter[str] = field(default_factory=Counter)
    host: list[M] = field(default_factory=list)
    copies: float = 0.0
    """How often the host makes its list anew, so that no message is the object that it was."""
    tools: list[JsonObject] = field(default_factory=list)
    model: Any = None

    @classmethod
    def of(cls, seed: int, rig: Rig) -> Self:
        return cls(seed, rig, over_wire=seed % cls.every == 0)

    def __post_init__(self) -> None:
        self.rng = Random(self.seed)
        self.budget = self.rng.choice(BUDGETS)
        self.make = self.messages()
        # Not of the case's own numbers: without it a seed is the case that it was.
        self.compact = Random(f"compact {self.seed}").random() < 0.5
        self.make.repeats = self.compact

    # A framework's own

    @abstractmethod
    def messages(self) -> Messages[M]:
        """What makes this host's messages."""

    @abstractmethod
    def asked(self, message: M) -> list[str]:
        """The ids of a message's calls."""

    @abstractmethod
    def answered(self, message: M) -> list[str]:
        """The ids of the calls that a message answers; none if it is no tool's result."""

    @abstractmethod
    def sends(self, installed: Any, says: M) -> M:
        """Send the list as it is now to a model that `says` this; the answer that the host keeps."""

    @abstractmethod
    def judge(self, given: Sequence[M], report: Report) -> None:
        """Compare what reached the model with what it was given."""

    # What the host does

    def run(self) -> Counter[str]:
        """Play the case; raises `AssertionError` for what does not hold."""
        config = self.config()
        patient = RuntimeConfig(store=StoreConfig(deadline_s=30))  # a busy machine is no fault
        engine = create_context_engine(MemoryStore(), config=patient)
        try:
            with self.install(
                self.model, engine=engine, config=config, session_id="s"
            ) as installed:
                self.begin()
                for _ in range(self.rng.choice((1, 2, 3, 5))):
                    says = self.make.asks() if self.make.chance(0.7) else self.make.answer()
                    self.goes_on(self.sends(installed, says))
            self.judge_turns(engine)
        finally:
            engine.sync.close()
        self.counts["cases on the wire"] += self.over_wire
        return self.counts

    def config(self) -> RuntimeConfig:
        given: dict[str, Any] = {"placement": self.rng.choice(("seed", "cache"))}
        given["tool_results"] = "compact" if self.compact else "whole"
        if self.budget is not None:
            limit = BudgetConfig(max_input_tokens=self.budget, reserved_reply_tokens=0)
            given["budget"] = limit
        return RuntimeConfig(**given)

    def begin(self) -> None:
        """What the host has from somewhere else, and a question."""
        if self.make.chance(0.6):
            self.host.append(self.make.system())
        for _ in range(self.rng.choice((0, 0, 1, 3))):
            self.host.append(self.make.question())
            for _ in range(self.rng.choice((0, 1, 2, 5))):
                self.adds(self.make.asks())
            self.host.append(self.make.answer())
        self.asks_first()

    def asks_first(self) -> None:
        self.host.append(self.make.question())

    def adds(self, message: M) -> None:
        self.host.append(message)
        if ids := self.asked(message):
            self.host += self.make.results(message, ids)

    def listed(self) -> list[M]:
        if self.makes_anew():
            self.host = [self.copied(message) for message in self.host]
        return list(self.host)

    def makes_anew(self) -> bool:
        return self.make.chance(self.copies)

    def copied(self, message: M) -> M:
        return deepcopy(message)

    def goes_on(self, answer: M) -> None:
        self.adds(answer)
        if self.waits(answer) or not self.answered(self.host[-1]) or self.speaks():
            self.host.append(self.make.question())

    def waits(self, answer: M) -> bool:
        """Whether the list ends in half a pair: a strict provider refuses that, and so it should."""
        return not set(self.asked(answer)) <= set(self.whole(answer, self.host))

    def speaks(self) -> bool:
        """Whether a person says something to results that could go out alone."""
        return self.make.chance(0.1)

    def whole(self, message: M, given: Sequence[M]) -> list[str]:
        """The ids of a message's calls, where the host has a result of each right behind it."""
        place = next(n for n, each in enumerate(given) if each is message)
        found = set[str]()
        for each in given[place + 1 :]:
            if not (ids := self.answered(each)):
                break
            found.update(ids)
        asked = self.asked(message)
        return asked if set(asked) <= found else []

    # The judge

    @contextmanager
    def judged(self, given: Sequence[M], installed: Any) -> Iterator[None]:
        """Around one call: the host's list is what it was, nothing was refused, and what went out is right."""
        before, objects = [*map(_held, given)], [*map(id, given)]
        refused = len(self.rig.wire.refusals)
        self.counts["calls"] += 1
        try:
            yield
        finally:
            assert [*map(id, given)] == objects, "the host's list is another"
            assert [*map(_held, given)] == before, "a message of the host's is another"
            found = self.rig.wire.refusals[refused:]
            assert found == [], f"refused: {found[0]}"
        report = installed.last_report("s")
        assert report is not None
        self.judge(given, report)
        self.counts["results in fewer tokens"] += bool(report.results_saved)
        self.counts["over budget, and told"] += report.over_budget
        self.counts["cut"] += bool(report.dropped or report.shortened)
        self.counts["with orphans"] += bool(report.orphans_removed)

    def judge_turns(self, engine: ContextEngine) -> None:
        assert engine.sync.flush()
        turns = engine.loop.run(engine.store.list_turns(Scope(session_id="s")))
        prepared = sum(turn.attempt for turn in turns)
        assert prepared == self.counts["calls"], f"prepared {prepared} times"


class WireCase(Case[M]):
    """A case that always goes to the strict server, which says itself whether pairs are whole."""

    ways: ClassVar[Sequence[str]]
    """In which the model is asked."""

    @abstractmethod
    async def ask(self, way: str, given: list[M]) -> None:
        """Ask the model, and take all that it gives."""

    @abstractmethod
    def as_answer(self, says: M) -> Answer:
        """What the server says, as a provider says it."""

    @abstractmethod
    def person(self, message: M) -> str | None:
        """The words of a person's message; `None` if it is no person's."""

    @abstractmethod
    def has_room(self, given: Sequence[M], budget: int, report: Report) -> bool:
        """Whether the host's list surely is within the budget."""

    def heard(self, content: Any) -> str:
        """The words of a content on the wire, as `person` tells them."""
        return str(content)

    def sends(self, installed: Any, says: M) -> M:
        self.rig.answers = [self.as_answer(says)]
        given, way = self.listed(), self.rng.choice(self.ways)
        self.counts[way] += 1
        with self.judged(given, installed):
            self.rig.loop.run_until_complete(self.ask(way, given))
        return says

    def judge(self, given: Sequence[M], report: Report) -> None:
        """The budget, the task, the order, and that nothing changes where there is room."""
        body = self.rig.wire.bodies[-1]
        said = body["messages"]
        judge_budget(self.budget, report, count(body))
        people = [words for m in given if (words := self.person(m)) is not None]
        heard = [self.heard(m["content"]) for m in said if m["role"] == "user"]
        assert people[-1] in heard[-1], "the task is not there, or not the last"
        ids = [call["id"] for m in said for call in m.get("tool_calls", ())]
        order = [id_ for message in given for id_ in self.asked(message)]
        assert ids == [id_ for id_ in order if id_ in ids], "another order"
        answered = {m["tool_call_id"] for m in said if m["role"] == "tool"}
        assert answered == set(ids), "half a pair"
        if self.budget is None or self.has_room(given, self.budget, report):
            assert {id_ for m in given for id_ in self.whole(m, given)} <= set(ids), (
                "cut, with room"
            )
            assert heard == people, "other words of a person's, with room"


def judge_budget(budget: int | None, report: Report, tokens: int) -> None:
    """What went out is within the budget, or the report says that it is not."""
    if budget is None:
        assert not report.over_budget
    elif report.over_budget:
        assert report.token_used > budget
    else:
        assert tokens <= budget, f"{tokens} of {budget} tokens; told: {report.token_used}"


def _held(message: Any) -> str:
    """All that a message holds, be it an object or a dict."""
    return repr(message if isinstance(message, dict) else vars(message))
