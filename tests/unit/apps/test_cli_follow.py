"""`ce report --follow`: turns of another process, as they end."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ce_engine import ContextEngine, DeletionReport, Scope, create_context_engine
from ce_engine.testing.host import HostApp, user
from tests.hosts.cli_host import TERMINAL, TIGHT, url_of


SCOPE = Scope(session_id="会话", user_id="张伟")
PATIENCE = 20


class Followed:
    """The command as a process, and the lines that it prints."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line.rstrip("\n"))

    def until(self, words: str) -> str:
        """The next line that has them."""
        while words not in (line := self.lines.get(timeout=PATIENCE)):
            pass
        return line

    def stopped(self) -> tuple[int, str, str]:
        """Ctrl-C: the exit code, and what it printed since."""
        self.process.send_signal(signal.SIGINT)
        assert self.process.stderr is not None
        code, rest = self.process.wait(PATIENCE), []
        while not self.lines.empty():
            rest.append(self.lines.get())
        return code, "\n".join(rest), self.process.stderr.read()


@contextmanager
def following(url: str, *more: str) -> Iterator[Followed]:
    code = "from ce_engine.apps.cli import main; main()"
    args = [sys.executable, "-u", "-c", code, "report", SCOPE.session_id, "--follow", *more]
    env = {k: v for k, v in os.environ.items() if k not in TERMINAL}
    with subprocess.Popen(
        [*args, "--store", url],
        env={**env, "COLUMNS": "100", "PYTHONIOENCODING": "utf-8"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    ) as process:
        try:
            yield Followed(process)
        finally:
            process.kill()


@pytest.fixture(params=["ce.db", "sessions"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ContextEngine]:
    made = create_context_engine(url_of(tmp_path / str(request.param)), config=TIGHT)
    made.sync.check()
    yield made
    made.sync.close()


def test_new_turns_come_as_they_end_and_ctrl_c_ends_with_the_sums(engine: ContextEngine) -> None:
    app = HostApp(engine, SCOPE)
    app.ask("First?", "One.")
    with following(engine.store.url) as followed:
        assert followed.until("turn ").startswith("turn    sent")
        followed.until("   1     1/1")
        waiting = app.prepare(user("第二?"))
        app_two = HostApp(engine, Scope(session_id="another", user_id="张伟"))
        app_two.ask("Not this one?", "No.")
        engine.sync.fail(waiting.turn, "PROVIDER_TIMEOUT")
        assert "failed" in followed.until("   2     3/3")
        app.ask("Third?", "Three.")
        followed.until("   3 ")
        code, rest, errors = followed.stopped()
    assert (code, errors) == (0, "")
    assert "sum       3 turns" in rest
    assert "turn    sent" not in rest


def test_json_is_an_object_a_line(engine: ContextEngine) -> None:
    app = HostApp(engine, SCOPE)
    app.ask("First?", "One.")
    with following(engine.store.url, "--json") as followed:
        first = json.loads(followed.until("{"))
        app.ask("Second?", "Two.")
        second = json.loads(followed.until("{"))
        code, rest, errors = followed.stopped()
    assert (code, rest, errors) == (0, "", "")
    assert [first["turn"], second["turn"]] == [1, 2]
    assert second["report"]["messages_in"] == 3
    assert second["cost"]["sent"] > 0


def test_a_session_that_is_deleted_ends_it(engine: ContextEngine) -> None:
    HostApp(engine, SCOPE).ask("First?", "One.")
    with following(engine.store.url) as followed:
        followed.until("   1     1/1")
        deleted = engine.sync.delete_session(SCOPE)
        assert isinstance(deleted, DeletionReport)
        assert followed.process.wait(PATIENCE) == 1
        assert followed.process.stderr is not None
        assert "was deleted just now" in followed.process.stderr.read()
