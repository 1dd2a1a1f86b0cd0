"""Several agents in one session, as every adapter has them from the base: who spoke, and what is whose."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ce_engine import (
    Answer,
    Author,
    AuthorKind,
    BudgetConfig,
    ContextEngine,
    HostMessage,
    MemoryStore,
    Message,
    ModelCall,
    Origin,
    Retrieval,
    RetrievedDoc,
    Role,
    RuntimeConfig,
    Scope,
    ToolRequest,
    create_context_engine,
)
from ce_engine.testing.host import assistant, tool_result, user
from ce_integrations import CallInfo, Hooks
from tests.adapters.test_base import ADAPTER, Bot, Note, stored, turns


SMALL = RuntimeConfig(budget=BudgetConfig(max_input_tokens=120, reserved_reply_tokens=0))


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    made = create_context_engine(MemoryStore(), config=SMALL)
    yield made
    made.sync.close()


@pytest.fixture
def hooks(engine: ContextEngine) -> Iterator[Hooks[Note]]:
    with ADAPTER.install_ce(Bot(), engine=engine, session_id="s", history=True) as installation:
        yield installation.hooks


def say(hooks: Hooks[Note], natives: list[Note], answer: str, **told: Any) -> list[Note]:
    """One call; what was sent."""
    sent, turn = hooks.before_model(natives, CallInfo(**told))
    hooks.after_model(turn, Note("assistant", answer))
    return sent


@pytest.mark.req("B-16")
def test_an_answer_has_its_author(engine: ContextEngine, hooks: Hooks[Note]) -> None:
    say(hooks, [Note("user", "q")], "a", agent="ann", lane_key="team/ann")
    (_, answer) = stored(engine).session.messages
    assert (answer.author.kind, answer.author.id) == (AuthorKind.AGENT, "ann")


@pytest.mark.req("B-16")
def test_agents_that_go_on_with_one_list_store_it_once(
    engine: ContextEngine, hooks: Hooks[Note]
) -> None:
    """After a handoff the next agent's list holds the other's answers, and no message says whose."""
    said = [Note("user", "who can help?")]
    told: dict[str, Any] = {"lane_key": "run", "request_id": "r", "shared_history": True}
    say(hooks, said, "ann can not", agent="ann", **told)
    said += [Note("assistant", "ann can not"), Note("user", "bob?")]
    say(hooks, said, "bob can", agent="bob", **told)
    found = [(m.content, m.author and m.author.id) for m in stored(engine).session.messages]
    assert found == [
        ("who can help?", None),
        ("ann can not", "ann"),
        ("bob?", None),
        ("bob can", "bob"),
    ]


@pytest.mark.req("B-16")
def test_an_id_of_the_framework_s_says_which_message_it_is(engine: ContextEngine) -> None:
    """In a graph of agents the next one's list has the other's answer, and its id, and no name."""
    listed = [HostMessage(user("who can help?").message, Origin.TASK, host_id="m0")]
    for agent in ("ann", "bob"):
        scope = Scope(session_id="s", agent_id=agent)
        prepared = engine.sync.prepare(ModelCall(scope, list(listed), request_id="r"))
        said = assistant(f"{agent} can not").message
        engine.sync.commit(prepared.turn, Answer(said, host_id=f"of {agent}"))
        listed.append(HostMessage(said.model_copy(deep=True), Origin.ANSWER, host_id=f"of {agent}"))
    found = [message.content for message in stored(engine).session.messages]
    assert found == ["who can help?", "ann can not", "bob can not"]


@pytest.mark.req("D-10")
def test_what_an_agent_found_is_its_own_line_s(engine: ContextEngine, hooks: Hooks[Note]) -> None:
    words = "The password of the harbour gate is swordfish. " + "Boats lie there. " * 4
    mine, other = (CallInfo(lane_key=f"team/{name}", agent=name) for name in ("ann", "bob"))
    hooks.retrieval(mine, Retrieval("r", "gate", [RetrievedDoc(words)], "run"))
    long = [Note("user", f"{n} and " + "so on " * 20) for n in range(4)]
    for info, finds in ((other, False), (mine, True)):
        asked = [*long, Note("user", "what is the password of the harbour gate?")]
        told = {"lane_key": info.lane_key, "agent": info.agent, "takes_history": True}
        sent = say(hooks, asked, "-", **told)
        assert any("swordfish" in note.content for note in sent) is finds
    assert {turn.lane for turn in turns(engine)} == {"team/ann", "team/bob"}


def test_an_excerpt_of_calls_counts_no_run_twice(engine: ContextEngine) -> None:
    """A handoff may repeat some of an agent's calls, with their results, in the next one's list."""
    calls = [ToolRequest(id=f"c{n}", name="look", args={"at": n}) for n in (1, 2)]

    def asked(some: list[ToolRequest]) -> HostMessage:
        message = Message(
            role=Role.ASSISTANT,
            content="",
            tool_calls=some,
            author=Author(kind=AuthorKind.AGENT, id="ann"),
        )
        return HostMessage(message, Origin.TOOL_CALL)

    results = [tool_result(f"c{n}", f"found {n}") for n in (1, 2)]
    question = user("look, and hand over")
    for agent, listed in (
        ("ann", [question, asked(calls), *results]),
        ("bob", [question, asked(calls[:1]), results[0], user("go on")]),
    ):
        scope = Scope(session_id="s", agent_id=agent)
        call = ModelCall(scope, listed, lane_key=f"team/{agent}", request_id="r")
        prepared = engine.sync.prepare(call)
        engine.sync.commit(prepared.turn, Answer(assistant(f"{agent} is done").message))
    session = stored(engine).session
    runs = [(run.tool, run.args_digest) for run in session.tool_state.tool_calls]
    assert runs == [("look", {"at": 1}), ("look", {"at": 2})]
    assert len([m for m in session.messages if m.tool_calls]) == 2


@pytest.mark.req("B-16")
def test_a_message_tells_who_saw_it(engine: ContextEngine, hooks: Hooks[Note]) -> None:
    """A broadcast stands in the lists of two agents and is stored once; what one was told is its own."""
    said = Note("user", "to all of you")
    for name in ("ann", "bob"):
        say(hooks, [said, Note("user", f"for {name} alone")], "-", agent=name, lane_key=f"t/{name}")
    seen = {
        message.content: engine.sync.trace(Scope(session_id="s"), message.message_id).seen_by
        for message in stored(engine).session.messages
        if message.role is Role.USER
    }
    assert seen == {
        "to all of you": ["t/ann", "t/bob"],
        "for ann alone": ["t/ann"],
        "for bob alone": ["t/bob"],
    }
