"""The list that a host sent last in a lane, and what was made of it: of the next one only what is other is looked at."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import compress, count
from operator import call, is_not
from typing import NamedTuple
from weakref import ReferenceType, ref

from ce_engine.prepare.reconcile.match import IncomingMessage
from ce_engine.schema.call import HostMessage
from ce_engine.schema.enums import Origin


class Alike(NamedTuple):
    """How many leading messages of a list count as those of the list before, and which messages are others.

    `is_same` says that the others all stand behind them.
    """

    length: int
    others: Sequence[HostMessage]
    is_same: bool


class ListStart(NamedTuple):
    """What is known of the first messages of a list: where they sit, what recognises them, which are of the line."""

    places: list[int | None]
    arrived: list[IncomingMessage]
    line: list[int]


@dataclass(slots=True)
class SentList:
    """A list, weakly held, and where its messages sit in the session's log.

    `arrived` is what recognises them, by a key and a redactor; `line` are the indexes of those that are neither
    instructions nor results of tools.
    """

    messages: list[ReferenceType[HostMessage]] = field(default_factory=list)
    places: list[int | None] = field(default_factory=list)
    arrived: list[IncomingMessage] = field(default_factory=list)
    line: list[int] = field(default_factory=list)
    by: tuple[str, str] = ("", "")

    def compare(self, messages: Sequence[HostMessage]) -> Alike:
        """Compare with the next list: mapped messages do not change, what changed is another one.

        A list of one message is no beginning: hosts send a constant one again and again.
        """
        live = [*map(call, self.messages)]
        whole = len(live)
        if live == [*messages[:whole]]:  # most often
            return Alike(whole if whole >= 2 else 0, messages[whole:], is_same=whole >= 2)
        other = [*compress(count(), map(is_not, live, messages))]
        others = [*map(messages.__getitem__, other), *messages[whole:]]
        alike = min(whole, len(messages))
        for n in other:
            # The host's own instructions may hold the time: they sit nowhere, whatever they say.
            if messages[n].origin is not Origin.SYSTEM or self.places[n] is not None:
                alike = n
                break
        return Alike(alike if alike >= 2 else 0, others, is_same=False)

    def start(self, length: int, by: tuple[str, str]) -> ListStart:
        """What is known of the first so many messages."""
        arrived = self.arrived[:length] if self.by == by else []
        return ListStart(self.places[:length], arrived, self.line[: bisect_left(self.line, length)])

    def follow(
        self,
        messages: Sequence[HostMessage],
        alike: Alike,
        places: list[int | None],
        arrived: list[IncomingMessage],
        line: list[int],
        by: tuple[str, str],
    ) -> None:
        """Take in the next list, of which so much was alike."""
        start = self.messages[: alike.length] if alike.is_same else []
        self.messages = [*start, *map(ref, messages[len(start) :])]
        self.places, self.arrived, self.line, self.by = places, arrived, line, by
