"""What an installation leaves of the app's own handlers and settings, and of itself on what is shared."""

from __future__ import annotations

import copy
import gc
import weakref
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler, CallbackManager
from langchain_core.language_models import FakeListChatModel
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.tools import tool

from ce_engine import ConfigError
from ce_integrations.langchain import install_ce
from tests.adapters.langchain.releases import make_agent


THREAD: Any = {"configurable": {"thread_id": "t"}}
PROMPT = ChatPromptTemplate([("human", "{q}")])


class Ears(BaseCallbackHandler):
    """Counts what it hears of."""

    def __init__(self) -> None:
        self.heard = 0

    def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None:
        self.heard += 1

    def on_tool_start(self, *args: Any, **kwargs: Any) -> None:
        self.heard += 1


def a_model(callbacks: Any = None) -> Any:
    return FakeListChatModel(responses=["an answer"], callbacks=callbacks)


# The app's own handlers and settings


def test_a_manager_hears_of_handlers_that_come_later(engine: Any, call: Any, stored: Any) -> None:
    manager, before, after, other = CallbackManager([]), Ears(), Ears(), Ears()
    manager.add_handler(before)
    model = a_model(manager)
    with install_ce(model, engine=engine):
        manager.add_handler(after)
        model.callbacks.add_handler(other)
        call(model, "q", THREAD)
        manager.remove_handler(before)
        call(model, "q again", THREAD)
        assert manager.handlers == [after, other]
    assert [ears.heard for ears in (before, after, other)] == [1, 2, 2]
    assert model.callbacks is manager
    assert manager.handlers == [after, other]
    assert len(stored("t").session.messages) == 4


def test_a_manager_s_other_uses_are_as_before(engine: Any) -> None:
    manager = CallbackManager([first := Ears()], tags=["mine"])
    model, unmarked = a_model(manager), a_model(manager)
    with install_ce(model, engine=engine):
        assert unmarked.callbacks.handlers == [first]  # nobody installed on that one
        found = model.callbacks
        assert (found.tags, found.parent_run_id) == (["mine"], None)
        found.add_metadata({"k": "v"})
        assert manager.metadata == {"k": "v"}
        other = Ears()
        merged = found.merge(CallbackManager([other]))
        assert set(merged.handlers) == {first, other, found.mark}
        deep = copy.deepcopy(found)
        assert [type(handler) for handler in deep.handlers[:-1]] == [Ears]
        found.set_handlers([other])
        assert found.handlers[0] is other
    assert model.callbacks.handlers == [other]


def test_a_tool_s_and_a_graph_s_manager_too(engine: Any) -> None:
    @tool
    def double(n: int) -> int:
        """Double."""
        return 2 * n

    double.callbacks = of_tool = CallbackManager([])
    of_graph = CallbackManager([])
    graph: Any = make_agent(a_model(), [])
    graph.config = {**(graph.config or {}), "callbacks": of_graph}
    with install_ce(double, engine=engine), install_ce(graph, engine=engine):
        of_tool.add_handler(tool_ears := Ears())
        of_graph.add_handler(graph_ears := Ears())
        double.invoke({"n": 1})
        graph.invoke({"messages": ["q"]}, THREAD)
    assert (tool_ears.heard, graph_ears.heard) == (1, 1)
    assert double.callbacks is of_tool
    assert graph.config["callbacks"] is of_graph


@pytest.mark.parametrize("given", [None, [], [Ears()]], ids=["none", "empty", "one"])
def test_a_handler_added_to_the_list_stays(engine: Any, given: Any) -> None:
    model, ears = a_model(given), Ears()
    installation = install_ce(model, engine=engine)
    model.callbacks.append(ears)
    model.invoke("q")
    installation.uninstall()
    model.invoke("q")
    assert ears.heard == 2
    assert model.callbacks == [*(given or ()), ears]


def test_what_the_app_put_in_place_stays_that_very_object(engine: Any) -> None:
    model, ears = a_model([Ears()]), Ears()
    with install_ce(model, engine=engine):
        model.callbacks = mine = list[Any](model.callbacks[:-1])
    mine.append(ears)
    model.invoke("q")
    assert ears.heard == 1


def test_settings_of_a_graph_stay(engine: Any) -> None:
    graph: Any = make_agent(a_model(), [])
    graph.config = before = dict(graph.config or {})
    with install_ce(graph, engine=engine):
        graph.config["tags"] = ["mine"]
        graph.config["callbacks"].append(ears := Ears())
    assert graph.config == {**before, "tags": ["mine"], "callbacks": [ears]}
    with install_ce(graph, engine=engine):
        del graph.config["callbacks"]
    assert graph.config == {**before, "tags": ["mine"]}


# Marks on what is shared


def marks(model: Any) -> int:
    return len(model.callbacks or ())


def test_an_installation_a_request_leaves_one_mark(engine: Any, stored: Any) -> None:
    model, made = a_model(), []

    def handle(question: str) -> None:
        chain = PROMPT | model
        made.append(weakref.ref(install_ce(chain, engine=engine)))
        chain.invoke({"q": question}, THREAD)
        install_ce(model.bind(stop=["x"]), engine=engine)

    for n in range(8):
        handle(str(n))
    engine.sync.flush()  # a turn that is being stored may hold its installation
    gc.collect()
    assert marks(model) == 1
    assert sum(each() is not None for each in made) <= 1
    assert len(stored("t").session.messages) == 16
    (mark,) = model.callbacks
    assert mark.hooks.wiring.heirs == {}


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "dropped"])
def test_when_the_first_one_goes_the_others_go_on(engine: Any, stored: Any, kept: bool) -> None:
    model = a_model()
    one, two = PROMPT | model, PROMPT | model
    first = install_ce(one, engine=engine)
    second = install_ce(two, engine=engine)
    if not kept:
        del second
        gc.collect()
    first.uninstall()
    two.invoke({"q": "q"}, THREAD)
    assert len(stored("t").session.messages) == 2
    install_ce(two, engine=engine).uninstall()
    two.invoke({"q": "the second one is there"}, THREAD)
    assert len(stored("t").session.messages) == 4
    if kept:
        second.uninstall()
        assert model.callbacks is None


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "dropped"])
def test_who_shares_a_model_stays_installed_when_others_go(
    engine: Any, stored: Any, kept: bool
) -> None:
    model = a_model()
    one, two = PROMPT | model, PROMPT | model
    first, second = install_ce(one, engine=engine), install_ce(two, engine=engine)
    if not kept:
        del second
        gc.collect()
    install_ce(two, engine=engine).uninstall()
    first.uninstall()
    two.invoke({"q": "q"}, THREAD)
    assert len(stored("t").session.messages) == 2


def test_who_went_before_does_not_come_back(engine: Any) -> None:
    model = a_model()
    one, two, three = PROMPT | model, PROMPT | model, PROMPT | model
    first = install_ce(one, engine=engine, session_id="a")
    install_ce(two, engine=engine).uninstall()
    with pytest.raises(ConfigError, match="another session_id"):
        install_ce(three, engine=engine, session_id="b")
    first.uninstall()
    assert model.callbacks is None


def test_marks_that_are_dead_are_let_go(engine: Any) -> None:
    model = a_model()
    with install_ce(model, engine=engine):
        left = model.model_copy()
    assert marks(left) == 1
    with install_ce(left, engine=engine):
        assert marks(left) == 1
    assert not left.callbacks


def test_what_lost_its_mark_is_attached_anew(engine: Any, call: Any, stored: Any) -> None:
    model = a_model()
    chain = PROMPT | model
    with install_ce(model, engine=engine) as first, install_ce(chain, engine=engine):
        model.callbacks = []
        again = install_ce(model, engine=engine)
        assert again.hooks is first.hooks
        again.uninstall()
        call(model, "q", THREAD)
        model.callbacks = [ears := Ears()]
        with install_ce(chain, engine=engine):
            chain.invoke({"q": "again"}, THREAD)
    assert len(stored("t").session.messages) == 4
    assert model.callbacks == [ears]
