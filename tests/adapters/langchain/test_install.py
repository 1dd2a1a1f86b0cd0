"""Installing and taking away: once, whole, without a trace."""

from __future__ import annotations

import copy
import gc
import inspect
import pickle
import weakref
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler, CallbackManager
from langchain_core.language_models import BaseChatModel, BaseLLM, FakeListChatModel
from langchain_core.load import dumps
from langchain_core.messages import HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableGenerator, RunnableLambda
from langchain_core.tools import BaseTool, tool

from ce_engine import (
    BudgetConfig,
    ConfigError,
    MissingDependencyError,
    RuntimeConfig,
    StoreUrlError,
    UnsupportedTargetError,
    UnsupportedVersionError,
)
from ce_integrations.install.version_check import check_requirements
from ce_integrations.langchain import install_ce
from ce_integrations.langchain.installer import ADAPTER
from ce_integrations.testing.wire import Wire, text
from tests.adapters.langchain.releases import HAS, make_agent


CALLS = ("invoke", "ainvoke", "generate", "agenerate", "stream", "astream")
EVENTS = ("stream_events", "astream_events", "_iter_v2_events", "_aiter_v2_events")
WRAPPED = {
    BaseChatModel: (*CALLS, *(EVENTS if HAS["event_streams"] else ())),
    BaseLLM: (*CALLS, "batch", "abatch"),
    BaseRetriever: ("invoke", "ainvoke"),
    BaseTool: ("invoke", "ainvoke"),
    CallbackManager: ("on_chain_start", "on_tool_start", "on_retriever_start"),
}


def attributes() -> dict[tuple[str, str], Any]:
    return {(c.__name__, name): vars(c)[name] for c, names in WRAPPED.items() for name in names}


@tool
def double(n: int) -> int:
    """Double."""
    return 2 * n


def a_model() -> FakeListChatModel:
    return FakeListChatModel(responses=["one", "two", "three"])


@pytest.mark.scenario(10)
def test_uninstall_leaves_no_trace(engine: Any) -> None:
    gc.collect()
    install_ce(a_model(), engine=engine).uninstall()  # and with it what was collected unseen
    model = a_model()
    chain = ChatPromptTemplate.from_template("{q}") | model | StrOutputParser()
    classes, before = attributes(), (dict(vars(model)), set(model.model_fields_set), repr(model))
    installation = install_ce(chain, engine=engine)
    assert attributes() != classes
    assert model.callbacks is not None
    installation.uninstall()
    found = attributes()
    assert all(found[key] is classes[key] for key in classes)
    assert (dict(vars(model)), set(model.model_fields_set), repr(model)) == before
    assert not model.callbacks
    installation.uninstall()  # again: nothing


def test_functions_stay_of_their_kind(engine: Any, runner: Any) -> None:
    """LangChain asks for the kind before it calls; models that nobody governs are asked, too."""

    def kinds() -> dict[Any, list[bool]]:
        asks = (
            inspect.isgeneratorfunction,
            inspect.isasyncgenfunction,
            inspect.iscoroutinefunction,
        )
        return {key: [ask(found) for ask in asks] for key, found in attributes().items()}

    def used() -> list[Any]:
        model: Any = a_model()
        return [
            RunnableLambda(model.stream).invoke("x").content,
            runner.run(RunnableLambda(model.astream).ainvoke("x")).content,
            runner.run(RunnableLambda(model.agenerate).ainvoke([[HumanMessage("x")]])).flatten(),
            runner.run(RunnableLambda(model.ainvoke).ainvoke("x")).content,
            type(RunnableGenerator(model.stream)),
        ]

    before, plain = kinds(), used()
    governed = a_model()
    with install_ce(governed, engine=engine):
        assert kinds() == before
        found = used()
        assert inspect.isgeneratorfunction(governed.stream)
    assert [found[0], found[1], found[3:]] == [plain[0], plain[1], plain[3:]]
    assert [r.generations[0][0].text for r in found[2]] == ["three"]


def test_a_generator_of_nobody_s_model_hears_its_caller(engine: Any, runner: Any) -> None:
    heard: list[Any] = []

    class Own(FakeListChatModel):
        def stream(self, *args: Any, **kwargs: Any) -> Any:
            try:
                heard.append((yield 1))
                yield 2
            except KeyError:
                yield 3
            finally:
                heard.append("closed")

        async def astream(self, *args: Any, **kwargs: Any) -> Any:
            try:
                heard.append((yield 1))
                yield 2
            except KeyError:
                yield 3
            finally:
                heard.append("closed")

    async def later(pieces: Any) -> list[Any]:
        taken = [await anext(pieces), await pieces.asend("a"), await pieces.athrow(KeyError())]
        await pieces.aclose()
        return taken

    with install_ce(Own(responses=["x"]), engine=engine):
        nobody_s = Own(responses=["x"])
        pieces = nobody_s.stream("x")
        assert [next(pieces), pieces.send("a"), pieces.throw(KeyError())] == [1, 2, 3]
        pieces.close()
        assert runner.run(later(nobody_s.astream("x"))) == [1, 2, 3]
    assert heard == ["a", "closed"] * 2


@pytest.mark.scenario(10)
def test_a_graph_gets_its_very_configuration_back(engine: Any) -> None:
    graph: Any = make_agent(a_model(), [])
    before = graph.config  # `create_react_agent` gives its graph none
    with install_ce(graph, engine=engine):
        assert graph.config is not before
        assert {k: v for k, v in graph.config.items() if k != "callbacks"} == (before or {})
    assert graph.config is before


def test_tools_of_an_agent_are_marked_and_cleaned(engine: Any, chat: Any) -> None:
    with Wire() as wire:
        graph = make_agent(chat(wire), [double])
        with install_ce(graph, engine=engine):
            assert double.callbacks
        assert double.callbacks is None


def test_the_app_s_own_handlers_stay(engine: Any) -> None:
    class Own(BaseCallbackHandler):
        pass

    own = Own()
    as_list, as_manager = [own], CallbackManager([own])
    given: list[Any] = [as_list, as_manager]
    for callbacks in given:
        model = FakeListChatModel(responses=["x"], callbacks=callbacks)
        kept = model.callbacks
        with install_ce(model, engine=engine):
            assert model.callbacks is not kept
        assert model.callbacks is kept
    assert as_list == [own]
    assert as_manager.handlers == [own]


def test_handlers_that_the_app_sets_later_survive(engine: Any) -> None:
    class Own(BaseCallbackHandler):
        pass

    model, own = a_model(), Own()
    installation = install_ce(model, engine=engine)
    assert isinstance(model.callbacks, list)
    model.callbacks = [*model.callbacks, own]
    installation.uninstall()
    assert model.callbacks == [own]


@pytest.mark.scenario(10)
def test_twice_is_once(engine: Any, chat: Any) -> None:
    with Wire("hello") as wire:
        model = chat(wire)
        first = install_ce(model, engine=engine, session_id="s")
        others = install_ce(model), install_ce(model, engine=engine, session_id="s")
        assert {each.hooks for each in others} == {first.hooks}
        model.invoke("hi")
        for each in (first, *others):
            each.uninstall()
        assert model.callbacks is None
        report = first.last_report("s")
        assert report is not None
        assert report.attempt == 1
        second = install_ce(model, engine=engine)
        assert second.hooks is not first.hooks
        second.uninstall()


def test_twice_with_other_options_is_refused(engine: Any) -> None:
    model = a_model()

    def install(session: str) -> Any:
        return install_ce(model, engine=engine, session_id=lambda info: session)

    with install("a") as first:
        with install("a") as again:  # the same function, made again
            assert again.hooks is first.hooks
        with pytest.raises(ConfigError, match="another session_id"):
            install("b")
        with pytest.raises(ConfigError, match="another config"):
            install_ce(model, config=RuntimeConfig(budget=BudgetConfig(max_input_tokens=99)))
    assert model.callbacks is None


def test_a_shared_model_cannot_have_two_masters(engine: Any) -> None:
    model = a_model()
    one, two = model | StrOutputParser(), model | StrOutputParser()
    with install_ce(one, engine=engine, session_id="a"):
        with pytest.raises(ConfigError, match="FakeListChatModel"):
            install_ce(two, engine=engine, session_id="b")
        with install_ce(two, engine=engine, session_id="a"):
            pass
        assert model.callbacks is not None
    assert model.callbacks is None


@pytest.mark.parametrize("target", [object(), "a text", 5, None, {"a": 1}, len], ids=type)
def test_what_is_no_target(target: Any, engine: Any) -> None:
    with pytest.raises(UnsupportedTargetError, match="expected a model, chain, retriever"):
        install_ce(target, engine=engine)


def test_a_chain_without_anything_to_govern(engine: Any) -> None:
    classes = attributes()
    with pytest.raises(UnsupportedTargetError, match="found no model"):
        install_ce(StrOutputParser() | RunnableLambda(len), engine=engine)
    assert attributes() == classes


def test_an_unknown_store(engine: Any) -> None:
    model, classes = a_model(), attributes()
    with pytest.raises(StoreUrlError):
        install_ce(model, store="mongodb://nowhere")
    with pytest.raises(ConfigError, match="engine and a store"):
        install_ce(model, engine=engine, store="memory://")
    with pytest.raises(ConfigError, match="RuntimeConfig"):
        install_ce(model, config={"budget": 5})  # type: ignore[arg-type]  # what it is about
    with pytest.raises(ConfigError, match="'open' or 'closed'"):
        install_ce(model, engine=engine, fail="ajar")  # type: ignore[arg-type]  # what it is about
    assert model.callbacks is None
    assert attributes() == classes


@pytest.mark.req("A-25")
def test_versions_out_of_range(monkeypatch: pytest.MonkeyPatch, engine: Any) -> None:
    model, classes = a_model(), attributes()
    monkeypatch.setattr(type(ADAPTER), "requires", ("langchain-core>=99",))
    with pytest.raises(
        UnsupportedVersionError, match=r"langchain-core [01]\..*expected.*>=99.*pip"
    ):
        install_ce(model, engine=engine)
    monkeypatch.setattr(type(ADAPTER), "requires", ("no-such-distribution>=1",))
    with pytest.raises(MissingDependencyError, match=r"pip install 'ce-integrations\[langchain\]'"):
        install_ce(model, engine=engine)
    assert model.callbacks is None
    assert attributes() == classes
    check_requirements(("langchain-core>=0.3.73,<2",), "langchain")
    check_requirements(("langchain-core>=1.7",), "langchain", {"langchain-core": "1.8.0rc1"})


def test_nothing_is_half_installed(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from ce_integrations.langchain import marks

    model, other = a_model(), a_model()
    classes, done = attributes(), list[Any]()

    def fails_at_the_second(place: Any, *args: Any) -> Any:
        if done:
            raise RuntimeError("no")
        done.append(place)
        return put(place, *args)

    put = vars(marks)["put"]
    monkeypatch.setattr(marks, "put", fails_at_the_second)
    with pytest.raises(RuntimeError):
        install_ce(model.with_fallbacks([other]), engine=engine)
    assert done
    assert model.callbacks is other.callbacks is None
    assert attributes() == classes


def test_copies_belong_to_it_and_fall_silent_with_it(engine: Any, chat: Any, stored: Any) -> None:
    with Wire("hello") as wire:
        model = chat(wire)
        installation = install_ce(model, engine=engine, session_id="s")
        copies = [
            model.model_copy(update={"temperature": 0.5}),
            copy.copy(model),
            model.bind(stop=["x"]),
            model.with_config(tags=["t"]),
            model.with_retry(),
        ]
        for each in copies:
            each.invoke("from a copy")
        assert wire.bodies[0]["temperature"] == 0.5
        installation.uninstall()
        for each in copies:
            each.invoke("after the end")
    asked = [m.content for m in stored("s").session.messages if m.role == "user"]
    assert set(asked) == {"from a copy"}
    assert len(stored("s").session.model_usage) == len(copies)


@pytest.mark.scenario(7)
def test_copies_in_depth_pickles_and_cache_keys_are_as_before(engine: Any, chat: Any) -> None:
    with Wire() as wire:
        model = chat(wire)
        plain = (dumps(model), model._get_llm_string())
        with install_ce(model, engine=engine):
            assert (dumps(model), model._get_llm_string()) == plain
    fake = a_model()
    with install_ce(fake, engine=engine):
        deep: Any = copy.deepcopy(fake)
        assert deep.callbacks == fake.callbacks
        (mark,) = deep.callbacks
        assert type(pickle.loads(pickle.dumps(mark))) is BaseCallbackHandler


def test_a_target_that_is_dropped_frees_all(engine: Any) -> None:
    engine.sync.flush()  # its loop keeps the context in which it was first used
    gc.collect()
    install_ce(a_model(), engine=engine).uninstall()  # what other tests dropped is tidied up now
    classes = attributes()
    model = a_model()
    gone = weakref.ref(install_ce(model, engine=engine))
    model.invoke("x")
    del model
    engine.sync.flush()  # a turn that is being stored may hold it
    gc.collect()
    assert gone() is None
    install_ce(keep := a_model(), engine=engine).uninstall()  # the next one tidies up
    assert keep.callbacks is None
    assert attributes() == classes


def test_models_are_found_where_callables_hide_them(engine: Any, chat: Any, stored: Any) -> None:
    with Wire("hello") as wire:
        closed_over, as_default, inner = chat(wire), chat(wire), chat(wire)

        class Helper:
            def __init__(self, model: Any) -> None:
                self.model = model

            def ask(self, question: str) -> str:
                return str(self.model.invoke(question).content)

        def by_closure(question: str) -> str:
            return str(closed_over.invoke(question).content)

        def by_default(question: str, model: Any = as_default) -> str:
            return str(model.invoke(question).content)

        chain = RunnableLambda(by_closure) | RunnableLambda(by_default) | Helper(inner).ask
        with install_ce(chain, engine=engine, session_id="s"):
            chain.invoke("q")
    assert len(stored("s").session.model_usage) == 3


@pytest.mark.scenario(4)
def test_a_model_made_inside_a_node_is_governed_by_its_graph(
    engine: Any, chat: Any, stored: Any
) -> None:
    from langgraph.graph import END, START, MessagesState, StateGraph

    with Wire(text("made late")) as wire:

        def node(state: MessagesState) -> Any:
            return {"messages": [chat(wire).invoke(state["messages"])]}

        graph = StateGraph(MessagesState).add_node("late", node)
        app = graph.add_edge(START, "late").add_edge("late", END).compile()
        given: Any = {"messages": [("user", "q")]}
        with install_ce(app, engine=engine):
            app.invoke(given, {"configurable": {"thread_id": "t"}})
    assert [m.content for m in stored("t").session.messages] == ["q", "made late"]
