"""An answer that asks for hundreds of tools at once: each result is linked to its call, and costs what one costs (D-13)."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from ce_engine import (
    MemoryStore,
    ModelCall,
    RuntimeConfig,
    Scope,
    StoreConfig,
    create_context_engine,
)
from ce_engine.testing.host import HostApp, tool_calls, tool_result, user


SCOPE = Scope(session_id="s", user_id="u")
PATIENT = RuntimeConfig(store=StoreConfig(deadline_s=20))


def steps(count: int) -> int:
    """Lines of the recorder that run for the results of so many calls of one answer."""
    engine = create_context_engine(MemoryStore(), config=PATIENT)
    app = HostApp(engine, SCOPE)
    app.commit(
        app.prepare(user("all of them")),
        tool_calls(*((f"c{n}", f"tool-{n}", {"n": n}) for n in range(count))),
    )
    results = [tool_result(f"c{n}", f"result {n}") for n in reversed(range(count))]
    call = ModelCall(SCOPE, [*app.messages, *results], framework="by-hand", request_id="request-1")
    lines = 0

    def step(frame: Any, event: str, _arg: Any) -> Any:
        nonlocal lines
        if "turns/record/linked_records" not in frame.f_code.co_filename.replace("\\", "/"):
            return None
        lines += event == "line"
        return step

    async def prepared() -> None:
        before = sys.gettrace()
        sys.settrace(step)
        try:
            await engine.prepare(call)
        finally:
            sys.settrace(before)

    engine.loop.run(prepared())
    assert engine.sync.flush()
    document = engine.sync.get_session(SCOPE)
    assert document is not None
    stored = {each.tool: each for each in document.session.tool_state.tool_calls}
    assert len(stored) == count
    for n in (0, count // 2, count - 1):
        (evidence_id,) = stored[f"tool-{n}"].result_evidence_ids
        assert stored[f"tool-{n}"].args_digest == {"n": n}
        assert document.evidences[evidence_id].content == f"result {n}"
    engine.sync.close()
    return lines


@pytest.mark.req("D-13")
def test_a_result_of_many_costs_what_one_of_few_does() -> None:
    few, many = steps(50), steps(400)
    assert few > 0
    assert many < 10 * few  # 8 times as many
