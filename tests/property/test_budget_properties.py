"""Any history within any budget: pairs whole, order kept, task and system there, never over."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from ce_engine import (
    Answer,
    BudgetConfig,
    CharBasedEstimator,
    ContextEngine,
    Extend,
    HostMessage,
    Insert,
    Keep,
    MemoryStore,
    Message,
    ModelCall,
    Origin,
    Prepared,
    Restore,
    Role,
    RuntimeConfig,
    Scope,
    Shorten,
    ToolRequest,
    create_context_engine,
)


WORDS = [
    "the",
    "order",
    "was",
    "shipped",
    "to",
    "Berlin",
    "on",
    "Monday",
    "订单",
    "已经",
    "发往",
    "北京",
    "{}",
    "[]",
    "17",
    "status",
    "ok",
    "客户",
    "请求",
    "退款",
]


def words(rng: random.Random, most: int) -> str:
    return " ".join(rng.choices(WORDS, k=rng.randint(1, most)))


def history(rng: random.Random) -> list[HostMessage]:
    """A host's list: turns with tools (parallel, missing, repeated ids), ending in a question or a result."""
    found = []
    if rng.random() < 0.7:
        found.append(HostMessage(Message(role=Role.SYSTEM, content=words(rng, 20)), Origin.SYSTEM))
    for _ in range(rng.randint(1, 6)):
        found.append(HostMessage(Message(role=Role.USER, content=words(rng, 60)), Origin.TASK))
        for _ in range(rng.choice([0, 0, 1, 3, 12])):
            found += group(rng)
        if rng.random() < 0.6:
            text = Message(role=Role.ASSISTANT, content=words(rng, 60))
            found.append(HostMessage(text, Origin.ANSWER))
    if rng.random() < 0.15:
        found.insert(rng.randrange(len(found)), result(rng, "nobody-asked"))
    return found


def group(rng: random.Random) -> list[HostMessage]:
    ids = [rng.choice(["call_0", f"call_{rng.random()}"]) for _ in range(rng.randint(1, 3))]
    ids = list(dict.fromkeys(ids))
    calls = [ToolRequest(name="lookup", id=i, args={"q": words(rng, 4)}) for i in ids]
    asked = Message(role=Role.ASSISTANT, content="", tool_calls=calls)
    results = [result(rng, i) for i in ids]
    if rng.random() < 0.05:
        results.pop()
    rng.shuffle(results)
    return [HostMessage(asked, Origin.TOOL_CALL), *results]


def result(rng: random.Random, call_id: str) -> HostMessage:
    text = words(rng, rng.choice([5, 40, 400]))
    return HostMessage(
        Message(role=Role.TOOL, content=text, tool_call_id=call_id), Origin.TOOL_RESULT
    )


def never_out(host: list[HostMessage]) -> list[HostMessage]:
    """System, task, newest, groups that wait, newest whole group behind the task: counted apart."""
    groups: list[list[HostMessage]] = []
    for item in host:
        if item.message.role is Role.TOOL:
            asked = groups[-1][0].message.tool_calls or [] if groups else []
            seen = {r.message.tool_call_id for r in groups[-1][1:]} if groups else set()
            if item.message.tool_call_id in {c.id for c in asked} - seen:
                groups[-1].append(item)
        else:
            groups.append([item])
    plain = [g for g in groups if g[0].origin is not Origin.SYSTEM]
    task = max(i for i, g in enumerate(plain) if g[0].origin is Origin.TASK)
    keep = {task, len(plain) - 1}
    keep |= {i for i, g in enumerate(plain) if len(g[0].message.tool_calls or ()) != len(g) - 1}
    whole = [i for i, g in enumerate(plain) if i > task and i not in keep and len(g) > 1]
    newest = plain[-1]
    if not (len(newest) > 1 and len(newest) - 1 == len(newest[0].message.tool_calls or ())):
        keep |= set(whole[-1:])
    kept = [g for i, g in enumerate(plain) if i in keep]
    system = [[h] for h in host if h.origin is Origin.SYSTEM]
    return [item for g in (*system, *kept) for item in g]


def sent(prepared: Prepared) -> list[Message]:
    """What would go out, as messages."""
    out = []
    for step in prepared.plan:
        if isinstance(step, Restore):
            out.append(step.message)
        elif isinstance(step, Insert):
            out.append(Message(role=Role.SYSTEM, content=step.text))
        else:
            message = prepared.call.messages[step.index].message
            if isinstance(step, Shorten):
                message = message.model_copy(update={"content": step.text})
            elif isinstance(step, Extend):
                text = message.content
                text = step.text + text if step.before else text + step.text
                message = message.model_copy(update={"content": text})
            out.append(message)
    return out


def cost(messages: list[Message]) -> int:
    """Counted here, apart from the engine: text, calls and ids, four tokens of framing a message."""
    estimator = CharBasedEstimator()
    total = 3
    for message in messages:
        total += 4 + estimator.estimate_text(message.content)
        for call in message.tool_calls or ():
            total += estimator.estimate_text(f"{call.name}{call.args}{call.id}")
        if message.tool_call_id:
            total += estimator.estimate_text(message.tool_call_id)
    return total


def orphans(messages: list[Message]) -> list[str]:
    """Results that no message right before them asked for."""
    found, open_ids = [], set[str]()
    for message in messages:
        if message.role is Role.TOOL:
            if message.tool_call_id not in open_ids:
                found.append(str(message.tool_call_id))
            open_ids.discard(str(message.tool_call_id))
        else:
            open_ids = {str(call.id) for call in message.tool_calls or ()}
    return found


def torn(messages: list[Message], host: list[HostMessage]) -> bool:
    """Whether a call goes out without a result that the host has for it."""
    answered: dict[int, int] = {}
    for index, item in enumerate(host):
        if item.message.tool_calls:
            rest = host[index + 1 : index + 1 + len(item.message.tool_calls)]
            ids = {c.id for c in item.message.tool_calls}
            answered[id(item.message)] = sum(
                r.message.role is Role.TOOL and r.message.tool_call_id in ids for r in rest
            )
    for index, message in enumerate(messages):
        if message.tool_calls:
            wanted = answered[id(message)]
            following = messages[index + 1 : index + 1 + wanted]
            if sum(m.role is Role.TOOL for m in following) < wanted:
                return True
    return False


def more(seeds: Iterable[int]) -> Iterator[Any]:
    """Of `tox -m full` alone."""
    return (pytest.param(seed, marks=pytest.mark.full) for seed in seeds)


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    made = create_context_engine(MemoryStore(), token_estimator=CharBasedEstimator())
    yield made
    made.sync.close()


@pytest.mark.req("A-11", "A-12", "D-02")
@pytest.mark.parametrize("seed", [*range(60), *more(range(60, 150))])
def test_a_growing_history_in_one_budget(engine: ContextEngine, seed: int) -> None:
    rng = random.Random(seed)
    budget = rng.choice([120, 300, 500, 1000, 2000, 8000])
    config = RuntimeConfig(
        budget=BudgetConfig(max_input_tokens=budget, reserved_reply_tokens=0),
        placement=rng.choice(["seed", "cache"]),
        locale=rng.choice(["en", "zh"]),
    )
    scope = Scope(session_id=f"s{seed}")
    host = history(rng)
    for round_ in range(4):
        prepared = engine.sync.prepare(
            ModelCall(scope=scope, messages=list(host), request_id=f"r{round_}", config=config)
        )
        check(prepared, host, budget)
        answer = Message(role=Role.ASSISTANT, content=words(rng, 30))
        engine.sync.commit(prepared.turn, Answer(answer))
        host.append(HostMessage(answer, Origin.ANSWER))
        host += [h for h in history(rng) if h.origin is not Origin.SYSTEM]


def check(prepared: Prepared, host: list[HostMessage], budget: int) -> None:
    report, out = prepared.report, sent(prepared)
    assert orphans(out) == []
    assert not torn(out, host)
    indexes = [s.index for s in prepared.plan if isinstance(s, Keep | Shorten | Extend)]
    assert indexes == sorted(set(indexes)), "in the host's order, none twice"
    if not report.over_budget:
        assert report.token_used <= budget
        assert cost(out) <= budget
    must = {i for i, h in enumerate(host) if h.origin is Origin.SYSTEM}
    must.add(max(i for i, h in enumerate(host) if h.origin is Origin.TASK))
    assert must <= set(indexes)
    if report.over_budget:
        assert report.token_used > budget
        assert len(out) <= len(never_out(host)), "nothing else goes out with it"
    if prepared.unchanged:
        assert prepared.plan == [Keep(i) for i in range(len(host))]
