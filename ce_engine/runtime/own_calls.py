"""The engine's own model calls (summaries): the port that asks for them, and the mark that they carry."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol

from ce_engine.config import SummaryConfig
from ce_engine.errors import ContextEngineError
from ce_engine.ports.llm import LlmAdapter, LlmRequest, LlmResponse
from ce_engine.schema.document import Message, Session, Summary


class Summarizer(Protocol):
    """Makes rolling summaries of one line of conversation, of stored, redacted messages (A-16, B-15).

    Indexes count in the list that is given. What a summary covers already may be left out of the
    list: its `to_index` is -1 then, and the first message is new. No message is to be changed.
    """

    async def should_summarize(self, session: Session, config: SummaryConfig) -> bool:
        """Whether it is time: by the messages after `session.summary`. False if it is switched off."""
        ...

    async def summarize(
        self,
        messages: Sequence[Message],
        existing_summary: Summary | None = None,
        config: SummaryConfig | None = None,
    ) -> Summary:
        """The old summary and messages after it as a new one, of at most `max_summary_tokens`.

        It covers a beginning of the list, maybe not all of it, and never the last
        `preserve_recent_messages`; `to_index` is the last message covered. It ends with a whole turn:
        the message after it, if there is one, is a user's, so that no input begins with an answer.

        Raises:
            SummarizerError: it cannot be made, or nothing is to be covered.
        """
        ...


@dataclass(frozen=True, slots=True)
class OwnCall:
    """A model call that the engine made for itself."""

    request: LlmRequest
    response: LlmResponse


_under_way: ContextVar[list[OwnCall] | None] = ContextVar("ce_own_calls", default=None)


@contextmanager
def own_calls() -> Iterator[list[OwnCall]]:
    """Mark model calls inside as the engine's own; gives those that were noted."""
    calls: list[OwnCall] = []
    token = _under_way.set(calls)
    try:
        yield calls
    finally:
        _under_way.reset(token)


def is_own_call() -> bool:
    """Whether this code runs inside a model call of the engine's own: adapters let it pass unseen."""
    return _under_way.get() is not None


async def ask(
    llm: LlmAdapter, request: LlmRequest, failure: type[ContextEngineError], subject: str
) -> LlmResponse:
    """Make a call of the engine's own, and note what it used; without `own_calls` around, nothing is noted.

    Raises:
        ContextEngineError: of the type `failure`; `subject` failed, and with what, but not its words: they
            may quote what it was asked.
    """
    try:
        response = await llm.generate(request)
    except Exception as error:
        raise failure(
            f"{subject} failed with {type(error).__name__}; look at its LlmAdapter"
        ) from error
    if (calls := _under_way.get()) is not None:
        calls.append(OwnCall(request, response))
    return response
