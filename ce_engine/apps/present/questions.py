"""Questions of a session: a person asks once, and the answer may take several calls of a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ce_engine.errors import TurnNotFoundError
from ce_engine.schema.rows import TurnRow


@dataclass(frozen=True, slots=True)
class Questions:
    """Which question each call is of, in the order in which they were asked.

    Attributes:
        numbers: of each call, from 1; empty where a call does not tell its question, or each has one of its own: then
            a call's own number says it.
    """

    numbers: tuple[int, ...] = ()

    @classmethod
    def of(cls, turns: Sequence[TurnRow], lane: str | None = None) -> Questions:
        """The questions of these calls; of one lane, if that is chosen."""
        request_ids = [row.request_id for row in turns if lane is None or row.lane == lane]
        order = {name: number for number, name in enumerate(dict.fromkeys(request_ids), 1)}
        if not all(request_ids) or len(order) == len(request_ids):
            return cls()
        return cls(tuple(order[name] for name in request_ids))

    @property
    def count(self) -> int:
        return max(self.numbers, default=0)

    def first_call(self, choice: str) -> int:
        """The number of the first call of a question, from 1.

        Raises:
            TurnNotFoundError: there is no such question.
        """
        number = int(choice) if choice.isdecimal() and len(choice) < 9 else 0
        if number not in self.numbers:
            advice = f"Give a number from 1 to {self.count}" if self.count else "Go by its turns"
            raise TurnNotFoundError(f"no question is {choice!r} here. {advice}.")
        return self.numbers.index(number) + 1

    def place(self, call: int) -> tuple[int, int, int] | None:
        """Of a call, by its number from 1: its question, which of that question's calls it is, and of how many."""
        if not self.numbers:
            return None
        number = self.numbers[call - 1]
        return number, self.numbers[:call].count(number), self.numbers.count(number)
