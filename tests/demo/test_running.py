"""What every demo does, shown with a framework that can only be awaited and needs no package."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ce_engine import (
    AdapterError,
    ConfigError,
    MissingDependencyError,
    Scope,
    StoreUnavailableError,
    StoreUrlError,
    open_store,
)
from ce_engine.apps.cli.demo import Demo, DemoOptions, DemoResult
from ce_engine.audit.compare.costs import costs
from ce_engine.audit.compare.reading import calls_of
from ce_engine.text.tokens.prices import RELATIVE
from ce_integrations.demo.documents import installed_packages
from ce_integrations.demo.running import Endpoint, endpoint
from ce_integrations.demo.turns import script
from tests.demo.async_bots import BotsDemo, ModelDownError


TURNS = 30
ROOM = 1500  # a quarter of a small budget is kept for the reply
SCRIPT = script(list(installed_packages().values()), TURNS)


@dataclass(frozen=True)
class Run:
    """A demo that is over, with what it told."""

    demo: BotsDemo
    result: DemoResult
    progress: list[tuple[int, int, str]]


def run(demo: BotsDemo, url: str = "memory://", turns: int = TURNS) -> Run:
    progress: list[tuple[int, int, str]] = []
    options = DemoOptions(turns=turns, store_url=url)
    result = demo.run(options, lambda *told: progress.append(told))
    return Run(demo, result, progress)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(BotsDemo(), f"sqlite:///{tmp_path_factory.mktemp('demo') / 'ce.db'}")


async def stored(url: str, session_id: str) -> tuple[Any, list[Any]]:
    store, scope = open_store(url), Scope(session_id=session_id)
    try:
        return await store.get_session(scope), await store.list_turns(scope)
    finally:
        await store.close()


def test_it_is_a_demo() -> None:
    assert isinstance(BotsDemo(), Demo)


def test_a_framework_that_can_only_be_awaited_does_the_same_job(done: Run) -> None:
    assert [question for question in done.result.questions if not question.ok] == []
    assert (done.result.found, done.result.asked, done.result.turns) == (5, 5, TURNS)
    assert done.result.model == "bot model"


def test_every_turn_is_said_once_and_told(done: Run) -> None:
    document, _ = asyncio.run(stored(done.result.store_url, done.result.session_id))
    said = [m.content for m in document.session.messages if m.role == "user"]
    assert said == [turn.text for turn in SCRIPT]
    told = [(number, TURNS, turn.text) for number, turn in enumerate(SCRIPT)]
    assert done.progress == [*told, (TURNS, TURNS, "")]


def test_the_figures_are_those_of_the_store(done: Run) -> None:
    result = done.result
    document, turns = asyncio.run(stored(result.store_url, result.session_id))
    session = document.session
    assert result.messages == len(session.messages)
    assert result.evidences == len(document.evidences)
    assert result.tool_calls == len(session.tool_state.tool_calls) > TURNS / 2
    assert result.tokens_with == sum(turn.report["token_used"] for turn in turns)
    alone = [
        turn.report.get("untouched") or {"tokens": turn.report["token_used"]} for turn in turns
    ]
    assert result.tokens_without == sum(each["tokens"] for each in alone)
    assert result.tokens_with < result.tokens_without
    spent = costs(calls_of(document, turns), RELATIVE)
    assert (result.cost_with, result.cost_without) == (spent.compared, spent.untouched)
    assert result.cost_unit == "input tokens"
    # The bots' model counts in its own way, and the budget follows what it counts.
    assert all(0.95 * ROOM < turn.report["token_budget"] <= ROOM for turn in turns)
    assert max(turn.report["token_used"] for turn in turns) <= ROOM


def test_nothing_is_left_running_or_installed(done: Run) -> None:
    assert is_over(done.demo)


def is_over(demo: BotsDemo) -> bool:
    return demo.loop.is_closed() and [bot.hooks for bot in demo.bots] == [None, None]


def test_another_run_is_another_session(done: Run) -> None:
    again = run(BotsDemo()).result.session_id
    assert again != done.result.session_id
    assert again.startswith("bots-demo-")


def test_a_model_that_fails_is_named_with_its_turn_and_the_cure() -> None:
    demo = BotsDemo()
    demo.down_from = 0
    with pytest.raises(
        AdapterError, match=r"bot model failed at turn 1 with ModelDownError.*unset them all"
    ) as failure:
        run(demo)
    assert isinstance(failure.value.__cause__, ModelDownError)
    assert is_over(demo)


def test_what_the_app_raises_besides_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    demo = BotsDemo()
    monkeypatch.setattr("tests.demo.async_bots.lookup_text", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run(demo)
    assert is_over(demo)


@pytest.mark.parametrize("turns", [0, 29])
def test_too_few_turns_make_no_app(turns: int) -> None:
    demo = BotsDemo()
    with pytest.raises(ConfigError, match=f"at least 30 turns.*found {turns}.*--turns 30"):
        run(demo, turns=turns)
    assert demo.bots == []


def test_a_store_that_cannot_be_opened_stops_it_at_once(tmp_path: Path) -> None:
    (tmp_path / "ce.db").mkdir()
    demo = BotsDemo()
    with pytest.raises(StoreUnavailableError):
        run(demo, f"sqlite:///{tmp_path / 'ce.db'}")
    assert demo.bots == []


def test_a_store_that_is_unknown_is_an_error_of_ours() -> None:
    with pytest.raises(StoreUrlError):
        run(BotsDemo(), "nowhere://")


def test_a_missing_package_is_named_with_the_demos_own_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(BotsDemo, "requires", ("no-such-distribution>=1",))
    with pytest.raises(MissingDependencyError, match=r"ce-integrations\[demo-bots\]"):
        run(BotsDemo())


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ({}, None),
        ({"OPENAI_MODEL": "m"}, None),
        ({"OPENAI_API_KEY": "", "OPENAI_BASE_URL": ""}, None),
        ({"OPENAI_API_KEY": "k"}, Endpoint("gpt-4o-mini", "k", None)),
        ({"OPENAI_BASE_URL": "http://h/v1"}, Endpoint("gpt-4o-mini", "none", "http://h/v1")),
        (
            {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "http://h/v1", "OPENAI_MODEL": "m"},
            Endpoint("m", "k", "http://h/v1"),
        ),
    ],
)
def test_the_environment_names_the_endpoint(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], found: Endpoint | None
) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert endpoint() == found
