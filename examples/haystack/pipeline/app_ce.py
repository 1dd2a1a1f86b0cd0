"""A pipeline that answers from documents: the descriptions of some installed Python distributions.

Needs OPENAI_API_KEY, and OPENAI_BASE_URL for a server other than OpenAI's.
"""

from __future__ import annotations

import sys
from importlib import metadata

from haystack import Document, Pipeline
from haystack.components.builders import ChatPromptBuilder
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.dataclasses import ChatMessage, StreamingChunk
from haystack.document_stores.in_memory import InMemoryDocumentStore

from ce_integrations.haystack import install_ce


NAMES = ["haystack-ai", "openai", "pydantic", "sqlalchemy", "tiktoken"]
PROMPT = """Answer from the documents only.

{% for each in documents %}{{ each.content }}
{% endfor %}
{{ question }}"""


def description(name: str) -> Document:
    told = metadata.metadata(name)
    source = {"source": f"distribution:{name}", "doc_version": told["Version"]}
    return Document(content=f"{name}: {told['Summary']}", meta=source)


def make_pipeline() -> Pipeline:
    store = InMemoryDocumentStore()
    store.write_documents([description(name) for name in NAMES])
    pipeline = Pipeline()
    pipeline.add_component("retriever", InMemoryBM25Retriever(store, top_k=2))
    pipeline.add_component("prompt", ChatPromptBuilder(template=[ChatMessage.from_user(PROMPT)]))
    pipeline.add_component("llm", OpenAIChatGenerator(model="gpt-4o-mini"))
    pipeline.connect("retriever.documents", "prompt.documents")
    pipeline.connect("prompt", "llm")
    return pipeline


def show(chunk: StreamingChunk) -> None:
    print(chunk.content, end="", flush=True)


def main(questions: list[str]) -> None:
    pipeline = make_pipeline()
    install_ce(pipeline, session_id="reader-1")

    for question in questions:
        pipeline.run(
            {
                "retriever": {"query": question},
                "prompt": {"question": question},
                "llm": {"streaming_callback": show},
            }
        )
        print()


if __name__ == "__main__":
    main(sys.argv[1:] or ["Which of them does data validation?", "Which is a database toolkit?"])
