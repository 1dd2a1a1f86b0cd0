"""A store as an app leaves it behind, for the tests of the command line."""

from __future__ import annotations

from pathlib import Path

from ce_engine import (
    BudgetConfig,
    ContextEngine,
    Retrieval,
    RetrievedDoc,
    RuntimeConfig,
    Scope,
    ToolRun,
    Usage,
    create_context_engine,
)
from ce_engine.testing.host import HostApp, assistant, system, tool_calls, tool_result, user


TALK = Scope(session_id="会话-1", account_id="acme", user_id="张伟")
TIGHT = RuntimeConfig(budget=BudgetConfig(max_input_tokens=1200))


def url_of(path: Path) -> str:
    return f"sqlite:///{path}"


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
        app.ask(f"Tell me about topic {number}. " + "Please. " * 20, f"Topic {number} is nice. " * 9)
    return app


def fill(url: str, chatter: int = 0) -> None:
    """The talk of a user of an account, in a tight budget, as its app leaves it."""
    engine = create_context_engine(url, config=TIGHT)
    engine.sync.check()
    talk(engine, chatter=chatter)
    engine.sync.close()
