"""Copies of deleted evidence go from the store, however they are written there (A-30)."""

from __future__ import annotations

import html
import json

import pytest

from ce_engine import (
    EvidenceSource,
    EvidenceType,
    MemoryStore,
    Scope,
    SourceKind,
    create_context_engine,
)
from ce_engine.testing.host import HostApp


SCOPE = Scope(session_id="s", user_id="u")
QUOTE = "Kept By Mister Wang In The Blue Safe"
PLACE = f"The Gate Code Of The Warehouse In İstanbul Was {QUOTE}"
CHINESE = "北区仓库的大门密码由王小明保管在蓝色保险箱的第三层抽屉里面"
LINES = PLACE.replace(" ", '"\n"')
ROWS = "\n".join(f"the customer of row number {n} paid" for n in range(70))


@pytest.mark.req("A-30")
@pytest.mark.parametrize(
    ("text", "copy", "left"),
    [
        (PLACE, f"As I read: {QUOTE}, I think.", "As I read: [deleted], I think."),
        (CHINESE, json.dumps({"hits": [CHINESE]}), '{"hits": ["[deleted]"]}'),
        (LINES, json.dumps({"hits": [LINES]}), '{"hits": ["[deleted]"]}'),
        (f"A & <b>{PLACE}", html.escape(f"So: A & <b>{PLACE}"), "So: [deleted]"),
        (ROWS, "See: the customer of row number 69 paid", "See: [deleted]"),
    ],
    ids=["longer lower case", "Chinese in JSON", "JSON", "HTML", "the last of many rows"],
)
def test_a_copy_of_deleted_evidence_goes_with_it(text: str, copy: str, left: str) -> None:
    engine = create_context_engine(MemoryStore())
    HostApp(engine, SCOPE).ask("Hello?", copy)
    source = EvidenceSource(kind=SourceKind.RAG, name="library")
    found = engine.sync.record_evidence(SCOPE, text, source, EvidenceType.RAG_DOC)
    done = engine.sync.delete_evidence(SCOPE, found.evidence_id)
    document = engine.sync.get_session(SCOPE)
    assert document is not None
    said = document.session.messages[1]
    assert (said.content, done.cleared) == (left, [said.message_id])
    engine.sync.close()
