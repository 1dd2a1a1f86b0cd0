"""Named fields and dictionaries are taken out wherever structured data is stored (A-19)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ce_engine import (
    ConfigError,
    ContextEngine,
    EvidenceSource,
    EvidenceType,
    MemoryStore,
    RedactionConfig,
    RedactionError,
    RedactionRules,
    Retrieval,
    RetrievedDoc,
    RuntimeConfig,
    Scope,
    SourceKind,
    StoreConfig,
    ToolRun,
    create_context_engine,
    load_config,
)
from ce_engine.testing.host import HostApp, tool_calls, tool_result, user
from ce_engine.text.redaction.fields import MAX_TEXT
from ce_engine.text.redaction.placeholders import Numbering
from ce_engine.text.redaction.redact import PatternRedactor


SCOPE = Scope(session_id="s")
NAME = "欧阳娜娜"
PLACE = "Elm Street nine"
RULES = {"field_paths": ["$..name", "customer.address", "$.rows[*].note"]}
SOURCE = EvidenceSource(kind=SourceKind.TOOL, name="crm")


def numbering() -> Numbering:
    return Numbering(b"0123456789abcdef")


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    config = RuntimeConfig(
        store=StoreConfig(deadline_s=20),
        redaction=RedactionConfig(rules=RedactionRules.model_validate(RULES)),
    )
    made = create_context_engine(MemoryStore(), config=config)
    yield made
    made.sync.close()


def dump(engine: ContextEngine) -> str:
    """All that the store has."""
    assert engine.sync.flush()
    run, store = engine.loop.run, engine.store
    document = run(store.get_session(SCOPE))
    assert document is not None
    found = (
        f"{run(store.state(SCOPE))}{run(store.list_turns(SCOPE))}{run(store.list_events(SCOPE))}"
    )
    return found + document.model_dump_json()


RECORD = {"customer": {"name": NAME, "address": {"street": PLACE}}, "rows": [{"note": NAME}]}


def in_args(app: HostApp) -> None:
    app.commit(app.prepare(user("Save it")), tool_calls(("c", "save", RECORD)))


def in_args_as_text(app: HostApp) -> None:
    app.engine.post_tool_run(SCOPE, ToolRun("save", json.dumps(RECORD), "ok", "r"))


def in_a_result(app: HostApp) -> None:
    app.commit(app.prepare(user("Who?")), tool_calls(("c", "find", {})))
    app.prepare(tool_result("c", json.dumps(RECORD)), new_request=False)


def in_a_run(app: HostApp) -> None:
    rows = [{"customer": {"name": NAME}}]
    run = ToolRun("find", {}, json.dumps(rows, indent=1, ensure_ascii=False), "r")
    app.engine.post_tool_run(SCOPE, run)


def in_a_document(app: HostApp) -> None:
    hit = RetrievedDoc(json.dumps(RECORD), metadata=RECORD)
    app.engine.post_retrieval(SCOPE, Retrieval("crm", "who", [hit], "r"))


def in_evidence(app: HostApp) -> None:
    app.engine.sync.record_evidence(
        SCOPE, json.dumps(RECORD), SOURCE, EvidenceType.TOOL_RESULT, metadata=RECORD
    )


def in_an_event(app: HostApp) -> None:
    app.engine.sync.record_event(SCOPE, "planner", RECORD)


@pytest.mark.req("A-19", "B-02")
@pytest.mark.parametrize(
    "door",
    [in_args, in_args_as_text, in_a_result, in_a_run, in_a_document, in_evidence, in_an_event],
)
def test_no_door_lets_a_field_through(engine: ContextEngine, door: Any) -> None:
    door(HostApp(engine, SCOPE))
    found = dump(engine)
    assert NAME not in found
    assert json.dumps(NAME)[1:-1] not in found
    assert "[NAME_1]" in found
    assert PLACE not in found
    assert ("[ADDRESS_1]" in found) is (door is not in_a_run)


@pytest.mark.req("A-19")
def test_fields_are_typed_numbered_and_go_whole() -> None:
    redactor = PatternRedactor(field_paths=["$.id", "$..phone", "$['first name']", "$.all[*]"])
    data = {
        "id": 7,
        "phone": {"home": "a", "work": None},
        "sub": [{"phone": True}, {"phone": None}, {"phone": ""}],
        "first name": "Li",
        "all": ["x", "y", "x"],
    }
    before = json.loads(json.dumps(data))
    done = redactor.redact_json(data, numbering())
    assert data == before
    assert done.value == {
        "id": "[ID_1]",
        "phone": "[PHONE_1]",
        "sub": [{"phone": "[PHONE_2]"}, {"phone": None}, {"phone": ""}],
        "first name": "[FIELD_1]",
        "all": ["[ALL_1]", "[ALL_2]", "[ALL_1]"],
    }
    assert done.count == 7
    assert set(done.rules) == {
        "field $.id",
        "field $..phone",
        "field $['first name']",
        "field $.all[*]",
    }


@pytest.mark.req("A-19")
def test_a_field_and_a_pattern_give_one_value_one_number() -> None:
    redactor, numbers = PatternRedactor(field_paths=["$.email"]), numbering()
    text = json.dumps({"email": "a.li@example.com", "note": "A.Li@example.com, again"})
    assert json.loads(redactor.redact(text, numbers).text) == {
        "email": "[EMAIL_1]",
        "note": "[EMAIL_1], again",
    }


@pytest.mark.req("A-19")
def test_of_two_equal_keys_neither_is_left() -> None:
    redactor = PatternRedactor(field_paths=["$.name"])
    for second in ('"second"', "null", '""'):
        text = f'{{"name": "first", "name": {second}}}'
        assert "first" not in redactor.redact(text, numbering()).text


@pytest.mark.req("A-19")
def test_a_text_that_begins_with_a_byte_order_mark_is_json_too() -> None:
    redactor = PatternRedactor(field_paths=["$.name"])
    assert redactor.redact('\ufeff{"name": "Li"}', numbering()).text == '{"name": "[NAME_1]"}'


@pytest.mark.req("A-19")
def test_half_an_emoji_in_json_stays_what_can_be_sent() -> None:
    """It goes out again in a recalled message, and no HTTP client takes half a pair."""
    redactor = PatternRedactor(field_paths=["$.name"])
    text = '{"name": "Li", "note": "\\ud83d 字"}'
    assert json.loads(redactor.redact(text, numbering()).text.encode()) == {
        "name": "[NAME_1]",
        "note": "\ud83d 字",
    }


def test_text_that_is_no_json_or_has_no_such_field_is_left_as_it_is() -> None:
    redactor = PatternRedactor(field_paths=["$.name"])
    for text in (
        '{"name": "Li"',
        "[1, 2, 3]  ",
        '{"n": 1.50}',
        "name: Li",
        "[note] name",
        '"name"',
    ):
        assert redactor.redact(text, numbering()).text is text


@pytest.mark.req("A-19", "B-02")
@pytest.mark.parametrize(
    "text",
    [
        "[" + "1," * (MAX_TEXT // 2) + "1]",
        "[" * 100_000 + "]" * 100_000,
        f'{{"name": "Li", "n": {"1" * 5000}}}',
    ],
    ids=["long", "deep", "long-number"],
)
def test_json_that_cannot_be_looked_through_is_stored_without_content(
    engine: ContextEngine, text: str
) -> None:
    with pytest.raises(RedactionError):
        PatternRedactor(field_paths=["$..name"]).redact(text, numbering())
    found = engine.sync.record_evidence(SCOPE, text, SOURCE, EvidenceType.TOOL_RESULT)
    assert found.content == ""
    assert found.metadata["withheld"] is True
    assert found.metadata["length"] == len(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "name", "名"]), inner, max_size=3)
    ),
    max_leaves=12,
)


@pytest.mark.req("A-19")
@given(JSON)
def test_no_value_of_a_field_is_left_and_twice_changes_nothing(value: Any) -> None:
    redactor, numbers = PatternRedactor(field_paths=["$..name"]), numbering()
    done = redactor.redact_json(value, numbers).value

    def left(item: Any) -> Iterator[Any]:
        for key, inner in item.items() if isinstance(item, dict) else ():
            if key == "name":
                yield inner
        for inner in item.values() if isinstance(item, dict) else item:
            if isinstance(inner, dict | list):
                yield from left(inner)

    found = list(left(done)) if isinstance(done, dict | list) else []
    assert all(item in (None, "") or redactor.is_placeholder(str(item)) for item in found)
    assert redactor.redact_json(done, numbers).value == done
    text = redactor.redact(json.dumps(value), numbers).text
    assert redactor.redact(text, numbers).text == text


@pytest.mark.req("A-19", "A-22")
@pytest.mark.parametrize("path", ["$.[", "$..", "a b.[", "$.x[?", ""])
def test_a_bad_path_is_named_with_the_cure(path: str) -> None:
    with pytest.raises(ConfigError) as error:
        load_config({"redaction": {"rules": {"field_paths": ["$.ok", path]}}})
    assert f"the field path {path!r} is no JSONPath" in str(error.value)
    assert "write $.customer.phone" in str(error.value)


# Dictionaries


@pytest.mark.req("A-19")
def test_dictionaries_find_words_in_any_script_and_case() -> None:
    redactor = PatternRedactor(dictionaries={"codename": ["Falcon", "猎鹰计划", "Ärger", "C++"]})
    done = redactor.redact("FALCON、猎鹰计划的falcon, ÄRGER; c++ ≠ falcons", numbering())
    assert (
        done.text
        == "[CODENAME_1]、[CODENAME_2]的[CODENAME_3], [CODENAME_4]; [CODENAME_5] ≠ falcons"
    )


INTERNAL = [
    "http://jenkins/job/7",
    "https://wiki.corp.internal:8443/x?y=1",
    "http://10.1.2.3/a",
    "http://192.168.0.1",
    "https://172.20.1.1:80/",
    "http://localhost:8000",
    "redis://cache:6379/0",
    "http://user:pw12345@db.intranet/x",
    "http://[::1]:8080/",
]
PUBLIC = [
    "https://example.com/a",
    "http://internal.example.com",
    "https://8.8.8.8/",
    "http://172.32.0.1/",
    "file:///etc/hosts",
    "https://localhost.example.org/",
    "http://a.corporate/",
]


@pytest.mark.req("A-19")
def test_internal_urls_is_a_dictionary_that_comes_with_the_engine() -> None:
    rules = RedactionRules.model_validate({"dictionaries": ["pii", "internal_urls"]})
    redactor = PatternRedactor.of(rules)
    for url in INTERNAL:
        assert redactor.redact(f"看 {url}, 好", numbering()).text == "看 [INTERNAL_URL_1], 好"
        assert url in PatternRedactor().redact(f"看 {url}, 好", numbering()).text or "pw" in url
    for url in PUBLIC:
        assert redactor.redact(f"看 {url}, 好", numbering()).text == f"看 {url}, 好"
    assert redactor.version != PatternRedactor().version


@pytest.mark.req("A-19", "A-22")
def test_a_dictionary_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'internal_url' has no words.*internal_urls do"):
        RedactionRules.model_validate({"dictionaries": ["internal_url"]})
    both = RedactionRules(dictionaries={"internal_urls": [], "codename": ["Falcon"]})
    text = PatternRedactor.of(both).redact("Falcon at http://ci/1", numbering()).text
    assert text == "[CODENAME_1] at [INTERNAL_URL_1]"
