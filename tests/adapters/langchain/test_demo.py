"""The main job on real input: a long session of a real agent and a real chain, within the budget."""

from __future__ import annotations

import json
from typing import Any

from langchain_core.messages import AIMessage, convert_to_messages
from langchain_core.runnables import Runnable

from ce_integrations.demo.documents import WordIndex, chunks
from ce_integrations.demo.quoting import QuotingModel, Reply
from ce_integrations.langchain import install_ce
from ce_integrations.langchain.demo import DEMO
from ce_integrations.langchain.demo_app import App, WordRetriever, make_app
from ce_integrations.langchain.demo_model import OfflineChatModel
from ce_integrations.testing.answers import Answer, JsonObject, text, tool_calls
from tests.adapters.demos import PACKAGES, SCRIPT, DemoTests, Run


class TestDemo(DemoTests):
    demo = DEMO

    @classmethod
    def answer(cls, body: JsonObject) -> Answer:
        model = OfflineChatModel(quoting=QuotingModel(frozenset(PACKAGES)))
        chat: Runnable[Any, AIMessage] = model.bind(tools=body.get("tools", []))
        said = chat.invoke(convert_to_messages(body["messages"]))
        calls = [(call["name"], call["args"]) for call in said.tool_calls]
        return tool_calls(calls) if calls else text(said.text)

    def test_the_answers_come_from_what_was_brought_in(self, endpoint: Run) -> None:
        """The host's own newest history, as far as it goes out, does not hold a single fact any more."""
        for question in endpoint.result.questions:
            body = next(b for b in reversed(endpoint.bodies) if asks(b, question.question))
            host = [
                json.dumps({**message, "content": own_words(message)}, ensure_ascii=False)
                for message in body["messages"]
                if body.get("tools") and message["role"] != "system"
            ]
            assert not [text for text in host if question.expected in text]
            assert question.expected in json.dumps(body, ensure_ascii=False)


def own_words(message: dict[str, Any]) -> Any:
    """The app's: what is brought in stands before a question's own words."""
    content = message["content"]
    return content.rpartition("\n\n")[2] if message["role"] == "user" else content


def asks(body: dict[str, Any], question: str) -> bool:
    return str(body["messages"][-1]["content"]).endswith(question)


def test_without_us_the_chain_cannot_know() -> None:
    """It keeps no history; only the agent does, and pays for each word of it with every call."""
    model = OfflineChatModel(quoting=QuotingModel(frozenset(PACKAGES), len))
    app = make_app(PACKAGES, model, "bare")
    answers = {turn: app.ask(turn) for turn in SCRIPT}
    known = [turn.surface for turn in SCRIPT if turn.expected and turn.expected in answers[turn]]
    assert set(known) == {"agent"}


# The app is an ordinary one


class Listener(OfflineChatModel):
    """Keeps what it was asked, in messages."""

    heard: list[int] = []  # noqa: RUF012 - pydantic copies it for each model

    def _reply(self, messages: Any, tools: Any) -> Reply:
        self.heard.append(len(messages))
        return super()._reply(messages, tools)


def test_uninstalled_it_is_the_app_that_it_was() -> None:
    model = Listener(quoting=QuotingModel(frozenset(PACKAGES)))
    app = make_app(PACKAGES, model, "mine")
    before = (model.callbacks, getattr(app.agent, "config", None))
    with install_ce(app.agent, store="memory://", session_id="mine"):
        ask_all(app, 3)
        assert model.callbacks is not None
    assert (model.callbacks, getattr(app.agent, "config", None)) == before
    installed = list(model.heard)
    model.heard.clear()
    ask_all(make_app(PACKAGES, model, "mine"), 3)
    assert model.heard == installed, "with room to spare nothing changes"


def ask_all(app: App, count: int) -> None:
    for turn in SCRIPT[:count]:
        app.ask(turn)


async def test_the_retriever_gives_what_the_index_finds() -> None:
    index = WordIndex(chunks(PACKAGES.values()))
    retriever = WordRetriever(index=index)
    query = "What is `langchain-core` for?"
    given = retriever.invoke(query)
    assert [(d.id, d.page_content, d.metadata) for d in given] == [
        hit.chunk for hit in index.search(query)
    ]
    assert given[0].metadata["title"] == "langchain-core"
    assert await retriever.ainvoke(query) == given
