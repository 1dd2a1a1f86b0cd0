"""However a call ends, its turn ends once: with its status, what came of the answer, and what it used."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from contextvars import copy_context
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.prompts import ChatPromptTemplate

from ce_engine import ContextEngine, Scope
from ce_integrations.langchain import install_ce
from ce_integrations.testing.wire import Wire, cut, error, hang, text
from tests.adapters.langchain.rows import rows


pytestmark = [pytest.mark.scenario(14), pytest.mark.req("A-24")]

ANSWER = "A long answer in several pieces. 一个很长的回答，分成几段。"
PROMPT = ChatPromptTemplate([("human", "{q}")])
ASKED: Any = {"q": "q", "messages": [HumanMessage("q")]}
AS_MESSAGES: Any = {"stream_mode": "messages"}
THREAD: Any = {"configurable": {"session_id": "s", "thread_id": "s"}}


@pytest.fixture
def turns(engine: ContextEngine) -> Callable[[], list[tuple[str, int, list[str]]]]:
    """(status, attempts, errors) of each turn of session "s"."""

    def read() -> list[tuple[str, int, list[str]]]:
        assert engine.sync.flush()
        found = engine.loop.run(engine.store.list_turns(Scope(session_id="s")))
        return [(str(t.status), t.attempt, t.report.get("errors", [])) for t in found]

    return read


def answers(engine: Any) -> list[tuple[str, str | None]]:
    return [(m[1], m[2]) for m in rows(engine, "s")["messages"] if m[0] == "assistant"]


@pytest.mark.parametrize("status", [400, 500])
def test_an_error_of_the_provider(
    chat: Any, engine: Any, call: Any, turns: Any, status: int
) -> None:
    caught = []
    with Wire(error(status, "no such thing", "context_length_exceeded")) as wire:
        plain, model = PROMPT | chat(wire), PROMPT | chat(wire)
        with pytest.raises(Exception) as found:
            call(plain, {"q": "q"}, THREAD)
        caught.append((found.type, str(found.value)))
        with install_ce(model, engine=engine), pytest.raises(Exception) as found:
            call(model, {"q": "q"}, THREAD)
        caught.append((found.type, str(found.value)))
        assert len(wire.requests) == 2
    assert caught[0] == caught[1]
    assert turns() == [("failed", 1, [f"{found.type.__name__}:{status}"])]
    assert answers(engine) == []
    assert rows(engine, "s")["usage"] == []


@pytest.mark.parametrize("way", ["stream", "astream_events"])
def test_a_stream_that_breaks_in_the_midst(
    chat: Any, engine: Any, runner: Any, turns: Any, way: str
) -> None:
    taken: list[str] = []

    async def read(chain: Any) -> None:
        if way == "stream":
            for piece in chain.stream({"q": "q"}, THREAD):
                taken.append(piece)  # noqa: PERF402 - of a list that is extended nothing would be left
            return
        async for event in chain.astream_events({"q": "q"}, THREAD, version="v2"):
            if event["event"] == "on_chat_model_stream":
                piece = event["data"]["chunk"].content
                taken.append(piece)

    with Wire(cut(4, ANSWER)) as wire:
        chain = PROMPT | chat(wire) | StrOutputParser()
        with install_ce(chain, engine=engine), pytest.raises(Exception, match=r"\w"):
            runner.run(read(chain), context=copy_context())
    ((status, attempt, errors),) = turns()
    assert (status, attempt, len(errors)) == ("failed", 1, 1)
    ((words, kept),) = answers(engine)
    assert kept == "failed"
    assert ANSWER.startswith(words)
    assert words.startswith("".join(taken))


def graph_of(model: Any) -> Any:
    from langgraph.graph import END, START, MessagesState, StateGraph

    def node(state: MessagesState) -> Any:
        return {"messages": [model.invoke(state["messages"])]}

    async def anode(state: MessagesState) -> Any:
        return {"messages": [await model.ainvoke(state["messages"])]}

    from langchain_core.runnables import RunnableLambda

    graph = StateGraph(MessagesState).add_node("node", RunnableLambda(node, anode))
    return graph.add_edge(START, "node").add_edge("node", END).compile()


@pytest.mark.parametrize("kind", ["model", "chain", "graph"])
def test_a_consumer_that_leaves(chat: Any, engine: Any, turns: Any, kind: str) -> None:
    """A chain's last step and a graph's node read the model to its end all the same, as without us."""
    with Wire(ANSWER) as wire:
        model = chat(wire)
        with install_ce(model, engine=engine):
            streams: dict[str, Any] = {  # none of them begins before it is asked
                "model": model.stream("q", THREAD),
                "chain": (PROMPT | model | StrOutputParser()).stream(ASKED, THREAD),
                "graph": graph_of(model).stream(ASKED, THREAD, **AS_MESSAGES),
            }
            pieces = streams.pop(kind)
            first = [next(pieces) for _ in range(3)]
            pieces.close()
            del pieces
            gc.collect()
    ((status, attempt, _),) = turns()
    assert attempt == 1
    ((words, kept),) = answers(engine)
    if kind == "model":
        said = "".join(piece.content for piece in first)
        assert (status, kept, words) == ("incomplete", "incomplete", said)
    else:
        assert (status, kept, words) == ("committed", None, ANSWER)


def asked(kind: str, model: Any) -> Any:
    if kind == "abatch":
        return (PROMPT | model).abatch([{"q": "q"}], THREAD)
    if kind == "agenerate":
        return model.agenerate([[HumanMessage("q")]], metadata={"session_id": "s"})
    if kind == "graph":
        return graph_of(model).ainvoke({"messages": [HumanMessage("q")]}, THREAD)
    return (PROMPT | model).ainvoke({"q": "q"}, THREAD)


@pytest.mark.parametrize("kind", ["ainvoke", "abatch", "agenerate", "graph"])
async def test_a_task_that_is_cancelled_or_out_of_time(
    chat: Any, engine: Any, turns: Any, kind: str
) -> None:
    """LangChain fires no event then: the turn ends all the same."""
    with Wire(hang(20, then=text(ANSWER))) as wire:
        model = chat(wire)
        with install_ce(model, engine=engine):
            task = asyncio.create_task(asyncio.wait_for(asked(kind, model), timeout=20))
            while not wire.requests:  # noqa: ASYNC110 - the server runs on another thread
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        await model.root_async_client.close()
    assert await asyncio.to_thread(turns) == [("incomplete", 1, [])]
    assert await asyncio.to_thread(answers, engine) == []


def test_a_retry_and_a_fallback_of_streams(chat: Any, engine: Any, turns: Any) -> None:
    """They begin anew before the first piece only; the turn stays one."""
    with Wire([error(500, "no"), text(ANSWER)]) as wire:
        either = chat(wire).with_fallbacks([chat(wire)])
        with install_ce(either, engine=engine):
            assert "".join(c.content for c in either.stream("q", THREAD)) == ANSWER
    assert turns() == [("committed", 2, [])]
    assert answers(engine) == [(ANSWER, None)]


def test_all_attempts_fail(chat: Any, engine: Any, turns: Any) -> None:
    with Wire(error(500, "no")) as wire:
        patient = chat(wire).with_retry(stop_after_attempt=3, wait_exponential_jitter=False)
        with install_ce(patient, engine=engine), pytest.raises(Exception, match="no"):
            patient.invoke("q", THREAD)
        assert len(wire.requests) == 3
    ((status, attempt, _),) = turns()
    assert (status, attempt) == ("failed", 3)


def test_the_client_s_own_retries_are_nothing_to_us(chat: Any, engine: Any, turns: Any) -> None:
    with Wire([error(500, "no"), error(500, "no"), text("well")]) as wire:
        model = chat(wire, max_retries=2)
        with install_ce(model, engine=engine):
            assert model.invoke("q", THREAD).content == "well"
        assert len(wire.requests) == 3
    assert turns() == [("committed", 1, [])]


# What it used


USED: Any = {
    "input_tokens": 100,
    "output_tokens": 30,
    "total_tokens": 130,
    "input_token_details": {"cache_read": 64, "audio": 3},
    "output_token_details": {"reasoning": 16},
}


class Spending(BaseChatModel):
    """Says what it used, if it is to."""

    tells: bool = True

    @property
    def _llm_type(self) -> str:
        return "spending"

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        message = AIMessage("one two", usage_metadata=USED if self.tells else None)
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(self, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        for word in ("one ", "two"):
            yield ChatGenerationChunk(message=AIMessageChunk(content=word))
        used = USED if self.tells else None
        yield ChatGenerationChunk(message=AIMessageChunk(content="", usage_metadata=used))


@pytest.mark.scenario(15)
@pytest.mark.parametrize("tells", [True, False], ids=["told", "not told"])
def test_usage_is_the_model_s_or_an_estimate_never_both(
    engine: Any, call: Any, tells: bool
) -> None:
    model = Spending(tells=tells)
    with install_ce(model, engine=engine):
        assert call(model, "a question", THREAD).content == "one two"
    (used,) = rows(engine, "s")["usage"]
    if tells:
        assert used[2:5] == (100, 30, 130)
        assert used[5] == {"cache_read": 64, "reasoning": 16, "input_audio": 3}
    else:
        assert used[5] == {"estimated": True}
        assert used[4] == used[2] + used[3]
        assert min(used[2:4]) > 0
