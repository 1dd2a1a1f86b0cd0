"""With nothing to do for us, an app of Semantic Kernel sends, gives and keeps what it would without us."""

from __future__ import annotations

import re
from contextlib import ExitStack
from typing import Any

import pytest
from pydantic import BaseModel

from ce_integrations import ce_session
from ce_integrations.semantic_kernel import install_ce
from ce_integrations.testing.wire import Wire
from tests.adapters.semantic_kernel.configurations import CONFIGURATIONS


RANDOM = re.compile(r"[0-9a-f]{32}|127\.0\.0\.1:\d+|\"created\": \d+")
"""Ids, times and ports, which differ from run to run."""


def normal(value: Any) -> str:
    return RANDOM.sub("", str(value))


async def played(name: str, service: Any, engine: Any = None) -> dict[str, Any]:
    """What an app of the name sends and gives, and what its own objects say of themselves."""
    wanted = CONFIGURATIONS[name]
    with Wire(wanted.script) as wire, ExitStack() as installed:
        app = wanted.make(service(wire))
        for _ in range(0 if engine is None else 2):
            installed.enter_context(install_ce(app, engine=engine))
        with ce_session("s"):
            given = await wanted.ask(app)
        found: dict[str, Any] = {
            "refusals": wire.refusals,
            "bodies": [normal(sent.raw) for sent in wire.requests],
            "given": list(map(normal, given)),
            "fields": sorted(dict(app)) if isinstance(app, BaseModel) else [],
        }
    if name == "concurrent":  # who is first of two that work at the same time is chance
        found["bodies"].sort()
    return found


@pytest.mark.scenario(1)
@pytest.mark.req("A-23")
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
@pytest.mark.parametrize("name", CONFIGURATIONS)
async def test_without_anything_to_do_nobody_notices(
    name: str, service: Any, engine: Any, stored: Any
) -> None:
    plain = await played(name, service)
    ours = await played(name, service, engine)
    assert plain["refusals"] == []
    for part, value in plain.items():
        assert ours[part] == value, part
    turns = stored.turns()
    assert len(turns) == len(plain["bodies"]) > 0
    assert {(turn.status, turn.attempt) for turn in turns} == {("committed", 1)}


@pytest.mark.req("A-23")
async def test_a_marked_object_is_what_it_was(service: Any, engine: Any) -> None:
    """Dumps, equality, copies and clones say nothing of us."""
    with Wire() as wire:
        made = service(wire)
        app = CONFIGURATIONS["prompt"].make(made)
        other = made.model_copy()
        before = (made.model_dump(), repr(made), type(made), dict(made))
        with install_ce(app, engine=engine):
            assert (made.model_dump(), repr(made), type(made), dict(made)) == before
            assert made == other
            assert isinstance(app.clone(), type(app))
            assert list(app.services) == list(app.clone().services)
        assert "_ce_mark" not in vars(made)
