"""What adapters get wrong about pieces of answers: those that an app takes, and those that it is pushed."""

from __future__ import annotations

from typing import Any

from ce_integrations.calls.governed_call import GovernedCall
from ce_integrations.install.adapter import Adapter, Hooks, Turn
from tests.adapters.mutants import Mutant, Patch


PIECES = "test_the_pieces_of_an_answer_are_noted_as_they_come"
LEFT = "test_a_stream_that_is_left_is_recorded_once"


def tells_no_pieces(patch: Patch, _: Adapter[Any, Any]) -> None:
    """Subscribers hear of no piece."""
    patch.setattr(Hooks, "chunk", lambda *_: None)


def overlooks_the_first_piece(patch: Patch, _: Adapter[Any, Any]) -> None:
    """Nobody knows when it came."""
    timed = Turn.timed

    def late(self: Any, usage: Any) -> Any:
        self.first = None
        return timed(self, usage)

    patch.setattr(Turn, "timed", late)


def overlooks_callbacks(patch: Patch, _: Adapter[Any, Any]) -> None:
    """What an app is pushed goes unnoticed."""
    patch.setattr(GovernedCall, "pushing", lambda _, callback, *__: callback)


def calls_who_left_a_failure(patch: Patch, _: Adapter[Any, Any]) -> None:
    """The app's own callback wanted no more, and the provider is blamed."""
    fail = Hooks._fail

    def blamed(self: Any, turn: Any, *args: Any) -> Any:
        if turn is not None:
            turn.left = False
        return fail(self, turn, *args)

    patch.setattr(Hooks, "_fail", blamed)


STREAMED = [
    Mutant(tells_no_pieces, "plain", PIECES, "streamed"),
    Mutant(overlooks_the_first_piece, "plain", PIECES, "streamed"),
]
"""For all adapters whose apps take streams."""

PUSHED = [
    Mutant(tells_no_pieces, "plain", PIECES, "pushed"),
    Mutant(overlooks_the_first_piece, "plain", PIECES, "pushed"),
    Mutant(overlooks_callbacks, "plain", PIECES, "pushed"),
    Mutant(overlooks_callbacks, "plain", LEFT, "pushed"),
    Mutant(calls_who_left_a_failure, "plain", LEFT, "pushed"),
]
"""For adapters that declare `push`, whose framework lets a callback's error out."""
