"""With room nothing is another object: messages, serialised forms, keys of caches; and what a cache gives."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.caches import BaseCache
from langchain_core.language_models import BaseChatModel, FakeListChatModel, FakeListLLM
from langchain_core.load import dumps
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import tool

from ce_engine import Scope
from ce_integrations.langchain import install_ce
from ce_integrations.testing.wire import Wire
from tests.adapters.langchain.rows import rows


SEEN: list[list[Any]] = []


class Mirror(BaseChatModel):
    """Keeps what it is given."""

    @property
    def _llm_type(self) -> str:
        return "mirror"

    def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> ChatResult:
        SEEN.append(messages)
        return ChatResult(generations=[ChatGeneration(message=AIMessage("yes"))])


class StreamingMirror(Mirror):
    """The same, in pieces."""

    def _stream(self, messages: Any, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        SEEN.append(messages)
        yield ChatGenerationChunk(message=AIMessageChunk(content="yes"))


@pytest.fixture(autouse=True)
def _forget() -> None:
    SEEN.clear()


def given() -> list[Any]:
    asked = {"name": "f", "args": {}, "id": "c1", "type": "tool_call"}
    blocks: list[Any] = [{"type": "text", "text": "看"}]
    return [
        SystemMessage("s", id="m0"),
        HumanMessage(blocks, id="m1", additional_kwargs={"theirs": object()}),
        AIMessage("", tool_calls=[asked], response_metadata={"k": 1}, id="m2"),
        {"role": "tool", "content": "r", "tool_call_id": "c1"},
        HumanMessage("q"),
    ]


@pytest.mark.req("A-24")
@pytest.mark.scenario(7)
@pytest.mark.parametrize("kind", [Mirror, StreamingMirror])
def test_the_very_messages_reach_the_model(engine: Any, call: Any, kind: Any) -> None:
    model, messages = kind(), given()
    before = [dict(vars(m)) if not isinstance(m, dict) else dict(m) for m in messages]
    with install_ce(model, engine=engine, session_id="s"):
        assert call(model, messages).content == "yes"
    (seen,) = SEEN
    objects = [(mine, theirs) for mine, theirs in zip(messages, seen, strict=True)]
    assert all(mine is theirs for mine, theirs in objects if not isinstance(mine, dict))
    assert [dict(vars(m)) if not isinstance(m, dict) else dict(m) for m in messages] == before


@pytest.mark.scenario(6, 7)
def test_they_reach_it_from_generate(engine: Any, runner: Any) -> None:
    model, messages = Mirror(), given()[:2]
    with install_ce(model, engine=engine, session_id="s"):
        model.generate([messages])
        runner.run(model.agenerate([messages]))
    assert [[id(m) for m in seen] for seen in SEEN] == [[id(m) for m in messages]] * 2


@pytest.mark.scenario(7)
def test_serialised_forms_and_keys_are_as_before(engine: Any, chat: Any) -> None:
    @tool
    def lookup(word: str) -> str:
        """Look a word up."""
        return word

    with Wire() as wire:
        model, fake = chat(wire), FakeListChatModel(responses=["x"])

        def told() -> list[Any]:
            forms = [model, model.with_retry(), model.bind_tools([lookup])]
            keys = [each._get_llm_string(stop=["x"]) for each in (model, fake)]
            settings = [
                each._identifying_params for each in (model, fake, FakeListLLM(responses=[]))
            ]
            return [*map(dumps, forms), *keys, *settings, model.get_name(), model == chat(wire)]

        before = told()
        with install_ce(model, engine=engine), install_ce(fake, engine=engine):
            assert told()[:-1] == before[:-1]
        assert told() == before


class Counting(BaseCache):
    """Tells what it was asked for."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], Any] = {}
        self.asked: list[tuple[str, str]] = []
        self._lock = threading.Lock()

    def lookup(self, prompt: str, llm_string: str) -> Any:
        with self._lock:
            self.asked.append((prompt, llm_string))
            return self.kept.get((prompt, llm_string))

    def update(self, prompt: str, llm_string: str, return_val: Any) -> None:
        with self._lock:
            self.kept[prompt, llm_string] = return_val

    def clear(self, **kwargs: Any) -> None:
        self.kept.clear()


@pytest.mark.scenario(7, 8)
@pytest.mark.parametrize("mode", ["invoke", "ainvoke", "batch"], indirect=True)
def test_a_cache_is_asked_with_what_goes_to_the_model(
    chat: Any, engine: Any, call: Any, stored: Any
) -> None:
    """With room the key is the plain app's; with evidence it is another, and nobody gets a wrong answer."""
    owner = Scope(session_id="any", user_id="ann")
    engine.sync.constraints.create(owner, "Answer in English.")
    cache = Counting()
    with Wire(["plain", "with the rule"]) as wire:
        plain, model = chat(wire, cache=cache), chat(wire, cache=cache)
        messages = [HumanMessage("q")]
        call(plain, messages)
        with install_ce(model, engine=engine):
            for user in ("bob", "ann", "ann"):
                thread = {"metadata": {"session_id": f"{user} {len(wire.bodies)}", "user_id": user}}
                said = call(model, messages, thread).content
                assert said == ("plain" if user == "bob" else "with the rule")
        assert len(wire.bodies) == 2
    assert cache.asked[0] == cache.asked[1]
    assert cache.asked[2] == cache.asked[3] != cache.asked[0]
    usages = [
        stored(f"{u} {n}", u).session.model_usage for u, n in (("bob", 1), ("ann", 1), ("ann", 2))
    ]
    assert [
        [(u.total_tokens > 0, u.params.get("cached", False)) for u in each] for each in usages
    ] == [
        [(False, True)],
        [(True, False)],
        [(False, True)],
    ]


@pytest.mark.scenario(8)
def test_a_hit_is_told_to_whoever_adds_up(chat: Any, engine: Any) -> None:
    cache = Counting()
    with Wire(["said once"]) as wire:
        model = chat(wire, cache=cache)
        with install_ce(model, engine=engine, session_id="s"):
            for _ in range(2):
                model.invoke([HumanMessage("q")], {"tags": ["ce:skip"]})
        assert len(wire.bodies) == 1
    (first, second) = rows(engine, "s")["usage"]
    assert first[4] > 0
    assert second[2:5] == (0, 0, 0)
    assert second[5]["cached"] is True
