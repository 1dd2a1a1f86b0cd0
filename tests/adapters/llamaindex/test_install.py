"""Installing and taking away: once, whole, without a trace; whose a model is that two share."""

from __future__ import annotations

import copy
import gc
import inspect
import pickle
from contextvars import copy_context
from typing import Any

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.llms import LLM, MockLLM
from llama_index.core.memory import BaseMemory
from llama_index.llms.openai import OpenAI
from llama_index_instrumentation.dispatcher import Dispatcher

from ce_engine import (
    BudgetConfig,
    ConfigError,
    MemoryStore,
    RuntimeConfig,
    Scope,
    UnsupportedTargetError,
    create_context_engine,
)
from ce_integrations.llamaindex import install_ce
from ce_integrations.testing.wire import Wire
from tests.adapters.llamaindex import shelf
from tests.adapters.llamaindex.test_agents import closing_over
from tests.adapters.llamaindex.test_endpoints import ENDPOINTS


pytestmark = pytest.mark.scenario(12)
KEY = "_ce_mark"
QUESTION = [ChatMessage("q")]


def attributes() -> dict[tuple[str, str], Any]:
    spans = ("span_enter", "span_exit", "span_drop")
    wrapped = {OpenAI: ENDPOINTS, MockLLM: ["complete"], Dispatcher: spans, BaseMemory: ["get"]}
    return {
        (cls.__name__, name): vars(cls)[name]
        for cls, names in wrapped.items()
        for name in names
        if name in vars(cls)
    }


def turns(engine: Any, session_id: str = "s") -> list[Any]:
    assert engine.sync.flush()
    return list(engine.loop.run(engine.store.list_turns(Scope(session_id=session_id))))


def test_uninstall_leaves_no_trace(engine: Any) -> None:
    gc.collect()
    install_ce(MockLLM(), engine=engine).uninstall()  # and with it what was collected unseen
    llm = OpenAI(model="gpt-4", api_key="no key")
    chat = shelf.context(llm)
    before = attributes(), dict(vars(llm)), dict(vars(chat)), llm.to_dict(), repr(llm)
    installation = install_ce(chat, engine=engine)
    assert attributes() != before[0]
    assert KEY in vars(llm)
    assert KEY in vars(chat)
    assert (llm.to_dict(), repr(llm), type(llm)) == (*before[3:], OpenAI)
    installation.uninstall()
    after = attributes()
    assert all(after[key] is value for key, value in before[0].items())
    assert (dict(vars(llm)), dict(vars(chat))) == before[1:3]
    installation.uninstall()  # again: nothing


def test_methods_stay_of_their_kind(engine: Any) -> None:
    def kinds() -> dict[Any, Any]:
        return {
            key: (inspect.iscoroutinefunction(found), str(inspect.signature(found)), found.__doc__)
            for key, found in attributes().items()
        }

    before = kinds()
    with install_ce(OpenAI(model="gpt-4", api_key="no key"), engine=engine):
        assert kinds() == before


def test_copies_stay_installed_and_pickles_do_not(engine: Any, call: Any) -> None:
    llm = MockLLM(max_tokens=3)
    with install_ce(llm, engine=engine, session_id="s"):
        for each in (copy.copy(llm), copy.deepcopy(llm), llm.model_copy()):
            call(each, "chat", QUESTION)
        assert len(turns(engine)) == 3
        thawed = pickle.loads(pickle.dumps(llm))
        call(thawed, "chat", QUESTION)
        call(MockLLM(max_tokens=3), "chat", QUESTION)
        assert len(turns(engine)) == 3
        kept = llm.model_copy()
    call(kept, "chat", QUESTION)
    call(llm, "chat", QUESTION)
    assert len(turns(engine)) == 3


def test_twice_is_once(engine: Any, call: Any) -> None:
    llm = MockLLM(max_tokens=3)
    one = install_ce(llm, engine=engine, session_id="s")
    assert install_ce(llm, engine=engine).hooks is one.hooks
    with pytest.raises(ConfigError, match="another session_id"):
        install_ce(llm, engine=engine, session_id="other")
    call(llm, "chat", QUESTION)
    assert [turn.attempt for turn in turns(engine)] == [1]


def test_what_others_put_there_stays(engine: Any, call: Any) -> None:
    """A mark that is gone is put again by the next installation of the same."""
    llm = MockLLM(max_tokens=3)
    installation = install_ce(llm, engine=engine, session_id="s")
    vars(llm).pop(KEY)
    call(llm, "chat", QUESTION)
    assert install_ce(llm).hooks is installation.hooks
    call(llm, "chat", QUESTION)
    assert len(turns(engine)) == 1


@pytest.mark.parametrize("target", [object(), "an agent", MockLLM, LLM, lambda: None])
def test_what_is_nothing_of_the_framework_is_refused(target: Any, engine: Any) -> None:
    with pytest.raises(UnsupportedTargetError, match="expected an agent, workflow"):
        install_ce(target, engine=engine)


def ask(runner: Any, agent: Any, question: str, session_id: str) -> None:
    async def run() -> None:
        await agent.run(question, memory=shelf.memory(session_id))

    runner.run(run(), context=copy_context())


def test_two_agents_with_one_model_and_two_engines(model: Any, runner: Any, engine: Any) -> None:
    other = create_context_engine(MemoryStore())
    with Wire("fine") as wire:
        llm = model(wire)
        one, two = FunctionAgent(llm=llm), FunctionAgent(llm=llm)
        first = install_ce(one, engine=engine)
        second = install_ce(two, engine=other)
        ask(runner, one, "of one", "a")
        ask(runner, two, "of two", "b")
        assert [len(turns(each, name)) for each, name in ((engine, "a"), (other, "b"))] == [1, 1]
        assert [turns(engine, "b"), turns(other, "a")] == [[], []]
        first.uninstall()
        ask(runner, one, "of one again", "a")
        ask(runner, two, "of two again", "b")
        assert [len(turns(each, name)) for each, name in ((engine, "a"), (other, "b"))] == [1, 2]
        second.uninstall()
        ask(runner, two, "of two again", "b")
        assert len(turns(other, "b")) == 2
        assert KEY not in vars(llm) | vars(one) | vars(two)
    other.sync.close()


def test_a_model_that_two_installations_would_govern(engine: Any, call: Any) -> None:
    llm = MockLLM(max_tokens=3)
    config = RuntimeConfig(budget=BudgetConfig(max_input_tokens=900))
    agent = install_ce(shelf.simple(llm), engine=engine)
    with pytest.raises(ConfigError, match="the MockLLM in the target"):
        install_ce(llm, engine=engine, config=config)
    agent.uninstall()
    with install_ce(llm, engine=engine, config=config, session_id="s"):
        call(llm, "chat", QUESTION)
    assert len(turns(engine)) == 1


def test_a_model_that_a_step_closes_over_is_found(engine: Any, call: Any) -> None:
    """It is asked outside of the workflow's runs, too."""
    llm = MockLLM(max_tokens=3)
    with install_ce(closing_over(llm), engine=engine, session_id="s"):
        call(llm, "chat", QUESTION)
    assert len(turns(engine)) == 1


def test_tools_and_retrievers_alone(engine: Any, stored: Any) -> None:
    from llama_index.core.tools import FunctionTool

    found = shelf.Shelf()
    double = FunctionTool.from_defaults(lambda n: 2 * n, name="double", description="d")
    with install_ce(found, engine=engine, session_id="s"):
        assert len(found.retrieve("q")) == 3
    with install_ce(double, engine=engine, session_id="s"):
        assert double.call(n=2).raw_output == 4
    assert found.retrieve("after the end")
    runs = stored("s").session.tool_state.tool_calls
    assert [(run.tool, run.status) for run in runs] == [("Shelf", "success"), ("double", "success")]
    assert runs[1].args_digest == {"n": 2}
