"""What tests are told of a release is so."""

from __future__ import annotations

from llama_index.core.base.llms import types

from tests.adapters.llamaindex.releases import HAS


def test_what_a_release_has_is_what_is_seen() -> None:
    assert HAS["call_blocks"] == hasattr(types, "ToolCallBlock")
