"""Tasks that outlive the run that they were started in, and work for others by then."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import pytest
from autogen_agentchat.agents import AssistantAgent, BaseChatAgent
from autogen_agentchat.base import Response
from autogen_agentchat.messages import BaseChatMessage, TextMessage
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import CancellationToken
from autogen_core.models import UserMessage
from autogen_core.tools import TextResultContent, ToolResult, ToolSchema, Workbench

from ce_integrations import ce_session
from ce_integrations.autogen import install_ce
from ce_integrations.testing.wire import Wire, text, tool_calls


pytestmark = pytest.mark.req("A-23", "A-24")

ASK: ToolSchema = {
    "name": "ask",
    "description": "Ask.",
    "parameters": {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]},
}


class Lazy(Workbench):
    """Connects when it is first used: a task of its own, which asks a model for its users."""

    component_type = "workbench"

    def __init__(self, client: Any) -> None:
        self.client = client
        self.task: asyncio.Task[None] | None = None
        self.inbox: asyncio.Queue[tuple[str, asyncio.Future[str]]] = asyncio.Queue()

    async def work(self) -> None:
        while True:
            asked, done = await self.inbox.get()
            result = await self.client.create([UserMessage(content=asked, source="server")])
            done.set_result(str(result.content))

    async def list_tools(self) -> list[ToolSchema]:
        return [ASK]

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        cancellation_token: CancellationToken | None = None,
        call_id: str | None = None,
    ) -> ToolResult:
        if self.task is None:
            self.task = asyncio.create_task(self.work())
        done: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        await self.inbox.put(((arguments or {})["q"], done))
        return ToolResult(name=name, result=[TextResultContent(content=await done)])

    async def start(self) -> None: ...

    async def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()

    async def reset(self) -> None: ...

    async def save_state(self) -> Mapping[str, Any]:
        return {}

    async def load_state(self, state: Mapping[str, Any]) -> None: ...


class Busy(BaseChatAgent):
    """Asks its model in a task, while the app looks at its first event."""

    def __init__(self, client: Any) -> None:
        super().__init__("busy", "is busy")
        self.client = client
        self.go, self.asked = asyncio.Event(), asyncio.Event()

    @property
    def produced_message_types(self) -> Sequence[type[BaseChatMessage]]:
        return (TextMessage,)

    async def work(self) -> str:
        await self.go.wait()
        result = await self.client.create([UserMessage(content="work", source="user")])
        self.asked.set()
        return str(result.content)

    async def on_messages(self, messages: Any, cancellation_token: CancellationToken) -> Response:
        raise NotImplementedError

    async def on_messages_stream(
        self, messages: Any, cancellation_token: CancellationToken
    ) -> AsyncGenerator[Any, None]:
        task = asyncio.create_task(self.work())
        yield TextMessage(content="began", source=self.name)
        yield Response(chat_message=TextMessage(content=await task, source=self.name))

    async def on_reset(self, cancellation_token: CancellationToken) -> None: ...


def private(body: Any) -> Any:
    last = body["messages"][-1]
    if last["role"] == "user" and body.get("tools"):
        return tool_calls([("ask", {"q": f"private words of {last['content']}"})])
    return text("ok")


async def test_what_a_shared_workbench_asks_for_another_user_is_not_the_first_one_s(
    client: Any, engine: Any, stored: Any
) -> None:
    with Wire(private) as wire, ExitStack() as installed:
        model = client(wire)
        shared = Lazy(model)
        for user in ("alice", "bob"):
            ann = AssistantAgent("ann", model, workbench=shared, max_tool_iterations=3)
            installed.enter_context(install_ce(ann, engine=engine))
            with ce_session(user, user_id=user):
                await ann.run(task=user)
        await shared.stop()
    assert "bob" not in str(stored.document("alice", "alice"))
    assert "private words of alice" in [said for *_, said in stored.said("alice", "alice")]
    assert "alice" not in str(stored.document("bob", "bob").session.messages)


async def test_what_it_asks_is_governed_and_in_nobody_s_session(
    client: Any, engine: Any, stored: Any
) -> None:
    """One installation for all of them, which is there all the time."""
    with Wire(private) as wire:
        model = client(wire)
        shared = Lazy(model)
        ann = AssistantAgent("ann", model, workbench=shared, max_tool_iterations=3)
        with install_ce(ann, engine=engine):
            for user in ("alice", "bob", "carl"):
                await ann.on_reset(CancellationToken())
                with ce_session(user, user_id=user):
                    await ann.run(task=user)
        await shared.stop()
    ephemeral = [each.session_id for each in stored.sessions() if each.ephemeral]
    said = sorted(content for each in ephemeral for *_, content in stored.said(each))
    assert said == ["ok", "ok", "private words of bob", "private words of carl"]
    assert len(ephemeral) == 2
    assert all(turn.lane in ("", "main") for each in ephemeral for turn in stored.turns(each))


@pytest.mark.parametrize("in_team", [False, True])
async def test_a_stream_is_not_over_while_the_app_looks_at_an_event(
    in_team: bool, client: Any, engine: Any, stored: Any
) -> None:
    with Wire() as wire:
        busy = Busy(client(wire))
        app = RoundRobinGroupChat([busy], max_turns=1) if in_team else busy
        with install_ce(app, engine=engine), ce_session("s"):
            stream = app.run_stream(task="go")
            async for event in stream:
                if isinstance(event, TextMessage) and event.content == "began":
                    busy.go.set()
                    await busy.asked.wait()
    lane = "RoundRobinGroupChat/busy" if in_team else "busy"
    assert [turn.lane for turn in stored.turns()] == [lane]
    assert len(stored.sessions()) == 1
