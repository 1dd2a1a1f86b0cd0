"""Whatever was said, summarised and left out by hand: no input begins with an assistant's message (A-16)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ce_engine import (
    BudgetConfig,
    CharBasedEstimator,
    MemoryStore,
    Message,
    PrepareResult,
    Role,
    RuntimeConfig,
    SummaryConfig,
    ToolRequest,
    create_context_engine,
)
from ce_engine.testing import MockLlmAdapter


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["ask", "ask", "tools", "fail", "broken off", "again", "summarize"]),
        st.integers(0, 60),
    ),
    min_size=8,
    max_size=20,
)


class ByHand:
    """Somebody who calls a model without a framework, in a small budget."""

    def __init__(self, preserved: int, window: int) -> None:
        summary = SummaryConfig(
            max_summary_tokens=40, trigger_message_count=5, preserve_recent_messages=preserved
        )
        budget = BudgetConfig(max_input_tokens=window, reserved_reply_tokens=0)
        self.engine = create_context_engine(
            MemoryStore(),
            CharBasedEstimator(),
            MockLlmAdapter([f"summary-{n}" for n in range(99)]),
            RuntimeConfig(summary=summary, budget=budget),
        )
        self.sync = self.engine.sync
        self.last = ("", "")
        self.inputs = 0

    def see(self, result: PrepareResult) -> None:
        parts = [p for p in result.assembled_input.parts if p.role is not Role.SYSTEM]
        assert parts[0].role is Role.USER, [(p.role, p.content[:20]) for p in parts]
        self.inputs += 1

    def ask(self, text: str, request_id: str) -> None:
        question = Message(role=Role.USER, content=text)
        self.see(self.sync.prepare_turn("s", question, request_id=request_id))

    def say(self, text: str, calls: list[ToolRequest] | None = None) -> None:
        answer = Message(role=Role.ASSISTANT, content=text, tool_calls=calls)
        self.sync.commit_assistant_message("s", answer)

    def step(self, n: int, kind: str, words: int) -> None:
        text, request = f"q{n} " + "水 word " * words, f"r{n}"
        if kind == "summarize":
            self.sync.summarize("s")
            return
        if kind == "again" and self.last[0]:
            text, request = self.last
        self.ask(text, request)
        self.last = text, request
        if kind == "fail":
            self.sync.fail_turn("s", "timeout")
            return
        if kind == "broken off":
            self.sync.commit_assistant_chunk("s", f"half of a{n}", 0)
            self.sync.finalize_assistant_message("s", complete=False)
            return
        for step in range(words % 4 if kind == "tools" else 0):
            self.say("", [ToolRequest(id=f"c{n}.{step}", name="look", args={})])
            result = Message(role=Role.TOOL, content="found " * words, tool_call_id=f"c{n}.{step}")
            self.see(self.sync.prepare_turn("s", result))
        self.say(f"a{n} " + "answer " * words)
        assert self.sync.flush(20)


@pytest.mark.req("A-16", "A-13")
@pytest.mark.parametrize("preserved", [0, 1, 2, 3, 5])
def test_no_input_begins_with_an_answer(preserved: int) -> None:
    @settings(max_examples=6)
    @given(STEPS, st.sampled_from([120, 400, 1500]))
    def check(steps: list[tuple[str, int]], window: int) -> None:
        app = ByHand(preserved, window)
        for n, (kind, words) in enumerate(steps):
            app.step(n, kind, words)
        app.sync.close()

    check()
