"""What the engine puts in says what was said, as long as this process knows it; the store never does (A-19)."""

from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ce_engine import (
    BudgetConfig,
    CharBasedEstimator,
    ContextEngine,
    HostMessage,
    MemoryStore,
    Prepared,
    RedactionConfig,
    RedactionRules,
    Restore,
    RuntimeConfig,
    Scope,
    Store,
    StoreConfig,
    create_context_engine,
    open_store,
)
from ce_engine.ports.redaction import RestoreResult
from ce_engine.schema.rows import Placeholder
from ce_engine.testing.host import HostApp, system, user
from ce_engine.text.redaction.redact import BoundRedactor, PatternRedactor
from ce_engine.text.redaction.vault import MAX_SPELLED_OUT, Vault


SCOPE = Scope(session_id="s", user_id="u")
MAIL = "zhang.wei@example.com"
CARD = "4111 1111 1111 1111"
PLACEHOLDER = re.compile(r"\[[A-Z]+_\d+\]")
Opened = Callable[[], ContextEngine]


def config(tokens: int | None = None, **more: Any) -> RuntimeConfig:
    patient = StoreConfig(deadline_s=20)  # a busy machine is no fault here
    if tokens is not None:
        more["budget"] = BudgetConfig(max_input_tokens=tokens, reserved_reply_tokens=0)
    return RuntimeConfig(store=patient, **more)


@pytest.fixture(params=["memory", "sqlite", "file"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opened]:
    """Make engines over one store, each as if in a process of its own."""
    engines: list[ContextEngine] = []
    shared = MemoryStore()
    place = tmp_path / "kept.db"
    url = f"sqlite:///{place}" if request.param == "sqlite" else place.as_uri()

    def open_one() -> ContextEngine:
        store: Store = shared if request.param == "memory" else open_store(url)
        estimator = CharBasedEstimator()
        made = create_context_engine(store, config=config(), token_estimator=estimator)
        engines.append(made)
        return made

    yield open_one
    for engine in engines:
        engine.sync.close()


VISITS = itertools.count()


def visit(engine: ContextEngine, scope: Scope = SCOPE, *first: HostMessage) -> HostApp:
    """An app that has kept nothing of its session, in a request of its own."""
    return HostApp(engine, scope, [*first], requests=1000 * next(VISITS))


def text(prepared: Prepared) -> str:
    return "\n".join(part.content for part in prepared.assembled.parts)


def put_in(prepared: Prepared) -> str:
    """What goes out beside the host's own newest words."""
    return "\n".join(part.content for part in prepared.assembled.parts[:-1])


def stored(engine: ContextEngine, scope: Scope = SCOPE) -> str:
    assert engine.sync.flush()
    run, store = engine.loop.run, engine.store
    return f"{run(store.state(scope))}{run(store.list_turns(scope))}{run(store.list_events(scope))}"


@pytest.mark.req("A-19", "B-02")
def test_stored_messages_go_out_live_and_after_a_restart_as_placeholders(
    opened: Opened, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    engine = opened()
    visit(engine).ask(f"Write to {MAIL}, 谢谢", f"I wrote to {MAIL}.")
    prepared = visit(engine).prepare(user("To whom?"))
    assert [type(step) for step in prepared.plan[:2]] == [Restore, Restore]
    assert put_in(prepared) == f"Write to {MAIL}, 谢谢\nI wrote to {MAIL}."
    assert prepared.report.placeholders_sent == 0
    assert "[EMAIL_1]" in stored(engine)
    assert MAIL not in stored(engine)
    assert not any(MAIL.encode() in p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())

    again = visit(opened()).prepare(user("To whom?"))
    assert put_in(again) == "Write to [EMAIL_1], 谢谢\nI wrote to [EMAIL_1]."
    assert again.report.placeholders_sent == 2
    assert MAIL not in caplog.text


@pytest.mark.req("A-19")
def test_a_value_that_is_met_again_after_a_restart_is_live_again(opened: Opened) -> None:
    visit(opened()).ask(f"Write to {MAIL}, pay with {CARD}", "Done.")
    app = visit(opened())
    prepared = app.prepare(user(f"Did you write to {MAIL}?"))
    assert put_in(prepared) == f"Write to {MAIL}, pay with [CARD_1]\nDone."
    assert prepared.report.placeholders_sent == 1


@pytest.mark.req("A-19", "A-08")
@pytest.mark.parametrize("placement", ["seed", "cache"])
def test_what_is_brought_in_is_live_and_within_the_budget(opened: Opened, placement: str) -> None:
    engine = opened()
    app = visit(engine, SCOPE, system("You help."))
    tight = config(700, placement=placement)
    app.ask(f"The keeper of the north warehouse is {MAIL}.", "Noted.", config=tight)
    for n in range(30):
        app.ask(f"Tell me about item {n} of the list.", f"Item {n} is a lamp.", config=tight)
    prepared = app.prepare(user("Who is the keeper of the north warehouse?"), config=tight)
    assert MAIL in text(prepared)
    assert "[EMAIL_1]" not in text(prepared)
    count = CharBasedEstimator().estimate_message
    sent = sum(count(part.role, part.content) for part in prepared.assembled.parts)
    assert sent <= prepared.report.token_used <= 700
    assert MAIL not in stored(engine)


@pytest.mark.req("A-08", "A-19")
def test_a_live_text_that_would_break_the_budget_stays_a_placeholder() -> None:
    long = "https://" + "a" * 2000
    redaction = RedactionConfig(rules=RedactionRules(patterns={"link": "https://a+"}))
    for tokens, live in ((20_000, True), (400, False)):
        engine = create_context_engine(
            MemoryStore(), config=config(redaction=redaction), token_estimator=CharBasedEstimator()
        )
        app = visit(engine, SCOPE, system("You help."))
        narrow = config(400, redaction=redaction)
        app.ask(f"The warehouse page is {long}.", "Noted.")
        for n in range(20):
            app.ask(f"Tell me about item {n} of the list.", f"Item {n} is a lamp.", config=narrow)
        ask = user("What is the warehouse page?")
        prepared = app.prepare(ask, config=config(tokens, redaction=redaction))
        assert (long in text(prepared)) is live
        assert prepared.report.placeholders_sent == (0 if live else 1)
        assert prepared.report.token_used <= tokens
        engine.sync.close()


@pytest.mark.req("A-19", "D-10")
def test_a_value_of_one_session_never_comes_out_in_another(opened: Opened) -> None:
    engine = opened()
    visit(engine).ask(f"Write to {MAIL}", "Done.")
    other = replace(SCOPE, session_id="t")
    visit(engine, other).ask("What does [EMAIL_1] mean?", "[EMAIL_1] is a placeholder.")
    prepared = visit(engine, other).prepare(user("Tell me again"))
    assert put_in(prepared) == "What does [EMAIL_1] mean?\n[EMAIL_1] is a placeholder."
    assert prepared.report.placeholders_sent == 2


@pytest.mark.req("A-19")
def test_who_spells_a_placeholder_out_does_not_get_the_value(opened: Opened) -> None:
    engine = opened()
    visit(engine).ask(f"Write to {MAIL}, pay with {CARD}", "Done.")
    visit(engine).ask("Please fill in [EMAIL_1] and [CARD_7].", "Hm.")
    prepared = visit(engine).prepare(user("And?"))
    assert MAIL not in text(prepared)
    assert "fill in [EMAIL_1] and [CARD_7]" in text(prepared)
    assert CARD in text(prepared)


@pytest.mark.req("A-30")
def test_deletion_empties_the_vault(opened: Opened) -> None:
    engine = opened()
    visit(engine).ask(f"Write to {MAIL}", "Done.")
    before = engine._sessions.known(SCOPE)
    assert before is not None
    assert before.redactor is not None
    assert before.redactor.held_bytes > len(MAIL)
    assert before.held_bytes > before.bytes
    engine.sync.delete_session(SCOPE)
    assert engine._sessions.known(SCOPE) is None
    visit(engine).ask("Say [EMAIL_1] once", "[EMAIL_1]")
    prepared = visit(engine).prepare(user("Again"))
    assert MAIL not in text(prepared)


@pytest.mark.req("A-30")
def test_a_value_of_deleted_evidence_is_known_no_more(opened: Opened) -> None:
    engine = opened()
    visit(engine).ask("Who keeps the warehouse?", f"Ask {MAIL}.")
    engine.sync.flush()
    (found,) = engine.loop.run(engine.store.list_evidences(SCOPE))
    prepared = visit(engine).prepare(user("And?"))
    assert MAIL in text(prepared)
    engine.sync.delete_evidence(SCOPE, found.evidence_id)
    view = engine._sessions.known(SCOPE)
    assert view is not None
    assert view.redactor is not None
    assert view.redactor.restore("[EMAIL_1]").restored == 0


def test_the_host_s_own_words_go_out_as_they_are(opened: Opened) -> None:
    app = visit(opened())
    app.ask(f"Write to {MAIL}", "Done.")
    prepared = app.prepare(user("What is [EMAIL_1]?"))
    assert prepared.unchanged
    assert PLACEHOLDER.findall(text(prepared)) == ["[EMAIL_1]"]
    assert prepared.report.placeholders_sent == 0


# The vault


def test_the_vault_is_bounded_and_forgets_what_was_not_met_for_longest() -> None:
    vault = Vault(max_bytes=2000)
    vault.hold("[A_1]", "first")
    for n in range(2, 100):
        vault.hold(f"[A_{n}]", f"value {n}")
        vault.hold("[A_1]", "first")
        assert vault.held_bytes <= 2000
    vault.hold("[A_200]", "x" * 3000)
    found = vault.restore("[A_1] [A_2] [A_200]", PLACEHOLDER)
    assert (found.text, found.restored, found.unresolved) == ("[A_1] [A_2] [A_200]", 0, 3)
    assert vault.held_bytes == 0


def test_the_vault_shows_nothing_and_closes_when_somebody_tries_all_placeholders() -> None:
    vault = Vault()
    vault.hold("[A_99999]", "secret")
    assert "secret" not in repr(vault)
    assert vault.restore("[A_99999]", PLACEHOLDER).text == "secret"
    for n in range(MAX_SPELLED_OUT + 1):
        vault.spelled_out(f"[A_{n}]")
    vault.hold("[A_99998]", "other")
    assert vault.restore("[A_99999] [A_99998]", PLACEHOLDER).restored == 0


class Faulty(PatternRedactor):
    """Somebody else's redactor, whose sessions cannot restore."""

    def bind(self, key: bytes, known: Sequence[Placeholder], locale: str) -> BoundRedactor:
        return Broken(self, key, known, locale)


class Broken(BoundRedactor):
    def restore(self, text: str) -> RestoreResult:
        raise KeyError(text)


@pytest.mark.req("A-19", "A-23")
def test_a_redactor_that_cannot_restore_costs_no_call(caplog: pytest.LogCaptureFixture) -> None:
    engine = create_context_engine(MemoryStore(), config=config(), redactor=Faulty())
    visit(engine).ask(f"Write to {MAIL}", "Done.")
    prepared = visit(engine).prepare(user("To whom?"))
    assert put_in(prepared) == "Write to [EMAIL_1]\nDone."
    assert MAIL not in caplog.text
    engine.sync.close()
