"""The loop of the page on the engine by hand, against a server that asks for a tool."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ce_engine import ContextEngine, Scope
from ce_engine.apps.cli.app import app
from ce_integrations.testing.answers import Answer, tool_calls
from ce_integrations.testing.wire import Wire
from tests.meta.pages import ROOT, blocks


Page = tuple[Wire, list[Answer | str], dict[str, Any]]


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Page]:
    monkeypatch.chdir(tmp_path)
    script: list[Answer | str] = []
    with Wire(lambda _: script.pop(0) if script else "ok") as wire:
        monkeypatch.setenv("OPENAI_BASE_URL", wire.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        namespace: dict[str, Any] = {"__name__": "__main__"}
        exec(blocks("docs/by-hand.md", "python")[0], namespace)
        wire.reset()
        yield wire, script, namespace
        engine: ContextEngine = namespace["engine"]
        engine.sync.close()


@pytest.mark.req("A-13")
def test_the_loop_of_the_page_runs_tools_and_remembers(page: Page) -> None:
    wire, script, namespace = page
    ask: Callable[[Scope, str], str] = namespace["ask"]
    scope = Scope(session_id="chat-2", user_id="wang.fang")
    script += [tool_calls([("stock", {"item": "lamp"})], ["call_0"]), "12 lamps.", "Yes."]
    assert ask(scope, "How many lamps?") == "12 lamps."
    assert ask(scope, "Are you sure?") == "Yes."
    first, second, third = wire.bodies
    assert [m["role"] for m in first["messages"]] == ["system", "user"]
    assert [m["role"] for m in second["messages"]] == ["system", "user", "assistant", "tool"]
    assert json.loads(second["messages"][3]["content"])["in_stock"] == 12
    assert second["messages"][3]["tool_call_id"] == "call_0"
    assert third["messages"][:4] == second["messages"], "what was sent stays where it was sent"
    assert [m["content"] for m in third["messages"][4:]] == ["12 lamps.", "Are you sure?"]
    assert wire.refusals == []


def test_the_evidence_of_the_page_is_sent_and_cited(page: Page) -> None:
    _, _, namespace = page
    engine: ContextEngine = namespace["engine"]
    engine.sync.flush()
    stored = engine.loop.run(engine.store.get_session(namespace["customer"]))
    assert stored is not None
    assert stored.session.messages[-1].refs


@pytest.mark.req("A-18")
def test_what_makes_a_conflict_is_as_the_page_says(page: Page) -> None:
    """Its block has what is asserted: which pairs of sources disagree, and which do not."""
    _, _, namespace = page
    [block] = [each for each in blocks("docs/by-hand.md", "python") if "def disagree" in each]
    assert block.count("assert ") >= 6
    exec(compile(block, ROOT / "docs/by-hand.md", "exec"), namespace)


def test_the_commands_of_the_page_work(page: Page) -> None:
    _, _, namespace = page
    engine: ContextEngine = namespace["engine"]
    engine.sync.close()
    text = (ROOT / "docs/by-hand.md").read_text(encoding="utf-8")
    commands = [shlex.split(found) for found in re.findall(r"`ce ([^`]+)`", text)]
    assert commands
    for command in commands:
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 0, (command, result.output)
        assert "wang.fang" in result.output or "chat-1" in result.output
