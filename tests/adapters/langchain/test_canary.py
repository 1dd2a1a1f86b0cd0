"""What the redactor must catch, through every door that LangChain has: in no byte of the store, no log, no report."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.tools import StructuredTool

from ce_integrations.testing.wire import text, tool_calls
from tests.adapters.canary import CanaryTests, Places
from tests.canary.canaries import Canaries


class Shelf(BaseRetriever):
    """Its documents tell too much."""

    canary: Any

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        c = self.canary
        metadata = {"source": c("source"), c("metadata key"): c("metadata")}
        return [Document(c("document"), id=c("document id"), metadata=metadata)]


def tool(canary: Canaries) -> StructuredTool:
    def send(to: str) -> str:
        if to == "nobody":
            raise ValueError(canary("tool error"))
        return canary("tool result")

    return StructuredTool.from_function(
        send, name="send", description=canary("tool description"), handle_tool_error=False
    )


def talk(model: Any, canary: Canaries) -> None:
    """An app's own loop: retrieval, two rounds of tools of which one fails, a stream."""
    c, sender = canary, tool(canary)
    config: Any = {
        "run_name": c("run name"),
        "tags": [c("tag")],
        "metadata": {c("config key"): c("config"), "conversation_id": "s"},
    }
    found = Shelf(canary=canary, name=c("retriever")).invoke(c("query"), config)
    messages: list[Any] = [
        SystemMessage(c("system")),
        HumanMessage(
            f"{c('question')} {found[0].page_content}", name=c("author"), id=c("message id")
        ),
    ]
    bound = model.bind_tools([sender])
    for _ in range(2):
        answer = bound.invoke(messages, config)
        assert isinstance(answer, AIMessage)
        messages.append(answer)
        for each in answer.tool_calls:
            try:
                messages.append(sender.invoke(each, config))
            except ValueError:
                return
        for _chunk in bound.stream([*messages, HumanMessage(c("question"))], config):
            pass


class TestCanaries(CanaryTests):
    @pytest.mark.req("B-02")
    def test_no_canary_is_left(
        self, twins: Any, chat: Any, canary: Canaries, places: Places
    ) -> None:
        script = [
            tool_calls([("send", {"to": canary("tool args")})]),
            text(canary("answer")),
            tool_calls([("send", {"to": "nobody"})]),
        ]
        found = twins(chat, lambda model: talk(model, canary), script)
        assert len(found.ours) == len(script)
        places.judge(canary, found.installation.last_report("s"))
