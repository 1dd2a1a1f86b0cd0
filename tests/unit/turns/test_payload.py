"""A report tells what the tokens of an input are for, kind by kind; together they are all of it (B-17)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ce_engine import (
    Author,
    AuthorKind,
    BlockType,
    BudgetConfig,
    CharBasedEstimator,
    ContextBlock,
    ContextEngine,
    ContextPiece,
    HostMessage,
    MemoryStore,
    Message,
    Origin,
    Prepared,
    Priority,
    Report,
    Role,
    RuntimeConfig,
    Scope,
    StoreConfig,
    Task,
    create_context_engine,
)
from ce_engine.testing.host import HostApp, assistant, system, tool_calls, tool_result, user
from tests.hosts.cli_host import ce, url_of


pytestmark = pytest.mark.req("B-17")

SCOPE = Scope(session_id="s")
ROOM = RuntimeConfig(
    budget=BudgetConfig(max_input_tokens=100_000), store=StoreConfig(deadline_s=20)
)
TOOL = {"name": "look", "parameters": {"type": "object", "properties": {"at": {"type": "string"}}}}
PUT_IN = ("rules", "memory", "knowledge", "state")


class Notes:
    name, section = "notes", "knowledge__context"

    def fetch(self, scope: Scope, query: str, limit: int) -> list[ContextPiece]:
        return [ContextPiece("Lin Yuan grew up in Suzhou. 林远在苏州长大。", score=0.9)]


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    made = create_context_engine(MemoryStore(), CharBasedEstimator(), config=ROOM)
    yield made
    made.sync.close()


def fill(engine: ContextEngine) -> None:
    """Something of each kind that is put in, but for knowledge."""
    engine.sync.constraints.create(SCOPE, "Lin Yuan stays calm.")
    engine.sync.constraints.create(SCOPE, "Short sentences.", derived=True)
    memory = ContextBlock(
        block_id="m",
        block_type=BlockType.MEMORY,
        priority=Priority.HIGH,
        content="Likes tea. 喜欢茶。",
    )
    engine.sync.put_context_blocks(SCOPE, [memory])
    engine.sync.upsert_tasks(SCOPE, [Task(task_id="t", name="Write chapter 7")])


def ask(engine: ContextEngine, *messages: HostMessage, **call: Any) -> Prepared:
    prepared = HostApp(engine, SCOPE, [system("You write.")]).prepare(*messages, **call)
    kinds = prepared.report.payload_tokens
    assert sum(kinds.values()) == prepared.report.token_used
    assert all(tokens > 0 for tokens in kinds.values())
    return prepared


def colleague(text: str) -> HostMessage:
    said = Message(role=Role.USER, content=text, author=Author(kind=AuthorKind.AGENT, id="editor"))
    return HostMessage(said, Origin.COLLEAGUE)


def test_every_kind_is_told_apart() -> None:
    engine = create_context_engine(
        MemoryStore(), CharBasedEstimator(), config=ROOM, sources=[Notes()]
    )
    fill(engine)
    called = tool_calls(("c0", "look", {"at": "门口"}))
    report = ask(
        engine,
        *(user("Who?"), assistant("Lin Yuan."), colleague("Too long, says the editor.")),
        *(user("Go on, with Lin Yuan."), called, tool_result("c0", "A door. " * 30)),
        tools=[TOOL],
        response_format={"type": "object"},
    ).report
    assert list(report.payload_tokens) == [
        *("system", *PUT_IN, "conversation", "agents", "tool_results", "task"),
        *("tools", "response_format", "priming"),
    ]
    kinds = report.payload_tokens
    assert kinds["tool_results"] > kinds["agents"] > kinds["task"] // 2
    engine.sync.close()


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("conversation", [user("Old? " * 40), assistant("Old.")]),
        ("agents", [user("q"), colleague("As the editor says. " * 20)]),
        ("tool_results", [user("q"), tool_calls(("c", "x", {})), tool_result("c", "很长 " * 99)]),
    ],
)
def test_what_a_message_adds_is_its_kinds(
    engine: ContextEngine, kind: str, more: list[HostMessage]
) -> None:
    bare = ask(engine, user("Now?")).report.payload_tokens
    whole = ask(engine, *more, assistant("a"), user("Now?")).report.payload_tokens
    added = {name: tokens - bare.get(name, 0) for name, tokens in whole.items()}
    assert max(added, key=lambda name: added[name]) == kind
    assert {name for name, tokens in added.items() if tokens} <= {kind, "conversation"}


def test_what_is_put_in_is_told_by_kind(engine: ContextEngine) -> None:
    fill(engine)
    kinds = ask(engine, user("Go on.")).report.payload_tokens
    assert set(kinds) == {"system", "rules", "memory", "state", "task", "priming"}
    whole = sum(kinds[kind] for kind in ("rules", "memory", "state"))
    report = engine.sync.last_report(SCOPE)
    assert report is not None
    assert whole == report.token_used - sum(kinds[kind] for kind in ("system", "task", "priming"))


@pytest.mark.parametrize("room", [1500, 2500, 4000])
def test_over_the_budget_they_add_up_too(engine: ContextEngine, room: int) -> None:
    """Cut, recalled, with a note of what was left out."""
    fill(engine)
    app = HostApp(engine, SCOPE, [system("You write.")])
    budget = BudgetConfig(max_input_tokens=room, reserved_reply_tokens=0)
    config = ROOM.model_copy(update={"budget": budget})
    told: list[Report] = []
    for n in range(2):
        last = app.prepare(user(f"Topic {n}? 话题 {n} " * 6), config=config)
        for step in range(6):
            app.commit(last, tool_calls((f"c{n}{step}", "look", {"n": step})))
            found = tool_result(f"c{n}{step}", f"Page {step}. 内容 {n}\n" * 60)
            last = app.prepare(found, config=config, new_request=False)
            told.append(last.report)
        app.commit(last, assistant(f"Topic {n} is a page. " * 5))
    assert any(report.dropped for report in told)
    for report in told:
        assert sum(report.payload_tokens.values()) == report.token_used
        assert report.payload_tokens["tool_results"] > 0


def test_the_stored_report_and_the_command_tell_them(tmp_path: Any) -> None:
    url = url_of(tmp_path / "ce.db")
    engine = create_context_engine(url, CharBasedEstimator(), config=ROOM)
    fill(engine)
    kinds = ask(engine, user("Go on."), tools=[TOOL]).report.payload_tokens
    engine.sync.flush()
    [stored] = engine.sync.list_reports(SCOPE)
    assert stored.payload_tokens == kinds
    engine.sync.close()
    text = ce("report", "s", "--store", url, "--turn", "1", columns=300).stdout
    [line] = [line for line in text.splitlines() if line.startswith("of these")]
    for kind, tokens in kinds.items():
        assert f"{kind} {tokens:,}" in line
