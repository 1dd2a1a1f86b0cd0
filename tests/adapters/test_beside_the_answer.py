"""What is told beside a model's answer: usage by events, helpers' calls, and what would go out."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from ce_engine import (
    BudgetConfig,
    ContextEngine,
    MemoryStore,
    RuntimeConfig,
    Scope,
    Usage,
    create_context_engine,
)
from ce_integrations import CallInfo, Hooks
from ce_integrations.calls.helper_calls import aside
from ce_integrations.calls.open_turn import note_usage
from ce_integrations.install.adapter import Detach
from ce_integrations.install.marks import Attribute, Mark, Marking
from ce_integrations.wrapping.function_kinds import within
from tests.adapters.talkers import Line, Talker, TalkerAdapter, rows, said


class TalkerMark(Mark):
    def info(self, subject: Talker) -> CallInfo:
        return CallInfo(session_id="s")


MARKING = Marking(
    Attribute("_ce_mark"), {Talker: ("whole", "awaited", "astream")}, packages=("tests",)
)


class Telling(Talker):
    """Its provider tells the usage by an event inside the call."""

    def _asked(self, given: Any) -> Line:
        answer = super()._asked(given)
        words = sum(len(each.content.split()) for each in given)
        note_usage(Usage(words, 3, words + 3))
        note_usage(None)
        return answer


class TellingAdapter(TalkerAdapter):
    def attach(self, target: Talker, hooks: Hooks[Line]) -> Detach:
        return MARKING.attach(target, hooks, TalkerMark)


ADAPTER = TellingAdapter()
NARROW = RuntimeConfig(budget=BudgetConfig(max_input_tokens=60, reserved_reply_tokens=0))


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    made = create_context_engine(MemoryStore())
    yield made
    made.sync.close()


def usages(engine: ContextEngine) -> list[tuple[int, int, bool]]:
    assert engine.sync.flush()
    found = engine.loop.run(engine.store.get_session(Scope(session_id="s")))
    assert found is not None
    return [
        (each.prompt_tokens, each.completion_tokens, bool(each.params.get("estimated")))
        for each in found.session.model_usage
    ]


async def test_usage_that_an_event_tells_is_that_of_its_call(engine: ContextEngine) -> None:
    telling = Telling()
    with ADAPTER.install_ce(telling, engine=engine):
        telling.whole([Line("user", "one two three")])
        calls = [telling.awaited([Line("user", "word " * n)]) for n in (5, 7, 9)]
        await asyncio.gather(*calls)
        assert [each async for each in telling.astream([Line("user", "a b")])]
    assert sorted(usages(engine)) == [(n, 3, False) for n in (2, 3, 5, 7, 9)]


def test_usage_that_nobody_asked_for_is_nobody_s(engine: ContextEngine) -> None:
    note_usage(Usage(1, 1, 2))
    talker = Talker()
    with ADAPTER.install_ce(talker, engine=engine):
        talker.whole([Line("user", "Hello.")])
        note_usage(Usage(1, 1, 2))
    ((_, _, estimated),) = usages(engine)
    assert estimated


def test_several_requests_of_a_call_add_up(engine: ContextEngine) -> None:
    class Twice(Telling):
        def _asked(self, given: Any) -> Line:
            super()._asked(given)
            return super()._asked(given)

    twice = Twice()
    with ADAPTER.install_ce(twice, engine=engine):
        twice.whole([Line("user", "one two")])
    assert usages(engine) == [(4, 6, False)]


# Helpers


async def test_what_is_asked_aside_is_a_helper_s(engine: ContextEngine) -> None:
    talker = Talker()

    def condense(text: str) -> str:
        return talker.whole([Line("user", text)]).content

    async def acondense(text: str) -> str:
        return (await talker.awaited([Line("user", text)])).content

    with ADAPTER.install_ce(talker, engine=engine):
        talker.whole([Line("user", "What is a lane?")])
        within(aside)(condense)("Sum it up.")
        await within(aside)(acondense)("Sum it up again.")
        talker.whole([Line("user", "And a turn?")])
    assert [turn.purpose for turn in rows(engine)] == ["chat", "helper", "helper", "chat"]
    assert [words for words in said(engine) if "Sum" in words] == []


# What would go out


def talk(talker: Talker, turns: int) -> list[Line]:
    history: list[Line] = []
    for n in range(turns):
        history.append(Line("user", f"Tell me of item {n}, 第{n}个, in some words. " * 2))
        history.append(talker.whole(list(history)))
    return history


def test_a_preview_is_what_would_go_out(engine: ContextEngine) -> None:
    talker = Talker()
    with ADAPTER.install_ce(talker, engine=engine, config=NARROW) as installed:
        history = [*talk(talker, 6), Line("user", "And now?")]
        fits = installed.hooks.preview(history, CallInfo(session_id="s"))
        talker.whole(list(history))
    assert fits == talker.sent[-1]
    assert 0 < len(fits) < len(history)
    assert all(any(one is other for other in history) for one in fits)


def test_with_room_a_preview_is_the_very_same_list(engine: ContextEngine) -> None:
    talker = Talker()
    with ADAPTER.install_ce(talker, engine=engine) as installed:
        history = [*talk(talker, 2), Line("user", "And now?")]
        assert installed.hooks.preview(history, CallInfo(session_id="s")) is history


def test_a_preview_leaves_no_trace() -> None:
    """What goes out afterwards, what is stored and what is told is as if nobody had asked."""
    found: list[Any] = []
    for looks in (False, True):
        talker, made = Talker(), create_context_engine(MemoryStore())
        with ADAPTER.install_ce(talker, engine=made, config=NARROW) as installed:
            history = talk(talker, 6)
            for question in ("And now?", "And then?"):
                history.append(Line("user", question))
                for _ in range(3 if looks else 0):
                    installed.hooks.preview(history, CallInfo(session_id="s"))
                history.append(talker.whole(list(history)))
            report = installed.last_report("s")
        assert report is not None
        sent = list(map(str, talker.sent))
        events = made.loop.run(made.store.list_events(Scope(session_id="s")))
        kinds = [event.event_type for event in events]
        numbers = (report.kept, report.dropped, report.token_used, len(rows(made)))
        found.append((sent, said(made), kinds, numbers, usages(made)))
        made.sync.close()
    assert found[0] == found[1]


async def test_a_preview_is_awaited_too(engine: ContextEngine) -> None:
    talker = Talker()
    with ADAPTER.install_ce(talker, engine=engine, config=NARROW) as installed:
        history = [*talk(talker, 6), Line("user", "And now?")]
        info = CallInfo(session_id="s")
        assert await installed.hooks.apreview(history, info) == installed.hooks.preview(
            history, info
        )
        before = len(rows(engine))
    assert installed.hooks.preview(history, CallInfo(session_id="s")) is history  # it is gone
    assert len(rows(engine)) == before


def test_a_preview_begins_no_session(engine: ContextEngine) -> None:
    talker = Talker()
    with ADAPTER.install_ce(talker, engine=engine, config=NARROW) as installed:
        history = [Line("user", "Tell me of item 1, 第1个. " * 9), Line("user", "And now?")]
        installed.hooks.preview(history, CallInfo(session_id="s"))
        assert installed.flush()
    assert engine.loop.run(engine.store.list_sessions(user_id=None, ephemeral=True)) == []


@pytest.mark.production_guard
def test_a_preview_that_fails_is_the_app_s_own_list(
    engine: ContextEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> Any:
        raise LookupError

    talker = Talker()
    with ADAPTER.install_ce(talker, engine=engine) as installed:
        monkeypatch.setattr(engine, "preview", fails)
        history = [Line("user", "What is a lane?")]
        assert installed.hooks.preview(history, CallInfo(session_id="s")) is history
    assert {fault.where for fault in installed.faults} == {"preview"}
