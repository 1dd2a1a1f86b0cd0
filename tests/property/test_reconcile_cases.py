"""Examples of reconcile: what content cannot decide and the rule for it, and the traps met on the way."""

from __future__ import annotations

from ce_engine.prepare.reconcile.reconcile import (
    Ambiguity,
    IncomingMessage,
    ReconcileFlags,
    place_answer,
    reconcile,
)
from tests.property.apps import App, answer, calls, result, system, user
from tests.property.recorder import Obj, incoming, key


# What content cannot decide: the written rule, and the code that says it was applied.


def test_alone_and_unanswered_is_a_retry() -> None:
    app = App()
    first = app.send(user("hi"))
    app.recorder.restart()  # what failed is forgotten
    again = app.send(user("hi"))
    assert again.new == []
    assert again.tip == first.tip
    assert again.ambiguous == [Ambiguity.RETRY]


def test_alone_and_answered_is_said_again() -> None:
    app = App()
    app.ask(user("hi"), gets=answer("hello"))
    again = app.send(user("hi"))
    assert app.new(again) == ["hi"]
    assert app.brought(again) == ["hi", "hello"]
    assert again.ambiguous == [Ambiguity.REPETITION]


def test_alone_and_unanswered_but_not_the_newest_is_said_again() -> None:
    app = App()
    app.send(user("one"))
    app.send(user("two"))
    app.recorder.restart()
    again = app.send(user("one"))
    assert app.new(again) == ["one"]
    assert again.ambiguous == [Ambiguity.STALE]


def test_a_failed_call_of_this_process_is_repeated_whatever_came_since() -> None:
    app = App()
    failed = app.fail(user("one"))
    app.ask(user("two"), gets=answer("2"))
    again = app.send(user("one"))
    assert again.tip == failed.tip
    assert not again.new
    assert not again.brought
    assert not again.ambiguous


def test_equal_questions_at_the_same_time_are_one_row_with_several_answers() -> None:
    app = App()
    turns = [app.send(user("hi")) for _ in range(3)]
    for i, turn in enumerate(turns):
        app.commit(turn, answer(f"hello {i}"))
    assert app.rows() == ["hi", "hello 0", "hello 1", "hello 2"]
    assert [turn.ambiguous for turn in turns] == [[], [Ambiguity.PARALLEL], [Ambiguity.PARALLEL]]


def test_a_window_of_repetitions_is_the_newest_place() -> None:
    app = App()
    app.talk(user("yes"), answer("ok"), user("yes"), answer("ok"))
    window = app.send(user("yes"), answer("ok"), user("yes"))
    assert window.positions == [2, 3, 4]
    assert window.ambiguous == [Ambiguity.TIE]


def test_a_prefix_of_examples_counts_as_history() -> None:
    app = App()
    examples = (user("2+2?"), answer("4"))
    app.ask(*examples, user("3+3?"), gets=answer("6"))
    again = app.ask(*examples, user("3+3?"), gets=answer("six"))
    other = app.send(*examples, user("5+5?"))
    assert not again.new
    assert not again.brought
    assert not other.brought
    assert again.ambiguous == [Ambiguity.REGENERATE]
    assert other.ambiguous == [Ambiguity.BRANCH]
    assert app.rows() == ["2+2?", "4", "3+3?", "6", "six", "5+5?"]


def test_a_host_that_sends_no_history_any_more_gets_it_brought_in() -> None:
    app = App()
    app.talk(user("a"), answer("A"), user("b"), answer("B"))
    reset = app.send(user("c"))
    assert app.brought(reset) == ["a", "A", "b", "B"]
    assert reset.ambiguous == [Ambiguity.RESET]


def test_a_host_that_says_that_it_starts_anew_gets_nothing() -> None:
    app = App()
    app.talk(user("a"), answer("A"))
    anew = app.send(user("a"), flags=ReconcileFlags(new_conversation=True))
    assert app.new(anew) == ["a"]
    assert not anew.brought
    assert not anew.ambiguous


def test_another_last_message_is_a_sibling() -> None:
    app = App()
    history = app.talk(user("a"), answer("A"))
    app.send(*history, user("b"))
    other = app.send(*history, user("c"))
    assert app.path(other.tip) == ["a", "A", "c"]
    assert app.log[other.new[0]].replaces is None
    assert other.ambiguous == [Ambiguity.BRANCH]


def test_another_last_message_with_the_same_id_is_an_edit() -> None:
    app = App()
    history = app.talk(user("a"), answer("A"))
    first = app.send(*history, user("b", host_id=b"7"))
    edited = app.send(*history, user("c", host_id=b"7"))
    assert app.log[edited.new[0]].replaces == first.tip
    assert edited.ambiguous == []


def test_an_answer_that_the_host_cleaned_is_the_recorded_one() -> None:
    app = App()
    app.ask(user("a"), gets=answer("<think>hm</think> The\n answer[1]. "))
    cleaned = app.send(user("a"), answer("The answer."), user("b"))
    assert cleaned.positions == [0, 1, 2]
    assert cleaned.ambiguous == []


def test_an_answer_that_the_host_cut_short_is_the_recorded_one_if_the_caller_says_so() -> None:
    app = App()
    app.ask(user("a"), gets=answer("The whole answer"))
    sent = [incoming(obj) for obj in (user("a"), answer("The wh"), user("b"))]
    found = reconcile(app.log, sent, same_answer=lambda n, i: (n, i) == (1, 1))
    assert found.positions == [0, 1, ~0]
    assert found.new[0].parent == 1


def test_an_answer_that_the_host_rewrote_is_a_variant_of_the_recorded_one() -> None:
    app = App()
    app.ask(user("a"), gets=answer("Hello"))
    turn = app.send(user("a"), answer("Bonjour"), user("b"))
    assert app.new(turn) == ["Bonjour", "b"]
    assert app.log[turn.new[0]].variant_of == 1
    assert turn.ambiguous == [Ambiguity.REWRITTEN]
    assert app.send(user("a"), answer("Bonjour"), user("b")).new == []


def test_a_retry_that_the_adapter_names_is_no_repetition() -> None:
    app = App()
    first = app.ask(user("hi"), gets=answer("unparsable"))
    again = app.send(user("hi"), flags=ReconcileFlags(retry_of=first.tip))
    assert not again.new
    assert not again.brought
    assert not again.ambiguous


# The traps, by their number in the notes.


def test_1_and_2_regenerating_what_repeats_is_stored_as_said_again() -> None:
    app = App()
    app.talk(user("yes"), answer("ok"), user("yes"), answer("ok"))
    assert app.new(app.send(user("yes"), answer("ok"), user("yes"))) == ["yes"]
    assert app.new(app.send(user("yes"))) == ["yes"]


def test_3_results_stay_with_their_turn_though_ids_repeat() -> None:
    app = App()
    call = calls("call_0", "call_1")
    first = [user("a"), call, result("call_1", "42"), result("call_0", "42")]
    app.ask(first[0], gets=call)
    for early in (first[3], first[2]):
        app.recorder.record_result(1, early)
    app.ask(*first, gets=answer("ok"))
    turn = app.ask(*first, answer("ok"), user("a"), gets=calls("call_0", "call_1"))
    second = [*first, answer("ok"), user("a"), calls("call_0", "call_1")]
    last = app.send(*second, result("call_1", "42"), result("call_0", "42"))
    assert turn.positions == [0, 1, 3, 2, 4, 5]
    assert [app.log[n].parent for n in last.new] == [6, 6]


def test_4_a_result_whose_call_was_summarised_away_is_not_stored_again() -> None:
    app = App()
    app.talk(user("a"), calls("call_0"))
    app.ask(user("a"), calls("call_0"), result("call_0", "42"), gets=answer("ok"))
    cut = app.send(user("SUM"), result("call_0", "42"), answer("ok"), user("yes"))
    assert app.new(cut) == ["SUM", "yes"]
    assert cut.positions[1:3] == [2, 3]


def test_5_an_answer_below_a_result_is_the_one_whose_call_has_it() -> None:
    app = App()
    history = [user("yes"), calls("call_0"), result("call_0", "42"), answer("ok")]
    app.ask(history[0], gets=history[1])
    app.ask(*history[:3], gets=history[3])
    app.ask(*history, user("yes"), gets=answer("ok"))
    cut = app.send(user("yes"), result("call_0", "42"), answer("ok"), user("no"))
    assert cut.positions[1:3] == [2, 3]
    assert app.new(cut) == ["no"]


def test_6_a_result_that_is_found_speaks_for_its_place() -> None:
    app = App()
    history = [user("a"), calls("call_0"), result("call_0", "42"), answer("ok")]
    app.ask(history[0], gets=history[1])
    app.ask(*history[:3], gets=history[3])
    app.ask(*history, user("b"), gets=answer("ok"))
    branch = app.send(user("SUM"), result("call_0", "42"), answer("ok"), user("c"))
    assert app.path(branch.tip) == ["a", "call", "ok", "c"]


def test_results_sent_again_belong_to_their_call_though_a_newer_one_has_its_id() -> None:
    app = App()
    app.ask(user("a"), gets=calls("call_0"))
    first = app.send(result("call_0", "42"))
    app.fail(result("call_0", "42"))
    app.ask(user("b"), gets=calls("call_0", arguments="y"))
    app.send(user("b"), calls("call_0", arguments="y"), result("call_0", "43"))
    again = app.send(result("call_0", "42"))
    assert again.new == []
    assert (again.positions, again.tip) == (first.positions, first.tip)


def test_7_one_known_object_says_nothing_about_a_cut_list() -> None:
    app = App()
    yes = user("yes")  # one object, appended again and again
    app.ask(yes, gets=answer("one"))
    app.ask(yes, answer("one"), yes, gets=answer("two"))
    cut = app.send(yes, answer("two"), yes)
    assert cut.positions == [2, 3, 4]


def test_8_a_summary_is_stored_once_though_it_stands_before_older_messages() -> None:
    app = App()
    app.talk(user("a"), answer("A"), user("b"), answer("B"))
    summary = user("SUM", origin="host_summary")
    turn = app.ask(summary, user("b"), answer("B"), user("c"), gets=answer("C"))
    later = app.send(summary, answer("B"), user("c"), answer("C"), user("d"))
    assert app.log[turn.new[0]].aside
    assert app.log[turn.new[0]].replaces is None
    assert app.path(turn.tip) == ["a", "A", "b", "B", "c"]
    assert app.new(later) == ["d"]


def test_9_the_newest_of_equal_messages_is_not_lost_when_the_older_was_cut_away() -> None:
    app = App()
    app.talk(user("yes"), answer("one"))
    assert app.new(app.send(answer("one"), user("yes"))) == ["yes"]


def test_an_answer_that_was_never_recorded_is_not_an_older_one_that_says_the_same() -> None:
    app = App()
    history = [user("a"), answer("A"), user("thanks"), answer("welcome"), user("b"), answer("B")]
    app.talk(*history)
    unseen = [user("c"), answer("C"), user("d"), answer("welcome")]  # by another way than ours
    turn = app.send(*history, *unseen, user("e"))
    assert turn.positions == list(range(11))
    assert app.path(turn.tip) == [
        "a",
        "A",
        "thanks",
        "welcome",
        "b",
        "B",
        "c",
        "C",
        "d",
        "welcome",
        "e",
    ]


def test_10_answers_that_race_stay_in_their_lanes() -> None:
    app = App()
    first, second = app.send(user("a")), app.send(user("b"))
    app.commit(second, answer("B"))
    app.commit(first, answer("A"))
    assert app.brought(app.send(user("c"))) == ["a", "A", "b", "B"]


def test_11_and_13_a_known_object_is_compared_and_never_believed() -> None:
    app = App()
    history = app.talk(user("a"), answer("A"), user("b"), answer("B"))
    sent = [incoming(obj) for obj in (*history, user("c"))]
    truth = reconcile(app.log, sent)
    assert truth.positions == [0, 1, 2, 3, ~0]
    for wrong in ([2, 3], [3, 2, 1, 0], [0, 1, 0, 1]):
        assert reconcile(app.log, sent, prefix=wrong) == truth


def test_12_contents_are_equal_if_their_keys_are() -> None:
    app = App()
    app.ask(user(""), gets=answer("?"))
    same = Obj("user", "", origin="task")
    assert key(same) == key(user(""))
    assert app.new(app.send(same, answer("?"), user("b"))) == ["b"]


def test_14_a_question_without_its_answer_is_not_brought_in() -> None:
    app = App()
    app.ask(user("a"), gets=answer("A"))
    app.send(user("b"))
    app.fail(user("c"))
    assert app.brought(app.send(user("d"))) == ["a", "A"]


def test_15_another_system_prompt_changes_nothing() -> None:
    app = App()
    app.ask(system("It is Monday"), user("a"), gets=answer("A"))
    turn = app.send(system("It is Tuesday"), user("a"), system("Be brief"), answer("A"), user("b"))
    assert turn.positions == [None, 0, None, 1, 2]


# Answers that are to be recorded.


def test_an_answer_that_the_list_brought_first_is_recorded_once() -> None:
    app = App()
    turn = app.send(user("a"))
    app.send(user("a"), answer("A"), user("b"))
    assert app.commit(turn, answer("<think>hm</think>A")) == 1
    assert app.rows() == ["a", "A", "b"]


def test_a_second_answer_is_a_variant_even_if_it_says_the_same() -> None:
    app = App()
    history = app.talk(user("a"), answer("A"), user("b"), answer("B"))
    again = app.send(*history[:3])
    n = app.commit(again, answer("B"))
    assert app.log[n].variant_of == 3
    assert again.ambiguous == [Ambiguity.REGENERATE]


def test_another_agents_answer_to_the_same_message_is_no_variant() -> None:
    app = App()
    app.ask(user("a"), gets=answer("A", author="ann"))
    place = place_answer(app.log, 0, IncomingMessage(b"other", "assistant", author="bob"))
    assert (place.n, place.variant_of) == (None, None)
