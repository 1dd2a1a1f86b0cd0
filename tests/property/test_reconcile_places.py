"""Which of several equal messages a list means, and what must not be taken for it."""

from __future__ import annotations

from ce_engine.prepare.reconcile.reconcile import Ambiguity
from ce_engine.schema.message_forest import MessageForest
from tests.property.apps import App, answer, calls, result, user


def test_an_entry_is_one_message_of_a_list() -> None:
    app = App()
    app.talk(user("yes"), answer("ok"))
    turn = app.send(user("yes"), user("yes"), answer("ok"), user("no"))
    assert app.new(turn) == ["yes", "no"]


def test_the_same_words_in_another_role_are_another_message() -> None:
    app = App()
    app.talk(user("a"), answer("ok"), user("b"), answer("B"))
    turn = app.send(user("a"), user("ok"), user("b"), answer("B"), user("c"))
    assert app.new(turn) == ["ok", "c"]


def test_after_a_new_message_all_are_new() -> None:
    app = App()
    history = app.talk(user("a"), answer("A"))
    app.send(*history, user("b"))
    assert app.new(app.send(*history, user("x"), user("b"))) == ["x", "b"]


def test_a_cut_list_shows_the_active_path_and_not_a_branch_that_was_left() -> None:
    app = App()
    history = app.talk(user("yes"), answer("one"), user("b"), answer("two"))
    app.fail(*history[:2], user("yes"))
    app.ask(*history, user("c"), gets=answer("three"))
    assert app.send(user("yes"), user("c"), answer("three"), user("d")).positions[:3] == [0, 5, 6]


def test_answers_at_the_same_time_keep_their_places_though_words_repeat() -> None:
    log = MessageForest()
    ann, bob = App(log, agent="ann"), App(log, agent="bob")
    old = user("ok", author="ann", origin="colleague")
    ann.ask(user("a"), gets=answer("ok"))
    turns = ann.send(user("a"), answer("ok"), user("b")), bob.send(user("a"), old, user("b"))
    ann.commit(turns[0], answer("ok"))
    bob.commit(turns[1], answer("fine"))
    turn = bob.send(user("a"), old, user("b"), old, answer("fine"), user("c"))
    assert turn.positions == [0, 1, 2, 3, 4, 5]


def test_a_colleague_who_repeats_words_of_before_said_something_new() -> None:
    log = MessageForest()
    ann, bob = App(log, agent="ann"), App(log, agent="bob")
    colleague = user("ok", author="bob", origin="colleague")
    bob.ask(user("a"), gets=answer("ok"))
    ann.ask(user("a"), colleague, gets=answer("A"))
    assert ann.new(ann.send(answer("A"), colleague)) == ["ok"]


def test_a_second_agent_asked_the_same_gives_its_own_answer_to_it() -> None:
    log = MessageForest()
    one, two = App(log, lane_key="one"), App(log, lane_key="two")
    one.ask(user("a"), gets=answer("A"))
    turn = two.send(user("a"))
    assert turn.new == []
    assert turn.ambiguous == [Ambiguity.RETRY]


# Equal lists of other lanes and times


def test_of_equal_windows_the_own_lane_is_meant() -> None:
    log = MessageForest()
    one, two = App(log, lane_key="one"), App(log, lane_key="two")
    one.talk(user("a"), answer("ok"))
    two.talk(user("b"), answer("ok"))
    assert one.send(answer("ok"), user("c")).positions == [1, 4]


def test_of_equal_answers_the_one_with_the_id_is_meant() -> None:
    app = App()
    app.ask(user("a"), gets=answer("ok", host_id=b"1"))
    app.ask(answer("ok"), user("b"), gets=answer("ok", host_id=b"2"))
    assert app.send(answer("ok", host_id=b"1"), user("c")).positions == [1, 4]


def test_of_equal_calls_the_one_with_these_call_ids_is_meant() -> None:
    app = App()
    turns = [app.send(user("a")) for _ in range(2)]
    for turn, call in zip(turns, ("id_1", "id_2"), strict=True):
        app.commit(turn, calls(call))
    assert app.send(user("a"), calls("id_1"), result("id_1", "42")).positions == [0, 1, 3]


def test_a_list_that_is_longer_than_its_path_still_has_its_place() -> None:
    app = App()
    app.talk(user("a"), answer("ok"), user("b"), answer("B"), user("c"), answer("ok"))
    examples = [user(f"example {i}") for i in range(3)]
    branch = app.send(*examples, user("a"), answer("ok"), user("d"))
    assert app.path(branch.tip) == ["a", "ok", "d"]


def test_the_lane_that_goes_on_like_the_list_is_meant() -> None:
    app = App()
    app.ask(user("a"), gets=answer("A"))
    app.ask(user("a"), user("b"), gets=answer("B"))
    app.ask(user("a"), gets=answer("A2"))  # said again: a lane of its own
    assert app.send(user("a"), user("b")).positions == [0, 2]


def test_a_window_of_questions_is_no_other_lane_that_starts_alike() -> None:
    app = App()
    app.talk(user("hi"), answer("ok"))
    history = app.talk(user("x"), answer("X"))
    app.fail(*history, user("hi"))
    app.fail(*history, user("hi"), user("b"))
    assert app.new(app.send(user("hi"), user("b"), user("c"))) == ["c"]


def test_a_question_in_the_air_after_a_message_that_was_edited_and_cut() -> None:
    app = App()
    app.talk(user("a"), answer("A"))
    app.send(user("a2"), answer("A"), user("b"))
    app.recorder.restart()
    assert app.new(app.send(user("a2"), user("b"), answer("B"), user("c"))) == ["B", "c"]


def test_a_question_in_the_air_is_not_the_newest_of_a_branch_or_a_message_alone() -> None:
    app = App()
    history = app.talk(user("a"), answer("A"), user("b"), answer("B"))
    app.send(*history, user("c"))
    app.recorder.restart()
    assert app.new(app.send(*history[:2], user("c"))) == ["c"]
    app.fail(*history, user("d"))
    app.recorder.restart()
    assert app.new(app.send(user("d"))) == ["d"]


# Tool traffic


def test_a_call_whose_results_are_missing_shows_where_the_list_was_cut() -> None:
    app = App()
    call, done = calls("call_0"), result("call_0", "42")
    first = [user("a"), call, done, call, done, answer("done")]
    app.ask(*first[:1], gets=call)
    app.ask(*first[:3], gets=call)
    app.ask(*first[:5], gets=answer("done"))
    app.ask(*first, user("go on"), gets=answer("ok"))
    second = [*first, user("go on"), answer("ok"), user("b")]
    app.ask(*second, gets=call)
    app.ask(*second, call, done, gets=answer("done"))
    cut = app.send(*first[:2], call, done, answer("done"), user("go on"))
    assert app.new(cut) == ["go on"]


def test_an_app_that_leaves_out_tool_calls_says_the_same_again() -> None:
    app = App()
    history = app.talk(user("yes"), answer("done"), user("yes"), calls("call_0"))
    app.ask(*history, result("call_0", "42"), gets=answer("done"))
    assert app.new(app.send(user("yes"), answer("done"), user("yes"))) == ["yes"]


def test_an_app_that_leaves_out_tool_calls_repeats_a_question() -> None:
    app = App()
    history = app.talk(user("a"), answer("A"), user("b"), calls("call_0"))
    app.fail(*history, result("call_0", "42"), user("c"))
    assert app.send(user("a"), answer("A"), user("b"), user("c")).new == []


def test_an_app_that_leaves_out_tool_calls_edits_an_answer() -> None:
    app = App()
    history = app.talk(user("a"), calls("call_0"))
    app.ask(*history, result("call_0", "42"), gets=answer("A"))
    app.ask(user("a"), answer("A"), user("b"), gets=answer("B"))
    turn = app.send(user("a"), answer("A2"), user("b"), answer("B"), user("c"))
    assert app.name(app.log[turn.new[0]].replaces) == "A"


def test_a_result_that_is_another_does_not_speak_for_its_place() -> None:
    app = App()
    first = [user("a"), calls("call_0"), result("call_0", "42"), answer("ok")]
    app.ask(first[0], gets=first[1])
    app.ask(*first[:3], gets=first[3])
    app.ask(*first, user("b"), gets=calls("call_0"))
    app.ask(*first, user("b"), calls("call_0"), result("call_0", "7"), gets=answer("ok"))
    branch = app.send(user("SUM"), result("call_0", "42"), answer("ok"), user("c"))
    assert app.path(branch.tip) == ["a", "call", "ok", "c"]


def test_an_orphan_is_older_than_what_follows_it() -> None:
    app = App()
    call, done = calls("call_0"), result("call_0", "42")
    app.ask(user("a"), gets=call)
    app.ask(user("a"), call, done, gets=answer("A"))
    app.ask(user("a"), call, done, answer("A"), user("b"), gets=call)
    app.ask(user("a"), call, done, answer("A"), user("b"), call, done, gets=answer("B"))
    cut = app.send(done, user("b"), call, done, answer("B"), user("c"))
    assert cut.positions[:5] == [2, 4, 5, 6, 7]


def test_an_orphan_is_the_result_with_its_id() -> None:
    app = App()
    first = [user("a"), calls("id_1"), result("id_1", "42"), answer("A")]
    app.ask(first[0], gets=first[1])
    app.ask(*first[:3], gets=first[3])
    app.ask(*first, user("b"), gets=calls("id_2"))
    app.ask(*first, user("b"), calls("id_2"), result("id_2", "42"), gets=answer("B"))
    cut = app.send(result("id_1", "42"), answer("B"), user("c"))
    assert cut.positions[:2] == [2, 7]


# Edits and ids


def test_words_that_were_said_before_are_an_edit_if_they_have_its_id() -> None:
    app = App()
    app.talk(user("a", host_id=b"1"), answer("A"), user("b", host_id=b"2"), answer("B"))
    turn = app.send(answer("A"), user("a", host_id=b"2"), answer("B"), user("c"))
    assert app.new(turn) == ["a", "c"]
    assert app.name(app.log[turn.new[0]].replaces) == "b"


def test_an_object_that_is_appended_again_is_new_in_a_window_too() -> None:
    app = App()
    again = user("go on", host_id=b"7")
    app.ask(again, gets=answer("A"))
    assert app.new(app.send(answer("A"), again)) == ["go on"]


def test_an_object_that_stands_twice_in_a_colleagues_list_is_two_messages() -> None:
    log = MessageForest()
    ann, bob = App(log, agent="ann"), App(log, agent="bob")
    again = user("go on", host_id=b"7")
    ann.ask(again, gets=answer("A"))
    ann.ask(again, answer("A"), again, gets=answer("B"))
    turn = bob.send(again, user("A", author="ann", origin="colleague"), again)
    assert turn.positions == [0, 1, 2]


def test_one_message_in_the_place_of_several_is_no_edit() -> None:
    app = App()
    app.talk(user("a"), answer("A"), user("b"), answer("B"))
    turn = app.send(user("a"), user("X"), answer("B"), user("c"))
    assert app.log[turn.new[0]].replaces is None


def test_a_summary_in_the_place_of_one_message_is_no_edit() -> None:
    app = App()
    app.talk(user("a"), answer("A"), user("b"), answer("B"))
    summary = user("SUM", origin="host_summary")
    turn = app.send(summary, answer("A"), user("b"), answer("B"), user("c"))
    assert app.log[turn.new[0]].replaces is None


# What is brought in


def test_a_lane_whose_answer_is_awaited_is_not_brought_in() -> None:
    app = App()
    history = app.talk(user("a"), answer("A"))
    turn = app.send(*history, user("b"))
    assert app.brought(app.send(user("c"))) == []
    app.commit(turn, answer("B"))
    assert app.brought(app.send(user("d"))) == ["a", "A", "b", "B"]


def test_a_turn_that_goes_on_gets_no_more_than_its_first_call() -> None:
    app = App()
    app.talk(user("x"), answer("X"))
    history = app.talk(user("a"), answer("A"))
    first = app.ask(*history, user("b"), gets=calls("call_0"))
    second = app.send(user("b"), calls("call_0"), result("call_0", "42"))
    assert app.brought(first) == app.brought(second) == []


def test_results_under_ids_that_the_host_rewrote_are_brought_in() -> None:
    app = App()
    app.ask(user("a"), gets=calls("run_1"))
    app.ask(user("a"), calls("x"), result("x", "42"), gets=answer("A"))
    assert app.brought(app.send(user("b"))) == ["a", "call", "42", "A"]
