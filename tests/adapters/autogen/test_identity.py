"""With nothing to do for us, an app of AutoGen sends, gives and keeps what it would without us."""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Any

import pytest

from ce_integrations import ce_session
from ce_integrations.autogen import install_ce
from ce_integrations.testing.wire import Wire
from tests.adapters.autogen.configurations import CONFIGURATIONS, TASK


RANDOM = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\d{4}-\d\d-\d\dT[\d:.+]+Z?"
    r"|127\.0\.0\.1:\d+"
)
"""Ids, times and ports, which differ from run to run."""


def normal(value: Any) -> str:
    return RANDOM.sub("", json.dumps(value, default=_told, ensure_ascii=False, sort_keys=True))


def _told(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else repr(value)


def unordered(value: Any) -> str:
    """The words of it: who is first of two agents that work at the same time is chance."""
    return " ".join(sorted(re.findall(r"\w+", str(value))))


async def played(name: str, way: str, client: Any, engine: Any = None) -> dict[str, Any]:
    """What an app of the name sends, gives and keeps; asked twice, the second time as it is then."""
    wanted = CONFIGURATIONS[name]
    given: list[Any] = []
    with Wire(wanted.script) as wire:
        app = wanted.make(client(wire, **wanted.info))
        dumped = dump(app)
        installed = None if engine is None else install_ce(app, engine=engine)
        with ce_session("s"):
            if way == "run":
                given.append(await app.run(task=TASK))
            else:
                given += [event async for event in app.run_stream(task=TASK)]
        found: dict[str, Any] = {
            "refusals": wire.refusals,
            "bodies": [normal(body) for body in wire.bodies],
            "given": normal([event.model_dump(mode="json") for event in given]),
            "state": normal(await app.save_state()),
            "component": (dumped, dump(app)),
        }
        if installed is not None:
            assert installed.faults == ()
            installed.uninstall()
    if name == "graph":
        found["bodies"] = sorted(map(unordered, found["bodies"]))
        found["given"], found["state"] = unordered(found["given"]), unordered(found["state"])
    return found


def dump(app: Any) -> str:
    """The component of an app, or what it says instead."""
    try:
        return normal(app.dump_component().model_dump())
    except NotImplementedError as error:  # tools made of agents of a test have none
        return str(error)


@pytest.mark.scenario(1)
@pytest.mark.req("A-23")
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")  # AutoGen logs parsed answers
@pytest.mark.parametrize("way", ["run", "run_stream"])
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.needs("team_names")] if name == "nested" else [])
        for name in CONFIGURATIONS
    ],
)
async def test_without_anything_to_do_nobody_notices(
    name: str, way: str, client: Any, engine: Any, stored: Any
) -> None:
    plain = await played(name, way, client)
    ours = await played(name, way, client, engine)
    assert plain["refusals"] == []
    for part, value in plain.items():
        assert ours[part] == value, part
    turns = stored.turns()
    assert len(turns) == len(plain["bodies"])
    assert {turn.status for turn in turns} == {"committed"}
