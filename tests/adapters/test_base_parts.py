"""The parts that adapters are made of: known messages, the guard, patches, runs, the walk, blocks, usage."""

from __future__ import annotations

import asyncio
import gc
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

from ce_engine import (
    ConfigError,
    Extend,
    HostMessage,
    Insert,
    Keep,
    Layer,
    Message,
    Origin,
    Restore,
    Role,
    Shorten,
    ToolRequest,
    Usage,
)
from ce_integrations.calls.run_tree import RunTree
from ce_integrations.calls.tool_events import retrieved_doc
from ce_integrations.mapping.content_blocks import (
    Beside,
    beside_text,
    call_args,
    changed,
    media_digests,
    text_of,
    tool_requests,
)
from ce_integrations.mapping.known_messages import MAX_CHARS, MAX_EQUALS, MAX_STRONG, KnownMessages
from ce_integrations.mapping.usage import usage_of
from ce_integrations.wrapping.bounded_maps import BoundedMap
from ce_integrations.wrapping.guard import Guard
from ce_integrations.wrapping.patches import ClassPatches, definitions, put


OURS = "ours"


@dataclass(eq=False)
class Note:
    """A message of a make-believe framework."""

    role: str
    content: str


def to_schema(native: Note) -> HostMessage:
    return HostMessage(Message(role=Role(native.role), content=native.content), Origin.TASK)


def parts(native: Note) -> tuple[object, ...]:
    return (native.content,)


def test_known_messages_are_mapped_once() -> None:
    mapped: list[Note] = []

    def counting(native: Note) -> tuple[HostMessage, ...]:
        mapped.append(native)
        return (to_schema(native),)

    known = KnownMessages(counting, parts)
    note = Note("user", "x")
    first = known(note)
    assert known(note) is first
    note.content = "y"
    assert known(note) is not first
    assert known(note)[0].message.content == "y"
    assert len(mapped) == 2
    mapped.clear()
    for n in range(50):  # the next one may well have the id of the one before
        assert known(Note("user", str(n)))[0].message.content == str(n)
    del note
    mapped.clear()
    gc.collect()
    assert len(known._weak) == 0


def test_who_says_the_same_is_mapped_once() -> None:
    mapped: list[Note] = []

    def counting(native: Note) -> tuple[HostMessage, ...]:
        mapped.append(native)
        return (to_schema(native),)

    known = KnownMessages(counting, parts, lambda native: (native.role, native.content))
    assert known(Note("user", "x")) is known(Note("user", "x"))
    assert known(Note("assistant", "x")) is not known(Note("user", "x"))
    assert len(mapped) == 2
    for n in range(2 * MAX_EQUALS + 10):
        known(Note("user", str(n)))
    assert known(Note("user", "x"))[0].message.content == "x"  # forgotten by now, and mapped anew
    assert len(known._equal) + len(known._equal_before) <= 2 * (MAX_EQUALS + 1)
    long = "y" * (MAX_CHARS // 4)
    for n in range(20):
        known(Note("user", f"{n} {long}"))
    held = [*known._equal, *known._equal_before]
    assert sum(len(str(said)) for said in held) < 3 * MAX_CHARS


def test_natives_without_weak_references_are_known_too() -> None:
    def of_dict(native: dict[str, str]) -> tuple[HostMessage, ...]:
        message = Message(role=Role.USER, content=native["content"])
        return (HostMessage(message, Origin.TASK),)

    known = KnownMessages(of_dict, lambda native: (native["content"],))
    native = {"content": "x"}
    assert known(native) is known(native)
    native["content"] = "y"
    assert known(native)[0].message.content == "y"
    for n in range(MAX_STRONG + 5):
        known({"content": str(n)})
    assert len(known._strong) == MAX_STRONG


@pytest.mark.production_guard
def test_the_guard_lets_pass_what_is_not_ours() -> None:
    guard = Guard()
    for passing in (KeyboardInterrupt, GeneratorExit, asyncio.CancelledError, SystemExit):
        with pytest.raises(passing), guard("here"):
            raise passing
    with guard("here"):
        raise LookupError("secret")
    (fault,) = guard.faults
    assert (fault.where, fault.kind) == ("here", "LookupError")
    assert fault.line.startswith("test_base_parts.py:")
    assert "secret" not in repr(fault)


def test_the_guard_remembers_what_it_lets_pass() -> None:
    """Whoever catches it there, a framework perhaps, is not the last to know."""
    guard, told = Guard(), list[Any]()
    guard.tell = told.append
    with suppress(LookupError), guard("here"):
        raise LookupError("secret")
    closed = Guard("closed")
    with suppress(ConfigError), closed("there"):
        raise ConfigError("secret")
    assert [(fault.kind, fault.where) for fault in (*guard.faults, *closed.faults)] == [
        ("LookupError", "here"),
        ("ConfigError", "there"),
    ]
    assert told == []  # the host heard of it itself


def test_class_patches_come_and_go() -> None:
    class Host:
        def one(self) -> str:
            return "one"

        def two(self) -> str:
            return "two"

    def louder(original: Any) -> Any:
        return lambda self: original(self).upper()

    before = dict(vars(Host))
    patches, holders = ClassPatches(), [Guard(), Guard(), Guard()]
    first = patches.hold([(Host, "one", louder)], holders[0])
    second = patches.hold([(Host, "one", louder), (Host, "two", louder)], holders[1])
    assert (Host().one(), Host().two()) == ("ONE", "TWO")
    first()
    first()
    assert Host().one() == "ONE"
    with pytest.raises(KeyError):
        patches.hold([(Host, "two", louder), (Host, "missing", louder)], holders[2])
    second()
    assert dict(vars(Host)) == before
    patches.hold([(Host, "one", louder)], holders.pop())
    gc.collect()
    patches.hold([], holders[0])
    assert dict(vars(Host)) == before


def test_what_another_wrapped_later_stays_wrapped() -> None:
    class Host:
        def one(self) -> str:
            return "one"

    patches, holder = ClassPatches(), Guard()
    release = patches.hold(
        [(Host, "one", lambda original: lambda self: original(self) + "!")], holder
    )
    inner = Host.one
    Host.one = lambda self: f"({inner(self)})"  # type: ignore[method-assign]  # as others do
    release()
    assert Host().one() == "(one!)"


def test_put_and_back() -> None:
    def add(now: Any) -> list[Any]:
        return [*(now or ()), OURS]

    def take_out(now: Any) -> Any:
        return [each for each in now if each != OURS] or None if OURS in (now or ()) else now

    theirs = ["x"]
    place: dict[str, Any] = dict.fromkeys(("kept", "grown", "replaced", "dropped"), theirs)
    undos = [put(place, name, add, take_out) for name in (*place, "new", "new and grown")]
    assert place["kept"] == place["replaced"] == ["x", OURS]
    assert place["new"] == [OURS]
    place["grown"].append("y")
    place["new and grown"].append("y")
    place["replaced"] = replaced = ["x"]
    del place["dropped"]
    for undo in undos:
        undo()
    assert place == {"kept": ["x"], "grown": ["x", "y"], "replaced": ["x"], "new and grown": ["y"]}
    assert place["kept"] is theirs
    assert place["replaced"] is replaced
    assert theirs == ["x"]


def test_runs_know_their_roots() -> None:

    class Owner:
        active = True

    outer, inner = Owner(), Owner()
    owned: RunTree[str, Owner] = RunTree()
    owned.add("root", None, outer)
    owned.add("child", "root", inner)
    owned.add("grandchild", "child", inner)
    assert owned.of("grandchild") == ("root", outer)
    outer.active = False
    assert owned.of("grandchild", inner) == ("root", inner)
    assert owned.of("unknown", inner) == ("unknown", inner)
    owned.add("leaf", "a parent that nobody told of", None)
    assert owned.of("leaf") == ("a parent that nobody told of", None)


def test_definitions_are_wrapped_where_they_stand() -> None:
    class Base:
        def run(self) -> str:
            return "base"

    class Child(Base):
        def run(self) -> str:
            return "child"

    class Grandchild(Child):
        pass

    def louder(original: Any) -> Any:
        return original

    makers: dict[type, Any] = {Base: {"run": louder, "missing": louder}}
    found = {(cls, name) for cls, name, _ in definitions(makers, [Grandchild(), object()])}
    assert found == {(Base, "run"), (Child, "run")}


def test_a_bounded_map_forgets_what_was_not_touched() -> None:
    kept: BoundedMap[int, str] = BoundedMap(2)
    assert kept.put(1, "one") == "one"
    kept.put(2, "two")
    assert kept.get(1) == "one"
    kept.put(3, "three")
    assert (kept.get(1), kept.get(2), kept.get(3)) == ("one", None, "three")
    assert kept.put(1, "again") == "one"
    assert kept.pop(1) == "one"
    assert kept.pop(1) is None


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (None, None),
        ({}, None),
        ({"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}, Usage(3, 2, 5)),
        ({"input_tokens": 3, "output_tokens": 2}, Usage(3, 2, 5)),
        (
            {
                "prompt_tokens": 3,
                "prompt_tokens_details": {"cached_tokens": 1, "audio_tokens": 2},
                "completion_tokens_details": {"audio_tokens": 4, "reasoning_tokens": 0},
            },
            Usage(3, 0, 3, details={"cached_tokens": 1, "input_audio": 2, "output_audio": 4}),
        ),
        (
            {"input_tokens": 3, "input_token_details": {"cache_read": 0, "cache_creation": 0}},
            Usage(3, 0, 3, details={"cache_read": 0}),
        ),
    ],
    ids=["none", "nothing", "openai", "anthropic", "details", "nothing cached"],
)
def test_usage_in_all_its_names(told: Any, expected: Usage | None) -> None:
    assert usage_of(told) == expected


def test_blocks() -> None:
    content = ["plain ", {"type": "text", "text": "block"}, {"type": "image", "url": "u"}, 5]
    assert text_of(content) == "plain block"
    assert text_of(None) == text_of(7) == ""
    assert len(media_digests(content)) == 1
    beside = beside_text(content)
    assert beside.digests == media_digests(content)
    assert [(each.kind, each.digest) for each in beside.attachments] == [("image", *beside.digests)]
    assert beside_text("text") == Beside()
    call = beside_text([{"type": "tool_use", "input": {"x": "y"}}])
    assert (len(call.digests), call.tokens, call.attachments) == (1, 0, ())
    (file,) = beside_text([{"type": "file", "file_id": "f"}]).attachments
    assert (file.kind, file.size) == ("file", None)
    assert call_args({"arguments": "[1]"}) == {"": [1]}
    assert call_args({"name": "f"}) == {"": None}
    assert changed("text", Shorten(0, "t")) == "t"
    assert changed("text", Extend(0, "! ", before=True)) == "! text"
    assert changed("text", Keep(0)) == "text"
    assert changed("", Insert("new", Layer.RULES)) == "new"
    assert changed("", Restore(Message(role=Role.USER, content="old"))) == "old"


def test_calls_of_tools_in_mappings_and_objects() -> None:
    @dataclass
    class Call:
        id: str
        name: str
        arguments: str

    args = '{"word": "车道"}'
    expected = [ToolRequest(name="find", id="c1", args={"word": "车道"})]
    assert tool_requests([Call("c1", "find", args)]) == expected
    assert tool_requests([{"id": "c1", "name": "find", "args": {"word": "车道"}}]) == expected
    assert tool_requests([{"name": None, "input": "{"}]) == [ToolRequest(name="", args={"": "{"})]


def test_results_in_blocks_count_once_and_keep_their_pictures() -> None:
    picture = {"type": "image", "source": {"url": "u"}}
    told = [{"type": "text", "text": "a long text " * 100}, picture]
    result = {"type": "tool_result", "tool_use_id": "c1", "content": told}
    assert beside_text([result]).attachments == beside_text([picture]).attachments
    assert 0 < beside_text([result]).tokens < 50
    assert beside_text([{**result, "content": "a long text " * 100}]).tokens < 50
    (short,) = changed([result], Shorten(0, "short"))
    assert short == {**result, "content": [{"type": "text", "text": "short"}, picture]}
    assert result["content"] == told


@pytest.mark.req("A-29")
def test_documents_tell_of_themselves_by_convention() -> None:
    metadata = {"url": "https://example.org/a", "score": 0.5, "doc_version": "2"}
    found = retrieved_doc("text", metadata, "id-1")
    assert (found.uri, found.score, found.id) == ("https://example.org/a", 0.5, "id-1")
    assert found.metadata == metadata
    bare = retrieved_doc("text", {"score": True})
    assert (bare.uri, bare.score) == ("", None)
