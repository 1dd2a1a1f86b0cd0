"""What is brought in before a question stays there until the cut moves: requests only grow (decision 8)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest

from ce_engine import (
    BudgetConfig,
    CharBasedEstimator,
    ContextBlock,
    ContextEngine,
    EvidenceSource,
    EvidenceType,
    Layer,
    MemoryStore,
    ModelCall,
    Prepared,
    RuntimeConfig,
    Scope,
    SourceKind,
    SummaryConfig,
    create_context_engine,
)
from ce_engine.testing import MockLlmAdapter
from ce_engine.testing.host import (
    HostApp,
    assistant,
    system,
    tool_calls,
    tool_result,
    user,
)


SCOPE = Scope(session_id="s", user_id="u")
CODE = "What is the gate code of the north warehouse?"
FACT = "The gate code of the north warehouse is 7391."
Parts = list[tuple[str, str]]


def config(tokens: int = 900, **more: Any) -> RuntimeConfig:
    budget = BudgetConfig(max_input_tokens=tokens, reserved_reply_tokens=0)
    return RuntimeConfig(budget=budget, **{"placement": "cache", **more})


def parts(prepared: Prepared) -> Parts:
    return [(part.role.value, part.content) for part in prepared.assembled.parts]


@dataclass
class Chat:
    """An app that was told a fact long ago, and whose chat is cut since; what it sent is in `sent`.

    With `stateless` it keeps nothing: the engine brings in what was said.
    """

    engine: ContextEngine
    config: RuntimeConfig = field(default_factory=config)
    stateless: bool = False
    fact: str = FACT
    sent: list[Parts] = field(default_factory=list)
    told: list[Prepared] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.app = HostApp(self.engine, SCOPE, [system("You help.")])
        self.ask(self.fact, "Noted.")
        while not any(d.action == "dropped" for d in self.told[-1].report.prune_decisions):
            self.talk()

    def talk(self) -> Prepared:
        """A turn that has no word in common with any other."""
        n = len(self.told)
        return self.ask(f"Xylo{n}?", f"Zephyr{n} quartz{n} vortex{n} jumbo{n} kiwi{n} onyx{n}.")

    def save(self) -> None:
        """Talk until the session has saved what a new cut costs, and what comes back with it."""
        saved = 0.0
        while saved < 2 * self.config.budget.max_input_tokens:
            cost = self.talk().report.session_cost
            assert cost is not None
            saved = cost.untouched - cost.sent

    def prepare(self, *said: Any, **call: Any) -> Prepared:
        prepared = self.app.prepare(*said, config=self.config, **call)
        assert prepared.report.token_used <= self.config.budget.max_input_tokens
        self.sent.append(parts(prepared))
        self.told.append(prepared)
        return prepared

    def ask(self, question: str, answer: str, **call: Any) -> Prepared:
        if self.stateless:
            del self.app.messages[1:]
        prepared = self.prepare(user(question), **call)
        self.app.commit(prepared, assistant(answer))
        return prepared

    def replays(self) -> None:
        """Every turn is made again by an engine that knows nothing but the store."""
        assert self.engine.sync.flush()
        other = create_context_engine(self.engine.store, token_estimator=CharBasedEstimator())
        turns = other.loop.run(other.store.list_turns(SCOPE))
        for turn in turns:
            assert other.sync.replay(SCOPE, turn.turn_id, system="You help.").equal
        other.sync.close()


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    made = create_context_engine(MemoryStore(), token_estimator=CharBasedEstimator())
    yield made
    made.sync.close()


def asked(sent: Parts, question: str) -> str:
    """The message of a question as it went out, with what stands before it."""
    return next(content for role, content in sent if role == "user" and question in content)


def grows(sent: list[Parts]) -> bool:
    return all(now[: len(before)] == before for before, now in pairwise(sent))


@pytest.mark.req("E-03")
@pytest.mark.parametrize("stateless", [False, True])
def test_what_was_brought_in_stays_before_its_question(
    engine: ContextEngine, *, stateless: bool
) -> None:
    chat = Chat(engine, stateless=stateless)
    start = len(chat.sent)
    chat.ask(CODE, "7391.")
    for _ in range(4):
        chat.talk()
    assert FACT in asked(chat.sent[start], CODE)
    assert grows(chat.sent[start:])
    assert asked(chat.sent[-1], CODE) == asked(chat.sent[start], CODE)
    chat.replays()


def test_the_default_placement_keeps_nothing_before_a_question(engine: ContextEngine) -> None:
    chat = Chat(engine, config(placement="seed"))
    chat.ask(CODE, "7391.")
    assert asked(chat.sent[-1], CODE) == CODE
    assert not engine._sessions.peek(SCOPE).lane("").pins  # type: ignore[union-attr]  # it is there


def test_what_stands_there_is_not_brought_in_again(engine: ContextEngine) -> None:
    chat = Chat(engine)
    chat.ask(CODE, "Look above.")
    again = chat.ask("Say it once more: the gate code of the north warehouse?", "7391.")
    whole = "\n".join(content for _, content in parts(again))
    assert whole.count(FACT) == 1
    assert again.report.layers[Layer.RETRIEVED.value].chunks >= 1, (
        "the report tells what still stands there"
    )


def test_it_stays_through_the_tool_calls_of_its_turn(engine: ContextEngine) -> None:
    chat = Chat(engine)
    start = len(chat.sent)
    prepared = chat.prepare(user(CODE))
    for n in range(3):
        chat.app.commit(prepared, tool_calls((f"c{n}", "look", {"n": n})))
        prepared = chat.prepare(tool_result(f"c{n}", f"Nothing in {n}."), new_request=False)
    chat.app.commit(prepared, assistant("7391."))
    chat.talk()
    assert FACT in asked(chat.sent[start], CODE)
    assert grows(chat.sent[start:])
    chat.replays()


def test_when_the_cut_moves_all_is_chosen_anew_and_never_over_the_budget(
    engine: ContextEngine,
) -> None:
    chat = Chat(engine)
    chat.ask(CODE, "7391.")
    while any(CODE in content for _, content in chat.sent[-1]):
        chat.talk()
    chat.ask(CODE, "7391.")
    assert FACT in asked(chat.sent[-1], CODE), "brought in once more, where it is asked for"
    chat.replays()


def test_a_question_that_needs_room_gets_it(engine: ContextEngine) -> None:
    """What stands before older questions must not keep out another part of the text that it is from."""
    keys = [
        f"The key of cellar {n} is kept by {name}, who lives in house {n} behind the old mill."
        for n, name in enumerate("ABCDEFGHIJKLMNOPQRSTUVWX")
    ]
    chat = Chat(engine, config(1200), fact=" ".join(keys))
    chat.save()
    for n in (0, 9, 18, 23):
        chat.ask(f"Who keeps the key of cellar {n}?", "You know.")
        assert keys[n] in "\n".join(content for _, content in chat.sent[-1])
    chat.replays()


def test_a_cut_that_moves_takes_all_of_it_along(engine: ContextEngine) -> None:
    chat = Chat(engine)
    moved = gone = 0
    for n in range(40):
        chat.ask(f"{CODE} {n}", "7391.") if n % 3 == 0 else chat.talk()
        told = chat.told[-1].report.prune_decisions
        now = sum(d.count for d in told if d.reason == "below_cut")
        if now > gone:
            moved += 1
            assert not any("records, not" in content for _, content in chat.sent[-1][:-1])
        gone = now
    assert moved >= 2
    chat.replays()


def test_a_retry_sends_the_very_same(engine: ContextEngine) -> None:
    chat = Chat(engine)
    first = chat.prepare(user(CODE))
    engine.sync.fail(first.turn, "model_failed")
    again = chat.prepare(new_request=False)
    assert parts(again) == parts(first)
    assert FACT in asked(parts(again), CODE)


def test_another_lane_has_none_of_it(engine: ContextEngine) -> None:
    chat = Chat(engine)
    chat.ask(CODE, "7391.")
    other = HostApp(engine, SCOPE, [system("You check.")])
    for n in range(60):
        prepared = other.ask(f"And door {n}?", "It is shut.", lane_key="b", config=chat.config)
        assert FACT not in "\n".join(content for _, content in parts(prepared))
    before = chat.sent[-1]
    chat.talk()
    assert chat.sent[-1][: len(before)] == before


@pytest.mark.parametrize("stateless", [False, True])
def test_another_process_leaves_it_where_it_stands(
    engine: ContextEngine, *, stateless: bool
) -> None:
    """Of a server with several processes, say, each of which gets some of the requests."""
    chat = Chat(engine, stateless=stateless)
    start = len(chat.sent)
    chat.ask(CODE, "7391.")
    others = [create_context_engine(engine.store, CharBasedEstimator()) for _ in "ab"]
    processes = [*others, engine]
    for n in range(5):
        assert chat.app.engine.sync.flush()
        chat.app.engine = processes[n % 3]
        chat.talk()
    assert FACT in asked(chat.sent[start], CODE)
    assert grows(chat.sent[start:])
    assert asked(chat.sent[-1], CODE) == asked(chat.sent[start], CODE)
    assert chat.app.engine.sync.flush()
    chat.replays()
    for other in others:
        other.sync.close()


def test_another_process_chooses_nothing_anew_between_the_tool_calls_of_a_turn(
    engine: ContextEngine,
) -> None:
    chat = Chat(engine)
    start = len(chat.sent)
    prepared = chat.prepare(user(CODE))
    others = [create_context_engine(engine.store, CharBasedEstimator()) for _ in "ab"]
    for n, other in enumerate(others):
        chat.app.commit(prepared, tool_calls((f"c{n}", "look", {"n": n})))
        assert chat.app.engine.sync.flush()
        chat.app.engine = other
        prepared = chat.prepare(tool_result(f"c{n}", f"Nothing in {n}."), new_request=False)
    chat.app.commit(prepared, assistant("7391."))
    assert FACT in asked(chat.sent[start], CODE)
    assert grows(chat.sent[start:])
    for other in others:
        other.sync.close()


def test_what_another_process_let_go_is_gone(engine: ContextEngine) -> None:
    chat = Chat(engine)
    chat.ask(CODE, "7391.")
    start = len(chat.sent)
    assert engine.sync.flush()
    other = create_context_engine(engine.store, CharBasedEstimator())
    chat.app.engine = other
    while any(FACT in content for _, content in chat.sent[-1]):  # the cut moves
        chat.talk()
    assert len(chat.sent) > start + 1
    assert other.sync.flush()
    chat.app.engine = engine
    chat.talk()
    assert grows(chat.sent[-2:])
    other.sync.close()


def test_what_is_deleted_is_gone_from_there(engine: ContextEngine) -> None:
    chat = Chat(engine)
    found = engine.sync.record_evidence(
        SCOPE,
        "The safe of the east wing opens with 4455.",
        EvidenceSource(kind=SourceKind.RAG, name="notes"),
        EvidenceType.RAG_DOC,
    )
    question = "With what does the safe of the east wing open?"
    chat.ask(question, "You will see.")
    assert "4455" in asked(chat.sent[-1], question)
    engine.sync.delete_evidence(SCOPE, found.evidence_id)
    chat.talk()
    assert "4455" not in "\n".join(content for _, content in chat.sent[-1])
    view = engine._sessions.peek(SCOPE)
    assert view is not None
    assert "4455" not in str(view.lane("").pins)


def test_it_is_kept_redacted_and_goes_out_live(engine: ContextEngine) -> None:
    fact = "Mail about the north gate goes to ann@example.com always."
    chat = Chat(engine, fact=fact)
    question = "Where does mail about the north gate go?"
    start = len(chat.sent)
    chat.ask(question, "To her.")
    chat.talk()
    assert "ann@example.com" in asked(chat.sent[-1], question)
    assert grows(chat.sent[start:])
    view = engine._sessions.peek(SCOPE)
    assert view is not None
    kept = str(view.lane("").pins)
    assert "[EMAIL_1]" in kept
    assert "ann@example.com" not in kept


def test_who_looks_sees_it(engine: ContextEngine) -> None:
    chat = Chat(engine, config(observability={"inspect": True}))
    chat.ask(CODE, "7391.")
    call = ModelCall(SCOPE, [*chat.app.messages, user("And now?")], config=chat.config)
    engine.config = chat.config
    seen = engine.sync.inspect(call, actor="u")
    assert any(FACT in part.content for part in seen.layers[Layer.RETRIEVED.value].parts)


def test_what_always_goes_out_stands_still_where_it_stood(engine: ContextEngine) -> None:
    """Settings before the first words of the list, rules in the system's message: requests only grow."""
    block = ContextBlock.model_validate(
        {"block_id": "b", "block_type": "memory", "priority": "high", "content": "喜欢简短的回答"}
    )
    engine.loop.run(engine.put_context_blocks(SCOPE, [block]))
    engine.sync.constraints.create(SCOPE, "Answer in English.")
    engine.sync.constraints.create(SCOPE, "No exclamation marks.", derived=True)
    chat = Chat(engine)
    start = len(chat.sent)
    chat.ask(CODE, "7391.")
    for _ in range(3):
        chat.talk()
    assert grows(chat.sent[start:])
    (_, rules), (_, first), *_ = chat.sent[-1]
    assert rules.endswith("1. Answer in English.")
    assert "| 喜欢简短的回答" in first
    assert "| No exclamation marks." in first
    chat.replays()


def test_a_summary_that_comes_between_two_cuts_leaves_the_prefix_as_it_was(
    engine: ContextEngine,
) -> None:
    """Until the cut moves, or a newer one says more of what is gone, the summary that was sent stays."""
    llm = MockLlmAdapter([f"They spoke of {n} cellars. 摘要" for n in range(99)])
    lengths = SummaryConfig(
        max_summary_tokens=60, trigger_message_count=4, preserve_recent_messages=2
    )
    settings = config(summary=lengths)
    made = create_context_engine(engine.store, CharBasedEstimator(), llm, settings)
    chat = Chat(made, settings)
    kept, moved, gone = 0, 0, -1
    for _ in range(16):
        summaries = len(llm.requests)
        assert made.sync.flush(20)
        chat.talk()
        now = sum(d.count for d in chat.told[-1].report.prune_decisions if d.action == "dropped")
        if now == gone:
            assert grows(chat.sent[-2:])
            kept += len(llm.requests) > summaries
        moved += now != gone
        gone = now
    assert "摘要" in chat.sent[-1][1][1]
    assert moved >= 2, "a cut takes up what was summarised since"
    assert len({sent[1][1].partition("cellars")[0][-9:] for sent in chat.sent[-16:]}) >= 2
    assert kept >= 2
    made.sync.close()


@pytest.mark.parametrize("tokens", [450, 550, 650])
def test_a_session_that_grew_knows_what_a_new_one_does(engine: ContextEngine, tokens: int) -> None:
    """What was brought in for earlier questions does not take the room of the one that is asked."""
    chat = Chat(engine, config(tokens))
    facts = [f"Boiler {n} was serviced in Leeds, invoice {7100 + n}." for n in range(10)]
    other = [f"Ferry {n} to Dover leaves from pier {n}, deck {n} is open." for n in range(10)]
    for told in [*facts, *other]:
        chat.ask(told, "Noted.")
    chat.save()
    chat.ask("Which ferry to Dover leaves from which pier, and which deck is open?", "Any.")
    grown = chat.ask("Which boiler was serviced in Leeds, and what are the invoices?", "These.")
    sent = "\n".join(content for _, content in parts(grown))
    assert [fact for fact in facts if fact not in sent] == []
    chat.replays()


def test_a_question_that_goes_back_gets_what_fits_not_only_what_is_nearest(
    engine: ContextEngine,
) -> None:
    """Only what was about as near as the nearest went in while a cut stood, and much of the room was empty."""
    chat = Chat(engine, config(2400))
    boiler = "The north boiler in Leeds is serviced by Ann."
    stock = [f"Part {n} for a boiler is in stock." for n in range(6)]
    for fact in (boiler, *stock):
        chat.ask(fact, "Noted.")
    while any(stock[-1] in content for _, content in chat.sent[-1]):
        chat.talk()
    chat.ask("Xylo?", "Zephyr: the north boiler in Leeds is serviced.")
    for _ in range(6):
        chat.talk()
    asked_now = chat.ask("Who serviced the north boiler in Leeds, which part is in stock?", "Ann.")
    sent = "\n".join(content for _, content in parts(asked_now))
    assert [fact for fact in (boiler, *stock) if fact not in sent] == []
    chat.replays()


def below(prepared: Prepared) -> int:
    """Groups that the cut leaves out."""
    return sum(d.count for d in prepared.report.prune_decisions if d.reason == "below_cut")


def test_a_question_that_may_go_back_gets_of_what_is_free_and_nothing_gives_way(
    engine: ContextEngine,
) -> None:
    """Nothing earlier is nearer than the talk around it, to which it lends its own words; but not much is missing."""
    chat = Chat(engine, config(2400), fact="The north boiler in Leeds is serviced by Ann.")
    stock = [f"Part {n} for a boiler 锅炉 is in stock." for n in range(6)]
    for fact in stock:
        chat.ask(fact, "Noted.")
    while any(stock[-1] in content for _, content in chat.sent[-1]):
        chat.talk()
    chat.ask("Xylo?", "Zephyr: the north boiler in Leeds is serviced.")
    for _ in range(6):
        chat.talk()
    asks = "Who services the north boiler in Leeds with the green bucket, on the ladder?"
    asked_now = chat.ask(asks, "Ann.")
    sent = "\n".join(content for _, content in parts(asked_now))
    assert [fact for fact in stock if fact not in sent] == []
    assert grows(chat.sent[-2:])
    assert below(chat.told[-1]) == below(chat.told[-2])
    assert asked_now.report.token_used < 2400 - (2400 - chat.told[-2].report.token_used) // 5
    chat.replays()


def test_what_stands_before_earlier_questions_leaves_before_the_cut_moves(
    engine: ContextEngine,
) -> None:
    chat = Chat(engine, config(1200))
    machines = {"Boiler": "Leeds", "Ferry": "Dover"}
    facts = {
        name: [f"{name} {n} was serviced in {town}, 发票 {7100 + n}." for n in range(14)]
        for name, town in machines.items()
    }
    for told in [*facts["Boiler"], *facts["Ferry"]]:
        chat.ask(told, "Noted.")
    for _ in range(14):
        chat.talk()
    gone = 0
    for name, town in machines.items():
        gone = below(chat.told[-1])
        chat.ask(f"Which {name} was serviced in {town}, and what are the 发票?", "These.")
        sent = "\n".join(content for _, content in chat.sent[-1])
        assert [fact for fact in facts[name] if fact not in sent] == []
        chat.talk()
    assert below(chat.told[-1]) == gone, "the second question moves no cut"
    chat.replays()


SUBJECTS = "ferry piano tent garden roof choir sofa parrot drone guitar kayak orchard".split()
ASPECTS = "price date place colour weather insurance".split()


def test_a_talk_that_goes_on_is_cut_deep_so_that_the_cut_lasts(engine: ContextEngine) -> None:
    """An input that was filled up when its cut moved was cut again after a few questions."""
    chat = Chat(engine, config(1000))
    cuts: list[int] = []
    for subject in SUBJECTS:
        for n, aspect in enumerate(ASPECTS):
            said = (
                f"The {aspect} of the {subject} is {n}{len(chat.sent)}, and {subject}s have it so."
            )
            told = chat.ask(f"What about the {aspect} of the {subject}?", said)
            if len(chat.sent[-1]) < len(chat.sent[-2]):
                cuts.append(told.report.token_used)
    assert len(cuts) >= 4
    assert max(cuts) <= 700, "there is room for the questions to come"
    chat.replays()


def test_a_line_that_is_cut_for_the_first_time_is_filled_up_for_its_question(
    engine: ContextEngine,
) -> None:
    """It may be all that is ever asked: room for questions to come is kept free from the second cut on."""
    facts = [f"Boiler {n} was serviced in Leeds, 发票 {7100 + n}." for n in range(24)]
    talk = [each for fact in facts for each in (user(fact), assistant("Noted."))]
    for n in range(40):
        talk += [user(f"Xylo{n}?"), assistant(f"Zephyr{n} quartz{n} vortex{n} jumbo{n} kiwi{n}.")]
    asks = "Which boilers were serviced in Leeds, and 发票?"
    talk += [user(asks), assistant("Which boilers were serviced in Leeds, and 发票? Some.")]
    app = HostApp(engine, SCOPE, [system("You help."), *talk])
    first = app.prepare(user(f"Xylo, and: {asks}"), config=config(1000))
    assert 600 < first.report.token_used <= 1000
    text = "\n".join(content for _, content in parts(first))
    assert [fact for fact in facts if fact not in text] == []
