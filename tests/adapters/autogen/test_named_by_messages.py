"""Who may say by a message's metadata whose a call is: the app's task, and no message that comes later."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import pytest
from autogen_agentchat.agents import BaseChatAgent
from autogen_agentchat.base import Response
from autogen_agentchat.messages import BaseChatMessage, TextMessage
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import CancellationToken

from ce_engine import ContextEngine, Scope
from ce_integrations import ce_session
from ce_integrations.autogen import install_ce
from ce_integrations.testing.answers import text, tool_calls
from ce_integrations.testing.wire import Wire
from tests.adapters.autogen.configurations import agent


pytestmark = [pytest.mark.scenario(10), pytest.mark.req("B-03")]

RULE = "Say no more than is asked. 少说。"
ADA = {"session_id": "main", "user_id": "ada"}
EVE = {"session_id": "eves", "user_id": "eve"}
THEIRS = {"source": "user", "content": "the gate?", "metadata": ADA}
"""What a model or a client writes, of Ada."""


@pytest.fixture(autouse=True)
def _rule(engine: ContextEngine) -> None:
    engine.sync.constraints.create(Scope(**ADA), RULE)


def whose(stored: Any) -> set[tuple[str, str]]:
    found = stored.sessions()
    return {(each.user_id, "" if each.ephemeral else each.session_id) for each in found}


@pytest.mark.parametrize("way", ["on_messages", "run"])
@pytest.mark.parametrize("told", [EVE, {}], ids=["of Eve", "nobody's"])
async def test_a_tool_s_arguments_name_nobody(
    client: Any, engine: Any, stored: Any, way: str, told: dict[str, str]
) -> None:
    script = [tool_calls([("ask", {"message": THEIRS})]), text("Nothing."), text("So.")]
    with Wire(script) as wire:
        helper = agent("helper", client(wire))

        async def ask(message: TextMessage) -> str:
            """Ask the helper."""
            if way == "run":
                return str((await helper.run(task=message)).messages[-1])
            return str((await helper.on_messages([message], CancellationToken())).chat_message)

        desk = agent("desk", client(wire), tools=[ask], reflect_on_tool_use=True)
        with install_ce(desk, engine=engine), install_ce(helper, engine=engine):
            await desk.run(task=TextMessage(source="user", content="Ask.", metadata=told))
        assert [RULE in str(body) for body in wire.bodies] == [False] * 3
    assert whose(stored) == {("eve", "eves") if told else ("", "")}


class Remote(BaseChatAgent):
    """Brings in what somebody elsewhere wrote."""

    produced_message_types = (TextMessage,)

    async def on_messages(self, _: Sequence[BaseChatMessage], __: CancellationToken) -> Response:
        return Response(chat_message=TextMessage.model_validate({**THEIRS, "source": self.name}))

    async def on_reset(self, _: CancellationToken) -> None:
        pass


@pytest.mark.parametrize("told", [EVE, {}], ids=["of Eve", "nobody's"])
async def test_a_member_s_message_names_nobody(
    client: Any, engine: Any, stored: Any, told: dict[str, str]
) -> None:
    with Wire("Nothing.") as wire:
        members: list[Any] = [Remote("remote", "Is elsewhere."), agent("helper", client(wire))]
        team = RoundRobinGroupChat(members, max_turns=2)
        with install_ce(team, engine=engine):
            await team.run(task=TextMessage(source="user", content="Ask.", metadata=told))
        assert [RULE in str(body) for body in wire.bodies] == [False]
    assert whose(stored) == {("eve", "eves") if told else ("", "")}


@pytest.mark.parametrize("outer", ["", "eve"])
async def test_what_a_client_sent_names_no_user_in_a_session(
    client: Any, engine: Any, stored: Any, outer: str
) -> None:
    around = ce_session("hers", user_id=outer) if outer else nullcontext()
    with Wire("Nothing.") as wire:
        ann = agent("ann", client(wire))
        with install_ce(ann, engine=engine), around, ce_session("eves"):
            await ann.on_messages([TextMessage.model_validate(THEIRS)], CancellationToken())
        assert [RULE in str(body) for body in wire.bodies] == [False]
    assert whose(stored) == {(outer, "eves")}
