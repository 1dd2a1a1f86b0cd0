"""What a call used: as the provider told, or estimated and marked; no request is changed to learn it."""

from __future__ import annotations

from typing import Any

import pytest
from autogen_core.models import UserMessage

from ce_integrations import ce_session
from ce_integrations.autogen import install_ce
from ce_integrations.testing.wire import Wire, simple_count
from tests.adapters.autogen.configurations import TASK


@pytest.mark.scenario(6)
@pytest.mark.req("A-24")
@pytest.mark.parametrize("asked", [None, False, True])
async def test_a_stream_tells_its_usage_where_the_app_asks(
    client: Any, engine: Any, stored: Any, asked: bool | None
) -> None:
    given = {} if asked is None else {"include_usage": asked}
    with Wire("An answer. 回答") as wire:
        model = client(wire)
        with install_ce(model, engine=engine), ce_session("s"):
            messages = [UserMessage(content=TASK, source="user")]
            chunks = [chunk async for chunk in model.create_stream(messages, **given)]
        (body,) = wire.bodies
    assert chunks[-1].content == "".join(chunks[:-1]) == "An answer. 回答"
    assert body.get("stream_options") == (None if asked is None else {"include_usage": True})
    (usage,) = stored.document().session.model_usage
    assert bool(usage.params.get("estimated")) is (
        asked is None
    )  # AutoGen takes a False for a True
    assert usage.total_tokens > 0
    assert usage.prompt_tokens == simple_count(body) or asked is None


@pytest.mark.scenario(6)
@pytest.mark.req("A-24")
async def test_a_cache_s_hit_used_nothing(client: Any, engine: Any, stored: Any) -> None:
    """The cache asks the client; it is one call, and a hit none."""
    from autogen_core import InMemoryStore
    from autogen_ext.models.cache import ChatCompletionCache

    with Wire("An answer.") as wire:
        model = ChatCompletionCache(client(wire), InMemoryStore())
        messages, found = [UserMessage(content=TASK, source="user")], []
        with install_ce(model, engine=engine):
            for session_id in ("s", "t"):
                with ce_session(session_id):
                    found.append(await model.create(messages))
        assert len(wire.bodies) == 1
    assert found[1].cached
    (paid,), (free,) = (stored.document(key).session.model_usage for key in ("s", "t"))
    assert (paid.model, free.model) == ("gpt-4", "gpt-4")
    assert paid.prompt_tokens > 0
    assert (free.prompt_tokens, free.completion_tokens) == (0, 0)
    assert [len(stored.turns(key)) for key in ("s", "t")] == [1, 1]
