"""What a framework has in place of classes and messages: methods that tell a kind, containers, parts that come later."""

from __future__ import annotations

import functools
import gc
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from ce_engine import ContextEngine, MemoryStore, Usage, create_context_engine
from ce_integrations import CallInfo, Hooks
from ce_integrations.calls.model_methods import ModelMethodCall
from ce_integrations.install.adapter import Detach
from ce_integrations.install.marks import Attribute, Mark, Marking
from ce_integrations.wrapping.guard import Guard
from ce_integrations.wrapping.patches import ClassPatches, definitions
from tests.adapters.talkers import ANSWER, Line, Talker, TalkerAdapter, ended, rows, said


class PartMark(Mark):
    def info(self, subject: Any) -> CallInfo:
        return CallInfo(session_id="s")


class Part:
    """Asks: no class tells so, its method and a flag do."""

    asks = True

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def run(self, messages: list[Line]) -> dict[str, Any]:
        self.sent.append(messages)
        return {"replies": [Line("assistant", ANSWER)], "meta": {"tokens": (7, 3)}}


class Other:
    """Has such a method, too, and asks nobody."""

    def run(self, messages: list[Line]) -> dict[str, Any]:
        return {"replies": [], "meta": {}}


class Strange:
    """Can be asked for nothing."""

    def __getattr__(self, name: str) -> Any:
        raise LookupError(name)


class App(Talker):
    """Holds parts, and may be given more at any time."""

    def __init__(self, *parts: Any) -> None:
        super().__init__()
        self.parts = list(parts)


def asks(part: Any) -> bool:
    return callable(getattr(part, "run", None)) and bool(part.asks)


def replies(result: dict[str, Any]) -> Iterator[tuple[Line, Usage | None]]:
    (answer,) = result["replies"]
    prompt, completion = result["meta"]["tokens"]
    yield answer, Usage(prompt, completion, prompt + completion)


def as_tuple(_: ModelMethodCall, sent: list[Line]) -> Any:
    return tuple(sent)


MARKING = Marking(
    Attribute("_ce_mark"),
    {asks: ("run",)},
    packages=("tests",),
    answers=replies,
    replace=as_tuple,
)


class AppAdapter(TalkerAdapter):
    name = "apps"

    def attach(self, target: Talker, hooks: Hooks[Line]) -> Detach:
        return MARKING.attach(target, hooks, PartMark)

    def is_attached(self, target: Talker) -> bool:
        return MARKING.is_attached(target)


ADAPTER = AppAdapter()
ORIGINALS = vars(Part)["run"], vars(Other)["run"]
ASKED = [Line("user", "What is a lane?")]


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    made = create_context_engine(MemoryStore())
    yield made
    made.sync.close()


def test_a_kind_is_what_a_function_says_it_is(engine: ContextEngine) -> None:
    app = App(Part(), Other(), Strange())
    with ADAPTER.install_ce(app, engine=engine):
        assert ADAPTER.is_attached(app)
        result = app.parts[0].run(ASKED)
        app.parts[1].run(ASKED)
    assert result["replies"][0].content == ANSWER
    assert said(engine) == ["What is a lane?", ANSWER]
    assert (vars(Part)["run"], vars(Other)["run"]) == ORIGINALS
    assert ended(engine) == ["committed"]


def test_a_container_gives_its_answers_and_usage(engine: ContextEngine) -> None:
    app = App(Part())
    with ADAPTER.install_ce(app, engine=engine) as installed:
        app.parts[0].run(ASKED)
        report = installed.last_report("s")
    assert report is not None
    assert app.parts[0].sent == [ASKED]
    assert app.parts[0].sent[0] is ASKED
    (turn,) = rows(engine)
    assert turn.status == "committed"


def test_what_is_brought_in_goes_out_in_the_app_s_form(engine: ContextEngine) -> None:
    app = App(Part())
    with ADAPTER.install_ce(app, engine=engine) as installed:
        scope = installed.hooks.choice.scope
        assert scope is None
        engine.sync.constraints.create(_scope(), "Answer in Chinese.")
        app.parts[0].run(ASKED)
    (sent,) = app.parts[0].sent
    assert isinstance(sent, tuple)
    assert "Answer in Chinese." in sent[0].content


def _scope() -> Any:
    from ce_engine import Scope

    return Scope(session_id="s")


def test_parts_that_come_later_are_found_and_let_go(engine: ContextEngine) -> None:
    class Late(Part):
        def run(self, messages: list[Line]) -> dict[str, Any]:
            return super().run(messages)

    app, original = App(Part()), vars(Late)["run"]
    with ADAPTER.install_ce(app, engine=engine) as installed:
        app.parts += [Late(), Part()]
        app.parts[1].run(ASKED)
        assert rows(engine) == []
        MARKING.extend(app, installed.hooks)
        MARKING.extend(app, installed.hooks)
        assert ADAPTER.is_attached(app)
        assert all(part.run(ASKED)["replies"] for part in app.parts)
        assert len(rows(engine)) == 3
        gone = weakref.ref(app.parts.pop())
        gc.collect()
        assert gone() is None  # an app may make one for each request
    assert vars(Late)["run"] is original
    assert ["_ce_mark" in vars(part) for part in app.parts] == [False, False]
    MARKING.extend(app, installed.hooks)  # it is gone
    assert ["_ce_mark" in vars(part) for part in app.parts] == [False, False]


def test_nothing_is_left_of_parts_that_an_app_makes_for_each_request(engine: ContextEngine) -> None:
    def serve(requests: int) -> int:
        for _ in range(requests):
            app.parts = [Part()]
            MARKING.extend(app, installed.hooks)
        gc.collect()
        return len(gc.get_objects())

    app = App(Part())
    with ADAPTER.install_ce(app, engine=engine) as installed:
        before = serve(20)
        # Threads of other tests make some objects meanwhile; one a request would be 2,000.
        assert serve(2000) - before < 1000
        assert ADAPTER.is_attached(app)
    assert "_ce_mark" not in vars(app.parts[0])


def test_an_installation_that_is_dropped_is_gone_though_it_has_marks(engine: ContextEngine) -> None:
    hooks = weakref.ref(ADAPTER.install_ce(App(Part()), engine=engine).hooks)
    gc.collect()
    assert hooks() is None


def test_definitions_of_a_kind_are_those_of_its_objects() -> None:
    class Child(Part):
        pass

    found = {(cls, name) for cls, name, _ in definitions({asks: {"run": id}}, [Child(), Other()])}
    assert found == {(Part, "run")}


# Classes that come later


def louder(original: Any) -> Any:
    return lambda self: original(self).upper()


class Base:
    def one(self) -> str:
        return "one"


class Told(Base):
    """Its own classes tell it, as those of frameworks do."""

    told: list[str] = []  # noqa: RUF012 - of the class

    def __init_subclass__(cls, word: str = "", **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.told.append(f"{cls.__name__} {word}".strip())


class Model(BaseModel):
    def one(self) -> str:
        return "one"


class Contract(ABC):
    @abstractmethod
    def one(self) -> str: ...


@pytest.mark.parametrize("base", [Base, Told, Model, Contract])
def test_a_class_that_is_derived_later_is_wrapped(base: Any) -> None:
    before, holder = dict(vars(base)), Guard()
    patches = ClassPatches()
    release = patches.hold_all({base: {"one": louder}}, holder)

    class Late(base):  # type: ignore[misc]  # a parameter
        def one(self) -> str:
            return "late"

    class Later(Late):
        pass

    assert (Late().one(), Later().one()) == ("LATE", "LATE")
    release()
    assert (Late().one(), Later().one()) == ("late", "late")
    assert {k: v for k, v in vars(base).items() if k in before} == before
    assert set(vars(base)) - set(before) <= {"__annotations__"}

    class Last(base):  # type: ignore[misc]  # a parameter
        def one(self) -> str:
            return "last"

    assert Last().one() == "last"


def test_a_class_gets_what_it_is_made_with() -> None:
    patches, holder = ClassPatches(), Guard()
    release = patches.hold_all({Told: {"one": louder}, Base: {"one": louder}}, holder)

    class Late(Told, word="hello"):
        def one(self) -> str:
            return "late"

    assert Told.told[-1] == "Late hello"
    assert Late().one() == "LATE"
    release()
    assert Late().one() == "late"


def test_each_holder_lets_go_of_its_own() -> None:
    patches, holders = ClassPatches(), [Guard(), Guard()]
    first = patches.hold_all({Base: {"one": louder}}, holders[0])

    class Late(Base):
        def one(self) -> str:
            return "late"

    second = patches.hold_all({Base: {"one": louder}}, holders[1])
    first()
    first()
    assert (Base().one(), Late().one()) == ("ONE", "LATE")
    second()
    assert (Base().one(), Late().one()) == ("one", "late")
    assert "__init_subclass__" not in vars(Base)
    patches.hold_all({Base: {"one": louder}}, holders.pop())
    gc.collect()
    patches.hold([], holders[0])  # the next one tidies up
    assert "__init_subclass__" not in vars(Base)


def test_what_another_tool_wrapped_in_between_is_wrapped_once() -> None:
    """A tracer that came after us keeps our wrapper inside: whoever holds it next does not wrap it again."""
    original, heard = vars(Base)["one"], []

    def hearing(inner: Any) -> Any:
        @functools.wraps(inner)
        def one(self: Base) -> str:
            heard.append(result := inner(self))
            return str(result)

        return one

    def exclaiming(inner: Any) -> Any:
        return functools.wraps(inner)(lambda self: f"{inner(self)}!")

    patches, holder = ClassPatches(), Guard()
    release = patches.hold_all({Base: {"one": exclaiming}}, holder)
    Base.one = hearing(ours := Base.one)  # type: ignore[method-assign]
    release()
    release = patches.hold_all({Base: {"one": exclaiming}}, holder)
    assert (Base().one(), heard) == ("one!", ["one!"])
    Base.one = ours  # type: ignore[method-assign]
    release()
    assert vars(Base)["one"] is original
    release = patches.hold_all({Base: {"one": exclaiming}}, holder)
    Base.one = lambda self: type(self).__name__  # type: ignore[method-assign]
    release()
    release = patches.hold_all({Base: {"one": exclaiming}}, holder)
    assert Base().one() == "Base!", "nobody says that it goes through ours"
    release()
    Base.one = original  # type: ignore[method-assign]


@pytest.mark.production_guard
def test_a_fault_of_ours_does_not_hinder_a_class() -> None:
    class Fresh:
        def one(self) -> str:
            return "one"

    def breaks(original: Any) -> Any:
        if original(None) == "late":
            raise LookupError
        return original

    patches, holder = ClassPatches(), Guard()
    release = patches.hold_all({Fresh: {"one": breaks}}, holder)

    class Late(Fresh):
        def one(self) -> str:
            return "late"

    assert Late().one() == "late"
    release()
