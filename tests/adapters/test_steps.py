"""Who runs around a call, where a framework tells of no runs, and what the app said where it asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from ce_engine import ContextEngine, MemoryStore, create_context_engine
from ce_integrations import Adapter, CallInfo, ce_role, ce_session
from ce_integrations.calls.agent_steps import (
    Step,
    deeper,
    in_step,
    sent_from_here,
    step_around,
    stepping,
)
from ce_integrations.identity.session import Choice, resolve
from ce_integrations.identity.team_role import current_role
from ce_integrations.wrapping.function_kinds import within
from tests.adapters.test_composite import NoteAdapter


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    made = create_context_engine(MemoryStore())
    yield made
    made.sync.close()


@pytest.fixture
def installed(engine: ContextEngine) -> Callable[[], Any]:
    adapter: Adapter[Any, Any] = NoteAdapter()
    return lambda: adapter.install_ce([], engine=engine)


class Agent:
    pass


def session_of(info: CallInfo) -> str:
    return resolve(info, Choice()).scope.session_id


def test_a_step_in_a_step() -> None:
    team, ann, memory = Agent(), Agent(), Agent()
    with stepping(deeper(team, "team", conversation=memory, user_id="u")) as outer:
        assert step_around() is outer
        with stepping(deeper(team)) as again:
            assert again is outer
        with stepping(deeper(ann, "ann", conversation=ann, session_id="s")) as inner:
            info = inner.info(model="gpt-4", purpose="helper")
        with stepping(deeper(Agent())) as unnamed:
            assert unnamed.path == ("team",)
    assert step_around() is None
    assert (outer.path, inner.path, inner.subject) == (("team",), ("team", "ann"), ann)
    assert info == CallInfo(
        request_id=outer.request_id,
        session_id="s",
        user_id="u",
        lane_key="team/ann",
        agent="ann",
        model="gpt-4",
        purpose="helper",
        takes_history=True,
        conversation=memory,
    )
    assert outer.request_id != ""
    assert deeper(team).request_id != outer.request_id


def test_the_outermost_installation_governs_while_it_is_there(installed: Any) -> None:
    team, agent = installed(), installed()
    mine, other = team.hooks, agent.hooks
    with stepping(deeper(Agent(), "team", mine)):
        assert deeper(Agent(), "ann", other).hooks is mine
        team.uninstall()
        assert deeper(Agent(), "ann", other).hooks is other
    with stepping(deeper(Agent(), "team")):
        assert deeper(Agent(), "ann", other).hooks is other
        assert deeper(Agent(), "ann").hooks is None


async def asked_of(runtime: asyncio.Queue[Any], work: Callable[[], Awaitable[Any]]) -> Any:
    done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    await runtime.put((work, done))
    return await done


async def works(runtime: asyncio.Queue[Any]) -> None:
    while True:
        work, done = await runtime.get()
        try:
            done.set_result(await work())
        except AssertionError as error:
            done.set_exception(error)


async def test_what_the_app_said_holds_in_a_task_that_began_elsewhere() -> None:
    """The runtime was started by somebody else, in a session of theirs."""
    runtime: asyncio.Queue[Any] = asyncio.Queue()
    with ce_session("theirs", user_id="bob"), stepping(deeper(Agent(), "theirs")):
        task = asyncio.create_task(works(runtime))
    found: dict[str, Any] = {}

    async def work(step: Step, name: str) -> None:
        told = step.info()  # of a call that is made without stepping
        assert session_of(told) == name
        with stepping(deeper(Agent(), "ann", around=step)) as inner:
            await asyncio.sleep(0)
            found[name] = session_of(inner.info()), current_role()[0], inner.path
            with ce_session("of a tool"), stepping(deeper(Agent(), "bob")) as innermost:
                assert session_of(innermost.info()) == "of a tool"
            assert session_of(inner.info()) == name
        assert session_of(CallInfo()) == "theirs"

    async def ask(name: str) -> None:
        with ce_session(name), ce_role("planner"):
            step = deeper(Agent(), "team")
        await asked_of(runtime, lambda: work(step, name))

    await asyncio.gather(*(ask(f"s{n}") for n in range(5)))
    task.cancel()
    assert found == {f"s{n}": (f"s{n}", "planner", ("team", "ann")) for n in range(5)}


async def test_who_said_nothing_is_in_nobody_s_session_there() -> None:
    runtime: asyncio.Queue[Any] = asyncio.Queue()
    with ce_session("theirs"), ce_role("worker"):
        task = asyncio.create_task(works(runtime))
    step = deeper(Agent(), "team")

    async def work() -> None:
        with stepping(step):
            assert resolve(step.info(), Choice()).ephemeral
            assert current_role()[0] == "agent"

    await asked_of(runtime, work)
    task.cancel()


def test_a_block_that_ends_in_another_context_raises_nothing() -> None:
    block = stepping(deeper(Agent(), "team"))

    async def enter() -> None:
        block.__enter__()

    asyncio.run(enter())
    block.__exit__(None, None, None)
    assert step_around() is None


async def test_a_task_that_its_run_left_behind_works_for_nobody(installed: Any) -> None:
    runtime: asyncio.Queue[Any] = asyncio.Queue()
    hooks = installed().hooks
    with ce_session("theirs", user_id="bob"), stepping(deeper(Agent(), "ann", hooks)) as step:
        task = asyncio.create_task(works(runtime))

        async def within() -> None:
            assert step_around() is step
            assert session_of(step.info()) == "theirs"

        await asked_of(runtime, within)

    async def asks() -> None:
        left = step_around()
        assert left is not None
        assert (left.hooks, left.subject, left.path, left.conversation) == (hooks, None, (), None)
        found = resolve(left.info(), Choice())
        assert (found.ephemeral, found.scope.user_id) == (True, "")
        assert left.request_id != step.request_id

    async def begins_anew() -> None:
        own = installed().hooks
        for new in (
            deeper(Agent(), "bob", own),
            deeper(Agent(), "bob", own, around=sent_from_here()),
        ):
            with stepping(new):
                assert step_around() is new
                assert (new.hooks, new.path) == (own, ("bob",))
                assert resolve(new.info(), Choice()).ephemeral

    for work in (asks, begins_anew, says_whose, asks):
        await asked_of(runtime, work)
    task.cancel()


async def says_whose() -> None:
    with ce_session("ours", user_id="carl"):
        left = step_around()
        assert left is not None
        assert session_of(left.info()) == "ours"
        with stepping(deeper(Agent(), "bob")) as new:
            assert session_of(new.info()) == "ours"


async def test_a_step_lasts_while_one_of_its_own_does() -> None:
    """A stream that waits for the app, and what it has going meanwhile."""
    runtime: asyncio.Queue[Any] = asyncio.Queue()
    outer = deeper(Agent(), "team")
    found: list[Step | None] = []

    async def looks() -> None:
        found.append(step_around())

    with outer.lasting():
        with stepping(deeper(Agent(), "ann", around=outer)) as inner:
            task = asyncio.create_task(works(runtime))
        await asked_of(runtime, looks)
    await asked_of(runtime, looks)
    task.cancel()
    assert found[0] is inner
    assert found[1] is not None
    assert found[1].request_id != inner.request_id


class Worker:
    """Begins to work in every way that Python has; what it gives is the step that is around it."""

    def run(self) -> Any:
        return step_around()

    async def arun(self) -> Any:
        await asyncio.sleep(0)
        return step_around()

    def pieces(self) -> Iterator[Any]:
        yield step_around()
        yield step_around()

    async def apieces(self) -> AsyncIterator[Any]:
        yield step_around()
        await asyncio.sleep(0)
        yield step_around()


def begins(worker: Any) -> Step | None:
    return deeper(worker, "worker") if worker.governed else None


@pytest.mark.parametrize("way", ["run", "arun", "pieces", "apieces"])
def test_a_method_works_in_one_step_a_call(runner: asyncio.Runner, way: str) -> None:
    """Of a generator all steps are in it, and nobody who asks it is."""

    async def aseen(pieces: AsyncIterator[Any]) -> list[Any]:
        return [(piece, step_around()) async for piece in pieces]

    def seen(worker: Any) -> list[Any]:
        result = in_step(begins)(vars(Worker)[way])(worker)
        if way == "arun":
            result = runner.run(result)
        if way == "pieces":
            return [(piece, step_around()) for piece in result]
        return runner.run(aseen(result)) if way == "apieces" else [(result, step_around())]

    worker: Any = Worker()
    worker.governed = True
    first, second = seen(worker), seen(worker)
    for found in (first, second):
        assert {step.path for step, _ in found} == {("worker",)}
        assert [around for _, around in found] == [None] * len(found)
        assert len({id(step) for step, _ in found}) == 1
    assert first[0][0].request_id != second[0][0].request_id
    assert not first[0][0].at_work
    worker.governed = False
    assert {step for step, _ in seen(worker)} == {None}


def test_a_step_is_a_context_for_within() -> None:
    worker = Worker()
    around = within(lambda _, worker: stepping(deeper(worker, "worker")))(vars(Worker)["run"])
    assert around(worker).path == ("worker",)
