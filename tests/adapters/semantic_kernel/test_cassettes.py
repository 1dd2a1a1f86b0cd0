"""What a real model said through Semantic Kernel, recorded once; the same with a live one on request (`-m live`)."""

from __future__ import annotations

import pytest

from tests.cassettes.conversations import LIVE, Conversations, Converse, conversing
from tests.cassettes.semantic_kernel_talks import SemanticKernelApp


@pytest.fixture(params=["async", LIVE])
def converse(request: pytest.FixtureRequest) -> Converse:
    return conversing(SemanticKernelApp, request)


class TestConversations(Conversations):
    pass
