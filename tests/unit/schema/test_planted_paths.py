"""Paths and patterns that somebody planted, and data that was planted for them, end soon and are refused by name."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pytest

from ce_engine import (
    BlockType,
    CollectConfig,
    ContextBlock,
    ContextEngine,
    EvidenceSource,
    EvidenceType,
    MemoryStore,
    Priority,
    RedactionConfig,
    RedactionError,
    RedactionRules,
    Ref,
    RefSelector,
    RuntimeConfig,
    Scope,
    SelectorResolveError,
    SourceKind,
    create_context_engine,
)
from ce_engine.schema.expanded_pattern import MAX_EXPANDED, expanded, is_large
from ce_engine.schema.json_paths import LINEAR_S, LOOKUP_S, json_locations, seconds_for
from ce_engine.schema.time_limits import breathe, paced, seconds_left, within
from ce_engine.testing.host import HostApp, user
from ce_engine.text.redaction.placeholders import Numbering
from ce_engine.text.redaction.redact import PatternRedactor


pytestmark = pytest.mark.req("A-05", "A-19")
SCOPE = Scope(session_id="s")
SECRET = "what nobody may read"
SOURCE = EvidenceSource(kind=SourceKind.TOOL, name="crm")


def chained(levels: int, wide: int = 3) -> Any:
    """Lists in lists, where the number of ways grows with each `..`."""
    value: Any = {"name": SECRET}
    for _ in range(levels):
        value = [value, *([0] for _ in range(wide))]
    return value


NESTED = "$..[?@..[?@..[?@..[?@..[?@..x]]]]]"
MANY_NAMES = "$..[" + ",".join(["'a'"] * 240) + "]"
DESCENTS = "$" + "..*" * 12 + ".zzz"
COUNTS = "$..[?count(@..*) > count($..*)]"
CASES = {
    "filters in filters": (NESTED, chained(80)),
    "many names": (MANY_NAMES, [[] for _ in range(240_000)]),
    "many descents": (DESCENTS, chained(80)),
    "counts of all": (COUNTS, chained(90, 40)),
}


@pytest.fixture(params=CASES)
def planted(request: pytest.FixtureRequest) -> tuple[str, Any]:
    return CASES[request.param]


def test_a_planted_path_is_given_up_and_names_the_cure(planted: tuple[str, Any]) -> None:
    path, data = planted
    with pytest.raises(SelectorResolveError, match="name the members on the way"):
        RefSelector().extract(json.dumps(data), f"json:{path}")
    with pytest.raises(SelectorResolveError, match="name the members on the way"):
        json_locations([path], data)


def test_nothing_is_let_through_that_could_not_be_searched(planted: tuple[str, Any]) -> None:
    path, data = planted
    redactor, numbers = PatternRedactor(field_paths=["$..name", path]), Numbering(b"0" * 16)
    with pytest.raises(RedactionError):
        redactor.redact(json.dumps(data), numbers)
    with pytest.raises(RedactionError):
        redactor.redact_json(data, numbers)


def test_a_planted_path_rests_as_other_long_work_does() -> None:
    """Others go on meanwhile: it looks at its clock at each step, and not where something comes out."""
    path, data = CASES["filters in filters"]
    rested = threading.Event()

    def other() -> None:
        rested.set()

    def work() -> None:
        with within(30), pytest.raises(SelectorResolveError):
            RefSelector().extract(json.dumps(data), f"json:{path}")
        assert seconds_left() is None

    thread = threading.Thread(target=other)
    thread.start()
    paced(work)
    thread.join()
    assert rested.is_set()


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    rules = RedactionRules.model_validate({"field_paths": ["$..name", NESTED]})
    config = RuntimeConfig(redaction=RedactionConfig(rules=rules))
    made = create_context_engine(MemoryStore(), config=config)
    yield made
    made.sync.close()


def test_what_is_stored_of_it_has_no_content_and_other_sessions_have_theirs(
    engine: ContextEngine,
) -> None:
    text = json.dumps(chained(80))
    other = Scope(session_id="other")
    withheld = engine.sync.record_evidence(SCOPE, text, SOURCE, EvidenceType.TOOL_RESULT)
    clean = engine.sync.record_evidence(
        other, json.dumps({"name": "Li", "n": [1]}), SOURCE, EvidenceType.TOOL_RESULT
    )
    assert (withheld.content, withheld.metadata["withheld"]) == ("", True)
    assert json.loads(clean.content) == {"name": "[NAME_1]", "n": [1]}
    assert engine.sync.flush()
    stored = engine.loop.run(engine.store.get_session(SCOPE))
    assert stored is not None
    assert SECRET not in stored.model_dump_json()


class Slow:
    """A kind of selector that never ends; notes how long each may take."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def parse(self, argument: str) -> dict[str, Any]:
        return {"argument": argument}

    def find(self, content: str, params: Mapping[str, Any]) -> Iterable[Any]:
        del content, params
        self.seconds.append(seconds_left() or 1e9)
        while True:
            breathe()


def test_all_selectors_of_a_call_have_a_limit_together() -> None:
    """Whoever plants one plants a hundred."""
    config = RuntimeConfig(collect=CollectConfig(deadline_s=60))
    engine, slow = create_context_engine(MemoryStore(), config=config), Slow()
    engine.selectors.register("slow", slow)
    app = HostApp(engine, SCOPE)
    app.ask("Who?", "Li.")
    found = engine.sync.record_evidence(SCOPE, "some text", SOURCE, EvidenceType.TOOL_RESULT)
    blocks = [
        ContextBlock(
            block_id=f"b{n}",
            block_type=BlockType.INSTRUCTION,
            priority=Priority.HIGH,
            content=f"block {n}",
            refs=[Ref(evidence_id=found.evidence_id, selector=f"slow:{n}")],
        )
        for n in range(30)
    ]
    engine.sync.put_context_blocks(SCOPE, blocks)
    report = app.prepare(user("And who else?")).report
    assert "CONTEXT_SELECTOR_UNRESOLVED" in report.degradations
    assert len(slow.seconds) >= 30
    assert max(slow.seconds) <= LOOKUP_S
    assert sum(slow.seconds[:30]) <= 3 * LOOKUP_S + 0.2
    engine.sync.close()


def test_parts_of_one_selector_share_its_time() -> None:
    slow, selectors = Slow(), RefSelector()
    selectors.register("slow", slow)
    with pytest.raises(SelectorResolveError, match="given up"):
        selectors.extract("text", "chars:0-2,slow:a,slow:b")
    assert slow.seconds[0] <= LOOKUP_S
    assert seconds_left() is None


@pytest.mark.parametrize(
    "path", ["$..name", "$.a.b", "$.rows[*].note", "$[*]", "$..a[0]", "$['first name']", "$.a[1:3]"]
)
def test_plain_paths_may_take_as_long_as_their_text_is(path: str) -> None:
    assert seconds_for(path) == LINEAR_S


@pytest.mark.parametrize("path", [NESTED, MANY_NAMES, DESCENTS, COUNTS, "$[?@.a]", "$..a..b"])
def test_other_paths_have_less(path: str) -> None:
    assert seconds_for(path) == LOOKUP_S


def test_a_timed_path_finds_what_it_found() -> None:
    data = {"a": [{"b": 1, "c": "x"}, {"b": 2}], "d": {"b": [3]}}
    for path, places in {
        "$..b": [("a", 0, "b"), ("a", 1, "b"), ("d", "b")],
        "$.a[?@.b > 1].b": [("a", 1, "b")],
        "$.a[?search(@.c, 'x')]": [("a", 0)],
        "$..[?@[?@.b == 2]]": [("a",)],
        "$.a[0, 1].b": [("a", 0, "b"), ("a", 1, "b")],
    }.items():
        assert [*json_locations([path], data)] == places
    assert json_locations(["$..b", "$.d.b"], data)["d", "b"] == "$.d.b"


# Patterns


LARGE = [
    "((a{99}){99}){99}",
    r"(?:\w\d{9999}){9999}",
    "((((a?){50}){50}){50}){50}",
    "a{100000}",
    "((x{99}[(]){99}){99}",
    "((x{99}[)]y){99}z){99}",
    "(?x)((x{99} # (\n){99}){99}",
    r"((a\(b{99}){99}){99}",
    "((x{99}[[(]){99}){99}",
]


@pytest.mark.parametrize("pattern", LARGE)
def test_a_pattern_that_takes_all_memory_is_refused(pattern: str) -> None:
    with pytest.raises(SelectorResolveError, match="leave out repeats of repeats"):
        RefSelector().extract("text", f"regex:{pattern}")
    data = [{"text": "text", "pattern": pattern}]
    with pytest.raises(SelectorResolveError, match="too far"):
        json_locations(["$[?search(@.text, @.pattern)]"], data)


def test_a_long_pattern_in_the_data_is_refused() -> None:
    data = [{"text": "text", "pattern": "(a|b)" * 1_000}]
    for name in ("search", "match"):
        with pytest.raises(SelectorResolveError, match="too far"):
            json_locations([f"$[?{name}(@.text, @.pattern)]"], data)


@pytest.mark.parametrize(
    ("pattern", "parts"),
    [
        (r"\d{4}-\d{2}-\d{2}", 10),
        ("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", 39),
        (r"def\s+\w+", 5),
        ("a{1,100000}", 1),
        ("(ab){3}", 6),
        ("[({})]{5}", 5),
    ],
)
def test_patterns_that_people_write_are_small(pattern: str, parts: int) -> None:
    assert parts <= expanded(pattern) <= 2 * parts + 6
    assert not is_large(pattern)
    assert expanded(f"(?:{pattern}){{{MAX_EXPANDED}}}") > MAX_EXPANDED
