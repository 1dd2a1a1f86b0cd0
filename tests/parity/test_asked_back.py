"""In every framework a question that names something exactly gets what was said of it, long ago and within little room."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from ce_engine import BudgetConfig
from ce_integrations.testing.answers import Answer, text, tool_calls
from ce_integrations.testing.framework_apps import FrameworkApps
from ce_integrations.testing.side_by_side import SideBySide
from ce_integrations.testing.wire import Wire
from tests.parity.scenario import FRAMEWORKS, apps_of, installed


FACT = "Invoice 4711 of Acme is due on 3 March 三月三日; please remember it."
READ = "What does the contract with Acme say about late payment?"
QUESTION = "When is invoice 4711 due 何时到期, and what does being late cost?"
BUDGET = 1000


def contract(party: str) -> str:
    """Read a contract."""
    return (
        f"Contract of {party}, section 8: late payment costs 2 % a week. " + "Section text. " * 40
    )


def talk(used_tool: int, asked: int) -> Iterator[tuple[str, tuple[Answer, ...]]]:
    """Questions, and what the model says: one turn uses a tool, the last goes back."""
    yield FACT, (text("Noted 记下了: invoice 4711, due on 3 March."),)
    topics = ("lunch in canteen", "the printer on floor", "a train to city", "the meeting number")
    for n in range(2, asked):
        if n == used_tool:
            reads = tool_calls([("contract", {"party": "Acme"})])
            yield READ, (reads, text("Late payment costs 2 % a week."))
        else:
            topic = f"{topics[n * n % 4]} {n}"
            says = f"About {topic}: " + "bring a pen and be on time. " * 5
            yield f"Tell me about {topic}, please, and what I have to bring.", (text(says),)
    yield QUESTION, (text("On 3 March; being late costs 2 % a week."),)


@pytest.fixture(params=FRAMEWORKS)
def apps(request: pytest.FixtureRequest) -> FrameworkApps:
    if not installed(request.param):
        pytest.skip(f"{request.param} is not installed")
    return apps_of(request.param)[0]()


@pytest.mark.req("E-03")
def test_what_a_question_names_is_there_though_a_tool_was_used(apps: FrameworkApps) -> None:
    """The agent's rules brought another text, and left a fifth of the room free."""
    turns = list(talk(used_tool=10, asked=18))
    ways = apps.adapter.capabilities.ways
    limits = BudgetConfig(max_input_tokens=BUDGET, reserved_reply_tokens=0)
    with (
        SideBySide(apps) as trial,
        Wire([each for _, answers in turns for each in answers]) as wire,
    ):
        asked = trial.asking([said for said, _ in turns], "async" if "async" in ways else "sync")
        trial.installed(wire, apps.make_target(wire, (contract,)), asked, budget=limits)
        assert wire.refusals == []
        sent = json.dumps(wire.bodies[-1]["messages"], ensure_ascii=False)
        assert QUESTION in sent
        assert "Invoice 4711 of Acme is due on 3 March 三月三日" in sent
        assert trial.turns()[-1].report["token_used"] <= BUDGET
