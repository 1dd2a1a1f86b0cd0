"""What every adapter gets from the base, shown on a make-believe framework of sixty lines."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

import ce_integrations
from ce_engine import (
    BudgetConfig,
    ContextEngine,
    Extend,
    HostMessage,
    Insert,
    MemoryStore,
    Message,
    MissingDependencyError,
    Origin,
    Restore,
    Role,
    RuntimeConfig,
    Scope,
    Shorten,
    Step,
    ToolRun,
    TurnStatus,
    UnsupportedTargetError,
    Usage,
    create_context_engine,
)
from ce_integrations import Adapter, CallInfo, Hooks, ce_session
from ce_integrations.calls.open_turn import governing, is_inside
from ce_integrations.calls.tool_events import OpenRuns
from ce_integrations.install.registry import load_adapters


@dataclass(eq=False)
class Note:
    """A message of the make-believe framework."""

    role: str
    content: str


@dataclass
class Bot:
    """Its agent: hooks before and after the model, and a model that counts."""

    before: list[Callable[[list[Note]], list[Note]]] = field(default_factory=list)
    after: list[Callable[[Note], None]] = field(default_factory=list)
    history: list[Note] = field(default_factory=list)
    sent: list[list[Note]] = field(default_factory=list)

    def ask(self, question: str) -> str:
        self.history.append(Note("user", question))
        goes = self.history
        for hook in self.before:
            goes = hook(goes)
        self.sent.append(list(goes))
        answer = Note("assistant", f"{len(goes)} notes")
        for call in self.after:
            call(answer)
        self.history.append(answer)
        return answer.content


class BotAdapter(Adapter[Bot, Note]):
    name = "bots"
    requires = ("pydantic>=2",)
    targets = "a Bot"

    def accepts(self, target: object) -> bool:
        return isinstance(target, Bot)

    def to_schema(self, native: Note) -> HostMessage:
        origin = {"user": Origin.TASK, "assistant": Origin.ANSWER}.get(native.role, Origin.SYSTEM)
        return HostMessage(Message(role=Role(native.role), content=native.content), origin)

    def to_native(self, step: Step, native: Note | None) -> Note:
        if isinstance(step, Shorten) and native is not None:
            return Note(native.role, step.text)
        if isinstance(step, Extend) and native is not None:
            parts = [step.text, native.content]
            return Note(native.role, "".join(parts if step.before else reversed(parts)))
        if isinstance(step, Restore):
            return Note(step.message.role.value, step.message.content)
        assert isinstance(step, Insert)
        return Note("system", step.text)

    def attach(self, target: Bot, hooks: Hooks[Note]) -> Callable[[], None]:
        turns: list[Any] = []

        def before(natives: list[Note]) -> list[Note]:
            goes, turn = hooks.before_model(natives, CallInfo(request_id=f"r{len(natives)}"))
            turns.append(turn)
            return goes

        def after(answer: Note) -> None:
            hooks.after_model(turns.pop(), answer)

        target.before.append(before)
        target.after.append(after)

        def detach() -> None:
            target.before.remove(before)
            target.after.remove(after)

        return detach


ADAPTER = BotAdapter()


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    made = create_context_engine(MemoryStore())
    yield made
    made.sync.close()


@pytest.fixture
def hooks(engine: ContextEngine) -> Hooks[Note]:
    return ADAPTER.install_ce(Bot(), engine=engine, session_id="s").hooks


def stored(engine: ContextEngine, session_id: str = "s") -> Any:
    assert engine.sync.flush()
    return engine.loop.run(engine.store.get_session(Scope(session_id=session_id)))


def turns(engine: ContextEngine) -> list[Any]:
    assert engine.sync.flush()
    return list(engine.loop.run(engine.store.list_turns(Scope(session_id="s"))))


# An adapter of one file


def test_a_seventh_framework(engine: ContextEngine) -> None:
    plain, bot = Bot(), Bot()
    with ADAPTER.install_ce(bot, engine=engine, session_id="s"):
        for question in ("one", "二", "three"):
            assert bot.ask(question) == plain.ask(question)
    assert (bot.before, bot.after) == ([], [])
    messages = stored(engine).session.messages
    assert [m.content for m in messages] == [note.content for note in bot.history]
    assert {u.params["estimated"] for u in stored(engine).session.model_usage} == {True}


def test_who_wrote_an_adapter_names_what_is_missing(
    engine: ContextEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BotAdapter, "requires", ("no-such-bots>=2",))
    with pytest.raises(MissingDependencyError, match="Run: pip install 'no-such-bots>=2'"):
        ADAPTER.install_ce(Bot(), engine=engine)


def test_with_room_the_very_list_goes_through(engine: ContextEngine) -> None:
    bot = Bot()
    seen: list[Any] = []
    with ADAPTER.install_ce(bot, engine=engine, session_id="s"):

        def see(goes: list[Note]) -> list[Note]:
            seen.append(goes)
            return goes

        bot.before.append(see)
        bot.ask("one")
    assert seen[0] is bot.history


def test_without_room_only_the_view_is_cut(engine: ContextEngine) -> None:
    bot = Bot()
    small = RuntimeConfig(budget=BudgetConfig(max_input_tokens=200, reserved_reply_tokens=0))
    with ADAPTER.install_ce(bot, engine=engine, session_id="s", config=small) as installation:
        for n in range(20):
            bot.ask(f"question {n} " + "with words " * 10)
        report = installation.last_report("s")
    assert report is not None
    assert report.token_budget == 200
    assert report.token_used <= 200
    assert len(bot.history) == 40
    assert len(bot.sent[-1]) < 20
    assert bot.sent[-1][-1].content.endswith(bot.history[-2].content)


@pytest.mark.production_guard
def test_a_copy_that_outlives_it_falls_silent(engine: ContextEngine) -> None:
    bot = Bot()
    installation = ADAPTER.install_ce(bot, engine=engine, session_id="s")
    copy = Bot(before=list(bot.before), after=list(bot.after))
    copy.ask("while it is there")
    installation.uninstall()
    copy.ask("after")
    assert [m.content for m in stored(engine).session.messages] == [
        "while it is there",
        "1 notes",
    ]


def test_generic_installation_finds_the_adapter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ce_integrations.install.registry.load_adapters", lambda: {"bots": ADAPTER})
    with ce_integrations.install_ce(Bot(), store="memory://") as installation:
        assert installation.adapter is ADAPTER
        installation.engine.sync.close()
    with pytest.raises(UnsupportedTargetError, match=r"builtins\.int; installed are: bots"):
        ce_integrations.install_ce(5)
    with pytest.raises(UnsupportedTargetError, match="bots cannot be installed on a builtins"):
        ADAPTER.install_ce(5)  # type: ignore[arg-type]  # what it is about


def test_a_broken_adapter_is_reported_and_left_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from importlib.metadata import EntryPoint

    group = "ce_integrations.adapters"
    points = [
        EntryPoint("gone", "no_such_module:ADAPTER", group),
        EntryPoint("wrong", "json:dumps", group),
        EntryPoint("langchain", "ce_integrations.langchain.installer:ADAPTER", group),
    ]
    monkeypatch.setattr("ce_integrations.install.registry.entry_points", lambda group: points)
    assert list(load_adapters()) == ["langchain"]
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2
    assert "'gone' (no_such_module:ADAPTER) is broken: ModuleNotFoundError" in told[0]


def test_importing_costs_nothing() -> None:
    code = (
        "import sys, ce_integrations, ce_integrations.langchain as l; l.install_ce;"
        "print([m for m in sys.modules if m.partition('.')[0] in"
        " ('langchain_core', 'langchain', 'langgraph', 'langchain_openai', 'packaging')])"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_the_door_has_what_it_says() -> None:
    assert set(ce_integrations.__all__) == set(dir(ce_integrations))
    assert all(getattr(ce_integrations, name) for name in ce_integrations.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        ce_integrations.nonsense  # noqa: B018 - reading it is the test


# Hooks


async def test_async_twins(engine: ContextEngine, hooks: Hooks[Note]) -> None:
    natives = [Note("user", "q")]
    goes, turn = await hooks.abefore_model(natives, CallInfo())
    assert goes is natives
    await hooks.aafter_model(turn, Note("assistant", "a"), Usage(3, 2, 5))
    await hooks.afailed(turn, ValueError())  # it is closed already
    document = await asyncio.to_thread(stored, engine)
    assert [m.content for m in document.session.messages] == ["q", "a"]
    (usage,) = document.session.model_usage
    assert (usage.total_tokens, usage.params) == (5, {})


def test_a_turn_ends_once(engine: ContextEngine, hooks: Hooks[Note]) -> None:
    _, turn = hooks.before_model([Note("user", "q")], CallInfo())
    hooks.failed(turn, GeneratorExit(), "half an ans")
    hooks.after_model(turn, Note("assistant", "half an answer"))
    hooks.finalize(turn)
    assert hooks.settle(5)
    (row,) = turns(engine)
    assert row.status is TurnStatus.INCOMPLETE
    assert [m.content for m in stored(engine).session.messages] == ["q", "half an ans"]


def test_chunks_are_joined_where_the_host_gives_no_whole(
    engine: ContextEngine, hooks: Hooks[Note]
) -> None:
    _, turn = hooks.before_model([Note("user", "q")], CallInfo())
    for index, piece in enumerate(("", "一", "个")):
        hooks.chunk(turn, index, piece)
    hooks.finalize(turn, Usage(1, 1, 2))
    document = stored(engine)
    assert document.session.messages[-1].content == "一个"
    assert document.session.model_usage[0].first_token_latency_ms is not None


def test_no_turn_is_no_trouble(engine: ContextEngine, hooks: Hooks[Note]) -> None:
    hooks.chunk(None, 0, "x")
    hooks.after_model(None, Note("assistant", "x"))
    hooks.failed(None, ValueError())
    hooks.finalize(None)
    assert stored(engine) is None


class Slow(MemoryStore):
    """A store that takes its time."""

    async def apply(self, *args: Any, **kwargs: Any) -> Any:
        await asyncio.sleep(0.1)
        return await super().apply(*args, **kwargs)


async def test_a_record_that_is_cancelled_is_made_all_the_same() -> None:
    engine = create_context_engine(Slow())
    hooks = ADAPTER.install_ce(Bot(), engine=engine, session_id="s").hooks
    _, turn = await hooks.abefore_model([Note("user", "q")], CallInfo())
    task = asyncio.ensure_future(hooks.aafter_model(turn, Note("assistant", "a")))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(hooks.settle, 5)
    document = await asyncio.to_thread(stored, engine)
    assert [m.content for m in document.session.messages] == ["q", "a"]
    assert len(document.session.model_usage) == 1
    await asyncio.to_thread(engine.sync.close)


def test_lane_and_purpose_reach_the_engine(engine: ContextEngine) -> None:
    bot = Bot()
    own = ADAPTER.install_ce(bot, engine=engine, session_id="s").hooks
    _, turn = own.before_model([Note("user", "q")], CallInfo(lane_key="branch", purpose="helper"))
    own.after_model(turn, Note("assistant", "a"))
    (row,) = turns(engine)
    assert (row.lane, row.purpose, row.framework) == ("branch", "helper", "bots")


def test_a_model_that_an_answer_does_not_name_is_the_call_s(engine: ContextEngine) -> None:
    own = ADAPTER.install_ce(Bot(), engine=engine, session_id="s").hooks
    _, turn = own.before_model([Note("user", "q")], CallInfo(model="gpt-4"))
    own.after_model(turn, Note("assistant", "a"))
    (usage,) = stored(engine).session.model_usage
    assert usage.model == "gpt-4"


def test_facts_go_to_the_session_of_their_run(engine: ContextEngine) -> None:
    own = ADAPTER.install_ce(Bot(), engine=engine).hooks
    runs: OpenRuns[str] = OpenRuns(own)
    with ce_session("s", user_id=""):
        runs.begin("1", "f", {"x": 1}, CallInfo(request_id="r"), "c1")
        runs.tool_ended("1", {"y": [1, "二"]})
        runs.begin("2", "f", "text", CallInfo(request_id="r"))
        runs.tool_failed("2", PermissionError("secret"))
        runs.tool_ended("3", "nobody began it")
        runs.begin("4", "f", {}, CallInfo())
        runs.forget("4")
        own.tool_call(CallInfo(), ToolRun("g", {}, "", "5"))
    document = stored(engine)
    calls = document.session.tool_state.tool_calls
    assert [(c.tool, c.status) for c in calls] == [
        ("f", "success"),
        ("f", "forbidden"),
        ("g", "success"),
    ]
    assert '{"y": [1, "二"]}' in [e.content for e in document.evidences.values()]
    own.active = False
    own.tool_call(CallInfo(), ToolRun("g", {}, "", "6"))


def test_the_mark_of_a_governed_call() -> None:
    model, other = object(), object()
    assert not is_inside(model)
    with governing("bots", model, None):
        assert is_inside(model)
        assert not is_inside(other)
        with governing("bots", other, None):
            assert not is_inside(model)
    assert not is_inside(model)
