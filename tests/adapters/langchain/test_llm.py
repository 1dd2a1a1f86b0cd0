"""Models that take one text: every entry point, batches in one call, usage and cache."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseLLM, FakeListChatModel
from langchain_core.messages import HumanMessage
from langchain_core.outputs import Generation, GenerationChunk, LLMResult
from langchain_core.prompts import PromptTemplate

from ce_engine import BudgetConfig, RuntimeConfig, Scope
from ce_integrations.langchain import install_ce


SEEN: list[str] = []


class Echo(BaseLLM):
    """Answers with the length of its prompt."""

    tells_usage: bool = False

    @property
    def _llm_type(self) -> str:
        return "echo"

    def _generate(
        self,
        prompts: list[str],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> LLMResult:
        SEEN.extend(prompts)
        generations = [[Generation(text=f"{len(prompt)} 字")] for prompt in prompts]
        usage = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}
        told = {"token_usage": usage} if self.tells_usage else None
        return LLMResult(generations=generations, llm_output=told)

    def _stream(
        self,
        prompt: str,
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[GenerationChunk]:
        SEEN.append(prompt)
        for piece in f"{len(prompt)} 字":
            yield GenerationChunk(text=piece)


@pytest.fixture(autouse=True)
def _forget() -> None:
    SEEN.clear()


@pytest.mark.scenario(6)
def test_one_text_goes_through_as_it_is(engine: Any, call: Any, stored: Any) -> None:
    chain = PromptTemplate.from_template("Say {word}!") | Echo()
    with install_ce(chain, engine=engine):
        answer = call(chain, {"word": "你好"}, {"configurable": {"thread_id": "t"}})
    assert answer == "7 字"
    assert SEEN == ["Say 你好!"]
    assert [m.content for m in stored("t").session.messages] == ["Say 你好!", "7 字"]


def test_nothing_is_brought_into_a_text_that_the_app_put_together(engine: Any, call: Any) -> None:
    model = Echo()
    with install_ce(model, engine=engine, session_id="s"):
        for word in ("one", "two", "three"):
            call(model, word)
    assert SEEN == ["one", "two", "three"]


def test_messages_become_the_very_text_of_before(engine: Any, call: Any) -> None:
    model = Echo()
    given = [("system", "s"), ("human", "h"), ("ai", "a"), ("human", "q")]
    call(model, given)
    with install_ce(model, engine=engine):
        call(model, given)
    assert len(SEEN) == 2
    assert SEEN[0] == SEEN[1]


@pytest.mark.scenario(6)
@pytest.mark.parametrize("limit", [None, 2], ids=["at once", "by two"])
def test_a_batch_has_a_turn_for_each(engine: Any, limit: int | None, runner: Any) -> None:
    model = Echo()
    words: list[Any] = ["a", "bb", "ccc"]
    configs: list[Any] = [
        {"configurable": {"thread_id": word}, "max_concurrency": limit} for word in words
    ]
    with install_ce(model, engine=engine):
        expected = ["1 字", "2 字", "3 字"]
        assert model.batch(words, configs) == expected
        assert runner.run(model.abatch(inputs=words, config=configs)) == expected
    assert engine.sync.flush()
    for word in words:
        document = engine.loop.run(engine.store.get_session(Scope(session_id=word)))
        assert len(document.session.model_usage) == 2
        assert {m.content for m in document.session.messages} == {word, f"{len(word)} 字"}


@pytest.mark.scenario(6)
def test_generate_by_hand(engine: Any, runner: Any, stored: Any) -> None:
    model = Echo(tells_usage=True)
    with install_ce(model, engine=engine, session_id="s"):
        assert model.generate(["one"]).generations[0][0].text == "3 字"
        assert model.generate(prompts=["two!"]).generations[0][0].text == "4 字"
        assert runner.run(model.agenerate(["three"])).generations[0][0].text == "5 字"
    usages = stored("s").session.model_usage
    assert [(u.prompt_tokens, u.completion_tokens, u.total_tokens) for u in usages] == [
        (7, 2, 9)
    ] * 3
    assert not any(u.params.get("estimated") for u in usages)


@pytest.mark.scenario(8)
def test_an_answer_from_the_cache_spends_nothing(engine: Any, stored: Any) -> None:
    models: list[Any] = [
        Echo(cache=InMemoryCache()),
        FakeListChatModel(responses=["x"], cache=InMemoryCache()),
    ]
    for n, model in enumerate(models):
        with install_ce(model, engine=engine):
            for call in ("a", "b"):
                model.invoke([HumanMessage("q")], {"metadata": {"session_id": f"{call}{n}"}})
        (first,) = stored(f"a{n}").session.model_usage
        (second,) = stored(f"b{n}").session.model_usage
        assert "cached" not in first.params
        assert second.params["cached"] is True
        assert second.total_tokens == 0


def test_over_budget_one_text_stays_one_text(engine: Any, call: Any) -> None:
    """What is one text is the task message: nothing of it is ours to leave out, and we say so."""
    model = Echo()
    small = RuntimeConfig(budget=BudgetConfig(max_input_tokens=50))
    with install_ce(model, engine=engine, session_id="s", config=small) as installation:
        call(model, "word " * 300)
    assert SEEN == ["word " * 300]
    report = installation.last_report("s")
    assert report is not None
    assert report.over_budget


def test_overrides_that_do_not_call_the_base(engine: Any, stored: Any) -> None:
    class Own(FakeListChatModel):
        def invoke(self, *args: Any, **kwargs: Any) -> Any:
            return super().invoke(*args, **kwargs)

        def generate(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
            return super().generate(messages, *args, **kwargs)

        def stream(self, *args: Any, **kwargs: Any) -> Any:
            return super().stream(*args, **kwargs)

    model = Own(responses=["yes"])
    with install_ce(model, engine=engine, session_id="s"):
        model.invoke("one")
        list(model.stream("two"))
    assert len(stored("s").session.model_usage) == 2
    assert not {"invoke", "generate", "stream"} & {
        name for name in vars(Own) if hasattr(vars(Own)[name], "__wrapped__")
    }
