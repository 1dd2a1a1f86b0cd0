"""What a real model said through AutoGen, recorded once; the same with a live one on request (`-m live`)."""

from __future__ import annotations

import pytest

from tests.cassettes.autogen_talks import AutoGenApp
from tests.cassettes.conversations import LIVE, Conversations, Converse, conversing


@pytest.fixture(params=["async", LIVE])
def converse(request: pytest.FixtureRequest) -> Converse:
    return conversing(AutoGenApp, request)


class TestConversations(Conversations):
    pass
