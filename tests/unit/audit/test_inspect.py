"""A look at what would be sent: for those who may, and without a trace but the one that they looked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ce_engine import (
    BudgetConfig,
    CharBasedEstimator,
    ContextEngine,
    EventType,
    EvidenceSource,
    EvidenceType,
    InspectForbiddenError,
    MemoryStore,
    Message,
    ModelCall,
    ObservabilityConfig,
    Retrieval,
    RetrievedDoc,
    Role,
    RuntimeConfig,
    Scope,
    ScopeViolationError,
    SourceKind,
    StoreConfig,
    Task,
    create_context_engine,
)
from ce_engine.schema.rows import SessionState
from ce_engine.stores.tables import SqlStore
from ce_engine.testing.host import HostApp, system, user
from tests.hosts.cli_host import TALK, TIGHT, ce, fill, url_of
from tests.unit.ports.test_port_contracts import Notes


SCOPE = Scope(session_id="s", user_id="张伟")
LOOKING = RuntimeConfig(
    budget=BudgetConfig(max_input_tokens=500, reserved_reply_tokens=0),
    observability=ObservabilityConfig(inspect=True),
)


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    made = create_context_engine(
        MemoryStore(), token_estimator=CharBasedEstimator(), config=LOOKING
    )
    yield made
    made.sync.close()


def chat(engine: ContextEngine) -> HostApp:
    app = HostApp(engine, SCOPE, [system("You help.")])
    app.ask("The 库房编号 is 7391.", "Noted.")
    for n in range(12):
        app.ask(f"Tell me about item {n}. " * 4, f"Item {n} is a lamp.")
    engine.sync.flush()
    return app


def events(engine: ContextEngine, kind: EventType) -> list[dict[str, object]]:
    engine.sync.flush()
    found = engine.loop.run(engine.store.list_events(SCOPE))
    return [event.payload for event in found if event.event_type == kind]


@pytest.mark.req("D-08")
def test_every_layer_has_its_content_and_tokens(engine: ContextEngine) -> None:
    app = chat(engine)
    call = ModelCall(SCOPE, [*app.messages, user("What is the 库房编号?")])
    seen = engine.sync.inspect(call, actor="张伟")
    assert list(seen.layers) == ["rules", "settings", "retrieved", "immediate"]
    assert [part.content for part in seen.layers["rules"].parts] == ["You help."]
    assert "7391" in seen.layers["retrieved"].parts[0].content
    assert seen.layers["immediate"].parts[-1].content == "What is the 库房编号?"
    assert seen.layers["immediate"].truncated
    assert seen.budget == 500
    assert 0 < seen.tokens <= 500
    priming = 3
    assert sum(layer.tokens for layer in seen.layers.values()) + priming == seen.tokens
    # What is then sent is what was seen.
    assert app.prepare(user("What is the 库房编号?")).report.token_used == seen.tokens


@pytest.mark.req("D-08")
def test_a_session_and_a_question_are_enough(engine: ContextEngine) -> None:
    chat(engine)
    seen = engine.sync.inspect((SCOPE, "What is the 库房编号?"), actor="张伟")
    same = Message(role=Role.USER, content="What is the 库房编号?")
    assert engine.sync.inspect((SCOPE, same), actor="张伟").tokens == seen.tokens
    actions = [part.action for part in seen.layers["immediate"].parts]
    assert actions[-1] == "kept"
    assert set(actions[:-1]) == {"restored"}


@pytest.mark.req("D-08", "D-14")
def test_who_looked_is_an_event_without_content(engine: ContextEngine) -> None:
    chat(engine)
    engine.sync.inspect((SCOPE, "my secret question"), actor="张伟")
    (payload,) = events(engine, EventType.INSPECTED)
    assert set(payload) == {"what", "actor", "input"}
    assert "secret" not in json.dumps(payload)
    assert "张伟" not in json.dumps(payload, ensure_ascii=False)
    assert engine.sync.verify(SCOPE).status == "intact"


@pytest.mark.req("D-08")
def test_others_are_refused_and_it_is_told(engine: ContextEngine) -> None:
    chat(engine)
    with pytest.raises(InspectForbiddenError) as error:
        engine.sync.inspect((SCOPE, "What is the 库房编号?"), actor="mallory")
    assert error.value.code == "CONTEXT_INSPECT_FORBIDDEN"
    (payload,) = events(engine, EventType.ACCESS_DENIED)
    assert payload["what"] == "inspect"
    assert events(engine, EventType.INSPECTED) == []


@pytest.mark.req("D-08")
def test_a_call_cannot_switch_it_on(engine: ContextEngine) -> None:
    off = create_context_engine(engine.store, token_estimator=CharBasedEstimator())
    call = ModelCall(SCOPE, [user("?")], config=LOOKING)
    with pytest.raises(InspectForbiddenError, match=r"observability\.inspect"):
        off.sync.inspect(call, actor="张伟")


@pytest.mark.req("D-08")
def test_an_operator_decides_who_may_look() -> None:
    engine = create_context_engine(
        MemoryStore(),
        token_estimator=CharBasedEstimator(),
        config=LOOKING,
        authorize=lambda actor, _, scope: actor == f"support of {scope.user_id}",
    )
    chat(engine)
    assert engine.sync.inspect((SCOPE, "?"), actor="support of 张伟").tokens
    with pytest.raises(InspectForbiddenError):
        engine.sync.inspect((SCOPE, "?"), actor="张伟")
    engine.sync.close()


@pytest.mark.req("D-08")
def test_a_session_that_is_not_there_is_not_begun(engine: ContextEngine) -> None:
    seen = engine.sync.inspect((SCOPE, "Hello?"), actor="张伟")
    assert [part.content for part in seen.layers["immediate"].parts] == ["Hello?"]
    with pytest.raises(InspectForbiddenError):
        engine.sync.inspect((SCOPE, "Hello?"), actor="mallory")
    engine.sync.flush()
    assert engine.loop.run(engine.store.get_session(SCOPE)) is None


@pytest.mark.req("D-08", "D-10")
def test_another_project_is_refused(engine: ContextEngine) -> None:
    own = Scope(session_id="s", user_id="张伟", project_id="a")
    HostApp(engine, own).ask("one", "1")
    with pytest.raises(ScopeViolationError):
        engine.sync.inspect((SCOPE, "?"), actor="张伟")


@pytest.mark.req("D-08")
def test_the_command_shows_the_layers(tmp_path_factory: pytest.TempPathFactory) -> None:
    url = url_of(tmp_path_factory.mktemp("store") / "ce.db")
    fill(url, chatter=3)
    at = (TALK.session_id, "--store", url, "--account", "acme")
    shown = ce("inspect", TALK.session_id, "奥斯陆天气如何?", *at[1:])
    assert shown.exit_code == 0, shown.stderr
    assert "immediate" in shown.stdout
    assert "奥斯陆天气如何?" in shown.stdout
    found = json.loads(ce("inspect", *at, "--json").stdout)
    assert found["layers"]["immediate"]["parts"][-1]["content"].startswith("Tell me about topic 2")
    assert found["tokens"] > 0


@pytest.mark.req("D-08")
def test_the_command_answers_with_the_recorded_configuration(tmp_path: Path) -> None:
    """The app's own budget; another file says otherwise."""
    fill(url := url_of(tmp_path / "ce.db"), chatter=9)
    at = (TALK.session_id, "--store", url, "--account", "acme")
    found = json.loads(ce("inspect", *at, "--json").stdout)
    assert found["budget"] == TIGHT.budget.max_context_tokens
    assert found["tokens"] <= found["budget"]
    assert "configuration of its newest turn" in ce("inspect", *at).stdout

    other = tmp_path / "wide.toml"
    other.write_text("[budget]\nmax_input_tokens = 9000\n", "utf-8")
    wide = json.loads(ce("inspect", *at, "--config", str(other), "--json").stdout)
    assert wide["budget"] == BudgetConfig(max_input_tokens=9000).max_context_tokens
    assert wide["tokens"] > found["tokens"]


@pytest.mark.req("D-08")
@pytest.mark.parametrize("last", ["ann", "bob"])
def test_the_command_answers_for_the_agent_that_was_asked_last(tmp_path: Path, last: str) -> None:
    """Two agents of a team keep a list and hits each; what one of them has is nothing of the other's."""
    found = {"ann": "The 库房编号 of ann is 7391.", "bob": "The 库房编号 of bob is 8442."}
    engine = create_context_engine(url := url_of(tmp_path / "ce.db"), config=TIGHT)
    for name in sorted(found, key=lambda name: name == last):
        lane, app = f"team/{name}", HostApp(engine, TALK)
        hit = Retrieval("pages", "库房编号", [RetrievedDoc(found[name])])
        engine.post_retrieval(TALK, hit, request_id=name, lane_key=lane)
        app.ask(f"Begin, {name}.", f"It is done by {name}.", lane_key=lane, request_id=name)
    engine.sync.close()
    asked = ("inspect", TALK.session_id, "What is the 库房编号?", "--store", url)
    layers = json.loads(ce(*asked, "--account", "acme", "--json").stdout)["layers"]
    sent = "\n".join(part["content"] for layer in layers.values() for part in layer["parts"])
    other = "bob" if last == "ann" else "ann"
    assert found[last] in sent
    assert f"It is done by {last}." in sent
    assert found[other] not in sent


class Slow(SqlStore):
    """A store that takes longer than a turn of an app waits for it."""

    async def state(self, *args: Any, **more: Any) -> SessionState | None:
        await asyncio.sleep(2 * StoreConfig().deadline_s)
        return await super().state(*args, **more)


@pytest.mark.req("D-08")
def test_the_command_waits_for_a_slow_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = url_of(tmp_path / "ce.db")
    fill(url)
    monkeypatch.setattr("ce_engine.apps.cli.reading.open_store", Slow)
    shown = ce("inspect", TALK.session_id, "?", "--store", url, "--account", "acme")
    assert shown.exit_code == 0, shown.stderr
    assert "restored user" in shown.stdout


@pytest.mark.req("D-01", "D-08")
def test_every_part_says_where_it_is_from() -> None:
    config = RuntimeConfig(observability=ObservabilityConfig(inspect=True))
    engine = create_context_engine(MemoryStore(), config=config, sources=[Notes()])
    scope = Scope(session_id="s", user_id="u")
    engine.sync.constraints.create(scope, "Be polite.")
    engine.sync.upsert_tasks(scope, [Task(task_id="t", name="查订单")])
    wiki = EvidenceSource(kind=SourceKind.RAG, name="kb")
    engine.sync.ingest(scope, "The shop opens at nine.", wiki, EvidenceType.RAG_DOC)
    engine.sync.prepare_turn(scope, Message(role=Role.USER, content="Is it open?"))
    engine.sync.commit_assistant_message(scope, Message(role=Role.ASSISTANT, content="At nine."))
    seen = engine.sync.inspect((scope, "When does the shop open?"), actor="u")
    rules, _, retrieved, immediate = (
        [(part.content.strip(), *part.sources) for part in seen.layers[layer].parts]
        for layer in ("rules", "settings", "retrieved", "immediate")
    )

    def sources(text: str, parts: list[tuple[str, ...]]) -> list[str]:
        return next(rest for content, *rest in parts if text in content)

    assert sources("Be polite.", rules) == ["constraints"]
    assert sources("查订单", immediate) == ["tasks"]
    assert sources("When does the shop open? 0", retrieved) == ["notes"]
    assert sources("The shop opens at nine.", retrieved) == ["evidence"]
    assert ("At nine.", "session") in immediate
    assert immediate[-1] == ("When does the shop open?", "host")
    engine.sync.close()
