"""Each look at what is stored is asked for, and told of in the audit log; another's data is never found."""

from __future__ import annotations

import getpass
import json
from pathlib import Path

import pytest

from ce_engine import Scope
from tests.hosts.cli_host import TALK
from tests.unit.apps.web.visiting import read, sessions_of, visit


def only_anas(actor: str, action: str, scope: Scope) -> bool:
    return scope.user_id == "ana"


PAGES = (
    "/session?id={}&user={}",
    "/beside?id={}&user={}&turn=1",
    "/beside?id=chat-1&user=ana&turn=1&with={}&with_user={}",
    "/session/costs?id={}&user={}",
    "/session/find?id={}&user={}&find=invoice",
    "/turn?id={}&user={}&turn=1",
    "/evidence?id={}&user={}&evidence=e",
    "/trace?id={}&user={}&message=m",
)


def test_what_authorize_refuses_is_nowhere(many_url: str) -> None:
    with visit(many_url, authorize=only_anas) as client:
        assert sessions_of(read(client, "/")) == ["chat-5", "chat-3", "chat-1"]
        assert sessions_of(read(client, "/?q=chat-2")) == []
        assert "chat-2" not in read(client, "/live")
        assert "chat-2" not in read(client, "/compare?by=session")
        assert client.get("/session?id=chat-1&user=ana").status_code == 200
        for page in PAGES:
            theirs = client.get(page.format("chat-2", ""))
            absent = client.get(page.format("nobodys", ""))
            assert (theirs.status_code, absent.status_code) == (404, 404), page
            assert "chat-2" not in theirs.text.replace(
                page.format("chat-2", "").replace("&", "&amp;"), ""
            )
            assert "folder" not in theirs.text


def test_who_may_list_and_not_read_sees_no_word(many_url: str) -> None:
    def lists(actor: str, action: str, scope: Scope) -> bool:
        return action == "list"

    with visit(many_url, authorize=lists) as client:
        html = read(client, "/")
        assert len(sessions_of(html)) == 6
        assert "Where is invoice" not in html
        assert "gpt-4o" not in html
        assert sessions_of(read(client, "/?q=Where is invoice")) == []
        assert "gpt-4o" not in read(client, "/compare?by=model")


def test_one_user_is_all_that_a_page_of_one_user_has(many_url: str) -> None:
    with visit(many_url, user="ana") as client:
        assert sessions_of(read(client, "/")) == ["chat-5", "chat-3", "chat-1"]
        for page in PAGES:
            assert client.get(page.format("chat-2", "")).status_code == 404, page


def test_another_account_is_not_found(talk_url: str) -> None:
    with visit(talk_url, account="other") as client:
        assert sessions_of(read(client, "/")) == []
        assert (
            client.get("/session", params={"id": TALK.session_id, "user": TALK.user_id}).status_code
            == 404
        )


@pytest.mark.req("B-05")
def test_who_looked_at_what(many_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "audit.jsonl"
    monkeypatch.setenv("CE_AUDIT_LOG", str(log))
    with visit(many_url, authorize=only_anas) as client:
        for address in (
            "/",
            "/session?id=chat-1&user=ana",
            "/session?id=chat-2",
            "/static/page.css",
        ):
            client.get(address)
    told = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    assert {line["actor"] for line in told} == {getpass.getuser()}
    found = [
        (line["event_type"], line["event"], line["session_id"], line["status"]) for line in told
    ]
    assert found == [
        ("ui sessions", "list", "*", "ok"),
        ("ui session", "read", "chat-1", "ok"),
        ("ui session", "read", "chat-2", "denied"),
    ]
    assert "invoice" not in log.read_text("utf-8")


@pytest.mark.req("B-05")
def test_a_look_at_another_users_session_is_told_of_by_every_page(
    many_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "audit.jsonl"
    monkeypatch.setenv("CE_AUDIT_LOG", str(log))
    for options in ({"user": "ana"}, {"authorize": only_anas}):
        with visit(many_url, **options) as client:
            for page in (*PAGES, "/turn/what-if?id={}&user={}&turn=1&budget=500"):
                for session, user, status in (
                    ("chat-2", "", "denied"),
                    ("nobodys", "", "denied"),
                    ("nobodys", "ana", "not_found"),
                ):
                    log.write_text("")
                    assert client.get(page.format(session, user)).status_code == 404, page
                    told = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
                    found = [(line["user_id"], line["session_id"], line["status"]) for line in told]
                    assert found[-1:] == [(user, session, status)], (page, options)
