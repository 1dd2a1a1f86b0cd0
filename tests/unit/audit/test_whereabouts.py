"""Where each message of a session went, turn by turn, is what every turn sent."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from ce_engine import (
    BudgetConfig,
    CharBasedEstimator,
    ContextEngine,
    MemoryStore,
    Message,
    Prepared,
    Role,
    RuntimeConfig,
    Scope,
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
from ce_engine.schema.call import Extend, Insert, Keep, Restore, Shorten
from ce_engine.schema.document import SessionDocument
from ce_engine.schema.rows import TurnRow
from ce_engine.testing.host import HostApp, assistant, system, tool_calls, tool_result, user


SCOPE = Scope(session_id="s", user_id="u")
INVOICE = "The invoice 4711 of the north warehouse lies in the blue folder."
Fates = dict[str, dict[int, str]]
"""What became of each message, by its text and the turn."""


def config(tokens: int = 500, **more: object) -> RuntimeConfig:
    budget = BudgetConfig(max_input_tokens=tokens, reserved_reply_tokens=0)
    return RuntimeConfig(budget=budget, **more)  # type: ignore[arg-type] # values of a test


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    made = create_context_engine(MemoryStore(), token_estimator=CharBasedEstimator())
    yield made
    made.sync.close()


class Witness:
    """Notes what goes out in each turn, from the plan that the app was given."""

    def __init__(self, app: HostApp) -> None:
        self.app = app
        self.fates: Fates = {}
        self.turn = 0

    def prepare(self, *messages: object, **call: object) -> Prepared:
        prepared = self.app.prepare(*messages, **call)  # type: ignore[arg-type]
        self.turn += 1
        texts = {n: m.message.content for n, m in enumerate(self.app.messages)}
        for n, text in texts.items():
            if self.app.messages[n].message.role is not Role.SYSTEM and text:
                self.fates.setdefault(text, {})[self.turn] = LEFT_OUT
        put_in = ""
        for step in prepared.plan:
            if isinstance(step, Keep | Extend) and texts[step.index] in self.fates:
                self.fates[texts[step.index]][self.turn] = SENT
            if isinstance(step, Shorten) and texts[step.index] in self.fates:
                self.fates[texts[step.index]][self.turn] = SHORTENED
            if isinstance(step, Restore):
                self.fates.setdefault(step.message.content, {})[self.turn] = SENT
            if isinstance(step, Insert | Extend):
                put_in += step.text
        for text, fates in self.fates.items():
            if fates.get(self.turn, LEFT_OUT) == LEFT_OUT and quotes(put_in, text):
                fates[self.turn] = how_quoted(put_in, text)
        return prepared

    def ask(self, question: str, answer: str, **call: object) -> None:
        prepared = self.prepare(user(question), **call)
        self.app.commit(prepared, assistant(answer))


def quotes(put_in: str, text: str) -> bool:
    """Whether a text, or a sentence of it, stands in what was put in."""
    sentences = [each for each in text.split(". ") if len(each) > 6]
    return any(each.rstrip(".") in put_in for each in sentences)


def how_quoted(put_in: str, text: str) -> str:
    return QUOTED if " ".join(text.split()) in " ".join(put_in.split()) else QUOTED_PART


def told(engine: ContextEngine) -> Fates:
    """What the stored reports tell."""
    engine.sync.flush()
    document, turns = engine.sync.get_session(SCOPE), list(engine.sync.list_turns(SCOPE))
    assert document is not None
    messages = {m.message_id or "": m.content for m in document.session.messages}
    found = whereabouts(messages, document, turns)
    fates: Fates = {}
    for name, where in found.items():
        if messages[name]:
            fates.setdefault(messages[name], {}).update(spread(where, len(turns)))
    return fates


def spread(where: Whereabouts, turns: int) -> dict[int, str]:
    found = {
        turn: stay.fate
        for stay in where.stays
        for first, last in stay.stretches
        for turn in range(first, last + 1)
    }
    assert min(found) == where.first
    assert max(found) <= turns
    return found


def test_an_invoice_went_out_then_was_left_out_then_quoted(engine: ContextEngine) -> None:
    seen = Witness(HostApp(engine, SCOPE, [system("You help.")]))
    seen.ask(INVOICE, "That is noted.", config=config())
    for n in range(12):
        seen.ask(f"Tell me about lamp {n}. " * 4, f"Lamp {n}: It is red.", config=config())
    seen.ask("Where is the invoice 4711 of the warehouse?", "In the folder.", config=config())
    found = told(engine)
    assert found == seen.fates
    assert set(found[INVOICE].values()) == {SENT, LEFT_OUT, QUOTED}
    assert found[INVOICE][1] == SENT
    assert found[INVOICE][14] == QUOTED


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("results", ["whole", "compact"])
def test_random_talks_of_an_agent_with_tools(
    engine: ContextEngine, seed: int, results: str
) -> None:
    """Some questions go back, some results are long, and the app trims its list or goes back to an earlier place."""
    chance = random.Random(seed)
    settings = config(700, tool_results=results)
    seen = Witness(HostApp(engine, SCOPE, [system("You help.")]))
    app = seen.app
    for n in range(24):
        if chance.random() < 0.1 and n > 8:
            del app.messages[1 : 1 + 2 * chance.randrange(3)]
            while app.messages[1].message.role is not Role.USER:
                del app.messages[1]
        back = f"Question {n}, what did I say of lamp {chance.randrange(n + 1)}, please?"
        new = f"This is lamp {n} of hall {n % 5}, shade {n * 37}. " * chance.randrange(1, 4)
        prepared = seen.prepare(user(back if chance.random() < 0.3 else new), config=settings)
        for step in range(chance.randrange(3)):
            names = [f"c{n}-{step}-{each}" for each in range(chance.randrange(1, 3))]
            app.commit(prepared, tool_calls(*((name, "look", {"lamp": n}) for name in names)))
            texts = [
                f"Entry {name}: lamp {n} costs {chance.randrange(1000)} units in stock. "
                * chance.randrange(1, 9)
                for name in names
            ]
            prepared = seen.prepare(
                *map(tool_result, names, texts), new_request=False, config=settings
            )
        app.commit(prepared, assistant(f"Answer {n}: lamp {n} is of shade {n * 37}."))
    found = told(engine)
    assert {turn for fates in found.values() for turn in fates} == set(range(1, seen.turn + 1))
    wrong = [
        (text[:40], turn, fates[turn], found.get(text, {}).get(turn))
        for text, fates in seen.fates.items()
        for turn in fates
        if fates[turn] != found.get(text, {}).get(turn)
    ]
    assert wrong == []


def stock(entry: int, price: int) -> str:
    """A record as APIs send it: with room that a compact form saves."""
    record = {"lamp_id": f"L-{entry}", "price": price, "shelves": [entry, 2, 3], "open": True}
    return json.dumps(record, indent=8)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("most", [1, 3], ids=["one call", "up to three"])
def test_a_result_that_went_out_compact_stays_so_in_later_turns(
    engine: ContextEngine, most: int, seed: int
) -> None:
    """A turn tells of its newest results alone, of one message or several; some come again as they were, or with one change."""
    chance = random.Random(seed)
    settings = config(900, tool_results="compact")
    seen = Witness(HostApp(engine, SCOPE, [system("You help.")]))
    prices = dict.fromkeys(range(3), 100)
    for n in range(16):
        lamps = [chance.randrange(3) for _ in range(chance.randrange(most) + 1)]
        prepared = seen.prepare(user(f"Question {n}: lamp {lamps[0]}?"), config=settings)
        calls = [(f"c{n}-{at}", "stock", {"lamp": lamp}) for at, lamp in enumerate(lamps)]
        seen.app.commit(prepared, tool_calls(*calls))
        results = []
        for at, (name, _, args) in enumerate(calls):
            lamp = args["lamp"]
            prices[lamp] += chance.randrange(2) * 7
            # Spaces at the end tell texts apart for the test; some results have nothing to save.
            text = stock(lamp, prices[lamp]) if chance.random() < 0.8 else '{"none":1}'
            results.append(tool_result(name, text + " " * (3 * n + at)))
        prepared = seen.prepare(*results, new_request=False, config=settings)
        seen.app.commit(prepared, assistant(f"Answer {n}: it is {prices[lamps[0]]}. " * 3))
    found = told(engine)
    texts = [text for text in seen.fates if text.startswith("{")]
    shortened = [[*seen.fates[text].values()].count(SHORTENED) for text in texts]
    assert max(shortened) > 2
    wrong = [
        (text[:40], turn, fates[turn], found.get(text, {}).get(turn))
        for text, fates in seen.fates.items()
        for turn in fates
        if SHORTENED in (fates[turn], found.get(text, {}).get(turn))
        and fates[turn] != found.get(text, {}).get(turn)
    ]
    assert wrong == []


def test_two_lanes_of_one_session_have_their_own(engine: ContextEngine) -> None:
    ana = HostApp(engine, SCOPE, [system("You help.")])
    bo = HostApp(engine, SCOPE, [system("You check.")])
    for n in range(4):
        ana.ask(f"Ana asks {n}.", f"Ana hears {n}.", lane_key="ana")
        bo.ask(f"Bo asks {n}.", f"Bo hears {n}.", lane_key="bo")
    found = told(engine)
    assert sorted(found["Ana asks 1."]) == [
        3,
        4,
        5,
        6,
        7,
    ]  # one stretch: turns of the other lane end none
    document, turns = engine.sync.get_session(SCOPE), list(engine.sync.list_turns(SCOPE))
    assert document is not None
    by_text = {m.content: m.message_id or "" for m in document.session.messages}
    where = whereabouts(by_text.values(), document, turns)
    assert [stay.stretches for stay in where[by_text["Ana asks 1."]].stays] == [((3, 7),)]
    assert [stay.stretches for stay in where[by_text["Bo asks 1."]].stays] == [((4, 8),)]


@pytest.mark.parametrize("seed", range(4))
def test_by_hand_what_the_engine_brings_in_went_out(engine: ContextEngine, seed: int) -> None:
    chance = random.Random(seed)
    seen: Fates = {}
    for n in range(20):
        back = chance.random() < 0.3
        lamp = chance.randrange(n + 1)
        question = f"Question {n}, what of lamp {lamp}?" if back else f"Lamp {n:02} is new. " * 4
        message = Message(role=Role.USER, content=question)
        made = engine.sync.prepare_turn(SCOPE, [message], config(400))
        sent = [part.content for part in made.assembled_input.parts]
        seen[question] = {}
        for text, fates in seen.items():
            whole = any(
                part.endswith(text) for part in sent
            )  # what was brought in stands before it
            quoted = any(quotes(part, text) for part in sent)
            fates[n + 1] = (
                SENT if whole else how_quoted(" ".join(sent), text) if quoted else LEFT_OUT
            )
        if chance.random() < 0.9:  # else nobody answers, and the question is not brought in again
            answer = Message(role=Role.ASSISTANT, content=f"So it is with lamp {n:02}.")
            engine.sync.commit_assistant_message(SCOPE, answer, turn_id=made.report.turn_id)
            seen[answer.content] = {}
    found = told(engine)
    wrong = [
        (text[:40], turn, fates[turn], found.get(text, {}).get(turn))
        for text, fates in seen.items()
        for turn in fates
        if fates[turn] != found.get(text, {}).get(turn, LEFT_OUT)
    ]
    assert wrong == []


def test_lanes_that_share_messages_have_what_each_of_their_turns_did(engine: ContextEngine) -> None:
    """One of them goes on from the other's talk, in a smaller budget."""
    ana = HostApp(engine, SCOPE, [system("You help.")])
    for n in range(6):
        ana.ask(f"Tell of lamp {n}. " * 4, f"Lamp {n} is red.", lane_key="ana", config=config(2000))
    bo = HostApp(engine, SCOPE, list(ana.messages))
    for n in range(3):
        bo.ask(f"Bo asks of hall {n}. " * 4, "It is so.", lane_key="bo", config=config(300))
        ana.ask(f"Ana asks of door {n}. " * 4, "Yes it is.", lane_key="ana", config=config(2000))
    found = told(engine)["Tell of lamp 0. " * 4]
    assert [found[turn] for turn in (1, 6, 8, 10, 12)] == [SENT] * 5
    assert {found[turn] for turn in (7, 9, 11)} <= {LEFT_OUT, QUOTED}


def lines_of(turns: int) -> int:
    """Lines of Python that are run to tell where all messages of a session went, of which the cut moves ten times."""
    messages = [
        Message(
            role=Role.ASSISTANT if n % 2 else Role.USER,
            content=str(n),
            message_id=str(n),
            parent_id=str(n - 1) if n else None,
        )
        for n in range(2 * turns)
    ]
    rows = []
    for n in range(turns):
        cut = 2 * (10 * n // turns) * turns // 20 * 2
        decisions = [{"block_id": "0", "action": "dropped", "reason": "below_cut"}] if cut else []
        decisions.append({"block_id": str(cut), "action": "kept", "reason": "fits"})
        replay = {"line": [[str(2 * n), 2 * n + 1]]}
        report = {"prune_decisions": decisions, "extra": {"replay": replay}}
        rows.append(TurnRow(str(n), report=report))
    document = document_of(messages)
    count = 0

    def step(frame: Any, event: str, _arg: Any) -> Any:
        nonlocal count
        count += event == "line"
        return step

    before = sys.gettrace()
    sys.settrace(step)
    try:
        found = whereabouts([each.message_id or "" for each in messages], document, rows)
    finally:
        sys.settrace(before)
    assert len(found) == 2 * turns - 1  # the newest answer went nowhere yet
    return count


def document_of(messages: list[Message]) -> SessionDocument:
    engine = create_context_engine(MemoryStore())
    HostApp(engine, SCOPE).ask("Hi?", "Hi.")
    engine.sync.flush()
    made = engine.sync.get_session(SCOPE)
    engine.sync.close()
    assert made is not None
    session = made.session.model_copy(update={"messages": messages})
    return made.model_copy(update={"session": session})


def test_what_it_costs_follows_the_turns_and_not_their_square() -> None:
    assert lines_of(800) < 4.5 * lines_of(200)
