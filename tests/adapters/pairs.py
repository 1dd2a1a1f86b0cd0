"""Random histories of tools in all budgets through an adapter; `tests/property/tool_histories_run.py` runs thousands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, ClassVar

import pytest

from ce_integrations.calls.hooks import Hooks


CASES = 60
Play = Callable[[int], Counter[str]]
"""Plays the case of a seed."""

Fault = Callable[[pytest.MonkeyPatch], None]


def observes_only(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Hooks, "_natives", lambda _, natives, __: natives)


def drops_the_oldest(patch: pytest.MonkeyPatch) -> None:
    natives_of = Hooks._natives

    def dropped(self: Any, natives: Any, prepared: Any) -> Any:
        return natives_of(self, natives, prepared)[1:]

    patch.setattr(Hooks, "_natives", dropped)


class PairTests:
    """A framework names the module with its cases, imported when they run, and faults of its own."""

    cases: ClassVar[str]
    faults: ClassVar[tuple[Fault, ...]] = (observes_only, drops_the_oldest)

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "fault" in metafunc.fixturenames:
            metafunc.parametrize("fault", self.faults)

    @pytest.fixture(scope="class")
    @classmethod
    def play(cls) -> Iterator[Play]:
        module = import_module(cls.cases)
        with module.Rig() as rig:
            yield lambda seed: module.Case.of(seed, rig).run()

    @pytest.mark.req("A-10", "A-11", "A-12")
    @pytest.mark.parametrize("block", range(4))
    def test_every_property_holds(self, play: Play, block: int) -> None:
        for seed in range(block * CASES // 4, (block + 1) * CASES // 4):
            assert play(seed)["calls"]

    @pytest.mark.req("A-10", "A-11", "A-12")
    def test_the_judge_finds(
        self, play: Play, monkeypatch: pytest.MonkeyPatch, fault: Fault
    ) -> None:
        fault(monkeypatch)

        def fails(seed: int) -> bool:
            try:
                play(seed)
            except Exception:
                return True
            return False

        assert any(map(fails, range(100)))
