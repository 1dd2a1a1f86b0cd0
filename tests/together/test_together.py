"""Frameworks side by side: in one process, inside each other, and in processes on one session."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from ce_engine import Scope, check_invariants, create_context_engine
from ce_integrations.install.registry import load_adapters
from tests.together.several import SESSION, words


ROOT = Path(__file__).parents[2]
TIMES = 4
FRAMEWORKS = sorted(path.parent.name for path in ROOT.glob("tests/adapters/*/contract_apps.py"))


def test_each_adapter_is_here() -> None:
    assert set(FRAMEWORKS) == {a.name for a in load_adapters().values() if a.name in FRAMEWORKS}
    assert len(FRAMEWORKS) > 1


@pytest.mark.parametrize("pair", list(pairwise([*FRAMEWORKS, FRAMEWORKS[0]])), ids="-".join)
def test_two_frameworks_in_two_processes_share_a_session(
    pair: tuple[str, str], tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'ce.db'}"
    engine = create_context_engine(url)
    engine.sync.check()  # the tables are made once
    children = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.together.several", name, url, str(TIMES)],
            cwd=ROOT,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in pair
    ]
    errors = [child.communicate()[1] for child in children]
    assert [child.returncode for child in children] == [0, 0], "\n".join(errors)
    scope = Scope(session_id=SESSION)
    document = engine.loop.run(engine.store.get_session(scope))
    assert document is not None
    assert check_invariants(document) == []
    said = [message.content for message in document.session.messages]
    for name in pair:
        asked = [words(name, n) for n in range(TIMES)]
        own = [each for each in said if each in asked or each.removeprefix("heard: ") in asked]
        assert own == [each for ask in asked for each in (ask, f"heard: {ask}")]
    assert len(said) == 2 * TIMES * len(pair)
    turns = engine.loop.run(engine.store.list_turns(scope))
    assert sorted(turn.framework for turn in turns) == sorted([*pair] * TIMES)
    assert engine.sync.verify(scope).tampered_seq is None
    engine.sync.close()
