"""What a real model said through LlamaIndex, recorded once; the same with a live one on request (`-m live`)."""

from __future__ import annotations

import pytest

from tests.cassettes.conversations import LIVE, Conversations, Converse, conversing
from tests.cassettes.llamaindex_talks import LlamaIndexApp


@pytest.fixture(params=["sync", "async", LIVE])
def converse(request: pytest.FixtureRequest) -> Converse:
    return conversing(LlamaIndexApp, request)


class TestConversations(Conversations):
    pass
