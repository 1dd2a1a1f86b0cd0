"""Whatever a host does: each human message goes out once, or its summary does, and none is summarised twice."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ce_engine import MemoryStore, SummaryConfig
from ce_engine.testing import MockLlmAdapter
from ce_engine.testing.host import HostApp, assistant, user
from tests.hosts.summary_host import SCOPE, Forgetful, config, make, sent, told


STEPS = st.lists(
    st.sampled_from(["ask", "ask", "ask", "restart", "summarize", "fail"]), max_size=30
)
NAMES = re.compile(r"q\d+\.")


def run(steps: list[str], kind: type[HostApp], preserved: int) -> None:
    llm, store = MockLlmAdapter([f"summary-{n}" for n in range(99)]), MemoryStore()
    small = SummaryConfig(
        max_summary_tokens=50, trigger_message_count=4, preserve_recent_messages=preserved
    )
    settings_ = config(summary=small)
    engine = make(store, llm, settings_)
    app, asked = kind(engine, SCOPE), list[str]()
    for n, step in enumerate(steps):
        if step == "restart":
            assert engine.sync.flush(20)
            engine = make(store, llm, settings_)
            messages, app = app.messages, kind(engine, SCOPE, requests=app.requests)
            app.messages = messages
        elif step == "summarize":
            engine.sync.summarize(SCOPE)
        elif step == "fail":
            prepared = app.prepare(user(f"lost {n}"))
            engine.sync.fail(prepared.turn, "E")
            app.messages.pop()
        else:
            question = f"q{n}."
            prepared = app.prepare(user(question))
            check(sent(prepared), [*asked, question], told(llm), kind is Forgetful)
            asked.append(question)
            app.commit(prepared, assistant("fine"))
            assert engine.sync.flush(20)
    given_ = [name for text in told(llm) for name in NAMES.findall(text)]
    assert len(given_) == len(set(given_))
    assert "lost" not in "".join(told(llm))
    engine.sync.close()


def check(text: str, asked: list[str], summarised: list[str], forgetful: bool) -> None:
    went_out = NAMES.findall(text)
    assert len(went_out) == len(set(went_out))
    if not forgetful:
        assert went_out == asked
        assert "summary-" not in text
        return
    covered = {name for said in summarised for name in NAMES.findall(said)}
    assert covered.isdisjoint(went_out)
    assert covered | set(went_out) == set(asked)
    assert [name for name in asked if name in went_out] == went_out
    assert text.count("summary-") == bool(covered)
    if covered:
        assert f"summary-{len(summarised) - 1}" in text


@pytest.mark.req("A-16", "E-06")
@pytest.mark.parametrize("kind", [HostApp, Forgetful], ids=["keeps-all", "keeps-nothing"])
@pytest.mark.parametrize("preserved", [0, 3])
def test_every_human_message_goes_out_once_or_is_covered(
    kind: type[HostApp], preserved: int
) -> None:
    @settings(max_examples=12)
    @given(STEPS)
    def check_all(steps: list[str]) -> None:
        run(steps, kind, preserved)

    check_all()
