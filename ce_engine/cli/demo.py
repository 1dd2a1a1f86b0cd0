"""What a demo is asked for and what it answers: the types between `ce demo` and the adapters' demos."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, runtime_checkable


DEMOS_GROUP = "ce_integrations.demos"
"""Entry point group: one object per framework that satisfies `Demo`."""

Progress = Callable[[int, int, str], None]
"""Called with (turns done, turns in all, what is being done now), as often as the demo likes."""


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """What the user asked for: a session of `turns` turns in `budget` tokens, stored at `store_url`."""

    turns: int = 120
    budget: int = 2000
    store_url: str = "sqlite:///ce.db"


class DemoQuestion(NamedTuple):
    """One of the fixed questions about an early turn, asked when the session is long."""

    question: str
    expected: str
    answer: str
    ok: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoResult:
    """The figures of one demo.

    `asked` and `found` count the fixed questions at the end and those answered as expected;
    `tokens_with` is what went to the model through the engine, `tokens_without` what the same
    inputs of the host would have cost without it, both summed over all turns; `messages`,
    `evidences` and `tool_calls` are what the session holds afterwards. `model` names the model
    for the reader, `seconds` is how long the run took.
    """

    session_id: str
    store_url: str
    model: str
    turns: int
    asked: int
    found: int
    tokens_with: int
    tokens_without: int
    messages: int
    evidences: int
    tool_calls: int
    seconds: float
    questions: list[DemoQuestion] = field(default_factory=list)


@runtime_checkable
class Demo(Protocol):
    """The object behind an entry point of the group `ce_integrations.demos`."""

    def run(self, options: DemoOptions, progress: Progress) -> DemoResult:
        """Run an ordinary app of the framework with the engine installed, and say what came out.

        Raises:
            MissingDependencyError: The packages of the demo's extra are not installed.
        """
