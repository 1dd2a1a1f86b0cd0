"""Every way to call, compose and configure a model: what is brought in goes out, prepared once a call."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import (
    ConfigurableField,
    RunnableBranch,
    RunnableLambda,
    RunnableParallel,
)
from langchain_core.tools import tool

from ce_engine import ContextEngine, Scope
from ce_integrations import ce_session
from ce_integrations.langchain import install_ce
from ce_integrations.testing.wire import Wire


PROMPT = ChatPromptTemplate.from_messages([("system", "You help."), ("human", "{q}")])
RULE = "Answer in English."
HI: Any = {"q": "你好"}
TWO: Any = [{"q": "one"}, {"q": "two"}]


@pytest.fixture
def engine(engine: ContextEngine) -> ContextEngine:
    """One that has something to bring into every call."""
    engine.sync.constraints.create(Scope(session_id="any"), RULE)
    return engine


def attempts(engine: ContextEngine) -> list[tuple[str, int]]:
    """(status, attempt) of every turn of every session."""
    assert engine.sync.flush()
    found = engine.loop.run(engine.store.list_sessions(user_id=None, ephemeral=True))
    return [
        (str(turn.status), turn.attempt)
        for session in found
        for turn in engine.loop.run(engine.store.list_turns(Scope(session_id=session.session_id)))
    ]


def assembled(wire: Wire) -> Counter[int]:
    """How often the rule stands in each body."""
    return Counter(str(body["messages"]).count(RULE) for body in wire.bodies)


async def _all(pieces: Any) -> list[Any]:
    return [piece async for piece in pieces]


def _joined(pieces: list[Any]) -> list[str]:
    return ["".join(pieces)]


Asked = Callable[[Any], Awaitable[list[str]]]


async def _ainvoke(chain: Any) -> list[str]:
    return [await chain.ainvoke(HI)]


async def _astream(chain: Any) -> list[str]:
    return _joined(await _all(chain.astream(HI)))


async def _abatch(chain: Any) -> list[str]:
    return list(await chain.abatch(TWO))


async def _abatch_as_completed(chain: Any) -> list[str]:
    return [answer for _, answer in sorted(await _all(chain.abatch_as_completed(TWO)))]


def _events(version: str) -> Asked:
    async def read(chain: Any) -> list[str]:
        events = await _all(chain.astream_events(HI, version=version))
        pieces = [
            e["data"]["chunk"].content for e in events if e["event"] == "on_chat_model_stream"
        ]
        return _joined(pieces)

    return read


async def _astream_log(chain: Any) -> list[str]:
    run = None
    async for patch in chain.astream_log(HI):
        run = patch if run is None else run + patch
    assert run is not None
    return [run.state["final_output"]]


ASYNC: dict[str, Asked] = {
    "ainvoke": _ainvoke,
    "astream": _astream,
    "abatch": _abatch,
    "abatch_as_completed": _abatch_as_completed,
    "astream_events v1": _events("v1"),
    "astream_events v2": _events("v2"),
    "astream_log": _astream_log,
}
SYNC: dict[str, Callable[[Any], list[str]]] = {
    "invoke": lambda chain: [chain.invoke(HI)],
    "stream": lambda chain: _joined(list(chain.stream(HI))),
    "batch": lambda chain: list(chain.batch(TWO)),
    "batch_as_completed": lambda chain: [a for _, a in sorted(chain.batch_as_completed(TWO))],
    "transform": lambda chain: _joined(list(chain.transform(iter([HI])))),
}


@pytest.mark.req("A-24")
@pytest.mark.scenario(1)
@pytest.mark.filterwarnings(
    "ignore:astream_log is deprecated", "ignore:astream_events version='v1'"
)
@pytest.mark.parametrize("way", [*SYNC, *ASYNC])
def test_each_call_is_assembled_once(chat: Any, engine: Any, runner: Any, way: str) -> None:
    with Wire(lambda body: f"to {body['messages'][-1]['content']}") as wire:
        chain = PROMPT | chat(wire) | StrOutputParser()
        with install_ce(chain, engine=engine, session_id="s"):
            found = SYNC[way](chain) if way in SYNC else runner.run(ASYNC[way](chain))
        assert assembled(wire) == {1: len(found)}
        assert wire.refusals == []
    assert found in (["to 你好"], ["to one", "to two"])
    assert attempts(engine) == [("committed", 1)] * len(found)


@pytest.mark.scenario(1)
@pytest.mark.needs("event_streams")
@pytest.mark.filterwarnings("ignore:.*is in beta")
@pytest.mark.parametrize("bound", [False, True], ids=["model", "bound"])
@pytest.mark.parametrize("way", ["stream_events", "astream_events"])
def test_events_of_version_3(chat: Any, engine: Any, runner: Any, way: str, bound: bool) -> None:
    async def read(model: Any) -> str:
        stream = await model.astream_events("你好", version="v3")
        return "".join(await _all(stream.text))

    with Wire("fine") as wire:
        model = chat(wire)
        target = model.bind(stop=["x"]) if bound else model
        with install_ce(target, engine=engine, session_id="s"):
            if way == "stream_events":
                said = "".join(target.stream_events("你好", version="v3").text)
            else:
                said = runner.run(read(target))
        assert said == "fine"
        assert assembled(wire) == {1: 1}
        assert ("stop" in wire.bodies[0]) is bound
    assert attempts(engine) == [("committed", 1)]


@pytest.mark.scenario(2)
@pytest.mark.parametrize("mode", ["invoke", "ainvoke", "stream", "batch"], indirect=True)
@pytest.mark.parametrize("kind", ["tools", "structure"])
def test_what_is_bound_after_the_installation_goes_out_as_it_was(
    chat: Any, engine: Any, call: Any, mode: str, kind: str
) -> None:
    @tool
    def lookup(word: str) -> str:
        """Look a word up."""
        return word

    schema = {
        "title": "verdict",
        "description": "A verdict.",
        "type": "object",
        "properties": {"good": {"type": "boolean"}},
        "required": ["good"],
    }

    def bind(model: Any) -> Any:
        if kind == "tools":
            return model.bind_tools([lookup], tool_choice="auto", temperature=0.25)
        return model.with_structured_output(schema, method="json_schema", strict=True)

    def ask(bound: Any) -> None:
        if mode == "stream":  # its pieces cannot be added up
            list(bound.stream("judge"))
        else:
            call(bound, "judge")

    with Wire('{"good": true}') as wire:
        plain, model = chat(wire, top_p=0.5), chat(wire, top_p=0.5)
        ask(bind(plain))
        with install_ce(model, engine=engine, session_id="s"):
            ask(bind(model))
        first, second = ({**body, "messages": None} for body in wire.bodies)
        assert first == second
        assert {"top_p", "tools" if kind == "tools" else "response_format"} <= set(first)
    assert attempts(engine) == [("committed", 1)]


# Composed and configured


def heated(model: Any) -> Any:
    return model.configurable_fields(temperature=ConfigurableField(id="heat"))


def alternatives(model: Any) -> Any:
    other = model.model_copy(update={"model_name": "gpt-4o"})
    return model.configurable_alternatives(
        ConfigurableField(id="which"), default_key="one", two=other
    )


@pytest.mark.scenario(3)
def test_fields_that_are_chosen_with_the_call(chat: Any, engine: Any, call: Any) -> None:
    with Wire("fine") as wire:
        chain = PROMPT | heated(chat(wire)) | StrOutputParser()
        with install_ce(chain, engine=engine, session_id="s"):
            for heat in (0.25, 0.75):
                assert call(chain, HI, {"configurable": {"heat": heat}}) == "fine"
        assert [body.get("temperature") for body in wire.bodies] == [0.25, 0.75]
        assert assembled(wire) == {1: 2}
    assert attempts(engine) == [("committed", 1)] * 2


@pytest.mark.scenario(3)
def test_alternatives_that_are_chosen_with_the_call(chat: Any, engine: Any, call: Any) -> None:
    with Wire("fine") as wire:
        chain = PROMPT | alternatives(chat(wire)) | StrOutputParser()
        with install_ce(chain, engine=engine, session_id="s"):
            for which in ("one", "two"):
                assert call(chain, HI, {"configurable": {"which": which}}) == "fine"
        assert [body["model"] for body in wire.bodies] == ["gpt-4o-mini", "gpt-4o"]
        assert assembled(wire) == {1: 2}
    assert attempts(engine) == [("committed", 1)] * 2


@pytest.fixture
def any_model(monkeypatch: pytest.MonkeyPatch) -> Callable[[Wire], Any]:
    """`init_chat_model(configurable_fields="any")`: the model is made anew with each call."""
    from langchain.chat_models import init_chat_model

    def make(wire: Wire, **defaults: Any) -> Any:
        monkeypatch.setenv("OPENAI_BASE_URL", wire.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        return init_chat_model(configurable_fields="any", **defaults)

    return make


NO_TOOL = {"title": "nothing", "description": "Do nothing.", "type": "object", "properties": {}}
NAMES = ("gpt-4o-mini", "gpt-4o")


@pytest.mark.scenario(3)
@pytest.mark.parametrize("mode", ["invoke", "ainvoke", "stream", "batch"], indirect=True)
def test_a_model_that_is_chosen_with_the_call(
    chat: Any, engine: Any, call: Any, any_model: Any
) -> None:
    with Wire("fine") as wire:
        model = any_model(wire)
        chain = PROMPT | model.bind_tools([NO_TOOL]) | StrOutputParser()
        with install_ce(chain, engine=engine), ce_session("s"):
            for name in NAMES:
                assert call(chain, HI, {"configurable": {"model": f"openai:{name}"}}) == "fine"
        assert [body["model"] for body in wire.bodies] == [*NAMES]
        assert all(body["tools"] for body in wire.bodies)
        assert assembled(wire) == {1: 2}
        call(chain, HI, {"configurable": {"model": f"openai:{NAMES[0]}"}})
        assert assembled(wire) == {1: 2, 0: 1}
    assert attempts(engine) == [("committed", 1)] * 2


@pytest.mark.scenario(3, 10)
@pytest.mark.parametrize("defaults", [{}, {"model": "openai:gpt-4o", "temperature": 0.5}], ids=str)
def test_one_that_is_bound_after_the_installation(
    engine: Any, any_model: Any, defaults: Any
) -> None:
    with Wire("fine") as wire:
        model = any_model(wire, **defaults)
        before, settings = dict(vars(model)), repr(vars(model))
        chosen = {"configurable": {"model": "openai:gpt-4o-mini"}}
        with install_ce(model, engine=engine, session_id="s") as installation:
            with install_ce(model) as again:
                assert again.hooks is installation.hooks
            for each in (model, model.bind_tools([NO_TOOL]), model.with_config(tags=["x"])):
                assert hasattr(each, "model_name") is bool(defaults)
            model.with_config(chosen).bind(stop=["x"]).invoke("你好")
        assert (wire.bodies[0]["model"], wire.bodies[0]["stop"]) == ("gpt-4o-mini", ["x"])
        assert assembled(wire) == {1: 1}
    assert vars(model) == before
    assert all(value is before[name] for name, value in vars(model).items())
    assert repr(vars(model)) == settings
    assert attempts(engine) == [("committed", 1)]


class Ears(BaseCallbackHandler):
    """A listener that counts runs."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def __call__(self, run: Any) -> None:
        self.heard.append(run.name)


@pytest.mark.scenario(3)
def test_listeners_hear_of_each_call_once(chat: Any, engine: Any, call: Any) -> None:
    start, end = Ears(), Ears()
    with Wire("fine") as wire:
        listened = chat(wire).with_listeners(on_start=start, on_end=end)
        with install_ce(listened, engine=engine, session_id="s"):
            assert call(listened, "你好").content == "fine"
        assert assembled(wire) == {1: 1}
    assert start.heard == end.heard == ["ChatOpenAI"]
    assert attempts(engine) == [("committed", 1)]


@pytest.mark.scenario(3)
def test_a_whole_tree_of_them(chat: Any, engine: Any, call: Any) -> None:
    """Parallel, branch, map, assign, fallback, retry and a function in one chain, a session for all."""
    with Wire(lambda body: f"to {body['messages'][-1]['content']}") as wire:
        model = chat(wire)
        to_text = model | StrOutputParser()

        def ask(question: str) -> str:
            return str(model.invoke(question).content)

        chain: Any = RunnableParallel(
            branch=RunnableBranch((lambda q: q == "no", to_text), to_text.with_retry()),
            map=RunnableLambda(lambda q: [f"{q} 1", f"{q} 2"]) | to_text.map(),
            function=RunnableLambda(ask),
        ).assign(
            later=RunnableLambda(lambda x: x["function"]) | to_text.with_fallbacks([to_text])
        ) | RunnableLambda(lambda found: [found])
        with install_ce(chain, engine=engine):
            (found,) = call(chain, "q", {"configurable": {"session_id": "s"}})
        assert found == {
            "branch": "to q",
            "map": ["to q 1", "to q 2"],
            "function": "to q",
            "later": "to to q",
        }
        assert assembled(wire) == {1: 5}
    assert attempts(engine) == [("committed", 1)] * 5


@pytest.mark.scenario(6)
@pytest.mark.filterwarnings("ignore:Unexpected type for token usage")  # langchain-openai's own
def test_prompts_given_to_generate_by_hand(chat: Any, engine: Any, runner: Any) -> None:
    with Wire(lambda body: f"to {body['messages'][-1]['content']}") as wire:
        model = chat(wire)
        prompts = [PROMPT.invoke(each) for each in TWO]
        with install_ce(model, engine=engine, session_id="s"):
            one = model.generate_prompt(prompts)
            two = runner.run(model.agenerate_prompt(prompts))
            three = model.generate([[HumanMessage("three")]])
        said = [g[0].text for result in (one, two, three) for g in result.generations]
        assert said == ["to one", "to two", "to one", "to two", "to three"]
        assert assembled(wire) == {1: 5}
    assert attempts(engine) == [("committed", 1)] * 5


@pytest.mark.scenario(12)
def test_a_task_of_the_app_s_own_is_in_its_session(chat: Any, engine: Any, stored: Any) -> None:
    """`asyncio.gather` over sessions on one loop."""

    async def ask(model: Any, name: str) -> None:
        async with ce_session(name):
            await asyncio.sleep(0)
            await model.ainvoke(f"I am {name}")

    async def all_of(model: Any) -> None:
        await asyncio.gather(*(ask(model, f"s{n}") for n in range(6)))

    with (
        Wire(lambda body: f"to {body['messages'][-1]['content']}") as wire,
        asyncio.Runner() as loop,
    ):
        model = chat(wire)
        with install_ce(model, engine=engine):
            loop.run(all_of(model), context=copy_context())
            loop.run(model.root_async_client.close())
    for n in range(6):
        said = [m.content for m in stored(f"s{n}").session.messages]
        assert said == [f"I am s{n}", f"to I am s{n}"]
