"""What a store has recorded as metrics of Prometheus, from the command and from an endpoint."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ce_engine import (
    Answer,
    ContextEngine,
    MetricsApp,
    Scope,
    StoreMetrics,
    Usage,
    create_context_engine,
)
from ce_engine.testing.faults import SwitchStore
from ce_engine.testing.host import HostApp, assistant, user
from ce_engine.text.tokens.prices import PriceTable
from tests.hosts.cli_host import TIGHT, ce, url_of


PRICES = PriceTable.parse(
    'currency = "EUR"\nper = 1000\n[models."gpt-*"]\ninput = 2\ncached = 1\noutput = 4\n', "p.toml"
)
WHO = Scope(session_id="会话-zhang@example.com", user_id="张伟", account_id="acme")
SECRETS = ("灯塔", "zhang@example.com", "张伟", "acme", "会话")


def values(text: str) -> dict[str, dict[tuple[str, ...], float]]:
    """The values of each metric by those of its labels, as Prometheus's own parser reads them."""
    return {
        family.name: {tuple(s.labels.values()): s.value for s in family.samples}
        for family in text_string_to_metric_families(text)
    }


@pytest.fixture(params=["memory", "ce.db", "sessions"])
def engine(tmp_path: Path, request: pytest.FixtureRequest) -> ContextEngine:
    at = SwitchStore() if request.param == "memory" else url_of(tmp_path / str(request.param))
    made = create_context_engine(at, config=TIGHT)
    made.sync.check()
    return made


def asked(engine: ContextEngine, scope: Scope = WHO, model: str = "gpt-4o") -> HostApp:
    """Two questions that this model answers."""
    app = HostApp(engine, scope)
    for question in ("灯塔项目由哪个小组负责？", "And then?"):
        prepared, said = app.prepare(user(question)), assistant("港口组。")
        answer = Answer(said.message, model=model, provider="p")
        engine.sync.commit(prepared.turn, answer, usage=Usage(50, 7, 57, latency_ms=250))
        app.messages.append(said)
    return app


def text_of(engine: ContextEngine, metrics: StoreMetrics | None = None) -> str:
    made = metrics or StoreMetrics(engine.store, PRICES)
    return asyncio.run(made.text())


@pytest.mark.req("A-31")
def test_the_figures_are_those_of_the_turns(engine: ContextEngine) -> None:
    app = asked(engine)
    failed = app.prepare(user("One more?"))
    engine.sync.fail(failed.turn, "PROVIDER_TIMEOUT")
    found = values(text_of(engine))
    reports = [each.report for each in asyncio.run(engine.store.list_turns(WHO))]
    sent = sum(report["token_used"] for report in reports[:2])
    assert found["ce_store_up"] == {(): 1}
    assert found["ce_store_sessions"] == {("named",): 1}
    calls = found["ce_store_calls"]
    assert {key[1:]: value for key, value in calls.items() if key[3] == "committed"} == {
        ("gpt-4o", "chat", "committed"): 2
    }
    assert sum(calls.values()) == 3
    [used] = [v for k, v in found["ce_store_input_tokens"].items() if k[1] == "gpt-4o"]
    assert used == sent
    [cost] = [v for k, v in found["ce_store_output_cost"].items() if k[1] == "gpt-4o"]
    assert cost == pytest.approx(14 * 4 / 1000)
    assert sum(found["ce_store_model_seconds"].values()) == 0.5
    assert found["ce_store_last_call_timestamp_seconds"][()] > 1.7e9


@pytest.mark.req("A-31", "B-03")
def test_there_is_no_content_and_nobody_in_it(engine: ContextEngine) -> None:
    asked(engine)
    asked(engine, Scope(session_id="other", user_id="王芳"), model="zhang@example.com")
    text = text_of(engine)
    assert not [word for word in (*SECRETS, "王芳", "other") if word in text.replace("(other)", "")]
    assert 'model="[EMAIL_1]"' in text


def test_names_of_models_are_few_and_stay_on_their_line(engine: ContextEngine) -> None:
    for n in range(60):
        asked(engine, Scope(session_id=f"s-{n}"), model=f'模型\n"{n}\\')
    found = values(text_of(engine))["ce_store_calls"]
    models = {key[1] for key in found}
    assert len(models) == 51
    assert "(other)" in models
    assert any(model.startswith('模型\n"') for model in models)
    assert sum(found.values()) == 120


def test_no_name_steers_the_terminal(engine: ContextEngine) -> None:
    asked(engine, Scope(session_id="s"), model="模型\x1b]0;mine\x07\u202e")
    text = text_of(engine)
    assert 'model="模型?]0;mine??"' in text
    assert all(each.isprintable() or each == "\n" for each in text)


def test_what_is_new_is_added_and_what_is_deleted_is_gone(engine: ContextEngine) -> None:
    app = asked(engine)
    asked(engine, Scope(session_id="two"))
    metrics = StoreMetrics(engine.store, PRICES)
    looked: list[int] = []

    def total() -> float:
        found = values(asyncio.run(metrics.text(lambda: looked.append(1))))
        return sum(found.get("ce_store_calls", {}).values())

    assert total() == 4
    app.ask("Third?", "Three.")
    assert total() == 5
    engine.sync.delete_session(WHO)
    assert total() == 2
    assert len(looked) == 5


# The endpoint


def answered(app: MetricsApp, method: str = "GET") -> tuple[int, Mapping[bytes, bytes], str]:
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(app({"type": "http", "method": method, "path": "/metrics"}, receive, send))
    begin, body = sent
    return begin["status"], dict(begin["headers"]), body["body"].decode()


def test_an_endpoint_that_an_app_mounts(engine: ContextEngine) -> None:
    asked(engine)
    app = MetricsApp(engine.store, PRICES)
    status, headers, body = answered(app)
    assert (status, body) == (200, text_of(engine))
    assert headers[b"content-type"].startswith(b"text/plain; version=0.0.4")
    assert answered(app, "HEAD")[::2] == (200, "")
    assert answered(app, "POST")[0] == 405


def test_a_store_that_is_away_is_down_and_no_error() -> None:
    engine = create_context_engine(store := SwitchStore(), config=TIGHT)
    asked(engine)
    app = MetricsApp(store, PRICES)
    assert "ce_store_up 1" in answered(app)[2]
    store.refuses = True
    status, _, body = answered(MetricsApp(store, PRICES))
    assert status == 200
    assert values(body) == {"ce_store_up": {(): 0}}


def test_in_starlette_beside_other_routes(engine: ContextEngine) -> None:
    pytest.importorskip("starlette", reason="it comes with frameworks")
    pytest.importorskip("httpx", reason="it comes with frameworks")
    import httpx
    from starlette.applications import Starlette
    from starlette.routing import Mount

    asked(engine)
    app = Starlette(routes=[Mount("/metrics", app=MetricsApp(engine.store, PRICES))])

    async def get() -> httpx.Response:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://ce") as client:
            return await client.get("/metrics/")

    found = asyncio.run(get())
    assert found.status_code == 200
    assert "ce_store_up 1" in found.text


# The command


@pytest.fixture
def url(tmp_path: Path) -> str:
    made = create_context_engine(found := url_of(tmp_path / "ce.db"), config=TIGHT)
    made.sync.check()
    asked(made)
    made.sync.close()
    return found


def test_the_command_prints_or_replaces_a_file_at_once(url: str, tmp_path: Path) -> None:
    printed = ce("metrics", "--store", url).stdout
    assert values(printed)["ce_store_up"] == {(): 1}
    (folder := tmp_path / "textfile").mkdir()
    file = folder / "ce.prom"
    file.write_text("before")
    done = ce("metrics", "--store", url, "--textfile", str(file))
    assert (done.exit_code, done.stdout) == (0, "")
    assert file.read_text(encoding="utf-8") == printed
    assert [path.name for path in folder.iterdir()] == ["ce.prom"]
    if os.name == "posix":
        assert file.stat().st_mode & 0o777 == 0o644


def test_a_store_that_cannot_be_read_leaves_the_file(tmp_path: Path) -> None:
    file = tmp_path / "ce.prom"
    file.write_text("before")
    done = ce("metrics", "--store", "sqlite:///none.db", "--textfile", str(file))
    assert done.exit_code == 1
    assert "there is no store" in done.stderr
    assert file.read_text() == "before"


@pytest.mark.parametrize(
    ("file", "words"), [("ce.txt", "does not end in .prom"), ("no/ce.prom", "is not there")]
)
def test_a_file_that_would_not_be_read(file: str, words: str) -> None:
    done = ce("metrics", "--store", "sqlite:///none.db", "--textfile", file)
    assert done.exit_code == 1
    assert words in done.stderr
