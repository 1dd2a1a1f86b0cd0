"""What frameworks tell of their runs, as what is known of the calls in them."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from ce_integrations import CallInfo
from ce_integrations.calls.run_tree import RunTree
from ce_integrations.calls.tool_events import MAX_RUNS


class Memory:
    pass


MEMORY = Memory()

Tree = RunTree[int, Any]


@pytest.fixture
def tree() -> Tree:
    tree: Tree = RunTree()
    told: dict[str, Any] = {"session_id": "s", "agent": "ann", "metadata": {"a": 1, "b": 1}}
    tree.add(1, None, None, conversation=MEMORY, **told)
    tree.add(2, 1, None, "ask_bob")
    tree.add(3, 2, None, agent="bob", lane_key="left", purpose="helper", metadata={"b": 2})
    tree.add(4, 3, None, session_id=None, agent="", conversation=["not to be held"])
    return tree


def test_what_a_run_tells_holds_in_it(tree: Tree) -> None:
    assert tree.info(1, model="gpt-4") == CallInfo(
        request_id="1",
        parent_request_id="1",
        session_id="s",
        agent="ann",
        lane_key="ann",
        model="gpt-4",
        metadata={"a": 1, "b": 1},
        conversation=MEMORY,
    )


def test_an_inner_run_tells_the_rest_and_wins(tree: Tree) -> None:
    assert tree.info(4) == CallInfo(
        request_id="1",
        parent_request_id="4",
        session_id="s",
        agent="bob",
        lane_key="ask_bob/bob/left",
        purpose="helper",
        metadata={"a": 1, "b": 2},
        conversation=MEMORY,
    )
    asked = tree.info(4, session_id="own", purpose="chat", lane_key="right", request_id="")
    assert (asked.session_id, asked.purpose, asked.request_id) == ("own", "chat", "1")
    assert asked.lane_key == "ask_bob/bob/right"


def test_no_object_is_held(tree: Tree) -> None:
    inner = Memory()
    tree.add(5, 3, None, conversation=inner)
    assert tree.info(5).conversation is inner
    del inner
    gc.collect()
    assert tree.info(5).conversation is None


def test_a_run_that_nobody_told_of_is_its_own_root(tree: Tree) -> None:
    assert tree.info(None) == CallInfo()
    assert tree.info(6) == CallInfo("6", parent_request_id="6")
    assert tree.info(None, request_id="r").request_id == "r"


def test_a_run_is_of_whom_the_innermost_names(tree: Tree) -> None:
    tree.add(5, None, None, user_id="ada")
    tree.add(6, 5, None)
    tree.add(7, 6, None, user_id="bob")
    tree.add(8, 7, None)
    assert [tree.info(each).user_id for each in (5, 6, 7, 8)] == ["ada", "ada", "bob", "bob"]
    assert tree.info(4).user_id is None


def test_who_is_named_holds_until_the_outermost_run_ends(tree: Tree) -> None:
    tree.add(5, 99, None, user_id="ada")  # in a run of somebody else's
    tree.add(6, 5, None)
    for run in range(100, 100 + MAX_RUNS + 1):
        tree.add(run, None, None)
        tree.end(run)
    assert tree.naming(6) is not None
    tree.end(5)
    assert tree.naming(6) is None
    tree.add(7, 6, None, user_id="bob")  # of a task that was left behind
    assert tree.info(7).user_id == "bob"
