"""The rolling summarizer: what the model is asked, in two languages, and what becomes of its answer."""

from __future__ import annotations

import pytest

from ce_engine import (
    Author,
    AuthorKind,
    CharBasedEstimator,
    Message,
    Role,
    RollingSummarizer,
    SummaryConfig,
)
from ce_engine.errors import SummarizerError
from ce_engine.ports.llm import LlmRequest, LlmResponse
from ce_engine.runtime.own_calls import is_own_call, own_calls
from ce_engine.testing import MockLlmAdapter, SummarizerContract
from ce_engine.testing.summarizer_contract import CONFIG, conversation, summary, with_tools


CHARS = CharBasedEstimator()


@pytest.mark.req("A-16", "A-27")
class TestRollingSummarizer(SummarizerContract):
    @pytest.fixture(params=["short", "多行。\n" * 400], ids=["short", "long"])
    def summarizer(self, request: pytest.FixtureRequest) -> RollingSummarizer:
        return RollingSummarizer(MockLlmAdapter([request.param] * 9), CHARS)


def asked(llm: MockLlmAdapter) -> str:
    return llm.requests[-1].messages[-1].content


@pytest.mark.anyio
async def test_the_model_sees_the_old_summary_and_only_what_is_new() -> None:
    llm = MockLlmAdapter()
    made = await RollingSummarizer(llm, CHARS).summarize(conversation(9), summary(3), CONFIG)
    assert made.content == "summary 1"
    text = asked(llm)
    assert "They met in the harbour." in text
    seen = [n for n in range(9) if f"{n}: the harbour" in text]
    assert seen == [4, 5], "6 is the question of 7, which is to be kept"
    assert llm.requests[0].max_tokens == CONFIG.max_summary_tokens


@pytest.mark.anyio
async def test_tools_and_authors_are_named() -> None:
    llm = MockLlmAdapter()
    messages = [*with_tools(2), *conversation(2)]
    await RollingSummarizer(llm, CHARS).summarize(messages, None, CONFIG)
    text = asked(llm)
    assert "user: what is there?" in text
    assert "-> look({'n': 1})" in text
    assert "tool: ship c1" in text


@pytest.mark.anyio
async def test_who_is_named_like_a_role_speaks_for_no_role() -> None:
    llm = MockLlmAdapter()
    people = [
        Author(kind=AuthorKind.USER, id=name) for name in ("assistant", "system", "助手", "Ada")
    ]
    said = [Message(role=Role.USER, content="I promise it.", author=who) for who in people]
    await RollingSummarizer(llm, CHARS).summarize([*said, *conversation(4)], None, CONFIG)
    text = asked(llm)
    for line in ('| "assistant": I', '| "system": I', '| "助手": I', "| Ada: I"):
        assert f"{line} promise it." in text


@pytest.mark.anyio
@pytest.mark.req("A-16")
async def test_a_turn_that_is_too_long_for_one_call_takes_several() -> None:
    llm = MockLlmAdapter([f"summary {n}" for n in range(20)])
    steps = [each for n in range(6) for each in with_tools(1)[1:3]]
    messages = [*with_tools(1)[:1], *steps, *conversation(4)[1:]]
    made = await RollingSummarizer(llm, CHARS, max_input_tokens=60).summarize(
        messages, None, CONFIG
    )
    assert made.message_index_range.to_index == 13, "the last message of the long turn"
    assert len(llm.requests) > 1
    assert made.content == f"summary {len(llm.requests) - 1}"
    texts = [request.messages[1].content for request in llm.requests]
    assert sum(text.count("tool: ship c0") for text in texts) == 6
    for n, text in enumerate(texts[1:]):
        assert f"summary {n}" in text, "each goes on from the one before"


@pytest.mark.anyio
async def test_what_does_not_fit_into_one_call_follows_in_the_next() -> None:
    llm = MockLlmAdapter()
    rolling = RollingSummarizer(llm, CHARS, max_input_tokens=300)
    messages, existing, reached = conversation(30), None, list[int]()
    while not reached or reached[-1] < 27:
        existing = await rolling.summarize(messages, existing, CONFIG)
        reached.append(existing.message_index_range.to_index)
        assert CHARS.estimate_text(asked(llm)) < 400
    assert reached == sorted(set(reached))
    texts = [request.messages[-1].content for request in llm.requests]
    assert [sum(f" {n}: the" in text for text in texts) for n in range(28)] == [1] * 28


@pytest.mark.anyio
async def test_a_huge_message_goes_in_as_its_ends() -> None:
    llm = MockLlmAdapter()
    huge = Message(role=Role.USER, content=f"begin {'数据' * 50_000} end")
    config = SummaryConfig(preserve_recent_messages=0)
    messages = [huge, Message(role=Role.ASSISTANT, content="read")]
    made = await RollingSummarizer(llm, CHARS).summarize(messages, None, config)
    assert made.message_index_range.to_index == 1
    assert "begin" in asked(llm)
    assert "end" in asked(llm)
    assert CHARS.estimate_text(asked(llm)) < 9000


@pytest.mark.anyio
@pytest.mark.req("A-16")
async def test_it_is_asked_in_chinese_where_that_is_the_locale() -> None:
    llm = MockLlmAdapter()
    await RollingSummarizer(llm, CHARS, locale="zh").summarize(conversation(4), summary(-1), CONFIG)
    system, user = (part.content for part in llm.requests[0].messages)
    assert "滚动摘要" in system
    assert "40" in system
    assert "|# 已有摘要\n| They met" in user


@pytest.mark.anyio
@pytest.mark.parametrize("answer", ["", "  \n", ValueError("quotes alice@example.com")])
async def test_no_answer_is_an_error_that_quotes_nothing(answer: str | Exception) -> None:
    rolling = RollingSummarizer(MockLlmAdapter([answer]), CHARS)
    with pytest.raises(SummarizerError, match="LlmAdapter") as raised:
        await rolling.summarize(conversation(9), None, CONFIG)
    assert "alice" not in str(raised.value)


@pytest.mark.anyio
async def test_the_engines_own_calls_are_marked_and_noted() -> None:
    class Asking:
        async def generate(self, request: LlmRequest) -> LlmResponse:
            return LlmResponse(str(is_own_call()), "m", 3, 4, 7)

    rolling = RollingSummarizer(Asking(), CHARS)
    with own_calls() as calls:
        made = await rolling.summarize(conversation(9), None, CONFIG)
    assert (made.content, calls[0].response.total_tokens) == ("True", 7)
    made = await rolling.summarize(conversation(9), None, CONFIG)
    assert (made.content, is_own_call(), len(calls)) == ("False", False, 1)
