"""A detector finds what patterns cannot; whatever it does, nothing that it should see is stored unseen (B-04)."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from ce_engine import (
    ConfigError,
    ContextEngine,
    EvidenceSource,
    EvidenceType,
    PiiSpan,
    RedactionConfig,
    RuntimeConfig,
    Scope,
    SourceKind,
    StoreConfig,
    ToolRun,
    create_context_engine,
)
from ce_engine.testing.host import HostApp, user
from ce_engine.text.redaction.redact import PatternRedactor


SCOPE = Scope(user_id="u1", session_id="s1")
PATIENT = StoreConfig(deadline_s=20)  # a busy machine is no fault here
RAG = EvidenceSource(kind=SourceKind.RAG, name="handbook", uri="doc://handbook")


class Names:
    """Finds capital words behind `Mr` and `Ms`, and streets."""

    name = "names/1"
    labels = ("PERSON", "ADDRESS")

    def detect(self, text: str, locale: str) -> Iterable[PiiSpan]:
        for found in re.finditer(r"M[rs] ([A-Z][a-z]+)", text):
            yield PiiSpan(*found.span(1), "PERSON", 0.9)
        for found in re.finditer(r"[0-9]+ [A-Z][a-z]+ Street", text):
            yield PiiSpan(*found.span(), "ADDRESS", 0.6)


class Broken(Names):
    def detect(self, text: str, locale: str) -> Iterable[PiiSpan]:
        raise OSError(f"no model for {text}")


class Wrong(Names):
    def detect(self, text: str, locale: str) -> Iterable[PiiSpan]:
        return [PiiSpan(0, 10_000, "PERSON")]


class Unlabelled(Names):
    def detect(self, text: str, locale: str) -> Iterable[PiiSpan]:
        return [PiiSpan(0, 1, "SECT")]


class Hanging(Names):
    """Never answers before the test ends."""

    def __init__(self) -> None:
        self.go_on = threading.Event()

    def detect(self, text: str, locale: str) -> Iterable[PiiSpan]:
        self.go_on.wait(60)
        return []


def opened(tmp_path: Path, **redaction: Any) -> ContextEngine:
    config = RuntimeConfig(store=PATIENT, redaction=RedactionConfig(**redaction))
    return create_context_engine(f"sqlite:///{tmp_path / 'ce.db'}", config=config)


def stored(engine: ContextEngine) -> str:
    assert engine.sync.flush()
    document = engine.loop.run(engine.store.get_session(SCOPE))
    assert document is not None
    told = engine.loop.run(engine.store.list_events(SCOPE))
    return document.model_dump_json() + "".join(str(event.payload) for event in told)


@pytest.mark.req("B-04")
def test_names_are_nowhere_in_the_store(tmp_path: Path) -> None:
    engine = opened(tmp_path, detector=Names())
    app = HostApp(engine, SCOPE)
    app.ask("I am Mr Quisling, mail quisling@example.com", "Hello Mr Quisling of 7 Elm Street!")
    engine.sync.record_tool_run(
        SCOPE,
        ToolRun("crm", {"who": "Ms Xanthippe", "n": [1, {"to": "Mr Quisling"}]}, "Ms Xanthippe"),
    )
    engine.sync.record_evidence(
        SCOPE, "By Ms Xanthippe.", RAG, EvidenceType.RAG_DOC, metadata={"by": "Ms Xanthippe"}
    )
    engine.sync.record_event(SCOPE, "hitl", {"asks": "Mr Quisling"})
    text = stored(engine)
    assert "Mr [PERSON_1], mail [EMAIL_1]" in text
    assert "Hello Mr [PERSON_1] of [ADDRESS_1]!" in text
    assert "By Ms [PERSON_2]." in text
    for path in tmp_path.iterdir():
        data = path.read_bytes()
        assert not any(word in data for word in (b"Quisling", b"Xanthippe", b"Elm Street"))
    engine.sync.close()


@pytest.mark.req("B-04")
def test_live_names_come_back_where_the_engine_itself_puts_them_in() -> None:
    detector = Names()
    redactor = PatternRedactor.configured(RedactionConfig(detector=detector))
    bound = redactor.bind(b"k" * 32, [], "en")
    done = bound.detecting().text("Ms Xanthippe called")
    assert done.text == "Ms [PERSON_1] called"
    assert done.rules == ("detector_person",)
    assert bound.restore(done.text).text == "Ms Xanthippe called"
    assert bound.text("Ms Xanthippe").text == "Ms Xanthippe"  # a name of a tool or an id


class Greedy(Names):
    """Takes half of what a pattern finds, and more beside it."""

    def detect(self, text: str, locale: str) -> Iterable[PiiSpan]:
        return [PiiSpan(0, text.index("4111") + 9, "PERSON")] if "4111" in text else []


@pytest.mark.req("B-04")
def test_a_detector_never_takes_from_what_patterns_find() -> None:
    config = RedactionConfig(detector=Greedy())
    bound = PatternRedactor.configured(config).bind(b"k" * 32, [], "en").detecting()
    assert bound.text("Jo 4111 1111 1111 1111").text == "[PERSON_1] [CARD_1]"


@pytest.mark.req("B-04")
def test_what_the_detector_is_less_sure_of_is_left() -> None:
    config = RedactionConfig(detector=Names(), detector_min_score=0.7)
    bound = PatternRedactor.configured(config).bind(b"k" * 32, [], "en").detecting()
    assert bound.text("Mr Quisling, 7 Elm Street").text == "Mr [PERSON_1], 7 Elm Street"


@pytest.mark.req("B-04")
@pytest.mark.parametrize(
    "detector", [Broken(), Wrong(), Unlabelled()], ids=lambda d: type(d).__name__
)
def test_what_a_broken_detector_did_not_read_is_not_stored(detector: Names, tmp_path: Path) -> None:
    engine = opened(tmp_path, detector=detector)
    report = HostApp(engine, SCOPE).ask("I am Mr Quisling", "Hello Mr Quisling!").report
    assert "CONTEXT_REDACTION_FAILED" in report.degradations
    engine.sync.record_tool_run(SCOPE, ToolRun("crm", {"who": "Mr Quisling"}, "Mr Quisling"))
    text = stored(engine)
    assert "Quisling" not in text
    state = engine.loop.run(engine.store.state(SCOPE))
    assert state is not None
    assert [(row.withheld, row.length) for row in state.rows] == [(True, 16), (True, 18)]
    engine.sync.close()


@pytest.mark.req("B-04")
def test_a_detector_that_hangs_stops_nobody_and_nothing_unread_is_stored(tmp_path: Path) -> None:
    detector = Hanging()
    engine = opened(tmp_path, detector=detector, timeout_s=0.2)
    app = HostApp(engine, SCOPE)
    report = app.ask("I am Mr Quisling", "Hello Mr Quisling!").report
    assert "CONTEXT_REDACTION_LIMIT" in report.degradations
    assert "Quisling" not in stored(engine)
    detector.go_on.set()
    engine.sync.close()


@pytest.mark.req("B-04")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_asks_a_thread_of_its_own() -> None:
    redactor = PatternRedactor.configured(RedactionConfig(detector=Names()))
    bound = redactor.bind(b"k" * 32, [], "en").detecting()
    assert bound.text("Mr Quisling here").count == 1
    child = os.fork()
    if child == 0:
        os._exit(0 if bound.text("Mr Otherwise there").count == 1 else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.req("B-04")
def test_rows_say_which_detector_read_them() -> None:
    plain = PatternRedactor.configured(RedactionConfig())
    assert PatternRedactor.configured(RedactionConfig(detector=Names())).version != plain.version


@pytest.mark.req("B-04")
def test_what_is_no_detector_is_refused_and_so_is_one_that_nobody_would_ask() -> None:
    with pytest.raises(ConfigError, match="name, labels and detect"):
        RedactionConfig(detector=object())
    config = RuntimeConfig(redaction=RedactionConfig(detector=Names()))
    with pytest.raises(ConfigError, match="leave one of them out"):
        create_context_engine("memory://", config=config, redactor=PatternRedactor())


# Kinds of content


def written(engine: ContextEngine) -> str:
    app = HostApp(engine, SCOPE)
    app.ask("message-xyzzy", "answer-xyzzy")
    engine.sync.record_tool_run(SCOPE, ToolRun("crm", {"q": "argument-xyzzy"}, "result-xyzzy"))
    engine.sync.record_evidence(
        SCOPE, "evidence-xyzzy", RAG, EvidenceType.RAG_DOC, metadata={"m": "metadata-xyzzy"}
    )
    engine.sync.record_event(SCOPE, "hitl", {"p": "payload-xyzzy"})
    text = stored(engine)
    engine.sync.close()
    return " ".join(sorted(set(re.findall("([a-z]+)-xyzzy", text))))


@pytest.mark.req("A-30", "B-04")
@pytest.mark.parametrize(
    ("redaction", "left"),
    [
        ({}, "answer argument evidence message metadata payload result"),
        ({"content": "pointer"}, "metadata payload"),
        ({"content": "pointer", "fields": {"tool_arguments": "redact"}}, "argument metadata payload"),
        ({"content": "pointer", "fields": {"metadata": "pointer", "payloads": "pointer"}}, ""),
        ({"fields": {"tool_results": "pointer"}}, "answer argument evidence message metadata payload"),
        ({"fields": {"messages": "pointer"}}, "argument evidence metadata payload result"),
    ],
)  # fmt: skip
def test_each_kind_of_content_has_a_policy(
    redaction: dict[str, Any], left: str, tmp_path: Path
) -> None:
    assert written(opened(tmp_path, **redaction)) == left


@pytest.mark.req("B-04")
def test_a_kind_may_be_read_by_patterns_alone_or_stored_as_it_is(tmp_path: Path) -> None:
    fields: dict[str, Any] = {"tool_results": "patterns", "metadata": "stored"}
    engine = opened(tmp_path, detector=Names(), fields=fields)
    engine.sync.record_tool_run(SCOPE, ToolRun("crm", {}, "Mr Quisling, a@example.com"))
    meta = {"by": "Mr Otherwise, b@example.com"}
    engine.sync.record_evidence(SCOPE, "x", RAG, EvidenceType.RAG_DOC, metadata=meta)
    text = stored(engine)
    assert "Mr Quisling, [EMAIL_1]" in text
    assert "Mr Otherwise, b@example.com" in text
    engine.sync.close()


# Streams that break off


@pytest.mark.req("B-04")
@pytest.mark.parametrize(
    "pieces",
    [
        ["The card is 4111 11", "11 1111"],
        ["Call 1391", "2345"],
        ["Write to anna.mil", "ler@examp"],
        ["The key is sk-pro", "j-a1B2"],
        ["password: hunt"],
    ],
)
def test_the_beginning_of_a_value_is_not_stored(pieces: list[str], tmp_path: Path) -> None:
    engine = opened(tmp_path)
    app = HostApp(engine, SCOPE)
    prepared = app.prepare(user("Well?"))
    for at, piece in enumerate(pieces):
        engine.chunk(prepared.turn, at, piece)
    engine.sync.fail_turn(SCOPE, "Broken", turn_id=prepared.turn.turn_id)
    text = stored(engine)
    assert "[CUT_OFF]" in text
    # Ids are random, and of hexadecimal digits.
    assert not re.search("(?<![0-9a-f])(?:4111|1391)(?![0-9a-f])|anna.mil|sk-pro|hunt", text)
    engine.sync.close()
