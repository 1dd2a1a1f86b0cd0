"""Documents, reports and traces of ours fit the JSON Schema that is exported (A-01).

The judge is a validator that knows nothing of our types.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest

from ce_engine import (
    ConfigError,
    ContextEngine,
    Ref,
    SchemaValidationError,
    create_context_engine,
    json_schema,
    parse_document,
)
from ce_engine.testing import samples
from tests.hosts.cli_host import TALK, TIGHT, ce, fill, talk, url_of


pytestmark = pytest.mark.req("A-01")


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    made = create_context_engine("memory://", config=TIGHT)
    talk(made, chatter=10)
    yield made
    made.sync.close()


def faults(name: str, value: Any) -> list[str]:
    """Where the value does not fit, in its JSON form."""
    schema = json.loads(json.dumps(json_schema(name)))
    plain = json.loads(json.dumps(value))
    found = jsonschema_rs.Draft202012Validator(schema).iter_errors(plain)
    return ["/".join(map(str, fault.instance_path)) for fault in found]


async def test_a_recorded_session_fits(engine: ContextEngine) -> None:
    await engine.flush()
    document = await engine.store.get_session(TALK)
    assert document is not None
    assert len(document.session.messages) > 20
    assert faults("document", document.model_dump(mode="json")) == []


def test_a_document_with_every_part_fits() -> None:
    assert faults("document", samples.document().model_dump(mode="json")) == []


async def test_every_report_fits(engine: ContextEngine) -> None:
    await engine.flush()
    reports = [turn.report for turn in await engine.store.list_turns(TALK)]
    assert any(report.get("dropped") for report in reports)
    last = engine.last_report(TALK)
    assert last is not None
    assert faults("report", last.model_dump(mode="json")) == []
    for turn in await engine.store.list_turns(TALK):
        assert faults("report", {"turn_id": turn.turn_id, **turn.report}) == []


async def test_every_trace_fits(engine: ContextEngine) -> None:
    for evidence in await engine.store.list_evidences(TALK):
        ref = Ref(evidence_id=evidence.evidence_id, selector="chars:0-2")
        assert faults("trace", (await engine.trace(TALK, ref)).model_dump(mode="json")) == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["session", "messages", 0, "role"], "robot"),
        (["session", "messages", 0, "content"], 3),
        (["session", "session_id"], ""),
        (["evidences", "e1", "unknown"], 1),
        (["context_blocks", 0, "priority"], None),
    ],
)
def test_what_we_refuse_the_schema_refuses(path: list[Any], value: Any) -> None:
    plain = samples.document().model_dump(mode="json")
    place = plain
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    assert faults("document", plain)
    with pytest.raises(SchemaValidationError):
        parse_document(plain)


def test_the_command_prints_it() -> None:
    for name in ("document", "report", "trace"):
        assert json.loads(ce("schema", name).stdout) == json_schema(name)
    assert json.loads(ce("schema", "--json").stdout) == json_schema()
    refused = ce("schema", "session")
    assert refused.exit_code == 1
    assert "expected one of document, report, trace" in refused.stderr
    with pytest.raises(ConfigError):
        json_schema("session")


def test_what_show_and_trace_print_fits(tmp_path: Any) -> None:
    url = url_of(tmp_path / "ce.db")
    fill(url)
    at = ("--store", url, "--account", "acme", "--json")
    document = json.loads(ce("show", TALK.session_id, *at).stdout)
    assert faults("document", document) == []
    answer = document["session"]["messages"][-1]["message_id"]
    assert faults("trace", json.loads(ce("trace", TALK.session_id, answer, *at).stdout)) == []
