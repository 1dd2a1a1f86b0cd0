"""Stores as apps leave them behind, and visits to their pages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from ce_engine import Answer, Scope, Usage, create_context_engine
from ce_engine.testing.host import HostApp, assistant, user
from tests.hosts.cli_host import TIGHT, fill, url_of
from tests.unit.apps.web.visiting import visit


@pytest.fixture(scope="session")
def talk_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The talk of `tests.hosts.cli_host`, of account acme; far over its budget."""
    url = url_of(tmp_path_factory.mktemp("talk") / "ce.db")
    fill(url, chatter=12)
    return url


@pytest.fixture(scope="session")
def many_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Sessions of two users in two frameworks with two models, one after the other, without an account."""
    url = url_of(tmp_path_factory.mktemp("many") / "ce.db")
    engine = create_context_engine(url, config=TIGHT)
    engine.sync.check()
    for number in range(6):
        user_id = "ana" if number % 2 else ""
        framework = "langchain" if number < 4 else "autogen"
        app = HostApp(engine, Scope(session_id=f"chat-{number}", user_id=user_id), [], framework)
        asked = app.prepare(user(f"Where is invoice {number}?"))
        answer = assistant("In the blue folder.").message
        model = "gpt-4o" if number % 3 else "qwen3"
        engine.sync.commit(
            asked.turn, Answer(answer, model=model, provider="openai"), usage=Usage(20, 5, 25)
        )
    engine.sync.close()
    return url


@pytest.fixture
def pages(url: str) -> Iterator[TestClient]:
    """Of the store that the tests of a file have as `url`."""
    with visit(url) as client:
        yield client


@pytest.fixture
def talk_pages(talk_url: str) -> Iterator[TestClient]:
    with visit(talk_url, account="acme") as client:
        yield client


@pytest.fixture
def many_pages(many_url: str) -> Iterator[TestClient]:
    with visit(many_url) as client:
        yield client


@pytest.fixture
def empty_url(tmp_path: Path) -> str:
    """A store in which nothing is recorded yet."""
    url = url_of(tmp_path / "ce.db")
    engine = create_context_engine(url)
    engine.sync.check()
    engine.sync.close()
    return url
