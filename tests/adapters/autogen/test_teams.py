"""Who said what in a team, to whom, and in whose line: the author stays on every message."""

from __future__ import annotations

import itertools
import json
import re
from contextlib import ExitStack
from itertools import cycle, groupby
from typing import Any

import pytest
from autogen_agentchat.agents import AssistantAgent, SocietyOfMindAgent
from autogen_agentchat.messages import TextMessage
from autogen_agentchat.teams import (
    MagenticOneGroupChat,
    RoundRobinGroupChat,
    SelectorGroupChat,
)

from ce_engine import BudgetConfig, EvidenceType, RuntimeConfig, Scope
from ce_integrations import ce_session
from ce_integrations.autogen import install_ce
from ce_integrations.testing.contract_case import count
from ce_integrations.testing.wire import Wire, tool_calls
from tests.adapters.autogen.configurations import (
    CONFIGURATIONS,
    NAMES,
    TASK,
    Configuration,
    agent,
    agents,
    orchestrates,
)


pytestmark = [pytest.mark.scenario(8), pytest.mark.req("A-23", "B-16")]

USER = ("user", "user")
LONG = "words and words " * 20


async def run(name: str, client: Any, engine: Any, wanted: Configuration | None = None) -> Any:
    """An app of the name, asked once in session "s" with us; the bodies that went out."""
    wanted = wanted or CONFIGURATIONS[name]
    with Wire(wanted.script) as wire:
        app = wanted.make(client(wire, **wanted.info))
        with install_ce(app, engine=engine) as installation, ce_session("s"):
            await app.run(task=TASK)
        assert installation.faults == ()
        assert wire.refusals == []
        return wire.bodies


def lanes(stored: Any) -> list[str]:
    return [turn.lane for turn in stored.turns()]


async def test_a_team_with_one_client(client: Any, engine: Any, stored: Any) -> None:
    bodies = await run("round robin", client, engine)
    said = stored.said()
    assert [each[:2] for each in said] == [
        USER,
        ("agent", "ann"),
        ("agent", "bob"),
        ("agent", "cid"),
        ("agent", "ann"),
    ]
    assert len({content for *_, content in said}) == 5, "a broadcast is stored once"
    team = CONFIGURATIONS["round robin"].make(client(Wire())).__class__.__name__
    assert lanes(stored) == [f"{team}/{name}" for name in (*NAMES, "ann")]
    assert len({turn.request_id for turn in stored.turns()}) == 1
    assert len(bodies) == 4


@pytest.mark.needs("team_names")
async def test_a_team_in_a_team(client: Any, engine: Any, stored: Any) -> None:
    await run("nested", client, engine)
    authors = [USER, ("agent", "ann"), ("agent", "bob"), ("agent", "dan")]
    assert [each[:2] for each in stored.said()] == authors
    assert lanes(stored) == ["outer/inner/ann", "outer/inner/bob", "outer/dan"]


async def test_an_agent_that_is_a_tool(client: Any, engine: Any, stored: Any) -> None:
    await run("agent as tool", client, engine)
    assert lanes(stored) == ["boss", "boss/expert", "boss"]
    assert len({turn.request_id for turn in stored.turns()}) == 1
    assert stored.runs() == [("expert", {"task": "What is a lane?"}, "success")]
    said = {content: (kind, name) for kind, name, content in stored.said()}
    assert said["A line."] == ("agent", "expert")
    assert said["It is a line."] == ("agent", "boss")


async def test_a_handoff_beside_a_tool(client: Any, engine: Any, stored: Any) -> None:
    await run("swarm", client, engine)
    assert sorted(stored.runs()) == [
        ("lookup", {"word": "lane"}, "success"),
        ("transfer_to_bob", {}, "success"),
    ]
    said = stored.said()
    assert said[0] == (*USER, TASK)
    answers = [each for each in said if each[2] in ("Bob answers.", "And again.")]
    assert answers == [("agent", "bob", "Bob answers."), ("agent", "bob", "And again.")]
    assert ("agent", "ann") in {each[:2] for each in said}, "what was handed over is ann's"


async def test_a_graph_with_branches_at_the_same_time(
    client: Any, engine: Any, stored: Any
) -> None:
    await run("graph", client, engine)
    authors = sorted(name for kind, name, _ in stored.said() if kind == "agent")
    assert authors == ["ann", "bob", "cid", "dan"]
    assert len(stored.said()) == 5
    assert sorted(lanes(stored)) == [f"GraphFlow/{name}" for name in (*NAMES, "dan")]


async def test_an_orchestrator(client: Any, engine: Any, stored: Any) -> None:
    """Its plans and prompts are its own; nobody takes them for a person's words."""
    await run("magentic", client, engine)
    said = stored.said()
    orchestrator = ("agent", "MagenticOneOrchestrator")
    assert {each[:2] for each in said} <= {orchestrator, ("agent", "ann"), USER}
    assert ("agent", "ann", "ann has it") in said
    assert said[-1] == (*orchestrator, "a plan, or the facts")
    assert {lane.rpartition("/")[2] for lane in lanes(stored)} == {"MagenticOneOrchestrator", "ann"}


@pytest.mark.req("A-08")
async def test_an_orchestrator_s_prompts_stay_within_the_budget(client: Any, engine: Any) -> None:
    """What holds its task and plan, and the question that it asks itself, are there in each."""
    speakers = cycle(NAMES)
    config = RuntimeConfig(budget=BudgetConfig(max_input_tokens=1200, reserved_reply_tokens=0))

    def script(body: Any) -> Any:
        if "is_request_satisfied" in str(body["messages"][-1]["content"]):
            ledger = json.loads(str(orchestrates(body).content))
            return json.dumps(
                {**ledger, "next_speaker": {"reason": "so", "answer": next(speakers)}}
            )
        return LONG

    def prompts_of(bodies: list[Any]) -> list[Any]:
        return [b for b in bodies if "is_request_satisfied" in str(b["messages"][-1]["content"])]

    found = []
    for governed in (False, True):
        with Wire(script) as wire:
            model = client(wire, structured_output=False)
            app = MagenticOneGroupChat(agents(model), model, max_turns=12)
            if governed:
                install_ce(app, engine=engine, config=config)
            with ce_session("s"):
                await app.run(task=TASK)
            assert wire.refusals == []
            found.append(prompts_of(wire.bodies))
    plain, ours = found
    assert len(ours) == len(plain) >= 10
    assert max(map(count, plain)) > 1200
    assert [count(body) for body in ours if count(body) > 1200] == []
    for body, whole in zip(ours, plain, strict=True):
        assert body["messages"][0] == whole["messages"][0]
        assert body["messages"][-1]["content"].startswith("\nRecall we are working on")


async def test_a_society(client: Any, engine: Any, stored: Any) -> None:
    await run("society", client, engine)
    answers = [name for kind, name, _ in stored.said() if kind == "agent"]
    assert answers == ["ann", "bob", "society"]
    assert {lane.partition("/")[0] for lane in lanes(stored)} == {"society"}


@pytest.mark.req("A-08")
@pytest.mark.parametrize("several", [False, True], ids=["as a user", "as system messages"])
async def test_a_society_s_prompts_are_its_own_and_stay(
    several: bool, client: Any, engine: Any, stored: Any
) -> None:
    """Over the budget of its last call, what an inner agent said goes, and no prompt of its own."""
    config = RuntimeConfig(budget=BudgetConfig(max_input_tokens=500, reserved_reply_tokens=0))
    numbers = itertools.count(1)
    with Wire(lambda _: f"FACT{next(numbers)} " + LONG * 2) as wire:
        model = client(wire, multiple_system_messages=several)
        inner = RoundRobinGroupChat(agents(model)[:2], max_turns=6)
        society = SocietyOfMindAgent("society", inner, model)
        with install_ce(society, engine=engine, config=config) as installation, ce_session("s"):
            await society.run(task="FIRST: what?")
            await society.run(task="SECOND: what?")
        assert (installation.faults, wire.refusals) == ((), [])
    last = [wire.bodies[6], wire.bodies[13]]
    for body, newest in zip(last, ("FACT6", "FACT13"), strict=True):
        first, *talk, end = body["messages"]
        role = "system" if several else "user"
        assert (first["role"], end["role"]) == (role, role)
        assert first["content"] == SocietyOfMindAgent.DEFAULT_INSTRUCTION
        assert end["content"] == SocietyOfMindAgent.DEFAULT_RESPONSE_PROMPT
        assert 0 < len(talk) < 6
        assert newest in talk[-1]["content"]
        assert "FIRST" not in str(talk)
        assert count(body) <= 500
    people = [content for kind, _, content in stored.said() if kind == "user"]
    assert people == ["FIRST: what?", "SECOND: what?"]


async def test_a_person_who_takes_part_is_a_person(client: Any, engine: Any, stored: Any) -> None:
    from autogen_agentchat.agents import UserProxyAgent

    def make(client: Any) -> Any:
        proxy = UserProxyAgent("eve", input_func=lambda _: "I mean the other one.")
        return RoundRobinGroupChat([agent("ann", client), proxy], max_turns=3)

    await run("", client, engine, Configuration(make))
    assert [each[:2] for each in stored.said()] == [
        USER,
        ("agent", "ann"),
        ("user", "eve"),
        ("agent", "ann"),
    ]


# Selectors


async def test_a_selector_reads_the_talk_and_is_no_part_of_it(
    client: Any, engine: Any, stored: Any
) -> None:
    bodies = await run("selector", client, engine)
    authors = [each[:2] for each in stored.said()]
    assert authors == [USER, *(("agent", name) for name in ("ann", "bob", "cid", "ann"))]
    assert [turn.purpose for turn in stored.turns()] == ["helper", "chat"] * 4
    assert len(bodies) == 8


def prompts(bodies: list[Any]) -> list[Any]:
    return [body for body in bodies if "Read the above" in str(body["messages"][0]["content"])]


async def select(client: Any, engine: Any, family: str, budget: int) -> tuple[Any, Any]:
    """Eight turns in which everybody says much; without us, and with us in a budget."""
    config = RuntimeConfig(budget=BudgetConfig(max_input_tokens=budget, reserved_reply_tokens=0))

    found = []
    for governed in (False, True):
        names = cycle(NAMES)
        with Wire(lambda body, names=names: next(names) if prompts([body]) else LONG) as wire:  # type: ignore[misc]  # mypy infers no lambda with a default
            app = SelectorGroupChat(
                agents(client(wire, family=family)), client(wire, family=family), max_turns=8
            )
            if governed:
                install_ce(app, engine=engine, config=config)
            with ce_session("s"):
                result = await app.run(task=TASK)
            assert wire.refusals == []
            found.append((prompts(wire.bodies), [m.source for m in result.messages]))
    return found[0], found[1]


@pytest.mark.req("A-08")
@pytest.mark.parametrize("family", ["gpt-4", "unknown"])
async def test_a_selector_s_prompt_stays_within_the_budget(
    client: Any, engine: Any, family: str
) -> None:
    (plain, _), (ours, speakers) = await select(client, engine, family, 450)
    assert len(plain) == len(ours) == 8
    assert max(map(count, plain)) > 450
    assert [count(body) for body in ours if count(body) > 450] == []
    assert len(speakers) == 9
    for body in ours:
        (prompt,) = body["messages"]
        assert prompt["role"] == ("system" if family == "gpt-4" else "user")
        assert "ann: ann answers." in prompt["content"], "the roles are there"
        assert "select the next role" in prompt["content"]
        assert TASK in prompt["content"], "and so is the task"


async def test_a_selector_with_room_sends_what_it_would(client: Any, engine: Any) -> None:
    (plain, speakers), (ours, others) = await select(client, engine, "gpt-4", 100_000)
    assert ours == plain
    assert others == speakers


async def test_a_selector_that_must_ask_again(client: Any, engine: Any, stored: Any) -> None:
    """It appends to its own list, and the second prompt has the first one's answer."""
    names = iter(["nobody", "ann", "bob"])

    def script(body: Any) -> str:
        return next(names) if prompts([body]) else "words " * 150

    config = RuntimeConfig(budget=BudgetConfig(max_input_tokens=400, reserved_reply_tokens=0))
    with Wire(script) as wire:
        app = SelectorGroupChat(agents(client(wire)), client(wire), max_turns=2)
        with install_ce(app, engine=engine, config=config), ce_session("s"):
            await app.run(task=TASK)
        roles = [[m["role"] for m in body["messages"]] for body in prompts(wire.bodies)]
    assert roles == [["system"], ["system", "assistant", "user"], ["system"]]


@pytest.mark.req("A-08")
async def test_a_selector_that_must_ask_again_has_the_talk(client: Any, engine: Any) -> None:
    """Over the budget, each attempt shows who spoke, the task, and all wrong answers before it."""
    names = itertools.cycle(["nobody", "somebody", "ann", "nobody", "somebody", "bob"])

    def script(body: Any) -> str:
        return next(names) if prompts([body]) else LONG

    config = RuntimeConfig(budget=BudgetConfig(max_input_tokens=500, reserved_reply_tokens=0))
    with Wire(script) as wire:
        app = SelectorGroupChat(agents(client(wire)), client(wire), max_turns=10)
        with install_ce(app, engine=engine, config=config) as installation, ce_session("s"):
            await app.run(task=TASK)
        assert (installation.faults, wire.refusals) == ((), [])
        attempts = prompts(wire.bodies)
    talks = [
        re.findall(r"^(user|ann|bob): ", body["messages"][0]["content"], re.MULTILINE)[2:]
        for body in attempts
    ]
    assert [talk[0] for talk in talks] == ["user"] * 30, "the task is there, and the newest words"
    assert [talk[-1] for talk in talks[3:]] == [*["ann"] * 3, *["bob"] * 3] * 4 + ["ann"] * 3
    assert max(map(len, talks)) < 10, "nothing was cut: the test shows nothing"
    wrong = [[m["content"] for m in b["messages"] if m["role"] == "assistant"] for b in attempts]
    assert wrong == [[], ["nobody"], ["nobody", "somebody"]] * 10
    assert [count(body) for body in attempts if count(body) > 500] == []


# Sessions and agents beside each other


async def test_agents_of_one_team_see_what_was_said_before_them_once(
    client: Any, engine: Any, stored: Any
) -> None:
    """A second task to the same team goes on in the same lines."""
    with Wire() as wire:
        team = RoundRobinGroupChat(agents(client(wire)), max_turns=3)
        with install_ce(team, engine=engine), ce_session("s"):
            await team.run(task=TASK)
            await team.run(task="And a turn?")
    said = stored.said()
    assert [name for _, name, _ in said] == ["user", *NAMES, "user", *NAMES]
    assert [len(list(same)) for _, same in groupby(said)] == [1] * 8


def ledger(page: int) -> str:
    """A page of ann's ledger."""
    return f"Page {page} of the ledger: the lamp of row {page} is paid, by the mark LEDGER. " * 6


def diary(page: int) -> str:
    """A page of bob's diary."""
    return f"Page {page} of the diary: the lamp of row {page} was seen, by the mark DIARY. " * 6


def reader(body: Any) -> Any:
    """Asks for a page with its only tool, and then answers."""
    if body["messages"][-1]["role"] == "tool":
        return f"Of the lamp I say: it is well, {len(body['messages'])}."
    [tool] = [each["function"]["name"] for each in body["tools"]]
    return tool_calls([(tool, {"page": len(body["messages"])})])


@pytest.mark.parametrize("way", ["a team", "one by one"])
async def test_what_an_agents_tools_found_is_no_other_agents(
    client: Any, engine: Any, way: str
) -> None:
    """Over the budget, what comes back is of one's own line, and what was said to all (B-16)."""
    config = RuntimeConfig(budget=BudgetConfig(max_input_tokens=700, reserved_reply_tokens=0))
    with Wire(reader) as wire:
        members: list[Any] = [
            agent("ann", client(wire), tools=[ledger], reflect_on_tool_use=True),
            agent("bob", client(wire), tools=[diary], reflect_on_tool_use=True),
        ]
        app = RoundRobinGroupChat(members, max_turns=4)
        with ExitStack() as installed, ce_session("s"):
            for each in [app] if way == "a team" else members:
                installed.enter_context(install_ce(each, engine=engine, config=config))
            for row in range(8):
                heard: list[Any] = [
                    TextMessage(content=f"What of the lamp of row {row}?", source="user")
                ]
                for each in [app] if way == "a team" else members:
                    done: Any = await each.run(task=heard)
                    heard = [TextMessage(content=done.messages[-1].content, source=each.name)]
    brought_in = 0
    for body in wire.bodies:
        own, other = ("LEDGER", "DIARY") if "You are ann." in str(body) else ("DIARY", "LEDGER")
        assert other not in str(body["messages"])
        brought_in += own in str([m for m in body["messages"] if m["role"] == "user"])
    assert brought_in, "its own come back"
    seen = {name: await seen_by(engine, name) for name in ("ledger", "diary")}
    assert seen == {"ledger": {"ann"}, "diary": {"bob"}}


async def seen_by(engine: Any, tool: str) -> set[str]:
    """The agents that a tool's results are said to have stood before."""
    assert await engine.flush()
    found = await engine.store.list_evidences(scope := Scope(session_id="s"))
    names = [
        e.evidence_id for e in found if (e.type, e.source.name) == (EvidenceType.TOOL_RESULT, tool)
    ]
    lanes = [lane for name in names for lane in (await engine.trace(scope, name)).seen_by]
    return {lane.rpartition("/")[2] for lane in lanes}


async def test_who_speaks_for_the_app_with_a_name_of_its_own(
    client: Any, engine: Any, stored: Any
) -> None:
    with Wire("Yes.") as wire:
        ann = AssistantAgent("ann", client(wire))
        with install_ce(ann, engine=engine), ce_session("s"):
            await ann.run(task=TextMessage(content="I am Li.", source="li"))
    assert stored.said() == [("user", "li", "I am Li."), ("agent", "ann", "Yes.")]


@pytest.mark.req("B-16")
async def test_a_message_tells_which_agents_saw_it(client: Any, engine: Any, stored: Any) -> None:
    """In a graph, who comes after two branches saw both, and none of these the other."""
    await run("graph", client, engine)
    seen = {}
    for message in stored.document().session.messages:
        trace = engine.sync.trace(Scope(session_id="s"), message.message_id)
        seen[message.author.id] = {lane.rpartition("/")[2] for lane in trace.seen_by}
    assert seen["user"] == {"ann", "bob", "cid", "dan"}
    assert seen["ann"] >= {"bob", "cid", "dan"}
    assert "dan" in seen["bob"] & seen["cid"]
    assert "cid" not in seen["bob"]
    assert "bob" not in seen["cid"]
