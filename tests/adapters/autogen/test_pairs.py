"""Random histories of tools in all budgets; `tests/property/tool_histories_run.py --framework autogen` runs thousands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ce_integrations.autogen.installer import AutoGenAdapter
from ce_integrations.hooks import Hooks
from tests.property.tool_autogen import Case, Rig


pytestmark = [pytest.mark.scenario(2), pytest.mark.req("A-10", "A-11", "A-12")]

CASES = 60


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    with Rig() as made:
        yield made


@pytest.mark.parametrize("block", range(4))
def test_every_property_holds(rig: Rig, block: int) -> None:
    for seed in range(block * CASES // 4, (block + 1) * CASES // 4):
        assert Case.of(seed, rig).run()["calls"]


def splits_no_results(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AutoGenAdapter, "split", lambda _, native: (native,))


def joins_all_but_one(patch: pytest.MonkeyPatch) -> None:
    join = AutoGenAdapter.join
    patch.setattr(AutoGenAdapter, "join", lambda self, native, parts: join(self, native, parts[1:]))


def observes_only(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Hooks, "_natives", lambda _, natives, __: natives)


def drops_the_oldest(patch: pytest.MonkeyPatch) -> None:
    natives_of = Hooks._natives

    def dropped(self: Any, natives: Any, prepared: Any) -> Any:
        return natives_of(self, natives, prepared)[1:]

    patch.setattr(Hooks, "_natives", dropped)


@pytest.mark.parametrize(
    "fault", [splits_no_results, joins_all_but_one, observes_only, drops_the_oldest]
)
def test_the_judge_finds(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, fault: Callable[[pytest.MonkeyPatch], None]
) -> None:
    fault(monkeypatch)

    def fails(seed: int) -> bool:
        try:
            Case.of(seed, rig).run()
        except Exception:
            return True
        return False

    assert any(map(fails, range(100)))
