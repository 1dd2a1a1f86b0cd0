"""One message of a framework that stands for several: the results of several calls, each for itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from ce_engine import (
    BudgetConfig,
    ContextEngine,
    HostMessage,
    MemoryStore,
    Message,
    Origin,
    Role,
    RuntimeConfig,
    Scope,
    Step,
    ToolRequest,
    create_context_engine,
)
from ce_integrations import Adapter, CallInfo, Hooks
from ce_integrations.mapping.content_blocks import changed


@dataclass(frozen=True)
class Note:
    """A message of the make-believe framework; a tool's has the result of each call by its id."""

    role: str
    text: str = ""
    calls: Sequence[str] = ()
    results: dict[str, str] = field(default_factory=dict)


ORIGINS = {"user": Origin.TASK, "system": Origin.SYSTEM, "assistant": Origin.ANSWER}


def split(native: Note) -> Sequence[Note]:
    if len(native.results) < 2:
        return (native,)
    return [replace(native, results={key: said}) for key, said in native.results.items()]


def join(native: Note, parts: Sequence[Note]) -> Note:
    return replace(native, results={k: said for part in parts for k, said in part.results.items()})


class NoteAdapter(Adapter[list[Note], Note]):
    name = "notes"
    requires = ()
    mapper = __name__
    during: Callable[[], object] = staticmethod(lambda: None)
    """What the app does meanwhile."""

    def accepts(self, target: object) -> bool:
        return isinstance(target, list)

    def attach(self, target: list[Note], hooks: Hooks[Note]) -> Callable[[], None]:
        return lambda: None

    def to_schema(self, native: Note) -> HostMessage:
        self.during()
        if native.role == "tool":
            ((call_id, said),) = native.results.items()
            message = Message(role=Role.TOOL, content=said, tool_call_id=call_id)
            return HostMessage(message, Origin.TOOL_RESULT)
        calls = [ToolRequest(name="read", id=call_id, args={}) for call_id in native.calls]
        message = Message(role=Role(native.role), content=native.text, tool_calls=calls or None)
        return HostMessage(message, Origin.TOOL_CALL if calls else ORIGINS[native.role])

    def to_native(self, step: Step, native: Note | None) -> Note:
        if native is None:
            return Note("system", changed("", step))
        if native.role == "tool":
            ((call_id, said),) = native.results.items()
            return replace(native, results={call_id: changed(said, step)})
        return replace(native, text=changed(native.text, step))


class Unable(NoteAdapter):
    mapper = ""

    def split(self, native: Note) -> Sequence[Note]:
        return split(native)


def page(n: int) -> str:
    return "\n".join(f"page {n}, line {line}" for line in range(400))


def talk(*results: str) -> list[Note]:
    """A question, and what three calls found; then another such turn, which nothing takes away."""
    calls = ["c1", "c2", "c3"]
    return [
        Note("system", "Read."),
        Note("user", "What do the pages say?"),
        Note("assistant", calls=calls),
        Note("tool", results=dict(zip(calls, results, strict=True))),
        Note("assistant", calls=["c4", "c5"]),
        Note("tool", results={"c4": "the last page", "c5": "and its back"}),
    ]


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    made = create_context_engine(MemoryStore())
    yield made
    made.sync.close()


Ask = Callable[..., list[Note]]


@pytest.fixture
def ask(engine: ContextEngine) -> Ask:
    def sent(natives: list[Note], budget: int = 0, kind: type[NoteAdapter] = NoteAdapter) -> Any:
        config = RuntimeConfig(
            budget=BudgetConfig(max_input_tokens=budget or 100_000, reserved_reply_tokens=0),
            placement="seed",
        )
        adapter = kind()
        with adapter.install_ce(natives, engine=engine, config=config, session_id="s") as ours:
            goes, turn = ours.hooks.before_model(natives, CallInfo())
            ours.hooks.after_model(turn, Note("assistant", "They say much."))
            faults[:] = [fault.kind for fault in ours.faults]
        return goes

    return sent


faults: list[str] = []


def rows(engine: ContextEngine) -> list[tuple[str, str | None]]:
    assert engine.sync.flush()
    document = engine.loop.run(engine.store.get_session(Scope(session_id="s")))
    assert document is not None
    return [(m.content, m.tool_call_id) for m in document.session.messages if m.role is Role.TOOL]


def test_with_room_the_very_list_goes_on_and_each_result_is_a_row(
    ask: Ask, engine: ContextEngine
) -> None:
    natives = talk("one", "two", "three")
    assert ask(natives) is natives
    found = rows(engine)
    assert [said for said, _ in found] == ["one", "two", "three", "the last page", "and its back"]
    assert len({call_id for _, call_id in found}) == 5
    assert ask([*natives, Note("assistant", "They say much."), Note("user", "And?")])
    assert rows(engine) == found, "a result is stored again"


def test_one_result_of_three_is_shortened(ask: Ask) -> None:
    natives = talk("short", page(2), "brief")
    before = repr(natives)
    sent = ask(natives, 1500)
    assert repr(natives) == before
    assert [n for n, one in enumerate(sent) if one is not natives[n]] == [1, 3]
    assert list(sent[3].results) == ["c1", "c2", "c3"]
    assert (sent[3].results["c1"], sent[3].results["c3"]) == ("short", "brief")
    assert len(sent[3].results["c2"]) < len(page(2)) / 2


def test_a_result_without_its_call_is_left_out_and_the_others_stay(ask: Ask) -> None:
    natives = talk("one", "two", "three")
    natives[2] = Note("assistant", calls=["c1", "c3"])
    sent = ask(natives)
    assert [note.role for note in sent] == [note.role for note in natives]
    assert sent[3].results == {"c1": "one", "c3": "three"}
    assert natives[3].results == {"c1": "one", "c2": "two", "c3": "three"}


def test_whole_groups_go_together(ask: Ask) -> None:
    natives = talk(page(1), page(2), page(3))
    natives[4:4] = [Note("assistant", "So."), Note("user", "And the last one?")]
    sent = ask(natives, 60)
    assert not [note for note in sent if note.calls == ["c1", "c2", "c3"] or "c1" in note.results]
    assert [note for note in sent if note.results] == [natives[7]]


def test_what_the_app_adds_meanwhile_moves_nothing(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    natives = talk("short", page(2), "brief")
    added = [Note("user", "later"), Note("user", "and later")]
    during = lambda: natives.append(added.pop()) if added else None  # noqa: E731
    monkeypatch.setattr(NoteAdapter, "during", staticmethod(during))
    sent = ask(natives, 1500)
    assert added == []
    assert [note.role for note in sent] == ["system", "user", *["assistant", "tool"] * 2]
    assert sent[3].results["c1"] == "short"
    assert len(sent[3].results["c2"]) < len(page(2)) / 2


def test_who_cannot_join_sends_the_app_s_own(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CE_GUARD", raising=False)
    natives = talk("short", page(2), "brief")
    assert ask(natives, 1500, Unable) is natives
    assert faults == ["NotImplementedError"]
