"""Random cases that once failed, shrunk to what mattered."""

from __future__ import annotations

from ce_engine.prepare.reconcile.reconcile import Ambiguity
from ce_engine.schema.message_forest import MessageForest
from tests.property.apps import App, answer, calls, result, system, user


# Tool results


def test_an_orphan_keeps_its_place_when_the_next_message_becomes_known() -> None:
    app = App()
    call, done = calls("call_0"), result("call_0", "42")
    app.ask(user("a"), gets=call)
    app.fail(user("a"), call, done)
    first = app.ask(user("SUM"), done, user("b"), gets=answer("B"))
    later = app.send(user("SUM"), done, user("b"), answer("B"), user("c"))
    assert later.positions[:3] == first.positions
    assert app.new(later) == ["c"]


def test_a_result_belongs_to_no_call_that_did_not_ask_for_it() -> None:
    app = App()
    head = [user("a"), calls("id_1")]
    tail = [user("b"), calls("id_2"), result("id_2", "42"), answer("B")]
    app.ask(head[0], gets=head[1])
    app.ask(*head, result("id_1", "42"), gets=answer("A"))
    app.ask(*head, result("id_1", "42"), answer("A"), tail[0], gets=tail[1])
    app.ask(*head, result("id_1", "42"), answer("A"), *tail[:3], gets=tail[3])
    cut = app.send(*head, *tail[2:], user("c"))  # what lay between is gone, with the call
    assert app.new(cut) == ["c"]
    assert app.log[cut.positions[2] or 0].call_id == "id_2"


def test_ids_that_the_host_rewrote_are_those_of_the_same_calls() -> None:
    app = App()
    app.ask(user("a"), gets=calls("run_1", "run_2"))
    sent = [user("a"), calls("x", "y"), result("y", "2"), result("x", "1")]
    app.recorder.record_result(1, result("run_1", "1"))
    turn = app.send(*sent)
    assert app.new(turn) == ["2"]
    assert app.send(*sent).positions == [0, 1, 3, 2]


def test_a_shortened_result_is_the_recorded_one() -> None:
    app = App()
    history = [user("a"), calls("call_0"), result("call_0", "a long text"), answer("A")]
    app.ask(history[0], gets=history[1])
    app.ask(*history[:3], gets=history[3])
    cleared = [*history[:2], result("call_0", "[cleared]"), history[3], user("b")]
    assert app.new(app.send(*cleared)) == ["b"]


def test_results_at_the_end_without_their_call_go_to_the_newest_call_with_their_id() -> None:
    app = App()
    app.talk(user("a"), calls("call_0"))
    app.ask(user("a"), calls("call_0"), result("call_0", "42"), gets=calls("call_0", "call_1"))
    cut = app.send(result("call_0", "42"), result("call_1", "42"))
    assert [app.log[n].parent for n in cut.new] == [3, 3]
    assert cut.tip == 3


def test_a_turn_goes_on_at_the_call_that_nothing_follows() -> None:
    app = App()
    call, done = calls("call_0"), result("call_0", "42")
    app.ask(user("a"), gets=answer("ok"))
    app.ask(user("a"), answer("ok"), user("go on"), gets=call)
    app.ask(user("a"), answer("ok"), user("go on"), call, done, gets=answer("done"))
    app.ask(answer("done"), user("go on"), gets=call)
    cut = app.send(user("a"), answer("ok"), user("go on"), call, result("call_0", "42"))
    assert app.log[cut.positions[-1] or 0].parent == 7


def test_a_call_alone_is_the_newest_one_though_an_older_one_has_nothing_before_it_either() -> None:
    app = App()
    app.ask(user("a"), gets=calls("call_0"))
    step = [user("b"), calls("call_1", arguments="y"), result("call_1", "42")]
    app.ask(step[0], gets=step[1])
    app.ask(*step, gets=calls("call_0"))
    cut = app.send(calls("call_0"), result("call_0", "43"))
    assert app.path(cut.positions[0]) == ["b", "call", "call"]


# Lists without a known answer


def test_a_window_that_starts_with_a_question_in_the_air() -> None:
    app = App()
    history = app.talk(user("a"), answer("A"))
    app.send(*history, user("b"))
    app.recorder.restart()  # the answer reached the app and not the log
    turn = app.send(user("b"), answer("B"), user("c"))
    assert app.new(turn) == ["B", "c"]
    assert app.path(turn.tip) == ["a", "A", "b", "B", "c"]


def test_a_summary_before_a_question_in_the_air() -> None:
    app = App()
    history = app.talk(user("a"), answer("A"))
    app.send(*history, user("b"))
    app.recorder.restart()
    turn = app.send(user("SUM"), user("b"), answer("B"), user("c"))
    assert app.new(turn) == ["SUM", "B", "c"]
    assert app.log[turn.new[0]].aside


def test_a_window_of_questions_that_all_failed() -> None:
    app = App()
    history = app.talk(user("a"), answer("A"))
    app.fail(*history, user("b"))
    app.fail(answer("A"), user("b"), user("c"))
    assert app.new(app.send(user("b"), user("c"), user("d"))) == ["d"]


def test_a_cut_before_questions_that_all_failed() -> None:
    app = App()
    history = app.talk(user("a"), answer("A"), user("b"), answer("B"))
    app.fail(*history, user("c"))
    app.fail(*history, user("c"), user("d"))
    assert app.new(app.send(*history[:2], user("c"), user("d"), user("e"))) == ["e"]


def test_a_window_of_an_app_that_puts_all_answers_in_its_own_words() -> None:
    app = App()
    app.ask(user("a"), gets=answer("A"))
    app.ask(user("a"), answer("Antwort A"), user("b"), gets=answer("B"))
    window = app.send(user("b"), answer("Antwort B"), user("c"))
    assert app.new(window) == ["Antwort B", "c"]
    assert app.log[window.new[0]].variant_of == 4


def test_questions_alone_as_history() -> None:
    app = App()
    for n in range(1, 4):
        app.ask(*(user("yes") for _ in range(n)), gets=answer("ok"))
    assert app.rows() == ["yes", "ok", "yes", "ok", "yes", "ok"]


def test_the_start_of_the_list_beats_an_equal_question_of_another_lane() -> None:
    log = MessageForest()
    ann, bob = App(log, agent="ann"), App(log, agent="bob")
    said = [user("a"), answer("A", author="ann")]
    ann.ask(said[0], gets=answer("A"))
    ann.send(user("other"))
    ann.send(user("yes"))  # another lane waits with the same words
    colleague = user("A", author="ann", origin="colleague")
    turn = bob.send(said[0], colleague, user("yes"))
    assert turn.positions == [0, 1, 4]


# Edits


def test_a_conversation_whose_start_was_edited_replaces_the_old_one() -> None:
    app = App()
    app.talk(user("a"), answer("A"))
    app.ask(user("a2"), answer("A"), user("b"), gets=answer("B"))
    app.ask(user("a2"), answer("A2"), user("c"), gets=answer("C"))
    assert app.brought(app.send(user("d"))) == ["a2", "A2", "c", "C"]


def test_a_question_after_an_edited_answer_is_still_that_question() -> None:
    app = App()
    history = app.talk(user("a"), answer("A"), user("b"), answer("B"))
    edited = [user("a"), answer("A2"), user("b")]
    app.ask(*edited, answer("B"), user("c"), gets=answer("C"))
    assert app.new(app.send(*edited)) == []
    assert len(history) == 4


def test_what_follows_shows_which_of_equal_answers_it_is() -> None:
    app = App()
    app.talk(user("a"), answer("ok"), user("b"), answer("ok"))
    app.fail(user("a"), answer("ok"), user("c"))
    turn = app.send(user("a2"), answer("ok"), user("c"), user("d"))
    assert app.new(turn) == ["a2", "d"]


def test_one_object_with_one_id_is_not_one_message() -> None:
    app = App()
    again = user("go on", host_id=b"7")
    app.ask(again, gets=answer("A"))
    app.ask(again, answer("A"), again, gets=answer("B"))
    turn = app.send(again, answer("A"), again, answer("B"), again)
    assert turn.positions == [0, 1, 2, 3, 4]
    assert app.log[4].replaces is None


# What is brought in


def test_a_turn_whose_question_was_cut_away_gets_no_history() -> None:
    app = App()
    app.talk(user("a"), answer("A"), user("b"), calls("call_0"))
    cut = app.send(user("a"), calls("call_0"), result("call_0", "42"))
    assert not cut.brought


def test_a_turn_with_tools_gets_the_same_history_at_every_step() -> None:
    app = App()
    app.ask(user("a"), gets=answer("A"))
    first = app.ask(user("b"), gets=calls("call_0"))
    second = app.send(user("b"), calls("call_0"), result("call_0", "42"))
    assert app.brought(first) == app.brought(second) == ["a", "A"]


def test_calls_without_all_results_are_not_brought_in() -> None:
    app = App()
    app.ask(user("a"), gets=calls("call_0", "call_1"))
    app.ask(user("a"), calls("call_0", "call_1"), result("call_1", "2"), gets=answer("A"))
    app.ask(user("b"), gets=calls("call_0"))
    app.ask(user("b"), calls("call_0"), result("call_0", "7"), gets=answer("B"))
    assert app.brought(app.send(user("c"))) == ["a", "A", "b", "call", "7", "B"]


def test_a_turn_that_failed_at_a_tool_is_repeated_from_its_question_once() -> None:
    app = App()
    app.ask(user("go on"), gets=calls("call_0"))
    app.fail(user("go on"), calls("call_0"), result("call_0", "42"))
    again = app.ask(user("go on"), gets=answer("A"))
    anew = app.send(user("go on"))
    assert again.new == []
    assert app.new(anew) == ["go on"]


# Several speakers


def test_a_broadcast_is_one_row_whoever_reads_it() -> None:
    log = MessageForest()
    ann, bob = App(log, agent="ann"), App(log, agent="bob")
    task = user("a", author="user")
    ann.ask(task, gets=answer("ok"))
    bob.ask(task, user("ok", author="ann", origin="colleague"), gets=answer("ok"))
    turn = ann.send(task, answer("ok"), user("ok", author="bob", origin="colleague"))
    assert turn.positions == [0, 1, 2]
    assert [log[n].speaker for n in (1, 2)] == ["ann", "bob"]


def test_answers_given_at_the_same_time_are_siblings() -> None:
    log = MessageForest()
    ann, bob = App(log, agent="ann"), App(log, agent="bob")
    turns = ann.send(user("a")), bob.send(user("a"))
    ann.commit(turns[0], answer("ok"))
    bob.commit(turns[1], answer("fine"))
    turn = ann.send(user("a"), answer("ok"), user("fine", author="bob", origin="colleague"))
    assert turn.positions == [0, 1, 2]
    assert [log[n].parent for n in (1, 2)] == [0, 0]


def test_equal_words_of_user_and_assistant_are_two_messages() -> None:
    app = App()
    app.talk(user("ok"), answer("ok"))
    turn = app.send(answer("ok"), user("ok"))
    assert turn.positions == [1, 2]


def test_the_cleaned_answer_of_a_lane_beats_an_equal_one_of_another() -> None:
    log = MessageForest()
    one, two = App(log, lane_key="one"), App(log, lane_key="two")
    one.ask(user("a"), gets=answer("<think>hm</think> ok"))
    two.ask(user("b"), gets=answer("ok"))
    turn = one.send(system("today"), user("a"), answer("ok"), user("c"))
    assert turn.positions == [None, 0, 1, 4]
    assert turn.ambiguous != [Ambiguity.TIE]
