"""Half a pair never goes out: a call without its results gets those that are stored, or stays out itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from ce_engine import ContextEngine, Keep, MemoryStore, Restore, Scope, create_context_engine
from ce_engine.prepare.grouping import split
from ce_engine.testing.host import HostApp, assistant, tool_calls, tool_result, user
from tests.unit.prepare.test_line import ANSWER, TASK, call, result


SCOPE = Scope(session_id="s")


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    made = create_context_engine(MemoryStore())
    yield made
    made.sync.close()


def talk(engine: ContextEngine) -> HostApp:
    """A question, a call of two tools with both results, an answer."""
    app = HostApp(engine, SCOPE)
    asked = tool_calls(("c1", "f", {"x": 1}), ("c2", "f", {"x": 2}))
    app.commit(app.prepare(user("look both up")), asked)
    results = [tool_result("c1", "one"), tool_result("c2", "two")]
    app.commit(app.prepare(*results, new_request=False), assistant("one and two"))
    return app


def sent(prepared: Any) -> list[Any]:
    """The plan: indexes of what the host sends, texts of what is brought back."""
    return [
        step.index if isinstance(step, Keep) else step.message.content
        for step in prepared.plan
        if isinstance(step, Keep | Restore)
    ]


@pytest.mark.req("A-10")
@pytest.mark.parametrize(
    ("left_out", "expected"),
    [
        ([2], [0, 1, 2, "one", 3, 4]),
        ([3], [0, 1, 2, "two", 3, 4]),
        ([2, 3], [0, 1, "one", "two", 2, 3]),
    ],
)
def test_results_that_the_host_left_out_come_back(
    engine: ContextEngine, left_out: list[int], expected: list[Any]
) -> None:
    """As a list does that keeps so many tokens, and takes the rest out of its middle."""
    app = talk(engine)
    app.messages = [m for n, m in enumerate(app.messages) if n not in left_out]
    prepared = app.prepare(user("and now?"))
    assert sent(prepared) == expected
    assert prepared.report.restored == len(left_out)
    assert prepared.report.orphans_removed == 0
    app.commit(prepared, assistant("well"))
    assert engine.sync.replay(SCOPE).equal


@pytest.mark.parametrize("sends", ["the question again", "the list without the result"])
def test_what_comes_back_costs_what_its_text_costs(engine: ContextEngine, sends: str) -> None:
    """A picture is not stored: neither a question nor a result goes out with it again."""
    is_question = sends == "the question again"

    def used(session_id: str, media_tokens: int) -> int:
        app = HostApp(engine, Scope(session_id=session_id))
        shown = replace(tool_result("c1", "one"), media_tokens=media_tokens)
        asked = replace(user("what is this?"), media_tokens=media_tokens * is_question)
        app.commit(app.prepare(asked), tool_calls(("c1", "f", {"x": 1})))
        prepared = app.prepare(shown, new_request=False)
        assert prepared.report.token_used > media_tokens
        app.commit(prepared, assistant("one"))
        app.messages = [] if is_question else [*app.messages[:2], app.messages[3]]
        prepared = app.prepare(user("and now?"), restore=is_question)
        assert prepared.report.restored
        app.commit(prepared, assistant("well"))
        assert engine.sync.replay(app.scope).equal
        return prepared.report.token_used

    assert used("with pictures", 1000) == used("without", 0)


@pytest.mark.req("A-10")
def test_results_come_back_where_the_list_ends_with_their_call(engine: ContextEngine) -> None:
    app = talk(engine)
    app.messages = app.messages[:2]
    prepared = app.prepare(new_request=False)
    assert sent(prepared) == [0, 1, "one", "two"]


def test_a_call_whose_results_nobody_knows_stays_out(engine: ContextEngine) -> None:
    app = HostApp(engine, SCOPE)
    asked = tool_calls(("c1", "f", {}), ("c2", "f", {}))
    app.messages = [user("look both up"), asked, tool_result("c1", "one"), assistant("one")]
    prepared = app.prepare(user("and now?"))
    assert sent(prepared) == [0, 3, 4]
    gone = {(d.action, d.reason) for d in prepared.report.prune_decisions}
    assert ("dropped", "unanswered_tool_call") in gone


def test_a_call_that_waits_for_its_results_stays(engine: ContextEngine) -> None:
    app = HostApp(engine, SCOPE)
    prepared = app.prepare(user("look it up"), tool_calls(("c1", "f", {}), ("c2", "f", {})))
    assert prepared.unchanged
    prepared = app.prepare(tool_result("c1", "one"), new_request=False)
    assert prepared.unchanged


def test_old_function_calls_have_no_ids_and_may_go_without(engine: ContextEngine) -> None:
    line = split([TASK, call(""), ANSWER, TASK])
    assert [len(group.items) for group in line.groups] == [1, 1, 1, 1]
    assert line.orphans == []


def test_half_a_pair_is_an_orphan_on_either_side() -> None:
    line = split([TASK, call("a", "b"), result("b"), ANSWER, result("a"), TASK])
    assert [len(group.items) for group in line.groups] == [1, 1, 1]
    assert len(line.orphans) == 3
