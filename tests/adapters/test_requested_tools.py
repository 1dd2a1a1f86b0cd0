"""The call that a run of a tool answers is found by name and arguments, where nobody tells its id."""

from __future__ import annotations

from typing import Any

from ce_engine import ModelCall, Scope, ToolRequest
from ce_integrations import CallInfo
from ce_integrations.calls.requested_tools import RequestedTools


def asked(*calls: ToolRequest, lane: str = "", request: str = "r") -> RequestedTools:
    found = RequestedTools()
    found.note(ModelCall(Scope(session_id="s"), (), lane, request), calls)
    return found


def request(name: str, id_: str, **args: Any) -> ToolRequest:
    return ToolRequest(name=name, id=id_, args=args)


INFO = CallInfo(request_id="r")


def test_a_call_is_claimed_by_its_name_and_arguments() -> None:
    found = asked(request("a", "1", x=1), request("b", "2", x=1), request("a", "3", x={"y": [2]}))
    assert found.claim(INFO, "a", {"x": 2}) is None
    assert found.claim(INFO, "c", {"x": 1}) is None
    assert found.claim(CallInfo(request_id="other"), "a", {"x": 1}) is None
    assert found.claim(CallInfo(request_id="r", lane_key="other"), "a", {"x": 1}) is None
    claimed = found.claim(INFO, "a", {"x": {"y": [2]}, "state": object()})
    assert claimed is not None
    assert claimed.id == "3"
    assert found.claim(INFO, "a", {"x": {"y": [2]}}) is None  # it is claimed


def test_the_newest_answer_s_calls_come_first() -> None:
    found = asked(request("a", "1", x=1), request("b", "2"))
    call = ModelCall(Scope(session_id="s"), (), "", "r")
    found.note(call, [request("a", "3", x=1)])
    found.note(call, None)  # an answer that asks for nothing
    ids = [claimed and claimed.id for claimed in (found.claim(INFO, "a", {"x": 1}) for _ in "123")]
    assert ids == ["3", "1", None]


def test_an_argument_that_cannot_be_compared_is_another_one() -> None:
    class Odd:
        def __eq__(self, other: object) -> bool:
            raise TypeError

        __hash__ = object.__hash__

    assert asked(request("a", "1", x=1)).claim(INFO, "a", {"x": Odd()}) is None
