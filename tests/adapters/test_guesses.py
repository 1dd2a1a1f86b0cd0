"""What a task inherits, and may have inherited from a stranger, says nothing to a call that names somebody."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from ce_engine import Scope
from ce_integrations import CallInfo, ce_session
from ce_integrations.calls.agent_steps import deeper, stepping
from ce_integrations.identity.session import Choice, resolve


ANN = ("", "ann", "ann's chat")


async def asked_beside(ask: Callable[[], Awaitable[Scope]]) -> Scope:
    """What a task finds that a generator's reader begins, and that asks while the generator is at work."""
    begun, asked = asyncio.Event(), asyncio.Event()

    async def answers() -> AsyncIterator[str]:
        with ce_session("ann's chat", user_id="ann"):
            yield "one"
            begun.set()
            await asked.wait()
            yield "two"

    async def other() -> Scope:
        await begun.wait()
        try:
            return await ask()
        finally:
            asked.set()

    stream = answers()
    await anext(stream)
    task = asyncio.create_task(other())
    assert [piece async for piece in stream] == ["two"]
    return await task


def scope_of(info: CallInfo, choice: Choice | None = None) -> Scope:
    return resolve(info, choice or Choice()).scope


@pytest.mark.parametrize(
    ("named", "choice", "key"),
    [
        (CallInfo(session_id="bob's chat"), Choice(), ("", "", "bob's chat")),
        (CallInfo(), Choice(session_id=lambda _: "bob's chat"), ("", "", "bob's chat")),
        (
            CallInfo(session_id="a chat", user_id="bob"),
            Choice(session_id="theirs"),
            ("", "bob", "theirs"),
        ),
        (
            CallInfo(),
            Choice(scope=lambda _: Scope(session_id="b", account_id="acme")),
            ("acme", "", "b"),
        ),
        # Whoever names the same, or nobody, says nothing against it; what is set for all calls names nobody.
        (CallInfo(user_id="ann"), Choice(), ANN),
        (CallInfo(), Choice(), ANN),
        (CallInfo(), Choice(session_id="everybody's", user_id="service"), ANN),
    ],
)
async def test_a_call_that_names_somebody_is_theirs(
    named: CallInfo, choice: Choice, key: tuple[str, str, str]
) -> None:
    async def ask() -> Scope:
        return scope_of(named, choice)

    assert (await asked_beside(ask)).key == key


async def test_a_call_that_names_a_user_alone_is_in_nobody_s_session() -> None:
    async def ask() -> Scope:
        return scope_of(CallInfo(user_id="bob"))

    found = await asked_beside(ask)
    assert found.user_id == "bob"
    assert found.session_id.startswith("run-")


async def test_asking_before_without_a_name_changes_nothing() -> None:
    async def ask() -> Scope:
        assert scope_of(CallInfo()).key == ANN
        named = CallInfo(session_id="bob's chat")
        assert [await asyncio.create_task(_scope_of(named))] == [scope_of(named)]
        return scope_of(named)

    assert (await asked_beside(ask)).key == ("", "", "bob's chat")


async def _scope_of(info: CallInfo) -> Scope:
    return scope_of(info)


async def test_a_block_that_is_opened_there_has_no_other_s_user() -> None:
    async def ask() -> Scope:
        with ce_session("bob's chat"):
            return scope_of(CallInfo())

    assert (await asked_beside(ask)).key == ("", "", "bob's chat")


async def test_an_agent_that_begins_to_work_there_knows_no_more() -> None:
    async def ask() -> Scope:
        with stepping(deeper(object(), "agent", session_id="bob's chat")) as step:
            assert scope_of(step.info()).key == ("", "", "bob's chat")
            return await asyncio.create_task(_scope_of(step.info()))

    assert (await asked_beside(ask)).key == ("", "", "bob's chat")


async def test_what_is_around_a_call_for_certain_still_wins() -> None:
    named = CallInfo(session_id="bob's chat", user_id="bob")

    async def chunks() -> AsyncIterator[Scope]:
        with ce_session("ann's chat", user_id="ann"):
            yield scope_of(named)
            with stepping(deeper(object(), "agent")) as step:
                yield await asyncio.create_task(_scope_of(step.info()))

    assert [each.key async for each in chunks()] == [ANN, ANN]
    with ce_session("ann's chat", user_id="ann"):
        assert (await asyncio.create_task(_scope_of(named))).key == ANN
