"""Documents of every schema version that was ever read are read, and the changes are told (A-06)."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ce_engine import (
    MemoryStore,
    MigrationError,
    Migrator,
    SchemaValidationError,
    Scope,
    check_invariants,
    parse_document,
)
from ce_engine.schema.document import SCHEMA_VERSION
from ce_engine.schema.migration import STEPS
from ce_engine.testing import samples


pytestmark = pytest.mark.req("A-06")

OLDEST = "1.0"
EMPTY = {"schema_version": OLDEST, "session": {"session_id": "s"}}
# As the schema was first written down, with every part of it.
FILLED: dict[str, Any] = {
    "schema_version": OLDEST,
    "session": {
        "session_id": "会话-1",
        "messages": [
            {
                "role": "user",
                "content": "订单在哪里?",
                "author": {"kind": "user", "id": "张伟"},
                "at": "2025-01-01T00:00:00Z",
                "refs": None,
            },
            {
                "role": "assistant",
                "content": "明天到。",
                "author": None,
                "at": "2025-01-01T00:00:01Z",
                "refs": [{"evidence_id": "e1", "selector": "json:$.eta"}],
            },
        ],
        "summary": {
            "content": "问订单",
            "updated_at": "2025-01-01T00:00:02Z",
            "message_index_range": {"from_index": 0, "to_index": 1},
        },
        "task_state": {
            "todo_list": {"tasks": [{"task_id": "k1", "name": "查订单", "status": "completed"}]}
        },
        "tool_state": {
            "tool_calls": [
                {
                    "tool_call_id": "c1",
                    "tool": "orders",
                    "provider": {"kind": "mcp", "name": "shop", "uri": "mcp://shop"},
                    "type": "tool",
                    "called_at": "2025-01-01T00:00:00Z",
                    "args_digest": {"id": 7},
                    "status": "success",
                    "duration_ms": 12,
                    "result_evidence_ids": ["e1"],
                    "task_id": None,
                }
            ]
        },
        "model_usage": [{"model_usage_id": "u1", "provider": "p", "model": "m", "stage": "answer"}],
    },
    "evidences": {
        "e1": {
            "evidence_id": "e1",
            "type": "tool_result",
            "source": {"kind": "tool", "name": "orders", "uri": ""},
            "content": '{"eta": "明天"}',
            "confidence": 0.9,
            "metadata": {"tags": {"domain": "shop"}},
            "links": {"model_usage_id": None, "tool_call_id": "c1"},
        }
    },
    "context_blocks": [
        {
            "block_id": "b1",
            "block_type": "evidence",
            "priority": "medium",
            "token_estimate": 4,
            "content": "",
            "refs": [{"evidence_id": "e1", "selector": None}],
        }
    ],
    "meta": {"locale": "zh", "actor": {"user_id": "张伟", "agent": {"agent_id": "a"}}},
}


# The same as a draft had it.
DRAFT: dict[str, Any] = {
    "schema_version": "0.9",
    **{name: value for name, value in FILLED["session"].items() if name != "messages"},
    "messages": [
        {("timestamp" if name == "at" else name): value for name, value in message.items()}
        for message in FILLED["session"]["messages"]
    ],
    "evidences": list(FILLED["evidences"].values()),
    "context_blocks": FILLED["context_blocks"],
    "meta": FILLED["meta"],
}


def test_a_draft_becomes_the_same_document() -> None:
    before = deepcopy(DRAFT)
    result = Migrator().migrate(DRAFT)
    assert before == DRAFT
    assert result.doc == parse_document(FILLED)
    assert result.changes[:4] == [
        "schema_version 0.9 -> 1.0",
        "moved into session: session_id, messages, summary, task_state, tool_state, model_usage",
        "1 evidences: a list became an object by evidence_id",
        "renamed in 2 messages: timestamp -> at",
    ]


@pytest.mark.parametrize("ids", [("e1", "e1"), (None, None)])
def test_evidence_of_a_draft_is_not_lost_for_its_id(ids: tuple[str | None, ...]) -> None:
    evidence = {**DRAFT["evidences"][0]}
    twice = [{**evidence, **({"evidence_id": name} if name else {})} for name in ids]
    if None in ids:
        twice = [
            {key: value for key, value in each.items() if key != "evidence_id"} for each in twice
        ]
    with pytest.raises(SchemaValidationError, match="evidence_id"):
        Migrator().migrate({**DRAFT, "evidences": twice})


@pytest.mark.parametrize("version", STEPS)
def test_from_every_version_there_is_a_way_to_the_current_one(version: str) -> None:
    seen = [version]
    while seen[-1] in STEPS:
        seen.append(STEPS[seen[-1]][0])
        assert len(seen) == len(set(seen))
    assert seen[-1] == SCHEMA_VERSION
    assert Migrator().can_migrate(version)


def test_the_oldest_document_without_data() -> None:
    result = Migrator().migrate(EMPTY)
    assert (result.from_version, result.to_version) == (OLDEST, SCHEMA_VERSION)
    assert result.changes == ["schema_version 1.0 -> 1.1"]
    assert result.doc.schema_version == SCHEMA_VERSION
    assert result.doc.session.messages == []


def test_the_oldest_document_with_data() -> None:
    before = deepcopy(FILLED)
    result = Migrator().migrate(FILLED)
    assert before == FILLED
    assert result.changes == [
        "schema_version 1.0 -> 1.1",
        "numbered 2 messages: session.messages[].seq from 1 to 2",
    ]
    assert check_invariants(result.doc) == []
    assert [message.seq for message in result.doc.session.messages] == [1, 2]

    # Nothing else is lost, renamed or made up.
    plain = result.doc.model_dump(mode="json")
    for message in plain["session"]["messages"]:
        del message["seq"]
    assert _holds(plain, {**FILLED, "schema_version": SCHEMA_VERSION})
    assert all("message_id" not in message for message in plain["session"]["messages"])


def _holds(found: Any, expected: Any) -> bool:
    """Whether everything expected is there; defaults may stand beside it."""
    if isinstance(expected, dict):
        return all(name in found and _holds(found[name], expected[name]) for name in expected)
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(_holds, found, expected))
    return bool(found == expected)


async def test_a_document_of_the_oldest_version_can_be_stored() -> None:
    store, scope = MemoryStore(), Scope(session_id="会话-1")
    await store.put_session(scope, parse_document(json.dumps(FILLED)))
    found = await store.get_session(scope)
    assert found is not None
    assert found.schema_version == SCHEMA_VERSION
    first, second = found.session.messages
    assert (first.seq, second.seq, second.parent_id) == (1, 2, first.message_id)


def test_a_document_of_ours_that_says_1_0_keeps_its_numbers() -> None:
    plain = samples.document().model_dump(mode="json") | {"schema_version": "1.0"}
    result = Migrator().migrate(plain)
    assert result.doc == samples.document()
    assert result.changes == ["schema_version 1.0 -> 1.1"]


@given(st.sampled_from([EMPTY, FILLED, DRAFT, samples.document().model_dump(mode="json")]))
def test_migrating_again_changes_nothing(plain: dict[str, Any]) -> None:
    once = Migrator().migrate(plain).doc
    again = Migrator().migrate(once.model_dump(mode="json"))
    assert (again.doc, again.changes) == (once, [])
    assert parse_document(once.model_dump_json()) == once


def test_the_version_can_be_said_beside_the_document() -> None:
    result = Migrator().migrate({"session": {"session_id": "s"}}, "1.0")
    assert result.doc.schema_version == SCHEMA_VERSION


@pytest.mark.parametrize(
    ("version", "cure"),
    [
        ("1.2", "upgrade"),
        ("1.10", "upgrade"),
        ("2.0", "upgrade"),
        ("0.8", "release of ce-integrations that wrote it"),
        ("", "release of ce-integrations that wrote it"),
        ("draft", "release of ce-integrations that wrote it"),
    ],
)
def test_an_unknown_version_is_refused(version: str, cure: str) -> None:
    assert not Migrator().can_migrate(version)
    with pytest.raises(MigrationError) as raised:
        parse_document({**EMPTY, "schema_version": version})
    assert cure in str(raised.value)
    assert f"{version!r}; this release reads 0.9, 1.0, 1.1" in str(raised.value)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ("{", "no JSON"),
        ("[]", "found list"),
        ({"session": {"session_id": "s"}}, "schema_version is None"),
        ({**EMPTY, "schema_version": 1.0}, "schema_version is 1.0"),
        ({"schema_version": "1.0"}, "at session"),
        ({"schema_version": "1.0", "session": []}, "at session"),
        ({"schema_version": "1.0", "session": {"session_id": "s", "messages": 3}}, "messages"),
        (
            {"schema_version": "1.0", "session": {"session_id": "s", "messages": ["hi"]}},
            "session.messages.0",
        ),
        ({**EMPTY, "extra": 1}, "at extra"),
    ],
)
def test_what_is_no_document_is_refused(data: Any, problem: str) -> None:
    with pytest.raises(SchemaValidationError) as raised:
        parse_document(data)
    assert problem in str(raised.value)


@pytest.mark.parametrize(
    "bad",
    [
        {"messages": 5},
        {"evidences": [{"evidence_id": ["e1"]}]},
        {"evidences": [{"evidence_id": {}}]},
    ],
)
def test_a_draft_with_nonsense_in_it_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(SchemaValidationError, match="not a session document"):
        Migrator().migrate({**DRAFT, **bad})


def test_what_is_no_json_object_is_refused_by_all_doors() -> None:
    document: Any
    for document in ([], None, "{}"):
        with pytest.raises(SchemaValidationError, match="expected a JSON object"):
            Migrator().migrate(document)
    with pytest.raises(SchemaValidationError, match="no JSON"):
        parse_document('{"a":' * 100_000)
