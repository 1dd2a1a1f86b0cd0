"""Cut once and deep, and keep the cut (decision 8 of the design)."""

from __future__ import annotations

from ce_engine.prepare.choose.cut import Cut, CutMarks, Depth, choose_cut
from ce_engine.prepare.grouping import split
from ce_engine.prepare.message_groups import MessageItem, MessageLine, below_cut
from ce_engine.schema.enums import Origin


def turns(count: int, tokens: int = 50) -> list[MessageItem]:
    """Question and answer, `count` times, and one more question."""
    items = []
    for n in range(count):
        items.append(MessageItem(Origin.TASK, tokens, 2 * n, 2 * n, f"q{n}"))
        items.append(MessageItem(Origin.ANSWER, tokens, 2 * n + 1, 2 * n + 1, f"a{n}"))
    items.append(MessageItem(Origin.TASK, tokens, 2 * count, 2 * count, f"q{count}"))
    return items


def steps(count: int, tokens: int = 100) -> list[MessageItem]:
    """A question, then `count` calls of a tool with their results."""
    items = [MessageItem(Origin.TASK, 20, 0, 0, "q")]
    for n in range(count):
        items.append(
            MessageItem(Origin.TOOL_CALL, 10, 2 * n + 1, 2 * n + 1, f"c{n}", calls=("c0",))
        )
        items.append(
            MessageItem(
                Origin.TOOL_RESULT, tokens, 2 * n + 2, 2 * n + 2, f"r{n}",
                call_id="c0", is_tool_result=True,
            )
        )  # fmt: skip
    return items


def cut(
    items: list[MessageItem],
    room: int,
    marks: CutMarks | None = None,
    short: int = 30,
    depth: Depth = Depth(0.6),  # noqa: B008 - a value
) -> Cut:
    return choose_cut(
        split(items),
        room=room,
        depth=depth,
        reserve=room // 4,
        budget=room,
        marks=marks or CutMarks(),
        short=lambda item: min(short, item.tokens),
    )


def left(line: MessageLine, found: Cut) -> list[str]:
    return [g.anchor for p, g in enumerate(line.groups) if p not in found.dropped]


def test_with_room_nothing_is_cut() -> None:
    found = cut(turns(3), room=350)
    assert found.dropped == set()
    assert found.tokens == 350
    assert not found.moved


def test_over_the_room_it_cuts_deep_and_begins_with_a_question() -> None:
    items = turns(20)
    found = cut(items, room=1000)
    kept = left(split(items), found)
    assert kept[0].startswith("q")
    assert kept[-1] == "q20"
    assert found.tokens <= 450  # 60 % of the 75 % that recall leaves
    assert found.moved


def test_the_cut_stays_until_it_is_exceeded_again() -> None:
    first = cut(turns(20), room=1000)
    anchor = first.marks.drop
    seen = []
    marks = first.marks
    for more in range(21, 40):
        found = cut(turns(more), room=1000, marks=marks)
        seen.append(found.moved)
        marks = found.marks
        assert found.tokens <= 750
    assert seen[:2] == [False, False]
    assert 1 <= sum(seen) <= 5  # a new cut every handful of turns, not on every call
    assert marks.drop != anchor


def test_a_cut_is_void_when_its_anchor_is_gone() -> None:
    found = cut(turns(20), room=1000, marks=CutMarks("never-there", None, 1000))
    assert found.moved


def test_a_cut_is_void_when_the_budget_grew_by_a_quarter() -> None:
    first = cut(turns(30), room=1000)
    grown = choose_cut(
        split(turns(30)),
        room=1400,
        depth=Depth(0.6),
        reserve=350,
        budget=1400,
        marks=first.marks,
        short=lambda item: item.tokens,
    )
    assert grown.moved
    assert len(grown.dropped) < len(first.dropped)


def test_inside_a_long_turn_results_are_shortened_oldest_first() -> None:
    found = cut(steps(12), room=1300)
    assert found.dropped == set()
    assert found.shortened == set(range(1, 1 + len(found.shortened)))
    assert 1 <= len(found.shortened) < 12
    assert found.tokens <= 975


def test_then_whole_groups_go_oldest_first_and_the_newest_stays() -> None:
    items = steps(60)
    found = cut(items, room=600)
    assert 0 not in found.dropped  # the task
    assert 60 not in found.dropped  # the newest group
    assert found.dropped == set(range(1, 1 + len(found.dropped)))
    assert found.tokens <= 450


def test_a_cut_inside_a_turn_leaves_its_question_when_the_next_one_comes() -> None:
    """What is sent goes on as it was, and begins with a question as providers want it."""
    items = steps(60)
    made = cut(items, room=600)
    more = [
        MessageItem(Origin.ANSWER, 10, 121, 121, "a"),
        MessageItem(Origin.TASK, 20, 122, 122, "next"),
    ]
    kept = left(split(items), made)
    found = cut([*items, *more], room=600, marks=made.marks)
    assert not found.moved
    assert left(split([*items, *more]), found) == [*kept, "a", "next"]
    lines = split([*turns(3)[:-1], *items, *more])
    below = below_cut(lines, made.marks.drop or "", "a counter", lambda _: 0, lambda _: 0)
    assert below is None or below.anchor == "q0"


def test_what_must_stay_is_not_touched_even_over_the_room() -> None:
    found = cut(steps(1, tokens=5000), room=300)
    assert found.dropped == set()
    assert found.shortened == set()
    assert found.tokens == 5030


def test_results_that_are_short_already_are_not_shortened() -> None:
    found = cut(steps(40, tokens=20), room=700, short=30)
    assert found.shortened == set()
    assert found.dropped != set()


def test_of_a_talk_the_newest_messages_stay_and_no_half_turn() -> None:
    found = cut(turns(20), room=1000, depth=Depth(0.6, tail=220))
    assert left(split(turns(20)), found) == ["q18", "a18", "q19", "a19", "q20"]
    found = cut(turns(20), room=1000, depth=Depth(0.6, tail=10))
    assert left(split(turns(20)), found) == ["q19", "a19", "q20"], "the last turn in any case"


def test_turns_that_used_tools_stay_down_to_the_low_water_mark() -> None:
    used = steps(3)
    items = [*turns(20)[:-1], *used, MessageItem(Origin.TASK, 50, 99, 99, "next")]
    found = cut(items, room=1000, depth=Depth(0.6, tail=50))
    assert left(split(items), found) == ["q", "c0", "c1", "c2", "next"]


def used(count: int) -> list[MessageItem]:
    """Old talk, a turn whose tools have all but its answer, and one more question."""
    items = [
        MessageItem(Origin.TASK, 3000, 0, 0, "old"),
        MessageItem(Origin.ANSWER, 3000, 1, 1, "said"),
        MessageItem(Origin.TASK, 50, 2, 2, "asked"),
    ]
    for n in range(count):
        at = len(items)
        items.append(MessageItem(Origin.TOOL_CALL, 20, at, at, f"call{n}", calls=(f"c{n}",)))
        result = MessageItem(Origin.TOOL_RESULT, 280, at + 1, at + 1, f"result{n}")
        result.call_id, result.is_tool_result = f"c{n}", True
        items.append(result)
    at = len(items)
    items.append(MessageItem(Origin.ANSWER, 50, at, at, "answer"))
    return [*items, MessageItem(Origin.TASK, 30, at + 1, at + 1, "now")]


def test_the_newest_answer_keeps_its_question_and_all_between_where_that_fits() -> None:
    line = split(used(2))
    for newest in (0, 60, 400):
        found = cut(used(2), room=3600, depth=Depth(0.6, newest=newest))
        assert left(line, found) == ["asked", "call0", "call1", "answer", "now"]
    alone = cut(used(8), room=2400, depth=Depth(0.6, newest=60))
    assert left(split(used(8)), alone) == ["asked", "answer", "now"]
    again = cut(used(8), room=2400, marks=alone.marks, depth=Depth(0.6, newest=60))
    assert left(split(used(8)), again) == ["asked", "answer", "now"]
