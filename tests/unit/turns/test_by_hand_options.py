"""What a caller by hand may ask for: renderings, redacted answers, contexts that can be made again (A-12, B-04, E-02)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from ce_engine import (
    BlockType,
    CharBasedEstimator,
    ContextBlock,
    ContextEngine,
    ContextPiece,
    EvidenceSource,
    EvidenceType,
    MemoryStore,
    Message,
    ObservabilityConfig,
    Priority,
    RedactionConfig,
    RedactionError,
    Ref,
    RenderConfig,
    Role,
    RuntimeConfig,
    Scope,
    SourceKind,
    create_context_engine,
)


SCOPE = Scope(session_id="s", user_id="u")
MAIL = "li.na@example.com"


class Notes:
    """A source whose notes may change."""

    name = "notes"
    section = "knowledge__context"

    def __init__(self) -> None:
        self.text = "The shop opens at nine."

    def fetch(self, scope: Scope, query: str, limit: int) -> Sequence[ContextPiece]:
        return [ContextPiece(self.text, score=0.9)]


def made(config: RuntimeConfig | None = None, *sources: Notes) -> ContextEngine:
    return create_context_engine(
        MemoryStore(), token_estimator=CharBasedEstimator(), config=config, sources=sources
    )


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    found = made()
    yield found
    found.sync.close()


def asked(engine: ContextEngine, text: str, config: RuntimeConfig | None = None) -> str:
    """What goes out for a question."""
    question = Message(role=Role.USER, content=text)
    turn = engine.sync.prepare_turn(SCOPE, question, config)
    engine.sync.fail_turn(SCOPE, "not_sent", turn_id=turn.report.turn_id)
    return "\n".join(part.content for part in turn.assembled_input.parts)


@pytest.mark.req("A-12")
def test_blocks_are_rendered_as_the_configuration_says(engine: ContextEngine) -> None:
    log = "\n".join(f"line {n} of the log" for n in range(1, 40))
    source = EvidenceSource(kind=SourceKind.TOOL, name="log")
    found = engine.sync.ingest(SCOPE, log, source, EvidenceType.OTHER)
    block = ContextBlock(
        block_id="b",
        block_type=BlockType.INSTRUCTION,
        priority=Priority.MUST,
        refs=[Ref(evidence_id=found.evidence_id)],
    )
    engine.sync.put_context_blocks(SCOPE, [block])
    rules = [
        asked(engine, "?", RuntimeConfig(render=render)).partition("|# From earlier")[0]
        for render in (
            RenderConfig(),
            RenderConfig(max_chars=200),
            RenderConfig(format="markdown"),
            RenderConfig(format="json"),
        )
    ]
    whole, short, markdown, as_json = rules
    assert "line 39 of the log" in whole
    assert "line 39" not in short
    assert "characters left out" in short
    assert f"— evidence {found.evidence_id[:8]}" in markdown
    assert '"block_id": "b"' in as_json


@pytest.mark.req("B-04")
def test_an_answer_is_redacted_on_demand_with_the_sessions_own_placeholders(
    engine: ContextEngine,
) -> None:
    asked(engine, f"Whose address is {MAIL}?")
    done = engine.sync.redact(SCOPE, f"{MAIL} 是李娜的，电话 13800138000。")
    assert done.text == "[EMAIL_1] 是李娜的，电话 [PHONE_1]。"
    assert (done.count, done.has_sensitive) == (2, True)
    assert engine.sync.redact(SCOPE, "Nothing in it.").text == "Nothing in it."
    # The number is the session's from now on.
    assert engine.sync.redact(SCOPE, "139-0013-9000, 13800138000").text == "[PHONE_2], [PHONE_1]"
    other = Scope(session_id="s", user_id="somebody else")
    assert engine.sync.redact(other, "li.wei@example.com").text == "[EMAIL_1]"


@pytest.mark.req("B-04")
def test_of_a_text_that_cannot_be_redacted_nothing_is_given() -> None:
    engine = made(RuntimeConfig(redaction=RedactionConfig(max_text_chars=100)))
    with pytest.raises(RedactionError, match="max_text_chars"):
        engine.sync.redact(SCOPE, MAIL * 10)
    engine.sync.close()


@pytest.mark.req("E-02", "A-21")
@pytest.mark.parametrize("text", ["The shop opens at nine.", f"Ask {MAIL}, 问李娜."])
def test_a_turn_whose_contexts_were_stored_is_made_again_when_its_sources_changed(
    text: str,
) -> None:
    notes = Notes()
    notes.text = text
    engine = made(RuntimeConfig(observability=ObservabilityConfig(store_contexts=True)), notes)
    asked(engine, "When does the shop open?")
    notes.text = "The shop is closed."
    replay = engine.sync.replay(SCOPE)
    sent = "\n".join(part.content for part in replay.sent.parts)
    assert "closed" not in sent
    if MAIL in text:
        assert "Ask [EMAIL_1], 问李娜." in sent
        assert MAIL not in str(engine.sync.list_turns(SCOPE))
        assert [p.detail for p in replay.problems] == [
            "1 of 1 materials are there as stored: redacted"
        ]
    else:
        assert text in sent
        assert replay.equal
    engine.sync.close()


@pytest.mark.req("E-02", "B-04")
def test_all_words_of_a_stored_context_are_redacted() -> None:
    class Words(Notes):
        def fetch(self, scope: Scope, query: str, limit: int) -> Sequence[ContextPiece]:
            piece = ContextPiece(
                "A piece.", at=f"2026, {MAIL}", sensitivity=f"owner {MAIL}", evidence_id=f"e {MAIL}"
            )
            return [piece, ContextPiece("Another.", at="2026-05-01T10:00:00Z", sensitivity="low")]

    engine = made(RuntimeConfig(observability=ObservabilityConfig(store_contexts=True)), Words())
    asked(engine, "When does the shop open?")
    stored = str(engine.sync.list_turns(SCOPE))
    assert "A piece." in stored
    assert MAIL not in stored
    assert "2026-05-01T10:00:00Z" in stored
    engine.sync.close()


@pytest.mark.req("E-02")
def test_else_only_digests_of_them_are_stored() -> None:
    notes = Notes()
    engine = made(None, notes)
    assert notes.text in asked(engine, "When does the shop open?")
    assert notes.text not in str(engine.sync.list_turns(SCOPE))
    notes.text = "The shop is closed."
    assert not engine.sync.replay(SCOPE).equal
    engine.sync.close()
