"""Whatever an app does, its turns can be made again in another process, with the hash that was recorded."""

from __future__ import annotations

import pytest

from ce_engine import CharBasedEstimator, create_context_engine
from tests.property.talks import SCOPE, SYSTEM, Talk, store_at


@pytest.mark.req("A-21")
@pytest.mark.parametrize("seed", range(4, 16))
@pytest.mark.parametrize("kind", ["resend", "window", "stateless", "hand"])
@pytest.mark.parametrize("where", ["memory", "file", "sqlite"])
def test_x(kind, where, seed, tmp_path) -> None:
    store = store_at(where, tmp_path)
    talk = Talk(seed, kind, store, restarts=where != "memory")
    talk.run(8)
    other = create_context_engine(store, token_estimator=CharBasedEstimator())
    turns = 0
    bad = []
    for n, row in enumerate(other.loop.run(store.list_turns(SCOPE)), 1):
        replay = other.sync.replay(SCOPE, n, system=SYSTEM)
        if not replay.equal:
            bad.append((n, [(p.code, p.detail) for p in replay.problems], row.status))
    assert not bad, (len(bad), n, bad[:3])
