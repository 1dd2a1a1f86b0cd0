"""`CEMiddleware` is `install_ce(agent)` said at another place: the same bodies, the same rows, never doubled."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import HumanMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.tools import tool
from langgraph.types import Command
from pydantic import BaseModel

from ce_engine import BudgetConfig, ConfigError, MemoryStore, RuntimeConfig, create_context_engine
from ce_engine.testing import IdsInOrder
from ce_integrations.langchain import install_ce
from ce_integrations.testing.wire import Wire, error, text, tool_calls
from tests.adapters.langchain.rows import rows


pytestmark = [pytest.mark.needs("create_agent"), pytest.mark.scenario(5)]

THREAD: Any = {"configurable": {"thread_id": "t"}}
SMALL = RuntimeConfig(budget=BudgetConfig(max_input_tokens=400, reserved_reply_tokens=0))


class Shelf(BaseRetriever):
    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return [Document(f"{query}: 意思", metadata={"source": "a shelf"})]


@tool
def lookup(word: str) -> str:
    """Look a word up."""
    return Shelf().invoke(word)[0].page_content + " of the word" * 40


@tool
def broken(word: str) -> str:
    """Fail."""
    raise TimeoutError(word)


@tool
def plain(word: str) -> str:
    """Say it again."""
    return word


SCRIPT = [
    tool_calls([("lookup", {"word": "lane"}), ("lookup", {"word": "turn"})]),
    text("A lane and a turn."),
    tool_calls([("lookup", {"word": "cut"})]),
    text("And a cut."),
    text("你好"),
]
QUESTIONS = ("lane and turn?", "cut?", "hello?")


def agent_of(model: Any, middleware: list[Any], tools: Any = (lookup,), **kwargs: Any) -> Any:
    from langchain.agents import create_agent
    from langgraph.checkpoint.memory import InMemorySaver

    kwargs = {"system_prompt": "You look up.", "checkpointer": InMemorySaver(), **kwargs}
    return create_agent(model, list(tools), middleware=middleware, **kwargs)


def middleware(**options: Any) -> Any:
    from ce_integrations.langchain import CEMiddleware

    return CEMiddleware(**options)


def talk(agent: Any, way: str, runner: asyncio.Runner, questions: Any = QUESTIONS) -> None:
    """Ask all of it, read to the end."""

    async def streamed(given: Any) -> None:
        async for _ in agent.astream(given, THREAD, stream_mode="messages"):
            pass

    for question in questions:
        given = {"messages": [HumanMessage(question)]}
        if way == "invoke":
            agent.invoke(given, THREAD)
        elif way == "ainvoke":
            runner.run(agent.ainvoke(given, THREAD))
        elif way == "stream":
            list(agent.stream(given, THREAD, stream_mode="messages"))
        else:
            runner.run(streamed(given))


Drive = Callable[[Any], None]


def both(
    chat: Any, build: Callable[[Any, list[Any]], Any], drive: Drive, script: Any, **options: Any
) -> Any:
    """(bodies, rows) of the agent installed on, and of the agent with the middleware."""
    found = []
    for installed in (True, False):
        engine = create_context_engine(MemoryStore(), id_generator=IdsInOrder("same-id-"))
        with Wire(script) as wire:
            governs = None if installed else middleware(engine=engine, **options)
            agent = build(chat(wire), [governs] if governs else [])
            installation = governs or install_ce(agent, engine=engine, **options)
            try:
                drive(agent)
            finally:
                installation.uninstall()
            assert wire.refusals == []
            found.append(([sent.raw for sent in wire.requests], rows(engine, "t")))
        engine.sync.close()
    return found


@pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream", "astream"])
@pytest.mark.parametrize("config", [None, SMALL], ids=["room", "small"])
def test_the_same_bodies_and_rows(chat: Any, runner: Any, way: str, config: Any) -> None:
    def drive(agent: Any) -> None:
        talk(agent, way, runner)

    one, other = both(chat, agent_of, drive, SCRIPT, config=config)
    assert one[0] == other[0]
    assert len(one[0]) == 5
    assert one[1] == other[1]
    kept = one[1]
    assert [calls[0] for calls in kept["tool calls"]] == ["Shelf"] * 3 + ["lookup"] * 3
    assert len(kept["usage"]) == len(kept["turns"]) == 5
    assert any(turn[6] or turn[7] for turn in kept["turns"]) is (config is SMALL)


@pytest.mark.parametrize("way", ["invoke", "astream"])
def test_a_tool_that_fails_and_a_model_that_fails(chat: Any, runner: Any, way: str) -> None:
    def drive(agent: Any) -> None:
        with pytest.raises(TimeoutError):
            talk(agent, way, runner, ["go"])
        with pytest.raises(Exception, match="slow down"):
            talk(agent, way, runner, ["and on"])

    def build(model: Any, governs: list[Any]) -> Any:
        return agent_of(model, governs, [broken], checkpointer=None)

    script = [tool_calls([("broken", {"word": "x"})]), error(429, "slow down")]
    one, other = both(chat, build, drive, script)
    assert one == other
    assert [(call[0], call[2]) for call in one[1]["tool calls"]] == [("broken", "timeout")]
    assert [turn[2] for turn in one[1]["turns"]] == ["committed", "failed"]


def test_structured_answers_and_state_of_the_graph(chat: Any, runner: Any) -> None:
    from langchain.agents.structured_output import ToolStrategy

    class Verdict(BaseModel):
        """A verdict."""

        good: bool

    states: list[Any] = []

    def build(model: Any, governs: list[Any]) -> Any:
        return agent_of(model, governs, response_format=ToolStrategy(Verdict))

    def drive(agent: Any) -> None:
        talk(agent, "invoke", runner, ["judge"])
        state = agent.get_state(THREAD).values
        states.append(
            (
                sorted(state),
                [m.content for m in state["messages"]],
                str(state["structured_response"]),
            )
        )

    script = [tool_calls([("lookup", {"word": "a"})]), tool_calls([("Verdict", {"good": True})])]
    one, other = both(chat, build, drive, script)
    assert one == other
    assert states[0] == states[1]
    assert "True" in states[0][2]


def test_a_run_that_resumes_with_its_tools(chat: Any, runner: Any) -> None:
    """The middleware hears of that run after them: their results come with the model's next call."""
    from langchain.agents.middleware import HumanInTheLoopMiddleware

    def build(model: Any, governs: list[Any]) -> Any:
        asks: Any = HumanInTheLoopMiddleware({"plain": True})
        return agent_of(model, [*governs, asks], [plain])

    def drive(agent: Any) -> None:
        talk(agent, "invoke", runner, ["go"])
        agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), THREAD)

    one, other = both(chat, build, drive, [tool_calls([("plain", {"word": "x"})]), text("done")])
    assert one == other
    assert [call[0] for call in one[1]["tool calls"]] == ["plain"]


@pytest.mark.parametrize("way", ["invoke", "astream"])
def test_where_both_are_used_a_call_is_prepared_once(
    chat: Any, engine: Any, runner: Any, way: str
) -> None:
    """By the outermost, which is the graph's installation, then the middleware, then the model's."""
    other, third = (create_context_engine(MemoryStore()) for _ in range(2))
    with Wire([*SCRIPT, *SCRIPT]) as wire:
        model, governs = chat(wire), middleware(engine=other)
        agent = agent_of(model, [governs], checkpointer=None)
        with install_ce(model, engine=third):
            with install_ce(agent, engine=engine):
                talk(agent, way, runner)
            assert nothing_in(other)
            assert len(rows(engine, "t")["turns"]) == 5
            talk(agent, way, runner)
        assert nothing_in(third)
        found = rows(other, "t")
        assert [turn[3] for turn in found["turns"]] == [1] * 5
        assert [call[0] for call in found["tool calls"]] == ["Shelf"] * 3 + ["lookup"] * 3
        governs.uninstall()
        talk(agent, way, runner, ["who?"])
        assert rows(other, "t") == found
        assert len(rows(engine, "t")["turns"]) == 5
        assert len(wire.bodies) == 11
    assert model.callbacks is None
    assert lookup.callbacks is None
    for made in (other, third):
        made.sync.close()


def nothing_in(engine: Any) -> bool:
    assert engine.sync.flush()
    return not engine.loop.run(engine.store.list_sessions(user_id=None, ephemeral=True))


def test_with_the_same_engine_twice_is_once(chat: Any, engine: Any, runner: Any) -> None:
    with Wire(SCRIPT) as wire:
        governs = middleware(engine=engine)
        model = chat(wire)
        agent = agent_of(model, [governs])
        with install_ce(agent, engine=engine), install_ce(model, engine=engine):
            talk(agent, "invoke", runner)
        governs.uninstall()
    found = rows(engine, "t")
    assert [(turn[2], turn[3]) for turn in found["turns"]] == [("committed", 1)] * 5
    assert len(found["usage"]) == 5
    assert len(found["tool calls"]) == 6


@pytest.mark.scenario(11)
def test_two_agents_with_one_model_and_one_tool_have_their_own(
    chat: Any, engine: Any, runner: Any
) -> None:
    other = create_context_engine(MemoryStore())
    with Wire([*SCRIPT, *SCRIPT]) as wire:
        model = chat(wire)
        one, two = middleware(engine=engine), middleware(engine=other)
        first, second = agent_of(model, [one]), agent_of(model, [two])
        talk(first, "invoke", runner)
        assert nothing_in(other)
        before = rows(engine, "t")
        talk(second, "ainvoke", runner)
        assert rows(engine, "t") == before == rows(other, "t")
        one.uninstall()
        two.uninstall()
    other.sync.close()


def test_an_agent_in_another_s_tool_belongs_to_that_one(chat: Any, engine: Any) -> None:
    other = create_context_engine(MemoryStore())
    with Wire([tool_calls([("ask", {"question": "x"})]), text("inner"), text("outer")]) as wire:
        of_inner, of_outer = middleware(engine=other), middleware(engine=engine)
        inner = agent_of(chat(wire), [of_inner], [], checkpointer=None)

        @tool
        def ask(question: str) -> str:
            """Ask the expert."""
            return str(inner.invoke({"messages": [HumanMessage(question)]})["messages"][-1].content)

        outer = agent_of(chat(wire), [of_outer], [ask])
        outer.invoke({"messages": [HumanMessage("q")]}, THREAD)
        assert nothing_in(other)
        found = rows(engine, "t")
        assert [turn[0] for turn in found["turns"]] == ["model", "ask/tools|model", "model"]
        of_inner.uninstall()
        of_outer.uninstall()
    other.sync.close()


def test_a_graph_around_the_agent_is_nobody_s(chat: Any, engine: Any, runner: Any) -> None:
    """Only the agent has it: another node's own call of a model is left alone."""
    from langgraph.graph import END, START, MessagesState, StateGraph

    with Wire(["from the agent", "from the node"]) as wire:
        governs, model = middleware(engine=engine), chat(wire)
        agent = agent_of(chat(wire), [governs], [], checkpointer=None)

        def after(state: MessagesState) -> Any:
            return {"messages": [model.invoke(state["messages"])]}

        graph: Any = (
            StateGraph(MessagesState)
            .add_node("agent", agent)
            .add_node("after", after)
            .add_edge(START, "agent")
            .add_edge("agent", "after")
            .add_edge("after", END)
            .compile()
        )
        graph.invoke({"messages": [HumanMessage("q")]}, THREAD)
        assert len(wire.bodies) == 2
        governs.uninstall()
    assert [m[1] for m in rows(engine, "t")["messages"]] == ["q", "from the agent"]


def test_it_has_what_an_installation_has(chat: Any, engine: Any, runner: Any) -> None:
    with pytest.raises(ConfigError, match="engine and a store"):
        middleware(engine=engine, store="memory://")
    with Wire(SCRIPT) as wire:
        governs = middleware(engine=engine, session_id="mine", config=SMALL)
        agent = agent_of(chat(wire), [governs])
        assert "CEMiddleware" not in str(sorted(agent.nodes))
        talk(agent, "invoke", runner)
        assert governs.flush()
        report = governs.last_report("mine")
        assert report is not None
        assert report == governs.installation.last_report("mine")
        assert report.token_budget == 400
        with install_ce(governs) as other:
            assert other.hooks is governs.installation.hooks
            governs.uninstall()
            governs.uninstall()
            assert other.hooks.active
        assert not governs.installation.hooks.active


@pytest.mark.production_guard
def test_when_we_fail_the_agent_goes_on(
    chat: Any, engine: Any, runner: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ce_integrations.langchain import marks

    def fails(*args: Any) -> Any:
        raise ValueError

    with Wire(SCRIPT) as wire:
        governs = middleware(engine=engine)
        agent = agent_of(chat(wire), [governs])
        monkeypatch.setattr(marks.tree, "claim", fails)
        talk(agent, "invoke", runner)
        assert len(wire.bodies) == 5
    assert {fault.where for fault in governs.installation.faults} == {"middleware"}
    governs.uninstall()


def test_called_outside_a_graph_it_does_nothing(engine: Any) -> None:
    governs = middleware(engine=engine)
    assert governs.wrap_model_call("a request", str.upper) == "A REQUEST"
    governs.uninstall()


def test_an_agent_that_is_dropped_frees_it(engine: Any) -> None:
    engine.sync.flush()
    governs = middleware(engine=engine)
    agent = agent_of(FakeListChatModel(responses=["x"]), [governs], [], checkpointer=None)
    agent.invoke({"messages": ["q"]})
    gone = weakref.ref(governs.installation.hooks)
    del governs, agent
    engine.sync.flush()  # a turn that is being stored may hold it
    gc.collect()
    assert gone() is None
