"""Methods that ask a model, of every kind that Python has: governed by one maker, whoever finds the mark."""

from __future__ import annotations

import asyncio
import copy
import gc
import pickle
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from ce_engine import (
    BudgetConfig,
    ConfigError,
    ContextEngine,
    MemoryStore,
    RuntimeConfig,
    Scope,
    create_context_engine,
)
from ce_integrations import CallInfo, Hooks
from ce_integrations.calls.model_methods import ModelMethodCall, as_one_text, governed
from ce_integrations.install.adapter import Detach
from ce_integrations.install.marks import Attribute, Mark, Marking, are_marked, mark_all
from ce_integrations.wrapping.patches import ClassPatches, Make, definitions
from tests.adapters.spied import Spied
from tests.adapters.talkers import (
    ANSWER,
    PIECES,
    Line,
    Talker,
    TalkerAdapter,
    ended,
    rows,
    said,
)


PLACE = Attribute("_ce_mark")
PATCHES = ClassPatches()
CALLED: list[tuple[ModelMethodCall, CallInfo]] = []


class TalkerMark(Mark):
    """Stands in the object itself: talkers have no listeners."""

    def info(self, subject: Talker) -> CallInfo:
        return CallInfo(session_id="s")


def described(call: ModelMethodCall) -> tuple[list[Line], CallInfo]:
    mark: TalkerMark = call.owner
    CALLED.append((call, mark.info(call.subject)))
    return call.messages, CALLED[-1][1]


def described_text(call: ModelMethodCall) -> tuple[list[Line], CallInfo]:
    return [Line("user", call.argument)], call.owner.info(call.subject)


def one_text(_: ModelMethodCall, sent: list[Line]) -> str:
    return as_one_text(sent, lambda line: line.content)


def text_answer(result: str) -> Iterator[tuple[Line, None]]:
    yield Line("assistant", result), None


ASK = governed(PLACE.mark_of, described)
MAKERS: dict[type, dict[str, Make]] = {
    Talker: {
        **dict.fromkeys(("whole", "awaited", "stream", "astream"), ASK),
        **dict.fromkeys(("begun", "abegun"), replace(ASK, gives="stream")),
        "later": replace(ASK, gives="astream"),
        "complete": governed(
            PLACE.mark_of,
            described_text,
            names=("prompt",),
            replace=one_text,
            answers=text_answer,
        ),
    }
}
WAYS = [name for name in MAKERS[Talker] if name != "complete"]


class Team:
    """Talkers under one roof."""

    def __init__(self, *talkers: Talker) -> None:
        self.talkers = talkers


class Marked(TalkerAdapter):
    """Marks talkers in themselves."""

    targets: ClassVar[str] = "a Talker or a Team"

    def accepts(self, target: object) -> bool:
        return isinstance(target, Talker | Team)

    def attach(self, target: Any, hooks: Hooks[Line]) -> Detach:
        found = list(target.talkers if isinstance(target, Team) else [target])
        with ExitStack() as undo:
            undo.callback(PATCHES.hold(definitions(MAKERS, found), hooks))
            undo.callback(mark_all(found, TalkerMark, PLACE, hooks, agreed=True))
            return undo.pop_all().close

    def is_attached(self, target: Any) -> bool:
        return are_marked(target.talkers if isinstance(target, Team) else [target], PLACE)


ADAPTER = Marked()
QUESTION = "What is a lane?"


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    made = create_context_engine(MemoryStore())
    yield made
    made.sync.close()
    CALLED.clear()


async def ask(talker: Talker, way: str, *args: Any, **kwargs: Any) -> str:
    """What came of a call, as an app takes it."""
    result: Any = getattr(talker, way)(*args, **kwargs)
    if way in ("awaited", "abegun"):
        result = await result
    if hasattr(result, "__anext__"):
        return "".join([piece async for piece in result])
    return result.content if isinstance(result, Line) else "".join(result)


@pytest.mark.parametrize("named", [False, True], ids=["by place", "by name"])
@pytest.mark.parametrize("way", WAYS)
async def test_every_kind_of_method_is_governed(
    engine: ContextEngine, way: str, named: bool
) -> None:
    talker, messages = Talker(), [Line("user", QUESTION)]
    original = vars(Talker)[way]
    with ADAPTER.install_ce(talker, engine=engine) as installed:
        given: Any = {"messages": messages} if named else {}
        assert await ask(talker, way, *([] if named else [messages]), **given) == ANSWER
        assert await asyncio.to_thread(installed.flush)
        assert installed.faults == ()
    assert vars(Talker)[way] is original
    assert "_ce_mark" not in vars(talker)
    (sent,) = talker.sent
    assert sent is messages
    (row,) = await asyncio.to_thread(rows, engine)
    assert row.status == "committed"
    assert await asyncio.to_thread(said, engine) == [QUESTION, ANSWER]
    ((call, info),) = CALLED
    assert (call.mode, call.argument, call.subject) == (way, messages, talker)
    assert info.mode == way


@pytest.mark.parametrize("way", ["begun", "abegun"])
async def test_a_stream_that_is_begun_at_the_call_is_asked_for_there(
    engine: ContextEngine, way: str
) -> None:
    talker = Talker()
    with ADAPTER.install_ce(talker, engine=engine) as installed:
        pieces: Any = getattr(talker, way)([Line("user", QUESTION)])
        pieces = await pieces if way == "abegun" else pieces
        assert len(talker.sent) == 1
        del pieces
        gc.collect()
        assert await asyncio.to_thread(installed.flush)
    assert await asyncio.to_thread(ended, engine) == ["incomplete"]


@pytest.mark.parametrize("way", ["stream", "astream", "later"])
async def test_a_stream_that_asks_when_it_is_read_is_not_asked_for_before(
    engine: ContextEngine, way: str
) -> None:
    talker = Talker()
    with ADAPTER.install_ce(talker, engine=engine):
        pieces: Any = getattr(talker, way)([Line("user", QUESTION)])
        assert (talker.sent, await asyncio.to_thread(rows, engine)) == ([], [])
        first = next(pieces) if way == "stream" else await anext(pieces)
        assert (first, len(talker.sent)) == (PIECES[0], 1)


def test_a_call_without_messages_is_the_app_s_own_fault(engine: ContextEngine) -> None:
    talker: Any = Talker()
    with ADAPTER.install_ce(talker, engine=engine), pytest.raises(TypeError, match="'messages'"):
        talker.whole()
    assert rows(engine) == []


class Strict(Talker):
    """A user's own, which takes messages by name only, and lets the framework do the rest."""

    def whole(self, *, messages: list[Line]) -> Line:  # type: ignore[override]  # as users do
        return super().whole(messages)


def test_an_override_that_is_called_by_name_is_asked_for_once(engine: ContextEngine) -> None:
    talker = Strict()
    with ADAPTER.install_ce(talker, engine=engine):
        assert talker.whole(messages=[Line("user", QUESTION)]).content == ANSWER
    assert said(engine) == [QUESTION, ANSWER]
    assert len(CALLED) == 1


def test_messages_that_are_no_list_go_on_as_they_are(engine: ContextEngine) -> None:
    talker: Any = Talker()
    given = (Line("user", QUESTION),)
    with ADAPTER.install_ce(talker, engine=engine):
        talker.whole(given)
    assert talker.sent[0] is given
    assert said(engine) == [QUESTION, ANSWER]


def test_one_text_stays_one_text(engine: ContextEngine) -> None:
    talker = Talker()
    with ADAPTER.install_ce(talker, engine=engine):
        assert talker.complete(prompt=QUESTION) == ANSWER
    assert talker.sent == [QUESTION]
    assert said(engine) == [QUESTION, ANSWER]
    assert as_one_text([Line("system", "a"), Line("user", "b")], lambda line: line.content) == (
        "a\n\nb"
    )


def test_what_is_brought_in_goes_out_in_the_form_of_the_argument(engine: ContextEngine) -> None:
    engine.sync.constraints.create(Scope(session_id="s"), "Be brief.")
    talker = Talker()
    with ADAPTER.install_ce(talker, engine=engine):
        talker.complete(QUESTION)
        talker.whole(messages=[Line("user", QUESTION)])
    text, messages = talker.sent
    assert isinstance(text, str)
    assert text.endswith(f"\n\n{QUESTION}")
    assert "Be brief." in text
    assert ["Be brief." in line.content for line in messages if isinstance(line, Line)] == [
        True,
        False,
    ]


def test_a_method_that_is_a_descriptor_is_governed(
    engine: ContextEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    note: Callable[[str, Any], object] = lambda *told: seen.append(told)  # noqa: E731 - of a type
    for way in ("whole", "stream"):
        monkeypatch.setattr(Talker, way, Spied(vars(Talker)[way], note))
    talker = Talker()
    with ADAPTER.install_ce(talker, engine=engine):
        assert talker.whole([Line("user", "one")]).content == ANSWER
        assert "".join(talker.stream([Line("user", "two")])) == ANSWER
    assert seen == [("whole", talker), ("stream", talker)]
    assert len(rows(engine)) == 2


# Marks in the objects themselves


def test_copies_keep_the_mark_and_pickles_drop_it(engine: ContextEngine) -> None:
    talker = Talker()
    with ADAPTER.install_ce(talker, engine=engine):
        elsewhere = pickle.loads(pickle.dumps(talker))
        assert vars(elsewhere)["_ce_mark"] is None
        elsewhere.whole([Line("user", "elsewhere")])
        copies = [copy.copy(talker), copy.deepcopy(talker)]
        for n, each in enumerate(copies):
            each.whole([Line("user", f"copy {n}")])
        marks = [vars(each)["_ce_mark"] for each in (talker, *copies)]
        assert marks[0] is marks[1] is not marks[2]
    for each in copies:
        each.whole([Line("user", "silent")])
    assert said(engine) == ["copy 0", ANSWER, "copy 1", ANSWER]
    with ADAPTER.install_ce(copies[1], engine=engine):
        assert not PLACE.mark_of(talker)
        assert PLACE.mark_of(copies[1])
    assert "_ce_mark" not in vars(copies[1])


def test_a_mark_that_is_shared_is_the_very_same_in_a_deep_copy(engine: ContextEngine) -> None:
    class Shared(TalkerMark):
        copies = "share"

    with ADAPTER.install_ce(Talker(), engine=engine) as installed:
        mark = Shared(installed.hooks)
        assert copy.deepcopy(mark) is mark
        assert mark.active
    assert not mark.active


def test_what_another_governs_is_shared_and_inherited(engine: ContextEngine) -> None:
    talker, other = Talker(), Talker()
    own = ADAPTER.install_ce(talker, engine=engine)
    team: Any = Team(talker, other)
    whole = ADAPTER.install_ce(team, engine=engine)
    assert PLACE.mark_of(talker) is not None
    assert [getattr(PLACE.mark_of(each), "hooks", None) for each in team.talkers] == [
        own.hooks,
        whole.hooks,
    ]
    own.uninstall()
    assert getattr(PLACE.mark_of(talker), "hooks", None) is whole.hooks
    del vars(other)["_ce_mark"]
    with ADAPTER.install_ce(team, engine=engine) as again:  # wired anew
        assert again.hooks is whole.hooks
    assert getattr(PLACE.mark_of(other), "hooks", None) is whole.hooks
    whole.uninstall()
    assert "_ce_mark" not in {**vars(talker), **vars(other)}


def test_all_are_marked_or_none(engine: ContextEngine) -> None:
    talker, other = Talker(), Talker()
    narrow = RuntimeConfig(budget=BudgetConfig(max_input_tokens=300, reserved_reply_tokens=0))
    team: Any = Team(other, talker)
    with ADAPTER.install_ce(talker, engine=engine):
        with pytest.raises(ConfigError, match="another config"):
            ADAPTER.install_ce(team, engine=engine, config=narrow)
        assert PLACE.mark_of(other) is None
        assert talker.whole([Line("user", QUESTION)]).content == ANSWER
    assert "whole" in vars(Talker)
    assert len(rows(engine)) == 1


def test_marking_takes_a_place_and_names_of_streams(engine: ContextEngine) -> None:
    marking = Marking(PLACE, {Talker: ("whole", "begun")}, streams=("begun",), packages=("tests",))

    class Short(TalkerAdapter):
        def attach(self, target: Talker, hooks: Hooks[Line]) -> Detach:
            return marking.attach(target, hooks, TalkerMark)

        def is_attached(self, target: Talker) -> bool:
            return marking.is_attached(target)

    talker, adapter = Talker(), Short()
    with adapter.install_ce(talker, engine=engine):
        assert adapter.is_attached(talker)
        talker.begun([Line("user", "left")])
        gc.collect()
        assert "".join(talker.begun([Line("user", QUESTION)])) == ANSWER
    assert not adapter.is_attached(talker)
    assert ended(engine) == ["incomplete", "committed"]
