"""What goes out: unchanged with room; within the budget without; what matters brought back (decisions 5 to 8)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ce_engine import (
    BudgetConfig,
    BudgetExceededError,
    CharBasedEstimator,
    ContextEngine,
    Keep,
    MemoryStore,
    ModelCall,
    Prepared,
    Report,
    Retrieval,
    RetrievedDoc,
    RuntimeConfig,
    Scope,
    Shorten,
    Usage,
    create_context_engine,
)
from ce_engine.testing.host import HostApp, assistant, system, tool_calls, tool_result, user


SCOPE = Scope(session_id="s")


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    made = create_context_engine(MemoryStore(), token_estimator=CharBasedEstimator())
    yield made
    made.sync.close()


def budget(tokens: int, **more: Any) -> RuntimeConfig:
    return RuntimeConfig(
        budget=BudgetConfig(max_input_tokens=tokens, reserved_reply_tokens=0), **more
    )


def text(prepared: Prepared) -> str:
    return "\n".join(part.content for part in prepared.assembled.parts)


def test_with_room_nothing_changes_over_many_turns(engine: ContextEngine) -> None:
    app = HostApp(engine, SCOPE, [system("You help.")])
    for n in range(20):
        prepared = app.ask(f"question {n}", f"answer {n}", config=budget(8000))
        assert prepared.unchanged
        assert prepared.plan == [Keep(i) for i in range(len(app.messages) - 1)]
        assert prepared.report.dropped == prepared.report.inserted == 0


def test_without_a_known_budget_it_records_and_never_prunes(engine: ContextEngine) -> None:
    app = HostApp(engine, SCOPE)
    prepared = app.ask("x" * 100_000, "ok")
    assert prepared.unchanged
    assert prepared.report.token_budget is None
    assert prepared.report.warnings == ["CONTEXT_BUDGET_UNKNOWN"]


def test_a_stored_report_tells_neighbours_of_one_fate_as_one(engine: ContextEngine) -> None:
    app, config = HostApp(engine, SCOPE), budget(300, placement="seed")
    for n in range(29):
        app.ask(f"what is the colour of house {n}?", f"house {n} is red", config=config)
    prepared = app.ask("what is the colour of house 29?", "red", config=config)
    live = prepared.report.prune_decisions
    assert engine.sync.flush()
    turn = engine.loop.run(engine.store.list_turns(SCOPE))[-1]
    stored = Report(turn_id=turn.turn_id, **turn.report).prune_decisions
    assert len(stored) < len(live), "several were found relevant again"
    for name in ("count", "token_estimate"):
        assert sum(getattr(d, name) for d in stored) == sum(getattr(d, name) for d in live)
    assert {d.block_id for d in stored} <= {d.block_id for d in live}
    assert {(d.action, d.reason) for d in stored} == {(d.action, d.reason) for d in live}
    assert turn.owner == "", "a closed turn is nobody's"


@pytest.mark.parametrize("placement", ["seed", "cache"])
def test_a_fact_far_below_the_cut_comes_back_when_it_is_asked_for(
    engine: ContextEngine, placement: str
) -> None:
    app = HostApp(engine, SCOPE, [system("You help.")])
    config = budget(700, placement=placement)
    app.ask("The gate code of the north warehouse is 7391.", "Noted.", config=config)
    for n in range(40):
        app.ask(f"Tell me about item {n} of the list.", f"Item {n} is a lamp.", config=config)
    prepared = app.prepare(user("What is the gate code of the north warehouse?"), config=config)
    assert "7391" in text(prepared)
    assert prepared.report.token_used <= 700
    assert prepared.report.injected_evidence_ids or prepared.report.inserted


def test_a_chinese_fact_comes_back_too(engine: ContextEngine) -> None:
    app = HostApp(engine, SCOPE, [system("你是助手。")])
    config = budget(700, locale="zh")
    app.ask("北区仓库的负责人是王小明。", "好的。", config=config)
    for n in range(40):
        app.ask(f"请介绍清单上的第 {n} 件商品。", f"第 {n} 件商品是台灯。", config=config)
    prepared = app.prepare(user("北区仓库由谁负责？"), config=config)
    assert "王小明" in text(prepared)
    assert "本会话较早的记录" in text(prepared)


def test_a_long_turn_shortens_old_results_and_names_their_evidence(engine: ContextEngine) -> None:
    app = HostApp(engine, SCOPE, [system("You help."), user("Compare the ten files.")])
    config = budget(1500)
    prepared = app.prepare(config=config)
    for n in range(10):
        app.commit(prepared, tool_calls((f"c{n}", "read", {"file": f"f{n}"})))
        lines = "\n".join(f"line {i} of file {n}" for i in range(40))
        prepared = app.prepare(tool_result(f"c{n}", lines), new_request=False, config=config)
        assert prepared.report.token_used <= 1500
    shortened = [s for s in prepared.plan if isinstance(s, Shorten)]
    assert shortened or prepared.report.dropped
    if shortened:
        assert "line 0 of file" in shortened[0].text
        assert "evidence" in shortened[0].text
    assert "Compare the ten files." in text(prepared)
    assert "line 39 of file 9" in text(prepared), "the newest result is whole"


def test_dropped_steps_are_named_in_one_line_with_their_evidence(engine: ContextEngine) -> None:
    app = HostApp(engine, SCOPE, [system("You help."), user("Check all.")])
    config = budget(400)
    prepared = app.prepare(config=config)
    for n in range(30):
        app.commit(prepared, tool_calls((f"c{n}", "check", {"n": n})))
        prepared = app.prepare(tool_result(f"c{n}", f"ok {n}"), new_request=False, config=config)
        assert prepared.report.token_used <= 400
    assert "earlier steps of this task are not shown" in text(prepared)
    known = engine.loop.run(engine.store.list_evidences(SCOPE))
    assert any(e.evidence_id[:8] in text(prepared) for e in known)


def test_retrieved_text_in_the_prompt_is_shortened_worst_first(engine: ContextEngine) -> None:
    best = "Oslo is the capital of Norway. " * 10
    worst = "Bergen has much rain in autumn. " * 40
    hit = Retrieval(
        "kb", "capital", [RetrievedDoc(best, "kb://1"), RetrievedDoc(worst, "kb://2")], run_id="r"
    )
    engine.post_retrieval(SCOPE, hit, request_id="request-1")
    app = HostApp(engine, SCOPE)
    prompt = f"Context:\n{best}\n\n{worst}\n\nQuestion: what is the capital of Norway?"
    prepared = app.prepare(user(prompt), config=budget(300))
    assert prepared.report.token_used <= 300
    sent = text(prepared)
    assert best in sent
    assert worst not in sent
    assert "Question: what is the capital of Norway?" in sent


def test_what_may_never_be_left_out_goes_out_whole_and_is_marked(engine: ContextEngine) -> None:
    app = HostApp(engine, SCOPE, [system("s" * 4000)])
    prepared = app.prepare(user("hi"), config=budget(100))
    assert prepared.unchanged
    assert prepared.report.over_budget
    assert prepared.report.warnings == ["CONTEXT_OVER_BUDGET"]


@pytest.mark.req("A-11", "A-25")
def test_fail_closed_raises_and_names_the_cure(engine: ContextEngine) -> None:
    app = HostApp(engine, SCOPE, [system("s" * 4000)])
    with pytest.raises(BudgetExceededError, match="max_input_tokens"):
        app.prepare(user("hi"), config=budget(100, fail="closed"))


@pytest.mark.req("D-05")
def test_the_stable_prefix_is_told_against_the_call_before(engine: ContextEngine) -> None:
    app = HostApp(engine, SCOPE, [system("You help.")])
    first = app.ask("one?", "1").report
    second = app.ask("two?", "2").report
    assert not first.stable_prefix_unchanged
    assert second.stable_prefix_unchanged
    assert second.stable_prefix_hash == first.stable_prefix_hash
    assert first.prefix_tokens_unchanged is None
    assert second.prefix_tokens_unchanged == first.token_used - 3  # all but the reply's priming
    app.messages[0] = system("You help a lot.")
    third = app.ask("three?", "3").report
    assert not third.stable_prefix_unchanged
    assert third.prefix_tokens_unchanged == 0


def test_between_cuts_the_prefix_stays_the_same(engine: ContextEngine) -> None:
    app = HostApp(engine, SCOPE, [system("You help.")])
    config = budget(1200, enable_share_context=False)
    reuse = []
    for n in range(80):
        report = app.ask(f"question {n} {'w ' * 20}", f"answer {n}", config=config).report
        assert report.token_used <= 1200
        if n > 30 and report.prefix_tokens_unchanged is not None:
            reuse.append(report.prefix_tokens_unchanged / report.token_used)
    moved = [r for r in reuse if r < 0.5]
    assert len(moved) <= 8, "a new cut every handful of turns"


@pytest.mark.req("B-17")
def test_tools_and_response_format_are_counted(engine: ContextEngine) -> None:
    tools = [{"name": "lookup", "description": "d " * 100, "parameters": {"type": "object"}}]
    app = HostApp(engine, SCOPE)
    bare = app.ask("hi", "ho").report
    app = HostApp(engine, Scope(session_id="t"))
    full = app.ask("hi", "ho", tools=tools, response_format={"title": "x" * 100}).report
    assert full.payload_tokens["tools"] > 100
    assert full.payload_tokens["response_format"] > 20
    assert full.token_used > bare.token_used + 120


def test_an_orphaned_result_is_repaired_and_told(engine: ContextEngine) -> None:
    app = HostApp(engine, SCOPE, [tool_result("gone", "42"), user("hi")])
    prepared = app.prepare()
    assert prepared.plan == [Keep(1)]
    assert prepared.report.orphans_removed == 1
    assert not prepared.unchanged
    app.commit(prepared, assistant("ho"))


def test_a_tool_result_without_ids_is_no_orphan(engine: ContextEngine) -> None:
    app = HostApp(engine, SCOPE, [system("You help.")])
    asked, result = tool_calls(("", "weather", {"city": "Oslo"})), tool_result("", "4 degrees")
    assert asked.message.tool_calls
    asked.message.tool_calls[0].id = result.message.tool_call_id = None
    assert app.prepare(user("weather?"), asked, result).unchanged


def test_a_helper_call_does_not_disturb_the_prefix_figures_of_its_lane(
    engine: ContextEngine,
) -> None:
    app = HostApp(engine, SCOPE, [system("You help with the garden.")])
    app.ask("one?", "1")
    aside = ModelCall(scope=SCOPE, messages=[user("classify")], purpose="helper", request_id="h")
    helper = engine.sync.prepare(aside).report
    assert helper.stable_prefix_hash
    assert helper.prefix_tokens_unchanged is None
    report = app.ask("two?", "2").report
    assert report.prefix_tokens_unchanged
    assert report.stable_prefix_unchanged


def rag(engine: ContextEngine, documents: int, words: int, tokens: int) -> Prepared:
    """A prompt that is nearly all retrieved documents, in a budget for some of them."""
    docs = [
        f"Document {n}: " + " ".join(f"word{(n * 37 + i) % 997}" for i in range(words))
        for n in range(documents)
    ]
    hits = Retrieval("kb", "q", [RetrievedDoc(doc) for doc in docs], run_id="r")
    engine.post_retrieval(SCOPE, hits, request_id="request-1")
    prompt = "Use:\n" + "\n".join(docs) + "\nQuestion?"
    return HostApp(engine, SCOPE).prepare(user(prompt), config=budget(tokens))


@pytest.mark.parametrize("tokens", [40, 100, 400, 1000])
def test_notes_of_documents_left_out_do_not_fill_the_budget(
    engine: ContextEngine, tokens: int
) -> None:
    prepared = rag(engine, 60, 100, tokens)
    assert not prepared.report.over_budget
    assert prepared.report.token_used <= tokens
    assert text(prepared).endswith("Question?")


class Counts(CharBasedEstimator):
    """The simple estimator, and how much it was asked to read."""

    chars = 0

    def estimate_text(self, text: str, model_hint: str | None = None) -> int:
        self.chars += len(text)
        return super().estimate_text(text, model_hint)


def test_shortening_a_prompt_of_documents_reads_it_a_few_times_only() -> None:
    estimator = Counts()
    engine = create_context_engine(MemoryStore(), token_estimator=estimator)
    prepared = rag(engine, 60, 150, 1000)
    assert prepared.report.shortened == 1
    size = len(prepared.call.messages[0].message.content)
    assert size < estimator.chars < 10 * size
    engine.sync.close()


@pytest.mark.req("D-03")
def test_usage_of_earlier_calls_corrects_an_estimate_that_was_too_low(
    engine: ContextEngine,
) -> None:
    app = HostApp(engine, SCOPE, [system("You help.")])
    config = budget(2000)
    first = app.prepare(user("word " * 600), config=config)
    app.commit(first, assistant("ok"), Usage(int(first.report.token_used * 1.5), 1, 0))
    second = app.prepare(user("again"), config=config)
    assert second.report.token_budget is not None
    assert 1300 <= second.report.token_budget <= 1340
    assert second.report.token_used <= second.report.token_budget


def test_over_the_budget_what_the_host_repeats_goes_out_once(engine: ContextEngine) -> None:
    """Memories of some frameworks add the same system message to the list with every turn."""
    memory = "What is known of this customer: " + "she likes red lamps. " * 20
    app = HostApp(engine, SCOPE, [system("You help.")])
    for n in range(12):
        app.messages += [user(f"question {n}"), system(memory)]
        prepared = app.prepare(config=budget(900))
        assert not prepared.report.over_budget
        at = [i for i, m in enumerate(app.messages) if m.message.content == memory]
        sent = [step.index for step in prepared.plan if isinstance(step, Keep)]
        assert at[-1] in sent
        assert 0 in sent
        gone = [i for i in at if i not in sent]
        assert gone == (at[:-1] if prepared.report.tokens_before > 900 else []), f"turn {n}"
        told = {d.reason for d in prepared.report.prune_decisions}
        assert ("repeated_system_message" in told) is bool(gone)
        app.commit(prepared, assistant(f"answer {n}"))
    assert engine.sync.replay(SCOPE).equal


PAGES = [f"Page {n}. " + f"Line {n} of it says this and that, 第{n}页。 " * 12 for n in range(3)]


def found(engine: ContextEngine, *pages: str) -> None:
    hits = Retrieval("kb", "q", [RetrievedDoc(page) for page in pages], run_id="r")
    engine.post_retrieval(SCOPE, hits, request_id="request-1")


def test_documents_of_a_run_are_known_in_all_its_calls(engine: ContextEngine) -> None:
    """A reranker's answer, or a first draft's, is not the end of it."""
    found(engine, *PAGES)
    app, prompt = HostApp(engine, SCOPE), "Use:\n" + "\n".join(PAGES)
    for purpose in ("helper", "chat", "chat"):
        asked = HostApp(engine, SCOPE, [system(prompt)])
        prepared = asked.prepare(
            user(f"as a {purpose}?"), purpose=purpose, request_id="request-1", config=budget(250)
        )
        assert not prepared.report.over_budget
        assert PAGES[0][:40] in text(prepared)
        app.commit(prepared, assistant("an answer"))


def test_the_worst_document_goes_first_whichever_message_it_is_in(engine: ContextEngine) -> None:
    found(engine, *PAGES)
    best, middle, worst = PAGES
    app = HostApp(engine, SCOPE, [system(f"Know:\n{worst}\nand\n{best}")])
    question = user(f"With {middle} in mind?")
    whole = HostApp(engine, Scope(session_id="whole"), list(app.messages)).prepare(question)
    most = whole.report.token_used - 100
    prepared = app.prepare(question, config=budget(most))
    assert best in text(prepared)
    assert worst not in text(prepared)
    shortened = [step.index for step in prepared.plan if isinstance(step, Shorten)]
    assert shortened == [0]
    assert prepared.report.payload_tokens["system"] < whole.report.payload_tokens["system"]
    assert prepared.report.token_used <= most


def test_a_quotation_of_a_document_stays(engine: ContextEngine) -> None:
    found(engine, PAGES[0])
    quoted = f"Why does it say '{PAGES[0][10:120]}'?"
    app = HostApp(engine, SCOPE, [system(f"Know:\n{PAGES[0]}")])
    prepared = app.prepare(user(quoted), config=budget(150))
    assert text(prepared).endswith(quoted)
    assert not prepared.report.over_budget


def test_a_shortened_system_message_is_replayed_where_its_text_is_given(
    engine: ContextEngine,
) -> None:
    found(engine, *PAGES)
    prompt = "Use:\n" + "\n".join(PAGES)
    app = HostApp(engine, SCOPE, [system(prompt)])
    prepared = app.prepare(user("What of page 0?"), config=budget(300))
    app.commit(prepared, assistant("an answer"))
    assert prepared.report.shortened
    assert engine.sync.replay(SCOPE, system=prompt).equal
    without = engine.sync.replay(SCOPE)
    assert "CONTEXT_REPLAY_LIVE_TASK" in {problem.code for problem in without.problems}
    assert without.sent.tokens == prepared.report.token_used


def test_what_a_model_said_and_joined_results_go_out_as_they_are(engine: ContextEngine) -> None:
    """The one may be signed; of the other nobody can tell whose a part is."""
    found(engine, *PAGES)
    both = tool_result("a", "\n".join(PAGES))
    both.more_call_ids = ("b",)
    asked = tool_calls(("a", "look", {}), ("b", "look", {}), text=PAGES[0])
    app = HostApp(engine, SCOPE, [user("look twice?"), asked])
    prepared = app.prepare(both, config=budget(100))
    assert prepared.unchanged
    assert prepared.report.over_budget
    assert list(prepared.report.over_budget_causes) == ["results"]


@pytest.mark.req("A-11", "A-17")
@pytest.mark.parametrize("spare", [0, 3])
def test_a_tool_users_list_that_just_fits_goes_as_it_is(spare: int) -> None:
    said = [
        user("Where is it?"),
        tool_calls(("c", "find", {"id": 7})),
        tool_result("c", "box " * 60),
    ]
    said += [assistant("In the box."), user("And the other one?")]

    def prepared(most: int = 100_000) -> Prepared:
        config = RuntimeConfig(budget=BudgetConfig(max_input_tokens=most, reserved_reply_tokens=0))
        engine = create_context_engine(MemoryStore(), config=config)
        made = HostApp(engine, SCOPE).prepare(*said)
        engine.sync.close()
        return made

    tokens = prepared().report.tokens_before
    assert tokens > 60
    assert prepared(tokens + spare).unchanged
    assert not prepared(tokens - 1).unchanged


@pytest.mark.parametrize("is_other", [False, True])
def test_what_a_provider_counted_makes_room_in_other_processes_too(
    engine: ContextEngine, *, is_other: bool
) -> None:
    app = HostApp(engine, SCOPE, [system("You help.")])
    for n in range(20):
        prepared = app.prepare(user(f"question {n} " * 10), config=budget(1000))
        usage = Usage(prompt_tokens=prepared.report.token_used * 3 // 2, completion_tokens=5)
        app.commit(prepared, assistant(f"answer {n} " * 10), usage)
    assert engine.sync.flush()
    other = create_context_engine(engine.store, CharBasedEstimator()) if is_other else engine
    app.engine = other
    last = app.prepare(user("And now?"), config=budget(1000))
    assert 300 < last.report.token_used <= 667
    other.sync.close()
