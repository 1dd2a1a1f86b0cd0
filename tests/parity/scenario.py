"""One job, written once: told to an app of each framework over a model server, and what was stored of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from ce_engine import BudgetConfig, SessionDocument
from ce_engine.schema.rows import TurnRow
from ce_integrations.identity.session import ce_session
from ce_integrations.install.adapter import Adapter, Way
from ce_integrations.testing.answers import Answer, text, tool_calls
from ce_integrations.testing.contract_case import count
from ce_integrations.testing.framework_apps import FrameworkApps, Page
from ce_integrations.testing.side_by_side import AppRun, SideBySide
from ce_integrations.testing.wire import Wire


HERE = Path(__file__).parent
ADAPTERS = {
    point.name: point
    for point in entry_points(group="ce_integrations.adapters")
    if point.module.startswith("ce_integrations.")
}
FRAMEWORKS = tuple(sorted(ADAPTERS))
"""Those that we have adapters for; what they need may not be installed."""

BUDGET = 1200
"""Tokens of an input; the pages that are read are more."""

FACT = "The harbour team owns the lighthouse project. 灯塔项目由港口小组负责。"
FOLLOW_UP = "Which team owns the lighthouse project? 灯塔项目由哪个小组负责？"
LOOKED_UP = tool_calls([("lookup", {"word": "航道"}), ("broken", {"word": "价格"})])


def lookup(word: str) -> str:
    """Look a word up."""
    return f"{word} is a waterway. {word}是水路。"


def broken(word: str) -> str:
    """Look a price up; nobody answers."""
    raise ValueError(f"no such word: {word}")


def read(page: int) -> str:
    """Read a page."""
    return "\n".join(f"page {page}, line {n}: 第{n}行写着一些内容 {n * page}" for n in range(20))


ERROR = "no such word: 价格"
"""What `broken` fails with, as the talk calls it."""

TOOLS = (lookup, broken, read)

TALK: tuple[tuple[str, tuple[Answer, ...]], ...] = (
    (FACT, (text("Noted. 已记下。"),)),
    ("What are 航道 and 价格?", (LOOKED_UP, text("A waterway; the price is not known."))),
    *(
        (
            f"Read the pages {page} and {page + 1}. 请读这两页。",
            (
                tool_calls([("read", {"page": page}), ("read", {"page": page + 1})]),
                text(f"Both pages, {page} and {page + 1}, list lines. 都是编号的行。"),
            ),
        )
        for page in (1, 3, 5)
    ),
    (FOLLOW_UP, (text("The harbour team. 港口小组。"),)),
)
"""Questions, and what the model says to each."""

PAGES = (
    Page("A lane is a line of conversation. 车道是一条对话线。", "doc://lane", 0.9),
    Page("A cut leaves older turns out. 截断会省略较早的轮次。", "doc://截断", 0.4),
)
QUESTION = "What is a lane? 车道是什么？"
STREAMED = "And what is a cut? 截断呢？"


@dataclass(frozen=True)
class Part:
    """What is stored of one session, and what was sent meanwhile."""

    apps: FrameworkApps
    played: AppRun
    document: SessionDocument
    turns: list[TurnRow]
    way: Way
    named_by_us: bool
    """Whether the app had to name the session by `ce_session`, for want of an id of the framework's own."""

    @property
    def adapter(self) -> Adapter[Any, Any]:
        """As the contract's app has it, with what that can do."""
        return self.apps.adapter

    @property
    def base(self) -> Adapter[Any, Any]:
        """The framework's adapter, with all that it can do."""
        found: Adapter[Any, Any] = ADAPTERS[self.adapter.name].load()
        return found


@dataclass(frozen=True)
class Outcome:
    """The whole job in one framework."""

    talk: Part
    finding: Part | None
    """None where the framework looks nothing up by itself."""
    streaming: Part

    def parts(self) -> dict[str, Part]:
        """Those that there are, by name."""
        found = {"talk": self.talk, "finding": self.finding, "streaming": self.streaming}
        return {name: part for name, part in found.items() if part is not None}


Apps = tuple[type[FrameworkApps], type[FrameworkApps] | None]


def apps_of(framework: str) -> Apps:
    """An agent with tools that tells their errors to its model, and an app that looks documents up, if there is one.

    They are the first of the framework's contract tests that can; where those do not fit, the file
    `apps_NAME.py` beside this one has `AGENT` and `FINDER`.
    """
    if (HERE / f"apps_{framework}.py").exists():
        entry = import_module(f"tests.parity.apps_{framework}")
        return entry.AGENT, entry.FINDER
    module = import_module(f"tests.adapters.{framework}.contract_apps")
    made = [each for each in vars(module).values() if _is_app(each, module.__name__)]
    agent = next(each for each in made if each.adapter.capabilities.tools)
    return agent, next((each for each in made if each.adapter.capabilities.retrieval), None)


def _is_app(found: object, module: str) -> bool:
    return (
        isinstance(found, type)
        and issubclass(found, FrameworkApps)
        and found.__module__ == module
        and hasattr(found, "adapter")
    )


@cache
def installed(framework: str) -> bool:
    """Whether the framework is here, with what its contract tests need."""
    try:
        apps_of(framework)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in ("tests", "ce_integrations"):
            raise  # a file of ours is missing
        return False
    return True


@cache
def play(framework: str) -> Outcome:
    """Do the job in a framework.

    Raises:
        ImportError: it is not installed.
    """
    agent, finder = apps_of(framework)
    return Outcome(_talk(agent()), _finding(finder()) if finder else None, _streaming(agent()))


def _talk(apps: FrameworkApps) -> Part:
    script = [answer for _, answers in TALK for answer in answers]
    questions = [question for question, _ in TALK]
    budget = BudgetConfig(max_input_tokens=BUDGET, reserved_reply_tokens=0)
    with SideBySide(apps) as trial, Wire(script) as wire:
        target = apps.make_target(wire, TOOLS)
        return _part(trial, wire, target, questions, _way(apps), budget=budget)


def _finding(apps: FrameworkApps) -> Part:
    with SideBySide(apps) as trial, Wire(text("A lane is a line. 一条线。")) as wire:
        target = apps.make_retrieving(wire, PAGES)
        return _part(trial, wire, target, [QUESTION], _way(apps))


STREAMED_WAYS = ("stream", "astream", "push", "apush")


def _streaming(apps: FrameworkApps) -> Part:
    ways: Sequence[Way] = [way for way in apps.adapter.capabilities.ways if way in STREAMED_WAYS]
    with SideBySide(apps) as trial, Wire(text("A cut leaves older turns out, 截断。")) as wire:
        target = apps.make_target(wire)
        return _part(trial, wire, target, [STREAMED], next(iter(ways), _way(apps)))


def _part(
    trial: SideBySide, wire: Wire, target: Any, questions: Sequence[str], way: Way, **options: Any
) -> Part:
    named: list[object] = []
    enter = ce_session.__enter__

    def entered(session: ce_session) -> Any:
        named.append(session)
        return enter(session)

    trial.patch.setattr(ce_session, "__enter__", entered)
    played = trial.installed(wire, target, trial.asking(questions, way), **options)
    return Part(trial.apps, played, trial.document(), trial.turns(), way, bool(named))


def _way(apps: FrameworkApps) -> Way:
    ways = apps.adapter.capabilities.ways
    return "async" if "async" in ways else "sync"


def largest(played: AppRun) -> int:
    """The tokens of the largest request, counted by other code than the engine's."""
    return max(count(body) for body in played.bodies)
