"""What is brought in stands before the framework's `Current Task:`, which falls away with the next question."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from ce_integrations import ce_session
from ce_integrations.testing.answers import text
from ce_integrations.testing.wire import Wire
from tests.adapters.crewai.apps import agent, model


pytestmark = pytest.mark.req("A-10", "A-23")

FACT = "The gate code of the yard is 4711-b."
FILLER = (
    "We painted the fence green and the shed blue, and the neighbours helped us with it all day. "
)
ASKED = "What was the gate code of the yard?"
LATER = ("And who painted the shed?", "Which colour has the fence?", "Thank you.")


@pytest.mark.needs("talks")
def test_the_task_is_announced_behind_what_is_brought_in_and_the_cache_keeps_that(
    install: Any, engine: Any
) -> None:
    said: list[Any] = [
        {"role": "user", "content": FACT},
        {"role": "assistant", "content": "Noted."},
    ]
    for n in range(40):
        said.append({"role": "user", "content": f"Note {n}: {FILLER * 2}"})
        said.append({"role": "assistant", "content": "Noted."})
    with Wire(lambda body: text("Noted.")) as wire:
        made: Any = agent(model(wire))
        with install(made, engine=engine, budget=1600), ce_session("talk"):
            for asked in (ASKED, *LATER):
                said.append({"role": "user", "content": asked})
                said.append({"role": "assistant", "content": made.kickoff(said).raw})
        requests = [body["messages"] for body in wire.bodies]
    before, _, behind = requests[0][-1]["content"].partition("Current Task: ")
    assert FACT in before
    assert behind.startswith(ASKED)
    for body, later in pairwise(requests[1:]):  # the cut stands from the second question on
        before, _, _ = body[-1]["content"].partition("\nCurrent Task: ")
        assert before.startswith("[")
        assert later[len(body) - 1]["content"].startswith(before)
