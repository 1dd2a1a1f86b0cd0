"""The eight methods by which a model is asked: each is governed once, however it is called."""

from __future__ import annotations

import gc
from typing import Any

import pytest
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    LLMMetadata,
    MessageRole,
)
from llama_index.core.llms import CustomLLM, MockLLM
from llama_index.core.llms.callbacks import llm_chat_callback, llm_completion_callback
from llama_index.llms.openai import OpenAI

from ce_engine import Scope
from ce_integrations import ce_session
from ce_integrations.llamaindex import install_ce
from ce_integrations.testing.wire import Wire


ENDPOINTS = [f"{how}{what}" for what in ("chat", "complete") for how in ("", "a")]
ENDPOINTS += [f"{how}stream_{what}" for what in ("chat", "complete") for how in ("", "a")]


def asked(endpoint: str) -> tuple[str, Any]:
    """The name of the argument, and one."""
    if endpoint.endswith("complete"):
        return "prompt", "What is a lane? 车道"
    said = ("system", "You look words up."), ("user", "What is a lane? 车道")
    return "messages", [ChatMessage(role=role, content=text) for role, text in said]


def turns(engine: Any, session_id: str = "s") -> list[Any]:
    assert engine.sync.flush()
    return list(engine.loop.run(engine.store.list_turns(Scope(session_id=session_id))))


@pytest.mark.req("A-24")
@pytest.mark.scenario(1)
@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_the_same_is_sent_and_given_and_recorded_once(
    endpoint: str, named: bool, twins: Any, model: Any, call: Any, engine: Any, stored: Any
) -> None:
    name, given = asked(endpoint)

    def drive(llm: Any) -> list[str]:
        return list(call(llm, endpoint, **{name: given}) if named else call(llm, endpoint, given))

    before = list(given)
    found = twins(model, drive, "A lane is a line. 一条线", session_id="s")
    assert found.ours == found.plain
    assert len(found.ours) == 1
    assert found.results[0] == found.results[1]
    assert list(given) == before
    (turn,) = turns(engine)
    helper = name == "prompt"
    assert (turn.status, turn.attempt) == ("committed", 1)
    assert turn.purpose == ("helper" if helper else "chat")
    (usage,) = stored("s").session.model_usage
    assert usage.model == "gpt-4"
    said = [message.content for message in stored("s").session.messages]
    assert said == ([] if helper else [given[1].content, "A lane is a line. 一条线"])


@pytest.mark.scenario(1)
@pytest.mark.parametrize("endpoint", ["chat", "achat", "stream_chat", "astream_chat"])
def test_what_is_known_goes_into_a_chat_and_not_into_the_app_s_list(
    endpoint: str, model: Any, call: Any, engine: Any
) -> None:
    _, given = asked(endpoint)
    texts = [message.content for message in given]
    with Wire("fine") as wire, install_ce(model(wire), engine=engine, session_id="s") as ours:
        engine.sync.constraints.create(Scope(session_id="s"), "Answer in verse.")
        assert "".join(call(ours.target, endpoint, given)) == "fine"
        system, question = wire.bodies[0]["messages"]
        assert "Answer in verse." in system["content"]
        assert system["content"].startswith("You look words up.")
        assert question["content"] == given[1].content
    assert [message.content for message in given] == texts
    assert all(len(message.blocks) == 1 for message in given)


@pytest.mark.scenario(1)
@pytest.mark.parametrize("endpoint", ["complete", "acomplete"])
def test_nothing_goes_into_a_text_that_somebody_put_together(
    endpoint: str, model: Any, call: Any, engine: Any
) -> None:
    with Wire("fine") as wire, install_ce(model(wire), engine=engine, session_id="s") as ours:
        engine.sync.constraints.create(Scope(session_id="s"), "Answer in verse.")
        call(ours.target, endpoint, "Make this stand alone: and then?")
        (body,) = wire.bodies
        assert [m["content"] for m in body["messages"]] == ["Make this stand alone: and then?"]


@pytest.mark.scenario(1)
def test_a_model_that_is_asked_alone_gets_no_history(model: Any, call: Any, engine: Any) -> None:
    with Wire("fine") as wire, install_ce(model(wire), engine=engine) as ours:
        for question in ("one", "two"):
            with ce_session("s", history=True):
                call(ours.target, "chat", [ChatMessage(question)])
        assert [m["content"] for m in wire.bodies[1]["messages"]] == ["two"]


@pytest.mark.scenario(1)
@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_call_without_a_prompt_raises_what_it_raised(
    endpoint: str, model: Any, call: Any, engine: Any
) -> None:
    with Wire() as wire:
        llm = model(wire)
        with pytest.raises((TypeError, ValueError)) as plain:
            call(llm, endpoint)
        with (
            install_ce(llm, engine=engine, session_id="s"),
            pytest.raises(plain.type) as ours,
        ):
            call(llm, endpoint)
        assert str(ours.value) == str(plain.value)
        assert wire.requests == []


# Models that ask themselves


class Own(CustomLLM):
    """A user's own model, for texts."""

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="own")

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return CompletionResponse(text="an answer")

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        return (
            CompletionResponse(text="an answer"[: n + 1], delta=c)
            for n, c in enumerate("an answer")
        )


@pytest.mark.scenario(7)
@pytest.mark.parametrize("endpoint", ENDPOINTS)
@pytest.mark.parametrize("kind", [Own, MockLLM])
def test_a_model_that_asks_itself_is_governed_once(
    kind: Any, endpoint: str, call: Any, engine: Any, stored: Any
) -> None:
    _, given = asked(endpoint)
    plain = call(kind(), endpoint, given)
    llm = kind()
    with install_ce(llm, engine=engine, session_id="s"):
        assert call(llm, endpoint, given) == plain
    (turn,) = turns(engine)
    assert (turn.status, turn.purpose) == ("committed", "chat")
    answers = [m.content for m in stored("s").session.messages if m.role == "assistant"]
    assert answers == ["".join(plain)]


class Piecewise(OpenAI):
    """Its chunks have pieces, never the whole."""

    @llm_chat_callback()
    def stream_chat(self, messages: Any, **kwargs: Any) -> Any:
        for piece in ("a ", "lane"):
            message = ChatMessage(role=MessageRole.ASSISTANT, content=piece)
            yield ChatResponse(message=message, delta=piece)


@pytest.mark.scenario(1)
def test_pieces_are_joined(model: Any, call: Any, engine: Any, stored: Any) -> None:
    with Wire() as wire:
        llm = model(wire, Piecewise)
        with install_ce(llm, engine=engine, session_id="s"):
            assert call(llm, "stream_chat", [ChatMessage("q")]) == ["a ", "lane"]
    assert [m.content for m in stored("s").session.messages] == ["q", "a lane"]


# Streams that do not come to their end


@pytest.mark.scenario(9)
@pytest.mark.parametrize("read", [0, 3])
def test_a_stream_that_is_not_read_to_its_end_is_incomplete(
    read: int, model: Any, engine: Any, stored: Any
) -> None:
    with Wire("one two three four five") as wire:
        llm = model(wire)
        with install_ce(llm, engine=engine, session_id="s") as installation:
            stream = llm.stream_chat([ChatMessage("q")])
            for _ in range(read):
                next(stream)
            del stream
            gc.collect()
            assert installation.flush()
    (turn,) = turns(engine)
    assert turn.status == "incomplete"
    assert len(stored("s").session.messages) == 1 + bool(read)


@pytest.mark.scenario(9)
def test_a_stream_says_what_was_used_where_the_provider_does(
    model: Any, call: Any, engine: Any, stored: Any
) -> None:
    options = {"stream_options": {"include_usage": True}}
    with Wire("one two three") as wire:
        for settings in ({"additional_kwargs": options}, {}):
            llm = model(wire, **settings)
            with install_ce(llm, engine=engine, session_id="s"):
                call(llm, "stream_chat", [ChatMessage("q")])
    told, estimated = stored("s").session.model_usage
    assert [bool((u.params or {}).get("estimated")) for u in (told, estimated)] == [False, True]
    assert told.total_tokens == told.prompt_tokens + told.completion_tokens > 0
