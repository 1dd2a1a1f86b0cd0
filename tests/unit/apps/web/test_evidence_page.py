"""The pages of evidence and of what an answer rests on: the graph, the texts, and conflicts side by side."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from ce_engine import (
    BudgetConfig,
    ContextEngine,
    EvidenceSource,
    EvidenceType,
    Message,
    Retrieval,
    RetrievedDoc,
    Role,
    RuntimeConfig,
    Scope,
    SourceKind,
    create_context_engine,
)
from ce_engine.apps.present.evidence_graph import Graph, Node, graph
from ce_engine.apps.present.graph_svg import drawing
from ce_engine.testing.host import HostApp, system
from tests.hosts.cli_host import TALK, ce, url_of
from tests.unit.apps.web.hostile import RAW, SCOPE, fill_hostile
from tests.unit.apps.web.visiting import plain, texts, visit


WHO = {"id": TALK.session_id, "user": TALK.user_id}


def document_of(url: str) -> dict[str, Any]:
    shown = ce("show", TALK.session_id, "--json", "--store", url, "--account", "acme")
    found: dict[str, Any] = json.loads(shown.stdout)
    return found


def ids(url: str) -> tuple[str, str]:
    """The answer that rests on a document, and the document."""
    document = document_of(url)
    answer = next(
        m for m in document["session"]["messages"] if m["content"].startswith("Water that")
    )
    rain = next(i for i, e in document["evidences"].items() if e["source"]["uri"] == "doc://rain")
    return answer["message_id"], rain


def drawn(html: str) -> ET.Element:
    svg = re.search(r'<svg class="graph .*?</svg>', html, re.DOTALL)
    assert svg is not None
    return ET.fromstring(svg[0])


def test_an_answer_leads_to_its_source_and_back(talk_pages: TestClient, talk_url: str) -> None:
    answer, rain = ids(talk_url)
    html = talk_pages.get("/trace", params={**WHO, "message": answer}).text
    told = " ".join(drawn(html).itertext())
    for word in ("library", "Rain is water", "Water that falls"):
        assert word in told
    links = [a.get("href") or "" for a in drawn(html).iter("a")]
    to_rain = next(link for link in links if rain in link)
    back = talk_pages.get(to_rain)
    assert back.status_code == 200
    again = [a.get("href") or "" for a in drawn(back.text).iter("a")]
    assert any(answer in link for link in again)


def test_the_same_stands_in_a_table(talk_pages: TestClient, talk_url: str) -> None:
    answer, rain = ids(talk_url)
    html = talk_pages.get("/trace", params={**WHO, "message": answer}).text
    cells = texts(html, "td")
    assert rain.split("-")[0] in cells
    assert any("Rain is water that falls from clouds." in cell for cell in cells)


def test_a_result_of_a_tool_went_where_its_message_went(
    talk_pages: TestClient, talk_url: str
) -> None:
    evidences = document_of(talk_url)["evidences"]
    weather = next(name for name, each in evidences.items() if each["content"] == "4 度")
    html = talk_pages.get("/evidence", params={**WHO, "evidence": weather}).text
    told = " ".join(re.sub("<[^>]+>", " ", html.partition("Where it went, by turns:")[2]).split())
    assert re.match("as a message 2 ?– ?[0-9]+", told), told[:80]


def test_what_is_not_there_is_not_found(talk_pages: TestClient) -> None:
    for path, name in (("/evidence", "evidence"), ("/trace", "message")):
        assert talk_pages.get(path, params={**WHO, name: "nothing"}).status_code == 404
        assert talk_pages.get(path, params={**WHO, name: ""}).status_code == 404


def test_chinese_is_whole(talk_pages: TestClient, talk_url: str) -> None:
    answer, _ = ids(talk_url)
    html = talk_pages.get(
        "/trace", params={**WHO, "message": answer}, headers={"accept-language": "zh"}
    ).text
    assert "此消息的依据" in html
    assert "从来源到回答" in html
    assert "From the source" not in html


@pytest.fixture(scope="module")
def hostile_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return fill_hostile(tmp_path_factory.mktemp("hostile"))


@pytest.fixture
def hostile(hostile_url: str) -> Iterator[TestClient]:
    with visit(hostile_url) as client:
        yield client


def test_hostile_texts_harm_nothing_and_long_ones_come_in_parts(
    hostile: TestClient, hostile_url: str
) -> None:
    engine = create_context_engine(hostile_url)
    document = engine.sync.get_session(SCOPE)
    engine.sync.close()
    assert document is not None
    who = {"id": SCOPE.session_id, "user": SCOPE.user_id}
    pages = [("/evidence", {"evidence": name}) for name in document.evidences]
    pages += [("/trace", {"message": m.message_id or ""}) for m in document.session.messages]
    for path, more in pages:
        answer = hostile.get(path, params={**who, **more})
        assert answer.status_code == 200
        assert len(answer.text) < 200_000
        assert [raw for raw in RAW if raw in answer.text] == []
        assert not re.search(r'href="\s*javascript:', answer.text)
    huge = max(document.session.messages, key=lambda m: len(m.content))
    if len(huge.content) > 100_000:  # more is not stored with its content
        part = hostile.get("/trace", params={**who, "message": huge.message_id or "", "part": "2"})
        assert "part 2 of" in part.text


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[ContextEngine]:
    made = create_context_engine(url_of(tmp_path / "ce.db"))
    made.sync.check()
    yield made
    made.sync.close()


def test_conflicts_stand_side_by_side(engine: ContextEngine) -> None:
    scope = Scope(session_id="s", user_id="u")
    app = HostApp(engine, scope, [system("You help.")])
    for name, limit in (("handbook", 100), ("wiki", 250)):
        engine.sync.record_evidence(
            scope,
            str(limit),
            EvidenceSource(kind=SourceKind.RAG, name=name),
            EvidenceType.RAG_DOC,
            metadata={"field": "limit", "value": str(limit)},
        )
    found = engine.sync.prepare_turn(scope, [_asks("What is the limit?")])
    app.engine.sync.flush()
    assert found.report.conflicts
    html = _look(engine, "/turn", {"turn": "1"}, scope)
    assert "Sources disagree" in html
    assert {"handbook", "wiki"} <= set(texts(html, "h3"))
    assert "none of them was left out because of that; a note names what each of them says" in html
    assert {f"{n} · went out quoted, whole or in part" for n in (100, 250)} <= set(texts(html, "p"))
    evidence = found.report.conflicts[0].evidence_ids[0]
    assert "Sources disagree" in _look(engine, "/evidence", {"evidence": evidence}, scope)
    for turn in (1, 2):
        if turn == 2:
            again = engine.sync.prepare_turn(scope, [_asks("And once more, what is the limit?")])
            assert again.report.conflicts
        said = Message(role=Role.ASSISTANT, content=f"It is 100 or 250, I said {turn} times.")
        engine.sync.commit_assistant_message(scope, said)
    engine.sync.flush()
    document = engine.sync.get_session(scope)
    assert document is not None
    answers = [m.message_id for m in document.session.messages if m.role is Role.ASSISTANT]
    for turn, answer in enumerate(answers, start=1):
        page = _look(engine, "/trace", {"message": answer or ""}, scope)
        assert re.findall(r"met in turn (\d+)", page) == [str(turn)]


@pytest.mark.parametrize(
    ("language", "told"),
    [
        ("en", "2026-06-05 · left out: only this value went out, in the note"),
        ("zh", "2026-06-05 · 未发出：只有这个值在说明中发出"),
    ],
)
def test_of_a_source_without_room_the_value_is_told(
    engine: ContextEngine, language: str, told: str
) -> None:
    scope = Scope(session_id="s", user_id="u")
    for name, day, count in (("track", "2026-06-11", 0), ("find", "2026-06-05", 2000)):
        engine.sync.record_evidence(
            scope,
            json.dumps({"order_id": "Q-204", "promised": day, "more": ["0x7F "] * count}),
            EvidenceSource(kind=SourceKind.RAG, name=name),
            EvidenceType.RAG_DOC,
        )
    config = RuntimeConfig(budget=BudgetConfig(max_input_tokens=700))
    engine.sync.prepare_turn(scope, [_asks("When is order Q-204 promised?")], config)
    with engine_pages(engine, language) as client:
        evidence = _evidence_of(engine, scope, "find")
        for path, name, one in (("/turn", "turn", "1"), ("/evidence", "evidence", evidence)):
            html = client.get(path, params={"id": "s", "user": "u", name: one}).text
            shown = set(texts(html, "p"))
            assert told in shown, path
            assert any(each.startswith("2026-06-11 · ") for each in shown)
            assert "$.promised" not in html


@pytest.mark.parametrize(
    ("language", "told"), [("en", "No quoted source was found"), ("zh", "没有找到被引用的来源")]
)
def test_where_nothing_is_quoted_that_is_said(
    engine: ContextEngine, language: str, told: str
) -> None:
    scope = Scope(session_id="s", user_id="u")
    source = EvidenceSource(kind=SourceKind.RAG, name="policy", uri="returns-2026.md")
    text = "Returns policy 2026. Opened tins can be returned within 14 days, the shop pays for it."
    engine.sync.record_evidence(scope, text, source, EvidenceType.RAG_DOC)
    for said in ("By the policy of 2026 it is 14 days.", "Within 14 days, the shop pays for it."):
        prepared = engine.sync.prepare_turn(scope, [_asks("What is the return window?")])
        turn_id = prepared.report.turn_id
        engine.sync.commit_assistant_message(scope, _says(said), turn_id=turn_id)
    engine.sync.flush()
    document = engine.sync.get_session(scope)
    assert document is not None
    answers = [m.message_id for m in document.session.messages if m.role is Role.ASSISTANT]
    with engine_pages(engine, language) as client:
        pages = [
            client.get("/trace", params={"id": "s", "user": "u", "message": each or ""}).text
            for each in answers
        ]
    assert [told in html for html in pages] == [True, False]
    shown = [ce("trace", "s", each or "", "--store", engine.store.url).stdout for each in answers]
    assert ["No quoted source was found" in each for each in shown] == [True, False]


def _evidence_of(engine: ContextEngine, scope: Scope, name: str) -> str:
    engine.sync.flush()
    document = engine.sync.get_session(scope)
    assert document is not None
    return next(i for i, e in document.evidences.items() if e.source.name == name)


@contextmanager
def engine_pages(engine: ContextEngine, language: str) -> Iterator[TestClient]:
    engine.sync.flush()
    with visit(engine.store.url) as client:
        client.headers["accept-language"] = language
        yield client


def _says(text: str) -> Message:
    return Message(role=Role.ASSISTANT, content=text)


def _asks(text: str) -> Message:
    return Message(role=Role.USER, content=text)


def _look(engine: ContextEngine, path: str, more: dict[str, str], scope: Scope) -> str:
    engine.sync.flush()
    with visit(engine.store.url) as client:
        answer = client.get(path, params={"id": scope.session_id, "user": scope.user_id, **more})
    assert answer.status_code == 200
    return answer.text


def test_evidence_that_many_saw_is_drawn_for_some(engine: ContextEngine) -> None:
    scope = Scope(session_id="s", user_id="u")
    app = HostApp(engine, scope, [system("You help.")])
    documents = [RetrievedDoc("Rain is water that falls from clouds.", uri="doc://rain", score=0.9)]
    for n in range(30):
        hit = Retrieval("library", "What is rain?", documents, f"run-{n}", duration_ms=3)
        engine.post_retrieval(scope, hit, request_id=f"request-{n + 1}", framework="by-hand")
        app.ask(f"What is rain {n}?", "Rain is water that falls from clouds.")
    engine.sync.flush()
    document = engine.sync.get_session(scope)
    assert document is not None
    rain = next(e for e in document.evidences.values() if e.source.uri == "doc://rain")
    found = engine.sync.trace(scope, rain.evidence_id)
    made = graph(found, document, {})
    assert len(found.evidence[0].used_by) == 30
    assert made.left_out == 30 - sum(
        node.kind == "message" and node.column == 3 for node in made.nodes.values()
    )
    html = _look(engine, "/evidence", {"evidence": rain.evidence_id}, scope)
    assert "more are not drawn" in html
    (rest,) = re.findall(r'<p class="rest">(.*?)</p>', html, re.DOTALL)
    assert plain(rest).replace(" – ", "–") == "and in turns 7–30"
    assert len(re.findall(r'href="/turn[^"]*turn=(?:7|30)"', rest)) == 2


def test_a_graph_is_well_formed_whatever_it_says() -> None:
    made = Graph()
    made.add("a", Node("1", "document", 1, '"><script>', "\x1b[31m \u202e 中文" * 40, 3))
    made.add("b", Node("2", "evidence", 2, "<b>", is_asked=True))
    made.link("a", "b", is_firm=False)
    svg = drawing(made, lambda node: f"/x?{node.id}&y=\"'>")
    ET.fromstring(svg)
    assert [raw for raw in RAW if raw in svg] == []
    ET.fromstring(drawing(Graph(), lambda _: ""))
