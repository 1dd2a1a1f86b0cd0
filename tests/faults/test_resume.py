"""A run whose process is killed is resumed from what is stored: no side effect happens twice, none is left out (B-06)."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from multiprocessing import get_context
from pathlib import Path

import pytest

from ce_engine import (
    ContextEngine,
    Handover,
    RuntimeConfig,
    Scope,
    StoreConfig,
    ToolRun,
    create_context_engine,
)
from ce_engine.testing.host import HostApp, assistant, tool_calls, tool_result, user
from tests.hosts.store_urls import KINDS, store_url


pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

FORK = get_context("fork")
SCOPE = Scope(session_id="order-7", user_id="li")
PATIENT = RuntimeConfig(store=StoreConfig(deadline_s=30), fail="closed")
TASK = user("Pay the invoice, then mail 王芳.", "task-1")
CALLS: tuple[tuple[str, str, dict[str, object]], ...] = (
    ("call_0", "pay", {"euro": 7}),
    ("call_1", "mail", {"to": "王芳"}),
)
MOMENTS = [f"{name}: {when}" for _, name, _ in CALLS for when in ("before", "in", "after")]
"""Before a tool has its side effect, when it has and nobody knows, when its run is stored."""


class World:
    """What happens outside: a line for each side effect, which outlives the process."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def effects(self) -> list[str]:
        return self.path.read_text(encoding="utf-8").split() if self.path.exists() else []

    def happen(self, name: str) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"{name}\n")


class Agent:
    """A host's loop; `until` is the moment in which its process is killed."""

    def __init__(self, engine: ContextEngine, world: World, until: str = "") -> None:
        self.engine, self.world, self.until = engine, world, until
        self.app = HostApp(engine, SCOPE)

    def reached(self, moment: str) -> None:
        if moment == self.until:
            os.kill(os.getpid(), signal.SIGKILL)

    def run(self, package: Handover | None = None) -> None:
        """From the task to the answer; what a package says is done is not done again."""
        if package is None:
            prepared = self.app.prepare(TASK)
            self.app.commit(prepared, tool_calls(*CALLS))
        else:
            self.app.requests = 1
            self.app.messages += [TASK, tool_calls(*CALLS)]
        for call_id, name, args in CALLS:
            self.app.messages.append(tool_result(call_id, self.tool(call_id, name, args, package)))
        prepared = self.app.prepare(new_request=False)
        self.app.commit(prepared, assistant("Paid and mailed."))

    def tool(
        self, call_id: str, name: str, args: Mapping[str, object], package: Handover | None
    ) -> str:
        step = package.step_of(call_id) if package is not None else None
        if step is not None and step.status == "done":
            evidence = self.engine.sync.get_evidence(SCOPE, step.evidence_ids[0])
            assert evidence is not None
            return evidence.content
        self.reached(f"{name}: before")
        if step is None or name not in self.world.effects:  # of what is open the world itself knows
            self.world.happen(name)
        self.reached(f"{name}: in")
        run = ToolRun(name, args, f"{name} is done", host_call_id=call_id)
        self.engine.sync.record_tool_run(SCOPE, run, request_id="request-1")
        self.reached(f"{name}: after")
        return run.result


def killed(url: str, world: World, moment: str) -> None:
    Agent(create_context_engine(url, config=PATIENT), world, moment).run()
    os._exit(1)  # it should not have come so far


@pytest.mark.req("B-06", "B-07")
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "memory"])
def test_a_run_is_resumed_without_its_side_effects_twice(
    kind: str, moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with store_url(kind, tmp_path, monkeypatch) as url:
        world = World(tmp_path / "world")
        process = FORK.Process(target=killed, args=(url, world, moment))
        process.start()
        process.join(60)
        assert process.exitcode == -signal.SIGKILL
        engine = create_context_engine(url, config=PATIENT)
        package = engine.sync.handover(SCOPE)
        name, _, when = moment.partition(": ")
        steps = {step.name: step.status for step in package.steps}
        assert steps[name] == ("done" if when == "after" else "open")
        Agent(engine, world).run(package)
        assert world.effects == ["pay", "mail"]
        after = engine.sync.handover(SCOPE)
        assert {step.status for step in after.steps} == {"done"}
        document = engine.sync.get_session(SCOPE)
        assert document is not None
        assert [m.role.value for m in document.session.messages] == [
            "user",
            "assistant",
            "tool",
            "tool",
            "assistant",
        ]
        runs = [call.tool for call in document.session.tool_state.tool_calls]
        assert sorted(runs) == ["mail", "pay"]
        assert engine.sync.verify(SCOPE).status == "intact"
        engine.sync.close()
