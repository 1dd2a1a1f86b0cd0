"""Chains and agents over their budget: what was retrieved and what a helper is told of goes; the rest is named."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableParallel, RunnablePassthrough
from langchain_core.tools import create_retriever_tool
from langgraph.checkpoint.memory import InMemorySaver

from ce_integrations.langchain import install_ce
from ce_integrations.testing.adapter_budget import LONG_PAGES, budget_of
from ce_integrations.testing.contract_case import count
from ce_integrations.testing.wire import Wire, text, tool_calls


BUDGET = 500
SYSTEM = "Answer from:\n{context}\n\nIf you do not know, say so. 不知道就说不知道。"
FORMATS: dict[str, Callable[[list[str]], str]] = {
    "joined": "\n\n".join,
    "numbered": lambda texts: "".join(f"[{n}] {t}\n" for n, t in enumerate(texts, 1)),
    "in xml": lambda texts: "".join(f"<doc id='{n}'>\n{t}\n</doc>" for n, t in enumerate(texts)),
    "on one line": lambda texts: " | ".join(" ".join(t.split()) for t in texts),
    "cut up": lambda texts: "\n--\n".join(
        t[at : at + 90] for t in texts for at in range(0, len(t), 90)
    ),
}


class Shelf(BaseRetriever):
    """Gives all of its pages."""

    def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
        return [Document(page.text) for page in LONG_PAGES]


def rag(model: Any, template: list[tuple[str, str]], form: str) -> Any:
    def joined(documents: list[Document]) -> str:
        return FORMATS[form]([each.page_content for each in documents])

    steps = RunnableParallel(context=Shelf() | joined, question=RunnablePassthrough())
    return steps | ChatPromptTemplate.from_messages(template) | model | StrOutputParser()


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("role", ["system", "human"])
def test_context_in_a_prompt_is_shortened_whatever_it_looks_like(
    role: str, form: str, chat: Any, engine: Any
) -> None:
    asked = ("human", "{question}")
    template = (
        [("system", SYSTEM), asked] if role == "system" else [("human", f"{SYSTEM}\n{{question}}")]
    )
    with Wire("So.") as wire:
        chain = rag(chat(wire, model="gpt-4"), template, form)
        with install_ce(
            chain, engine=engine, session_id="s", config=budget_of(BUDGET)
        ) as installed:
            chain.invoke("What of page 0? 第0页呢？")
            report = installed.last_report("s")
        (body,) = wire.bodies
    said = body["messages"][0]["content"]
    assert count(body) <= BUDGET
    assert report is not None
    assert not report.over_budget
    assert said.startswith("Answer from:\n")
    assert "If you do not know, say so. 不知道就说不知道。" in said
    assert LONG_PAGES[0].text[:30] in said
    assert LONG_PAGES[3].text[:30] not in said
    assert body["messages"][-1]["content"].endswith("What of page 0? 第0页呢？")


@pytest.mark.needs("create_agent", "retriever_tools")
def test_what_a_retriever_gives_as_a_tool_is_shortened(chat: Any, engine: Any) -> None:
    from langchain.agents import create_agent

    script = [tool_calls([("search", {"query": "page 0"})]), text("So.")]
    with Wire(script) as wire:
        tools = [create_retriever_tool(Shelf(), "search", "Search the shelf.")]
        agent: Any = create_agent(chat(wire, model="gpt-4"), tools, system_prompt="Look it up.")
        with install_ce(agent, engine=engine, session_id="s", config=budget_of(BUDGET)):
            agent.invoke({"messages": [("user", "What of page 0?")]})
        _, second = wire.bodies
    assert count(second) <= BUDGET
    call, result = second["messages"][-2:]
    assert result["tool_call_id"] == call["tool_calls"][0]["id"]
    assert LONG_PAGES[0].text[:30] in result["content"]
    assert LONG_PAGES[3].text[:30] not in result["content"]


def summarizing(chat: Any, wire: Wire, saver: Any = True) -> Any:
    from langchain.agents import create_agent
    from langchain.agents.middleware import SummarizationMiddleware

    prompt = "Sum up what was said. 总结对话。\n<messages>\n{messages}\n</messages>\nBe brief."
    summary = SummarizationMiddleware(
        chat(wire, model="gpt-4"),
        trigger=("messages", 9),
        keep=("messages", 2),
        summary_prompt=prompt,
    )
    saver = saver and InMemorySaver()
    return create_agent(chat(wire, model="gpt-4"), [], middleware=[summary], checkpointer=saver)


def is_summing_up(body: Any) -> bool:
    return "Sum up" in str(body["messages"][0]["content"])


@pytest.mark.needs("marked_helpers")
def test_a_summary_of_a_talk_is_of_its_newest_part(chat: Any, engine: Any) -> None:
    """Of text that was redacted when it was stored, too."""
    asked = [f"q{n} of ann{n}@example.com: {LONG_PAGES[n % 4].text[:150]}" for n in range(5)]
    with Wire(lambda body: f"answer {len(str(body))} {LONG_PAGES[0].text[150:300]}") as wire:
        agent = summarizing(chat, wire)
        with install_ce(agent, engine=engine, config=budget_of(BUDGET)):
            for question in asked:
                said = {"messages": [("user", question)]}
                agent.invoke(said, {"configurable": {"thread_id": "t"}})
        [summed] = filter(is_summing_up, wire.bodies)
        assert all(count(body) <= BUDGET for body in wire.bodies)
    prompt = summed["messages"][0]["content"]
    assert prompt.startswith("Sum up what was said. 总结对话。\n<messages>\n")
    assert prompt.endswith("</messages>\nBe brief.")
    assert "ann0@example.com" not in prompt
    assert "[… earlier messages left out]" in prompt
    assert asked[3][:60] in prompt


@pytest.mark.needs("marked_helpers")
def test_a_summary_of_a_talk_that_nobody_heard_of(chat: Any, engine: Any) -> None:
    """No session was named, and the app brings its own list."""
    talk = [
        ("user" if n % 2 == 0 else "assistant", f"words {n}: {LONG_PAGES[n % 4].text[:120]}")
        for n in range(11)
    ]
    with Wire("answer") as wire:
        agent = summarizing(chat, wire, saver=None)
        with install_ce(agent, engine=engine, config=budget_of(BUDGET)):
            agent.invoke({"messages": talk})
        assert all(count(body) <= BUDGET for body in wire.bodies)
        summed, _ = wire.bodies
    prompt = summed["messages"][0]["content"]
    assert "words 0:" not in prompt
    assert "words 8:" in prompt
    assert prompt.endswith("</messages>\nBe brief.")


@pytest.mark.needs("marked_helpers")
def test_what_cannot_go_of_a_helper_s_prompt_is_told(
    chat: Any, engine: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with Wire("answer") as wire:
        agent = summarizing(chat, wire)
        with (
            install_ce(agent, engine=engine, config=budget_of(60)),
            caplog.at_level(logging.WARNING),
        ):
            for n in range(5):
                said = {"messages": [("user", f"question {n} {'and so on ' * 8}")]}
                agent.invoke(said, {"configurable": {"thread_id": "t"}})
        over = [body for body in wire.bodies if count(body) > 60]
    assert len(over) == 1
    assert is_summing_up(over[0])
    [line] = [each for each in caplog.messages if "its budget has 60" in each]
    assert line.startswith("session t: ")
    assert "helper's prompt " in line
