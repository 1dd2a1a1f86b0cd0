"""What owners set and sources know, on the wire of a LangChain app (D-06, D-09, D-10, E-03)."""

from __future__ import annotations

from typing import Any

import pytest

from ce_engine import (
    BlockType,
    BudgetConfig,
    CallerRole,
    ConfigError,
    ContextBlock,
    ContextEngine,
    ContextPiece,
    MemoryStore,
    RuntimeConfig,
    Scope,
    create_context_engine,
)
from ce_integrations import ce_role, ce_session
from ce_integrations.langchain import install_ce
from ce_integrations.testing.wire import Wire
from tests.adapters.langchain.conftest import Model


RULES = "[Constraints - must not be violated]\n1. Answer in English.\n2. Never name a price."


def system_of(body: dict[str, Any]) -> str:
    return "\n".join(m["content"] for m in body["messages"] if m["role"] == "system")


def prompt() -> Any:
    from langchain_core.prompts import ChatPromptTemplate

    return ChatPromptTemplate.from_messages([("system", "You help."), ("human", "{q}")])


@pytest.mark.req("D-06", "E-03")
def test_constraints_go_out_with_every_call_of_their_owner_with_room_too(
    engine: ContextEngine, chat: Model
) -> None:
    owner = Scope(session_id="any", user_id="ann")
    engine.sync.constraints.create(owner, "Answer in English.")
    second = engine.sync.constraints.create(owner, "Never name a price.")
    with Wire() as wire:
        chain = prompt() | chat(wire)
        with install_ce(chain, engine=engine):
            for user in ("ann", "bob"):
                with ce_session("s1", user_id=user):
                    chain.invoke({"q": "hello"})
            engine.sync.constraints.delete(owner, second.constraint_id)
            with ce_session("s2", user_id="ann"):
                chain.invoke({"q": "hello again"})
        ann, bob, later = map(system_of, wire.bodies)
        assert ann == f"You help.\n\n{RULES}"
        assert bob == "You help."
        assert "1. Answer in English." in later
        assert "price" not in later
        assert wire.refusals == []


@pytest.mark.req("D-06", "D-02")
def test_constraints_stay_where_history_must_go(engine: ContextEngine, chat: Model) -> None:
    owner = Scope(session_id="any", user_id="ann")
    engine.sync.constraints.create(owner, "Answer in English.")
    config = RuntimeConfig(budget=BudgetConfig(max_input_tokens=400, reserved_reply_tokens=0))
    with Wire() as wire:
        chain = prompt() | chat(wire)
        with (
            install_ce(chain, engine=engine, config=config) as installed,
            ce_session("s1", user_id="ann"),
        ):
            for n in range(12):
                chain.invoke({"q": f"question {n} " + "word " * 40})
            report = installed.last_report(Scope(session_id="s1", user_id="ann"))
        assert all("1. Answer in English." in system_of(body) for body in wire.bodies)
        assert report is not None
        assert report.token_used <= 400


class Graph:
    """A knowledge graph beside the app; of another project where it is told so."""

    name = "kg"
    section = "knowledge__context"

    def __init__(self, project_id: str = "") -> None:
        self.project_id = project_id

    async def fetch(self, scope: Scope, query: str, limit: int) -> list[ContextPiece]:
        if "boom" in query:
            raise RuntimeError("the graph is down")
        return [ContextPiece("林远性格冷静。", score=0.9, project_id=self.project_id)]


@pytest.mark.req("D-09", "D-10")
@pytest.mark.parametrize(
    ("project", "question", "goes_out", "warning"),
    [
        ("", "林远是谁？", True, None),
        ("", "boom", False, "CONTEXT_SOURCE_UNAVAILABLE: kg"),
        ("other", "林远是谁？", False, "CONTEXT_SCOPE_VIOLATION: kg"),
    ],
)
def test_a_source_of_the_apps_own_is_asked_with_every_call(
    chat: Model, project: str, question: str, goes_out: bool, warning: str | None
) -> None:
    engine = create_context_engine(MemoryStore(), sources=[Graph(project)])
    with Wire(["answer"]) as wire:
        chain = prompt() | chat(wire)
        with install_ce(chain, engine=engine) as installed, ce_session("s1"):
            assert chain.invoke({"q": question}).content == "answer"
            report = installed.last_report("s1")
        (body,) = wire.bodies
        assert ("林远性格冷静" in body["messages"][-1]["content"]) is goes_out
        assert body["messages"][-1]["content"].endswith(question)
        assert report is not None
        told = [code for code in report.warnings if code.endswith(": kg")]
        assert told == ([warning] if warning else [])
    engine.sync.close()


@pytest.mark.req("E-05")
@pytest.mark.parametrize(
    ("role", "want", "history", "facts"),
    [
        ("agent", (), True, True),
        ("worker", (), False, False),
        ("worker", ("knowledge__context", "experience__context"), False, True),
        ("reducer", ("knowledge__context",), False, True),
    ],
)
def test_a_part_of_a_map_reduce_has_its_share_of_the_context(
    chat: Model, role: CallerRole, want: tuple[str, ...], history: bool, facts: bool
) -> None:
    engine = create_context_engine(MemoryStore(), sources=[Graph()])
    engine.sync.constraints.create(Scope(session_id="any"), "Answer in English.")
    with Wire() as wire:
        chain = prompt() | chat(wire)
        with install_ce(chain, engine=engine), ce_session("s1"):
            chain.invoke({"q": "the first question"})
            with ce_role(role, want):
                chain.invoke({"q": "map this"})
        sent = str(wire.bodies[1]["messages"])
        assert "1. Answer in English." in sent
        assert ("the first question" in sent) is history
        assert ("林远性格冷静" in sent) is facts
    engine.sync.close()


@pytest.mark.req("E-05")
def test_a_role_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="reducer"), ce_role("boss"):  # type: ignore[arg-type]  # what is tested
        pass
    with pytest.raises(ConfigError, match="knowledge__context"), ce_role("worker", ["todo"]):
        pass


@pytest.mark.req("A-10", "E-01")
def test_blocks_kept_with_a_session_go_into_its_calls_and_no_others(
    engine: ContextEngine, chat: Model
) -> None:
    block = ContextBlock.model_validate(
        {
            "block_id": "b1",
            "block_type": BlockType.MEMORY,
            "priority": "high",
            "content": "喜欢简短的回答",
        }
    )
    with Wire() as wire:
        chain = prompt() | chat(wire)
        with install_ce(chain, engine=engine):
            for name in ("s1", "s1", "s2"):
                with ce_session(name):
                    chain.invoke({"q": "hello"})
                engine.sync.put_context_blocks("s1", [block])
        first, again, other = map(system_of, wire.bodies)
        assert ("简短" in first, "简短" in again, "简短" in other) == (False, True, False)
