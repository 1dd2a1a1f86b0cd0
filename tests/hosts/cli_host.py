"""The `ce` command for its tests, and a store as an app leaves it behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner, Result

from ce_engine import (
    BudgetConfig,
    ContextEngine,
    Retrieval,
    RetrievedDoc,
    RuntimeConfig,
    Scope,
    StoreConfig,
    ToolRun,
    Usage,
    create_context_engine,
)
from ce_engine.apps.cli.app import app
from ce_engine.testing.host import HostApp, assistant, system, tool_calls, tool_result, user


TALK = Scope(session_id="会话-天气与下雨-1", account_id="acme", user_id="张伟")
TIGHT = RuntimeConfig(
    budget=BudgetConfig(max_input_tokens=1200),
    store=StoreConfig(deadline_s=30),  # a busy machine is no fault here
)

TERMINAL = ("COLUMNS", "LINES", "FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
"""What a developer's shell may say about the terminal; it must change no result."""


def ce(*args: str, columns: int | None = None, answer: str = "") -> Result:
    """Run a command in this process, without a terminal, or as if it had so many columns; `answer` is typed."""
    env = dict.fromkeys(TERMINAL) | {"COLUMNS": str(columns) if columns else None}
    return CliRunner(env=env).invoke(app, args, input=answer)


def process(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    """The command as a process of its own, in the working directory of the test."""
    return subprocess.run(
        [sys.executable, "-c", "from ce_engine.apps.cli import main; main()", *args],
        env={k: v for k, v in os.environ.items() if k not in TERMINAL} | env,
        check=False,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
    )


def url_of(path: Path) -> str:
    return f"sqlite:///{path}" if path.suffix == ".db" else path.as_uri()


def talk(engine: ContextEngine, scope: Scope = TALK, chatter: int = 0) -> HostApp:
    """One turn with a tool, one with a retrieval, then small talk."""
    app = HostApp(engine, scope, [system("You help.")])
    asking = app.prepare(user("奥斯陆天气如何?"))
    app.commit(asking, tool_calls(("call_0", "weather", {"city": "奥斯陆"})), Usage(9, 3, 12))
    run = ToolRun("weather", {"city": "奥斯陆"}, "4 度", "run-1", "call_0", duration_ms=7)
    engine.post_tool_run(scope, run, request_id="request-1", framework="by-hand")
    answering = app.prepare(tool_result("call_0", "4 度"), new_request=False)
    app.commit(answering, assistant("现在 4 度。"), Usage(20, 5, 25, latency_ms=80))

    documents = [RetrievedDoc("Rain is water that falls from clouds.", uri="doc://rain", score=0.9)]
    hit = Retrieval("library", "What is rain?", documents, "run-2", duration_ms=3)
    engine.post_retrieval(scope, hit, request_id="request-2", framework="by-hand")
    app.ask("What is rain?", "Water that falls from clouds.")
    for number in range(chatter):
        app.ask(
            f"Tell me about topic {number}. " + "Please. " * 20, f"Topic {number} is nice. " * 9
        )
    return app


def fill(url: str, chatter: int = 0) -> None:
    """The talk of a user of an account, in a tight budget, as its app leaves it."""
    engine = create_context_engine(url, config=TIGHT)
    engine.sync.check()
    talk(engine, chatter=chatter)
    engine.sync.close()
