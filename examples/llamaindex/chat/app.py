"""A chat that answers from documents: the descriptions of some installed Python distributions.

Needs OPENAI_API_KEY, and OPENAI_API_BASE for a server other than OpenAI's.
"""

from __future__ import annotations

import sys
from importlib import metadata

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.chat_engine import ContextChatEngine
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.llms.openai import OpenAI


NAMES = ["llama-index-core", "openai", "pydantic", "sqlalchemy", "tiktoken"]


def description(name: str) -> TextNode:
    told = metadata.metadata(name)
    source = {"source": f"distribution:{name}", "doc_version": told["Version"]}
    return TextNode(text=f"{name}: {told['Summary']}", id_=name, metadata=source)


class SharedWords(BaseRetriever):
    """Gives what shares most words with the question: what a vector index does, without one."""

    def __init__(self, nodes: list[TextNode]) -> None:
        super().__init__()
        self._nodes = nodes

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        words = set(query_bundle.query_str.lower().split())
        found = [
            NodeWithScore(node=node, score=float(len(words & set(node.text.lower().split()))))
            for node in self._nodes
        ]
        return sorted(found, key=lambda hit: hit.score or 0.0, reverse=True)[:2]


def main(questions: list[str]) -> None:
    chat = ContextChatEngine.from_defaults(
        retriever=SharedWords([description(name) for name in NAMES]),
        llm=OpenAI(model="gpt-4o-mini"),
        memory=ChatMemoryBuffer.from_defaults(token_limit=100_000, chat_store_key="reader-1"),
        system_prompt="Answer from the documents only.",
    )

    for question in questions:
        for piece in chat.stream_chat(question).response_gen:
            print(piece, end="")
        print()


if __name__ == "__main__":
    main(sys.argv[1:] or ["Which of them does data validation?", "Which is a database toolkit?"])
