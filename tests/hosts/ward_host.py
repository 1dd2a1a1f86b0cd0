"""An agent that looks papers up, some of which contradict each other; and what stood before its model in each turn."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from ce_engine import BudgetConfig, ContextEngine, Prepared, RuntimeConfig, Scope
from ce_engine.schema.call import Extend, Insert, Keep, Restore, Shorten
from ce_engine.schema.document import SessionDocument
from ce_engine.schema.rows import TurnRow
from ce_engine.testing.host import HostApp, assistant, system, tool_calls, tool_result, user


SCOPE = Scope(session_id="s", user_id="u")
PATIENT = {"patient_id": "P-1"}
STOCK = {"item": "IT-88", "at": {"ward": 3, "shelf": "b"}}
RECORD = json.dumps({"patient_id": "P-1", "name": "Biscuit", "weight_kg": 31.2, "vet": "Dr. Lind"})
CHART = json.dumps({"patient_id": "P-1", "rx_id": "RX-5", "weight_kg": 28.6, "ward": "kennel 4"})


def config(tokens: int = 600) -> RuntimeConfig:
    return RuntimeConfig(budget=BudgetConfig(max_input_tokens=tokens, reserved_reply_tokens=0))


class Ward:
    """An agent that looks papers up, and what stood before its model in each turn."""

    def __init__(self, engine: ContextEngine, tokens: int = 600) -> None:
        self.app, self.config = HostApp(engine, SCOPE, [system("You help.")]), config(tokens)
        self.inputs: list[str] = []
        self._calls = 0

    def look_up(self, question: str, tool: str, paper: str, answer: str, **more: Any) -> None:
        self.call(question, [(tool, more.get("args", PATIENT), paper)], answer, **more)

    def call(
        self,
        question: str,
        calls: Sequence[tuple[str, dict[str, Any], str]],
        answer: str,
        *,
        error: bool = False,
        **_: Any,
    ) -> None:
        """Ask for tools, each with its arguments and what it gives, in one turn, and answer in the next."""
        names = [f"c-{self._calls + n}" for n in range(1, len(calls) + 1)]
        self._calls += len(calls)
        prepared = self._prepare(user(question))
        requests = [(name, *call[:2]) for name, call in zip(names, calls, strict=True)]
        self.app.commit(prepared, tool_calls(*requests))
        results = [
            tool_result(name, call[2], error=error) for name, call in zip(names, calls, strict=True)
        ]
        prepared = self._prepare(*results, new_request=False)
        self.app.commit(prepared, assistant(answer))

    def ask(self, question: str, answer: str) -> None:
        self.app.commit(self._prepare(user(question)), assistant(answer))

    def _prepare(self, *new: Any, **more: Any) -> Prepared:
        prepared = self.app.prepare(*new, config=self.config, **more)
        self.inputs.append("\n".join(self._texts(prepared)))
        return prepared

    def _texts(self, prepared: Prepared) -> Iterator[str]:
        for step in prepared.plan:
            if isinstance(step, Keep | Extend):
                yield self.app.messages[step.index].message.content
            if isinstance(step, Restore):
                yield f"{step.before}\n{step.message.content}"
            if isinstance(step, Shorten | Extend | Insert):
                yield step.text

    def stored(self) -> tuple[SessionDocument, list[TurnRow]]:
        sync = self.app.engine.sync
        sync.flush()
        document = sync.get_session(SCOPE)
        assert document is not None
        return document, list(sync.list_turns(SCOPE))

    def turns_with(self, *values: str) -> list[int]:
        """The turns in which all of these stood before the model."""
        return [n for n, text in enumerate(self.inputs, 1) if all(v in text for v in values)]

    def is_note_alone(self, turn: int) -> bool:
        """Whether one of the values stood there in the note alone."""
        lines = [line for line in self.inputs[turn - 1].splitlines() if "(evidence" not in line]
        return not all(value in "".join(lines) for value in ("31.2", "28.6"))


def small_talk(ward: Ward, count: int) -> None:
    for n in range(count):
        ward.ask(f"Please tell me of lamp {n} in the hall. " * 3, f"Lamp number {n} is red. " * 2)


def ward_of(engine: ContextEngine) -> Ward:
    """Two papers that give one dog two weights; they fall out, and come back for a question."""
    ward = Ward(engine)
    ward.look_up("Who is Biscuit?", "patient_record", RECORD, "A dog of Dr. Lind.")
    small_talk(ward, 2)
    ward.look_up("What does the ward say?", "ward_chart", CHART, "He is in kennel 4.")
    small_talk(ward, 9)
    ward.ask("What weight_kg has Biscuit, P-1, by record and by ward chart?", "They differ.")
    small_talk(ward, 8)
    return ward


SECOND = 12
"""The turn of `stock_of` that asks for the stock again."""


def stock_of(engine: ContextEngine) -> Ward:
    """A stock is looked up, and again: the first result stands quoted when the second is there, and when it is left out.

    Much later a question that has the first one's words brings the second back.
    """
    ward = Ward(engine, 500)
    paper = {"name": "carprofen tablets", "supplier": "Vetpharm Nord", "count": 31}
    ward.look_up("How many are there?", "stock", json.dumps(paper), "So many.", args=STOCK)
    small_talk(ward, 9)
    ward.look_up("Please look once more.", "stock", "7 left", "So many.", args=STOCK)
    small_talk(ward, 9)
    ward.ask("Which carprofen tablets have we of the supplier Vetpharm Nord?", "Those.")
    small_talk(ward, 3)
    return ward
