"""Answers questions from documents: the descriptions of the installed Python distributions.

Needs OPENAI_API_KEY, and OPENAI_BASE_URL for a server other than OpenAI's.
"""

from __future__ import annotations

import sys
from importlib import metadata

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableConfig, RunnablePassthrough
from langchain_openai import ChatOpenAI

from ce_integrations.langchain import install_ce


NAMES = ["langchain-core", "langchain-openai", "pydantic", "sqlalchemy", "tiktoken"]


def description(name: str) -> Document:
    told = metadata.metadata(name)
    return Document(f"{name}: {told['Summary']}", metadata={"source": f"distribution:{name}"})


class SharedWords(BaseRetriever):
    """Gives the documents that share most words with the question: what a vector store does, without one."""

    documents: list[Document]
    k: int = 2

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,  # noqa: ARG002 - LangChain's signature
    ) -> list[Document]:
        words = set(query.lower().split())

        def shared(document: Document) -> int:
            return len(words & set(document.page_content.lower().split()))

        return sorted(self.documents, key=shared, reverse=True)[: self.k]


def joined(documents: list[Document]) -> str:
    return "\n".join(document.page_content for document in documents)


def main(questions: list[str]) -> None:
    retriever = SharedWords(documents=[description(name) for name in NAMES])
    prompt = ChatPromptTemplate.from_messages(
        [("system", "Answer from these documents only.\n\n{context}"), ("human", "{question}")]
    )
    chain = (
        {"context": retriever | joined, "question": RunnablePassthrough()}
        | prompt
        | ChatOpenAI(model="gpt-4o-mini")
        | StrOutputParser()
    )
    install_ce(chain)

    reader: RunnableConfig = {"configurable": {"session_id": "reader-1"}}
    for question in questions:
        print(chain.invoke(question, reader))


if __name__ == "__main__":
    main(sys.argv[1:] or ["Which of them does data validation?", "Which is a database toolkit?"])
