"""What a review found on the merged tree: texts that imitate a border, items of a batch, three chains on one model."""

from __future__ import annotations

from base64 import b64encode
from itertools import permutations
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.language_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnablePassthrough

from ce_engine import BudgetConfig, Scope
from ce_integrations.langchain import install_ce
from ce_integrations.testing.adapter_pictures import png
from ce_integrations.testing.wire import Wire


NAMES = ("ALPHA", "BETA", "GAMMA")
THREAD: Any = {"configurable": {"thread_id": "s"}, "max_concurrency": 1}
TIGHT = BudgetConfig(max_input_tokens=330, reserved_reply_tokens=0)
BORDER = "\n\x00and\x00\n"


class Records(BaseRetriever):
    """A record for each name in the question."""

    def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
        named = [name for name in NAMES if name in query]
        return [Document(f"DOC{name} zebra quagmire record: 1000.") for name in named or ["OLD"]]


class Prices(BaseRetriever):
    """Pages of which one holds what stands between texts that are looked at as one."""

    def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
        long = "Plums and cherries and what they cost at the market today. " * 20
        return [Document(f"Apples cost 3.{BORDER}{long}"), Document(long), Document(long[9:])]


def joined(documents: list[Document]) -> str:
    return "\n\n".join(document.page_content for document in documents)


@pytest.mark.parametrize("question", ["What do apples cost?", f"What?{BORDER}Apples?"])
def test_a_page_that_imitates_a_border_stays_within_the_budget(
    chat: Any, engine: Any, question: str
) -> None:
    prompt = ChatPromptTemplate.from_messages([("human", "Use:\n{found}\n{q}")])
    with Wire("3") as wire:
        chain = {"found": Prices() | joined, "q": RunnablePassthrough()} | prompt | chat(wire)
        with install_ce(chain, engine=engine, session_id="s", budget=TIGHT) as installation:
            chain.invoke(question)
            assert installation.faults == ()
            report = installation.last_report("s")
        assert report is not None
        assert not report.over_budget
        assert report.token_used <= TIGHT.max_input_tokens < report.tokens_before
        assert len(wire.bodies) == 1


def test_recall_brings_in_nothing_of_another_item_of_the_batch(chat: Any, engine: Any) -> None:
    with Wire("noted, fine.") as wire:
        model = chat(wire)
        first = ChatPromptTemplate.from_template("Budget question of invoice: {q}") | model
        again = ChatPromptTemplate.from_template("Refine zebra quagmire: {q}") | model
        chain = first | StrOutputParser() | RunnableLambda(lambda said: {"q": said}) | again
        with install_ce(chain, engine=engine, history=True, budget=TIGHT):
            for n in range(6):
                chain.invoke({"q": f"old {n} " + "lorem ipsum dolor sit " * 12}, THREAD)
            before = len(wire.bodies)
            chain.batch([{"q": f"ask {name} about zebra quagmire"} for name in NAMES], THREAD)
        own = [str(body["messages"]) for body in wire.bodies[before:]]
        assert [[name for name in NAMES if name in sent] for sent in own] == [
            *([name] for name in NAMES),
            *([] for _ in NAMES),
        ]


def test_documents_of_another_item_of_the_batch_stay_out(chat: Any, engine: Any) -> None:
    prompt = ChatPromptTemplate.from_template("Use {found}\nQ: {q}")
    with Wire("noted, fine.") as wire:
        chain = {"found": Records() | joined, "q": RunnablePassthrough()} | prompt | chat(wire)
        with install_ce(chain, engine=engine, history=True, budget=TIGHT):
            for n in range(6):
                chain.invoke(f"old {n} " + "lorem ipsum dolor sit " * 12, THREAD)
            before = len(wire.bodies)
            chain.batch([f"zebra quagmire record of {name}?" for name in NAMES], THREAD)
        own = [str(body["messages"]) for body in wire.bodies[before:]]
        assert [[name for name in NAMES if f"DOC{name}" in sent] for sent in own] == [
            [name] for name in NAMES
        ]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_who_goes_ungoverns_nobody_else(chat: Any, engine: Any, order: tuple[int, ...]) -> None:
    with Wire("ok") as wire:
        model = chat(wire)
        chains = [ChatPromptTemplate.from_template("{q}") | model for _ in range(3)]
        installed = dict(enumerate(install_ce(chain, engine=engine) for chain in chains))
        for gone in order:
            installed.pop(gone).uninstall()
            for left in installed:
                thread: Any = {"configurable": {"thread_id": f"{gone} gone, {left}"}}
                chains[left].invoke({"q": "x"}, thread)
        assert engine.sync.flush()
        named = {info.session_id for info in engine.sync.list_sessions()}
        expected = {
            f"{gone} gone, {left}" for at, gone in enumerate(order) for left in order[at + 1 :]
        }
        assert named == expected


def test_an_answer_that_is_a_picture_alone_is_recorded(engine: Any) -> None:
    url = f"data:image/png;base64,{b64encode(png(3, 2)).decode()}"
    picture = AIMessage([{"type": "image_url", "image_url": {"url": url}}])
    model = FakeMessagesListChatModel(responses=[picture, AIMessage("A cat.")])
    with install_ce(model, engine=engine, session_id="s"):
        answer = model.invoke("画一只猫")
        model.invoke([("user", "画一只猫"), answer, ("user", "What is it?")])
    engine.sync.flush()
    state = engine.loop.run(engine.store.state(Scope(session_id="s")))
    kept = [row.message for row in state.rows]
    assert [message.content for message in kept] == ["画一只猫", "", "What is it?", "A cat."]
    labels = [each.label() for each in kept[1].attachments or ()]
    assert labels == ["[image 3x2, png]"]
