"""A turn as a person looks at it: every message with what became of it, and why."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Any

import pytest

from ce_engine import (
    BudgetConfig,
    CharBasedEstimator,
    ContextEngine,
    MemoryStore,
    RuntimeConfig,
    Scope,
    create_context_engine,
)
from ce_engine.apps.present.html_text import (
    DIFF_CHARS,
    DIFF_STEPS,
    difference,
    line,
    plain,
    visible,
)
from ce_engine.apps.present.language import languages
from ce_engine.apps.present.links import Links
from ce_engine.apps.present.reasons import ACTIONS, WHY, reason_words
from ce_engine.apps.present.turn_view import Fold, Row, folded, turn_rows
from ce_engine.apps.present.what_if import what_if_config, window_of
from ce_engine.apps.present.what_if_view import WhatIfView
from ce_engine.testing.host import HostApp, assistant, system, tool_calls, tool_result, user


SCOPE = Scope(session_id="s", user_id="u")
INVOICE = "The invoice 4711 of the north warehouse lies in the blue folder."


def config(tokens: int = 500, **more: object) -> RuntimeConfig:
    budget = BudgetConfig(max_input_tokens=tokens, reserved_reply_tokens=0)
    return RuntimeConfig(budget=budget, **more)  # type: ignore[arg-type] # values of a test


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    made = create_context_engine(MemoryStore(), token_estimator=CharBasedEstimator())
    yield made
    made.sync.close()


def chat(engine: ContextEngine, question: str, lamp: str = "It is red.") -> HostApp:
    """An invoice that is told of once, then far more than the budget, then a question."""
    app = HostApp(engine, SCOPE, [system("You help.")])
    app.ask(INVOICE, "Noted.", config=config())
    for n in range(12):
        app.ask(f"Tell me about lamp {n}. " * 4, f"Lamp {n}: {lamp}", config=config())
    app.ask(question, "So it is.", config=config())
    engine.sync.flush()
    return app


def rows_of(engine: ContextEngine, turn: int | None = None) -> list[Row]:
    document, turns = engine.sync.get_session(SCOPE), list(engine.sync.list_turns(SCOPE))
    assert document is not None
    replay = engine.sync.replay(SCOPE, turn)
    report = engine.sync.list_reports(SCOPE)[replay.turn - 1]
    found = engine.sync.explain(SCOPE, turn)
    return turn_rows(replay, found, report, Links(document, turns))


def test_every_message_of_the_app_is_there_once_and_in_order(engine: ContextEngine) -> None:
    app = chat(engine, "Which lamp is red?")
    rows = rows_of(engine)
    assert [row.index for row in rows] == list(range(len(app.messages) - 1))
    sent = [row for row in rows if not row.is_out]
    assert len(sent) == engine.sync.list_reports(SCOPE)[-1].messages_sent
    assert rows[0].is_unstored
    assert rows[1].text == INVOICE


def test_why_the_invoice_was_left_out_is_said_in_its_row(engine: ContextEngine) -> None:
    chat(engine, "Which lamp is red?")
    row = next(row for row in rows_of(engine) if row.has("INVOICE"))
    assert row.is_out
    assert row.reason == ("dropped", "below_cut")
    assert "before the cut" in reason_words(row.reason)


def test_what_was_brought_back_says_so_where_it_was_left_out(engine: ContextEngine) -> None:
    chat(engine, "Where is the invoice 4711 of the warehouse?")
    rows = rows_of(engine)
    row = next(row for row in rows if row.text == INVOICE)
    assert row.is_out
    assert row.brought_in is not None
    assert row.brought_in.score
    question = rows[-1]
    assert question.action == "extended"
    new = "".join(text for kind, text in question.pieces if kind == "new")
    assert "4711" in new
    assert [text for kind, text in question.pieces if kind == "gone"] == []


def test_what_was_looked_at_and_passed_over_has_its_score(engine: ContextEngine) -> None:
    chat(engine, "What is a lamp of the warehouse?", lamp="The lamp of the warehouse is red. " * 5)
    found = engine.sync.explain(SCOPE)
    assert found.passed_over
    scores = [piece.score or 0.0 for piece in found.passed_over]
    assert scores == sorted(scores, reverse=True)
    ids = {piece.id for piece in found.brought_in}
    assert not ids.intersection(piece.id for piece in found.passed_over)
    by_id = {row.passed_over.id: row for row in rows_of(engine) if row.passed_over}
    assert by_id
    assert all(row.message and row.message.message_id == name for name, row in by_id.items())
    assert all(
        ("dropped", row.passed_over.reason) in WHY for row in by_id.values() if row.passed_over
    )


def test_answers_that_give_way_to_their_results_are_no_conflict(engine: ContextEngine) -> None:
    """Nothing contradicts them: their results say the same, and go in instead."""
    tight = config(700)
    app = HostApp(engine, SCOPE, [system("You help.")])
    for n in range(14):
        asking = app.prepare(user(f"Which licence has package-{n}?"), config=tight)
        app.commit(asking, tool_calls((f"c{n}", "licence", {"name": f"package-{n}"})))
        text = f"package-{n} has the licence MIT-{n}. " * 3
        answering = app.prepare(tool_result(f"c{n}", text), new_request=False, config=tight)
        app.commit(answering, assistant(f"The licence of package-{n} is MIT-{n}."))
    engine.sync.flush()
    reports = engine.sync.list_reports(SCOPE)
    assert all(not report.conflicts for report in reports)
    told = {d.reason for report in reports for d in report.prune_decisions}
    assert "said_by_results" in told
    assert "conflict" not in told
    said = reason_words(("dropped", "said_by_results"))
    assert "that it repeats" not in said  # an answer may stand where no tool was called
    assert "Tool results go in before answers" in said


def test_neighbours_that_are_left_out_alike_are_folded(engine: ContextEngine) -> None:
    chat(engine, "Which lamp is red?")
    rows = rows_of(engine)
    made = folded(rows)
    folds = [each for each in made if isinstance(each, Fold)]
    assert folds
    flat = [row for each in made for row in (each.rows if isinstance(each, Fold) else [each])]
    assert flat == rows
    assert folds[0].tokens == sum(row.tokens for row in folds[0].rows)


def test_by_hand_stored_messages_stand_in_their_places(engine: ContextEngine) -> None:
    from ce_engine import Message, Role

    for n in range(10):
        found = engine.sync.prepare_turn(
            SCOPE, [Message(role=Role.USER, content=f"Tell me about lamp {n}. " * 4)], config()
        )
        engine.sync.commit_assistant_message(
            SCOPE,
            Message(role=Role.ASSISTANT, content=f"Lamp {n} is red."),
            turn_id=found.report.turn_id,
        )
    engine.sync.flush()
    rows = rows_of(engine)
    seqs = [row.message.seq for row in rows if row.message is not None]
    assert seqs == sorted(seqs, key=lambda seq: seq or 0)
    assert any(row.action == "restored" for row in rows)


def test_another_budget_would_have_left_out_less(engine: ContextEngine) -> None:
    chat(engine, "Which lamp is red?")
    document, turns = engine.sync.get_session(SCOPE), list(engine.sync.list_turns(SCOPE))
    assert document is not None
    at = len(turns) - 1
    assert window_of(turns, at) == 500
    replay = engine.sync.replay(SCOPE, None, what_if_config(turns, at, 5000, ""))
    assert replay.instead is not None
    assert replay.instead.dropped == []
    view = WhatIfView(replay, Links(document, turns))
    invoice = next(each for each in view.changes if each.text == INVOICE)
    assert (invoice.was.kind, invoice.then.kind) == ("left out", "message")
    assert ("left out", "message") in {way[:2] for way in view.ways()}
    assert "with this window everything has room: nothing is cut" in list(view.reasons())
    assert engine.sync.list_turns(SCOPE) == turns


def test_another_placement_keeps_the_budget(engine: ContextEngine) -> None:
    chat(engine, "Where is the invoice 4711?")
    turns = list(engine.sync.list_turns(SCOPE))
    made = what_if_config(turns, len(turns) - 1, None, "seed")
    assert made.placement == "seed"
    assert made.budget.max_input_tokens == 500
    small = what_if_config(turns, len(turns) - 1, 40, "")
    assert small.budget.max_input_tokens == 40


@pytest.mark.parametrize(
    ("budget", "window", "reserve"),
    [
        (BudgetConfig(max_input_tokens=1500), 3000, 750),
        (BudgetConfig(max_input_tokens=1500), 9000, 1024),
        (BudgetConfig(max_input_tokens=9000), 1500, 375),
        (BudgetConfig(max_input_tokens=1500, reserved_reply_tokens=200), 3000, 200),
        (BudgetConfig(max_input_tokens=1500, reserved_reply_tokens=200), 300, 75),
    ],
)
def test_another_window_keeps_for_the_reply_what_an_app_with_it_would(
    engine: ContextEngine, budget: BudgetConfig, window: int, reserve: int
) -> None:
    HostApp(engine, SCOPE).ask("Hello!", "Hello.", config=RuntimeConfig(budget=budget))
    engine.sync.flush()
    made = what_if_config(list(engine.sync.list_turns(SCOPE)), 0, window, "").budget
    assert (made.max_input_tokens, made.reserved_reply_tokens) == (window, reserve)
    made = what_if_config(list(engine.sync.list_turns(SCOPE)), 0, window, "", 123).budget
    assert (made.max_input_tokens, made.reserved_reply_tokens) == (window, 123)
    made = what_if_config(list(engine.sync.list_turns(SCOPE)), 0, None, "", 123).budget
    assert (made.max_input_tokens, made.reserved_reply_tokens) == (budget.max_input_tokens, 123)


def test_a_text_behind_what_was_put_before_it_stays_as_it_is() -> None:
    """Also where the same words stand in what was put before it."""
    asked = "How long may customers return it?"
    before = f"[17] Quoted records:\n| user: {asked}\n| tool: 45 days, may return\n[/17]\n\n"
    assert difference(asked, f"{before}{asked}") == [("new", before), ("same", asked)]
    assert difference(f"{before}{asked}", asked) == [("gone", before), ("same", asked)]
    rules = "\n\n[Constraints]\n1. You help."
    assert difference("You help.", f"You help.{rules}") == [("same", "You help."), ("new", rules)]
    other = "[18] Quoted records:\n| tool: return it\n[/18]\n\n"
    kind, text = difference(f"{before}{asked}", f"{other}{asked}")[-1]
    assert (kind, text.endswith(asked)) == ("same", True)


def test_a_difference_says_what_went_and_what_came() -> None:
    assert difference("the red lamp", "the blue lamp") == [
        ("same", "the "),
        ("gone", "red"),
        ("new", "blue"),
        ("same", " lamp"),
    ]
    assert difference("发票在蓝色文件夹", "发票在红色文件夹") == [
        ("same", "发票在"),
        ("gone", "蓝"),
        ("new", "红"),
        ("same", "色文件夹"),
    ]
    assert difference("", "new") == [("new", "new")]
    assert difference("old", "") == [("gone", "old")]


@pytest.mark.parametrize("size", [10, DIFF_CHARS * 2])
def test_a_difference_puts_both_texts_together_again(size: int) -> None:
    before = "\n".join(f"line {n}" for n in range(size // 8 or 1)) + "\nthe end"
    after = before.replace("the end", "another end")
    for context in (10**9,):
        pieces = difference(before, after, context)
        assert "".join(text for kind, text in pieces if kind != "new") == before
        assert "".join(text for kind, text in pieces if kind != "gone") == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("!" * 2_400 + "x", "y" + "?!" * 7_200),
        ("?!" * 4_900, "!?" * 4_900 + "a"),
        ("a b " * 490, "b c " * 490),
        ("a! " * 650, "!a " * 650),
    ],
    ids=["signs", "two signs", "words", "words and signs"],
)
def test_the_same_words_over_and_over_are_compared_in_so_many_steps(
    monkeypatch: pytest.MonkeyPatch, before: str, after: str
) -> None:
    """The cube of their length else: a page of 20,000 signs never came."""
    looked = []
    longest = SequenceMatcher.find_longest_match

    def counting(matcher: Any, alo: int, ahi: int, blo: int, bhi: int) -> Any:
        looked.append(sum(len(matcher.b2j.get(word, ())) for word in matcher.a[alo:ahi]))
        return longest(matcher, alo, ahi, blo, bhi)

    monkeypatch.setattr(SequenceMatcher, "find_longest_match", counting)
    pieces = difference(before, after, 10**9)
    assert sum(looked) <= DIFF_STEPS
    assert "".join(text for kind, text in pieces if kind != "new") == before
    assert "".join(text for kind, text in pieces if kind != "gone") == after


def test_a_long_equal_text_is_shown_by_its_ends() -> None:
    pieces = difference("a" * 5000 + " x", "a" * 5000 + " y")
    assert [kind for kind, _ in pieces] == ["same", "skipped", "same", "gone", "new"]
    assert sum(len(text) for kind, text in pieces if kind == "same") < 1000


def test_a_megabyte_is_compared_at_once() -> None:
    """By what both begin and end with: nobody waits for more."""
    before = "".join(f"{n}\n" for n in range(150_000))
    pieces = difference(before, before[:-2] + "!")
    assert [kind for kind, _ in pieces if kind in ("gone", "new")]


def test_what_steers_is_shown() -> None:
    text = "a<b>\x1b[31m\u202eevil\u200b\r\nend\x00"
    html = visible(text)
    assert "<b>" not in html
    for hidden in ("\x1b", "\u202e", "\u200b", "\x00", "\r"):
        assert hidden not in html
    for name in ("ESC", "U+202E", "U+200B", "U+0000"):
        assert f'<span class="char">{name}</span>' in html
    assert plain('"><script>\n') == "&quot;&gt;&lt;script&gt;"
    assert line("a  b\nc") == "a b c"
    assert len(line("x" * 1_000_000)) <= 160


def test_every_reason_has_its_words_in_both_languages() -> None:
    chinese = languages()["zh"]
    for reason, words in WHY.items():
        assert reason_words(reason) == words
        assert reason_words(reason, chinese) != words
    assert all(chinese(words) != words for words in ACTIONS.values())
    assert reason_words(("dropped", "my_own_rule")) == "dropped my own rule"


def test_decisions_of_the_engine_are_all_known() -> None:
    from ce_engine.apps.present.report_lines import _DECISIONS

    known = {key for key in _DECISIONS if key[0] != "kept"}
    assert known - set(WHY) == set()
