"""Nothing that the redactor must catch is in any byte that we leave: store, logs, events, reports (B-02)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from ce_engine import ContextEngine, MemoryStore
from tests.canary.canaries import Canaries
from tests.canary.doors import DOORS, SCOPE, Visitor
from tests.canary.more_doors import MORE_DOORS, make_engine
from tests.database import unpacked


URLS = {
    "memory": "memory://",
    "file": "file://{}",
    "sqlite": "sqlite:///{}/ce.db",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "store"
    made.mkdir()
    return made


def dump(engine: ContextEngine, folder: Path) -> list[str | bytes]:
    """All that the store has: what it answers, and every byte of its files."""
    store = engine.store
    run = engine.loop.run
    document = run(store.get_session(SCOPE))
    assert document is not None
    told = [
        document.model_dump_json(),
        repr(document),
        repr(run(store.state(SCOPE))),
        repr(run(store.list_turns(SCOPE))),
        repr(run(store.list_events(SCOPE))),
        repr(run(store.evidence_rows(SCOPE, list(document.evidences)))),
        repr(run(store.list_sessions(account_id="a", user_id=None, ephemeral=True))),
    ]
    if isinstance(store, MemoryStore):
        told.append(repr(vars(store)))
    return [*told, *files(folder)]


def files(folder: Path) -> Iterator[str | bytes]:
    for path in folder.rglob("*"):
        yield str(path).encode()
        if path.is_file():
            yield path.read_bytes()
        if path.suffix == ".db":
            yield from unpacked(path)


@pytest.mark.req("B-02")
@pytest.mark.parametrize("kind", sorted(URLS))
@pytest.mark.parametrize("seed", range(2))
def test_no_canary_is_left_anywhere(
    kind: str,
    seed: int,
    folder: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    canary = Canaries(seed)
    engine = make_engine(URLS[kind].format(folder.as_posix()), canary)
    told: list[str | bytes] = []
    engine.bus.on_all(lambda event: told.append(event.model_dump_json()))
    visitor = Visitor(engine, canary)
    visitor.go([*DOORS, *MORE_DOORS])
    assert engine.sync.flush()
    last = engine.last_report(SCOPE)
    assert last is not None
    reports = [report.model_dump_json() for report in [*visitor.reports, last]]
    stored = dump(engine, folder)
    engine.sync.close()
    left = {
        "store": canary.found_in(*stored, *files(folder)),
        "reports": canary.found_in(*reports),
        "events": canary.found_in(*told),
        "logs": canary.found_in(caplog.text, *(repr(vars(r)) for r in caplog.records)),
        "output": canary.found_in(*capfd.readouterr()),
    }
    assert told
    assert {place: doors for place, doors in left.items() if doors} == {}
