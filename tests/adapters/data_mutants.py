"""What adapters get wrong about what is brought in: the contract suite must catch each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ce_engine import ContextEngine, Insert, Layer, Role
from ce_integrations.install.adapter import Adapter, Hooks
from tests.adapters.mutants import MADE, Mutant, Patch, replaced


def _as_the_system(sent: list[Any], natives: list[Any], adapter: Adapter[Any, Any]) -> list[Any]:
    """What stands before a person's words goes out as a message of the system's."""
    found = []
    for each in sent:
        said = adapter.map_message(adapter.split(each)[0])
        if said.role is Role.USER and said.content.startswith("[") and each not in natives:
            found.append(adapter.to_native(Insert(said.content, Layer.RETRIEVED), None))
        found.append(each)
    return found


def knows_one_role(patch: Patch, adapter: Adapter[Any, Any]) -> None:
    """What is inserted is the system's, whatever the plan says."""
    to_native = type(adapter).to_native

    def made(self: Any, step: Any, native: Any) -> Any:
        if isinstance(step, Insert):
            step = Insert(step.text, step.layer, step.block_ids)
        return to_native(self, step, native)

    patch.setattr(type(adapter), "to_native", made)


def records_no_words(patch: Patch, _: Adapter[Any, Any]) -> None:
    """An answer is recorded without what it says."""
    named = Hooks._fill_names

    def hushed(self: Any, turn: Any, answer: Any) -> Any:
        said = named(self, turn, answer)
        return replace(said, message=said.message.model_copy(update={"content": ""}))

    patch.setattr(Hooks, "_fill_names", hushed)


def leaves_open_what_it_cannot_map(patch: Patch, _: Adapter[Any, Any]) -> None:
    """A turn whose answer is not understood has no end."""

    async def nothing(*_: Any, **__: Any) -> None:
        return None

    patch.setattr(ContextEngine, "fail", nothing)


SPEAKS = replaced("speaks_as_the_system", _as_the_system)
KEPT = "test_what_a_session_keeps_poses_as_no_instruction"

JUDGED = "test_an_answer_that_breaks_a_rule_is_marked_and_reaches_the_app"
UNMAPPED = "test_an_answer_that_cannot_be_mapped_closes_its_turn"
TO_ANSWER = {"mapping": "to_answer", "end": "failed"}

DATA = [
    Mutant(records_no_words, "plain", JUDGED),
    Mutant(leaves_open_what_it_cannot_map, "plain", UNMAPPED, given=TO_ANSWER),
    Mutant(knows_one_role, "plain", MADE, ""),
    Mutant(SPEAKS, "plain", KEPT, "", {"placement": "seed"}),
]
