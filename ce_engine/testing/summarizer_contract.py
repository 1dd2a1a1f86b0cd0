"""What every summarizer must do, as tests: subclass `SummarizerContract` and give it a `summarizer` fixture (A-27)."""

from __future__ import annotations

import pytest

from ce_engine.config import SummaryConfig
from ce_engine.errors import SummarizerError
from ce_engine.runtime.own_calls import Summarizer
from ce_engine.schema.document import Message, MessageIndexRange, Session, Summary, ToolRequest
from ce_engine.schema.enums import Role
from ce_engine.text.tokens import CharBasedEstimator


CONFIG = SummaryConfig(
    max_summary_tokens=40,
    trigger_message_count=6,
    trigger_token_threshold=400,
    preserve_recent_messages=2,
)


def conversation(count: int, words: int = 5) -> list[Message]:
    """Questions and answers in turn, numbered from 0."""
    text = "the harbour 港口 was quiet; " * words
    roles = (Role.USER, Role.ASSISTANT)
    return [Message(role=roles[n % 2], content=f"{n}: {text}") for n in range(count)]


def with_tools(results: int) -> list[Message]:
    """A question, an answer that asks for tools, their results, and the end."""
    calls = [ToolRequest(name="look", id=f"c{n}", args={"n": n}) for n in range(results)]
    return [
        Message(role=Role.USER, content="what is there?"),
        Message(role=Role.ASSISTANT, content="", tool_calls=calls),
        *(Message(role=Role.TOOL, content=f"ship {c.id}", tool_call_id=c.id) for c in calls),
        Message(role=Role.ASSISTANT, content="ships"),
    ]


def summary(to_index: int, content: str = "They met in the harbour.") -> Summary:
    """A summary of the messages up to this one."""
    covered = MessageIndexRange(from_index=min(0, to_index), to_index=to_index)
    return Summary(content=content, updated_at="2026-01-01T00:00:00Z", message_index_range=covered)


def session(messages: list[Message], existing: Summary | None = None) -> Session:
    """A session of these messages."""
    return Session(session_id="s", messages=messages, summary=existing)


class SummarizerContract:
    """Everything that `Summarizer` promises.

    A subclass gives a fixture `summarizer`; its model may answer anything but nothing.
    """

    pytestmark = pytest.mark.anyio

    async def test_a_short_conversation_needs_none(self, summarizer: Summarizer) -> None:
        for count in range(6):
            assert not await summarizer.should_summarize(session(conversation(count, 1)), CONFIG)

    async def test_many_messages_need_one(self, summarizer: Summarizer) -> None:
        assert await summarizer.should_summarize(session(conversation(7, 1)), CONFIG)

    async def test_many_tokens_need_one(self, summarizer: Summarizer) -> None:
        assert await summarizer.should_summarize(session(conversation(5, 60)), CONFIG)

    async def test_what_is_covered_counts_no_more(self, summarizer: Summarizer) -> None:
        messages = conversation(20, 1)
        assert not await summarizer.should_summarize(session(messages, summary(15)), CONFIG)
        assert await summarizer.should_summarize(session(messages, summary(9)), CONFIG)
        assert not await summarizer.should_summarize(session(messages[16:], summary(-1)), CONFIG)

    async def test_switched_off_none_is_needed(self, summarizer: Summarizer) -> None:
        off = CONFIG.model_copy(update={"enabled": False})
        assert not await summarizer.should_summarize(session(conversation(40)), off)

    @pytest.mark.parametrize("count", [4, 8, 60])
    async def test_the_last_messages_are_not_covered(
        self, summarizer: Summarizer, count: int
    ) -> None:
        new_summary = await summarizer.summarize(conversation(count), None, CONFIG)
        covered = new_summary.message_index_range
        assert covered.from_index == 0
        assert 0 <= covered.to_index <= count - 3
        assert new_summary.content
        assert new_summary.updated_at

    async def test_it_goes_on_where_the_old_one_ended(self, summarizer: Summarizer) -> None:
        messages = conversation(12)
        new_summary = await summarizer.summarize(messages, summary(5), CONFIG)
        assert 6 <= new_summary.message_index_range.to_index <= 9
        assert new_summary.message_index_range.from_index == 0
        rest = await summarizer.summarize(messages[6:], summary(-1), CONFIG)
        assert 0 <= rest.message_index_range.to_index <= 3

    @pytest.mark.parametrize("results", [1, 2, 3, 4])
    async def test_it_ends_with_a_whole_turn(self, summarizer: Summarizer, results: int) -> None:
        """So that what goes out beside it begins with a question, and no result is without its call."""
        for preserved in range(results + 4):
            config = CONFIG.model_copy(update={"preserve_recent_messages": preserved})
            messages = [*conversation(2), *with_tools(results)]
            new_summary = await summarizer.summarize(messages, None, config)
            after = messages[new_summary.message_index_range.to_index + 1 :]
            assert [m.role for m in after[:1]] in ([], [Role.USER])
            assert len(after) >= preserved

    async def test_it_is_no_longer_than_it_may(self, summarizer: Summarizer) -> None:
        new_summary = await summarizer.summarize(conversation(30, 40), None, CONFIG)
        assert (
            0
            < CharBasedEstimator().estimate_text(new_summary.content)
            <= CONFIG.max_summary_tokens * 2
        )

    async def test_nothing_to_cover_is_an_error(self, summarizer: Summarizer) -> None:
        for messages, existing in (
            ([], None),
            (conversation(2), None),
            (conversation(8), summary(5)),
        ):
            with pytest.raises(SummarizerError):
                await summarizer.summarize(messages, existing, CONFIG)

    async def test_messages_stay_as_they_are(self, summarizer: Summarizer) -> None:
        messages = [*conversation(6), *with_tools(2)]
        before = [message.model_copy(deep=True) for message in messages]
        await summarizer.should_summarize(session(messages), CONFIG)
        await summarizer.summarize(messages, None, CONFIG)
        assert messages == before
