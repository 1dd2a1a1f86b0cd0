"""Constraints: stored for one owner and project, bounded, redacted, told with every chat call (D-06)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from ce_engine import (
    CollectConfig,
    ConstraintLimitError,
    ConstraintNotFoundError,
    ContextEngine,
    MemoryStore,
    RedactionConfig,
    RedactionError,
    RedactionRules,
    RuntimeConfig,
    SchemaValidationError,
    Scope,
    StoreConfig,
    StoreUnavailableError,
    create_context_engine,
    open_store,
)
from ce_engine.prepare.blocks.constraints import render_constraints
from ce_engine.schema.enums import Priority
from ce_engine.schema.settings import Setting
from ce_engine.testing.faults import SwitchStore
from tests.hosts.context_host import SCOPE, call, collect, told


pytestmark = pytest.mark.req("D-06")
PATIENT = RuntimeConfig(store=StoreConfig(deadline_s=20))
RULE = "主角在第五章之前不知道真相"
MAIL = "zhang.wei@example.com"


@pytest.fixture(params=["memory://", "sqlite:///ce.db", "file:sessions"])
async def engine(request: pytest.FixtureRequest) -> AsyncIterator[ContextEngine]:
    made = create_context_engine(open_store(request.param), config=PATIENT)
    yield made
    await made.close()


def bytes_in(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())


async def test_a_constraint_is_kept_changed_and_deleted(engine: ContextEngine) -> None:
    made = await engine.constraints.create(SCOPE, f"  {RULE}\n")
    assert (made.text, made.priority, made.derived, made.redacted) == (RULE, "must", False, 0)
    assert await engine.constraints.list(SCOPE) == [made]
    other = await engine.constraints.update(
        SCOPE, made.constraint_id, text="短句", priority=Priority.HIGH
    )
    assert (other.text, other.priority, other.created_at) == ("短句", "high", made.created_at)
    assert await engine.constraints.list(replace(SCOPE, session_id="another")) == [other]
    await engine.constraints.delete(SCOPE, made.constraint_id)
    assert await engine.constraints.list(SCOPE) == []
    for gone in (
        engine.constraints.delete(SCOPE, made.constraint_id),
        engine.constraints.update(SCOPE, made.constraint_id, text="x"),
    ):
        with pytest.raises(ConstraintNotFoundError, match=made.constraint_id):
            await gone


@pytest.mark.req("B-03", "D-10")
async def test_they_are_of_one_owner_and_project(engine: ContextEngine) -> None:
    await engine.constraints.create(SCOPE, RULE)
    for other in (
        replace(SCOPE, user_id=""),
        replace(SCOPE, account_id="b"),
        replace(SCOPE, project_id=""),
    ):
        assert await engine.constraints.list(other) == []
        assert told(await collect(engine, call(other))) == []


async def test_every_chat_call_of_the_owner_is_told_in_a_stable_order(
    engine: ContextEngine,
) -> None:
    await engine.constraints.create(SCOPE, "derived", derived=True)
    await engine.constraints.create(SCOPE, "second", priority=Priority.HIGH)
    await engine.constraints.create(SCOPE, "first")
    await engine.constraints.create(SCOPE, "third", priority=Priority.HIGH)
    await engine.constraints.create(SCOPE, "last", derived=True, priority=Priority.LOW)
    for session, ephemeral in (("one", False), ("one", False), ("two", False), ("x", True)):
        asked = call(replace(SCOPE, session_id=session), ephemeral=ephemeral)
        found = await collect(engine, asked)
        assert told(found) == ["first", "second", "third", "derived", "last"]
        assert found.warnings == []
        assert [(m.section, m.source, str(m.priority)) for m in found.materials] == [
            ("framework__context", "constraints", priority)
            for priority in ("must", "high", "high", "medium", "low")
        ]
    assert told(await collect(engine, call(purpose="helper"))) == []
    off = PATIENT.model_copy(update={"enable_share_context": False})
    assert told(await collect(engine, call(config=off))) == []


async def test_what_another_process_changes_is_told_with_the_next_call(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ce.db'}"
    here, there = (create_context_engine(url, config=PATIENT) for _ in range(2))
    await here.prepare(call())
    assert told(await collect(here, call())) == []
    made = await there.constraints.create(SCOPE, RULE)
    assert told(await collect(here, call())) == [RULE]
    await there.constraints.update(SCOPE, made.constraint_id, text="别的")
    assert told(await collect(here, call())) == ["别的"]
    await there.delete_user_data("a", "u")
    assert told(await collect(here, call())) == []
    await there.constraints.create(SCOPE, "新的")
    assert told(await collect(here, call())) == ["新的"]
    await asyncio.gather(here.close(), there.close())


async def test_unchanged_they_cost_no_question_to_the_store() -> None:
    store = SwitchStore()
    engine = create_context_engine(store, config=PATIENT)
    await engine.constraints.create(SCOPE, RULE)

    async def asked(text: str) -> int:
        await engine.flush()
        before = store.asked
        await engine.prepare(call(text=text))
        now = store.asked
        await engine.flush()
        return now - before

    await asked("one?")
    await asked("two?")
    without, quiet = create_context_engine(other := SwitchStore(), config=PATIENT), []
    for text in ("one?", "two?", "three?"):
        await without.flush()
        before = other.asked
        await without.prepare(call(text=text))
        quiet.append(other.asked - before)
    assert await asked("three?") == quiet[-1]
    await asyncio.gather(engine.close(), without.close())


async def test_without_the_store_what_is_known_goes_on() -> None:
    store = SwitchStore()
    quick = RuntimeConfig(store=StoreConfig(deadline_s=20, breaker_s=0))
    engine = create_context_engine(store, config=quick)
    await engine.constraints.create(SCOPE, RULE)
    assert told(await collect(engine, call())) == [RULE]
    store.refuses = True
    assert told(await collect(engine, call())) == [RULE]
    unknown = await collect(engine, call(replace(SCOPE, project_id="q", session_id="t")))
    assert unknown.warnings == ["CONTEXT_SOURCE_UNAVAILABLE: constraints"]
    store.refuses = False
    await engine.close()


async def test_there_are_at_most_so_many() -> None:
    few = RuntimeConfig(collect=CollectConfig(max_constraints=2), store=PATIENT.store)
    engine = create_context_engine(MemoryStore(), config=few)
    for n in range(2):
        await engine.constraints.create(SCOPE, str(n))
    with pytest.raises(ConstraintLimitError, match=r"2 constraints.*max_constraints"):
        await engine.constraints.create(SCOPE, "3")
    await engine.constraints.create(replace(SCOPE, project_id="q"), "elsewhere")
    assert RuntimeConfig().collect.max_constraints == 500
    await engine.close()


async def test_of_two_that_change_them_at_once_both_stand(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ce.db'}"
    engines = [create_context_engine(url, config=PATIENT) for _ in range(2)]
    await engines[0].check()
    await asyncio.gather(*(each.constraints.create(SCOPE, "x") for each in engines))
    assert len(await engines[0].constraints.list(SCOPE)) == 2
    await asyncio.gather(*(each.close() for each in engines))


async def test_many_may_be_created_at_once(engine: ContextEngine) -> None:
    rules = {f"rule {n}" for n in range(12)}
    await asyncio.gather(*(engine.constraints.create(SCOPE, rule) for rule in rules))
    assert {each.text for each in await engine.constraints.list(SCOPE)} == rules


@pytest.mark.req("B-02")
async def test_what_is_stored_and_told_is_redacted(engine: ContextEngine, tmp_path: Path) -> None:
    first = await engine.constraints.create(SCOPE, f"Never write to {MAIL}")
    again = await engine.constraints.create(SCOPE, f"{MAIL} 是编辑, ma.li@example.com 不是")
    assert (first.text, first.redacted) == ("Never write to [EMAIL_1]", 1)
    assert again.text == "[EMAIL_1] 是编辑, [EMAIL_2] 不是"
    rules = ["Never write to [EMAIL_A]", "[EMAIL_A] 是编辑, [EMAIL_B] 不是"]
    assert told(await collect(engine, call())) == rules, "no number of the session's own"
    await engine.flush()
    assert MAIL.encode() not in bytes_in(tmp_path)


@pytest.mark.req("B-02", "A-19")
async def test_a_rule_whose_name_has_a_digit_has_no_number_of_the_sessions_either() -> None:
    rules = RedactionRules(patterns={"badge2": "badge-[0-9]+"})
    config = PATIENT.model_copy(update={"redaction": RedactionConfig(rules=rules)})
    engine = create_context_engine(MemoryStore(), config=config)
    await engine.constraints.create(SCOPE, "Never let badge-1 in")
    await engine.prepare(call(text="I am badge-7"))
    assert told(await collect(engine, call())) == ["Never let [BADGE2_A] in"]
    prepared = await engine.prepare(call(text="May I come in?"))
    texts = [str(getattr(step, "text", "")) for step in prepared.plan]
    assert "badge-7" not in "".join(texts), "another person than the rule means"
    await engine.close()


class Fails:
    """A redactor of somebody else's."""

    version = "1"

    def bind(self, *_: object) -> Fails:
        return self

    def text(self, text: str) -> object:
        raise ZeroDivisionError(text)

    def learned(self) -> list[object]:
        return []


@pytest.mark.req("B-02")
async def test_what_cannot_be_redacted_is_not_stored() -> None:
    engine = create_context_engine(MemoryStore(), redactor=Fails(), config=PATIENT)
    with pytest.raises(RedactionError, match="not stored") as caught:
        await engine.constraints.create(SCOPE, MAIL)
    assert MAIL not in str(caught.value)
    assert await engine.constraints.list(SCOPE) == []
    off = PATIENT.model_copy(update={"redaction": RedactionConfig(enabled=False)})
    plain = create_context_engine(MemoryStore(), config=off)
    assert (await plain.constraints.create(SCOPE, MAIL)).text == MAIL
    await asyncio.gather(engine.close(), plain.close())


async def test_what_is_no_constraint_is_refused(engine: ContextEngine) -> None:
    for text in (" \n", "字" * 4001):
        with pytest.raises(SchemaValidationError, match="expected 1 to 4000"):
            await engine.constraints.create(SCOPE, text)
    with pytest.raises(SchemaValidationError, match="'must', expected 'medium' or 'low'"):
        await engine.constraints.create(SCOPE, "x", derived=True, priority=Priority.MUST)
    own = await engine.constraints.create(SCOPE, "x")
    with pytest.raises(SchemaValidationError, match="'low', expected 'must' or 'high'"):
        await engine.constraints.update(SCOPE, own.constraint_id, priority=Priority.LOW)


@pytest.mark.req("D-09")
@pytest.mark.parametrize("stored", [[], {"items": 5, "placeholders": []}, {"items": [{}]}, "x"])
async def test_what_is_stored_and_no_constraint_harms_no_call(stored: object) -> None:
    store = MemoryStore()
    engine = create_context_engine(store, config=PATIENT)
    await store.put_setting(SCOPE, "constraints", stored)
    found = await collect(engine, call())
    assert (told(found), found.warnings) == ([], ["CONTEXT_SOURCE_MALFORMED: constraints"])
    with pytest.raises(SchemaValidationError, match="It was left as it is"):
        await engine.constraints.create(SCOPE, "x")
    assert await store.get_setting(SCOPE, "constraints") == Setting(stored, 1)
    await engine.close()


@pytest.mark.req("D-09")
async def test_closed_no_call_goes_out_without_them() -> None:
    store = MemoryStore()
    closed = PATIENT.model_copy(update={"fail": "closed"})
    engine = create_context_engine(store, config=closed)
    await store.put_setting(SCOPE, "constraints", "damaged")
    with pytest.raises(StoreUnavailableError, match="CONTEXT_SOURCE_MALFORMED: constraints"):
        await engine.prepare(call())
    await engine.close()


@pytest.mark.req("A-30", "B-08")
async def test_they_go_with_the_users_data(engine: ContextEngine, tmp_path: Path) -> None:
    await engine.constraints.create(SCOPE, "a canary sings")
    keep = replace(SCOPE, user_id="other")
    await engine.constraints.create(keep, "stays")
    assert (await engine.delete_user_data("a", "u")).settings == 1
    assert await engine.constraints.list(SCOPE) == []
    assert [each.text for each in await engine.constraints.list(keep)] == ["stays"]
    assert b"canary" not in bytes_in(tmp_path)
    assert "canary" not in repr(vars(engine._settings))


def test_blocking_callers_have_the_same() -> None:
    engine = create_context_engine(MemoryStore())
    made = engine.sync.constraints.create(Scope(session_id="s"), "x", derived=True)
    engine.sync.constraints.update(Scope(session_id="s"), made.constraint_id, text="y")
    assert [c.text for c in engine.sync.constraints.list(Scope(session_id="s"))] == ["y"]
    engine.sync.constraints.delete(Scope(session_id="s"), made.constraint_id)
    assert engine.sync.constraints.list(Scope(session_id="s")) == []
    engine.sync.close()


def test_they_read_as_a_numbered_list_under_a_fixed_header() -> None:
    texts = ["严格第一人称叙述", "林远性格冷静,\n2. 不会大声喊叫"]
    assert render_constraints(texts, "zh") == (
        "[约束 - 不可违反]\n1. 严格第一人称叙述\n2. 林远性格冷静, 2. 不会大声喊叫"
    )
    assert render_constraints(["Be brief."], "en") == (
        "[Constraints - must not be violated]\n1. Be brief."
    )
    assert render_constraints([], "zh") == ""


async def test_a_constraint_says_what_it_is_about(engine: ContextEngine) -> None:
    style = await engine.constraints.create(SCOPE, "No exclamation marks.", kind="style")
    plot = await engine.constraints.create(SCOPE, RULE, kind="情节")
    assert await engine.constraints.list(SCOPE, kind="情节") == [plot]
    assert await engine.constraints.list(SCOPE) == [style, plot]
    changed = await engine.constraints.update(SCOPE, plot.constraint_id, kind="")
    assert (changed.text, changed.kind) == (RULE, "")
    assert await engine.constraints.list(SCOPE, kind="情节") == []


@pytest.mark.parametrize("kind", [MAIL, "13800138000", "a b", "x" * 41, "-", "style\n"])
async def test_a_kind_can_say_nothing_that_would_have_to_be_redacted(
    engine: ContextEngine, kind: str
) -> None:
    with pytest.raises(SchemaValidationError, match="word of at most 40 letters"):
        await engine.constraints.create(SCOPE, RULE, kind=kind)
    assert await engine.constraints.list(SCOPE) == []
