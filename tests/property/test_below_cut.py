"""What is known of a list is not looked at again, and that changes nothing: two engines say the same."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from typing import Any, Literal

import pytest

from ce_engine import (
    Answer,
    BudgetConfig,
    CharBasedEstimator,
    ContextEngine,
    HostMessage,
    MemoryStore,
    Message,
    ModelCall,
    Origin,
    Prepared,
    Role,
    RuntimeConfig,
    Scope,
    ToolRequest,
    create_context_engine,
)
from ce_engine.sessions.sent_list import SentList
from ce_engine.testing import IdsInOrder


SCOPE = Scope(session_id="s")
WORDS = "river bridge ticket museum 桥 票 station harbour market castle garden tower".split()


class Noon:
    def now_iso(self) -> str:
        return "2026-11-22T12:00:00.000000Z"


def message(role: Role, text: str, origin: Origin, **more: Any) -> HostMessage:
    host_id = more.pop("host_id", None)
    protected = more.pop("protected", False)
    return HostMessage(
        Message(role=role, content=text, **more), origin, host_id=host_id, protected=protected
    )


class Host:
    """Sends its whole history each time, and sometimes changes it."""

    def __init__(
        self,
        seed: int,
        placement: Literal["seed", "cache"] = "seed",
        budgets: Sequence[int] = (900, 700, 900, 1300, 4000),
        tool_results: Literal["whole", "compact"] = "whole",
    ) -> None:
        self.tool_results = tool_results
        self.placement, self.budgets = placement, budgets
        self.rng = random.Random(seed)
        self.ids = count()
        self.said = [message(Role.SYSTEM, "Answer kindly.", Origin.SYSTEM)]
        self.budget = budgets[0]

    def words(self, most: int = 40) -> str:
        return " ".join(self.rng.choices(WORDS, k=self.rng.randint(3, most)))

    def ask(self) -> None:
        protected = self.rng.random() < 0.02
        host_id = f"m{next(self.ids)}"
        asked = message(Role.USER, self.words(), Origin.TASK, host_id=host_id, protected=protected)
        self.said.append(asked)

    def use_a_tool(self) -> None:
        name = f"call-{next(self.ids)}"
        call = ToolRequest(name="look", id=name, args={"q": self.words(4)})
        self.said += [
            message(Role.ASSISTANT, "", Origin.TOOL_CALL, tool_calls=[call]),
            message(Role.TOOL, self.result(), Origin.TOOL_RESULT, tool_call_id=name),
        ]

    def result(self) -> str:
        """Words; where results take their forms from when they arrive, JSON that has one."""
        said = self.words()
        if self.tool_results == "whole":
            return said
        return json.dumps({"id": self.rng.randrange(3), "said": said, "of": ["red"]}, indent=2)

    def change(self) -> None:
        """Now and then: an edit, a window, another budget, other instructions, equal objects made anew."""
        chance, said = self.rng.random(), self.said
        if len(said) < 4:
            return
        if chance < 0.04:
            at = self.rng.randrange(1, len(said))
            if said[at].origin is Origin.TASK:
                edited = said[at].message.model_copy(update={"content": self.words()})
                said[at] = replace(said[at], message=edited, counted=None, recognised=None)
        elif chance < 0.06:
            tasks = [n for n, each in enumerate(said) if each.origin is Origin.TASK]
            del said[1 : tasks[len(tasks) // 3]]
        elif chance < 0.09:
            self.budget = self.rng.choice(self.budgets[1:])
        elif chance < 0.2:
            said[0] = message(Role.SYSTEM, f"Answer kindly. {self.words(4)}", Origin.SYSTEM)
        elif chance < 0.24:
            self.said = [replace(each, counted=None, recognised=None) for each in said]

    def call(self) -> ModelCall:
        budget = BudgetConfig(max_input_tokens=self.budget, reserved_reply_tokens=0)
        config = RuntimeConfig(
            budget=budget, placement=self.placement, tool_results=self.tool_results
        )
        return ModelCall(SCOPE, list(self.said), config=config)


@contextmanager
def two_engines() -> Iterator[list[ContextEngine]]:
    made = [
        create_context_engine(
            MemoryStore(),
            token_estimator=CharBasedEstimator(),
            id_generator=IdsInOrder(),
            clock=Noon(),
        )
        for _ in range(2)
    ]
    yield made
    for engine in made:
        engine.sync.close()


def forget(engine: ContextEngine) -> bool:
    """Make the engine look at everything again; whether there was something that it had not to."""
    view = engine._sessions.peek(SCOPE)
    if view is None:
        return False
    lane = view.lane("")
    known, lane.below = lane.below is not None, None
    lane.items, lane.archived, lane.sent_list = {}, None, SentList()
    return known


def told(prepared: Prepared) -> dict[str, Any]:
    return prepared.report.model_dump(exclude={"stable_prefix_hash"})


def run(seed: int, turns: int, placement: Literal["seed", "cache"] = "seed") -> int:
    """One host and two engines; how often there was something that needed no look."""
    return compared(Host(seed, placement), turns)


def compared(host: Host, turns: int) -> int:
    known = 0
    with two_engines() as engines:
        for _ in range(turns):
            host.change()
            host.ask()
            for _ in range(host.rng.choice([0, 0, 0, 1, 2])):
                host.use_a_tool()
            known += forget(engines[1])
            first, second = (engine.sync.prepare(host.call()) for engine in engines)
            assert first.plan == second.plan
            assert told(first) == told(second)
            answer = message(Role.ASSISTANT, host.words(), Origin.ANSWER)
            for engine, prepared in zip(engines, (first, second), strict=True):
                engine.sync.commit(prepared.turn, Answer(answer.message.model_copy()))
            host.said.append(answer)
        rows = [engine.loop.run(engine.store.list_turns(SCOPE)) for engine in engines]
    for ours, whole in zip(*rows, strict=True):
        assert archive(ours.report) == archive(whole.report)
    return known


def test_it_changes_the_cost_and_never_the_answer() -> None:
    assert sum(run(seed, turns=30) for seed in range(8)) > 60


def test_what_stays_before_questions_is_the_same_too() -> None:
    assert sum(run(seed, turns=30, placement="cache") for seed in range(8, 13)) > 40


def test_a_list_that_all_goes_out_is_the_same_too() -> None:
    for seed in range(13, 19):
        compared(Host(seed, budgets=(90_000, 60_000, 90_000)), turns=25)


def test_results_in_fewer_tokens_are_counted_the_same_too() -> None:
    for seed in range(19, 23):
        compared(Host(seed, tool_results="compact"), turns=20)


@pytest.mark.full
@pytest.mark.timeout(900)
def test_the_same_of_many_hosts() -> None:
    assert sum(run(seed, turns=60) for seed in range(100, 160)) > 1000


def archive(report: dict[str, Any]) -> dict[str, Any]:
    """What a replay is made of, without what is keyed with the session's own salt."""
    found = report["extra"]["replay"]
    keyed = {"hash", "config", "settings", "system", "materials", "summaries"}
    keyed.add("forms")  # of what is below a cut nobody asks for them
    return {name: value for name, value in found.items() if name not in keyed}
