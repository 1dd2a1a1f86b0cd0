"""Whose session a call belongs to: who says it, who wins, and what is no id (decision 9)."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from ce_engine import (
    Answer,
    ConfigError,
    HostMessage,
    Message,
    Origin,
    Role,
    SchemaValidationError,
    Scope,
)
from ce_engine.schema.scope import MOST_ID_BYTES
from ce_integrations import CallInfo, ce_session
from ce_integrations.identity.session import Choice, remember_answer, resolve
from ce_integrations.install.options import Options


def found(info: CallInfo | None = None, **choice: Any) -> Scope:
    return resolve(info or CallInfo(), Choice(**choice)).scope


def answer(text: str, host_id: str | None) -> HostMessage:
    return HostMessage(Message(role=Role.ASSISTANT, content=text), Origin.ANSWER, host_id=host_id)


OWN = CallInfo(session_id="own", user_id="own user", agent="writer", request_id="r")


def test_the_innermost_wins() -> None:
    value: dict[str, Any] = {"session_id": "value", "scope": Scope(session_id="scope")}
    called = {"session_id": lambda _: "called", "scope": lambda _: Scope(session_id="scope")}
    assert found(OWN).session_id == "own"
    assert found(OWN, scope=Scope(session_id="scope")).session_id == "scope"
    assert found(OWN, **value).session_id == "value"
    assert found(OWN, **called).session_id == "called"
    assert found(OWN, session_id="value", scope=called["scope"]).session_id == "scope"
    with ce_session("block"):
        assert found(OWN, **called).session_id == "block"
        with ce_session("inner"):
            assert found(OWN, **value).session_id == "inner"
        assert found(OWN).session_id == "block"
    assert found(OWN).session_id == "own"


def test_each_part_is_found_by_itself() -> None:
    scope = Scope(session_id="s", account_id="acme", project_id="p")
    with ce_session("block", user_id="ann"):
        both = found(OWN, scope=scope, user_id="bob")
    assert both == Scope(
        session_id="block",
        user_id="ann",
        account_id="acme",
        project_id="p",
        agent_id="writer",
        trace_id="r",
    )
    with ce_session("outer", user_id="ann", account_id="acme"), ce_session("inner", agent_id="x"):
        assert found(OWN) == Scope(
            session_id="inner", user_id="ann", account_id="acme", agent_id="x", trace_id="r"
        )
    with ce_session("outer", user_id="ann"), ce_session("inner", user_id=""):
        assert found(OWN).user_id == ""


@pytest.mark.parametrize("shared", ["default", "chat_history", "", None, True, object(), ["a"]])
def test_what_everybody_has_is_no_id(shared: Any) -> None:
    first, second = (resolve(CallInfo(session_id=shared), Choice()) for _ in range(2))
    assert first.ephemeral
    assert first.scope.session_id != second.scope.session_id
    assert "default" not in first.scope.session_id


@pytest.mark.parametrize("own", ["t", 12, uuid.UUID(int=1)], ids=str)
def test_ids_of_frameworks_need_not_be_texts(own: Any) -> None:
    assert resolve(CallInfo(session_id=own), Choice()).scope.session_id == str(own)
    assert resolve(CallInfo(session_id=own), Choice()).ephemeral is False


def test_a_callable_may_say_nothing() -> None:
    assert found(OWN, session_id=lambda _: None).session_id == "own"
    assert found(OWN, scope=lambda _: None).session_id == "own"
    assert resolve(CallInfo(), Choice(session_id=lambda _: None)).ephemeral


IDS: list[tuple[Any, str]] = [
    ("s", "s"),
    ("会话", "会话"),
    (5, "5"),
    (0, "0"),
    (2.5, "2.5"),
    (uuid.UUID(int=7), str(uuid.UUID(int=7))),
]
NO_IDS: list[Any] = ["", ["a"], ("a",), {"a": 1}, True, float("nan"), b"s", object()]


def told(options: dict[str, Any]) -> Scope:
    """The scope of a call, as `install_ce` was told."""
    whole = dict.fromkeys(("engine", "store", "config", "budget", "scope", "session_id", "user_id"))
    said = Options(**{**whole, "fail": "open", **options})
    return resolve(OWN, Choice(said.scope, said.session_id, said.user_id)).scope


@pytest.mark.parametrize(("given", "text"), IDS)
def test_texts_numbers_and_uuids_are_ids_whoever_says_them(given: Any, text: str) -> None:
    assert told({"session_id": given, "user_id": given}).key == ("", text, text)
    assert told({"session_id": lambda _: given, "user_id": lambda _: given}).key == ("", text, text)
    assert told({"scope": Scope(session_id=given, user_id=given)}).key == ("", text, text)
    with ce_session(given, user_id=given, account_id=given):
        assert found(OWN).key == (text, text, text)


@pytest.mark.parametrize("given", NO_IDS, ids=lambda given: type(given).__name__)
def test_what_is_no_id_is_refused_with_the_cure_whoever_says_it(given: Any) -> None:
    asked: list[Callable[[], object]] = [
        lambda: told({"session_id": given}),
        lambda: told({"session_id": lambda _: given}),
        lambda: ce_session(given),
    ]
    if given != "":  # nobody is a user
        asked.append(lambda: told({"user_id": given}))
        asked.append(lambda: told({"user_id": lambda _: given}))
        asked.append(lambda: told({"scope": Scope(session_id="s", user_id=given)}))
        asked.append(lambda: ce_session("s", account_id=given))
    for ask in asked:
        with pytest.raises(ConfigError, match=r"_id of .*expected a text .*leave it out"):
            ask()


@pytest.mark.req("A-13", "A-25")
def test_half_a_character_is_no_id() -> None:
    half = "half a pair: \ud83d"
    for ask in (
        lambda: told({"session_id": half}),
        lambda: told({"user_id": lambda _: half}),
        lambda: ce_session("s", account_id=half),
    ):
        with pytest.raises(ConfigError, match=r"_id of .*surrogate.*leave it out") as refused:
            ask()
        assert half not in str(refused.value)
    with pytest.raises(SchemaValidationError, match="surrogate"):
        found(CallInfo(session_id=half))


@pytest.mark.req("A-13", "A-25")
def test_what_no_store_takes_is_no_id() -> None:
    assert told({"session_id": "i" * MOST_ID_BYTES}).session_id == "i" * MOST_ID_BYTES
    long = "词" * 171
    for ask in (
        lambda: told({"session_id": long}),
        lambda: told({"user_id": lambda _: long}),
        lambda: ce_session("s", account_id=long),
    ):
        with pytest.raises(
            ConfigError, match=r"_id of .*has 513 bytes.*most are 512.*hash"
        ) as refused:
            ask()
        assert long not in str(refused.value)
    with pytest.raises(SchemaValidationError, match=r"session_id has 513 bytes.*most are 512"):
        found(CallInfo(session_id=long))


def test_an_agent_whose_name_is_a_paragraph_is_governed() -> None:
    """What a framework names an agent is no id that an app chose: a role may be as long as it likes."""
    long = "研究员" * 200
    ids = [found(CallInfo(session_id="s", agent=name)).agent_id for name in (long, f"{long}!")]
    assert all(each.startswith("研究员研究员") for each in ids)
    assert max(len(each.encode()) for each in ids) <= MOST_ID_BYTES
    assert ids[0] != ids[1]
    assert found(CallInfo(session_id="s", agent="researcher")).agent_id == "researcher"


def test_nobody_is_said_as_an_empty_text() -> None:
    assert told({"user_id": ""}).user_id == ""
    assert told({"user_id": lambda _: ""}).user_id == ""
    assert told({}).user_id == "own user"


@pytest.mark.parametrize("said", [Scope(session_id="s"), lambda _: Scope(session_id="s")])
@pytest.mark.parametrize("beside", ["session_id", "user_id"])
def test_a_scope_beside_an_id_is_refused(said: Any, beside: str) -> None:
    with pytest.raises(ConfigError, match=f"scope and {beside}, .* Give one of the two"):
        told({"scope": said, beside: "x"})


def test_a_scope_is_a_scope_or_a_function() -> None:
    with pytest.raises(ConfigError, match=r"scope is a builtins\.str; expected a Scope"):
        told({"scope": "customer-17"})


def test_a_callable_that_gives_no_id() -> None:
    async def asynchronous(info: CallInfo) -> str:
        return "s"

    with pytest.raises(ConfigError, match="session_id of the callable of install_ce is a Scope"):
        found(session_id=lambda _: Scope(session_id="s"))
    with pytest.raises(ConfigError, match="scope callable"):
        found(scope=lambda _: "s")
    with pytest.raises(ConfigError, match="async one"):
        found(session_id=asynchronous)


def test_a_block_needs_an_id() -> None:
    nobody: Any = None
    with pytest.raises(ConfigError, match="not empty"):
        ce_session(nobody)


def test_a_run_without_an_id_is_one_session() -> None:
    def of(request: str, user: str = "") -> Any:
        return resolve(CallInfo(request_id=request, user_id=user), Choice())

    one, same, other = of("r-1"), of("r-1"), of("r-2")
    assert one == same
    assert one.scope.session_id != other.scope.session_id
    assert of("r-1", "ann").scope.session_id != one.scope.session_id  # a run id may be made up


def test_a_list_with_an_answer_of_ours_goes_on_with_its_session() -> None:
    def of(request: str, messages: list[HostMessage], user: str = "") -> str:
        info = CallInfo(request_id=request, user_id=user)
        return resolve(info, Choice(), lambda: messages).scope.session_id

    resolved = resolve(CallInfo(request_id="a-1"), Choice())
    first = resolved.scope
    said = answer("the answer", "id-1")
    remember_answer(resolved, Answer(said.message, said.host_id))
    assert of("a-2", [answer("the answer", "id-1")]) == first.session_id
    later = [answer("the answer", "id-1"), *[answer("x", "y")] * 3]
    assert of("a-3", later) == first.session_id
    assert of("a-4", [answer("another answer", "id-1")]) != first.session_id
    assert of("a-5", [answer("the answer", "id-2")]) != first.session_id
    assert of("a-6", [answer("the answer", None)]) != first.session_id
    assert of("a-7", [answer("the answer", "id-1")], "ann") != first.session_id
    assert resolve(CallInfo(request_id="a-2"), Choice()).ephemeral


async def test_blocks_hold_in_tasks_and_not_beside_them() -> None:
    async def inside(name: str) -> str:
        async with ce_session(name):
            await asyncio.sleep(0)
            return found().session_id

    names = [f"s{n}" for n in range(20)]
    assert await asyncio.gather(*map(inside, names)) == names
    assert resolve(CallInfo(), Choice()).ephemeral


def test_one_block_may_be_entered_again() -> None:
    block = ce_session("s")
    with block, block:
        assert found().session_id == "s"
    with block:
        assert found().session_id == "s"
    assert resolve(CallInfo(), Choice()).ephemeral
