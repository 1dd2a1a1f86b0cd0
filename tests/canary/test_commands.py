"""What the `ce` command prints of a store that was given canaries has none of them, on either stream (B-02)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ce_engine import ContextEngine
from tests.canary.canaries import Canaries
from tests.canary.doors import DOORS, SCOPE, Visitor
from tests.canary.more_doors import MORE_DOORS, make_engine
from tests.hosts.cli_host import ce, url_of


WORDS = (
    "show",
    "report",
    "compare",
    "trace",
    "replay",
    "handover",
    "inspect",
    "verify",
    "sessions",
    "constraints",
    "export",
)


def commands(engine: ContextEngine) -> Iterator[tuple[str, ...]]:
    """Every way to look at the session, and at some of its messages, evidence and turns."""
    document = engine.loop.run(engine.store.get_session(SCOPE))
    assert document is not None
    session = SCOPE.session_id
    yield ("sessions", "--all")
    yield ("constraints", "list", "--user", SCOPE.user_id, "--project", SCOPE.project_id)
    yield ("export", "--user", SCOPE.user_id)
    yield ("show", session, "--full")
    yield ("compare", session, "--by", "tag:team")
    yield ("compare", session, "--by", "agent")
    for name in ("show", "report", "handover", "inspect", "verify"):
        yield (name, session)
    yield ("report", session, "--full")
    turns = engine.loop.run(engine.store.list_turns(SCOPE))
    for number in range(1, len(turns) + 1, 5):
        yield ("report", session, "--turn", str(number))
        yield ("replay", session, "--turn", str(number))
        yield ("handover", session, "--turn", str(number))
    said = [m.message_id for m in document.session.messages if m.message_id]
    for piece_id in [*said[::8], *list(document.evidences)[::8]]:
        yield ("trace", session, piece_id)


@pytest.mark.req("B-02")
@pytest.mark.timeout(400)  # it runs every command
def test_no_command_prints_a_canary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    canary = Canaries(3)
    url = url_of(tmp_path / "ce.db")
    engine = make_engine(url, canary)
    Visitor(engine, canary).go([*DOORS, *MORE_DOORS])
    assert engine.sync.flush(20)
    asked = list(commands(engine))
    engine.sync.close()
    leaks, done = {}, set()
    for words in asked:
        for form in ((), ("--json",)):
            told = ce(*words, "--store", url, "--account", SCOPE.account_id, *form, columns=200)
            if told.exit_code == 0:
                done.add(words[0])
            assert told.exception is None or isinstance(told.exception, SystemExit), words
            if found := canary.found_in(told.stdout, told.stderr):
                leaks[words, form] = found
    told = ce("metrics", "--store", url)
    assert "ce_store_calls" in told.stdout
    assert not canary.found_in(told.stdout, told.stderr)
    drawn = ce(
        "report", SCOPE.session_id, "--store", url, "--account", SCOPE.account_id, "--plot", "a.svg"
    )
    assert drawn.exit_code == 0, drawn.stderr
    assert not canary.found_in(Path("a.svg").read_text(encoding="utf-8"))
    assert leaks == {}
    assert done == set(WORDS)
