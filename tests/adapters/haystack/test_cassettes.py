"""What a real model said through Haystack, recorded once; the same with a live one on request (`-m live`)."""

from __future__ import annotations

import pytest

from tests.cassettes.conversations import LIVE, Conversations, Converse, conversing
from tests.cassettes.haystack_talks import HaystackApp


@pytest.fixture(params=["sync", "async", LIVE])
def converse(request: pytest.FixtureRequest) -> Converse:
    return conversing(HaystackApp, request)


class TestConversations(Conversations):
    pass
