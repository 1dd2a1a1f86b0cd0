"""Random tool histories through the LangChain adapter; `tool_histories_run.py` runs thousands of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from ce_engine import Report
from tests.property import tool_histories_run
from tests.property.tool_judge import Seen, judge
from tests.property.tool_langchain import Case, Rig
from tests.property.tool_messages import TAG


CASES = 100
KEPT = {
    10000106: "the first of several results in one message answers nothing: the others do",
    10000288: "several results in one message are a whole group, and may go",
    20000720: "a task with a picture, on the wire",
    30000962: "a result that nobody asked for is all that there is",
}


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    with Rig() as made:
        yield made


@pytest.mark.req("A-10", "A-11", "A-12")
@pytest.mark.parametrize("block", range(4))
def test_every_property_holds(rig: Rig, block: int) -> None:
    for seed in range(block * CASES // 4, (block + 1) * CASES // 4):
        assert Case.of(seed, rig).run()


@pytest.mark.parametrize("seed", KEPT, ids=lambda seed: KEPT[seed])
def test_what_failed_once_holds(rig: Rig, seed: int) -> None:
    assert Case.of(seed, rig).run()


def test_the_command_counts_its_cases(capsys: pytest.CaptureFixture[str]) -> None:
    assert tool_histories_run.main(["--cases", "12", "--seed", "4", "--jobs", "1"]) == 0
    first, *counts = capsys.readouterr().out.splitlines()
    assert first == "seed 4: 12 cases, 0 failed"
    assert "     1  cases on the wire" in counts


def test_the_command_fails_and_names_the_case(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def faulty(case: Case) -> dict[str, int]:
        assert case.seed != 20_000_003, "torn apart"
        return {}

    monkeypatch.setattr(Case, "run", faulty)
    assert tool_histories_run.main(["--cases", "5", "--seed", "2", "--jobs", "1"]) == 1
    assert "FAILED --case 20000003: AssertionError: torn apart" in capsys.readouterr().out
    assert tool_histories_run.main(["--case", "20000003"]) == 1


# The judge bites


def host() -> list[BaseMessage]:
    calls = [{"name": "f", "args": {}, "id": i, "type": "tool_call"} for i in "ab"]
    thought: Any = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "so"}]
    made: list[BaseMessage] = [
        SystemMessage("system"),
        HumanMessage("an old question"),
        AIMessage("", tool_calls=calls),
        ToolMessage("one", tool_call_id="a"),
        ToolMessage("two", tool_call_id="b"),
        AIMessage(thought),
        HumanMessage("the task"),
    ]
    for n, message in enumerate(made, start=1):
        message.additional_kwargs[TAG] = n
    return made


def without(*tags: int) -> Callable[[list[BaseMessage]], list[BaseMessage]]:
    return lambda sent: [m for m in sent if m.additional_kwargs[TAG] not in tags]


def swapped(sent: list[BaseMessage]) -> list[BaseMessage]:
    return [sent[0], sent[2], sent[1], *sent[3:]]


def edited(tag: int, content: Any) -> Callable[[list[BaseMessage]], list[BaseMessage]]:
    def edit(sent: list[BaseMessage]) -> list[BaseMessage]:
        copy = sent[tag - 1].model_copy(update={"content": content})
        return [*sent[: tag - 1], copy, *sent[tag:]]

    return edit


FAULTY: dict[str, tuple[Callable[[list[BaseMessage]], list[BaseMessage]], str]] = {
    "a call without its results": (without(4, 5), "torn apart"),
    "a call without one of them": (without(5), "torn apart"),
    "results without their call": (without(3), "torn apart"),
    "a result before its call": (lambda s: [*s[:2], s[3], s[2], *s[4:]], "another order"),
    "another order": (swapped, "another order"),
    "twice": (lambda sent: [*sent, sent[-1]], "another order"),
    "no system message": (without(1), "must not be left out"),
    "no task": (without(7), "must not be left out"),
    "an edited task": (edited(7, "the"), "is not whole"),
    "edited reasoning": (edited(6, [{"type": "text", "text": "so"}]), "reasoning was edited"),
    "an edited call": (edited(3, "so"), "edited"),
    "a longer result": (edited(4, "one and more"), "shortened, and longer"),
    "a message put in": (lambda sent: [*sent, HumanMessage("by us")], "put in"),
    "nothing": (lambda _: [], "nothing was sent"),
}


@pytest.mark.parametrize("name", FAULTY)
def test_the_judge_finds(name: str) -> None:
    fault, told = FAULTY[name]
    given = host()
    seen = Seen(given, 50, Report(turn_id="t", token_used=40, tokens_before=60), ())
    judge(seen, given, 40)
    judge(seen, without(2, 3, 4, 5)(given), 40)
    with pytest.raises(AssertionError, match=told):
        judge(seen, fault(given), 40)


def test_the_judge_counts_and_knows_room() -> None:
    given = host()
    over = Seen(given, 50, Report(turn_id="t", token_used=40, tokens_before=60), ())
    with pytest.raises(AssertionError, match="51 of 50 tokens"):
        judge(over, given, 51)
    roomy = Seen(given, 5000, Report(turn_id="t", token_used=40, tokens_before=60), ())
    with pytest.raises(AssertionError, match="though there was room"):
        judge(roomy, without(2, 3, 4, 5)(given), 30)
    with pytest.raises(AssertionError, match="though there was room"):
        judge(roomy, edited(1, "system and more")(given), 70)
    told = Seen(given, 5, Report(turn_id="t", token_used=40, over_budget=True), ())
    with pytest.raises(AssertionError, match="more than must be"):
        judge(told, given, 40)
