"""Models whose methods a tracing library wrapped: it is told of the very model, as without us."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from ce_engine import ContextEngine
from ce_integrations import ce_session
from ce_integrations.langchain import install_ce
from tests.adapters.spied import Spied


METHODS = ("generate", "agenerate", "stream", "astream")
SEEN: list[tuple[str, Any]] = []


class Fake(BaseChatModel):
    """Answers with a word, or with its letters."""

    @property
    def _llm_type(self) -> str:
        return "fake"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage("lane"))])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        for letter in "lane":
            yield ChatGenerationChunk(message=AIMessageChunk(content=letter))


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Fake:
    SEEN.clear()
    for name in METHODS:
        note: Callable[[str, Any], None] = lambda *seen: SEEN.append(seen)  # noqa: E731 - of a type
        monkeypatch.setattr(Fake, name, Spied(getattr(BaseChatModel, name), note), raising=False)
    return Fake()


async def test_its_wrappers_are_told_of_the_model(model: Fake, engine: ContextEngine) -> None:
    before = {name: vars(Fake)[name] for name in METHODS}
    with ce_session("s"), install_ce(model, engine=engine) as installed:
        said = [model.invoke("q").content, (await model.ainvoke("q")).content]
        said.append("".join(str(chunk.content) for chunk in model.stream("q")))
        said.append("".join([str(chunk.content) async for chunk in model.astream("q")]))
        assert installed.flush()
        report = installed.last_report("s")
    assert said == ["lane"] * 4
    assert list(SEEN) == [(name, model) for name in METHODS]
    assert report is not None
    assert {name: vars(Fake)[name] for name in METHODS} == before
