"""What a list costs to be recognised where answers repeat: comparisons of fingerprints, counted, and no time."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ce_engine.prepare.reconcile.match import IncomingMessage
from ce_engine.prepare.reconcile.reconcile import reconcile
from ce_engine.schema.message_forest import Entry, MessageForest


class Key(bytes):
    """A fingerprint that counts how often it is compared."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Key.compared += 1
        return bytes.__eq__(self, other)

    __hash__ = bytes.__hash__


def chat(turns: int) -> list[IncomingMessage]:
    """Questions that are all other ones, and the same answer to each; every message has objects of its own."""
    return [
        IncomingMessage(Key(b"%d" % n if role == "user" else b"OK."), role)
        for n in range(turns)
        for role in ("user", "assistant")
    ]


def log_of(messages: Sequence[IncomingMessage]) -> MessageForest:
    log = MessageForest()
    for n, m in enumerate(messages):
        log.add(Entry(f"m{n}", Key(m.key), m.role, parent=n - 1 if n else None))
    return log


def compared(recorded: int, sent: int, *, known: bool) -> int:
    """Comparisons for a list of `sent` turns and a question, of which so many turns are recorded."""
    log, places = log_of(chat(recorded)), [*range(2 * recorded)] if known else []
    incoming = [*chat(sent), IncomingMessage(Key(b"and now?"), "user")]
    Key.compared = 0
    found = reconcile(log, incoming, prefix=places, line=places)
    assert found.positions[: 2 * recorded] == [*range(2 * recorded)]
    assert [new.index for new in found.new] == [*range(2 * recorded, 2 * sent + 1)]
    return Key.compared


def test_a_chat_that_goes_on_costs_no_more_when_it_is_longer() -> None:
    assert compared(400, 400, known=True) == compared(200, 200, known=True)


@pytest.mark.parametrize(("recorded", "sent"), [(1, 1), (1, 2), (3, 4)])
def test_a_list_of_twice_the_length_costs_twice(recorded: int, sent: int) -> None:
    shorter, longer = (compared(n * recorded // sent, n, known=False) for n in (180, 360))
    assert longer <= 2.1 * shorter
    assert longer <= 60 * 2 * 360
