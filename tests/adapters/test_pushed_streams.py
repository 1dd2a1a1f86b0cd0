"""Pieces of an answer that a framework pushes to a callback of the app: heard, counted, and left to the app."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from ce_engine import ContextEngine, Event, EventType, MemoryStore, Scope, create_context_engine
from ce_integrations import CallInfo
from ce_integrations.calls.open_turn import note_piece
from ce_integrations.install.adapter import Detach, Hooks
from ce_integrations.install.marks import Attribute, Mark, Marking
from tests.adapters.talkers import ANSWER, PIECES, Line, Talker, TalkerAdapter, ended, rows, said


Push = Callable[[str], Any]


@dataclass(eq=False)
class Pusher(Talker):
    """A talker that gives its answer whole, and pushes the pieces to who asked for them."""

    streaming_callback: Push | None = None
    pushed: list[Any] = field(default_factory=list)

    def tell(
        self, messages: list[Line], options: Any = None, streaming_callback: Push | None = None
    ) -> Line:
        push = streaming_callback or self.streaming_callback
        answer = self._asked(messages)
        self.pushed.append(push)
        for piece in PIECES if push else ():
            assert push is not None
            push(piece)
        return answer

    async def atell(
        self,
        messages: list[Line],
        *,
        streaming_callback: Callable[[str], Awaitable[None]] | None = None,
    ) -> Line:
        answer = self._asked(messages)
        assert streaming_callback is not None
        assert inspect.iscoroutinefunction(streaming_callback)
        for piece in PIECES:
            await streaming_callback(piece)
        return answer


class PusherMark(Mark):
    def info(self, subject: Pusher) -> CallInfo:
        return CallInfo(session_id="s")


MARKING = Marking(Attribute("_ce_mark"), {Pusher: ("tell", "atell")}, callback="streaming_callback")


class PusherAdapter(TalkerAdapter):
    def attach(self, target: Talker, hooks: Hooks[Line]) -> Detach:
        return MARKING.attach(target, hooks, PusherMark)


ADAPTER = PusherAdapter()
ASKED = [Line("user", "What is a lane?")]


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    made = create_context_engine(MemoryStore())
    yield made
    made.sync.close()


@pytest.fixture
def chunks(engine: ContextEngine) -> list[Event]:
    """What subscribers of the event bus hear of pieces."""
    heard: list[Event] = []

    engine.bus.on(EventType.ASSISTANT_CHUNK_RECEIVED, heard.append)
    return heard


def first_token(engine: ContextEngine) -> int | None:
    assert engine.sync.flush()
    document = engine.loop.run(engine.store.get_session(Scope(session_id="s")))
    assert document is not None
    (usage,) = document.session.model_usage
    return usage.first_token_latency_ms


@pytest.mark.parametrize(
    "ask",
    [
        lambda pusher, push: pusher.tell(ASKED, streaming_callback=push),
        lambda pusher, push: pusher.tell(ASKED, None, push),
        lambda pusher, push: pusher.tell(messages=ASKED, streaming_callback=push),
    ],
    ids=["by name", "by place", "all by name"],
)
def test_the_pieces_are_the_app_s_and_we_hear_them(
    engine: ContextEngine, chunks: list[Event], ask: Callable[[Pusher, Push], Line]
) -> None:
    pusher, heard = Pusher(), list[str]()
    with ADAPTER.install_ce(pusher, engine=engine):
        assert ask(pusher, heard.append).content == ANSWER
    assert tuple(heard) == PIECES
    assert ended(engine) == ["committed"]
    assert said(engine) == ["What is a lane?", ANSWER]
    assert first_token(engine) is not None
    engine.sync.close()  # subscribers hear on a thread of their own
    assert [event.payload["length"] for event in chunks] == [len(piece) for piece in PIECES]


def test_a_callback_of_the_object_is_heard_too(engine: ContextEngine) -> None:
    heard: list[str] = []
    pusher = Pusher(streaming_callback=heard.append)
    own = pusher.streaming_callback
    with ADAPTER.install_ce(pusher, engine=engine):
        pusher.tell(ASKED)
        assert pusher.streaming_callback is own
    assert tuple(heard) == PIECES
    assert first_token(engine) is not None


def test_who_asks_for_no_pieces_gets_none(engine: ContextEngine) -> None:
    pusher = Pusher()
    with ADAPTER.install_ce(pusher, engine=engine):
        pusher.tell(ASKED)
    assert pusher.pushed == [None]
    assert first_token(engine) is None


async def test_an_awaited_callback_stays_one(engine: ContextEngine) -> None:
    heard: list[str] = []

    async def push(piece: str) -> None:
        heard.append(piece)

    pusher = Pusher()
    with ADAPTER.install_ce(pusher, engine=engine):
        await pusher.atell(ASKED, streaming_callback=push)
    assert tuple(heard) == PIECES
    assert ended(engine) == ["committed"]
    assert first_token(engine) is not None


class Sink(list[str]):
    """A callback with a type, attributes and operators of its own; it says no while it is empty."""

    reason = ""

    def __call__(self, piece: str) -> int:
        self.append(piece)
        return len(self)


@dataclass
class Asked:
    """A callback that is awaited."""

    heard: list[str] = field(default_factory=list)

    async def __call__(self, piece: str) -> int:
        self.heard.append(piece)
        return len(self.heard)


def test_a_callback_stays_what_it_is(engine: ContextEngine) -> None:
    seen: list[Any] = []

    class Looking(Pusher):
        def tell(self, messages: list[Line], streaming_callback: Any = None) -> Line:  # type: ignore[override]  # as some are
            push = streaming_callback
            seen.extend([isinstance(push, Sink), bool(push), callable(push), push.reason])
            seen.extend([push == [], inspect.signature(push), copy.copy(push), push(PIECES[0])])
            push.extend(map(str.upper, PIECES[1:]))
            push.reason = "stop"
            seen.extend([list(push), push[0], len(push)])
            return self._asked(messages)

    sink = Sink()
    pusher = Looking()
    with ADAPTER.install_ce(pusher, engine=engine):
        pusher.tell(ASKED, streaming_callback=sink)
    whole = [PIECES[0], *map(str.upper, PIECES[1:])]
    plain = [True, False, True, "", True, inspect.signature(sink), [], 1, whole, PIECES[0], 3]
    assert seen == plain
    assert type(seen[6]) is Sink
    assert (sink, sink.reason) == (whole, "stop")
    assert first_token(engine) is not None


async def test_an_awaited_callback_object_stays_one(engine: ContextEngine) -> None:
    class Awaiting(Pusher):
        async def atell(self, messages: list[Line], *, streaming_callback: Any = None) -> Line:
            answer = self._asked(messages)
            assert isinstance(streaming_callback, Asked)
            assert not inspect.iscoroutinefunction(streaming_callback)
            assert inspect.iscoroutinefunction(streaming_callback.__call__)
            assert [await streaming_callback(piece) for piece in PIECES] == [1, 2, 3]
            return answer

    asked, pusher = Asked(), Awaiting()
    with ADAPTER.install_ce(pusher, engine=engine):
        await pusher.atell(ASKED, streaming_callback=asked)
    assert tuple(asked.heard) == PIECES
    assert first_token(engine) is not None


async def test_a_partial_of_an_awaited_function_stays_one(engine: ContextEngine) -> None:
    heard: list[str] = []

    async def push(prefix: str, piece: str) -> None:
        heard.append(prefix + piece)

    pusher = Pusher()
    with ADAPTER.install_ce(pusher, engine=engine):
        await pusher.atell(ASKED, streaming_callback=partial(push, "> "))
    assert heard == [f"> {piece}" for piece in PIECES]


def test_a_class_may_be_the_callback(engine: ContextEngine) -> None:
    heard: list[str] = []

    class Piece:
        def __init__(self, piece: str) -> None:
            heard.append(piece)

    with ADAPTER.install_ce(pusher := Pusher(), engine=engine):
        pusher.tell(ASKED, streaming_callback=Piece)
    assert tuple(heard) == PIECES
    assert first_token(engine) is not None


@pytest.mark.production_guard
def test_a_callback_that_cannot_be_looked_at_stays_the_app_s_and_is_not_heard(
    engine: ContextEngine,
) -> None:
    heard: list[str] = []

    class Kind(type):
        def __getattribute__(cls, name: str) -> Any:
            raise RuntimeError(name)

    class Shut(metaclass=Kind):
        def __call__(self, piece: str) -> None:
            heard.append(piece)

    shut, pusher = Shut(), Pusher()
    with ADAPTER.install_ce(pusher, engine=engine) as installed:
        assert pusher.tell(ASKED, streaming_callback=shut).content == ANSWER
    assert pusher.pushed[0] is shut
    assert tuple(heard) == PIECES
    assert {fault.where for fault in installed.faults} == {"callback"}
    assert ended(engine) == ["committed"]


def test_pieces_may_come_by_name(engine: ContextEngine) -> None:
    class Naming(Pusher):
        def tell(self, messages: list[Line], streaming_callback: Any = None) -> Line:  # type: ignore[override]  # as some are
            answer = self._asked(messages)
            for piece in PIECES:
                streaming_callback(word=piece)
            return answer

    heard, pusher = list[str](), Naming()
    with ADAPTER.install_ce(pusher, engine=engine):
        pusher.tell(ASKED, streaming_callback=lambda *, word: heard.append(word))
    assert tuple(heard) == PIECES
    assert first_token(engine) is not None


def test_a_method_that_takes_no_callback_is_given_none(engine: ContextEngine) -> None:
    class Older(Pusher):
        def tell(self, messages: list[Line]) -> Line:  # type: ignore[override]  # as in an older release
            return super().tell(messages)

    heard: list[str] = []
    pusher = Older(streaming_callback=heard.append)
    with ADAPTER.install_ce(pusher, engine=engine):
        assert pusher.tell(ASKED).content == ANSWER
    assert tuple(heard) == PIECES
    assert ended(engine) == ["committed"]


class EnoughError(Exception):
    """The app wants no more."""


def test_a_callback_that_raises_has_left_the_stream(engine: ContextEngine) -> None:
    def push(piece: str) -> None:
        if piece == PIECES[1]:
            raise EnoughError

    pusher = Pusher()
    with ADAPTER.install_ce(pusher, engine=engine) as installed:
        with pytest.raises(EnoughError):
            pusher.tell(ASKED, streaming_callback=push)
        assert installed.flush()
    assert ended(engine) == ["incomplete"]
    assert said(engine) == ["What is a lane?", "".join(PIECES[:2])]


def test_what_a_provider_breaks_off_has_failed(engine: ContextEngine) -> None:
    pusher, heard = Pusher(error=OSError("gone")), list[str]()
    with ADAPTER.install_ce(pusher, engine=engine), pytest.raises(OSError, match="gone"):
        pusher.tell(ASKED, streaming_callback=heard.append)
    assert ended(engine) == ["failed"]


@pytest.mark.production_guard
def test_a_piece_that_we_do_not_understand_is_the_app_s_all_the_same(
    engine: ContextEngine,
) -> None:
    def confused(_: object) -> str:
        raise LookupError

    marking = Marking(
        Attribute("_ce_confused"), {Pusher: ("tell",)}, confused, callback="streaming_callback"
    )

    class Confused(PusherAdapter):
        def attach(self, target: Talker, hooks: Hooks[Line]) -> Detach:
            return marking.attach(target, hooks, PusherMark)

    pusher, heard = Pusher(), list[str]()
    with Confused().install_ce(pusher, engine=engine) as installed:
        assert pusher.tell(ASKED, streaming_callback=heard.append).content == ANSWER
    assert tuple(heard) == PIECES
    assert {fault.where for fault in installed.faults} == {"chunk"}
    assert len(rows(engine)) == 1


def test_pieces_that_an_event_tells_are_heard_too(
    engine: ContextEngine, chunks: list[Event]
) -> None:
    note_piece("nobody's")

    class Events(Pusher):
        def _asked(self, given: Any) -> Line:
            for piece in PIECES:
                note_piece(piece)
            return super()._asked(given)

    pusher = Events(error=OSError("gone"))
    with ADAPTER.install_ce(pusher, engine=engine), pytest.raises(OSError, match="gone"):
        pusher.tell(ASKED)
    assert ended(engine) == ["failed"]
    assert said(engine)[-1] == ANSWER
    engine.sync.close()
    assert len(chunks) == len(PIECES)
