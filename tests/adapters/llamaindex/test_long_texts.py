"""Texts of a megabyte through the mapper."""

from __future__ import annotations

from tests.adapters.llamaindex.natives import LlamaIndex
from tests.adapters.long_texts import LongTextTests


class TestLongTexts(LlamaIndex, LongTextTests):
    pass
