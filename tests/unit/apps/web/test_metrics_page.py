"""`/metrics` of `ce ui`: the figures of what the pages show, for who has the token."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from ce_engine import Scope, create_context_engine
from ce_engine.apps.web.pages.metrics import Scrapes
from ce_engine.apps.web.reading import Reader, Source
from ce_engine.apps.web.security import Access, read_or_make_token
from ce_engine.apps.web.server import create_app
from ce_engine.errors import ConfigError, StoreUnavailableError
from ce_engine.schema.rows import SessionInfo, TurnRow
from ce_engine.testing.faults import SwitchStore
from ce_engine.testing.host import HostApp
from tests.hosts.cli_host import TIGHT, ce
from tests.unit.apps.web.visiting import BASE, visit


class CountingStore(SwitchStore):
    """Knows whose turns were read."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[str] = []

    async def list_sessions(self, **chosen: Any) -> list[SessionInfo]:
        if self.refuses:
            raise StoreUnavailableError("it is away")
        return await super().list_sessions(**chosen)

    async def list_turns(self, scope: Scope) -> list[TurnRow]:
        self.reads.append(scope.session_id or "")
        return await super().list_turns(scope)


ACCESS = Access("a token of this test")
BEARER = {"authorization": f"Bearer {ACCESS.token}"}


@pytest.fixture
def scraper(many_url: str) -> Iterator[TestClient]:
    """Who keeps no cookies."""
    with TestClient(create_app(Source(many_url), ACCESS), base_url=BASE) as client:
        yield client
        assert not client.cookies


def figures(text: str) -> dict[str, float]:
    """The sum of each metric, as Prometheus's own parser reads it."""
    return {
        family.name: sum(sample.value for sample in family.samples)
        for family in text_string_to_metric_families(text)
    }


def test_a_scraper_brings_the_token_in_a_header(scraper: TestClient) -> None:
    answer = scraper.get("/metrics", headers=BEARER)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=")
    assert answer.headers["cache-control"] == "no-store"
    found = figures(answer.text)
    assert (found["ce_store_up"], found["ce_store_sessions"], found["ce_store_calls"]) == (1, 6, 6)
    assert "chat-" not in answer.text
    assert "ana" not in answer.text


@pytest.mark.parametrize("path", ["/", "/metrics"])
@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer ", "Bearer another", f"Basic {ACCESS.token}", ACCESS.token]
)
def test_nothing_without_it(scraper: TestClient, path: str, header: str) -> None:
    answer = scraper.get(path, headers={"authorization": header} if header else {})
    assert answer.status_code == (401 if path == "/metrics" else 403)
    assert "ce_store" not in answer.text
    assert ("--token-file" in answer.text) == (path == "/metrics")
    assert answer.headers.get("www-authenticate") == ("Bearer" if path == "/metrics" else None)


def test_another_host_origin_or_method_is_refused_with_the_token_too(scraper: TestClient) -> None:
    assert scraper.get("/metrics", headers=BEARER | {"host": "evil.example"}).status_code == 421
    assert scraper.get("/metrics", headers=BEARER | {"origin": "http://evil"}).status_code == 403
    assert scraper.post("/metrics", headers=BEARER).status_code == 405
    head = scraper.head("/metrics", headers=BEARER)
    assert (head.status_code, head.text) == (200, "")


def test_the_browser_that_has_the_cookie_sees_it(many_url: str) -> None:
    with visit(many_url) as client:
        assert figures(client.get("/metrics").text)["ce_store_sessions"] == 6


def test_it_has_what_the_pages_have_and_no_more(many_url: str, talk_url: str) -> None:
    with visit(many_url, user="ana") as client:
        assert figures(client.get("/metrics").text)["ce_store_sessions"] == 3
    with visit(talk_url) as client:  # whose one session is of another account
        assert figures(client.get("/metrics").text).get("ce_store_sessions", 0) == 0

    def only(_actor: str, _action: str, scope: Scope) -> bool:
        return scope.session_id != "chat-0"

    with visit(many_url, authorize=only) as client:
        assert figures(client.get("/metrics").text)["ce_store_sessions"] == 5


def test_each_scrape_is_a_look_that_is_recorded(
    scraper: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many_url: str
) -> None:
    monkeypatch.setenv("CE_AUDIT_LOG", str(tmp_path / "looks.jsonl"))
    with visit(many_url) as client:
        client.get("/metrics")
    assert '"ui metrics"' in (tmp_path / "looks.jsonl").read_text()


async def test_scrapes_at_a_time_read_each_session_once_and_a_lost_store_is_told() -> None:
    store = CountingStore()
    engine = create_context_engine(store, config=TIGHT)
    for name in ("a", "b", "c"):
        await asyncio.to_thread(HostApp(engine, Scope(session_id=name)).ask, "Hi?", "Hi.")
    await engine.flush()
    scrapes = Scrapes(Reader(store, Source(None)))
    store.reads.clear()
    texts = await asyncio.gather(*(scrapes.text() for _ in range(3)))
    assert len(set(texts)) == 1
    assert sorted(store.reads) == ["a", "b", "c"]
    store.refuses = True
    assert figures(await scrapes.text()) == {"ce_store_up": 0}
    await engine.close()


def test_a_token_is_kept_for_this_user_alone(tmp_path: Path) -> None:
    path = tmp_path / "token"
    token = read_or_make_token(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_or_make_token(path) == token
    path.write_text("Tr0ub4dor-and-3-more-words\n")
    assert read_or_make_token(path) == "Tr0ub4dor-and-3-more-words"


@pytest.mark.parametrize(
    "text", ["", "short", "two words that are long enough", "令牌" * 20, "\x00" * 30]
)
def test_what_is_no_token_is_refused_with_the_cure(tmp_path: Path, text: str) -> None:
    path = tmp_path / "token"
    path.write_text(text, "utf-8")
    path.chmod(0o600)
    with pytest.raises(ConfigError, match="delete it"):
        read_or_make_token(path)


def test_a_token_that_everybody_may_read_is_refused(tmp_path: Path, many_url: str) -> None:
    path = tmp_path / "token"
    read_or_make_token(path)
    path.chmod(0o604)
    done = ce("ui", "--store", many_url, "--port", "0", "--no-open", "--token-file", str(path))
    assert done.exit_code == 1
    assert "chmod 600" in done.stderr


def test_a_place_where_none_can_be_kept_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_or_make_token(tmp_path / "nowhere" / "token")
