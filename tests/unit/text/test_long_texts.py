"""One text stalls nobody: long ones are worked on beside the loop, and given up beyond a limit (A-19)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ce_engine import (
    ContextEngine,
    EvidenceSource,
    EvidenceType,
    MemoryStore,
    RedactionConfig,
    RedactionRules,
    Retrieval,
    RetrievedDoc,
    RuntimeConfig,
    Scope,
    SourceKind,
    StoreConfig,
    ToolRun,
    create_context_engine,
)
from ce_engine.ports.redaction import RedactResult, SessionRedactor
from ce_engine.schema.degradation import REDACTION_LIMIT
from ce_engine.schema.rows import Placeholder
from ce_engine.schema.time_limits import TimeUpError, breathe, paced, within
from ce_engine.testing.host import HostApp, assistant, tool_calls, tool_result, user
from ce_engine.text.redaction.owner_patterns import pattern_rules
from ce_engine.text.redaction.patterns import mail_at
from ce_engine.text.redaction.placeholders import Numbering
from ce_engine.text.redaction.redact import PatternRedactor
from ce_engine.text.redaction.scan import SensitiveSpan, longest, occurrences, scan


SCOPE = Scope(session_id="s")
OTHER = Scope(session_id="other")
SECRET = "hunter2!Xz"
LONG = f"password: {SECRET}, 密码：{SECRET}。 " * 80
PAGES = EvidenceSource(kind=SourceKind.RAG, name="pages")
HOPELESS = r"(a|aa)+\d"
HOSTILE = "a" * 80 + "! my name is Quentin"


def made(redactor: Any = None, **redaction: Any) -> ContextEngine:
    config = RuntimeConfig(redaction=RedactionConfig(**redaction), store=StoreConfig(deadline_s=20))
    more = {} if redactor is None else {"redactor": redactor}
    return create_context_engine(MemoryStore(), config=config, **more)


def everything(engine: ContextEngine, scope: Scope = SCOPE) -> str:
    """All that the store has of a session, as text."""
    assert engine.sync.flush()
    store, run = engine.store, engine.loop.run
    document = run(store.get_session(scope))
    assert document is not None
    parts = [document.model_dump_json(), *map(str, run(store.list_events(scope)))]
    return "\n".join([*parts, *map(str, run(store.list_turns(scope)))])


# Doors


def message(app: HostApp) -> None:
    app.prepare(user(LONG))


def answer(app: HostApp) -> None:
    app.commit(app.prepare(user("one?")), assistant(LONG))


def args_asked(app: HostApp) -> None:
    app.commit(app.prepare(user("one?")), tool_calls(("c", "send", {"to": [LONG]})))


def tool_message(app: HostApp) -> None:
    app.commit(app.prepare(user("one?")), tool_calls(("c", "send", {})))
    app.prepare(tool_result("c", LONG))


def tool_run(app: HostApp) -> None:
    app.engine.sync.record_tool_run(SCOPE, ToolRun("send", {"to": LONG}, LONG))


def retrieval(app: HostApp) -> None:
    hit = Retrieval("pages", LONG, [RetrievedDoc(LONG, metadata={"tags": [LONG]})])
    app.engine.sync.record_retrieval(SCOPE, hit)


def evidence(app: HostApp) -> None:
    app.engine.sync.record_evidence(
        SCOPE, LONG, PAGES, EvidenceType.RAG_DOC, metadata={"note": LONG}
    )


def event(app: HostApp) -> None:
    app.engine.sync.record_event(SCOPE, "planner", {"plan": LONG})


DOORS = [message, answer, args_asked, tool_message, tool_run, retrieval, evidence, event]


@pytest.mark.req("A-19")
@pytest.mark.parametrize("door", DOORS)
def test_a_text_over_the_limit_is_stored_without_content_and_that_is_told(
    door: Callable[[HostApp], None],
) -> None:
    engine = made(max_text_chars=1000)
    app = HostApp(engine, SCOPE)
    door(app)
    app.prepare(user("and then?"))
    kept = everything(engine)
    assert SECRET not in kept
    assert "[PASSWORD_" not in kept
    assert REDACTION_LIMIT in kept
    assert "redaction_limit" in kept
    turns = engine.loop.run(engine.store.list_turns(SCOPE))
    assert any(REDACTION_LIMIT in turn.report.get("degradations", ()) for turn in turns)
    engine.sync.close()


def test_what_is_withheld_says_how_long_it_was() -> None:
    engine = made(max_text_chars=1000)
    app = HostApp(engine, SCOPE)
    message(app)
    evidence(app)
    event(app)
    args_asked(app)
    assert engine.sync.flush()
    state = engine.loop.run(engine.store.state(SCOPE))
    assert state is not None
    row = state.rows[0]
    assert (row.withheld, row.has_sensitive, row.length) == (True, True, len(LONG))
    assert row.message.content == ""
    assert row.key
    document = engine.loop.run(engine.store.get_session(SCOPE))
    assert document is not None
    kept = next(e for e in document.evidences.values() if e.type is EvidenceType.RAG_DOC)
    assert kept.metadata["withheld"] is True
    assert kept.metadata["length"] == len(LONG)
    assert kept.metadata["content_mac"]
    assert kept.metadata["metadata_withheld"] is True
    assert kept.metadata["metadata_chars"] >= len(LONG)
    recorded = [e for e in engine.loop.run(engine.store.list_events(SCOPE)) if e.kind == "planner"]
    assert recorded[0].payload["withheld"] is True
    asked = [m.tool_calls for m in document.session.messages if m.tool_calls]
    assert asked[0][0].args["withheld"] is True
    engine.sync.close()


def test_a_million_characters_above_the_limit_are_withheld_and_below_it_redacted() -> None:
    text = ("a line without anything. " * 4000 + f"password: {SECRET}\n") * 10
    assert len(text) > 1_000_000
    for most, withheld in ((500_000, True), (2_000_000, False)):
        engine = made(max_text_chars=most)
        HostApp(engine, SCOPE).prepare(user(text))
        assert engine.sync.flush()
        state = engine.loop.run(engine.store.state(SCOPE))
        assert state is not None
        assert state.rows[0].withheld is withheld
        assert SECRET not in everything(engine)
        assert state.rows[0].message.content.count("[PASSWORD_1]") == (0 if withheld else 10)
        engine.sync.close()


def test_a_long_text_is_redacted_as_its_pieces_would_be() -> None:
    pieces = [
        f"Write to person{n}@example.com or call 138-0013-{n:04}. 密码：{SECRET}{n}\n"
        + "Nothing to see here. " * 30
        for n in range(300)
    ]
    text = "".join(pieces)
    assert len(text) > 200_000
    engine = made()
    HostApp(engine, SCOPE).prepare(user(text))
    assert engine.sync.flush()
    state = engine.loop.run(engine.store.state(SCOPE))
    assert state is not None
    alone, numbering = PatternRedactor(), Numbering(b"k" * 32)
    expected = "".join(alone.redact(piece, numbering).text for piece in pieces)
    assert state.rows[0].message.content == expected
    engine.sync.close()


# Patterns without end


@pytest.mark.req("A-19")
def test_an_owners_pattern_without_end_is_given_up_and_its_text_withheld() -> None:
    rules = RedactionRules(patterns={"hopeless": HOPELESS})
    engine = made(rules=rules, timeout_s=0.05)
    app = HostApp(engine, SCOPE)
    turn = app.prepare(user(HOSTILE))
    assert REDACTION_LIMIT in turn.report.degradations
    app.commit(turn, assistant("Hello."))
    kept = everything(engine)
    assert "Quentin" not in kept
    assert "Hello." in kept
    engine.sync.close()


def test_what_an_owners_pattern_finds_in_time_is_taken_out() -> None:
    rules = RedactionRules(patterns={"staff": r"\bE-\d{4}\b", "hopeless": HOPELESS})
    engine = made(rules=rules)
    HostApp(engine, SCOPE).prepare(user("E-1234 and aaa7 met E-1235"))
    kept = everything(engine)
    assert "[STAFF_1] and [HOPELESS_1] met [STAFF_2]" in kept
    engine.sync.close()


PATTERNS = [r"\bE-\d{2}\b", r"a+", r"(?i)ab?", r"[^a]b", r"^\w+$", r"(?m)^a", r"x*", r"(?:a|aa)+b"]


@given(st.text("aAbBxE-1 \n中é_", max_size=60), st.sampled_from(PATTERNS))
@settings(deadline=None)
def test_an_owners_pattern_finds_what_re_finds(text: str, pattern: str) -> None:
    import re

    (rule,) = pattern_rules({"mine": pattern})
    expected = [found.span() for found in re.finditer(pattern, text)]
    assert [found.span() for found in rule.find(text)] == expected
    with within(60):
        assert [found.span() for found in rule.find(text)] == expected


# Whose turn it is


class Bound:
    """A session's redactor that waits at a text which says so."""

    def __init__(self, owner: Blocking, inner: SessionRedactor) -> None:
        self._owner, self._inner = owner, inner

    def text(self, text: str) -> RedactResult:
        if "wait here" in text:
            self._owner.reached.set()
            assert self._owner.go_on.wait(60)
        return self._inner.text(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class Blocking:
    """A redactor of somebody else's."""

    version = "blocking/1"

    def __init__(self) -> None:
        self.reached, self.go_on = threading.Event(), threading.Event()

    def bind(self, key: bytes, known: list[Placeholder], locale: str) -> Any:
        return Bound(self, PatternRedactor().bind(key, known, locale))


@pytest.mark.req("A-15")
def test_other_sessions_go_on_while_a_text_is_redacted_and_its_own_keeps_its_order() -> None:
    redactor = Blocking()
    engine = made(redactor)

    async def run() -> None:
        slow = asyncio.ensure_future(
            engine.record_tool_run(SCOPE, ToolRun("read", {}, "wait here"))
        )
        await asyncio.to_thread(redactor.reached.wait)
        following = asyncio.ensure_future(engine.record_tool_run(SCOPE, ToolRun("read", {}, "2")))
        await engine.record_tool_run(OTHER, ToolRun("read", {}, "another's"))
        await engine.flush()
        assert "another's" in str(await engine.store.get_session(OTHER))
        assert not slow.done()
        assert not following.done()
        redactor.go_on.set()
        await asyncio.gather(slow, following)

    asyncio.run(run())
    document = engine.loop.run(engine.store.get_session(SCOPE))
    assert document is not None
    assert [each.content for each in document.evidences.values()] == ["wait here", "2"]
    engine.sync.close()


@pytest.mark.req("A-15")
def test_eight_texts_without_end_at_once_stop_no_other_session() -> None:
    engine = made(rules=RedactionRules(patterns={"hopeless": HOPELESS}), timeout_s=2)
    ended: list[str] = []

    async def read(name: str, text: str) -> None:
        await engine.record_tool_run(Scope(session_id=name), ToolRun("read", {}, text))
        ended.append(name)

    def at_work() -> int:
        return sum(thread.name == "ce-worker" for thread in threading.enumerate())

    async def run() -> None:
        before = at_work()  # of other tests' engines
        hostile = [asyncio.ensure_future(read(f"hostile {n}", HOSTILE)) for n in range(8)]
        while at_work() < before + 8 and not ended:  # noqa: ASYNC110 - threads set no event
            await asyncio.sleep(0)
        for n in range(3):
            await read(f"bystander {n}", "aa7")
        await asyncio.gather(*hostile)

    asyncio.run(run())
    assert ended[-1].startswith("hostile")  # a queue would let all of them end first
    assert len(ended) == 11
    assert "Quentin" not in everything(engine, Scope(session_id="hostile 7"))
    assert "[HOPELESS_1]" in everything(engine, Scope(session_id="bystander 0"))
    engine.sync.close()


def test_a_caller_that_gives_up_leaves_its_session_whole() -> None:
    redactor = Blocking()
    engine = made(redactor)

    async def run() -> None:
        slow = asyncio.ensure_future(
            engine.record_tool_run(SCOPE, ToolRun("read", {}, "wait here"))
        )
        await asyncio.to_thread(redactor.reached.wait)
        slow.cancel()
        redactor.go_on.set()
        await asyncio.gather(slow, return_exceptions=True)
        await engine.record_tool_run(SCOPE, ToolRun("read", {}, "later"))

    asyncio.run(run())
    document = engine.loop.run(engine.store.get_session(SCOPE))
    assert document is not None
    assert [each.content for each in document.evidences.values()] == ["wait here", "later"]
    engine.sync.close()


def test_work_beside_the_loop_raises_where_it_is_awaited() -> None:
    engine = made()
    seen: list[str] = []

    def fail() -> None:
        seen.append(threading.current_thread().name)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        engine.loop.run(engine.workers.run(fail))
    assert seen == ["ce-worker"]
    engine.sync.close()


# Limits of time


def test_work_that_never_ends_is_given_up() -> None:
    def forever() -> None:
        with within(0.01):
            while True:
                breathe()

    with pytest.raises(TimeUpError):
        paced(forever)
    with pytest.raises(TimeUpError):
        forever()
    breathe()  # nobody limits what comes after


# What was made faster finds what it found


@given(st.text("ab1@.-_%' \n中", max_size=80) | st.from_regex(r"(?:[ab.-]{0,3}@[a1.-]{0,9}){0,6}"))
@settings(deadline=None)
def test_mail_is_looked_for_where_it_can_be(text: str) -> None:
    everywhere = {bounds for at in occurrences(text, "@") if (bounds := mail_at(text, at))}
    assert {(s.start, s.end) for s in scan(text) if s.rule == "mail"} == everywhere


spans = st.builds(
    lambda start, length: SensitiveSpan(start, start + length, "X"),
    st.integers(0, 40),
    st.integers(1, 12),
)


@given(st.lists(spans, max_size=20))
def test_the_longest_of_spans_that_overlap_wins(found: list[SensitiveSpan]) -> None:
    kept: list[SensitiveSpan] = []
    for span in sorted(found, key=lambda s: s.start - s.end):
        if all(span.end <= other.start or other.end <= span.start for other in kept):
            kept.append(span)
    assert longest(found) == sorted(kept)


def test_deep_and_wide_data_is_withheld_not_walked() -> None:
    engine = made(max_text_chars=1000)
    app = HostApp(engine, SCOPE)
    engine.sync.record_event(SCOPE, "planner", {"all": [SECRET] * 5000})
    app.prepare(user("and?"))
    kept = everything(engine)
    assert SECRET not in kept
    engine.sync.close()
