"""What a real model said, recorded once; the same conversations with a live one on request (`-m live`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from langchain_core.messages.ai import UsageMetadata

from ce_engine import EvidenceType, ModelUsage, SessionDocument
from tests.cassettes.langchain_talks import SMALL, Talk, hold
from tests.cassettes.tapes import NOWHERE, tape


Converse = Callable[[str], Talk]
ROLES = {"human": "user", "ai": "assistant", "AIMessageChunk": "assistant", "tool": "tool"}


@pytest.fixture(
    params=[
        "sync",
        "async",
        pytest.param("live", marks=[pytest.mark.live, pytest.mark.timeout(1200)]),
    ]
)
def converse(request: pytest.FixtureRequest) -> Converse:
    """Have one of the recorded conversations: as it was, or with the model that there is."""

    def live(name: str) -> Talk:
        return hold(name, request.config.getoption("--base-url"))

    def replayed(name: str) -> Talk:
        with tape(f"langchain/{name}") as cassette:
            talk = hold(name, f"{NOWHERE}/v1", asynchronous=request.param == "async")
        assert cassette.all_played
        return talk

    return live if request.param == "live" else replayed


def recorded(talk: Talk) -> SessionDocument:
    """The session; all that was said is in it, word for word, whatever was sent."""
    assert talk.document is not None
    said = [message for message in talk.history if message.type != "system"]
    kept = talk.document.session.messages
    assert [message.content for message in kept] == [message.content for message in said]
    assert [m.role for m in kept] == [ROLES[m.type] for m in said]
    return talk.document


def usages(talk: Talk) -> Iterator[tuple[ModelUsage, UsageMetadata | None]]:
    """What is recorded of each call, and what the app was told."""
    kept = recorded(talk).session.model_usage
    for usage, answer in zip(kept, talk.answers, strict=True):
        yield usage, answer.usage_metadata


@pytest.mark.req("A-11", "A-14")
def test_a_conversation_over_budget(converse: Converse) -> None:
    talk = converse("chat")
    assert all(answer.content for answer in talk.answers)
    left_out = [report.get("dropped", 0) for report in talk.reports]
    assert left_out[0] == 0
    assert left_out[-1] > 0
    for usage, told in usages(talk):
        assert told is not None
        assert "estimated" not in usage.params
        assert (usage.prompt_tokens, usage.completion_tokens) == (
            told["input_tokens"],
            told["output_tokens"],
        )
        assert 0 < usage.prompt_tokens <= SMALL.max_input_tokens - SMALL.reserved_reply_tokens


@pytest.mark.req("A-14")
def test_a_stream_over_budget(converse: Converse) -> None:
    talk = converse("stream")
    assert all(answer.content for answer in talk.answers)
    assert talk.reports[-1]["dropped"] > 0
    for usage, told in usages(talk):
        assert told is None
        assert usage.params["estimated"] is True
        assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens > 0
        assert usage.first_token_latency_ms is not None


def test_a_conversation_in_chinese(converse: Converse) -> None:
    talk = converse("chinese")
    question, answer = recorded(talk).session.messages
    assert question.content == "你好！请用一句话介绍北京。🙂"
    assert answer.content == talk.answers[0].content
    assert answer.content


@pytest.mark.req("A-03")
def test_a_tool_call_and_its_result(converse: Converse) -> None:
    talk = converse("tools")
    document = recorded(talk)
    (asked,) = talk.answers[0].tool_calls
    (call,) = document.session.tool_state.tool_calls
    assert (call.tool, call.args_digest) == ("weather", asked["args"])
    (result,) = (e for e in document.evidences.values() if e.type is EvidenceType.TOOL_RESULT)
    assert result.links.tool_call_id == call.tool_call_id
    assert result.content == f"{asked['args']['city']}: 晴, 21 degrees"
