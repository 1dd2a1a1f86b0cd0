"""A long talk in which a tool is used now and then: what was said comes back as in one without tools."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ce_engine import CharBasedEstimator, ContextEngine, MemoryStore, create_context_engine
from tests.hosts.ward_host import Ward


NAMES = ("Alder", "Birch", "Cedar", "Dogwood", "Elm", "Fir", "Gorse", "Hazel", "Ivy", "Juniper")
PLACES = (
    "behind the stove",
    "under the third stair",
    "in the cellar",
    "at the pump",
    "on the beam",
)


@pytest.fixture
def engine() -> Iterator[ContextEngine]:
    made = create_context_engine(MemoryStore(), token_estimator=CharBasedEstimator())
    yield made
    made.sync.close()


def held(engine: ContextEngine, *, every: int) -> Ward:
    """A talk of 100 turns within 1,500 tokens; a user tells where keys hang, a model where lamps are."""
    ward = Ward(engine, 1500)
    for n in range(100):
        if n % 10 == 5:
            name = NAMES[n // 10]
            ward.ask(
                f"The key of the {name} cabin hangs {PLACES[n // 10 % 5]}.",
                f"And the lamp of the {name} cabin stands {PLACES[n // 20 % 5]}, I think.",
            )
        elif every and n % every == 1:
            paper = f'{{"day": {n}, "sky": "clear", "wind": {n % 7}, "gusts": {n % 11}}}'
            ward.look_up(
                f"How is the weather on day {n}?", "weather", paper, "Clear.", args={"n": n}
            )
        else:
            ward.ask(
                f"We walk to station {n} today, along the river. " * 4, "Have a good way. " * 6
            )
    return ward


@pytest.mark.req("A-20", "D-02")
@pytest.mark.parametrize("every", [0, 10, 3])
def test_what_was_said_comes_back_whoever_said_it(engine: ContextEngine, every: int) -> None:
    ward = held(engine, every=every)
    lacking = []
    for n, name in enumerate(NAMES):
        ward.ask(f"Where does the key of the {name} cabin hang, and where is its lamp?", "There.")
        key = f"The key of the {name} cabin hangs {PLACES[n % 5]}."
        if key not in ward.inputs[-1] or f"lamp of the {name} cabin" not in ward.inputs[-1]:
            lacking.append(name)
    assert len(lacking) <= 1, lacking
    _, turns = ward.stored()
    assert all(turn.report["token_used"] <= 1500 for turn in turns)
    cost = turns[-1].report["session_cost"]
    assert cost["sent"] < cost["untouched"]
