"""Contract: tool results in fewer tokens say what they said, stay as they went out, and can be read again (`tool_results`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from ce_engine import RuntimeConfig
from ce_integrations.calls.evidence_tool import fetch_evidence, is_fetch
from ce_integrations.install.adapter import Way
from ce_integrations.testing.answers import Answer, JsonObject, text, tool_calls
from ce_integrations.testing.contract_case import ContractCase, count
from ce_integrations.testing.forgeries import text_of
from ce_integrations.testing.framework_apps import needs
from ce_integrations.testing.side_by_side import SESSION, AppRun, SideBySide


COMPACT = RuntimeConfig(tool_results="compact")

FLIGHTS = [{"flight": f"HAT{n:03}", "from": "JFK", "座位": {"eco": n, "biz": 3}} for n in range(6)]

QUESTION, OTHER = "Where is my order? 我的订单？", "And now? 现在呢？"

HIDDEN = "line 67: the crate of W77 stands at dock 9, 九号码头"


def order(order_id: str) -> str:
    """Look an order up."""
    return json.dumps(_order(order_id, "pending"))


def again(order_id: str) -> str:
    """Look an order up once more."""
    return order(order_id)


def cancel(order_id: str) -> str:
    """Cancel an order."""
    return json.dumps(_order(order_id, "cancelled"))


def read_log(place: str) -> str:
    """Read the log of a place."""
    lines = [f"line {n}: nothing to tell of {place}, 没有什么可说的" for n in range(120)]
    lines[67] = HIDDEN
    return "\n".join(lines)


def _order(order_id: str, status: str) -> dict[str, Any]:
    return {
        "order_id": order_id,
        "status": status,
        "where": "5 High Street, 上海",
        "flights": FLIGHTS,
    }


RUN: Sequence[Answer] = (
    tool_calls([("order", {"order_id": "W77"})]),
    tool_calls([("again", {"order_id": "W77"})]),
    text("It waits."),
    tool_calls([("cancel", {"order_id": "W77"})]),
    text("It is cancelled."),
)


class Results(ContractCase):
    """What becomes of tool results where the app asks for fewer tokens."""

    @needs("tools")
    def test_compact_results_say_the_same_in_fewer_tokens(
        self, trial: SideBySide, way: Way
    ) -> None:
        drive, tools = trial.asking((QUESTION, OTHER), way), (order, again, cancel)
        plain = trial.plain(drive, RUN, tools)
        ce_run = trial.drive(drive, RUN, tools, config=COMPACT)
        assert ce_run.result == plain.result
        assert [_ids(body) for body in ce_run.bodies] == [_ids(body) for body in plain.bodies]
        first, same, changed = _results(ce_run.bodies[-1])
        rows = ",".join(f'["HAT{n:03}",{n}]' for n in range(6))
        assert f'"rows":[{rows}]' in first
        assert same == '[the same as the last result of order(order_id="W77") above]'
        assert '{"status":"cancelled"}' in changed
        assert "W77" in changed
        for before, after in pairwise(map(_results, ce_run.bodies)):
            assert after[: len(before)] == before, "what went out is sent in another way"
        assert count(ce_run.bodies[-1]) < 0.8 * count(plain.bodies[-1])

    @needs("tools")
    def test_without_the_switch_results_go_out_as_the_app_sends_them(
        self, trial: SideBySide, way: Way
    ) -> None:
        drive, tools = trial.asking((QUESTION, OTHER), way), (order, again, cancel)
        plain, ce_run = trial.plain(drive, RUN, tools), trial.drive(drive, RUN, tools)
        assert [_results(body) for body in ce_run.bodies] == [
            _results(body) for body in plain.bodies
        ]

    @needs("tools")
    def test_an_agent_reads_of_its_own_session_what_is_shown_in_part(
        self, trial: SideBySide, way: Way
    ) -> None:
        """Another session's agent, which knows the id, is told that there is nothing."""
        evidence_ids: list[str] = []

        def reads(body: JsonObject) -> Answer:
            results = _results(body)
            if not results:
                return tool_calls([("read_log", {"place": "harbour"})])
            if "fetch_evidence(" in results[-1]:
                evidence_ids.append(results[-1].partition('evidence_id="')[2].partition('"')[0])
                return _fetched(body, evidence_ids[-1], "60-70")
            return text("So it is.")

        def knows(body: JsonObject) -> Answer:
            return text("So it is.") if _results(body) else _fetched(body, evidence_ids[-1])

        own_run = self._told_of_log(trial, way, reads, SESSION)
        part, fetched = _results(own_run.bodies[-1])
        assert HIDDEN not in part
        assert len(part) < len(read_log("harbour")) / 2
        assert HIDDEN in fetched
        other = self._told_of_log(trial, way, knows, f"{SESSION} 2")
        nothing = f"There is no evidence {evidence_ids[-1]} in this conversation."
        assert _results(other.bodies[-1]) == [nothing]
        assert own_run.result == other.result == ["So it is."]

    def _told_of_log(
        self, trial: SideBySide, way: Way, answers: Callable[[JsonObject], Answer], session: str
    ) -> AppRun:
        drive = trial.asking((QUESTION,), way, session)
        return trial.drive(drive, answers, (read_log, fetch_evidence), config=COMPACT)


def _fetched(body: JsonObject, evidence_id: str, lines: str = "") -> Answer:
    names = (tool["function"]["name"] for tool in body["tools"])
    arguments = {"evidence_id": evidence_id, "lines": lines}
    return tool_calls([(next(filter(is_fetch, names)), arguments)])


def _results(body: JsonObject) -> list[str]:
    return [text_of(message) for message in body["messages"] if message["role"] == "tool"]


def _ids(body: JsonObject) -> list[str]:
    return [str(item.get("tool_call_id")) for item in body["messages"] if item["role"] == "tool"]
