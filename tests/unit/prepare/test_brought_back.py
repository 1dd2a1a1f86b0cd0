"""What is brought back: by hand, tool calls as messages in their places; to agents, the values of results."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, strategies

from ce_engine import (
    BudgetConfig,
    CharBasedEstimator,
    ContextEngine,
    MemoryStore,
    Message,
    Prepared,
    Retrieval,
    RetrievedDoc,
    Role,
    RuntimeConfig,
    Scope,
    ToolRequest,
    create_context_engine,
)
from ce_engine.prepare.choose.policy import ANEW, CHAT, TOOLS, policy
from ce_engine.prepare.tool_results.values import values_of
from ce_engine.testing.host import (
    HostApp,
    assistant,
    system,
    tool_calls,
    tool_result,
    user,
)


SCOPE = Scope(session_id="s", user_id="u")


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    made = create_context_engine(MemoryStore(), token_estimator=CharBasedEstimator())
    yield made
    made.sync.close()


def asked(engine: ContextEngine, *messages: Message) -> tuple[str, list[Message]]:
    found = engine.sync.prepare_turn("s", list(messages))
    parts = found.assembled_input.parts
    sent = [Message(**part.model_dump(exclude_none=True)) for part in parts]
    return found.report.turn_id, sent


def test_by_hand_earlier_tool_calls_come_back_in_place_and_the_prefix_stays() -> None:
    engine = create_context_engine(MemoryStore())
    prompt = Message(role=Role.SYSTEM, content="You help.")
    call = ToolRequest(id="c1", name="booking", args={"code": "XEHM4B", "mail": "ann@example.com"})
    turn, _ = asked(engine, prompt, Message(role=Role.USER, content="My booking?"))
    answer = Message(role=Role.ASSISTANT, content="", tool_calls=[call])
    engine.sync.commit_assistant_message("s", answer, turn_id=turn)
    result = Message(role=Role.TOOL, tool_call_id="c1", content='{"mail": "ann@example.com"}')
    turn, before = asked(engine, prompt, result)
    reply = Message(role=Role.ASSISTANT, content="It is fine.")
    engine.sync.commit_assistant_message("s", reply, turn_id=turn)
    _, now = asked(engine, prompt, Message(role=Role.USER, content="预订号是多少？"))
    engine.sync.close()
    roles = ["system", "user", "assistant", "tool", "assistant", "user"]
    assert now[: len(before)] == before, "what was sent stays where it was sent"
    assert [m.role.value for m in now] == roles
    assert now[2].tool_calls == [call], "with its arguments, live"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            '{"id": "W1", "price": 1.10, "note": null, "paid": true, "items": [{"name": "帽子", "n": 2}, {"name": "Mug", "n": 1}]}',
            "id W1; price 1.10; paid true; items 帽子 n 2, Mug n 1",
        ),
        (
            '[{"flight": "HAT1", "seats": {"eco": 4, "first": 0}}, {"flight": "HAT2", "seats": {"eco": 0, "first": null}}]',
            "(flight seats(eco first)) HAT1 4 0 | HAT2 0 -",
        ),
        (
            '[{"city": "New York", "hotels": ["A B", "C"]}, {"city": "上海 浦东", "hotels": []}]',
            '(city hotels) "New York" "A B C" | "上海 浦东" -',
        ),
        ('{"to": {"from": null, "city": "Boston"}, "seen": []}', "to city Boston; seen []"),
        (
            '{"old": {"card": "visa", "n": 1}, "x": {"a": {"k": "v"}, "b": {"k": "w"}}}',
            "old visa n 1; x a v, b w",
        ),
        ('{"status": "ok; balance 100", "balance": "5"}', 'status "ok; balance 100"; balance 5'),
        ('{"half": "\\ud83d"}', '{"half": "\\ud83d"}'),
        ('{"SFO": "San Francisco", "北京": "PEK"}', "SFO San Francisco; 北京 PEK"),
        ('[{"a": "one two"}, {"b": "three"}]', "one two | three"),
        ("plain 城 text", "plain 城 text"),
        ("[broken", "[broken"),
        ("[1]", "1"),
        ("{}", "{}"),
    ],
)
def test_a_result_is_its_values(text: str, line: str) -> None:
    assert values_of(text) == line


@given(
    strategies.recursive(
        strategies.none() | strategies.booleans() | strategies.integers() | strategies.text(),
        lambda inner: strategies.lists(inner) | strategies.dictionaries(strategies.text(), inner),
    )
)
def test_any_json_has_values(value: Any) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False)):
        assert values_of(text) == text or len(values_of(text)) < len(text)


def test_the_line_says_which_policy_holds() -> None:
    assert policy(stays=True, uses_tools=False) is CHAT
    assert policy(stays=True, uses_tools=True) is TOOLS
    assert policy(stays=False, uses_tools=True) is ANEW


class Agent:
    """An app whose model asks for one tool after the other; what went out is `sent`."""

    def __init__(self, engine: ContextEngine, budget: int, scope: Scope = SCOPE) -> None:
        self.app = HostApp(engine, scope, [system("You book flights.")])
        limits = BudgetConfig(max_input_tokens=budget, reserved_reply_tokens=0)
        self.config = RuntimeConfig(budget=limits)
        self.sent: list[list[tuple[str, str]]] = []
        self.last: Prepared

    def ask(self, text: str) -> None:
        self._prepare(user(text))

    def use(self, call_id: str, name: str, args: dict[str, Any], result: Any) -> None:
        self.app.commit(self.last, tool_calls((call_id, name, args)))
        self._prepare(tool_result(call_id, json.dumps(result)), new_request=False)

    def answer(self, text: str) -> None:
        self.app.commit(self.last, assistant(text))

    def _prepare(self, *said: Any, **call: Any) -> None:
        self.last = self.app.prepare(*said, config=self.config, **call)
        self.sent.append([(p.role.value, p.content) for p in self.last.assembled.parts])

    @property
    def text(self) -> str:
        return "\n".join(content for _, content in self.sent[-1])


@pytest.mark.req("E-03")
def test_an_agent_over_its_budget_keeps_the_values_of_its_results_and_its_prefix(
    engine: ContextEngine,
) -> None:
    """Over many steps the list is cut a few times; in between, requests only grow, also into the next question."""
    agent = Agent(engine, 1100)
    for question in ("Book a flight to Oslo.", "那么北京呢？"):
        agent.ask(question)
        for n in range(9):
            flights = [{"flight": f"HAT{n}{k}", "status": "available"} for k in range(6)]
            terms = {"flights": flights, "terms": f"不可退款。{n}" * 9}
            agent.use(f"{question[:1]}{n}", "search", {"day": n}, terms)
            assert agent.last.report.token_used <= 1100
        agent.answer("Done.")
    moved = [
        n for n, (before, now) in enumerate(pairwise(agent.sent)) if now[: len(before)] != before
    ]
    assert 1 <= len(moved) <= 8
    # Behind the cuts: what is gone is there as values, named by its tool.
    text = "\n".join(content for n in moved for _, content in agent.sent[n + 1])
    assert any(
        f"| tool result search: flights HAT{n}0 available, HAT{n}1" in text for n in range(9)
    )


@pytest.mark.req("E-03")
def test_results_that_later_calls_took_from_come_back_first(engine: ContextEngine) -> None:
    """A list of orders, of which the agent looks at one after the other, is needed again; and it is the oldest."""
    agent = Agent(engine, 1600)
    agent.ask("Which of my orders has a 帽子?")
    orders = [f"订单{n}-{n * 7919}" for n in range(8)]
    agent.use("c0", "list_orders", {"user": "ann"}, {"user": "ann", "orders": orders})
    for n in range(24):
        asked = {"order": orders[n // 6]}
        agent.use(
            f"c{n + 1}", "look", asked, {"page": n, "text": f"nothing of note on page {n} " * 3}
        )
    assert agent.last.report.dropped
    assert f"| tool result list_orders: user ann; orders {' '.join(orders)}" in agent.text


@pytest.mark.req("A-11")
def test_steps_that_are_not_shown_are_counted_and_a_replay_says_the_same(
    engine: ContextEngine,
) -> None:
    agent = Agent(engine, 1200)
    agent.ask("Read the pages.")
    for n in range(8):
        agent.use(f"c{n}", "read", {"page": n}, {"page": n, "text": f"a page of words {n} " * 40})
    assert "earlier steps of this task are not shown; evidence " in agent.text
    assert engine.sync.flush()
    replay = engine.sync.replay(SCOPE, system="You book flights.")
    assert replay.equal, replay.problems


def test_equal_answers_of_different_calls_come_back_each(engine: ContextEngine) -> None:
    agent = Agent(engine, 1500)
    agent.ask("Which flights have seats?")
    for n in range(26):
        agent.use(f"c{n}", "seats", {"flight": f"HAT0{n}"}, {"available": True, "class": "economy"})
    assert agent.last.report.dropped
    assert agent.text.count("| tool result seats HAT0") > 2


@pytest.mark.req("A-11")
def test_a_note_on_what_is_left_out_is_left_out_before_the_budget_is_exceeded(
    engine: ContextEngine,
) -> None:
    for size in range(700, 1000, 8):
        app = HostApp(engine, Scope(session_id=f"s{size}"), [system("You read.")])
        config = RuntimeConfig(
            budget=BudgetConfig(max_input_tokens=1000, reserved_reply_tokens=0), fail="open"
        )
        last = app.prepare(user("Read."), config=config)
        for n in range(6):
            app.commit(last, tool_calls((f"c{n}", "read", {"n": n})))
            text = "word " * (size if n == 5 else 60)
            last = app.prepare(tool_result(f"c{n}", text), config=config, new_request=False)
        if last.report.over_budget:
            text = "\n".join(part.content for part in last.assembled.parts)
            assert "not shown" not in text


def test_a_worker_that_wants_no_knowledge_gets_no_results(engine: ContextEngine) -> None:
    for role, is_there in (("agent", True), ("worker", False)):
        app = HostApp(engine, Scope(session_id=role), [system("You read.")])
        budget = BudgetConfig(max_input_tokens=1000, reserved_reply_tokens=0)
        asked: dict[str, Any] = {"config": RuntimeConfig(budget=budget), "role": role}
        last = app.prepare(user("Read."), **asked)
        for n in range(12):
            app.commit(last, tool_calls((f"c{n}", "read", {"page": n})))
            page = json.dumps({"page": n, "text": "word " * 60})
            last = app.prepare(tool_result(f"c{n}", page), new_request=False, **asked)
        assert last.report.dropped
        text = "\n".join(part.content for part in last.assembled.parts)
        assert ("| tool result read" in text) is is_there


def test_a_document_that_shares_one_word_does_not_stand_before_what_was_said(
    engine: ContextEngine,
) -> None:
    """Documents that know little of a question have high scores among themselves, and not beside messages."""
    passage = "Each project has resources, connections and data sets, and a page of its own. " * 3
    engine.post_retrieval(SCOPE, Retrieval("kb", "q", [RetrievedDoc(passage)], run_id="r"))
    said = "For project Blue Heron we build on aiofiles; our ticket for it is TCK-4711. " * 2
    talk = [
        user(said),
        assistant("Noted."),
        user("The list of numbers is short. " * 30),
        assistant("Yes."),
    ]
    asks = "What was our number on the list of tickets, the ticket for project Blue Heron?"
    app = HostApp(engine, SCOPE, [*talk, user(asks)])
    small = BudgetConfig(max_input_tokens=200, reserved_reply_tokens=0)
    prepared = app.prepare(config=RuntimeConfig(budget=small))
    assert "TCK-4711" in "".join(part.content for part in prepared.assembled.parts)


@pytest.mark.req("E-03")
def test_over_the_budget_results_say_the_same_in_fewer_tokens(engine: ContextEngine) -> None:
    """Nothing is lost while the forms alone make room; and what went out so stays."""
    agent = Agent(engine, 2500)
    agent.ask("哪些航班有座位？")
    given, now, before = list[str](), list[str](), list[tuple[str, str]]()
    for n in range(16):
        flights = [{"flight": f"HAT{n}{k}", "城市": "上海", "seats": k} for k in range(6)]
        agent.use(f"c{n}", "search", {"day": n}, flights)
        given.append(json.dumps(flights))
        now = [content for role, content in agent.sent[-1] if role == "tool"]
        if not agent.last.unchanged:
            break
        assert now == given, "with room to spare the app's own"
        before = agent.sent[-1]
    assert before
    assert agent.last.report.token_used < 2500 * 0.7
    for text, whole in zip(now, given, strict=True):
        table = json.loads(text)
        rows = [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
        assert [{**table["every"], **row} for row in rows] == json.loads(whole)
    assert agent.last.report.results_saved.keys() == {"compact_json"}
    formed = agent.sent[-1]
    agent.use("next", "search", {"day": 99}, [{"flight": "HAT99"}, {"flight": "HAT98"}])
    assert agent.sent[-1][: len(formed)] == formed


@pytest.mark.req("E-03")
def test_a_cut_goes_on_where_the_one_before_ended(engine: ContextEngine) -> None:
    """What stands before earlier questions stays there, and the prefix with it; what goes next stands before the next one."""
    agent = Agent(engine, 2000)
    for question in ("Which orders are late?", "还有哪些？", "And the last?"):
        agent.ask(question)
        for n in range(10):
            name = f"{question[:1]}{n}"
            lines = [{"sku": f"SKU-{name}-{k}", "note": f"第{k}件 {name}"} for k in (1, 2)]
            order = {"order": f"W-{name}", "state": f"late by {name}", "lines": lines, "gift": None}
            agent.use(f"c-{name}", "get_order", {"order": f"W-{name}"}, order)
        agent.answer("Some.")
    pinned = [[text for role, text in sent if role == "user"] for sent in agent.sent]
    on = [
        (before, now)
        for before, now in pairwise(pinned)
        if "| tool result" in before[0] and "| tool result" in now[-1] != before[-1]
    ]
    kept = [now for before, now in on if len(now) > 1 and now[0] == before[0]]
    assert kept, "the first pin is as it was, and there is another one"
    assert kept[0][0].count("; state late by ") > 3
    assert "; state late by " in kept[0][-1]
    assert engine.sync.flush()
    replay = engine.sync.replay(SCOPE, system="You book flights.")
    assert replay.equal, replay.problems


@pytest.mark.req("E-03")
def test_an_agent_that_is_asked_back_finds_it_however_full_its_input_is(
    engine: ContextEngine,
) -> None:
    """Neither what stands before earlier questions nor the results since keep it out; other questions leave both there."""
    moved = set[bool]()
    for steps in range(13, 23):
        agent = Agent(engine, 900, Scope(session_id=f"s{steps}"))
        agent.ask("For project Blue Heron our 工单 is TCK-4711. Which orders are late?")
        for n in range(steps):
            if n % 6 == 5:
                agent.answer("Some.")
                agent.ask(f"还有 {n}?")
            rows = [{"sku": f"SKU-{n}-{k}", "state": f"late by {n}"} for k in (1, 2)]
            agent.use(f"c{n}", "get_order", {"order": f"W-{n}"}, {"order": f"W-{n}", "rows": rows})
        agent.answer("These.")
        assert agent.last.report.dropped
        before, has_room = agent.sent[-1], agent.last.report.token_used < 850
        agent.ask("Xylo?")
        stays = agent.sent[-1][: len(before)] == before
        assert stays or not has_room, "it does not go back"
        agent.answer("Zephyr.")
        before = agent.sent[-1]
        agent.ask("What was our 工单 for project Blue Heron?")
        assert "TCK-4711" in agent.text, f"{steps} steps"
        assert agent.last.report.token_used <= 900
        moved.add(agent.sent[-1][: len(before)] != before)
    assert moved == {False, True}


@pytest.mark.req("E-03")
def test_results_come_back_as_far_as_calls_take_their_arguments_from_them(
    engine: ContextEngine,
) -> None:
    """An agent that never looks at its earlier results again would pay for them in vain."""
    shares: dict[bool, list[int]] = {True: [], False: []}
    for uses, counts in shares.items():
        agent = Agent(engine, 900, Scope(session_id=f"uses {uses}"))
        agent.ask("哪些订单迟了？")
        for n in range(30):
            name = f"订单{n * 7919}"
            order = {"order": name, "next": f"订单{(n + 1) * 7919}", "state": f"late by {n}"}
            agent.use(f"c{n}", "get_order", {"order": name if uses else f"page {n}"}, order)
            if agent.sent[-1][: len(agent.sent[-2])] != agent.sent[-2]:
                counts.append(agent.text.count("| tool result get_order"))
    assert max(shares[True]) > 1.5 * max(shares[False]) > 0, "some come back in any case"


def test_what_the_app_would_have_sent_is_counted_as_its_own_messages_are(
    engine: ContextEngine,
) -> None:
    """Behind a cut, results counted in the forms that went out: a session seemed dearer than without us."""
    agent, before = Agent(engine, 900), 0
    for n in range(24):
        if n % 4 == 0:
            agent.ask(f"还有 {n}?")
        rows = [{"sku": f"SKU-{n}-{k}", "state": f"late by {n}"} for k in range(4)]
        agent.use(f"c{n}", "get_order", {"order": f"W-{n}"}, {"order": f"W-{n}", "rows": rows})
        without = agent.last.report.untouched
        assert without is not None
        assert without.tokens > (without.prefix or 0) >= before
        before = without.tokens - 10  # but for the reply's priming
        if n % 4 == 3:
            agent.answer("Some.")
    assert "CONTEXT_DEARER" not in agent.last.report.warnings


def office(engine: ContextEngine, *, used_tool: int, asked: int, budget: int) -> Agent:
    """A talk with one tool call, whose last question names an invoice of the first."""
    agent = Agent(engine, budget, Scope(session_id=f"{used_tool} {asked} {budget}"))
    for n in range(1, asked):
        if n == 2:
            agent.ask("Invoice 4711 of Acme is due on 3 March 三月三日; please remember it.")
            agent.answer("Noted 记下了: invoice 4711, due on 3 March.")
        elif n == used_tool:
            agent.ask("What does the contract with Acme say about late payment?")
            section = "Late payment costs 2 % a week. " + "Section text. " * 40
            agent.use("c1", "read_contract", {"party": "Acme"}, section)
            agent.answer("Late payment costs 2 % a week.")
        else:
            agent.ask(f"Tell me about room {n * n} on floor {n}, please, and what I have to bring.")
            agent.answer(f"About room {n * n}: " + "bring a pen and be on time. " * 5)
    agent.ask("When is invoice 4711 due 何时到期, and what does being late cost?")
    return agent


@pytest.mark.req("E-03")
@pytest.mark.parametrize("used_tool", [33, 38])
def test_what_an_agent_s_question_names_exactly_has_what_room_is_free(
    engine: ContextEngine, used_tool: int
) -> None:
    """A text that shares more words with it took the tenth that a question has."""
    for budget in (600, 700):
        agent = office(engine, used_tool=used_tool, asked=40, budget=budget)
        assert agent.last.report.dropped
        assert "Invoice 4711 of Acme is due on 3 March 三月三日" in agent.text, budget
        assert agent.last.report.token_used <= budget


LEASE = {"unit_id": "3B", "tenant": "Mr Osei", "deposit_eur": "2436.0", "since": "2019-05-01"}
LEDGER = {"unit_id": "3B", "booked_by": "Falk", "deposit_eur": "1624.0", "account": "DE-7731"}
NOTE = "The riser was opened, the pump was taken out and cleaned, and all flats were warm by noon. "


@pytest.mark.req("A-18")
@pytest.mark.parametrize("budget", [300, 360, 420, 500, 600, 700, 900])
def test_a_note_on_sources_that_disagree_goes_out_whole_and_beside_them(
    budget: int, engine: ContextEngine
) -> None:
    """It stood in prompts about other things, and as a heading with nothing under it."""
    agent = Agent(engine, budget)
    agent.ask("What does the lease of 3B say of the deposit?")
    agent.use("c-lease", "get_lease", {"unit": "3B"}, LEASE)
    agent.answer("2436.0 euros, by the lease.")
    agent.ask("And what was booked as the deposit of 3B?")
    agent.use("c-ledger", "get_ledger", {"unit": "3B"}, LEDGER)
    agent.answer("1624.0 euros, by the ledger.")
    for n in range(12):
        agent.ask(f"What did the plumber write in note {n}?")
        agent.use(f"c{n}", "get_note", {"n": n}, f"Note {n}. {NOTE * 3}")
        agent.answer(f"In note {n}: the riser was opened.")
        if n % 3 == 2:
            agent.ask("Which deposit of 3B is right, that of the lease or that of the ledger?")
            agent.answer("I cannot tell.")
    texts = ["\n\n".join(text for _, text in sent) for sent in agent.sent]
    told = [text for text in texts if "# Sources disagree" in text]
    for text in told:
        for block in text.split("\n\n"):
            _, heading, lines = block.partition("# Sources disagree\n")
            if heading:
                assert "| deposit_eur (unit_id 3B): " in lines
                assert "2436.0" in lines
                assert "1624.0" in lines
                assert "Osei" in text or "DE-7731" in text
    assert told or budget not in (500, 600, 700)


@pytest.mark.parametrize("seed", range(1, 6))
def test_a_question_of_an_agent_goes_out_behind_the_answer_before_it(
    seed: int, engine: ContextEngine
) -> None:
    """ "Why is it that much more?" was asked of a model that saw pieces of all talks but the one before."""
    agent, draw = Agent(engine, 800), random.Random(seed)
    for n in range(25):
        agent.ask(
            f"What must the tenant of flat {n} pay?" if n % 3 else "Why is it more than last year?"
        )
        if n:
            assert f"She has to pay {n - 1}3.50 euros" in agent.text, n
        if n % 3:
            text = NOTE * draw.randint(2, 16)
            agent.use(f"c{n}", "get_statement", {"flat": n}, {"flat": n, "text": text})
        agent.answer(f"She has to pay {n}3.50 euros by the statement of her flat.")
    for before, now in pairwise(agent.sent):
        assert now[1][0] == "user"
        if set(before) <= set(now):
            assert now[: len(before)] == before, "nothing is put in above what stood there"


VALUE = re.compile(r"\[(?:PHONE|EMAIL)_[0-9]+\]|\+44 1632 96[0-9]{4}|[a-z]+[0-9]+@mail\.example")


@pytest.mark.parametrize("budget", range(700, 1400, 50))
def test_what_went_out_as_it_was_said_stays_so(budget: int, engine: ContextEngine) -> None:
    """Live values cost more than their placeholders: where room grew short, a quotation lost them, and the prefix ended."""
    agent, draw = Agent(engine, budget), random.Random(budget)
    for n in range(20):
        agent.ask(f"Who is the owner of P-{n // 3}, and what is owed?")
        owner = {"phone": f"+44 1632 96{n:04}", "mail": f"ann{n}@mail.example", "note": "x" * 9}
        record = {"patient": f"P-{n}", "owner": owner, "text": NOTE * draw.randint(0, 6)}
        agent.use(f"c{n}", "get_record", {"patient": f"P-{n}"}, record)
        agent.answer(f"The owner of P-{n} owes nothing.")
        assert agent.last.report.token_used <= budget
    alike = [
        (old, new)
        for before, now in pairwise(agent.sent)
        for (_, old), (_, new) in zip(before, now, strict=False)
        if VALUE.sub("", old) == VALUE.sub("", new)
    ]
    assert any("@mail.example" in old and "Quoted records" in old for old, _ in alike)
    for old, new in alike:
        assert old == new
