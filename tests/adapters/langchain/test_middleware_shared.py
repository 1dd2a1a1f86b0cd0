"""One `CEMiddleware` in several agents, in an agent that is installed on, and in settings that are copied."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import HumanMessage

from ce_integrations.langchain import install_ce


pytestmark = [pytest.mark.needs("create_agent"), pytest.mark.scenario(5)]


def agent_of(governs: Any) -> Any:
    from langchain.agents import create_agent

    return create_agent(FakeListChatModel(responses=["x"]), [], middleware=[governs])


def ask(agent: Any, thread: str) -> None:
    config: Any = {"configurable": {"thread_id": thread}}
    agent.invoke({"messages": [HumanMessage("q")]}, config)


def names(sessions: Any) -> list[str]:
    return sorted(each.session_id for each in sessions())


@pytest.mark.parametrize("is_silent", [True, False])
def test_an_installation_on_one_agent_is_not_its_neighbour_s(
    engine: Any, sessions: Any, is_silent: bool
) -> None:
    from ce_integrations.langchain import CEMiddleware

    governs = CEMiddleware(store="memory://")
    one, other = agent_of(governs), agent_of(governs)
    if is_silent:
        governs.uninstall()
    before = dict(vars(governs))
    with install_ce(one, engine=engine):
        assert vars(governs) == before
        governs.uninstall()
        ask(one, "one")
        ask(other, "other")
    assert names(sessions) == ["one"]


def test_a_deep_copy_stays_in_the_installation(engine: Any, sessions: Any) -> None:
    from ce_integrations.langchain import CEMiddleware

    settings = {"middleware": CEMiddleware(engine=engine)}
    agent = agent_of(copy.deepcopy(settings)["middleware"])
    ask(agent, "one")
    settings["middleware"].uninstall()
    ask(agent, "two")
    assert names(sessions) == ["one"]
