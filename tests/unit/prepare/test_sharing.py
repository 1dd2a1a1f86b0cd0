"""What a caller has of the shared context, by its role (E-05)."""

from __future__ import annotations

from itertools import combinations
from typing import Literal

import pytest

from ce_engine import (
    BudgetConfig,
    MemoryStore,
    ModelCall,
    Prepared,
    RuntimeConfig,
    Scope,
    create_context_engine,
)
from ce_engine.prepare.blocks.material import LAYERS, Material
from ce_engine.prepare.choose.sharing import share_of
from ce_engine.testing.host import HostApp, assistant, user


pytestmark = pytest.mark.req("E-05")
RULES, EXPERIENCE, KNOWLEDGE = "framework__context", "experience__context", "knowledge__context"
ALL = [Material(section, section, "x", "notes") for section in LAYERS]
WANTS = [frozenset(want) for n in range(len(LAYERS) + 1) for want in combinations(LAYERS, n)]


@pytest.mark.parametrize("want", WANTS, ids=lambda want: "+".join(sorted(want)) or "nothing")
def test_each_role_has_its_share(want: frozenset[str]) -> None:
    expected = {
        "agent": set(LAYERS),
        "worker": {RULES} | (want & {KNOWLEDGE}),
        "planner": {RULES} | (want & {KNOWLEDGE, EXPERIENCE}),
        "reducer": {RULES} | (want & {KNOWLEDGE, EXPERIENCE}),
    }
    for role, sections in expected.items():
        share = share_of(role, want)
        assert {material.section for material in share.of(ALL)} == sections
        assert share.history == (role == "agent")
        assert share.recall == (KNOWLEDGE in sections)
        off = share_of(role, want, enabled=False)
        assert (off.of(ALL), off.history, off.recall) == ([], False, False)


def test_the_order_stays() -> None:
    turned = list(reversed(ALL))
    assert share_of("agent").of(turned) == turned


def test_without_a_wish_for_knowledge_nothing_is_found_again() -> None:
    engine = create_context_engine(MemoryStore())
    fact = "The archive door code of the observatory in Leiden is kept by the night guard."
    tight = RuntimeConfig(budget=BudgetConfig(max_input_tokens=900, reserved_reply_tokens=0))
    talk = [user(fact), assistant("Noted.")]
    talk += [say("well, tell me about something else " * 30) for say in (user, assistant)] * 2
    talk += [user("Who keeps the door code of the observatory?")]

    def sent(session: str, role: Literal["agent", "worker"], *want: str) -> str:
        scope = Scope(session_id=session)
        call = ModelCall(scope, talk, config=tight, role=role, want=frozenset(want))
        parts = engine.sync.prepare(call).assembled.parts
        return "\n".join(part.content for part in parts)

    assert "night guard" in sent("a", "agent")
    assert "night guard" not in sent("b", "worker")
    assert "night guard" in sent("c", "worker", KNOWLEDGE)
    engine.sync.close()


def test_only_agents_are_given_the_stored_history() -> None:
    engine = create_context_engine(MemoryStore())
    scope = Scope(session_id="s")
    HostApp(engine, scope).ask("My name is Ada.", "Hello Ada.")

    def asked(n: int, **values: object) -> Prepared:
        call = ModelCall(scope=scope, messages=[user(f"{n}: who am I?")], request_id=str(n))
        for name, value in values.items():
            setattr(call, name, value)
        return engine.sync.prepare(call)

    for n, role in enumerate(("worker", "planner", "reducer")):
        prepared = asked(n, role=role, want=frozenset({KNOWLEDGE, EXPERIENCE}))
        assert (prepared.report.restored, prepared.unchanged) == (0, True)
    assert asked(9).report.restored == 2
    engine.sync.close()
