"""Where nobody named a session: what goes on with the object that the framework hands from run to run."""

from __future__ import annotations

import gc
import itertools
from contextvars import Context, copy_context
from typing import Any, Literal

import pytest

from ce_engine import Answer, HostMessage, Message, Origin, Role, ToolRequest
from ce_integrations import CallInfo, ce_role, ce_session
from ce_integrations.identity.session import (
    CallIdentity,
    Choice,
    conversation_of,
    remember_answer,
    resolve,
)
from ce_integrations.identity.team_role import current_role
from ce_integrations.identity.unnamed_sessions import (
    MAX_REMEMBERED,
    Stateless,
    UnnamedSessions,
    unnamed,
)


class Memory:
    """Is like any other, as objects of frameworks may be."""

    __hash__ = None  # type: ignore[assignment]  # as it is with __eq__

    def __eq__(self, other: object) -> bool:
        return True


class Slotted:
    __slots__ = ("messages",)


def said(role: Role, text: str, *calls: str) -> HostMessage:
    asked = [ToolRequest(name=name, id="c", args={}) for name in calls]
    origin = Origin.ANSWER if role is Role.ASSISTANT else Origin.TASK
    return HostMessage(Message(role=role, content=text, tool_calls=asked or None), origin)


def user(text: str) -> HostMessage:
    return said(Role.USER, text)


class Host:
    """A framework that hands an object around, and asks."""

    runs = itertools.count()

    def __init__(self, conversation: object, owner: str = "") -> None:
        self.conversation = conversation
        self.owner = owner
        self.messages: list[HostMessage] = []

    def start(self) -> str:
        return f"run {next(self.runs)}"

    def ask(self, text: str, answer: str, run: str = "", *calls: str) -> str:
        """One call with its answer; gives its session."""
        self.messages.append(user(text))
        found = self.resolved(run or self.start(), self.messages)
        self.messages.append(said(Role.ASSISTANT, answer, *calls))
        remember_answer(found, Answer(self.messages[-1].message))
        return found.scope.session_id

    def resolved(self, run: str, messages: list[HostMessage], **told: Any) -> CallIdentity:
        info = CallInfo(run, user_id=self.owner, conversation=self.conversation, **told)
        found = resolve(info, Choice(), lambda: messages)
        assert found.ephemeral
        return CallIdentity(found.scope, ephemeral=True, conversation=conversation_of(info))

    def early(self, run: str, purpose: Literal["chat", "helper"] = "chat") -> str:
        """A tool's run, or a helper's call with a prompt of its own."""
        messages = [user("Put this otherwise: ...")] if purpose == "helper" else []
        return self.resolved(run, messages, purpose=purpose).scope.session_id


def test_its_runs_are_one_session() -> None:
    host = Host(Memory())
    first = host.ask("one", "The first.")
    assert host.ask("two", "The second.") == first
    host.messages[:] = host.messages[-1:]  # the framework trims
    assert host.ask("three", "The third.") == first
    assert Host(Memory()).ask("one", "The first.") != first
    assert Host(None).ask("one", "The first.") != first


def test_an_answer_that_only_asks_for_tools_is_one() -> None:
    host, run = Host(Memory()), "a run with tools"
    first = host.ask("one", "", run, "lookup")
    assert host.ask("two", "The second.") == first
    other = Host(host.conversation)
    other.messages += [user("one"), said(Role.ASSISTANT, "", "delete")]
    assert other.ask("two", "And this.") != first


def test_a_history_that_was_reset_begins_a_fresh_one() -> None:
    host = Host(Memory())
    first = host.ask("one", "The first.")
    host.messages.clear()
    second = host.ask("one", "Another one.")
    assert second != first
    assert host.ask("two", "The second.") == second


def test_what_colleagues_said_goes_on_too() -> None:
    team = Memory()
    first = Host(team).ask("one", "Ann says so.")
    bob = Host(team)
    bob.messages += [user("one"), user("Ann says so.")]
    assert bob.ask("and bob?", "So does bob.") == first


@pytest.mark.parametrize("purpose", ["chat", "helper"])
def test_what_comes_before_the_list_is_in_the_session_of_the_list(
    purpose: Literal["chat", "helper"],
) -> None:
    host = Host(Memory())
    first_run, second_run, third_run = host.start(), host.start(), host.start()
    found = host.early(first_run, purpose)
    assert host.ask("one", "The first.", first_run) == found
    assert host.early(second_run, purpose) == found
    assert host.ask("two", "The second.", second_run) == found
    host.messages.clear()
    assert host.early(third_run, purpose) == found
    fresh = host.ask("one", "A new one.", third_run)
    assert fresh != found
    assert host.early(third_run, purpose) == fresh


def test_a_helper_s_answer_is_in_nobody_s_list() -> None:
    host, run = Host(Memory()), "a run with a helper"
    found = host.resolved(run, [user("Put it otherwise.")], purpose="helper")
    remember_answer(found, Answer(Message(role=Role.ASSISTANT, content="one, otherwise")))
    host.messages.append(said(Role.ASSISTANT, "one, otherwise"))
    assert host.ask("one", "The first.") != found.scope.session_id


def test_two_owners_of_one_object_never_share() -> None:
    shared = Memory()
    ann, bob = Host(shared, "ann"), Host(shared, "bob")
    first = ann.ask("one", "The first.")
    bob.messages = ann.messages  # the app mixes them; we do not
    assert bob.early("a run of bob's") != first
    assert bob.ask("two", "The second.") != first
    assert ann.ask("three", "The third.") == first


def test_an_answer_of_two_sessions_tells_nothing() -> None:
    shared = Memory()
    one, two = Host(shared), Host(shared)
    sessions = {one.ask("hi", "Hello!"), two.ask("hi", "Hello!")}
    assert len(sessions) == 2
    assert one.ask("two", "The second.") not in sessions


def test_an_agent_that_keeps_nothing_has_many_conversations() -> None:
    """Each list goes on with its own answer; what has no answer yet goes on with nobody's."""
    agent = Memory()
    ann, bob = Host(Stateless(agent)), Host(Stateless(agent))
    first, second = ann.ask("one", "To Ann."), bob.ask("one", "To Bob.")
    assert first != second
    assert ann.ask("two", "To Ann again.") == first
    assert bob.ask("two", "To Bob again.") == second
    run = ann.start()
    early = ann.early(run)
    assert early not in (first, second)  # a tool before the list: whose it is, nobody knows
    assert ann.early(run) == early
    assert Host(Stateless(agent)).ask("one", "To nobody.") not in (first, second, early)
    assert Host(Stateless(Slotted())).ask("one", "The first.") != first


def test_an_answer_that_two_of_its_conversations_got_tells_nothing() -> None:
    agent = Memory()
    ann, bob = Host(Stateless(agent)), Host(Stateless(agent))
    first, second = ann.ask("one", "Yes."), bob.ask("one", "Yes.")
    assert ann.ask("two", "To Ann.") not in (first, second)


@pytest.mark.parametrize(
    "conversation", [[], {}, Slotted(), "text", 12], ids=lambda each: type(each).__name__
)
def test_what_cannot_be_held_weakly_is_not_known(conversation: object) -> None:
    host = Host(conversation)
    assert host.ask("one", "The first.") != host.ask("two", "The second.")


def test_who_takes_the_place_of_one_that_is_gone_is_another() -> None:
    gc.collect()
    before = len(unnamed._numbers)
    seen = {Host(Memory()).ask("one", "The first.") for _ in range(100)}
    assert len(seen) == 100
    assert len(unnamed._numbers) == before


def test_what_is_remembered_is_bounded() -> None:
    mine, memory = UnnamedSessions(), Memory()
    number = mine.number_of(memory)
    for n in range(MAX_REMEMBERED + 100):
        message = Message(role=Role.ASSISTANT, content=str(n))
        session = mine.session_of(f"r{n}", ("", str(n)), list, number)
        mine.remember(("", str(n)), session, message, None, number)
    assert mine.number_of(memory) == number
    held: list[Any] = [mine.runs, mine.answers, mine._early, mine._latest]
    assert {len(each._items) for each in held} <= {0, MAX_REMEMBERED}


def test_a_session_that_has_a_name_is_that_one() -> None:
    memory = Memory()
    with ce_session("named"):
        info = CallInfo("a named run", conversation=memory)
        found = resolve(info, Choice())
        assert found.scope.session_id == "named"
        answered = CallIdentity(found.scope, found.ephemeral, conversation_of(info))
        remember_answer(answered, Answer(Message(role=Role.ASSISTANT, content="The first.")))
    host = Host(memory)
    host.messages.append(said(Role.ASSISTANT, "The first."))
    assert host.ask("two", "The second.").startswith("run-")


# Where the app asked


def there(session_id: str) -> Context:
    with ce_session(session_id, user_id="ann"), ce_role("worker", ["knowledge__context"]):
        return copy_context()


def test_what_the_app_said_where_it_asked_is_heard_elsewhere() -> None:
    context = there("asked")
    scope = resolve(CallInfo(context=context), Choice()).scope
    assert (scope.session_id, scope.user_id) == ("asked", "ann")
    assert current_role(context) == ("worker", frozenset({"knowledge__context"}))
    assert current_role() == current_role(Context()) == ("agent", frozenset())


def test_what_a_task_inherited_from_others_does_not_count() -> None:
    with ce_session("whoever started the runtime", user_id="bob", account_id="acme"):
        scope = resolve(CallInfo(context=there("asked")), Choice()).scope
        nobody = resolve(CallInfo(context=Context()), Choice())
    assert (scope.session_id, scope.user_id, scope.account_id) == ("asked", "ann", "acme")
    assert (nobody.ephemeral, nobody.scope.user_id) == (True, "")
