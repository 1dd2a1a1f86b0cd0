"""A message that an adapter cannot read costs only itself: the others are cut, recorded and told as ever."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import pytest

from ce_engine import (
    BudgetConfig,
    ContextEngine,
    MemoryStore,
    RuntimeConfig,
    Shorten,
    create_context_engine,
)
from ce_integrations import CallInfo
from ce_integrations.calls.hooks import Hooks
from ce_integrations.calls.open_turn import Turn
from ce_integrations.identity.session import Choice
from ce_integrations.wrapping.guard import Guard
from tests.adapters.natives import Natives
from tests.adapters.stored import Stored


SECRET = "a word that only the app's own message holds"
ODD = f"{SECRET} " * 40
"""What a message holds that nobody can read: some 300 tokens or more."""

BUDGET = 1_500
TURNS = 30


class Odd:
    """Nothing that the framework knows."""

    __slots__ = ("text",)

    def __init__(self, text: str = ODD) -> None:
        self.text = text


def raising(kind: type, *names: str) -> type:
    """A class of the framework's messages of which some attributes raise."""

    def told(self: Any, name: str) -> Any:
        if name in names:
            raise RuntimeError(SECRET)
        found: Any = kind.__getattribute__
        return found(self, name)

    return type(f"Raising{kind.__name__}", (kind,), {"__getattribute__": told})


class Closed(Mapping[str, Any]):
    """A part that is a mapping, and tells nothing."""

    def __getitem__(self, key: str) -> Any:
        raise RuntimeError(SECRET)

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError(SECRET)

    def __len__(self) -> int:
        raise RuntimeError(SECRET)


def deep(levels: int = 100_000) -> dict[str, Any]:
    """Data nested deeper than any stack."""
    value: Any = SECRET
    for _ in range(levels):
        value = {"x": value}
    return {"x": value}


class UnreadableTests(Natives):
    """A framework has odd messages by name."""

    odd: ClassVar[dict[str, Any]]

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "kind" in metafunc.fixturenames:
            metafunc.parametrize("kind", self.odd)

    @pytest.fixture
    def hooks(self) -> Iterator[Hooks[Any]]:
        budget = BudgetConfig(max_input_tokens=BUDGET, reserved_reply_tokens=0)
        config = RuntimeConfig(budget=budget, enable_share_context=False)  # nothing is brought back
        engine = create_context_engine(MemoryStore(), config=config)
        yield Hooks(self.adapter, engine, Choice(session_id="s"), Guard(), config)
        engine.sync.close()

    def _talk(self, turns: int) -> list[Any]:
        pairs = ((self.user(f"question {n}? 问题"), self.answer(said(n))) for n in range(turns))
        return [each for pair in pairs for each in pair]

    @pytest.mark.req("A-23", "B-01")
    @pytest.mark.production_guard
    @pytest.mark.parametrize("place", ["first", "midst", "last"])
    def test_it_costs_only_itself(self, hooks: Hooks[Any], kind: str, place: str) -> None:
        odd, given = self.odd[kind](), [*self._talk(TURNS), self.user("And now?")]
        at = {"first": 0, "midst": TURNS, "last": len(given)}[place]
        given.insert(at, odd)
        before = list(given)
        sent, turn = ask(hooks, given)
        assert [each is other for each, other in zip(given, before, strict=True)] == [True] * len(
            before
        )
        self._is_cut_round(odd, sent, given)
        report = reported(turn)
        assert report.over_budget is False
        assert report.messages_in == len(given)
        assert f"CONTEXT_MESSAGE_UNMAPPED: #{at} {type(odd).__name__}" in report.warnings
        assert "CONTEXT_MESSAGE_UNMAPPED" in report.degradations
        self._is_recorded(hooks.engine, type(odd).__name__)

    def _is_cut_round(self, odd: Any, sent: Sequence[Any], given: Sequence[Any]) -> None:
        """The budget holds for the others, which go out in their order."""
        places = [next(n for n, own in enumerate(given) if own is each) for each in sent]
        assert places == sorted(places)
        assert len(sent) < len(given) / 2, "nothing was cut"
        assert any(each is odd for each in sent)
        assert sent[-1] is given[-1]

    def _is_recorded(self, engine: ContextEngine, name: str) -> None:
        document = Stored(engine).document()
        messages = document.session.messages
        shown = [each for m in messages for each in m.attachments or ()]
        assert [(each.kind, each.name) for each in shown] == [("unreadable", name)]
        stored = [m.content for m in messages if m.role == "user" and m.content]
        assert [text for text in stored if "question" in text] == [
            f"question {n}? 问题" for n in range(TURNS)
        ]
        dumped = f"{document.model_dump_json()}{Stored(engine).turns()}{events(engine)}"
        assert SECRET not in dumped

    @pytest.mark.req("A-23", "A-02")
    @pytest.mark.production_guard
    def test_sent_again_it_is_the_same(self, hooks: Hooks[Any], kind: str) -> None:
        odd = self.odd[kind]()
        given = [*self._talk(4), odd, self.answer("I see."), self.user("And now?")]
        for n in range(3):
            _, turn = ask(hooks, list(given))
            hooks.after_model(turn, self.reply(said(n)))
            given += [self.answer(said(n)), self.user(f"more {n}?")]
        messages = Stored(hooks.engine).document().session.messages
        assert len([m for m in messages if m.attachments]) == 1
        assert len(messages) == len(given) - 1  # the last was not sent

    @pytest.mark.req("A-23", "A-11")
    @pytest.mark.production_guard
    @pytest.mark.parametrize("place", ["call", "result"])
    def test_calls_and_results_beside_it_stay(
        self, hooks: Hooks[Any], kind: str, place: str
    ) -> None:
        odd = self.odd[kind]()
        asks = odd if place == "call" else self.calls("a", "b")
        first = odd if place == "result" else self.result("a", "one")
        group = [asks, first, self.result("b", "two")]
        given = [*self._talk(TURNS), *group, self.answer("So it is."), self.user("And now?")]
        sent, _ = ask(hooks, given)
        assert len(sent) < len(given) / 2
        assert [each for each in sent if any(each is own for own in group)] == group

    @pytest.mark.req("A-23", "A-12")
    @pytest.mark.production_guard
    def test_with_room_the_very_list_goes_out(self, hooks: Hooks[Any], kind: str) -> None:
        given = [self.user("Who?"), self.answer("Li."), self.odd[kind](), self.user("And now?")]
        assert ask(hooks, given)[0] is given

    def test_in_tests_our_fault_raises(self, hooks: Hooks[Any], kind: str) -> None:
        given = [self.user("Who?"), self.answer("Li."), self.odd[kind](), self.user("And now?")]
        with pytest.raises(Exception):  # noqa: B017 - whatever its own mapper raises
            ask(hooks, given)

    def test_others_can_be_shortened(self) -> None:
        native = self.result("a", "one")
        assert self.adapter.to_native(Shorten(0, "1"), native) is not native


def said(n: int) -> str:
    return f"answer {n}: " + "it is so and not otherwise. 就是这样。 " * 8


def ask(hooks: Hooks[Any], natives: list[Any]) -> tuple[list[Any], Turn | None]:
    return hooks.before_model(natives, CallInfo(request_id="r", model="gpt-4o"))


def reported(turn: Turn | None) -> Any:
    assert turn is not None, "the call was not governed"
    assert turn.prepared is not None
    return turn.prepared.report


def events(engine: ContextEngine) -> str:
    from ce_engine import Scope

    assert engine.sync.flush()
    return str(engine.loop.run(engine.store.list_events(Scope(session_id="s"))))
