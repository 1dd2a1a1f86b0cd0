"""A shop's office assistant, called by hand in a tight budget: rules, a tool, and a document of its own."""

from __future__ import annotations

import json
from itertools import count

from ce_engine import (
    BudgetConfig,
    ContextEngine,
    EvidenceSource,
    EvidenceType,
    Message,
    Report,
    Role,
    RuntimeConfig,
    Scope,
    SourceKind,
    StoreConfig,
    ToolRequest,
    Usage,
    create_context_engine,
)
from ce_engine.ports.store import Store
from ce_engine.testing import IdsInOrder


SHOP = Scope(session_id="shop-talk", user_id="mara", project_id="shop")
MODEL = "gpt-4o-mini"
SHOP_CONFIG = RuntimeConfig(
    model_hint=MODEL,
    budget=BudgetConfig(max_input_tokens=1500),
    store=StoreConfig(deadline_s=30),  # a busy machine is no fault here
)
RULES = ("Always give amounts in euros.", "Never promise a delivery date.")
INVOICE = "Please note: Invoice INV-2041 over 1,280 EUR is due 14 March."
POLICY = "Customers may return unused furniture within 45 days of delivery. A restocking fee of 6 percent is kept for upholstered goods. "
SYSTEM = Message(
    role=Role.SYSTEM,
    content="You are the office assistant of a small furniture shop. You answer from the records you are given.",
)
STOCK = {
    "type": "function",
    "function": {
        "name": "stock",
        "description": "How many are in stock.",
        "parameters": {"type": "object", "properties": {"item": {"type": "string"}}},
    },
}
TOPICS = ("the window display", "the spring sale", "the van", "the coffee machine", "the parking")
ASKED = (
    "What should we do about {0} this week, and who could take it over while Jonas is on holiday?",
    "Remind me how we decided on {0}, please; I think there were two options and a price.",
    "Draft a short note to the team about {0}, friendly and clear, and with a date.",
)
ANSWER = "About {0}: you chose the cheaper of two options, the one with a warranty of {1} months, since the other needed a permit. Lena wrote it down in the green folder."


def shop_engine(store: Store | str, ids: str = "shop-") -> ContextEngine:
    """Its engine; ids in order, as what goes out over a budget follows their tokens."""
    return create_context_engine(store, id_generator=IdsInOrder(ids))


class Shop:
    """The app: it leaves the talk to the engine, and sends what that puts together."""

    def __init__(self, engine: ContextEngine, scope: Scope = SHOP, *, tools: bool = True) -> None:
        self.engine, self.scope, self.reports = engine, scope, list[Report]()
        self.tools = [STOCK] if tools else []
        self._calls = count(1)

    def talk(self, questions: int) -> None:
        """The invoice, then small talk; a tool at each sixth, the shop's own document at the eighth."""
        for rule in RULES:
            self.engine.sync.constraints.create(self.scope, rule)
        self.ask(INVOICE, "Noted.")
        for n in range(1, questions):
            topic = TOPICS[n % len(TOPICS)]
            if n == 8:
                self.record(POLICY)
            if n % 6 == 0 and self.tools:
                self.look_up("oak table")
            else:
                self.ask(ASKED[n % 3].format(topic), ANSWER.format(topic, n))
        self.engine.sync.flush()

    def record(self, text: str) -> None:
        """What the shop's own retrieval found for the next question."""
        source = EvidenceSource(kind=SourceKind.RAG, name="handbook", uri="handbook/returns.md")
        self.engine.sync.record_evidence(self.scope, text, source, EvidenceType.RAG_DOC)

    def ask(self, question: str, answer: str) -> Report:
        """One question with its answer."""
        return self._call(Message(role=Role.USER, content=question), answer)

    def look_up(self, item: str) -> None:
        """A question for which the tool is asked."""
        call = ToolRequest(id=f"call-{next(self._calls)}", name="stock", args={"item": item})
        self._call(Message(role=Role.USER, content=f"How many of the {item} do we have?"), "", call)
        found = json.dumps({"item": item, "in_stock": 4, "supplier": "Nordholz GmbH"}, indent=1)
        result = Message(role=Role.TOOL, tool_call_id=call.id, content=found)
        self._call(result, f"There are 4 of the {item}.")

    def _call(self, new: Message, answer: str, *calls: ToolRequest) -> Report:
        made = self.engine.sync.prepare_turn(
            self.scope, [SYSTEM, new], SHOP_CONFIG, tools=self.tools
        )
        said = Message(role=Role.ASSISTANT, content=answer, tool_calls=list(calls) or None)
        report = made.report
        usage = Usage(report.token_used, 20)
        self.engine.sync.commit_assistant_message(
            self.scope, said, turn_id=report.turn_id, model=MODEL, usage=usage
        )
        self.reports.append(report)
        return report
