"""A session whose every text wants to harm whoever looks at it."""

from __future__ import annotations

from pathlib import Path

from ce_engine import (
    BudgetConfig,
    Retrieval,
    RetrievedDoc,
    RuntimeConfig,
    Scope,
    StoreConfig,
    ToolRun,
    Usage,
    create_context_engine,
)
from ce_engine.testing.host import HostApp, assistant, system, tool_calls, tool_result, user
from tests.hosts.cli_host import url_of


SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(2)>"
ANSI = "\x1b[31mred\x1b[0m"
TURNED = "\u202egnp.exe\u202c"
EVIL = f"{SCRIPT} {ANSI} {TURNED} {{{{7*7}}}} javascript:alert(3)"
HUGE = "word " * 210_000
SCOPE = Scope(session_id=f"s{SCRIPT}'\"&?#/%", user_id=f"u{SCRIPT}")
RAW = ("<script>alert", "<img src=x", "\x1b", "\u202e")
"""What must stand in no page as it is."""


def fill_hostile(folder: Path) -> str:
    """A store with such a session; its URL."""
    url = url_of(folder / "ce.db")
    config = RuntimeConfig(
        budget=BudgetConfig(max_input_tokens=900), store=StoreConfig(deadline_s=30)
    )
    engine = create_context_engine(url, config=config)
    engine.sync.check()
    app = HostApp(engine, SCOPE, [system("You help.")], framework=f"f{SCRIPT}")
    lane = f"lane{SCRIPT}{TURNED}"
    asking = app.prepare(user(f"What is this? {EVIL}"), lane_key=lane)
    app.commit(asking, tool_calls((SCRIPT, f"t{SCRIPT}", {SCRIPT: EVIL})), Usage(9, 3, 12))
    run = ToolRun(f"t{SCRIPT}", {SCRIPT: EVIL}, EVIL, "run-1", SCRIPT, duration_ms=7)
    engine.post_tool_run(SCOPE, run, request_id="request-1", framework="by-hand")
    answering = app.prepare(tool_result(SCRIPT, EVIL), new_request=False, lane_key=lane)
    app.commit(answering, assistant(f"It is {EVIL}"), Usage(9, 3, 12))
    documents = [RetrievedDoc(EVIL, uri=f"javascript:alert(4)//{SCRIPT}", score=0.9)]
    hit = Retrieval(f"r{SCRIPT}", EVIL, documents, "run-2", duration_ms=3)
    engine.post_retrieval(SCOPE, hit, request_id="request-2", framework="by-hand")
    app.ask(f"And this? {EVIL}", f"That is {EVIL}", lane_key=lane)
    for n in range(8):
        app.ask(f"Tell me about {n} {EVIL} " * 3, f"Well, {n}: {EVIL}", lane_key=lane)
    app.ask(HUGE, "Too long.", lane_key=lane)
    engine.sync.close()
    return url
