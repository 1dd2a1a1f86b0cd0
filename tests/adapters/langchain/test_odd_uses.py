"""Uses of LangChain that few apps have."""

from __future__ import annotations

from typing import Any, ClassVar

from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.retrievers import BaseRetriever

from tests.adapters.langchain.natives import LangChain
from tests.adapters.odd_uses import Mute, OddUseTests, Use


class Finder(BaseRetriever):
    def _get_relevant_documents(self, query: str, **kwargs: Any) -> list[Document]:
        return [Document(page_content=f"{query} {kwargs.get('subject')}")]

    async def _aget_relevant_documents(self, query: str, **kwargs: Any) -> list[Document]:
        return self._get_relevant_documents(query, **kwargs)


async def find_later(finder: Finder) -> str:
    return (await finder.ainvoke("q", subject="s"))[0].page_content


KEYWORDS = {
    "a retriever's `subject`": Use(
        Finder, lambda finder: finder.invoke("q", subject="s")[0].page_content, "q s"
    ),
    "a retriever's `subject`, awaited": Use(Finder, find_later, "q s"),
    "a retriever's `subject`, bound": Use(
        Finder, lambda finder: finder.bind(subject="s").invoke("q")[0].page_content, "q s"
    ),
}


class Library(BaseRetriever):
    """Finds one document after the other."""

    def _get_relevant_documents(self, query: str, **_: Any) -> Any:
        return (Document(page_content=text) for text in query.split())


ITERATORS = {
    "a retriever's documents": Use(
        Library,
        lambda library: [document.page_content for document in library.invoke("one two")],
        ["one", "two"],
    ),
}


def whose(name: str) -> Use:
    """Asks with an id that is none."""
    return Use(
        lambda: FakeListChatModel(responses=["So."]),
        lambda model: model.invoke("x", {"configurable": {name: Mute()}}).content,
        "So.",
    )


IDS = {f"a call's {name}": whose(name) for name in ("thread_id", "session_id", "user_id")}


class TestOddUses(LangChain, OddUseTests):
    uses: ClassVar[dict[str, Use]] = {**KEYWORDS, **ITERATORS, **IDS}
