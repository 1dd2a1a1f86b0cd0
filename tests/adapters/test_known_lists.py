"""A list that is sent again is mapped where it holds something else, whatever is done to its messages."""

from __future__ import annotations

from copy import deepcopy
from random import Random
from typing import Any

import pytest

from ce_engine import HostMessage, Message, Origin, Role
from ce_integrations.mapping.known_lists import KnownLists
from ce_integrations.mapping.known_messages import MAX_CHARS, MAX_EQUALS, KnownMessages


class Note:
    def __init__(self, content: str, **more: Any) -> None:
        self.content = content
        self.calls: list[dict[str, Any]] = []
        self.more = more


class OtherNote(Note):
    """One of another kind, that holds the same."""


class App:
    """Maps lists of notes, and counts how often one was mapped."""

    def __init__(self) -> None:
        self.mapped = 0
        self.lists = KnownLists(
            KnownMessages(self.to_schema, lambda note: (note.content, len(note.calls))),
            lambda notes: [note.__dict__ for note in notes],
        )

    def to_schema(self, note: Note) -> tuple[HostMessage, ...]:
        self.mapped += 1
        return (HostMessage(Message(role=Role.USER, content=told(note)), Origin.TASK),)

    def texts(self, notes: list[Note], line: str = "") -> list[str]:
        return [host.message.content for host in self.lists(notes, line)]


def told(note: Note) -> str:
    return f"{type(note).__name__} {note.content} {note.calls} {note.more}"


def test_what_was_sent_before_is_not_mapped_again() -> None:
    app, notes = App(), [Note(str(n)) for n in range(20)]
    first = app.lists(notes, "")
    again = app.lists([*deepcopy(notes), Note("new")], "")
    assert all(a is b for a, b in zip(first, again[:20], strict=True))
    assert app.mapped == 21


def test_a_message_that_was_changed_in_place_is_seen() -> None:
    app, rng = App(), Random(1)
    notes = [Note(str(n), of={"at": n}) for n in range(20)]
    for _ in range(200):
        note = rng.choice(notes)
        value: Any = rng.choice(["x", "y", 1, None])
        match rng.randrange(6):
            case 0:
                note.content = f"{note.content}{value}"
            case 1:
                note.calls.append({"args": {"q": [value]}})
            case 2:
                note.calls = [{"args": deepcopy(call["args"])} for call in note.calls]
            case 3 if note.calls:
                note.calls[-1]["args"]["q"] = [value, value]
            case 4:
                notes.remove(note)
                notes.insert(rng.randrange(len(notes)), Note(note.content))
            case _:
                notes.append(Note("new"))
        # `KnownMessages` believes in parts; who changes what is inside of them makes another note.
        sent = [*map(deepcopy, notes)] if rng.random() < 0.5 else notes
        if sent is notes:
            app.lists._messages.clear()
        assert app.texts(sent) == [*map(told, sent)]


@pytest.mark.parametrize("other", [1.0, True, "1"])
def test_a_number_of_another_type_is_another(other: Any) -> None:
    app, notes = App(), [Note(str(n)) for n in range(20)]
    notes[7].calls = [{"args": {"q": 1}}]
    app.texts(notes)
    now = deepcopy(notes)
    now[7].calls[0]["args"]["q"] = other
    assert app.texts(now) == [*map(told, now)]


class Odd:
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("never compare me")

    __hash__ = None  # type: ignore[assignment]


def test_what_cannot_be_compared_is_mapped_each_time() -> None:
    app, notes = App(), [Note(str(n)) for n in range(20)]
    app.texts(notes)
    notes[3].more["odd"] = Odd()
    notes[4] = OtherNote("4")
    assert app.texts(deepcopy(notes))[4] == "OtherNote 4 [] {}"
    notes[3].content = "changed"
    assert app.texts(notes)[3].startswith("Note changed")


def test_lines_are_known_apart_and_the_oldest_are_forgotten() -> None:
    app, long = App(), "y" * (MAX_CHARS // 8)
    for n in range(40):
        app.texts([Note(f"{n} {each} {long}") for each in range(8)], str(n))
    assert sum(each.chars for each in app.lists._lists.values()) <= 2 * MAX_CHARS
    for n in range(40):
        app.texts([Note(f"{n} {each}") for each in range(MAX_EQUALS // 8)], str(n))
    held = sum(len(each.mapped) for each in app.lists._lists.values())
    assert 0 < held <= 2 * MAX_EQUALS
    app.texts([Note(str(each)) for each in range(2 * MAX_EQUALS + 1)], "too much alone")
    app.lists.clear()
    assert (app.lists._count, app.lists._chars, len(app.lists._lists)) == (0, 0, 0)


def holding_itself() -> dict[str, Any]:
    found: dict[str, Any] = {}
    found["it"] = found
    return found


def nested(levels: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for _ in range(levels):
        found = {"x": found}
    return found


@pytest.mark.parametrize(
    "odd", [{"data": "A" * 4_000_000}, nested(700), nested(3000), holding_itself()]
)
def test_what_is_large_deep_or_endless_is_mapped_each_time_and_not_kept(
    odd: dict[str, Any],
) -> None:
    """A picture, an artifact, arguments of a model: 20 conversations of pictures held 83 MB."""
    app = App()
    app.to_schema = lambda note: (  # type: ignore[method-assign]
        HostMessage(Message(role=Role.USER, content=note.content), Origin.TASK),
    )
    lists = KnownLists(
        KnownMessages(app.to_schema, lambda note: (note.content,)),
        lambda notes: [note.__dict__ for note in notes],
    )
    notes = [Note(str(n)) for n in range(20)]
    notes[3].more = odd
    for _ in range(2):
        assert [host.message.content for host in lists(notes, "")] == [
            note.content for note in notes
        ]
    assert lists._chars < 20_000
