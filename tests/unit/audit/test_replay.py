"""A turn made again: exact where it can be, and saying why where it cannot."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ce_engine import (
    Answer,
    BudgetConfig,
    CharBasedEstimator,
    ContextEngine,
    GroupAwarePruner,
    HostMessage,
    MemoryStore,
    Message,
    ModelCall,
    ObservabilityConfig,
    Origin,
    Prepared,
    Priority,
    RedactionConfig,
    RedactionRules,
    Replay,
    ReplayUnavailableError,
    Retrieval,
    RetrievedDoc,
    Role,
    RuntimeConfig,
    Scope,
    SessionNotFoundError,
    TiktokenEstimator,
    TurnNotFoundError,
    create_context_engine,
)
from ce_engine.testing.host import HostApp, assistant, system, tool_calls, tool_result, user
from tests.hosts.cli_host import TALK, ce, fill, url_of


SCOPE = Scope(session_id="s", user_id="u")
PROMPT = "You help."


def config(tokens: int, **more: object) -> RuntimeConfig:
    budget = BudgetConfig(max_input_tokens=tokens, reserved_reply_tokens=0)
    return RuntimeConfig(budget=budget, **{"placement": "seed", **more})  # type: ignore[arg-type] # values of a test


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def engine(store: MemoryStore) -> Iterator[ContextEngine]:
    made = create_context_engine(store, token_estimator=CharBasedEstimator())
    yield made
    made.sync.close()


@pytest.fixture
def later(store: MemoryStore) -> ContextEngine:
    """Another engine, which knows nothing but the store."""
    return create_context_engine(store, token_estimator=CharBasedEstimator())


def chat(engine: ContextEngine, tokens: int = 500) -> HostApp:
    """A fact, small talk far over the budget, and a question about the fact."""
    app = HostApp(engine, SCOPE, [system(PROMPT)])
    app.ask("库房编号 of the north warehouse is 7391.", "Noted.", config=config(tokens))
    for n in range(12):
        app.ask(f"Tell me about item {n}. " * 4, f"Item {n} is a lamp.", config=config(tokens))
    app.ask("What is the 库房编号 of the warehouse?", "7391.", config=config(tokens))
    engine.sync.flush()
    return app


def codes(replay: Replay) -> set[str]:
    return {problem.code.removeprefix("CONTEXT_REPLAY_") for problem in replay.problems}


@pytest.mark.req("A-21")
def test_a_turn_is_made_again_with_what_was_recalled(
    engine: ContextEngine, later: ContextEngine
) -> None:
    chat(engine)
    replay = later.sync.replay(SCOPE, system=PROMPT)
    assert replay.equal
    assert replay.hash == replay.recorded
    assert replay.turn == 14
    first = next(part for part in replay.sent.parts if part.role.value == "user")
    assert first.action == "extended"
    assert replay.sent.parts[0].content == PROMPT
    assert "7391" in first.content
    assert replay.sent.dropped
    assert len(replay.sent.dropped) + len(replay.sent.parts) == 28
    assert codes(replay) == set()


@pytest.mark.req("A-21")
def test_a_larger_budget_would_have_kept_what_was_dropped(
    engine: ContextEngine, later: ContextEngine
) -> None:
    chat(engine)
    replay = later.sync.replay(SCOPE, config=config(100_000), system=PROMPT)
    assert replay.equal
    assert replay.instead is not None
    assert [part.action for part in replay.instead.parts] == ["kept"] * 28
    assert replay.instead.dropped == []
    assert replay.instead.budget == 100_000
    assert "+库房编号 of the north warehouse is 7391." in replay.diff


@pytest.mark.req("A-21")
def test_nothing_rendered_and_no_rule_is_stored_for_it(store: MemoryStore) -> None:
    rules = RedactionRules(dictionaries={"staff": ["Zaphod"]})
    own = config(
        500,
        redaction=RedactionConfig(rules=rules),
        observability=ObservabilityConfig(tags={"t": "Ford"}),
    )
    engine = create_context_engine(store, token_estimator=CharBasedEstimator(), config=own)
    app = HostApp(engine, SCOPE, [system("Secret prompt.")])
    for n in range(3):
        app.ask(f"Question {n} for Zaphod", "ok")
    engine.sync.flush()
    rows = engine.loop.run(store.list_turns(SCOPE))
    archives = [row.report["extra"]["replay"] for row in rows]
    text = json.dumps(archives)
    assert not any(word in text for word in ("Secret", "Zaphod", "Question", "Ford"))
    # The configuration stands once, and a list that grows does not.
    assert ["settings" in archive for archive in archives] == [True, False, False]
    assert [len(archive["line"]) for archive in archives] == [1, 1, 1]
    assert engine.sync.replay(SCOPE, 3, system="Secret prompt.").equal
    engine.sync.close()


@pytest.mark.req("A-21")
def test_one_message_with_several_results_is_made_again(
    engine: ContextEngine, later: ContextEngine
) -> None:
    app = HostApp(engine, SCOPE)
    prepared = app.prepare(user("Look"), config=config(900))
    for n in range(6):
        asked = tool_calls((f"a{n}", "look", {"n": n}), (f"b{n}", "look", {"n": -n}))
        both = tool_result(f"a{n}", "\n".join(f"line {m} of {n}" for m in range(40)))
        both.more_call_ids = (f"b{n}",)
        prepared = app.prepare(asked, both, new_request=False, config=config(900))
    assert prepared.report.dropped
    assert not prepared.report.shortened
    assert not prepared.report.over_budget
    engine.sync.flush()
    assert later.sync.replay(SCOPE).equal


@pytest.mark.req("A-21")
def test_without_the_system_prompt_it_is_equal_and_says_what_it_does_not_know(
    engine: ContextEngine, later: ContextEngine
) -> None:
    chat(engine)
    replay = later.sync.replay(SCOPE)
    assert replay.equal
    assert codes(replay) == {"SYSTEM_NOT_GIVEN"}
    wrong = later.sync.replay(SCOPE, system="You are another.")
    assert not wrong.equal
    assert codes(wrong) == {"SYSTEM_CHANGED"}


@pytest.mark.req("A-21")
def test_secrets_are_redacted_and_the_hash_is_the_same(
    engine: ContextEngine, later: ContextEngine
) -> None:
    app = HostApp(engine, SCOPE)
    app.prepare(user("Find the mails of ann@example.com"), config=config(2000))
    log = "\n".join(f"mail {n} from ann@example.com, 13800138000" for n in range(16))
    shortened = 0
    for n in range(6):
        call = tool_calls((f"c{n}", "search", {"q": "ann@example.com"}))
        prepared = app.prepare(call, tool_result(f"c{n}", log), config=config(2000))
        shortened += prepared.report.shortened
    assert shortened
    engine.sync.flush()
    replays = [later.sync.replay(SCOPE, turn) for turn in range(1, 8)]
    assert all(replay.equal for replay in replays)
    assert not any("ann@example.com" in replay.model_dump_json() for replay in replays)
    assert "[EMAIL_1]" in replays[-1].model_dump_json()


@pytest.mark.req("A-21")
def test_what_was_deleted_since_is_named(engine: ContextEngine, later: ContextEngine) -> None:
    app = HostApp(engine, SCOPE)
    call = tool_calls(("c", "weather", {}))
    app.prepare(user("weather?"), call, tool_result("c", "4 degrees in Oslo"), config=config(900))
    engine.sync.flush()
    (evidence,) = engine.loop.run(engine.store.list_evidences(SCOPE))
    engine.sync.delete_evidence(SCOPE, evidence.evidence_id)
    replay = later.sync.replay(SCOPE)
    assert not replay.equal
    assert codes(replay) == {"WITHHELD"}


@pytest.mark.req("A-21")
def test_what_this_engine_does_in_another_way_is_named(
    engine: ContextEngine, store: MemoryStore
) -> None:
    chat(engine)
    other = create_context_engine(
        store, token_estimator=TiktokenEstimator(), pruner=GroupAwarePruner()
    )
    assert codes(other.sync.replay(SCOPE, system=PROMPT)) >= {"ESTIMATOR", "PRUNER"}


@pytest.mark.req("A-21", "D-06")
def test_constraints_are_there_again_as_long_as_they_say_the_same(
    engine: ContextEngine, later: ContextEngine
) -> None:
    rule = engine.sync.constraints.create(SCOPE, "Always answer in 中文.")
    chat(engine)
    replay = later.sync.replay(SCOPE, system=PROMPT)
    assert replay.equal
    assert "Always answer in 中文." in replay.sent.parts[0].content
    engine.sync.constraints.update(SCOPE, rule.constraint_id, text="Never answer.")
    changed = later.sync.replay(SCOPE, system=PROMPT)
    assert not changed.equal
    assert codes(changed) == {"RULES"}
    assert "Never answer." not in changed.model_dump_json()
    assert "it was changed since" in changed.sent.parts[0].content
    engine.sync.constraints.delete(SCOPE, rule.constraint_id)
    deleted = later.sync.replay(SCOPE, system=PROMPT)
    assert "it is not set any more" in deleted.sent.parts[0].content


@pytest.mark.req("A-21", "D-06")
def test_an_archive_that_has_a_rule_s_text_shows_it_until_the_rule_is_deleted(
    engine: ContextEngine, later: ContextEngine
) -> None:
    rule = engine.sync.constraints.create(SCOPE, "Always answer in 中文.")
    kept = config(5000, observability=ObservabilityConfig(store_contexts=True))
    HostApp(engine, SCOPE, [system(PROMPT)]).ask("Where?", "Here.", config=kept)
    engine.sync.flush()
    engine.sync.constraints.update(SCOPE, rule.constraint_id, text="Never answer.")
    changed = later.sync.replay(SCOPE, system=PROMPT)
    assert changed.equal
    assert "Always answer in 中文." in changed.sent.parts[0].content
    engine.sync.constraints.delete(SCOPE, rule.constraint_id)
    assert "Always answer" not in later.sync.replay(SCOPE, system=PROMPT).model_dump_json()


@pytest.mark.req("A-21", "D-06")
def test_a_rule_of_which_only_the_rank_was_changed_is_as_it_went_out(
    engine: ContextEngine, later: ContextEngine
) -> None:
    rule = engine.sync.constraints.create(SCOPE, "Always answer in 中文.")
    chat(engine)
    engine.sync.constraints.update(SCOPE, rule.constraint_id, priority=Priority.HIGH)
    assert later.sync.replay(SCOPE, system=PROMPT).equal


@pytest.mark.req("A-21")
def test_turns_are_chosen_by_number_and_id(engine: ContextEngine, later: ContextEngine) -> None:
    chat(engine)
    rows = engine.loop.run(engine.store.list_turns(SCOPE))
    assert later.sync.replay(SCOPE, 2).turn_id == rows[1].turn_id
    assert later.sync.replay(SCOPE, rows[4].turn_id[:13]).turn == 5
    for wrong in (0, 15, "no-such-turn", ""):
        with pytest.raises(TurnNotFoundError, match="1 to 14"):
            later.sync.replay(SCOPE, wrong)
    with pytest.raises(SessionNotFoundError):
        later.sync.replay(Scope(session_id="s", user_id="somebody else"))


@pytest.mark.req("A-21")
def test_a_turn_without_an_archive_says_why(engine: ContextEngine) -> None:
    app = HostApp(engine, SCOPE)
    off = RuntimeConfig(observability=ObservabilityConfig(include_reports_in_store=False))
    app.ask("one", "1", config=off)
    app.prepare(user("condense"), purpose="helper")
    for turn in (1, 2):
        with pytest.raises(ReplayUnavailableError, match="include_reports_in_store"):
            engine.sync.replay(SCOPE, turn)


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    url = url_of(tmp_path_factory.mktemp("store") / "ce.db")
    fill(url, chatter=12)
    return (TALK.session_id, "--store", url, "--account", "acme")


@pytest.mark.req("A-21")
def test_the_command_takes_the_newest_turn_that_can_be_replayed(tmp_path: Path) -> None:
    fill(url := url_of(tmp_path / "ce.db"))
    engine = create_context_engine(url)
    for _ in range(2):  # helper calls: they are recorded, and have no archive
        asked = [HostMessage(Message(role=Role.USER, content="Sum it up"), Origin.HELPER)]
        prepared = engine.sync.prepare(ModelCall(TALK, asked, purpose="helper"))
        engine.sync.commit(
            prepared.turn, Answer(Message(role=Role.ASSISTANT, content="A talk on rain."))
        )
    replay = engine.sync.replay(TALK)
    assert (replay.turn, replay.skipped) == (3, 2)
    with pytest.raises(ReplayUnavailableError, match="helper call"):
        engine.sync.replay(TALK, 5)
    engine.sync.close()
    done = ce("replay", TALK.session_id, "--store", url, "--account", "acme")
    first, second, *_ = done.stdout.splitlines()
    assert first.startswith("turn 3 ")
    assert "2 newer ones cannot" in second


@pytest.mark.req("A-21")
def test_the_command_replays_the_newest_turn(at: tuple[str, ...], tmp_path: Path) -> None:
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("You help.")
    shown = ce("replay", *at, "--system", str(prompt))
    assert shown.exit_code == 0
    assert "the same as it was sent" in shown.stdout
    assert "dropped" in shown.stdout
    other = tmp_path / "other.toml"
    other.write_text("[budget]\nmax_input_tokens = 90000\n")
    asked = ce("replay", *at, "--config", str(other), "--json")
    found = json.loads(asked.stdout)
    assert found["equal"]
    assert found["sent"]["dropped"]
    assert found["instead"]["dropped"] == []
    assert found["diff"]
    beside = ce("replay", *at, "--turn", "15", "--config", str(other))
    assert "instead" in beside.stdout
    assert "with this window everything has room: nothing is cut" in " ".join(beside.stdout.split())


@pytest.mark.req("A-21")
def test_the_command_ends_with_1_where_it_is_not_what_was_sent(
    at: tuple[str, ...], tmp_path: Path
) -> None:
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("Another prompt.")
    shown = ce("replay", *at, "--system", str(prompt))
    assert shown.exit_code == 1
    assert "NOT what was sent" in shown.stdout
    assert "system message 0" in shown.stdout


def invoices(engine: ContextEngine, notes: bool = False, seller: str = "") -> list[list[str]]:
    """Invoices that a tool fetches, far over the budget, and questions that go back; of each call what went out."""
    app = HostApp(engine, SCOPE, [system(PROMPT)])
    wire = list[list[str]]()

    def sent(*messages: HostMessage, **call: bool) -> Prepared:
        made = app.prepare(*messages, config=config(900, placement="cache"), **call)
        assert made.assembled is not None
        wire.append([p.content for p in made.assembled.parts if p.role is not Role.SYSTEM])
        return made

    for number in range(10, 22):
        if (
            notes and number % 3 == 1
        ):  # as memories of some frameworks add them, in the midst of the talk
            app.messages.append(system(f"From the memory: shelf {number} is closed on Mondays."))
        app.commit(
            sent(user(f"Please fetch invoice {number}")),
            tool_calls((f"call-{number}", "get_invoice", {"number": number})),
        )
        text = (
            f"INVOICE {number}{seller}\nTotal: {number}17.31 EUR\n"
            + "A parcel of lamps, 10.00 EUR\n" * 9
        )
        made = sent(tool_result(f"call-{number}", text), new_request=False)
        app.commit(made, assistant(f"Invoice {number} is {number}17.31 euros."))
        if number % 3 == 0:
            made = sent(user(f"What was the total of invoice {number - 2} again?"))
            app.commit(made, assistant("As told."))
    engine.sync.flush()
    return wire


def made_again(engine: ContextEngine, turn: int) -> tuple[Replay, list[str]]:
    replay = engine.sync.replay(SCOPE, turn)
    parts = replay.sent.parts
    return replay, [p.content for p in parts if p.role is not Role.SYSTEM]


@pytest.mark.req("A-21")
@pytest.mark.parametrize("then", ["shorter", "longer", "deleted"])
def test_a_rule_that_was_changed_since_changes_nothing_else_of_what_went_out(
    engine: ContextEngine, later: ContextEngine, then: str
) -> None:
    rules = engine.sync.constraints
    rule = rules.create(
        SCOPE, "Quote each amount in euros, with the date of the invoice it is from."
    )
    wire = invoices(engine)
    turns = engine.loop.run(engine.store.list_turns(SCOPE))
    if then == "deleted":
        rules.delete(SCOPE, rule.constraint_id)
    else:
        text = "Be brief." if then == "shorter" else "Quote each amount in every currency. " * 12
        rules.update(SCOPE, rule.constraint_id, text=text)
    for turn, sent in enumerate(wire, start=1):
        replay, parts = made_again(later, turn)
        assert parts == sent, turn
        assert abs(replay.sent.tokens - turns[turn - 1].report["token_used"]) <= 1
        assert not replay.equal
        assert replay.same_choice
        assert codes(replay) == {"RULES", "SYSTEM_NOT_GIVEN"}


@pytest.mark.req("A-21", "D-06")
def test_it_changes_nothing_beside_a_derived_rule_and_values_that_were_taken_out(
    engine: ContextEngine, later: ContextEngine
) -> None:
    rules, mail = engine.sync.constraints, "accounts.of.the.lamp.works@example.com"
    rules.create(SCOPE, "The user asks for totals in euros.", derived=True)
    rule = rules.create(SCOPE, "Quote each amount in euros, with the date of the invoice.")
    wire = invoices(engine, seller=f" from {mail}")
    rules.delete(SCOPE, rule.constraint_id)
    quoted = 0
    for turn, sent in enumerate(wire, start=1):
        replay, parts = made_again(later, turn)
        assert parts == [text.replace(mail, "[EMAIL_1]") for text in sent], turn
        assert replay.same_choice, turn
        quoted += any("Quoted records" in text and mail in text for text in sent)
    assert quoted


@pytest.mark.req("A-21")
def test_system_messages_in_the_midst_of_a_talk_are_not_taken_for_one_another(
    engine: ContextEngine, later: ContextEngine
) -> None:
    for turn, sent in enumerate(invoices(engine, notes=True), start=1):
        replay, parts = made_again(later, turn)
        assert replay.equal, turn
        assert parts == sent, turn
        assert codes(replay) == {"SYSTEM_NOT_GIVEN"}
        assert not [p for p in replay.sent.dropped if p.role is Role.SYSTEM]


@pytest.mark.req("A-21")
def test_what_a_call_put_in_is_not_told_as_there_before_it(
    engine: ContextEngine, later: ContextEngine
) -> None:
    """Though what stands before an earlier question begins with the same text."""
    app = HostApp(engine, SCOPE, [system(PROMPT)])
    letter = " ".join(
        f"Clause {n} of the letter is about the {w} of the mill."
        for n, w in enumerate(
            "roof gate wheel pond weir door stair floor shaft stone belt crane".split()
        )
    )
    small = config(520, placement="cache")
    app.ask(letter, "Noted.", config=small)
    for n in range(6):
        app.ask(f"Tell me about item {n}. " * 4, f"Item {n} is a lamp.", config=small)
    for wanted in ("roof", "crane", "weir", "belt", "pond", "shaft"):
        app.ask(f"What does the letter say of the {wanted} of the mill?", "As told.", config=small)
    engine.sync.flush()
    turns = engine.loop.run(engine.store.list_turns(SCOPE))
    twice = 0
    for turn, row in enumerate(turns, start=1):
        found = later.sync.explain(SCOPE, turn)
        assert row.tip_message_id not in [each.asked for each in found.earlier], turn
        standing = {ids[0] for each in found.earlier if (ids := each.ids)}
        twice += any(piece.id in standing for piece in found.brought_in)
    assert twice, "no call put in what stands before an earlier question"


def test_the_parts_of_an_input_add_up_to_it(engine: ContextEngine) -> None:
    """Each text that is put before a message lacked eight tokens, a shortened result those around its text."""
    tight = config(900, placement="cache")
    app = HostApp(engine, SCOPE, [system(PROMPT)])
    for n in range(14):
        calls = tool_calls((f"c{n}", "stock", {"item": f"lamp {n}"}))
        shelves = [{"shelf": shelf, "lamps": n * shelf, "hall": "north"} for shelf in range(6)]
        app.commit(app.prepare(user(f"How many of lamp {n} are there?"), config=tight), calls)
        result = tool_result(f"c{n}", json.dumps(shelves, indent=2))
        answering = app.prepare(result, new_request=False, config=tight)
        app.commit(answering, assistant(f"Of lamp {n} there are some in the north hall."))
    app.ask("And how many of lamp 2 were there?", "Some.", config=tight)
    engine.sync.flush()
    actions = set()
    for number, report in enumerate(engine.sync.list_reports(SCOPE), 1):
        sent = engine.sync.replay(SCOPE, number).sent
        actions |= {part.action for part in sent.parts}
        theirs = sum(part.tokens for part in sent.parts)
        rest = report.payload_tokens.get("tools", 0) + report.payload_tokens.get("priming", 0)
        assert abs(sent.tokens - theirs - rest) < 8, (
            number
        )  # one or two at the seams of a quotation
    assert {"kept", "extended", "shortened"} <= actions


def test_what_a_document_in_the_apps_own_prompt_names_is_there_in_a_replay_too(
    engine: ContextEngine, later: ContextEngine
) -> None:
    """The prompt is never stored, and the document is: with it, the question's name is not looked for elsewhere."""
    own, document = config(420, placement="cache"), "Report of batch RG-12: moisture 5.2 per cent."
    app = HostApp(engine, SCOPE, [system(PROMPT)])
    app.ask("Is batch RG-12 good? It came with a lorry on Monday. " * 3, "It is.", config=own)
    for n in range(12):
        app.ask(f"Tell me about item {n}. " * 4, f"Item {n} is a lamp.", config=own)
    near = "What is the moisture of the hall, and what is the moisture of the loft?"
    app.ask(near, "The moisture is 40 per cent.", config=own)
    found = Retrieval("search", "moisture", [RetrievedDoc(document)])
    engine.sync.record_retrieval(SCOPE, found, request_id=f"request-{app.requests + 1}")
    app.messages[0] = system(f"{PROMPT}\n{document}")
    report = app.ask("And what is the moisture of RG-12?", "5.2 per cent.", config=own).report
    assert report.dropped
    engine.sync.flush()
    replay = later.sync.replay(SCOPE)
    assert codes(replay) == {"SYSTEM_NOT_GIVEN"}
    assert replay.equal
