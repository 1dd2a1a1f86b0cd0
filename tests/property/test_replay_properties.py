"""Whatever an app does, its turns can be made again by another engine, with the hash that was recorded."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from ce_engine import (
    BudgetConfig,
    CharBasedEstimator,
    ContextEngine,
    MemoryStore,
    ModelCall,
    Prepared,
    RuntimeConfig,
    Sent,
    Store,
    create_context_engine,
)
from ce_engine.schema.rows import TurnRow
from tests.property.talks import SCOPE, SYSTEM, WORDS, Talk, store_at


KINDS = ("resend", "window", "stateless", "hand")
PLAIN = [word for word in WORDS if "@" not in word and not word.startswith("138")]
LIVE = "CONTEXT_REPLAY_LIVE_TASK"


@contextmanager
def elsewhere(store: Store) -> Iterator[ContextEngine]:
    """An engine that knows nothing but the store."""
    engine = create_context_engine(store, token_estimator=CharBasedEstimator())
    yield engine
    engine.sync.close()


def turns(engine: ContextEngine) -> list[TurnRow]:
    return engine.loop.run(engine.store.list_turns(SCOPE))


@pytest.mark.req("A-21")
@pytest.mark.parametrize("seed", [1, 6])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", ["memory", "file", "sqlite"])
def test_every_turn_has_its_hash_again(kind: str, where: str, seed: int, tmp_path: Path) -> None:
    store = store_at(where, tmp_path)
    talk = Talk(seed, kind, store, restarts=where != "memory")
    talk.run(6)
    with elsewhere(store) as engine:
        rows = turns(engine)
        replays = [engine.sync.replay(SCOPE, row.turn_id, system=SYSTEM) for row in rows]
    assert len(rows) >= 6
    for replay, row in zip(replays, rows, strict=True):
        problems = {problem.code for problem in replay.problems}
        # What was shortened by a text that is not stored cannot be made again, and says so.
        assert replay.equal or problems == {LIVE}
        assert problems <= {LIVE}
        if replay.equal:
            assert replay.sent.tokens <= row.report["token_used"]  # live values may cost more
            assert len(replay.sent.parts) == row.report["messages_sent"]


def said(sent: Sent) -> list[tuple[str, str]]:
    return [(part.role.value, part.content) for part in sent.parts]


def given(prepared: Prepared) -> list[tuple[str, str]]:
    return [(part.role.value, part.content) for part in prepared.assembled.parts]


@pytest.mark.req("A-21")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", KINDS)
def test_another_configuration_is_what_it_really_sends(kind: str, seed: int) -> None:
    other = RuntimeConfig(
        budget=BudgetConfig(max_input_tokens=550 + 400 * seed, reserved_reply_tokens=0),
        placement="cache",
        locale="zh",
    )
    first, second = MemoryStore(), MemoryStore()
    Talk(seed, kind, first, words_of=PLAIN).run(6)
    with elsewhere(first) as engine:
        chosen = [
            at for at, row in enumerate(turns(engine)) if row.attempt == 1 and at % 3 == seed % 3
        ][-1]
        replay = engine.sync.replay(SCOPE, chosen + 1, other, SYSTEM)
    really = Talk(
        seed, kind, second, words_of=PLAIN, configs=lambda n, own: other if n == chosen else own
    )
    really.run(6)
    assert replay.instead is not None
    assert said(replay.instead) == given(really.sent[chosen])
    assert replay.instead.tokens == really.sent[chosen].report.token_used


class Frozen:
    """A clock that stands still."""

    def now_iso(self) -> str:
        return "2026-03-01T00:00:00.000Z"


def stored(store: Store) -> Sequence[object]:
    """All that is stored of the session, without who looked."""
    with elsewhere(store) as engine:
        state = engine.loop.run(store.state(SCOPE))
        events = engine.loop.run(store.list_events(SCOPE))
        assert state is not None
        kept = [
            event.model_copy(
                update={"seq": None, "hash": "", "event_id": "", "nonce": "", "payload_mac": ""}
            )
            for event in events
            if event.event_type != "Inspected"
        ]
        rows = [(row.message, row.tokens, row.origin, row.turn_id) for row in state.rows]
        reports = [
            {k: v for k, v in row.report.items() if k not in ("extra", "stable_prefix_hash")}
            for row in turns(engine)
        ]
        places = [(p.label, p.number) for p in state.placeholders]
        return [rows, state.cuts, [r.evidence for r in state.evidence], places, reports, kept]


@pytest.mark.req("D-08")
@pytest.mark.parametrize("kind", KINDS)
def test_who_looks_changes_nothing(kind: str) -> None:
    looked, alone = MemoryStore(), MemoryStore()

    def look(engine: ContextEngine, call: ModelCall) -> None:
        seen.append(engine.sync.inspect(call, actor="张伟").tokens)
        engine.sync.inspect((SCOPE, "mail bob@example.org about the gate code"), actor="张伟")

    seen: list[int] = []
    talks = []
    for store, before in ((looked, look), (alone, lambda _engine, _call: None)):
        # What redaction took out is shown as it is stored, and costs what that costs.
        talk = Talk(3, kind, store, before=before, words_of=PLAIN)
        talk.engine.clock = Frozen()
        talk.run(4)
        talks.append(talk)
    assert [given(p) for p in talks[0].sent] == [given(p) for p in talks[1].sent]
    assert stored(looked) == stored(alone)
    # A message that was just inspected is then sent at the very same cost.
    assert seen == [p.report.token_used for p in talks[0].sent]


ELSEWHERE = """
import sys
from ce_engine import CharBasedEstimator, create_context_engine
from tests.property.talks import SCOPE, SYSTEM
engine = create_context_engine(sys.argv[1], token_estimator=CharBasedEstimator())
for row in engine.loop.run(engine.store.list_turns(SCOPE)):
    replay = engine.sync.replay(SCOPE, row.turn_id, system=SYSTEM)
    print(replay.equal, *(problem.code for problem in replay.problems))
engine.sync.close()
"""


@pytest.mark.req("A-21")
@pytest.mark.parametrize("kind", ["resend", "hand"])
def test_another_process_makes_the_same(kind: str, tmp_path: Path) -> None:
    store = store_at("sqlite", tmp_path)
    talk = Talk(4, kind, store)
    talk.engine.clock = Frozen()  # everything at once: nothing is told apart by its time
    talk.run(8)
    talk.engine.sync.close()
    # Sets are walked in another order there.
    env = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, f"sqlite:///{tmp_path}/ce.db"],
        check=True,
        capture_output=True,
        text=True,
        env=env,
        cwd=Path(__file__).parents[2],
    )
    lines = done.stdout.split("\n")[:-1]
    assert len(lines) >= 8
    assert {line for line in lines if LIVE not in line} == {"True"}
