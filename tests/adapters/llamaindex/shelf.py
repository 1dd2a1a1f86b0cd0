"""A retriever with documents that say where they are from, and engines over it."""

from __future__ import annotations

from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.chat_engine import (
    CondensePlusContextChatEngine,
    CondenseQuestionChatEngine,
    ContextChatEngine,
    SimpleChatEngine,
)
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode


TEXTS = ["A lane is a line of conversation.", "车道是一条对话线。", "A cut belongs to a lane."]


class Shelf(BaseRetriever):
    """Gives all of its documents."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [
            NodeWithScore(
                node=TextNode(
                    text=text,
                    id_=f"node-{n}",
                    metadata={
                        "file_path": f"{n}.md",
                        "doc_version": f"v{n}",
                        "effective_at": "2026-01-01",
                    },
                    excluded_llm_metadata_keys=["file_path", "doc_version", "effective_at"],
                ),
                score=0.9 - n / 10,
            )
            for n, text in enumerate(TEXTS)
        ]


def memory(session_id: str = "s") -> ChatMemoryBuffer:
    return ChatMemoryBuffer.from_defaults(token_limit=1_000_000, chat_store_key=session_id)


async def close(held: Any) -> None:
    """Close the database of a `Memory`, which does not do so itself, before its loop is closed."""
    database = getattr(getattr(held, "sql_store", None), "_async_engine", None)
    if database is not None:
        await database.dispose()


def simple(llm: Any) -> Any:
    return SimpleChatEngine.from_defaults(llm=llm, memory=memory(), system_prompt="S.")


def context(llm: Any) -> Any:
    return ContextChatEngine.from_defaults(
        retriever=Shelf(), llm=llm, memory=memory(), system_prompt="S."
    )


def condense_question(llm: Any) -> Any:
    return CondenseQuestionChatEngine.from_defaults(
        query_engine=query(llm), llm=llm, memory=memory()
    )


def condense_plus_context(llm: Any) -> Any:
    return CondensePlusContextChatEngine.from_defaults(retriever=Shelf(), llm=llm, memory=memory())


def query(llm: Any, **settings: Any) -> Any:
    return RetrieverQueryEngine.from_args(retriever=Shelf(), llm=llm, **settings)
