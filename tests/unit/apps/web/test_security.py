"""Who gets a page of what is stored: this machine's browser, from the page itself, with the token."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from starlette.datastructures import URL
from starlette.requests import Request
from starlette.testclient import TestClient

from ce_engine.apps.web.pages.preferences import local
from ce_engine.apps.web.reading import Source
from ce_engine.apps.web.security import Access, cookie_name
from ce_engine.apps.web.server import create_app
from tests.unit.apps.web.visiting import BASE


ACCESS = Access("the token")


@pytest.fixture
def stranger(many_url: str) -> Iterator[TestClient]:
    """Who has no cookie."""
    with TestClient(create_app(Source(many_url), ACCESS), base_url=BASE) as client:
        yield client


@pytest.fixture
def known(stranger: TestClient) -> TestClient:
    stranger.get("/?token=the+token")
    return stranger


@pytest.mark.parametrize(
    "path", ["/", "/compare", "/live", "/live/turns", "/session?id=chat-1", "/nothing"]
)
def test_nothing_without_the_token(stranger: TestClient, path: str) -> None:
    answer = stranger.get(path)
    assert answer.status_code == 403
    assert "chat-" not in answer.text
    assert "ce ui" in answer.text


@pytest.mark.parametrize("token", ["", "the tokem", "the token2", "Ünïcode", "the token" * 99])
def test_a_wrong_token_opens_nothing(stranger: TestClient, token: str) -> None:
    assert stranger.get("/", params={"token": token}).status_code == 403
    assert not stranger.cookies
    stranger.cookies.set(cookie_name("127.0.0.1:8765"), token.encode("ascii", "replace").decode())
    assert stranger.get("/").status_code == 403


def test_the_token_moves_into_a_cookie(stranger: TestClient) -> None:
    answer = stranger.get("/?q=a%26b&token=the+token&mark=dearer")
    assert answer.status_code == 200
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith("ce_ui_8765=")
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
    assert 'url=/?q=a%26b&amp;mark=dearer"' in answer.text  # goes on there, without the token
    assert "the token" not in answer.text
    assert stranger.get("/").status_code == 200


def test_the_way_on_leads_to_this_server_only(stranger: TestClient) -> None:
    text = stranger.get(f"{BASE}//evil.example/?token=the+token").text
    assert "url=/evil.example/" in text


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example:8765", "localhost.evil.example", "", "10.0.0.7:8765"],
)
def test_a_name_of_somebody_elses_is_refused(known: TestClient, host: str) -> None:
    """DNS rebinding: a page of theirs, whose name has come to point here."""
    answer = known.get("/", headers={"host": host})
    assert answer.status_code == 421
    assert "chat-" not in answer.text


@pytest.mark.parametrize(
    "rest", [":8765/static/?x=", "/static/?x=", ":/static/#", ":1@evil.example/static/?", ":٣"]
)
@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "[::1]"])
def test_a_host_with_more_than_a_name_and_a_port_is_refused(
    stranger: TestClient, name: str, rest: str
) -> None:
    """Frameworks put it before the path: what followed the port was taken for the path, and needed no token."""
    assert not ACCESS.knows_host(name + rest)
    answer = stranger.get("/", headers={"host": (name + rest).encode()})
    assert answer.status_code == 421
    assert "chat-" not in answer.text


def test_the_token_is_asked_for_by_the_path_that_is_served(
    many_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not by an address that is made of what the visitor says of the server."""
    monkeypatch.setattr(Access, "knows_host", lambda *_: True)
    monkeypatch.setattr(Request, "url", URL("http://127.0.0.1/static/?x=/"))
    with TestClient(create_app(Source(many_url), ACCESS), base_url=BASE) as client:
        assert client.get("/").status_code == 403


@pytest.mark.parametrize("host", ["127.0.0.1:8765", "localhost:9000", "LOCALHOST", "[::1]:8765"])
def test_this_machines_names_are_known_on_any_port(host: str) -> None:
    assert ACCESS.knows_host(host)  # the other end of a tunnel has another one


def test_where_it_is_bound_for_others_addresses_are_known_and_names_are_not() -> None:
    everywhere = Access("t", "0.0.0.0")
    assert everywhere.knows_host("10.0.0.7:8765")
    assert everywhere.knows_host("[fe80::1]:8765")
    assert not everywhere.knows_host("evil.example:8765")
    assert Access("t", "my-box").knows_host("my-box:8765")


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:9999", "http://localhost:8765"]
)
def test_another_origin_is_refused(known: TestClient, origin: str) -> None:
    assert known.get("/", headers={"origin": origin}).status_code == 403
    assert known.get("/", headers={"origin": BASE}).status_code == 200


def test_another_sites_page_may_link_here_and_not_read(known: TestClient) -> None:
    cross = {"sec-fetch-site": "cross-site"}
    assert (
        known.get(
            "/", headers=cross | {"sec-fetch-mode": "no-cors", "sec-fetch-dest": "script"}
        ).status_code
        == 403
    )
    assert (
        known.get(
            "/", headers=cross | {"sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"}
        ).status_code
        == 403
    )
    assert (
        known.get(
            "/", headers=cross | {"sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
        ).status_code
        == 200
    )


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_it_only_reads(known: TestClient, method: str) -> None:
    answer = known.request(method, "/")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET, HEAD"


@pytest.mark.parametrize(
    "path", ["/", "/nothing", "/static/page.css", "/static/../page.py", "/?page=x"]
)
def test_every_answer_has_the_strict_policy(known: TestClient, path: str) -> None:
    headers = known.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert re.findall(r"https?:", policy) == []
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    if not path.startswith("/static/p"):
        assert headers["cache-control"] == "no-store"


def test_a_refusal_has_it_too(stranger: TestClient) -> None:
    assert "default-src 'none'" in stranger.get("/").headers["content-security-policy"]


def test_files_outside_of_the_pages_own_are_not_served(known: TestClient) -> None:
    for path in ("/static/%2e%2e/page.py", "/static/..%2fpage.py", "/static//etc/passwd"):
        assert known.get(path).status_code == 404


@pytest.mark.parametrize(
    "address",
    [
        "//evil.example",
        "/\\evil.example",
        "http://evil.example",
        "javascript:alert(1)",
        "",
        "/\r\nX: y",
    ],
)
def test_a_switch_leads_back_to_this_server(known: TestClient, address: str) -> None:
    assert local(address) == "/"
    answer = known.get(
        "/preferences", params={"back": address, "theme": "dark"}, follow_redirects=False
    )
    assert answer.headers["location"] == "/"


def test_a_token_does_not_show(capsys: pytest.CaptureFixture[str]) -> None:
    print(ACCESS)
    assert "the token" not in capsys.readouterr().out
    assert Access().token != Access().token
