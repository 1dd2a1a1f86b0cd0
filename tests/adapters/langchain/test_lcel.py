"""Chains of prompt, model and parser: with room the wire is the same, and everything is recorded once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder

from ce_engine import EvidenceType, Role


QUESTIONS = ["What is a lane?", "什么是预算？", '{"ask": ["why", 1]}']


def build(chat: Any) -> Any:
    def make(wire: Any) -> Any:
        prompt = ChatPromptTemplate.from_messages(
            [("system", "You help."), MessagesPlaceholder("history"), ("human", "{question}")]
        )
        return prompt | chat(wire) | StrOutputParser()

    return make


def talk(call: Any, config: Any = None) -> Any:
    def drive(chain: Any) -> list[str]:
        history: list[Any] = []
        for question in QUESTIONS:
            answer = call(chain, {"history": list(history), "question": question}, config)
            history += [HumanMessage(question), AIMessage(answer)]
        return [message.content for message in history]

    return drive


@pytest.mark.scenario(1)
@pytest.mark.req("A-24")
def test_with_room_the_bodies_are_the_same(twins: Any, chat: Any, call: Any) -> None:
    found = twins(build(chat), talk(call, {"configurable": {"session_id": "s"}}))
    assert len(found.ours) == len(QUESTIONS)
    assert found.ours == found.plain
    assert found.results[0] == found.results[1]


@pytest.mark.req("A-24", "A-03", "A-13")
def test_each_message_is_recorded_once(twins: Any, chat: Any, call: Any, stored: Any) -> None:
    found = twins(build(chat), talk(call, {"configurable": {"session_id": "s"}}))
    document = stored("s")
    assert [m.content for m in document.session.messages] == found.results[1]
    assert [m.role for m in document.session.messages] == [Role.USER, Role.ASSISTANT] * 3
    usages = document.session.model_usage
    assert len(usages) == len(QUESTIONS)
    assert {u.model for u in usages} == {"gpt-4o-mini"}
    assert {u.provider for u in usages} == {"openai"}
    outputs = [e for e in document.evidences.values() if e.type is EvidenceType.LLM_OUTPUT]
    assert sorted(e.content for e in outputs) == sorted(found.results[1][1::2])
    assert {e.links.model_usage_id for e in outputs} == {u.model_usage_id for u in usages}


@pytest.mark.scenario(15)
@pytest.mark.req("A-24")
def test_usage_is_the_provider_s_or_marked_as_estimated(
    twins: Any, chat: Any, call: Any, mode: str, stored: Any
) -> None:
    twins(build(chat), talk(call, {"configurable": {"session_id": "s"}}))
    for usage in stored("s").session.model_usage:
        # ChatOpenAI asks a server that is not OpenAI's for no usage in streams.
        assert bool(usage.params.get("estimated")) is (mode in {"stream", "astream"})
        assert usage.prompt_tokens > 0
        assert usage.completion_tokens > 0


@pytest.mark.scenario(1)
def test_one_preparation_a_call(twins: Any, chat: Any, call: Any, engine: Any) -> None:
    twins(build(chat), talk(call, {"configurable": {"session_id": "s"}}))
    from ce_engine import Scope

    turns = engine.loop.run(engine.store.list_turns(Scope(session_id="s")))
    assert [(t.status, t.attempt, t.framework) for t in turns] == [
        ("committed", 1, "langchain")
    ] * len(QUESTIONS)
    assert len({t.request_id for t in turns}) == len(QUESTIONS)


@pytest.mark.scenario(1)
def test_a_batch_of_equal_inputs_is_prepared_item_by_item(
    twins: Any, chat: Any, sessions: Any
) -> None:
    def drive(chain: Any) -> Any:
        return chain.batch([{"history": [], "question": "the same"}] * 3)

    found = twins(build(chat), drive)
    assert sorted(found.ours) == sorted(found.plain)
    assert len(sessions()) == 3  # nobody named a session: each run is on its own
    assert {s.messages for s in sessions()} == {2}
    assert all(s.ephemeral for s in sessions())


def test_the_model_alone_takes_all_forms_of_input(twins: Any, chat: Any, call: Any) -> None:
    forms: list[Any] = [
        "hello",
        [("system", "s"), ("human", "h")],
        [HumanMessage("h")],
        {"role": "user", "content": "h"},
    ]

    def drive(model: Any) -> Any:
        return [
            call(model, form if isinstance(form, list | str) else [form]).content for form in forms
        ]

    found = twins(chat, drive)
    assert found.ours == found.plain
    assert [json.loads(raw)["messages"][-1]["content"] for raw in found.ours] == [
        "hello",
        "h",
        "h",
        "h",
    ]
