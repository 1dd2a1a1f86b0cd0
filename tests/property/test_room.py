"""With room to spare an app sends the same bytes as without us; `room_run.py` runs thousands of apps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import pytest

from ce_engine import Scope
from tests.property import room_run
from tests.property.room_cases import SESSIONS


CASES = 24
"""Of each framework."""

APART = {"crewai"}
"""CrewAI's run where it is installed: `tests/adapters/crewai/test_rooms.py`."""

Run = Callable[[int], Any]


@pytest.fixture(scope="module", params=sorted(room_run.CASES.keys() - APART))
def module(request: pytest.FixtureRequest) -> Any:
    return import_module(room_run.CASES[request.param])


@pytest.fixture(scope="module")
def run(module: Any) -> Iterator[Run]:
    with module.Rig() as rig:
        yield lambda seed: module.Case.of(seed, rig).run()


@pytest.mark.req("A-23")
@pytest.mark.parametrize("block", range(4))
def test_with_room_and_unasked_the_bytes_are_the_app_s(run: Run, block: int) -> None:
    for seed in range(block * CASES // 4, (block + 1) * CASES // 4):
        assert run(seed)


def test_the_judge_finds_what_is_put_in(module: Any) -> None:
    with module.Rig() as rig:
        for session in SESSIONS:
            for user in ("", "ann", "李雷"):
                scope = Scope(session_id=session or "any", user_id=user)
                rig.engine.sync.constraints.create(scope, "Be short. 简短")
        with pytest.raises(AssertionError, match="messages in place of"):
            _ = [module.Case.of(seed, rig).run() for seed in range(10)]


def test_the_command_counts_its_cases(capsys: pytest.CaptureFixture[str]) -> None:
    room_run.main(["--cases", "3", "--seed", "4", "--jobs", "1", "--framework", "autogen"])
    *_, first, requests = capsys.readouterr().out.splitlines()
    assert first.startswith("seed 4: 3 cases, ") or requests
