"""What the user of the demo says: real questions about real distributions, and facts to be asked again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ce_engine import ConfigError
from ce_integrations.demo.documents import Package


Surface = Literal["agent", "retrieval"]

FACTS = 5
MIN_TURNS = 30
"""Fewer turns would put the facts into the newest history."""

_LOOK_UP = (
    "Which licence does `{name}` have?",
    "What does `{name}` require?",
    "`{name}` 的许可证是什么？",
    "Which version of `{name}` is installed here?",
    "What is `{name}` about? A short summary, please.",
    "`{name}` 需要哪些依赖？",
    "Where is the project `{name}` at?",
    "How does the licence of `{name}` differ from that of `{other}`?",
)
_READ = (
    "What is `{name}` for, and who should use it?",
    "How do I install `{name}` and get started?",
    "`{name}` 有什么用途？",
    "What do the documents of `{name}` say about performance?",
    "What has to be known before using `{name}` in production?",
)
_SAID = (
    "For project {project} we build on `{name}`; our ticket for it is TCK-{ticket}. ",
    "By the way, in the {place} `{name}` is looked after by the {team} team. ",
    "`{name}` 我们用在{project_zh}项目里。",
)
"""What is said in passing, in turns nobody asks about later: it is like the facts, and is not them."""

_QUOTABLE = re.compile(r"(?!.*[.!?:]\s)(?:[^\s`\"]+ ){3,}[^\s`\"]+")
"""One sentence of four words or more, without quotation marks."""

_PROJECTS = ("Red Kite", "Grey Owl", "White Stork", "Black Swift", "Green Finch")
_PROJECTS_ZH = ("海燕", "白杨", "长风", "北斗", "青松")
_PLACES = ("mobile app", "data warehouse", "build farm", "mail gateway", "search index")
_TEAMS = ("security", "platform", "design", "research", "support")


@dataclass(frozen=True, slots=True)
class Fact:
    """Something said at `turn` (of 120) that is asked again at the end.

    `says` goes before an ordinary question about `{name}`; `asks` may name `{summary}`. `expected`
    is what the answer has to hold: a text, or `{version}` of the distribution of that turn.
    """

    turn: int
    surface: Surface
    says: str
    asks: str
    expected: str


FIXED = (
    Fact(
        3,
        "agent",
        "For project Blue Heron we build on `{name}`; our ticket for it is TCK-4711. "
        "Which licence does `{name}` have?",
        "What was our ticket for project Blue Heron?",
        "TCK-4711",
    ),
    Fact(
        20,
        "retrieval",
        "We have to replace `{name}` in the billing service before 30 June. "
        "What is `{name}` used for?",
        "Until when do we have to replace that library in the billing service?",
        "30 June",
    ),
    Fact(
        50,
        "agent",
        "灯塔项目用的是 `{name}`，由数据平台组负责。`{name}` 的许可证是什么？",
        "灯塔项目由哪个小组负责？",
        "数据平台组",
    ),
    Fact(
        80,
        "retrieval",
        "In the web shop `{name}` is owned by Mariam Okafor of the payments team. "
        "How do I install `{name}`?",
        "Who in the payments team owns the package that we use in the web shop?",
        "Mariam Okafor",
    ),
    Fact(
        110,
        "agent",
        "Which version of `{name}` is installed here, and what does it require?",
        'Earlier you looked up the package with the summary "{summary}": which version of it is '
        "installed here?",
        "{version}",
    ),
)


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of the session; `expected` is set for the questions at the end."""

    number: int
    surface: Surface
    text: str
    expected: str = ""


def script(packages: Sequence[Package], count: int) -> list[Turn]:
    """The turns of a session: ordinary ones with the facts among them, then the fixed questions.

    Every fourth turn asks the retrieval chain, the others ask the agent; a fact has its own place.
    Facts keep their places in proportion when there are more or fewer turns than 120, and none is
    newer than the newest is then.

    Raises:
        ConfigError: there are too few turns, or too few distributions to talk about.
    """
    if count < MIN_TURNS:
        raise ConfigError(
            f"the demo needs at least {MIN_TURNS} turns, so that its facts are old when they are "
            f"asked again; found {count}. Pass --turns {MIN_TURNS} or more."
        )
    if len(packages) < FACTS:
        raise ConfigError(
            f"the demo talks about installed distributions and needs {FACTS}; {len(packages)} are "
            "installed. Run it in the environment of a real project."
        )
    last = count - len(FIXED)
    newest = last - (115 - FIXED[-1].turn)
    places = {min(newest, max(1, fact.turn * last // 115)): fact for fact in FIXED}
    half = len(packages) // 2
    about = {number: _about(packages, number, number in places) for number in range(1, last + 1)}
    turns = [
        _fact_turn(number, places[number], about[number])
        if number in places
        else _ordinary(number, about[number], packages[(number + half) % len(packages)])
        for number in range(1, last + 1)
    ]
    for number, (place, fact) in enumerate(places.items(), start=last + 1):
        package = about[place]
        turns.append(
            Turn(
                number,
                fact.surface,
                fact.asks.format(summary=package.summary),
                fact.expected.format(version=package.version),
            )
        )
    return turns


def _about(packages: Sequence[Package], number: int, fact: bool) -> Package:
    """Whom the turn is about: one after the other; a fact wants a summary that people can quote."""
    start = (number - 1) % len(packages)
    if not fact:
        return packages[start]
    summaries = [package.summary for package in packages]
    for step in range(len(packages)):
        package = packages[(start - step) % len(packages)]
        if _QUOTABLE.fullmatch(package.summary) and summaries.count(package.summary) == 1:
            return package
    return packages[start]


def _fact_turn(number: int, fact: Fact, package: Package) -> Turn:
    return Turn(number, fact.surface, fact.says.format(name=package.name))


def _ordinary(number: int, package: Package, other: Package) -> Turn:
    surface: Surface = "retrieval" if number % 4 == 0 else "agent"
    asks = _READ if surface == "retrieval" else _LOOK_UP
    text = asks[number // 4 % len(asks) if surface == "retrieval" else number % len(asks)]
    if number % 6 == 1:
        text = _SAID[number // 6 % len(_SAID)] + text
    choice = number // 18 % len(_PROJECTS)
    return Turn(
        number,
        surface,
        text.format(
            name=package.name,
            other=other.name,
            project=_PROJECTS[choice],
            project_zh=_PROJECTS_ZH[choice],
            place=_PLACES[choice],
            team=_TEAMS[choice],
            ticket=4000 + number * 37,
        ),
    )
