"""Groups, and what may never be left out (decision 6 of the design)."""

from __future__ import annotations

import pytest

from ce_engine.prepare.grouping import split
from ce_engine.prepare.message_groups import MessageItem
from ce_engine.schema.enums import Origin


def item(origin: Origin, *, calls: tuple[str, ...] = (), answers: str | None = None) -> MessageItem:
    name = f"{origin}-{calls}-{answers}"
    return MessageItem(origin, 10, 0, 0, name, calls, answers, is_tool_result=answers is not None)


SYSTEM = item(Origin.SYSTEM)
TASK = item(Origin.TASK)
ANSWER = item(Origin.ANSWER)


def call(*ids: str) -> MessageItem:
    return item(Origin.TOOL_CALL, calls=ids)


def result(of: str) -> MessageItem:
    return item(Origin.TOOL_RESULT, answers=of)


@pytest.mark.req("A-10")
def test_a_call_and_all_its_results_are_one_group_in_any_order() -> None:
    line = split([TASK, call("a", "b"), result("b"), result("a"), ANSWER])
    assert [len(group.items) for group in line.groups] == [1, 3, 1]
    assert line.groups[1].complete
    assert line.orphans == []


def test_the_same_ids_in_two_turns_stay_with_their_own_calls() -> None:
    line = split([TASK, call("c0"), result("c0"), ANSWER, TASK, call("c0"), result("c0")])
    assert [len(group.items) for group in line.groups] == [1, 2, 1, 1, 2]
    assert line.orphans == []


def test_a_result_without_its_call_is_an_orphan() -> None:
    line = split([TASK, result("gone"), ANSWER])
    assert [len(group.items) for group in line.groups] == [1, 1]
    assert len(line.orphans) == 1


def test_a_second_result_for_one_call_is_an_orphan() -> None:
    line = split([TASK, call("a"), result("a"), result("a")])
    assert len(line.orphans) == 1


def test_a_stray_result_takes_no_place_of_one_without_an_id() -> None:
    """Function calls of the old style, and what is written as words, have none."""
    line = split([TASK, call(""), result("gone"), result(""), ANSWER])
    assert [len(group.items) for group in line.groups] == [1, 2, 1]
    assert [each.call_id for each in line.groups[1].items[1:]] == [""]
    assert [each.call_id for each in line.orphans] == ["gone"]


def test_one_message_may_answer_several_calls_and_some_that_nobody_made() -> None:
    both = MessageItem(
        Origin.TOOL_RESULT, 10, call_id="gone", is_tool_result=True, more_call_ids=("b", "a")
    )
    line = split([TASK, call("a", "b"), both, ANSWER])
    assert [len(group.items) for group in line.groups] == [1, 2, 1]
    assert line.groups[1].complete
    assert line.orphans == []


def test_an_orphan_that_the_host_protects_stands_and_breaks_no_group() -> None:
    held = MessageItem(Origin.TOOL_RESULT, 10, call_id="gone", is_tool_result=True, protected=True)
    line = split([TASK, call("a", "b"), result("a"), held, result("b"), ANSWER])
    assert [len(group.items) for group in line.groups] == [1, 3, 1, 1]
    assert line.groups[1].complete
    assert line.groups[2].must
    assert line.orphans == []


def test_where_there_are_orphans_alone_they_stand() -> None:
    line = split([SYSTEM, result("gone"), result("gone, too")])
    assert [group.must for group in line.groups] == [False, True]
    assert line.orphans == []


def test_a_result_without_an_id_answers_a_call_without_one() -> None:
    nameless = MessageItem(Origin.TOOL_RESULT, 10, 0, 0, "r", call_id=None, is_tool_result=True)
    line = split([TASK, call(""), nameless])  # function calls of the old style have no ids at all
    assert line.orphans == []
    assert line.groups[1].complete
    assert split([TASK, call("a"), nameless]).orphans == [nameless]


def test_a_result_that_is_protected_for_want_of_an_id_goes_with_its_call() -> None:
    held = MessageItem(Origin.TOOL_RESULT, 10, 0, 0, "r", is_tool_result=True, protected=True)
    line = split([TASK, call(""), held, call(""), held, ANSWER])
    assert [group.must for group in line.groups] == [True, False, True, True]
    alone = split([TASK, ANSWER, held, TASK])
    assert [group.must for group in alone.groups] == [False, False, True, True]


def test_a_group_that_waits_for_results_is_never_out() -> None:
    line = split([TASK, call("a", "b"), result("a")])
    assert not line.groups[1].complete
    assert line.groups[1].must


def test_task_and_newest_and_newest_complete_group_are_never_out() -> None:
    line = split([TASK, ANSWER, TASK, call("a"), result("a"), call("b"), result("b"), ANSWER])
    assert [group.must for group in line.groups] == [False, False, True, False, True, True]
    assert [group.past for group in line.groups] == [True, True, False, False, False, False]


def test_a_big_group_of_an_earlier_turn_may_go() -> None:
    line = split([TASK, call("a"), result("a"), ANSWER, TASK])
    assert [group.must for group in line.groups] == [False, False, False, True]


def test_system_messages_are_apart_wherever_they_stand() -> None:
    line = split([SYSTEM, TASK, SYSTEM, ANSWER])
    assert len(line.system) == 2
    assert len(line.groups) == 2


def test_nothing_is_a_line_too() -> None:
    line = split([])
    assert line.groups == []
    assert line.task is None
