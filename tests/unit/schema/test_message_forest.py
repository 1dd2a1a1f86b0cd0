"""The forest of messages says what hangs on what, whatever branches it has."""

from __future__ import annotations

from random import Random

import pytest

from ce_engine.schema.message_forest import Entry, MessageForest


def grown(seed: int) -> MessageForest:
    """A talk with branches, asides, results of tools, and lanes beside it."""
    rng, log = Random(seed), MessageForest()
    for n in range(60):
        talk = [entry.n for entry in log.entries if entry.role != "tool"]
        role = rng.choice(["user", "assistant", "assistant", "tool"]) if talk else "user"
        goes_on = role == "tool" or rng.random() < 0.95
        parent = None
        if talk and goes_on:
            parent = talk[-1] if rng.random() < 0.8 else rng.choice(talk)
        aside = rng.random() < 0.05
        log.add(Entry(f"m{n}", b"key", role, parent, aside=aside))
    return log


@pytest.mark.parametrize("seed", range(20))
def test_an_entry_is_on_the_path_of_those_that_hang_on_it(seed: int) -> None:
    log = grown(seed)
    for tip in range(len(log)):
        path = {*log.path(tip)}
        assert {n for n in range(len(log)) if log.is_on_path(n, tip)} == path
