"""What failed, a tool or the model, is told alike on each page: of the session, of the turn, and beside other sessions."""

from __future__ import annotations

import json

import pytest
from starlette.testclient import TestClient

from ce_engine import Scope, ToolCallStatus, ToolRun, create_context_engine
from ce_engine.testing.host import HostApp, assistant, system, tool_calls, tool_result, user
from tests.hosts.cli_host import ce, url_of
from tests.unit.apps.web.visiting import plain, read, turn_of


SCOPE = Scope(session_id="parcels", user_id="mara")
WHO = {"id": SCOPE.session_id, "user": SCOPE.user_id}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Turn 1 asks for a tool, which fails; turn 2 answers; of turn 3 the model's call fails."""
    found = url_of(tmp_path_factory.mktemp("store") / "ce.db")
    engine = create_context_engine(found)
    engine.sync.check()
    app = HostApp(engine, SCOPE, [system("You help.")])
    asking = app.prepare(user("Where is parcel 7?"))
    app.commit(asking, tool_calls(("call_0", "track", {"parcel": 7})))
    failed = ToolRun(
        "track", {"parcel": 7}, "503 busy", "run-1", "call_0", status=ToolCallStatus.ERROR
    )
    engine.post_tool_run(SCOPE, failed, request_id="request-1", framework="by-hand")
    answering = app.prepare(tool_result("call_0", "503 busy", error=True), new_request=False)
    app.commit(answering, assistant("I cannot say."))
    broken = app.prepare(user("And parcel 8?"))
    engine.sync.fail(broken.turn, "RuntimeError")
    engine.sync.close()
    return found


def _session(client: TestClient, part: str = "", **headers: str) -> str:
    return plain(client.get(f"/session{part}", params=WHO, headers=headers).text)


def test_a_tool_that_failed_is_worth_a_look(pages: TestClient) -> None:
    part = _session(pages, "/costs")
    assert "a tool failed in turn 1 " in part
    assert "Nothing went wrong" not in _session(pages) + part
    html = pages.get("/session/costs", params=WHO).text
    rows = [plain(row) for row in html.split("<tr>") if "data-turn=" in row]
    assert ["a tool failed" in row for row in rows] == [True, False, False]


def test_a_tool_that_failed_is_told_on_the_turn_and_on_its_row(pages: TestClient) -> None:
    assert "a tool failed" in plain(turn_of(WHO, pages, 1)).partition("Why it went out")[0]
    second = plain(turn_of(WHO, pages, 2))
    assert "a tool failed" not in second.partition("Why it went out")[0]
    assert "tool track #3 failed" in second or "tool #3 failed" in second


def test_a_call_that_the_model_failed_is_nothing_that_we_did_less(
    pages: TestClient, url: str
) -> None:
    shown = [pages.get(f"/session{part}", params=WHO).text for part in ("", "/costs")]
    assert not any(">did less than asked<" in html for html in [*shown, turn_of(WHO, pages, 3)])
    assert all("failed in turn 3 " in plain(html) for html in shown)
    told = json.loads(ce("compare", "--store", url, "--json").stdout)
    assert told["total"]["degradations"] == 0
    assert told["total"]["failed"] == 1
    assert told["total"]["tool_errors"] == 1


@pytest.mark.parametrize(("mark", "count"), [("degraded", 0), ("failed", 1), ("tool_failed", 1)])
def test_the_filters_of_the_sessions_say_the_same(pages: TestClient, mark: str, count: int) -> None:
    read(pages, "/")
    text = plain(read(pages, f"/?mark={mark}"))
    assert ("1 session " in text, "parcels" in text) == (bool(count), bool(count))


def test_chinese_says_it_too(pages: TestClient) -> None:
    assert "有工具出错" in _session(pages, "/costs", **{"accept-language": "zh"})
