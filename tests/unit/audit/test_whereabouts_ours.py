"""Where messages of an app went that leaves its history to us is what replays of its turns say."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ce_engine import (
    BudgetConfig,
    CharBasedEstimator,
    ContextEngine,
    MemoryStore,
    Message,
    Role,
    RuntimeConfig,
    Scope,
    ToolRequest,
    create_context_engine,
)
from ce_engine.audit.places.whereabouts import (
    LEFT_OUT,
    QUOTED,
    QUOTED_PART,
    SENT,
    SHORTENED,
    Whereabouts,
    whereabouts,
)
from ce_engine.schema.document import SessionDocument
from ce_engine.schema.rows import TurnRow
from ce_engine.testing.host import HostApp, assistant, system, tool_calls, tool_result, user


SCOPE = Scope(session_id="s", user_id="u")
BUDGET = BudgetConfig(max_input_tokens=420, reserved_reply_tokens=0)
OURS = RuntimeConfig(budget=BUDGET, history="session")

Told = dict[tuple[int, str], str]
"""What became of a message, by the turn and its id."""


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    made = create_context_engine(MemoryStore(), token_estimator=CharBasedEstimator())
    yield made
    made.sync.close()


def read(engine: ContextEngine) -> tuple[SessionDocument, list[TurnRow]]:
    engine.sync.flush()
    document = engine.sync.get_session(SCOPE)
    assert document is not None
    return document, list(engine.sync.list_turns(SCOPE))


def told(engine: ContextEngine) -> tuple[dict[str, Whereabouts], Told]:
    """What the page says, spread out over the turns that it speaks of."""
    document, turns = read(engine)
    ids = [m.message_id or "" for m in document.session.messages]
    found, spread = whereabouts(ids, document, turns), Told()
    for name, where in found.items():
        for stay in where.stays:
            for first, last in stay.stretches:
                for turn in range(first, last + 1):
                    if not where.lanes or turns[turn - 1].lane in where.lanes:
                        spread[turn, name] = stay.fate
    return found, spread


def replayed(engine: ContextEngine) -> Told:
    """The same of what the archived plans make again."""
    document, turns = read(engine)
    known = {m.message_id for m in document.session.messages}
    stored_as = {
        ref.evidence_id: m.message_id
        for m in document.session.messages
        if m.role is Role.TOOL
        for ref in m.refs or ()
    }
    found, in_part = Told(), dict[str | None, bool]()  # what stands is as it went in
    for turn in range(1, len(turns) + 1):
        replay, why = engine.sync.replay(SCOPE, turn), engine.sync.explain(SCOPE, turn)
        assert replay.equal
        quoted = [piece.id for piece in why.brought_in]
        quoted += [name for each in why.earlier for name in each.ids]
        names = {stored_as.get(name, name) for name in quoted} & known
        in_part |= {stored_as.get(piece.id, piece.id): piece.is_part for piece in why.brought_in}
        for name in filter(None, names):
            found[turn, name] = QUOTED_PART if in_part.get(name) else QUOTED
        for part in replay.sent.dropped:
            found.setdefault((turn, part.message_id or ""), LEFT_OUT)
        for part in replay.sent.parts:
            if part.message_id:
                how = SHORTENED if part.action == "shortened" else SENT
                found[turn, part.message_id] = how
    return found


def agrees(engine: ContextEngine) -> Told:
    """What was told, which is what was replayed."""
    _, said = told(engine)
    made = replayed(engine)
    wrong = {
        key: (made.get(key), said.get(key))
        for key in made.keys() | said.keys()
        if made.get(key) != said.get(key)
    }
    assert wrong == {}
    return said


def talk(engine: ContextEngine, chain_lane: str | None) -> None:
    """An agent with tools that keeps its list, and between its questions a chain that keeps none."""
    agent = HostApp(engine, SCOPE, [system("You help.")])
    for n in range(14):
        prepared = agent.prepare(user(f"Which shade has lamp {n} of hall {n % 3}?"), config=OURS)
        agent.commit(prepared, tool_calls((f"c{n}", "look", {"lamp": n})))
        result = tool_result(f"c{n}", f"Lamp {n} is of shade {n * 37} and stands in hall {n % 3}.")
        prepared = agent.prepare(result, new_request=False, config=OURS)
        agent.commit(prepared, assistant(f"Lamp {n} has the shade {n * 37}."))
        if n % 3 == 2:
            chain = HostApp(engine, SCOPE, [system(f"The documents: leaf {n}.")], requests=100 + n)
            asked = f"What did you say of lamp {n - 2}?"
            chain.ask(asked, f"Of lamp {n - 2}: it is fine.", lane_key=chain_lane, config=OURS)


@pytest.mark.parametrize("chain_lane", [None, "chain"])
def test_a_chain_between_the_turns_of_an_agent(
    engine: ContextEngine, chain_lane: str | None
) -> None:
    talk(engine, chain_lane)
    said = agrees(engine)
    assert {SENT, LEFT_OUT, QUOTED} <= set(said.values())
    found, _ = told(engine)
    lanes = {where.lanes for where in found.values()}
    assert lanes == ({()} if chain_lane is None else {("",), (chain_lane,)})


def test_by_hand_with_tools(engine: ContextEngine) -> None:
    config = RuntimeConfig(budget=BUDGET)
    for n in range(12):
        asked = Message(role=Role.USER, content=f"Which shade has lamp {n}? " + "Please. " * 4)
        made = engine.sync.prepare_turn(SCOPE, [asked], config)
        calls = [ToolRequest(id=f"c{n}", name="look", args={"lamp": n})]
        call = Message(role=Role.ASSISTANT, content="", tool_calls=calls)
        engine.sync.commit_assistant_message(SCOPE, call, turn_id=made.report.turn_id)
        text = f"Lamp {n} is of shade {n * 37} and stands in hall {n}."
        result = Message(role=Role.TOOL, content=text, tool_call_id=f"c{n}")
        made = engine.sync.prepare_turn(SCOPE, [result], config)
        answer = Message(role=Role.ASSISTANT, content=f"It has the shade {n * 37}.")
        engine.sync.commit_assistant_message(SCOPE, answer, turn_id=made.report.turn_id)
    assert {SENT, LEFT_OUT} <= set(agrees(engine).values())


def test_a_stretch_of_one_lane_says_whose_turns_it_speaks_of(engine: ContextEngine) -> None:
    """Between them are turns of the other lane, which never had the message."""
    talk(engine, "chain")
    document, _ = read(engine)
    first = next(m.message_id for m in document.session.messages if m.role is Role.USER)
    found, _ = told(engine)
    assert found[first or ""].lanes == ("",)
