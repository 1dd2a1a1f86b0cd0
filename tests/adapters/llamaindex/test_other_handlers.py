"""Other people's handlers hear the same spans and events in the same order, with us and without."""

from __future__ import annotations

from collections.abc import Iterator
from contextvars import copy_context
from typing import Any

import pytest
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.span_handlers import BaseSpanHandler
from llama_index_instrumentation import get_dispatcher
from pydantic import PrivateAttr

from ce_engine import Scope
from ce_integrations.llamaindex import install_ce, recorder
from ce_integrations.testing.answers import text, tool_calls
from ce_integrations.testing.wire import Wire
from tests.adapters.llamaindex import shelf
from tests.adapters.llamaindex.releases import make_agent


pytestmark = pytest.mark.scenario(11)


class Events(BaseEventHandler):
    _log: list[Any] = PrivateAttr(default_factory=list)

    @classmethod
    def class_name(cls) -> str:
        return "Events"

    def handle(self, event: Any, **kwargs: Any) -> None:
        messages = [str(m) for m in getattr(event, "messages", ())]
        span = str(event.span_id or "").split("-")[0]
        self._log.append((type(event).__name__, span, messages))


class Spans(BaseSpanHandler[Any]):
    _log: list[Any] = PrivateAttr(default_factory=list)

    @classmethod
    def class_name(cls) -> str:
        return "Spans"

    def span_enter(
        self,
        id_: str,
        bound_args: Any,
        instance: Any = None,
        parent_id: Any = None,
        tags: Any = None,
        **kwargs: Any,
    ) -> None:
        parent = str(parent_id or "").split("-")[0]
        names = sorted(bound_args.arguments)
        self._log.append(
            ("enter", id_.split("-", maxsplit=1)[0], type(instance).__name__, parent, names)
        )

    def span_exit(self, id_: str, *args: Any, result: Any = None, **kwargs: Any) -> None:
        self._log.append(("exit", id_.split("-", maxsplit=1)[0], type(result).__name__))

    def span_drop(self, id_: str, *args: Any, err: Any = None, **kwargs: Any) -> None:
        self._log.append(("drop", id_.split("-", maxsplit=1)[0], type(err).__name__))

    def new_span(self, *args: Any, **kwargs: Any) -> None:
        return None

    def prepare_to_exit_span(self, *args: Any, **kwargs: Any) -> None:
        return None

    def prepare_to_drop_span(self, *args: Any, **kwargs: Any) -> None:
        return None


@pytest.fixture
def ears() -> Iterator[Any]:
    events, spans, root = Events(), Spans(), get_dispatcher()
    before = list(root.event_handlers), list(root.span_handlers)
    root.add_event_handler(events)
    root.add_span_handler(spans)

    def heard() -> list[Any]:
        found = [list(events._log), list(spans._log)]
        events._log.clear()
        spans._log.clear()
        return found

    yield heard
    root.event_handlers[:], root.span_handlers[:] = before


async def lookup(word: str) -> str:
    """Look a word up; tools that are no coroutines race each other, on threads."""
    if word == "bad":
        raise ValueError(word)
    return word


@pytest.mark.parametrize("kind", ["agent", "engine", "model"])
def test_they_hear_the_same(
    kind: str, twins: Any, model: Any, runner: Any, call: Any, ears: Any
) -> None:
    def build(wire: Wire) -> Any:
        ears()
        if kind == "agent":
            return make_agent(model(wire), [lookup], "S")
        return shelf.context(model(wire)) if kind == "engine" else model(wire)

    def drive(app: Any) -> Any:
        if kind == "agent":

            async def run() -> str:
                return str(await app.run("q", memory=shelf.memory()))

            runner.run(run(), context=copy_context())
        elif kind == "engine":
            for way in ("chat", "achat", "astream_chat"):  # `stream_chat` has two threads
                call(app, way, "q")
        else:
            for way in ("chat", "astream_chat", "complete"):
                given = "q" if way == "complete" else [shelf_message("q")]
                call(app, way, given)
            next(iter(app.stream_chat([shelf_message("q")])))
        return ears()

    asked = [tool_calls([("lookup", {"word": "a"}), ("lookup", {"word": "bad"})]), text("fine")]
    found = twins(build, drive, asked if kind == "agent" else "fine")
    plain, ours = found.results
    assert ours == plain
    assert plain[0]
    assert plain[1]


def shelf_message(said: str) -> Any:
    from llama_index.core.base.llms.types import ChatMessage

    return ChatMessage(said)


@pytest.mark.production_guard
def test_a_fault_of_our_own_is_nobody_else_s(
    model: Any, call: Any, engine: Any, ears: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*args: Any) -> Any:
        raise LookupError("hunter2")

    with Wire("fine") as wire:
        app = shelf.context(model(wire))
        with install_ce(app, engine=engine, session_id="s") as installation:
            monkeypatch.setattr(recorder, "_entered", fails)
            assert "".join(call(app, "chat", "q")) == "fine"
        assert [each[0] for each in ears()[1]].count("enter") > 5
    assert {fault.kind for fault in installation.faults} == {"LookupError"}
    assert engine.sync.flush()
    (turn,) = engine.loop.run(engine.store.list_turns(Scope(session_id="s")))
    assert turn.status == "committed"


def test_a_fault_of_theirs_is_not_ours(model: Any, call: Any, engine: Any, stored: Any) -> None:
    class Broken(Spans):
        def span_enter(self, *args: Any, **kwargs: Any) -> None:
            raise KeyError

    root, broken = get_dispatcher(), Broken()
    before = list(root.span_handlers)
    root.add_span_handler(broken)
    try:
        with Wire("fine") as wire, install_ce(shelf.context(model(wire)), engine=engine) as ours:
            assert "".join(call(ours.target, "chat", "q")) == "fine"
    finally:
        root.span_handlers[:] = before
    assert len(stored("s").evidences) >= len(shelf.TEXTS)
